/** Random feeds of events for promotions of all types, and the state of a fold as text. */
import type { Random } from '../../dev/random';
import type { PromotionFold } from '../../src/promotions/fold';
import type { RoundCredit } from '../../src/promotions/ledger-entry';
import type { PlayerProgress } from '../../src/promotions/player-progress';
import { definitionsOf, versionsOf } from './promotions';

export const HOUR_MS = 3_600_000;
const START = Date.parse('2026-10-20T00:00:00Z');

export interface FeedEvent {
  readonly id: string;
  readonly kind: string;
  readonly player: string;
  readonly brand: string;
  readonly round: string | null;
  readonly game: string | null;
  /** Cents. */
  readonly amount: number;
  readonly currency: string;
  readonly at: number;
  readonly decidedAt: number;
}

export interface Feed {
  readonly events: readonly FeedEvent[];
  readonly credits: readonly RoundCredit[];
}

export const FLOWS = {
  streak: 'id: streak, type: login_streak, days: 3, completes: each, time_zone: Europe/Warsaw',
  deposits: 'id: deposits, type: deposit_target, target: { EUR: "9.00", USD: "7.50" }, completes: each',
  withdrawals: 'id: withdrawals, type: withdrawal_target, target: { EUR: "5.00" }, brands: [main]',
  turnover:
    'id: turnover, type: turnover_target, games: [g1, g2], min_amount: { EUR: "0.40" }, target: { EUR: "6.00", USD: "4.00" }, completes: each, window: { every: week }, time_zone: UTC, accepts_late: PT36H',
  bets: 'id: bets, type: bet_count, target: 4, completes: each, window: { every: day }, time_zone: Europe/Warsaw',
  rounds: 'id: rounds, type: round_count, target: 3, from: 2026-10-22T00:00Z, to: 2026-10-28T12:00Z',
  gems: 'id: gems, type: collect_items, completes: each, items: [{ id: ruby, games: [g1], need: 2 }, { id: pearl, games: [g2, g3], need: 2, per: { EUR: "0.70" } }]',
  race: 'id: race, type: leaderboard, points: [{ counts: bet, per: { EUR: "0.80" }, points: 3 }, { counts: settled, points: 1 }]',
} as const;
export type FlowId = keyof typeof FLOWS;
export const VERSIONS = versionsOf(definitionsOf(...Object.values(FLOWS)));

/** Events of some players over two weeks, in which Warsaw's clocks change. */
export function feedOf(random: Random): Feed {
  const players = ['p1', 'p2', 'p3', 'pé'];
  const events: FeedEvent[] = [];
  const add = (fields: Partial<FeedEvent>) => {
    const at = START + random.below(14 * 24) * HOUR_MS + random.below(3_600) * 1_000;
    // Most are decided at once, some late, and some claim a time to come.
    const delay = random.chance(0.7) ? 0 : random.between(-48, 100) * HOUR_MS;
    events.push({
      id: `e${events.length}`,
      kind: 'login',
      player: random.pick(players),
      brand: random.chance(0.8) ? 'main' : 'second',
      round: null,
      game: null,
      amount: random.chance(0.1) ? 0 : random.between(1, 300),
      currency: random.chance(0.7) ? 'EUR' : random.pick(['USD', 'GBP']),
      at,
      decidedAt: at + delay,
      ...fields,
    });
  };
  for (let i = 0; i < 25; i++) add({ kind: 'login' });
  for (let i = 0; i < 12; i++) add({ kind: random.pick(['deposit', 'withdrawal']) });
  for (let i = 0; i < 20; i++) {
    const round = `r${i}`;
    const own = { round, player: random.pick(players), game: random.pick(['g1', 'g2', 'g3', null]) };
    for (let bets = random.between(1, 4); bets > 0; bets--) add({ ...own, kind: 'bet' });
    if (random.chance(0.8)) add({ ...own, kind: 'settled' });
    if (random.chance(0.3)) add({ ...own, kind: 'win' });
    for (let refunds = random.pick([0, 0, 0, 1, 2]); refunds > 0; refunds--) add({ ...own, kind: 'refund' });
  }
  const duplicates = events.filter(() => random.chance(0.1));
  const credits = Array.from({ length: 20 }, (_, i) => `r${i}`)
    .filter(() => random.chance(0.2))
    .map((roundId) => ({
      feedId: 'acme',
      roundId,
      brand: random.pick([null, 'main', 'second']),
      playerRef: random.pick(players),
    }));
  return { events: [...events, ...duplicates], credits };
}

export function eventBytes({
  id,
  kind,
  player,
  brand,
  round,
  game,
  amount,
  currency,
  at,
}: FeedEvent): Buffer {
  return Buffer.from(
    JSON.stringify({
      spec: 'promo.event.v1',
      event_id: id,
      kind,
      player_ref: player,
      brand,
      ...(round !== null && { round_id: round }),
      ...(game !== null && { game: { id: game } }),
      amount: (amount / 100).toFixed(2),
      currency,
      occurred_at: new Date(at).toISOString(),
    }),
  );
}

export const nameOf = ({ promotion, window, playerRef }: PlayerProgress) =>
  `${promotion.definition.id} ${window.key} ${playerRef}`;

/** The completions that hold, by ordinal, and all values. */
export function stateOf(fold: PromotionFold): string[] {
  return [...fold.progress()]
    .map((each) => {
      const values = each
        .rows()
        .filter(({ value }) => value !== 0n)
        .map(({ item, currency, value }) => `${item}/${currency}=${value}`);
      return `${nameOf(each)}: ${values.sort().join(' ')} holds ${[...fold.completionsOf(each).keys()].sort().join()}`;
    })
    .filter((line) => !line.endsWith(':  holds '))
    .sort();
}

export const DAILY_RACE =
  'id: daily, type: leaderboard, window: { every: day }, time_zone: UTC, points: [{ counts: bet, points: 1 }], keep_ranks: 3';
export const LATE_CONFIRMED =
  'id: confirmed, type: bet_count, target: 2, completes: each, confirm_after: PT1S';
