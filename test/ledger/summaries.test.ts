/**
 * Summaries of ranges of pages. The folds make those of new pages. Where new verdicts fill pages again, the
 * summaries keep old and new ones apart.
 */
import { filledStore } from '../support/filled-months';
import { aRollupFold, foldAll } from '../support/folds';
import { type TestStore, withClient } from '../support/ledger';

const EVENTS = 70_000;
/** Their pages are some 1,000: seven full ranges. */
const TAIL = 50_000;
const FILL_MS = 60_000;
const RANGE_PAGES = 128;
jest.setTimeout(FILL_MS + 30_000);

const USUAL = { events: EVENTS, days: 0, players: 1_000, lateRounds: 100, tail: TAIL };

let store: TestStore;
const fill = async (different: Partial<typeof USUAL> = {}): Promise<void> => {
  store = await filledStore({ ...USUAL, ...different }, FILL_MS);
};
afterEach(() => store.close());

const summarize = async (most = 64): Promise<number> =>
  Number(await store.value('select promo_store.summarize_history($1)', [most]));

/** Pages that verdicts are looked for in. */
const pagesReadBy = (condition: string): Promise<number> =>
  withClient(store.url, async (client) => {
    await client.query('set enable_seqscan = off');
    const { rows } = await client.query(
      `explain (analyze, format json) select from promo_store.history where ${condition}`,
    );
    const blocks = [...JSON.stringify(rows).matchAll(/"Lossy Heap Blocks":(\d+)/g)];
    return blocks.reduce((sum, [, lossy]) => sum + Number(lossy), 0);
  });
/** Pages that the newest verdict of some months is looked for in. */
const pagesRead = async (months = 'true'): Promise<number> => {
  const newest = await store.value(`select max(verdict_id) from promo_store.history where ${months}`);
  return pagesReadBy(`verdict_id >= ${newest} and ${months}`);
};

test('full pages are summarized from the newest ones back, and the last ones are left to the batches [L5]', async () => {
  await fill();
  const before = await pagesRead();
  expect(before).toBeGreaterThan(5 * RANGE_PAGES);
  expect(await summarize(2)).toBe(2);
  expect(await pagesRead()).toBeLessThan(before - RANGE_PAGES);
  // The two ranges in front of them are left to a vacuum: the walk back ends at a summarized one.
  expect(await summarize()).toBe(0);
});

test('a fold summarizes, so the next slice reads few pages of before', async () => {
  await fill();
  await foldAll(aRollupFold(store.pool));
  expect(await summarize()).toBe(0);
  expect(await pagesRead()).toBeLessThanOrEqual(3 * RANGE_PAGES);
});

test('a vacuum is not waited for', async () => {
  await fill();
  await withClient(store.url, async (vacuum) => {
    const [[month] = []] = await store.rows(
      `select to_regclass('promo_store.history_' || to_char(now() at time zone 'utc', 'YYYY_MM'))::text`,
    );
    await vacuum.query(`begin; lock table ${month} in share update exclusive mode`);
    expect(await summarize()).toBe(0);
    await vacuum.query('rollback');
  });
  expect(await summarize()).toBeGreaterThan(2);
  expect(await store.value(`select current_setting('lock_timeout')`)).toBe('0');
});

test('all pages of the month before are summarized [L5]', async () => {
  await fill({ days: 62, tail: EVENTS });
  const thisMonth = `date_trunc('month', now() at time zone 'utc') at time zone 'utc'`;
  const monthBefore = `decided_at < ${thisMonth} and decided_at >= ${thisMonth} - interval '28 days'`;
  expect(await pagesRead(monthBefore)).toBeGreaterThan(2 * RANGE_PAGES);
  await summarize();
  expect(await pagesRead(monthBefore)).toBeLessThanOrEqual(RANGE_PAGES);
  expect(await summarize()).toBe(0);
});

/** A quarter of an hour. */
const DAYS = 0.01;
/** A tenth of each batch. So each page has verdicts of the operator. */
const MOVED = 'verdict_id % 8192 % 10 = 0';
/** Fewer than the moved ones: all have room in the pages of the others. */
const FILLED_AGAIN = Math.floor(EVENTS / 12);

/** Changes more rows than a statement of the pool has time for on a slow machine. */
const change = (statement: string) =>
  withClient(store.url, async (client) => void (await client.query(statement)), FILL_MS);

/** Near the begin or the end of a month, the rows would be those of two months. */
async function putInTheMiddleOfTheMonth(): Promise<void> {
  await change('create table public.filled as select * from promo_store.history');
  await change('truncate promo_store.history');
  await change(`update public.filled set decided_at = date_trunc('month', newest) + interval '10 days' + (decided_at - newest)
     from (select max(decided_at) as newest from public.filled) n`);
  await change('insert into promo_store.history select * from public.filled order by verdict_id');
}

test.each([
  ['its number', 'verdict_id = $id'],
  ['its time', `decided_at between timestamptz '$at' - interval '1 second' and '$at'`],
])(
  'a verdict is found by %s in few pages after others have filled the pages that an operator left',
  async (_, condition) => {
    await fill({ days: DAYS, tail: 0 });
    store.damaged = true; // History alone has the rows.
    await putInTheMiddleOfTheMonth();
    await change(`delete from promo_store.history where ${MOVED}`);
    await change('vacuum promo_store.history');
    const pages = `select sum(pg_relation_size(inhrelid)) / 8192 from pg_inherits where inhparent = 'promo_store.history'::regclass`;
    const before = await store.value(pages);
    // The newest verdicts once more, with higher numbers and later times.
    await change(
      `insert into promo_store.history select (jsonb_populate_record(h, jsonb_build_object(
       'verdict_id', verdict_id + 8192 * 1000000::bigint, 'decided_at', decided_at + interval '2 minutes'))).*
     from promo_store.history h order by verdict_id desc limit ${FILLED_AGAIN}`,
    );
    await change('vacuum promo_store.history');
    expect(await store.value(pages)).toBe(before);
    const [[id = '', at = ''] = []] = await store.rows(
      'select verdict_id, decided_at from promo_store.history order by verdict_id offset $1 limit 1',
      [EVENTS / 2],
    );
    const few = await pagesReadBy(condition.replaceAll('$id', id ?? '').replaceAll('$at', at ?? ''));
    expect(few).toBeGreaterThan(0);
    expect(few).toBeLessThanOrEqual(3 * RANGE_PAGES);
    expect(few).toBeLessThan(Number(before) / 3);
  },
);
