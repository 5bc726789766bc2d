/** The limits on a sender protect a well-behaved neighbour: see dev/bench/modes/neighbours.ts. */
import { inRun, isLongRun } from '../../dev/long-run';
import { builtTools } from '../dev/programs';
import { runCheck } from './run-check';

/** All kinds take some five minutes, and run with the other long faults. */
const areAllWanted = process.env.FAULTS === 'all';
/** The attacks on memory have tests of their own: stream/hostile-bytes.test.ts. */
const OF_USUAL_RUN = 'one-byte-chunks,nested-rounds';
/** Of each kind. */
const SECONDS = inRun({ usual: 3, long: 6 });
const DEADLINE_MS = areAllWanted ? 1_800_000 : 600_000;
jest.setTimeout(DEADLINE_MS + 10_000);

let bench: string;
beforeAll(() => {
  bench = builtTools().bench;
});

test('a hostile operator does not slow, stop or refuse its neighbour, by Kafka and by the webhook', async () => {
  await runCheck(
    bench,
    {
      BENCH: 'neighbours-check',
      BENCH_SECONDS: String(SECONDS),
      ...(!isLongRun && { BENCH_KINDS: OF_USUAL_RUN }),
      ...(areAllWanted && { BENCH_KINDS: 'all' }),
    },
    DEADLINE_MS,
  );
});
