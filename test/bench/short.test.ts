/** What a decided event costs, beside an insert-only worker in the same run: a change that makes it dear does not pass. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { compile } from '../dev/programs';

const DEADLINE_MS = 240_000;
jest.setTimeout(DEADLINE_MS + 10_000);

let bench: string;
beforeAll(() => {
  bench = compile('test-bench').bench;
});

test('the worker keeps its cost and its rate beside insert-only (the limits stand in dev/bench/modes/short.ts)', async () => {
  const child = spawn(process.execPath, [bench], {
    env: { ...process.env, BENCH: 'short' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: DEADLINE_MS,
  });
  const [printed, told, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  process.stdout.write(printed);
  expect({ code, told: code === 0 ? '' : told }).toEqual({ code: 0, told: '' });
});
