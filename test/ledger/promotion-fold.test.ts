/** The fold of promotions over a real ledger: equal to the fold of files, whatever the slices. */
import { inRun } from '../../dev/long-run';
import { makeRandom, type Random } from '../../dev/random';
import { sleep } from '../../dev/servers/deadline';
import type { Fold } from '../../src/fold/fold';
import { inTransaction, type Session } from '../../src/postgres/transaction';
import { readCountedRows } from '../../src/promotion-store/counted-rows';
import type { Takeover } from '../../src/promotions/timeline';
import { creditRound } from '../support/attributions';
import { aPromotionFold, foldAll, leadingFirstTo } from '../support/folds';
import { aBet, aLogin, aRefund, freshStore, type TestStore } from '../support/ledger';
import { foldOfLedger } from '../support/ledger-fold';
import { eventBytes, FLOWS, feedOf } from '../support/promotion-feeds';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const SEEDS = inRun({ usual: 2, long: 6, variable: 'PROMOTION_SEEDS' });
const DAILY =
  'id: daily, type: leaderboard, window: { every: day }, time_zone: UTC, points: [{ counts: bet, points: 1 }], keep_ranks: 3';
const CONFIRMED = 'id: confirmed, type: bet_count, target: 2, completes: each, confirm_after: PT1S';

const aFold = (rows = 20_000, now = () => performance.now()): Fold => aPromotionFold(store.pool, rows, now);

async function apply(...flows: readonly string[]): Promise<void> {
  await applyAs('next_window', flows);
}

async function applyAs(takeover: Takeover, flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows), takeover);
}

/** The state that the fold of files gives for all rows of the ledger. */
async function expectedState(): Promise<string[]> {
  const fold = await foldOfLedger(store);
  return [...fold.progress()]
    .map((each) => {
      const values = each
        .rows()
        .filter(({ value }) => value !== 0n)
        .map(({ item, currency, value }) => `${item}/${currency}=${value}`);
      const held = [...fold.completionsOf(each).values()].map(({ completionId }) => completionId);
      return `${each.promotion.definition.id} ${each.version} ${each.window.key} ${each.playerRef}: ${values.sort()} score ${each.score} ${each.scoredNo} holds ${held.sort()}`;
    })
    .filter((line) => !line.includes(':  score 0 '))
    .sort();
}

const STATE = `select format('%s %s %s %s: %s score %s %s holds %s', m.promotion_id, w.version, w.window_key, p.player_ref,
  (select string_agg(format('%s/%s=%s', item, currency, amount), ',' order by format('%s/%s=%s', item, currency, amount) collate "C")
    from unnest(p.items, p.currencies, p.amounts) v (item, currency, amount) where amount <> 0),
  p.score, coalesce(p.scored_no::text, 'null'),
  (select string_agg(encode(c.completion_id, 'hex'), ',' order by encode(c.completion_id, 'hex')) from promo_store.promotion_completions c
    where c.window_no = p.window_no and c.player_ref = p.player_ref and c.change = 0
      and not exists (select from promo_store.promotion_completions x where x.completion_id = c.completion_id and x.change = 1)))
from promo_store.promotion_progress p
join promo_store.promotion_windows w using (window_no)
join promo_store.promotions m using (promotion_no)
where p.generation = (select generation from promo_store.folds where fold = 'promotions')
  and (p.score <> 0 or exists (select from unnest(p.amounts) amount where amount <> 0))`;

async function storedState(): Promise<string[]> {
  return (await store.rows(STATE)).map(([line]) => line ?? '').sort();
}

/** Reads a feed into the store, with attributions, corrections and slices of the fold in between. */
async function intake(random: Random, step: () => Promise<unknown>): Promise<void> {
  const { events, credits } = feedOf(random);
  const shuffled = random.shuffled(events);
  const acme = store.partition('acme');
  const waiting = [...credits];
  for (let from = 0; from < shuffled.length; ) {
    const to = from + random.between(1, 25);
    await acme.read(...shuffled.slice(from, to).map(eventBytes));
    from = to;
    const [credit] = waiting.splice(0, 1);
    if (credit !== undefined && random.chance(0.7)) {
      await creditRound(store, credit);
      if (random.chance(0.3))
        await store.value(`select promo.correct_attribution('acme', $1, $2, $3, 'a test')`, [
          ...[credit.roundId, credit.playerRef, 'p-corrected'],
        ]);
    }
    if (random.chance(0.5)) await step();
  }
}

/** Definitions with another target, and others that count other events. */
const CHANGED: readonly (readonly [flow: string, changed: string])[] = [
  [FLOWS.bets, FLOWS.bets.replace('target: 4', 'target: 3')],
  [FLOWS.gems, FLOWS.gems.replace('games: [g1]', 'games: [g2]')],
  [FLOWS.turnover, FLOWS.turnover.replace('every: week', 'every: day')],
  [FLOWS.rounds, FLOWS.rounds.replace('from: 2026-10-22', 'from: 2026-10-21')],
  [FLOWS.streak, FLOWS.streak.replace('days: 3', 'days: 2')],
];

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'promotions that are changed, removed, brought back and recomputed between slices count as their last versions: seed %i [P17] [P21] [P22]',
  async (seed) => {
    const random = makeRandom(seed);
    const all = Object.values<string>(FLOWS);
    let flows = all;
    await apply(...flows);
    // A clock that runs ahead: an idle fold looks for new versions every few seconds.
    let time = 0;
    const fold = aFold(random.pick([1, 10, 20_000]), () => (time += 20_000));
    let changes = 0;
    await intake(random, async () => {
      await fold.step();
      if (changes > 6 || random.chance(0.4)) return;
      changes++;
      const [flow, changed] = random.pick(CHANGED);
      if (random.chance(0.3)) flows = random.shuffled(all).slice(1);
      else flows = flows.map((each) => (each === flow ? changed : each === changed ? flow : each));
      // A window that has begun and never ends changes by --recompute alone.
      await applyAs('recompute', flows);
    });
    // One rebuild after the other, until the fold is idle for two of them.
    for (let round = 0; round < 4; round++) await foldAll(fold);
    expect(await storedState()).toEqual(await expectedState());
    expect(changes).toBeGreaterThan(0);
  },
);

test('long games and ids take no more memory of a slice than short ones, and count as they are listed', async () => {
  const game = (letter: string) => ({ game: { id: letter.repeat(2_000) } });
  await apply(`id: long, type: bet_count, games: [${'g'.repeat(2_000)}], target: 2, completes: each`);
  const refund = 'r'.repeat(2_000);
  await store
    .partition('acme')
    .read(
      aBet({ event_id: 'a', round_id: 'r-1', ...game('g') }),
      aBet({ event_id: 'b', round_id: 'r-2', ...game('g') }),
      aBet({ event_id: 'c', round_id: 'r-3', ...game('h') }),
      aBet({ event_id: 'd', round_id: 'r-4', ...game('g') }),
      aRefund({ event_id: refund, round_id: 'r-4' }),
    );
  const fold = aFold();
  await foldAll(fold);
  const state = await storedState();
  expect(state).toEqual(await expectedState());
  expect(state).toEqual([expect.stringMatching(/^long .*=2 /)]);
  const longest = await inTransaction(store.pool, async (session) => {
    const lengths: number[] = [];
    let rows = 0;
    const query: Session['query'] = async (...statement) => {
      const rows = await session.query(...statement);
      lengths.push(...rows.flat().map((text) => text?.length ?? 0));
      return rows;
    };
    const slice = {
      generation: 1,
      after: -1,
      upTo: 2 ** 50,
      since: '2000-01-01',
      lineage: '',
      isInOrder: true,
      isShown: true,
      mayTakeCores: false,
      rows: 100,
    };
    const scope = { operatorIds: ['acme'], kinds: ['bet'] } as const;
    const { reversals, entries } = await readCountedRows({ query }, slice, {
      scope,
      records: null,
      sums: null,
    });
    for (const pages of [reversals, entries]) for await (const page of pages) rows += page.length;
    expect(rows).toBeGreaterThan(0);
    return Math.max(...lengths);
  });
  expect(longest).toBeLessThan(300);
});

test('promotions are applied beside an intake and a fold that run, and count as their last versions [P21]', async () => {
  const random = makeRandom(99);
  let flows = Object.values<string>(FLOWS);
  await apply(...flows);
  let time = 0;
  const fold = aFold(20, () => (time += 20_000));
  let isOver = false;
  let slices = 0;
  const folding = (async () => {
    while (!isOver) if ((await fold.step()).kind === 'slice') slices++;
  })();
  let changes = 0;
  const applying = (async () => {
    while (!isOver) {
      const [flow, changed] = random.pick(CHANGED);
      flows = flows.map((each) => (each === flow ? changed : each === changed ? flow : each));
      await applyAs('recompute', flows);
      changes++;
      await sleep(random.between(1, 60));
    }
  })();
  try {
    await intake(makeRandom(100), () => sleep(150));
  } finally {
    isOver = true;
    await Promise.all([folding, applying]);
  }
  for (let round = 0; round < 4; round++) await foldAll(fold);
  expect(await storedState()).toEqual(await expectedState());
  expect([slices > 1, changes > 1]).toEqual([true, true]);
});

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'slices of any length give the state of the fold of files, with the same ids: seed %i [P11] [P12] [P15] [P16] [B9]',
  async (seed) => {
    const random = makeRandom(seed);
    await apply(...Object.values(FLOWS), DAILY, CONFIRMED);
    const fold = aFold(random.pick([1, 10, 20_000]));
    await intake(random, () => fold.step());
    await foldAll(fold);
    const expected = await expectedState();
    expect(await storedState()).toEqual(expected);
    expect(expected.length).toBeGreaterThan(20);
    expect(await store.rows('select * from promo_store.promotion_completions where change = 0')).not.toEqual(
      [],
    );

    // A rebuild gives the same ids, and enters nothing.
    const entries = () => store.rows('select * from promo_store.promotion_completions order by entry_no');
    const before = await entries();
    expect(await fold.rebuild('a test')).toBe(true);
    await foldAll(fold);
    expect(await storedState()).toEqual(expected);
    expect((await entries()).slice(before.length)).toEqual([]);
  },
);

test('an erased player leaves no name, and its completions get other ids [B6] [P12]', async () => {
  await apply('id: bets, type: bet_count, target: 2');
  const fold = aFold();
  const acme = store.partition('acme');
  const bet = (id: string, player: string) => aBet({ event_id: id, player_ref: player, round_id: `r-${id}` });
  await acme.read(bet('a', 'gone'), bet('b', 'gone'), bet('c', 'stays'), bet('d', 'stays'));
  await foldAll(fold);
  const before = await store.rows(
    `select encode(completion_id, 'hex') from promo_store.promotion_completions where player_ref = 'gone'`,
  );
  expect(before).toHaveLength(1);
  await store.value(`select promo.erase_player('acme', 'gone')`);
  await acme.read(aRefund({ event_id: 'x', round_id: 'r-a', player_ref: 'gone' }));
  await foldAll(fold);
  for (const table of ['progress', 'attempts', 'completions'])
    expect([
      table,
      await store.rows(`select * from promo_store.promotion_${table} where player_ref = 'gone'`),
    ]).toEqual([table, []]);
  const after = await store.rows(
    `select change, encode(completion_id, 'hex') from promo_store.promotion_completions where player_ref like 'erased:%' order by entry_no`,
  );
  // The refund revokes the completion under its new id.
  expect(after.map(([change]) => change)).toEqual(['0', '1']);
  expect(new Set(after.map(([, id]) => id)).size).toBe(1);
  expect(after[0]?.[1]).not.toBe(before[0]?.[0]);
  expect(await storedState()).toEqual(await expectedState());
});

test('a promotion that is added counts the events of before, and one that is removed keeps its completions [P17]', async () => {
  await apply('id: first, type: bet_count, target: 1');
  const fold = aFold();
  const acme = store.partition('acme');
  await acme.read(aBet({ event_id: 'a', round_id: 'r-a' }), aBet({ event_id: 'b', round_id: 'r-b' }));
  await foldAll(fold);
  await apply('id: first, type: bet_count, target: 1', 'id: second, type: bet_count, target: 2');
  await acme.read(aBet({ event_id: 'c', round_id: 'r-c' }));
  await foldAll(fold);
  expect(await storedState()).toEqual(await expectedState());
  expect(await storedState()).toHaveLength(2);

  await apply('id: second, type: bet_count, target: 2');
  await acme.read(aRefund({ event_id: 'x', round_id: 'r-a' }), aRefund({ event_id: 'y', round_id: 'r-b' }));
  await foldAll(fold);
  const changes = await store.rows(
    `select m.promotion_id, c.change from promo_store.promotion_completions c join promo_store.promotion_windows w using (window_no)
     join promo_store.promotions m using (promotion_no) order by c.entry_no`,
  );
  expect(changes).toEqual([
    ['first', '0'],
    ['second', '0'],
    ['second', '1'],
  ]);

  // It comes back unchanged: it counts as if it had not been removed.
  await apply('id: first, type: bet_count, target: 1', 'id: second, type: bet_count, target: 2');
  await acme.read(aBet({ event_id: 'd', round_id: 'r-d', player_ref: 'p-other' }));
  await foldAll(fold);
  expect(await storedState()).toEqual(await expectedState());
});

test('a slice whose second connection leads to another store counts nothing, and the next one counts all [P16]', async () => {
  await apply(...Object.values<string>(FLOWS));
  await intake(makeRandom(3), async () => undefined);
  const before = aFold();
  await foldAll(before);
  await before.release();
  const counted = await storedState();
  expect(counted).not.toEqual([]);
  const other = await freshStore();
  try {
    // The stores of a test share a server, and so all of the lineage but this.
    await other.rows(
      `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ('x', 'b', 0, '{}', '{}')`,
    );
    const { address, released } = leadingFirstTo(other.pool, store.pool);
    const fold = aPromotionFold(store.pool, 20_000, undefined, address);
    await fold.rebuild('test');
    await expect(fold.step()).rejects.toThrow(/was to be counted in the store/);
    expect(released).toEqual([false]);
    const ofRebuild = (table: string) =>
      store.value(`select count(*) from promo_store.${table} where generation = 2`);
    expect(await ofRebuild('promotion_progress')).toBe('0');
    expect(await ofRebuild('promotion_rounds')).toBe('0');
    await foldAll(fold);
    expect(released.length).toBeGreaterThan(1);
    expect(await store.value('select generation from promo.promotion_coverage')).toBe('2');
    expect(await storedState()).toEqual(counted);
  } finally {
    await other.close();
  }
});

test('a refund takes a round of long ago back [P11]', async () => {
  await apply('id: bets, type: bet_count, target: 2');
  const fold = aFold();
  const acme = store.partition('acme');
  await acme.read(aBet({ event_id: 'a', round_id: 'r-a' }), aBet({ event_id: 'b', round_id: 'r-b' }));
  await foldAll(fold);
  // A scan would read more rows than a look-up of the round takes.
  for (let batch = 0; batch < 110; batch++) await acme.read(aLogin({ event_id: `l-${batch}` }));
  await foldAll(fold);
  const bets = Array.from({ length: 50 }, (_, n) =>
    aBet({ event_id: `c-${n}`, round_id: `r-${n}`, player_ref: 'another' }),
  );
  await acme.read(aRefund({ event_id: 'x', round_id: 'r-a' }), ...bets);
  await foldAll(fold);
  expect(
    await store.rows(
      `select change from promo_store.promotion_completions where player_ref <> 'another' order by entry_no`,
    ),
  ).toEqual([['0'], ['1']]);
  expect(await storedState()).toEqual(await expectedState());
});

test('a refund takes 12,000 events of its own slice back [P11]', async () => {
  await apply('id: bets, type: bet_count, target: 2');
  const acme = store.partition('acme');
  for (const part of ['a', 'b'])
    await acme.read(
      ...Array.from({ length: 6_000 }, (_, n) =>
        aBet({ event_id: `${part}-${n}`, round_id: 'large', player_ref: 'p' }),
      ),
    );
  await acme.read(aRefund({ event_id: 'x', round_id: 'large' }), aBet({ event_id: 'b', player_ref: 'p' }));
  await foldAll(aFold());
  const state = await storedState();
  expect(state).toHaveLength(1);
  expect(state).toEqual(await expectedState());
});

test.each([0, 40])(
  'a refund takes a round of 12,000 events back, %s batches with 100 bets later [P11]',
  async (batches) => {
    await apply(
      'id: bets, type: bet_count, target: 2',
      'id: sum, type: turnover_target, counts: bet, target: { EUR: "1000.00" }',
    );
    const fold = aFold();
    const acme = store.partition('acme');
    const bets = (count: number, round: string, player: string) =>
      Array.from({ length: count }, (_, n) =>
        aBet({ event_id: `${round}-${n}`, round_id: round, player_ref: player }),
      );
    await acme.read(...bets(6_000, 'large', 'p'));
    await acme.read(
      ...bets(6_000, 'large', 'p').map((_, n) =>
        aBet({ event_id: `more-${n}`, round_id: 'large', player_ref: 'p' }),
      ),
    );
    await foldAll(fold);
    for (let batch = 0; batch < batches; batch++) await acme.read(...bets(100, `r-${batch}`, 'another'));
    await foldAll(fold);
    await acme.read(aRefund({ event_id: 'x', round_id: 'large' }), ...bets(200, 'last', 'another'));
    await foldAll(fold);
    expect(await storedState()).toEqual(await expectedState());
  },
);
