/** The loop of a process that folds: its waits, and its log. */
import pino from 'pino';
import type { Fold, Stepped } from '../../../src/fold/fold';
import type { Generation } from '../../../src/fold/plan';
import { runFold } from '../../../src/fold/run';
import { systemClock } from '../../../src/lib/clock';

const INTERVAL_MS = 250;
const SLICE_MS = 100;

const GENERATION: Generation = {
  generation: 1,
  state: 'shown',
  after: -1,
  lineage: '',
  since: '-infinity',
};

function aSlice(restMs: number, isCaughtUp: boolean, ms = SLICE_MS): Stepped {
  return {
    kind: 'slice',
    of: GENERATION,
    upTo: 8_191,
    shows: false,
    isOnAnotherServer: false,
    rows: 5_000,
    newestAt: null,
    ms,
    wasCut: false,
    wasShortened: false,
    restMs,
    isCaughtUp,
    isFilling: false,
  };
}

/** @param heldBy the process of Postgres that has held the row for long */
function aStandby(heldBy: number | null, isLeased = false): Stepped {
  return { kind: 'standby', isLeased, lagSeconds: 40, heldBy };
}

/** Runs the loop over these steps. @returns its waits and its log lines */
async function run(steps: readonly Stepped[]): Promise<{ waits: number[]; lines: string[] }> {
  const end = new AbortController();
  const waits: number[] = [];
  const lines: string[] = [];
  const rest = [...steps];
  const fold: Pick<Fold, 'step'> = {
    async step() {
      const [next] = rest.splice(0, 1);
      if (next === undefined) throw new RangeError('no step is left');
      if (rest.length === 0) end.abort();
      return next;
    },
  };
  const stream = { write: (line: string) => void lines.push(String(JSON.parse(line).msg)) };
  await runFold(
    {
      fold,
      clock: { ...systemClock, sleep: async (ms) => void waits.push(ms) },
      logger: pino({}, stream),
      intervalMs: INTERVAL_MS,
      observe() {},
    },
    end.signal,
  );
  return { waits, lines };
}

test('slices are followed by their rests, and the log has the begin and the end of giving way', async () => {
  const { waits, lines } = await run([
    aSlice(1_200, false),
    aSlice(900, true),
    aSlice(0, false),
    aSlice(0, true),
  ]);
  expect(waits).toEqual([1_200, 900, INTERVAL_MS - SLICE_MS]);
  expect(lines).toEqual([
    'this process folds',
    'events wait long in Kafka, giving way to the intake',
    'folding at full speed',
  ]);
});

test('a rest is no shorter than the wait of a fold that has everything', async () => {
  expect((await run([aSlice(10, true)])).waits).toEqual([INTERVAL_MS - SLICE_MS]);
});

test('an open transaction that holds the fold is logged once, with its process of Postgres', async () => {
  const { lines } = await run([aSlice(0, true), aStandby(7), aStandby(7), aStandby(8), aSlice(0, true)]);
  expect(lines).toEqual([
    'this process folds',
    'an open transaction holds the fold, waiting',
    'an open transaction holds the fold, waiting',
    'this process folds',
  ]);
});

test('a transaction that holds the fold for a moment is not logged as another process', async () => {
  const { lines } = await run([aSlice(0, true), aStandby(null), aSlice(0, true)]);
  expect(lines).toEqual(['this process folds']);
});

test('another process that has the lease is logged once', async () => {
  const leased = aStandby(null, true);
  const { lines } = await run([leased, aStandby(null), leased, aSlice(0, true)]);
  expect(lines).toEqual(['another process folds, waiting', 'this process folds']);
});

test('a slice that took the whole interval is followed at once', async () => {
  expect((await run([aSlice(0, true, INTERVAL_MS), aSlice(0, true, 2 * INTERVAL_MS)])).waits).toEqual([]);
});
