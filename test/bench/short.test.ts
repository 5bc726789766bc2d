/**
 * The cost of a decided event, beside an insert-only worker in the same run. A change that makes an event
 * expensive fails this test.
 */
import { builtTools } from '../dev/programs';
import { runCheck } from './run-check';

const DEADLINE_MS = 600_000;
jest.setTimeout(DEADLINE_MS + 10_000);

let bench: string;
beforeAll(() => {
  bench = builtTools().bench;
});

test('the worker keeps its cost and its rate beside insert-only (limits of dev/bench/modes/short.ts)', async () => {
  await runCheck(bench, { BENCH: 'short' }, DEADLINE_MS);
});
