/** A fold gives way to an intake that is behind: by the delays that history keeps. */
import { aRollupFold } from '../support/folds';
import { aLogin, freshStore, type TestStore } from '../support/ledger';

const BEHIND_MS = 2_001;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
  // The first slice of a fold ends at a number, and a store that is emptied goes on with its numbers.
  await store.rows(`select setval('promo_store.batch_numbers', 1)`);
});
afterEach(() => store.close());

/** Decides events, and gives the first `behind` of them the delay of an intake that is behind. */
async function decide(prefix: string, events: number, behind: number, delayMs = BEHIND_MS): Promise<void> {
  const names = Array.from({ length: events }, (_, no) => `${prefix}${no}`);
  await store
    .partition('acme', prefix.charCodeAt(0))
    .read(...names.map((name) => aLogin({ event_id: name })));
  await store.rows(
    'update promo_store.history set source_delay = case when event_id = any($1) then $2::int else 20 end where event_id = any($3)',
    [names.slice(0, behind), delayMs, names],
  );
}

/** The rest after the next slice, in milliseconds. */
async function restAfterSlice(fold: ReturnType<typeof aRollupFold>): Promise<number> {
  for (;;) {
    const stepped = await fold.step();
    if (stepped.kind === 'slice') return stepped.restMs;
    expect(stepped.kind).toBe('begin');
  }
}

/** The rests after all slices. In the first hour of a day, a slice ends where the day begins. */
async function allRests(fold: ReturnType<typeof aRollupFold>): Promise<number[]> {
  const rests: number[] = [];
  for (;;) {
    const stepped = await fold.step();
    if (stepped.kind === 'idle') return rests;
    if (stepped.kind === 'slice') rests.push(stepped.restMs);
  }
}

test('while most events wait long in Kafka, a slice is followed by a rest of nine times its length', async () => {
  await decide('a', 1_200, 601);
  const fold = aRollupFold(store.pool);
  await fold.step();
  const stepped = await fold.step();
  expect(stepped).toMatchObject({ kind: 'slice', rows: 1_200 });
  if (stepped.kind !== 'slice') return;
  expect(stepped.restMs).toBeCloseTo(Math.min(15_000, stepped.ms * 9));
  await decide('b', 1_200, 0);
  expect(await restAfterSlice(fold)).toBe(0);
});

/** The batches of the next slice. */
async function batchesOfSlice(fold: ReturnType<typeof aRollupFold>): Promise<number> {
  for (;;) {
    const stepped = await fold.step();
    if (stepped.kind === 'slice') return Math.ceil((stepped.upTo - stepped.of.after) / 8_192);
    expect(stepped.kind).toBe('begin');
  }
}

test.each([
  ['wait long in Kafka, a slice of 0.4 s is followed by one of half as many batches', 101, 0.5],
  ['come at once, a slice of 0.4 s is followed by one of twice as many batches', 0, 2],
])('while events %s', async (_, behind, times) => {
  let time = 0;
  const fold = aRollupFold(store.pool, { slice: { rows: 200_000, ms: 800 }, now: () => (time += 400) });
  for (const prefix of 'abcdefghijkl') await decide(prefix, 101, behind);
  const batches = await batchesOfSlice(fold);
  for (let no = 0; no < 2 * batches; no++) await decide(String.fromCharCode(200 + no), 1, 0);
  expect(await batchesOfSlice(fold)).toBe(batches * times);
});

test('a fold that rests keeps its lease for its rest, and for the time of a lease', async () => {
  await decide('a', 1_200, 1_200);
  const before = await store.value('select clock_timestamp()');
  const restMs = await restAfterSlice(aRollupFold(store.pool, { leaseMs: 5_000 }));
  expect(restMs).toBeGreaterThan(0);
  expect(
    await store.value(
      `select held_until >= $1::timestamptz + ($2::float8 + 5000) * interval '1 ms' from promo_store.folds`,
      [before, restMs],
    ),
  ).toBe('t');
});

test.each([
  ['half of the events wait long', 1_200, 600, BEHIND_MS],
  ['the events wait for two seconds', 1_200, 1_200, 2_000],
  ['the slice has few events', 999, 999, BEHIND_MS],
])('a fold goes on at once where %s', async (_, events, behind, delayMs) => {
  await decide('a', events, behind, delayMs);
  expect(await restAfterSlice(aRollupFold(store.pool))).toBe(0);
});

/** As many batches as the first slice has. */
const FIRST_BATCHES = 'abcdefghijklmnop';

test('a fold that is five minutes behind no longer gives way', async () => {
  for (const prefix of FIRST_BATCHES) await decide(prefix, 100, 100);
  await store.age('5 minutes');
  for (const prefix of 'rstu') await decide(prefix, 300, 300);
  const rests = await allRests(aRollupFold(store.pool));
  expect(rests.pop()).toBeGreaterThan(0);
  expect(new Set(rests)).toEqual(new Set([0]));
});

test('a fold that is behind goes on at once where the intake has caught up meanwhile', async () => {
  for (const prefix of FIRST_BATCHES) await decide(prefix, 100, 100);
  for (const prefix of 'rstu') await decide(prefix, 100, 0);
  expect(await restAfterSlice(aRollupFold(store.pool))).toBe(0);
});

test('a fold that is behind goes on at once where the intake has been idle for ten seconds', async () => {
  await decide('a', 1_200, 1_200);
  await store.age('10 seconds');
  expect(await restAfterSlice(aRollupFold(store.pool))).toBe(0);
});

test('a rebuild no longer gives way once the shown results have everything', async () => {
  await decide('a', 1_200, 1_200);
  const fold = aRollupFold(store.pool);
  expect(await restAfterSlice(fold)).toBeGreaterThan(0);
  await fold.rebuild('a test');
  expect(await restAfterSlice(fold)).toBe(0);
});

test('a rebuild no longer gives way where arrived rows keep the shown results from going on', async () => {
  // More batches than the first slice of a rebuild has.
  for (const prefix of 'bcdefghijklmnopqrstu') await decide(prefix, 1, 0);
  await decide('a', 1_200, 1_200);
  const fold = aRollupFold(store.pool);
  while ((await restAfterSlice(fold)) === 0);
  await store.rows(
    `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ('x', 'b', 0, '{}', '{}')`,
  );
  await decide('v', 1, 0);
  // The first slice is in the turn of the rebuild, the second one in that of the shown results.
  expect(await restAfterSlice(fold)).toBeGreaterThan(0);
  expect(await restAfterSlice(fold)).toBe(0);
});

test('the latest verdicts of a long slice say how the intake is', async () => {
  for (const prefix of ['a', 'b']) await decide(prefix, 600, 600);
  for (const prefix of ['c', 'd', 'e', 'f']) await decide(prefix, 100, 0);
  expect(await restAfterSlice(aRollupFold(store.pool))).toBe(0);
});
