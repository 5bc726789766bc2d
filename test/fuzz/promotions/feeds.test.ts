/**
 * Random feeds: the fold agrees with a second computation, written naively from docs/rules.md, for every
 * order of arrival and every division into slices.
 */
import { makeRandom, type Random } from '../../../dev/random';
import { judge } from '../../../src/domain/verdict/judge';
import type { CompletionEntry } from '../../../src/promotions/completion';
import type { PromotionVersion } from '../../../src/promotions/counting';
import { PROMOTION_TYPES } from '../../../src/promotions/definition';
import { FileLedger } from '../../../src/promotions/file-ledger';
import { PromotionFold } from '../../../src/promotions/fold';
import { ranking } from '../../../src/promotions/ranking';
import {
  DAILY_RACE,
  eventBytes,
  type Feed,
  type FeedEvent,
  type FlowId,
  feedOf,
  HOUR_MS,
  nameOf,
  stateOf,
  VERSIONS,
} from '../../support/promotion-feeds';
import { definitionsOf, micros, versionsOf } from '../../support/promotions';

const SEEDS = Array.from({ length: 60 }, (_, index) => index + 1);
/** Folds a feed in an order of arrival. A slice ends after each step with the given chance. */
function foldFeed({ events, credits }: Feed, random: Random, sliceChance: number) {
  const ledger = new FileLedger({ operatorId: 'acme', feedId: 'acme' });
  const fold = new PromotionFold(VERSIONS);
  const entries: CompletionEntry[] = [];
  const steps = random.shuffled([...events, ...credits]);
  let changeNo = 0;
  for (const step of steps) {
    if ('roundId' in step) fold.creditRound(step, changeNo, micros('2026-11-10T00:00:00Z'));
    else {
      const judged = judge({ type: 'json', bytes: eventBytes(step) }, undefined);
      if (judged.type !== 'keyed') throw new Error('an event without key');
      for (const row of ledger.decide(judged, BigInt(step.decidedAt) * 1000n).rows) {
        changeNo = row.changeNo;
        fold.take(row);
      }
    }
    if (random.chance(sliceChance)) entries.push(...fold.endSlice(0n));
  }
  entries.push(...fold.endSlice(0n));
  return { fold, entries };
}

/** Folds a feed in the order of its decisions. Slices end at random, at the time of their last row. */
function foldInTime(
  { events, credits }: Feed,
  versions: readonly PromotionVersion[],
  random: Random,
  sliceChance: number,
): PromotionFold {
  const ledger = new FileLedger({ operatorId: 'acme', feedId: 'acme' });
  const fold = new PromotionFold(versions);
  const left = [...credits];
  let changeNo = 0;
  let at = 0n;
  for (const event of [...events].sort((a, b) => a.decidedAt - b.decidedAt)) {
    const judged = judge({ type: 'json', bytes: eventBytes(event) }, undefined);
    if (judged.type !== 'keyed') throw new Error('an event without key');
    for (const row of ledger.decide(judged, BigInt(event.decidedAt) * 1000n).rows) {
      ({ changeNo, enteredAt: at } = row);
      fold.take(row);
    }
    if (event.id.endsWith('3'))
      for (const credit of left.splice(0, 1)) fold.creditRound(credit, changeNo + 0.5, at);
    if (random.chance(sliceChance)) fold.endSlice(at);
  }
  fold.endSlice(at);
  return fold;
}

// --- the second computation

const warsaw = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Warsaw', dateStyle: 'short' });
const timeOf = ({ at, decidedAt }: FeedEvent) => Math.min(at, decidedAt);
const mondayOf = (time: number) => {
  const date = new Date(time);
  date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, 10);
};
const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
const sumOf = (events: readonly FeedEvent[], currency: string) =>
  sum(events.filter((each) => each.currency === currency).map(({ amount }) => amount));
const isOf = (games: readonly (string | null)[]) => (event: FeedEvent) => games.includes(event.game);

/** The window of an event, and the worth of a player's events in a window. */
const NAIVE: Readonly<
  Record<
    FlowId,
    { window: (event: FeedEvent) => string | null; worth: (events: readonly FeedEvent[]) => number }
  >
> = {
  streak: {
    window: ({ kind }) => (kind === 'login' ? 'once' : null),
    worth: (events) => {
      const days = [...new Set(events.map((event) => warsaw.format(timeOf(event))))].sort();
      let worth = 0;
      let run = 0;
      for (const [index, day] of days.entries()) {
        const before = new Date(Date.parse(day) - 24 * HOUR_MS).toISOString().slice(0, 10);
        run = days[index - 1] === before ? run + 1 : 1;
        if (run % 3 === 0) worth++;
      }
      return worth;
    },
  },
  deposits: {
    window: ({ kind }) => (kind === 'deposit' ? 'once' : null),
    worth: (events) => Math.floor(sumOf(events, 'EUR') / 900) + Math.floor(sumOf(events, 'USD') / 750),
  },
  withdrawals: {
    window: ({ kind, brand }) => (kind === 'withdrawal' && brand === 'main' ? 'once' : null),
    worth: (events) => (sumOf(events, 'EUR') >= 500 ? 1 : 0),
  },
  turnover: {
    window: (event) => {
      const { kind, game, currency, amount, decidedAt } = event;
      const monday = mondayOf(timeOf(event));
      const isLate = decidedAt >= Date.parse(monday) + (7 * 24 + 36) * HOUR_MS;
      const isSmall = currency === 'EUR' && amount < 40;
      return kind !== 'bet' || isLate || isSmall || !['g1', 'g2'].includes(game ?? '') ? null : monday;
    },
    worth: (events) => Math.floor(sumOf(events, 'EUR') / 600) + Math.floor(sumOf(events, 'USD') / 400),
  },
  bets: {
    window: (event) => (event.kind === 'bet' ? warsaw.format(timeOf(event)) : null),
    worth: (events) => Math.floor(events.length / 4),
  },
  rounds: {
    window: (event) => {
      const time = timeOf(event);
      const isInside = time >= Date.parse('2026-10-22T00:00Z') && time < Date.parse('2026-10-28T12:00Z');
      return event.kind === 'settled' && isInside ? 'once' : null;
    },
    worth: (events) => (events.length >= 3 ? 1 : 0),
  },
  gems: {
    window: ({ kind }) => (kind === 'settled' ? 'once' : null),
    worth: (events) =>
      Math.min(
        Math.floor(events.filter(isOf(['g1'])).length / 2),
        Math.floor(Math.floor(sumOf(events.filter(isOf(['g2', 'g3'])), 'EUR') / 70) / 2),
      ),
  },
  race: {
    window: ({ kind }) => (kind === 'bet' || kind === 'settled' ? 'once' : null),
    worth: (events) => {
      const bets = events.filter(({ kind }) => kind === 'bet');
      return 3 * Math.floor(sumOf(bets, 'EUR') / 80) + (events.length - bets.length);
    },
  },
};

/** "deposits once p1: 2" for each worth above 0. */
function naively({ events, credits }: Feed): string[] {
  const unique = [...new Map(events.map((event) => [event.id, event])).values()];
  const refunded = new Set(unique.filter(({ kind }) => kind === 'refund').map(({ round }) => round));
  const counted = unique.filter(
    ({ kind, round, amount }) =>
      (round === null || !refunded.has(round)) && !(amount === 0 && ['bet', 'settled'].includes(kind)),
  );
  const playerOf = ({ round, player, brand }: FeedEvent) => {
    const credit = credits.find(({ roundId }) => roundId === round);
    return credit !== undefined && (credit.brand ?? brand) === brand ? credit.playerRef : player;
  };
  return Object.entries(NAIVE)
    .flatMap(([id, { window, worth }]) => {
      const groups = new Map<string, FeedEvent[]>();
      for (const event of counted) {
        const key = window(event);
        if (key === null) continue;
        const name = `${id} ${key} ${playerOf(event)}`;
        groups.set(name, [...(groups.get(name) ?? []), event]);
      }
      return [...groups]
        .map(([name, own]) => [name, worth(own)] as const)
        .filter(([, found]) => found > 0)
        .map(([name, found]) => `${name}: ${found}`);
    })
    .sort();
}

// --- comparison

function worthOf(fold: PromotionFold): string[] {
  return [...fold.progress()]
    .map((each) => [nameOf(each), each.attained + Number(each.score)] as const)
    .filter(([, worth]) => worth > 0)
    .map(([name, worth]) => `${name}: ${worth}`)
    .sort();
}

test('feeds have a promotion of every type', () => {
  const types = VERSIONS.map(({ promotion }) => promotion.definition.type);
  expect(PROMOTION_TYPES.filter((type) => !types.includes(type))).toEqual([]);
});

describe('each random feed', () => {
  test('is worth as much as a second computation says [P1] [P2] [P3] [P5] [P6] [P7] [P8] [P9] [P10] [P11] [P13]', () => {
    let compared = 0;
    for (const seed of SEEDS) {
      const feed = feedOf(makeRandom(seed));
      const { fold } = foldFeed(feed, makeRandom(seed), 0.1);
      const expected = naively(feed);
      expect({ seed, worth: worthOf(fold) }).toEqual({ seed, worth: expected });
      compared += expected.length;
    }
    expect(compared).toBeGreaterThan(300);
  });

  test('gives the same state in every order of arrival and in all slices [P16] [R1]', () => {
    for (const seed of SEEDS) {
      const feed = feedOf(makeRandom(seed));
      const [first, ...others] = [0, 0.05, 0.5, 1].map((sliceChance, index) =>
        stateOf(foldFeed(feed, makeRandom(seed * 7 + index), sliceChance).fold),
      );
      for (const state of others) expect({ seed, state }).toEqual({ seed, state: first });
    }
  });

  test('gives the same ranks for the same order, in all slices [P10] [P16]', () => {
    for (const seed of SEEDS) {
      const feed = feedOf(makeRandom(seed));
      const ranksOf = (sliceChance: number) => {
        // The same order: the shuffle is the first use of the seed.
        const { fold } = foldFeed(feed, makeRandom(seed), sliceChance);
        const board = [...fold.progress()].filter(({ promotion }) => promotion.definition.id === 'race');
        const [any] = board;
        if (any === undefined) return [];
        return ranking(any.promotion, board).map(({ playerRef, scoredNo }) => `${playerRef} ${scoredNo}`);
      };
      expect({ seed, ranks: ranksOf(1) }).toEqual({ seed, ranks: ranksOf(0) });
    }
  });

  test('gives completions with the same ids in all slices [P12] [P15] [P16]', () => {
    const daily = versionsOf(definitionsOf(DAILY_RACE));
    let again = 0;
    for (const seed of SEEDS) {
      const feed = feedOf(makeRandom(seed));
      const idsOf = (sliceChance: number) => {
        const fold = foldInTime(feed, [...VERSIONS, ...daily], makeRandom(seed * 7), sliceChance);
        return [...fold.progress()]
          .flatMap((each) => [...fold.completionsOf(each).values()])
          .map(({ key, completionId }) => `${key.promotionId} ${key.attempt} ${completionId}`)
          .sort();
      };
      const [first, ...others] = [0, 0.05, 0.5, 1].map(idsOf);
      for (const ids of others) expect({ seed, ids }).toEqual({ seed, ids: first });
      again += first?.filter((text) => !text.includes(' 1 ')).length ?? 0;
    }
    // Completions that were revoked and attained again.
    expect(again).toBeGreaterThan(20);
  });

  test('alternates completions with revocations, and their net is what holds [P12]', () => {
    for (const seed of SEEDS) {
      const { fold, entries } = foldFeed(feedOf(makeRandom(seed)), makeRandom(seed), 0.5);
      const changes = new Map<string, string>();
      const ordinals = new Map<string, string>();
      for (const { change, completionId, promotionId, playerRef, window, ordinal } of entries) {
        expect([seed, change, changes.get(completionId)]).toEqual(
          change === 'completed' ? [seed, 'completed', undefined] : [seed, 'revoked', 'completed'],
        );
        changes.set(completionId, change);
        ordinals.set(`${promotionId} ${window} ${playerRef} ${ordinal}`, change);
      }
      const holding = [...ordinals].filter(([, change]) => change === 'completed').map(([name]) => name);
      const held = [...fold.progress()].flatMap((each) =>
        [...fold.completionsOf(each).keys()].map((ordinal) => `${nameOf(each)} ${ordinal}`),
      );
      expect({ seed, holding: holding.sort() }).toEqual({ seed, holding: held.sort() });
    }
  });
});
