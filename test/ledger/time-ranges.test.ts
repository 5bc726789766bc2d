/**
 * Queries of analysts on a million verdicts with refunds, the newest 50,000 of which no vacuum has seen. They are bound in blocks read, not in time: blocks do
 * not depend on the machine. RANGE_EVENTS=3700000 takes a quarter of an hour.
 */

import { fillStore } from '../support/filled-store';
import { aBet, aRefund, freshStore, type TestStore, withClient } from '../support/ledger';

const EVENTS = Number(process.env.RANGE_EVENTS ?? 1_000_000);
const TAIL = 50_000;
const FILL_MS = 300_000 + EVENTS / 2;
jest.setTimeout(FILL_MS);

let store: TestStore;
/** Blocks of all months of history, and of rounds. */
let allBlocks: number;
beforeAll(async () => {
  store = await freshStore({ own: true });
  await store.partition('acme').read({ event_id: '' });
  await withClient(
    store.url,
    (client) =>
      fillStore(client, {
        events: EVENTS,
        days: 60,
        roundsPerRefund: 40,
        lateRounds: EVENTS / 20,
        tail: TAIL,
      }),
    FILL_MS,
  );
  allBlocks = Number(
    await store.value(
      `select sum(pg_relation_size(oid)) / 8192 from pg_class where relnamespace = 'promo_store'::regnamespace and relname ~ '^(history_[0-9_]+|rounds)$'`,
    ),
  );
});
afterAll(() => store.close());

const WEEK = `entered_at >= date_trunc('day', now() at time zone 'utc' - interval '7 days') at time zone 'utc'`;
/** The first query of README.md. */
const BY_DAY = `select brand, (entered_at at time zone 'utc')::date as day, kind, currency, sum(amount) as amount
from promo.ledger where operator_id = 'acme' and kind <> 'login' and ${WEEK} group by brand, day, kind, currency`;

/** @returns how many blocks a query reads, from memory or disk, and its plan */
async function read(sql: string): Promise<{ blocks: number; plan: string }> {
  return withClient(
    store.url,
    async (client) => {
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, buffers, timing off) ${sql}`,
      );
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      const [, hit = '0', , disk = '0'] = /Buffers: shared(?: hit=(\d+))?( read=(\d+))?/.exec(plan) ?? [];
      return { blocks: Number(hit) + Number(disk ?? 0), plan };
    },
    FILL_MS,
  );
}

const SCAN_OF_HISTORY = /Seq Scan on history_\d+_\d+ \w+ +\(cost=0\.00\.\.(?!0\.00 )/;

/** What an analyze of 900 rows notes where its sample holds next to no refunded round. */
const UNLUCKY = `update pg_statistic set stanullfrac = 0.999999 where starelid = 'promo_store.rounds'::regclass and staattnum in
  (select attnum from pg_attribute where attrelid = 'promo_store.rounds'::regclass and attname in ('refunded_at', 'refunded_by'))`;

test.each(['analyze promo_store.refunds', 'analyze promo_store.rounds', UNLUCKY])(
  'a week of the ledger reads each block of history twice at most after: %s',
  async (sample) => {
    await store.rows(sample);
    expect((await read(BY_DAY)).blocks).toBeLessThan(2 * allBlocks);
    const { blocks } = await read(
      `select entry_id, entered_at, event_id, round_id, amount from promo.ledger where ${WEEK} order by entered_at, entry_id`,
    );
    // With round_id an entry may be looked up in rounds by itself, four blocks each.
    expect(blocks).toBeLessThan(2 * allBlocks + (4 * EVENTS) / 5);
  },
);

test('the planner knows how many refunds a week has, within a half', async () => {
  const week = `select from promo_store.refunds where ${WEEK.replace('entered_at', 'refunded_at')}`;
  const expected = Number(/rows=(\d+)/.exec((await store.rows(`explain ${week}`)).flat().join('\n'))?.[1]);
  const found = Number(await store.value(`select count(*) from (${week}) r`));
  expect(found).toBeGreaterThan(100);
  expect(expected / found).toBeGreaterThan(0.5);
  expect(expected / found).toBeLessThan(1.5);
});

test('the copy of the ledger reads the history since its oldest refunded round began, and misses no entry', async () => {
  const from = `(select promo.newest_since(1) - interval '1 hour')`;
  const range = `from promo.ledger where entered_at >= ${from}`;
  const bounded = `${range} and decided_at >= (select promo.entries_since(${from}))`;
  const entries = await store.rows(`select entry_id ${range} order by 1`);
  expect(await store.rows(`select entry_id ${bounded} order by 1`)).toEqual(entries);
  expect(await store.value(`select count(reverses_entry_id) > 0 ${bounded}`)).toBe('t');
});

test('the newest verdicts are found without a scan of history', async () => {
  expect(await store.value('select promo.newest_since(1) = max(decided_at) from promo.verdicts')).toBe('t');
  expect(await store.value('select promo.newest_since() = promo.newest_since(1)')).toBe('t');
  const newest = `select verdict_id from promo.verdicts where decided_at >= (select promo.newest_since(50)) order by decided_at desc limit 50`;
  expect(await store.rows(newest)).toHaveLength(50);
  const { plan } = await read(newest);
  expect(plan).not.toMatch(SCAN_OF_HISTORY);
});

test('many rounds are found by an index, one by one', async () => {
  const some = `select feed_id, round_id from promo.rounds where refunded_at >= now() - interval '1 day' order by refunded_at limit 20`;
  const one =
    'select * from promo.verdicts v where v.feed_id = s.feed_id and v.round_id = s.round_id offset 0';
  const oneByOne = `select v.event_id from (${some}) s cross join lateral (${one}) v order by 1`;
  const natural = `select event_id from promo.verdicts where (feed_id, round_id) in (${some}) order by 1`;
  const found = await store.rows(oneByOne);
  expect(found.length).toBeGreaterThan(20);
  expect(found).toEqual(await store.rows(natural));
  expect((await read(oneByOne)).plan).not.toMatch(SCAN_OF_HISTORY);
});

test('what a refund reversed is found by its event_id in the natural form', async () => {
  const refund = await store.value(
    'select refunded_by from promo.rounds where refunded and counted_bet > 0 limit 1',
  );
  const sql = `select entry_id from promo.ledger where event_id = '${refund}' and reverses_entry_id is not null`;
  expect((await store.rows(sql)).length).toBeGreaterThan(0);
  const { plan } = await read(sql);
  expect(plan).not.toMatch(SCAN_OF_HISTORY);
  expect(plan).not.toMatch(/Seq Scan on rounds/);
});

test('what counts now of the verdicts is what the ledger sums up to, and counted is more', async () => {
  const ofVerdicts = (column: string) =>
    store.value(`select sum(amount) from promo.verdicts where ${column} and kind <> 'settled'`);
  const ofLedger = await store.value(`select sum(amount) from promo.ledger where kind <> 'settled'`);
  expect(await ofVerdicts('counts_now')).toBe(ofLedger);
  expect(Number(await ofVerdicts('counted'))).toBeGreaterThan(Number(ofLedger));
});

test('a check of everything stored writes less than 200 bytes an event to temporary files', async () => {
  const written = () =>
    withClient(store.url, async (client) => {
      await client.query('select pg_stat_force_next_flush()');
      return Number(
        (await client.query('select temp_bytes from pg_stat_database where datname = current_database()'))
          .rows[0].temp_bytes,
      );
    });
  const before = await written();
  await withClient(
    store.url,
    async (client) => {
      expect((await client.query('select * from promo.check_invariants()')).rows).toEqual([]);
      await client.query('select pg_stat_force_next_flush()');
    },
    FILL_MS,
  );
  expect((await written()) - before).toBeLessThan(200 * EVENTS);
});

test('a refund is noted with its round, whether it comes first or later, and follows what is done to the round by hand', async () => {
  const own = await freshStore();
  const acme = own.partition('acme');
  await acme.read(
    aRefund({ event_id: 'first', round_id: 'r-first' }),
    aBet({ event_id: 'late', round_id: 'r-first' }),
  );
  await acme.read(aBet({ event_id: 'bet', round_id: 'r-later' }));
  await acme.read(
    aRefund({ event_id: 'later', round_id: 'r-later' }),
    aRefund({ event_id: 'again', round_id: 'r-later' }),
  );
  const noted = () =>
    own.rows(
      'select r.round_id, x.refunded_by, x.refunded_at = r.refunded_at and x.opened_at = r.opened_at from promo_store.refunds x join promo_store.rounds r using (round_no) order by 1',
    );
  expect(await noted()).toEqual([
    ['r-first', 'first', 't'],
    ['r-later', 'later', 't'],
  ]);
  await own.rows(
    `update promo_store.rounds set refunded_by = null, refunded_at = null where round_id = 'r-later'`,
  );
  expect(await noted()).toEqual([['r-first', 'first', 't']]);
  expect(
    await own.rows('select event_id, amount, game_id, decided_at is not null from promo.ledger'),
  ).toEqual([['bet', '10.50', null, 't']]);
  own.damaged = true;
  await own.close();
});
