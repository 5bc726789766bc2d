/** The limits on a sender protect a well-behaved neighbour: see dev/bench/modes/neighbours.ts. */
import { inRun } from '../../dev/long-run';
import { builtTools } from '../dev/programs';
import { runCheck } from './run-check';

/** All kinds take some five minutes, and run with the other long faults. */
const areAllWanted = process.env.FAULTS === 'all';
/** Of each kind. */
const SECONDS = inRun({ usual: 3, long: 6 });
const DEADLINE_MS = areAllWanted ? 900_000 : 240_000;
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
      ...(areAllWanted && { BENCH_KINDS: 'all' }),
    },
    DEADLINE_MS,
  );
});
