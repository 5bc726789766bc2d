/** A fold gives way to an intake that is behind: by the delays that history keeps. */
import { aRollupFold } from '../support/folds';
import { aLogin, freshStore, type TestStore } from '../support/ledger';

const BEHIND_MS = 2_001;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
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

async function rests(fold: ReturnType<typeof aRollupFold>): Promise<boolean> {
  for (;;) {
    const stepped = await fold.step();
    if (stepped.kind === 'slice') return stepped.restMs > 0;
    expect(stepped.kind).toBe('begin');
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
  expect(await rests(fold)).toBe(false);
});

test('a fold that rests keeps its lease until the rest is over', async () => {
  await decide('a', 1_200, 1_200);
  const fold = aRollupFold(store.pool, { holder: 'first', leaseMs: 1 });
  expect(await rests(fold)).toBe(true);
  expect(await aRollupFold(store.pool, { holder: 'second' }).step()).toMatchObject({ kind: 'standby' });
});

test.each([
  ['half of the events wait long', 1_200, 600, BEHIND_MS],
  ['the events wait for two seconds', 1_200, 1_200, 2_000],
  ['the slice has few events', 999, 999, BEHIND_MS],
])('a fold goes on at once where %s', async (_, events, behind, delayMs) => {
  await decide('a', events, behind, delayMs);
  expect(await rests(aRollupFold(store.pool))).toBe(false);
});

test('a fold that is five minutes behind no longer gives way', async () => {
  await decide('a', 1_200, 1_200);
  await store.rows(`update promo_store.history set decided_at = decided_at - interval '5 minutes'`);
  expect(await rests(aRollupFold(store.pool))).toBe(false);
});

test('a rebuild no longer gives way once the shown results have everything', async () => {
  await decide('a', 1_200, 1_200);
  const fold = aRollupFold(store.pool);
  expect(await rests(fold)).toBe(true);
  await fold.rebuild('a test');
  expect(await rests(fold)).toBe(false);
});

test('the latest verdicts of a long slice say how the intake is', async () => {
  for (const prefix of ['a', 'b']) await decide(prefix, 600, 600);
  for (const prefix of ['c', 'd', 'e', 'f']) await decide(prefix, 100, 0);
  expect(await rests(aRollupFold(store.pool))).toBe(false);
});
