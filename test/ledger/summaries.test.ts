/** Verdicts that no vacuum has seen are found by summaries, which the folds make. */
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

/** Pages that the newest verdict of some months is looked for in. */
const pagesRead = (months = 'true'): Promise<number> =>
  withClient(store.url, async (client) => {
    const newest = await store.value(`select max(verdict_id) from promo_store.history where ${months}`);
    await client.query('set enable_seqscan = off');
    const { rows } = await client.query(
      `explain (analyze, format json) select from promo_store.history where verdict_id >= ${newest} and ${months}`,
    );
    const blocks = [...JSON.stringify(rows).matchAll(/"Lossy Heap Blocks":(\d+)/g)];
    return blocks.reduce((sum, [, lossy]) => sum + Number(lossy), 0);
  });

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
