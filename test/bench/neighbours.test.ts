/** The limits on what a sender can take hold beside a well-behaved sender: see dev/bench/modes/neighbours.ts. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { compile } from '../dev/programs';

/** All kinds take some five minutes, and run with the other long faults. */
const areAllWanted = process.env.FAULTS === 'all';
const DEADLINE_MS = areAllWanted ? 900_000 : 240_000;
jest.setTimeout(DEADLINE_MS + 10_000);

let bench: string;
beforeAll(() => {
  bench = compile('test-bench').bench;
});

test('a hostile operator does not slow, stop or refuse its neighbour, by Kafka and by the webhook', async () => {
  const child = spawn(process.execPath, [bench], {
    env: { ...process.env, BENCH: 'neighbours-check', ...(areAllWanted && { BENCH_KINDS: 'all' }) },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: DEADLINE_MS,
  });
  const [printed, progress, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  process.stdout.write(printed);
  expect({ code, progress: code === 0 ? '' : progress }).toEqual({ code: 0, progress: '' });
});
