/** `promo-intake promotions verify`: sound after each slice, and each damage made by hand is named. */
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { verifyPromotionsPart } from '../../src/commands/promotions/verify';
import type { Fold } from '../../src/fold/fold';
import { erasePlayer } from '../../src/ledger/erasure';
import { grantRoles, type Role } from '../../src/ledger/roles';
import { inSnapshot } from '../../src/postgres/snapshot';
import type { Reader } from '../../src/postgres/transaction';
import { type Recount, recountPromotions } from '../../src/promotion-store/recount';
import { creditRound } from '../support/attributions';
import { aPromotionFold, foldAll as foldUntilIdle } from '../support/folds';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { DAILY_RACE, eventBytes, FLOWS, feedOf, LATE_CONFIRMED } from '../support/promotion-feeds';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';
import { RunningCommand } from '../support/worker';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const SEEDS = inRun({ usual: 1, long: 4, variable: 'PROMOTION_SEEDS' });
const READ = { applicationName: 'test', timeoutMs: 60_000 };
const recount = (oneOf = 1): Promise<Recount> =>
  inSnapshot(store.url, READ, (reader) => recountPromotions(reader, oneOf));

async function apply(...flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows), 'recompute');
}

const aFold = (rows?: number): Fold => aPromotionFold(store.pool, rows);
/** An idle fold looks for new versions and lets time pass, one after the other. */
const foldAll = (fold: Fold): Promise<void> => foldUntilIdle(fold, 3);

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'a recount agrees with the store between slices, through refunds, attributions, changes and an erasure: seed %i [P16] [P17] [P22] [B9]',
  async (seed) => {
    const random = makeRandom(seed);
    const { events, credits } = feedOf(random);
    await apply(...Object.values(FLOWS), DAILY_RACE, LATE_CONFIRMED);
    const fold = aFold(random.pick([1, 30, 20_000]));
    const acme = store.partition('acme');
    const shuffled = random.shuffled(events);
    // The first step begins the generation, and counts nothing.
    await fold.step();
    for (let from = 0; from < shuffled.length; from += 20) {
      await acme.read(...shuffled.slice(from, from + 20).map(eventBytes));
      const credit = credits[from / 20];
      if (credit !== undefined) await creditRound(store, credit);
      await fold.step();
      expect(await recount()).toMatchObject({ type: 'counted', recounted: { damages: [] } });
    }
    await foldAll(fold);
    const whole = await recount();
    expect(whole).toMatchObject({ recounted: { skipped: 0, damages: [] } });
    if (whole.type === 'counted') expect(whole.recounted.compared).toBeGreaterThan(20);

    await apply(...Object.values<string>(FLOWS).filter((flow) => flow !== FLOWS.race), DAILY_RACE);
    expect(await recount()).toEqual({
      type: 'not now',
      reason: 'promotions were applied that are not counted yet',
    });
    await foldAll(fold);
    await apply(FLOWS.bets.replace('target: 4', 'target: 3'), FLOWS.streak, DAILY_RACE);
    await foldAll(fold);
    expect(await recount()).toMatchObject({ recounted: { damages: [] } });
    expect(await fold.rebuild('a test')).toBe(true);
    expect(await recount()).toMatchObject({ type: 'not now' });
    await foldAll(fold);
    expect(await recount()).toMatchObject({ recounted: { damages: [] } });
    const erasure = { operator: 'acme', player: 'p1', batch: 1_000 };
    await erasePlayer(store.url, { requestedBy: 'a test' }, erasure, () => undefined);
    await foldAll(fold);
    expect(await recount()).toMatchObject({ recounted: { damages: [] } });
    expect(await recount(3)).toMatchObject({ recounted: { damages: [] } });
  },
);

const BETS = 'id: bets, type: bet_count, target: 2, completes: each';
const RACE = 'id: race, type: leaderboard, points: [{ counts: bet, points: 5 }]';

/** Three bets of player a, and one of b. */
async function play(): Promise<void> {
  await apply(BETS, RACE);
  const bets = ['a', 'a', 'a', 'b'].map((player, n) =>
    aBet({ event_id: `e${n}`, round_id: `r${n}`, player_ref: player }),
  );
  await store.partition('acme').read(...bets);
  await foldAll(aFold());
}

const DAMAGES: readonly (readonly [what: string, damage: string, expected: readonly RegExp[]])[] = [
  [
    'progress that was changed by hand',
    `update promo_store.promotion_progress set amounts = '{7}' where amounts = '{3}' and score = 0`,
    [/^I8 acme\/bets\/once: the progress that the change \d+ changed last is 7, and the ledger gives 3$/],
  ],
  [
    'points that were changed by hand',
    'update promo_store.promotion_progress set score = 16 where score = 15',
    [/^I8 acme\/race\/once: .* is 1 3 and 16 points, and the ledger gives 1 3 and 15 points$/],
  ],
  [
    'progress that was deleted',
    `delete from promo_store.promotion_progress where amounts = '{1}' and score = 0`,
    [/^I8 acme\/bets\/once: a player has no progress, and the ledger gives 1, by the change \d+$/],
  ],
  [
    'progress of a player without events',
    `insert into promo_store.promotion_progress (generation, window_no, player_ref, items, currencies, amounts, attained, score, changed_no, changed_at)
select generation, window_no, 'c', items, currencies, amounts, 0, score, changed_no, changed_at from promo_store.promotion_progress where amounts = '{1}' and score = 0`,
    [/^I8 acme\/bets\/once: .* is 1, and the ledger gives nothing$/],
  ],
  [
    'a completion too few',
    'update promo_store.promotion_attempts set is_held = false',
    [/^I8 acme\/bets\/once: .* holds the completions none, and the ledger gives 1$/],
  ],
  [
    'a cursor beyond the store',
    'update promo_store.fold_generations set after = after + 8192 * 100',
    [/^I8 promotions: verdicts up to \d+ are counted, and this store has given numbers up to \d+ only$/],
  ],
];

test.each(DAMAGES)('%s: verify names it, and no player [P16]', async (_, damage, expected) => {
  store.damaged = true;
  await play();
  expect(await verifyPromotionsPart(store.url)).toMatchObject({ problems: [] });
  await store.pool.query(damage);
  const { problems = [] } = (await verifyPromotionsPart(store.url)) ?? {};
  expect(problems).toEqual(expected.map((each) => expect.stringMatching(each)));
});

describe('by the role', () => {
  let names: string[] = [];
  afterEach(async () => {
    await dropRoles(store.url, names);
    names = [];
  });
  async function aRole(role: Role): Promise<string> {
    const { name, url } = await makeRole(store.url, role);
    names.push(name);
    await grantRoles(store.url, [{ role, name }]);
    return url;
  }
  async function run(url: string, ...args: readonly string[]) {
    const command = new RunningCommand(args, { DATABASE_URL: url });
    const { code } = await command.ending(60_000);
    return { code, output: command.output() };
  }

  test('of the process, promotions verify counts again, and changes nothing; for a reader, verify names the role that may [P16]', async () => {
    const url = await aRole('promotions');
    expect((await run(url, 'promotions', 'verify')).output).toBe(
      'promotions: not compared, promotions were never counted\nsound\n',
    );
    await play();
    expect(await run(url, 'promotions', 'verify')).toEqual({
      code: 0,
      output: expect.stringMatching(
        /^promotions: 4 verdicts counted again, up to \d+; 4 rows of progress were compared\nsound\n$/,
      ),
    });
    expect((await run(url, 'promotions', 'verify', '--sample', '2')).output).toContain(
      ', of one of 2 players',
    );
    const reader = await aRole('reader');
    expect(await verifyPromotionsPart(reader)).toEqual({
      line: expect.stringContaining('run promo-intake promotions verify'),
      problems: [],
    });
    store.damaged = true;
    await store.pool.query(`update promo_store.promotion_progress set amounts = '{9}' where score = 0`);
    const found = await run(url, 'promotions', 'verify');
    expect(found.code).toBe(1);
    expect(found.output).toContain('not sound: 2 problems are listed above\n');
  });
});

test('a recount reads the entries of a large refunded round once, however many pages they have', async () => {
  await apply(BETS);
  const acme = store.partition('acme');
  const bets = 32_000;
  for (let first = 0; first < bets; first += 8_000)
    await acme.read(
      ...Array.from({ length: 8_000 }, (_, n) => aBet({ event_id: `e${first + n}`, round_id: 'large' })),
    );
  for (let batch = 0; batch < 20; batch++)
    await acme.read(aBet({ event_id: `later-${batch}`, round_id: `later-${batch}` }));
  await acme.read(aRefund({ event_id: 'refund', round_id: 'large' }));
  const fold = aFold();
  await foldAll(fold);
  let searched = 0;
  let scan = '';
  const result = await inSnapshot(store.url, READ, (reader) =>
    recountPromotions(
      {
        async query(statement, values) {
          if (statement.name.startsWith('promotions_read')) scan = statement.name;
          const isPage = statement.name.startsWith('next_page');
          if (!/_(near|far)$/.test(scan) || !(isPage || statement.name === scan))
            return reader.query(statement, values);
          const before = await readRows(reader);
          const rows = await reader.query(statement, values);
          searched += (await readRows(reader)) - before;
          return rows;
        },
      },
      1,
    ),
  );
  expect(result).toMatchObject({ recounted: { verdicts: bets + 21, damages: [] } });
  expect(searched).toBeGreaterThanOrEqual(bets);
  expect(searched).toBeLessThan(1.5 * bets);
});

/** The rows of history that the transaction has read so far. */
async function readRows(reader: Reader): Promise<number> {
  const text = `select sum(seq_tup_read + idx_tup_fetch) from pg_stat_xact_user_tables where relname like 'history%'`;
  const [[rows] = []] = await reader.query({ name: 'read_rows', text });
  return Number(rows);
}
