/**
 * Queries of analysts on 600,000 verdicts with 1 % refunds. No vacuum has seen the newest 30,000. The
 * limits are blocks read, not times, since blocks do not depend on the machine. RANGE_EVENTS=3700000 fills a
 * larger store. The tests of a week print their times.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { forNow, IDS_OF_STORE, type Ids, QUESTIONS } from '../../dev/analysts-guide';
import { givePseudonyms } from '../../dev/bench/filled-store';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { filledStore } from '../support/filled-months';
import { aRollupFold, foldAll } from '../support/folds';
import { aBet, aRefund, freshStore, type TestStore, withClient } from '../support/ledger';

const EVENTS = Number(process.env.RANGE_EVENTS ?? 600_000);
const TAIL = EVENTS / 20;
const BLOCK = 8_192;
const PLAYERS = 20_000;
const FILL_MS = 300_000 + EVENTS / 2;
jest.setTimeout(FILL_MS);

let store: TestStore;
/** Blocks of all months of history, and of rounds. */
let allBlocks: number;
/** Ids of the store in place of those of the documents. */
let ids: Ids;
beforeAll(async () => {
  const fill = { events: EVENTS, days: 60, players: PLAYERS, lateRounds: EVENTS / 20, tail: TAIL };
  store = await filledStore(fill, FILL_MS);
  allBlocks = Number(
    await store.value(
      `select sum(pg_relation_size(oid)) / 8192 from pg_class where relnamespace = 'promo_store'::regnamespace and relname ~ '^(history_[0-9_]+|rounds)$'`,
    ),
  );
  await withClient(store.url, (client) => givePseudonyms(client, 'acme', PLAYERS));
  const [found] = await withClient(store.url, async (client) => (await client.query<Ids>(IDS_OF_STORE)).rows);
  ids = found ?? {};
  expect(Object.keys(ids)).toHaveLength(7);
  // A fold summarizes verdicts of this month alone. In its first days the tail lies in the month before.
  await store.rows(
    `select brin_summarize_new_values(format('promo_store.history_%s_verdict_id_decided_at_occurred_at_idx',
      to_char(now() at time zone 'utc' - interval '1 month', 'YYYY_MM'))::regclass)`,
  );
  await countAll();
  await store.rows(
    'vacuum analyze promo_store.rollup_ledger, promo_store.rollup_verdicts, promo_store.rollup_players, promo_store.rollup_player_counts',
  );
});
afterAll(() => {
  // One test checks that the store is sound, and one check is enough.
  store.damaged = true;
  return store.close();
});

/** Counts all verdicts into the rollups. */
async function countAll(): Promise<void> {
  // A slice costs most of a second, however few verdicts it has. Its time is long also for a busy machine.
  const slice = { rows: 200_000, ms: 30_000 };
  await foldAll(aRollupFold(store.pool, { leaseMs: FILL_MS, slice }));
}

const WEEK = `entered_at >= date_trunc('day', now() at time zone 'utc' - interval '7 days') at time zone 'utc'`;
/** The first query of docs/analysts/queries.md without its condition on decided_at. */
const BY_DAY = `select brand, (entered_at at time zone 'utc')::date as day, kind, currency, sum(amount) as amount
from promo.ledger where operator_id = 'acme' and kind <> 'login' and ${WEEK} group by brand, day, kind, currency`;

interface Reading {
  /** Counts blocks from memory and from disk. */
  readonly blocks: number;
  readonly writtenToDisk: number;
  readonly rows: number;
  readonly plan: string;
  readonly milliseconds: number;
}

interface Explained {
  readonly Plan: Readonly<Record<string, unknown>>;
  readonly 'Execution Time': number;
}

async function read(sql: string): Promise<Reading> {
  return withClient(
    store.url,
    async (client) => {
      const { rows } = await client.query<{ 'QUERY PLAN': Explained[] }>(
        `explain (analyze, buffers, timing off, format json) ${sql}`,
      );
      const explained = rows[0]?.['QUERY PLAN'][0];
      if (explained === undefined) throw new Error(`no plan: ${sql}`);
      const plan = explained.Plan;
      const count = (key: string) => Number(plan[key] ?? Number.NaN);
      return {
        blocks: count('Shared Hit Blocks') + count('Shared Read Blocks'),
        writtenToDisk: count('Temp Written Blocks') * BLOCK,
        rows: count('Actual Rows'),
        plan: JSON.stringify(plan),
        milliseconds: explained['Execution Time'],
      };
    },
    FILL_MS,
  );
}

/** Look-ups of one thing read a smaller share of all blocks, and a scan of history reads more. */
const SCAN = 0.3;
const MONTH_SCANS =
  /"Node Type":"Seq Scan"[^{}]*"Relation Name":"(history_\d+_\d+)"[^{}]*"Actual Loops":([\d.]+)[^{}]*"Shared Hit Blocks":(\d+),"Shared Read Blocks":(\d+)/g;
/** A month that has just begun has a smaller share. To scan it costs less than to ask its indexes. */
const SMALL_MONTH = 0.1;

/** The months that a plan reads whole, but for small ones. */
const monthsReadWhole = (plan: string): (string | undefined)[] =>
  [...plan.matchAll(MONTH_SCANS)]
    .filter(([, , loops, hit, read]) => Number(hit) + Number(read) > Number(loops) * SMALL_MONTH * allBlocks)
    .map(([, month]) => month);

/** The SQL blocks of a document, by their first line. */
function queriesOf(document: string): [title: string, sql: string][] {
  const text = readFileSync(join(ROOT, document), 'utf8');
  return [...text.matchAll(/^```sql\n(.+?)^```/gms)].map(([, sql = '']) => [
    `${document} ${sql.split('\n', 1)[0] ?? ''}`,
    sql.trim().replace(/;$/, ''),
  ]);
}

/**
 * The limit of each documented query, by the beginning of its first line: a share of all blocks of history
 * and rounds.
 */
const BOUNDS: Readonly<Record<string, number>> = {
  'docs/analysts/questions.md -- Turnover': 0.02,
  'docs/analysts/questions.md -- Bets less wins': 0.02,
  'docs/analysts/questions.md -- Bets before refunds': 0.02,
  'docs/analysts/questions.md -- Players with a bet that': 0.01,
  'docs/analysts/questions.md -- Players with a bet in': 0.2,
  'docs/analysts/questions.md -- The ten games': 0.1,
  'docs/analysts/questions.md -- The share of the bets': 0.02,
  'docs/analysts/questions.md -- For each hour and reason': 0.25,
  'docs/analysts/questions.md -- Deliveries of events': 0.05,
  'docs/analysts/questions.md -- Shares of the events': 0.03,
  'docs/analysts/questions.md -- Events that were decided': 0.2,
  'docs/analysts/questions.md -- Rounds with a bet': 0.5,
  'docs/analysts/questions.md -- Players whose deposits': 1,
  'docs/analysts/questions.md -- Players with logins': 1,
  'docs/analysts/questions.md -- Progress of players': 1,
  'docs/analysts/questions.md -- The players with the highest': 0.2,
  'docs/analysts/questions.md -- All events of one player': 0.1,
  'docs/analysts/questions.md -- The events of one round': 0.1,
  'docs/analysts/questions.md -- The sums that decisions': 0.6,
  'docs/analysts/questions.md -- Shares of rejected': 0.03,
  'docs/analysts/queries.md -- Counted amounts by brand, day': 1.2,
  'docs/analysts/queries.md -- Reasons for which an operator': 0.1,
  'docs/analysts/queries.md -- The verdict of one event': 0.1,
  'docs/analysts/queries.md -- The newest verdicts': 0.15,
  'docs/analysts/queries.md -- The entries by which one refund': 0.1,
  'docs/analysts/queries.md -- Counted bets of the last week in rounds': 0.1,
  'docs/analysts/queries.md -- Deliveries whose event_id': 0.01,
  'docs/analysts/queries.md -- Rounds of the last week that': 0.1,
  // Postgres may look each event up in refunds, for two blocks each.
  'docs/analysts/queries.md -- Turnover and active games': 4.5,
  'docs/analysts/queries.md -- Faults of the last day': 0.1,
  'docs/analysts/queries.md -- Dead letters, and events without': 0.01,
  'docs/analysts/queries.md -- What happened to one event': 0.4,
  'docs/analysts/queries.md -- What happened to one round': 0.4,
  "docs/analysts/queries.md -- Rounds of yesterday's last hour": 0.25,
  'docs/analysts/queries.md -- State, game and last event': 0.1,
  'docs/analysts/queries.md -- The median and the 99th percentile': 0.1,
  'docs/analysts/queries.md -- Months that a copy deletes': 0.1,
  'docs/analysts/queries.md -- Verdicts whose player was erased': 0.01,
  'docs/tables.md -- The duplicates of one event': 0.01,
  'docs/tables.md -- Verdict and reason of one event': 0.01,
  'docs/tables.md -- The newest entries': 0.5,
  'docs/tables.md -- The entry of one event': 0.15,
  'docs/tables.md -- The reversals of one refund': 0.1,
  'docs/tables.md -- The entries of up to a hundred rounds': 0.5,
  'docs/tables.md -- The entries of a day': 0.6,
  'docs/tables.md -- One round.': 0.01,
  'docs/tables.md -- The round of one refund': 0.1,
  'docs/tables.md -- The newest verdicts': 0.15,
  'docs/tables.md -- The time of the newest verdict': 0.15,
  'docs/tables.md -- One event.': 0.1,
  // For two rounds in three months of the same size, a scan may seem as cheap as six look-ups.
  'docs/tables.md -- Some rounds, by a list': 1,
  'docs/tables.md -- Up to a hundred rounds': 0.5,
};
const DOCUMENTED = [QUESTIONS, 'docs/analysts/queries.md', 'docs/tables.md'].flatMap(queriesOf);

test('each query of the documents has a limit, and each limit a query', () => {
  const isBound = (title: string) => Object.keys(BOUNDS).filter((begin) => title.startsWith(begin));
  expect(DOCUMENTED.filter(([title]) => isBound(title).length !== 1)).toEqual([]);
  expect(
    Object.keys(BOUNDS).filter((begin) => !DOCUMENTED.some(([title]) => title.startsWith(begin))),
  ).toEqual([]);
  expect(DOCUMENTED.length).toBeGreaterThan(20);
});

test.each(DOCUMENTED)('%s reads no more blocks than its limit', async (title, sql) => {
  const bound = Object.entries(BOUNDS).find(([begin]) => title.startsWith(begin))?.[1] ?? 0;
  const { blocks } = await read(forNow(sql, ids));
  expect(blocks).toBeLessThan(bound * allBlocks);
});

const DOCUMENTED_WEEK = DOCUMENTED.find(([title]) => title.includes('Counted amounts by brand'))?.[1] ?? '';

/** The statistics of an analyze whose sample of 900 rows contains almost no refunded round. */
const UNLUCKY = `update pg_statistic set stanullfrac = 0.999999 where starelid = 'promo_store.rounds'::regclass and staattnum in
  (select attnum from pg_attribute where attrelid = 'promo_store.rounds'::regclass and attname in ('refunded_at', 'refunded_by'))`;

test.each(['analyze promo_store.refunds', 'analyze promo_store.rounds', UNLUCKY])(
  'a query for a week of the ledger reads each block of history at most twice after: %s',
  async (sample) => {
    await store.rows(sample);
    const sums = await read(BY_DAY);
    expect(sums.blocks).toBeLessThan(2 * allBlocks);
    const rows = await read(
      `select entry_id, entered_at, event_id, round_id, amount from promo.ledger where ${WEEK} order by entered_at, entry_id`,
    );
    // With round_id, Postgres may look an entry up in rounds, for four blocks each.
    expect(rows.blocks).toBeLessThan(2 * allBlocks + (4 * EVENTS) / 5);
    const documented = await read(DOCUMENTED_WEEK);
    expect(documented.blocks).toBeLessThan(0.7 * sums.blocks);
    const parts = [sums, documented, rows].map(
      ({ milliseconds, blocks }) => `${Math.round(milliseconds)} ms, ${blocks} blocks`,
    );
    console.log(
      `a week of ${EVENTS} verdicts in ${allBlocks} blocks, by day, as documented, and row by row: ${parts.join('; ')}`,
    );
  },
);

test('the planner estimates the refunds of a week within half of their number', async () => {
  const week = `select from promo_store.refunds where ${WEEK.replace('entered_at', 'refunded_at')}`;
  const expected = Number(/rows=(\d+)/.exec((await store.rows(`explain ${week}`)).flat().join('\n'))?.[1]);
  const found = Number(await store.value(`select count(*) from (${week}) r`));
  expect(found).toBeGreaterThan(100);
  expect(expected / found).toBeGreaterThan(0.5);
  expect(expected / found).toBeLessThan(1.5);
});

test('the copy of the ledger reads the history since its oldest refunded round, and misses no entry', async () => {
  const from = `(select promo.newest_since(1) - interval '1 hour')`;
  const range = `from promo.ledger where entered_at >= ${from}`;
  const bounded = `${range} and decided_at >= (select promo.entries_since(${from}))`;
  const entries = await store.rows(`select entry_id ${range} order by 1`);
  expect(await store.rows(`select entry_id ${bounded} order by 1`)).toEqual(entries);
  expect(await store.value(`select count(reverses_entry_id) > 0 ${bounded}`)).toBe('t');
});

test.each(['changes', 'new_verdicts'])(
  'a copy by promo.%s reads the newest thousand verdicts behind a tail that no vacuum has summarized',
  async (range) => {
    const before = await store.value(
      'select min(verdict_id) from (select verdict_id from promo_store.history order by 1 desc limit 1001) h',
    );
    const { blocks, rows } = await read(`select * from promo.${range}(${before})`);
    expect(rows).toBeGreaterThan(500);
    // The tail is read once for entries, once for rounds and once for refunds.
    expect(blocks).toBeLessThan(0.8 * allBlocks);
  },
);

test('the newest verdicts are found without a scan of history', async () => {
  expect(await store.value('select promo.newest_since(1) = max(decided_at) from promo.verdicts')).toBe('t');
  expect(await store.value('select promo.newest_since() = promo.newest_since(1)')).toBe('t');
  expect(
    await store.value(
      'select promo.newest_since(500) = (select decided_at from promo_store.history order by 1 desc offset 499 limit 1)',
    ),
  ).toBe('t');
  const newest = `select verdict_id from promo.verdicts where decided_at >= (select promo.newest_since(50)) order by decided_at desc limit 50`;
  expect(await store.rows(newest)).toHaveLength(50);
  const { plan, blocks } = await read(newest);
  expect(monthsReadWhole(plan)).toEqual([]);
  expect(blocks).toBeLessThan(SCAN * allBlocks);
  // A scan would show like this.
  const scan = await read('select max(decided_at) from promo.verdicts');
  expect(monthsReadWhole(scan.plan).length).toBeGreaterThan(0);
  expect(scan.blocks).toBeGreaterThan(SCAN * allBlocks);
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
  expect(monthsReadWhole((await read(oneByOne)).plan)).toEqual([]);
});

test('the reversals of a refund are found by its event_id alone', async () => {
  const refund = await store.value(
    'select refunded_by from promo.rounds where refunded and counted_bet > 0 limit 1',
  );
  const sql = `select entry_id from promo.ledger where event_id = '${refund}' and reverses_entry_id is not null`;
  expect((await store.rows(sql)).length).toBeGreaterThan(0);
  const { plan, blocks } = await read(sql);
  expect(monthsReadWhole(plan)).toEqual([]);
  expect(blocks).toBeLessThan(SCAN * allBlocks);
  expect(plan).not.toMatch(/"Node Type":"Seq Scan"[^{}]*"Relation Name":"rounds"/);
});

test('the verdicts with counts_now have the sums of the ledger, and those with counted have more', async () => {
  const [[now, counted] = []] = await store.rows(
    `select sum(amount) filter (where counts_now), sum(amount) filter (where counted) from promo.verdicts where kind <> 'settled'`,
  );
  const ofLedger = await store.value(`select sum(amount) from promo.ledger where kind <> 'settled'`);
  expect(now).toBe(ofLedger);
  expect(Number(counted)).toBeGreaterThan(Number(ofLedger));
});

const monthBefore = (days: number) =>
  `date_trunc('month', now() at time zone 'utc' - interval '${days} days')::date`;

test('a check of everything stored reads history four times, and writes less than 50 bytes an event to temporary files', async () => {
  const { rows, blocks, writtenToDisk } = await read('select * from promo.check_invariants()');
  expect(rows).toBe(0);
  expect(writtenToDisk).toBeLessThan(50 * EVENTS);
  const blocksOfKeys = Number(
    await store.value(`select pg_relation_size('promo_store.event_keys') / ${BLOCK}`),
  );
  // Each process reads all rounds, and a busy server starts fewer or more of them: from 77,300 to 84,300
  // blocks were seen. One more pass over history would read 15,500 more.
  expect(blocks).toBeLessThan(5.5 * allBlocks + blocksOfKeys);
});

test('a check of one month reads its history four times, and no other month', async () => {
  const { rows, blocks } = await read(`select * from promo.check_month(${monthBefore(0)})`);
  expect(rows).toBe(0);
  const [ofMonth, ofOthers] = (
    await store.rows(`select pg_relation_size(format('promo_store.history_%s', to_char(${monthBefore(0)}, 'YYYY_MM'))) / ${BLOCK},
      pg_relation_size('promo_store.event_keys') / ${BLOCK} + 5 * pg_relation_size('promo_store.rounds') / ${BLOCK}`)
  )
    .flat()
    .map(Number);
  expect(blocks).toBeLessThan(5 * (ofMonth ?? 0) + (ofOthers ?? 0) + allBlocks / 5);
  expect((await read(`select * from promo.check_month(${monthBefore(31)})`)).rows).toBe(0);
});

test('a refund is stored with its round, first or later, and follows manual changes of the round', async () => {
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
