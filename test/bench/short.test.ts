/** What a decided event costs, beside an insert-only worker in the same run: a change that makes it dear does not pass. */
import { compile } from '../dev/programs';
import { runCheck } from './run-check';

const DEADLINE_MS = 240_000;
jest.setTimeout(DEADLINE_MS + 10_000);

let bench: string;
beforeAll(() => {
  bench = compile('test-bench').bench;
});

test('the worker keeps its cost and its rate beside insert-only (the limits stand in dev/bench/modes/short.ts)', async () => {
  const ended = await runCheck(bench, { BENCH: 'short' }, DEADLINE_MS);
  expect(ended).toEqual({ code: 0, told: '' });
});
