import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../../dev/servers/download';
import {
  BENCH,
  CHECKS,
  COMPUTING,
  CONTAINERS,
  FOLLOWING,
  FOLLOWING_WORKERS,
  LAYERS,
  printSummary,
  type Result,
  readJestResults,
  summarize,
} from '../../../dev/test-results';
import { isObject } from '../../../src/lib/json';

/** The result of a file in the form of Jest. */
const jestFile = (path: string, statuses: readonly string[], fields: Record<string, unknown> = {}) => ({
  name: join(ROOT, path),
  startTime: 1_000,
  endTime: 3_500,
  status: statuses.includes('failed') ? 'failed' : 'passed',
  message: '',
  assertionResults: statuses.map((status, index) => ({
    title: `test ${index + 1}`,
    ancestorTitles: [],
    status,
    failureMessages: status === 'failed' ? ['\u001b[31mError: no\u001b[39m\n  at some place'] : [],
  })),
  ...fields,
});
const read = (...testResults: unknown[]) => readJestResults({ testResults }, ROOT);
const passed = (layer: string, test = 'it works'): Result => ({ layer, test, status: 'passed' });

describe('the results of Jest', () => {
  test('are read by layer', () => {
    const { results, seconds } = read(
      jestFile('test/unit/domain/event/money.test.ts', ['passed', 'failed']),
      jestFile('test/unit/codecs.test.ts', ['passed']),
      jestFile('test/model/rounds.test.ts', ['passed']),
    );
    expect(results).toEqual([
      passed('unit', 'test 1'),
      { layer: 'unit', test: 'test 2', status: 'failed', message: 'Error: no' },
      passed('unit', 'test 1'),
      passed('model', 'test 1'),
    ]);
    expect(Object.fromEntries(seconds)).toEqual({ unit: 5, model: 2.5 });
  });

  test.each(['pending', 'todo', 'disabled'])('a test that is %s was skipped', (status) => {
    expect(read(jestFile('test/unit/a.test.ts', [status])).results).toMatchObject([{ status: 'skipped' }]);
  });

  test('a file that cannot be loaded is one failed test', () => {
    const file = jestFile('test/unit/a.test.ts', [], {
      status: 'failed',
      message: '\n  cannot find module\n',
    });
    expect(read(file).results).toEqual([
      { layer: 'unit', test: 'test/unit/a.test.ts', status: 'failed', message: 'cannot find module' },
    ]);
  });

  test('a file that fails after its tests have passed is an additional failed test', () => {
    const file = jestFile('test/unit/a.test.ts', ['passed'], {
      status: 'failed',
      message: 'afterAll failed',
    });
    expect(read(file).results.map(({ status }) => status)).toEqual(['passed', 'failed']);
  });

  test.each([[null], [{}], [{ testResults: [{}] }], [{ testResults: [jestFile('a', [], { name: 7 })] }]])(
    'have no other form: %j',
    (json) => {
      expect(() => readJestResults(json, ROOT)).toThrow(/jest wrote/);
    },
  );
});

describe('a run', () => {
  const seconds = new Map([
    ['unit', 9],
    ['model', 999],
  ]);

  /** The budget of a layer in seconds, as in its column. */
  const budgetOf = (layer: string) => {
    const { minutes = Number.NaN } = LAYERS.find(({ name }) => name === layer) ?? {};
    return String(minutes * 60).padStart(6);
  };

  test('ends with the line for tools', () => {
    const summary = summarize(['unit'], [passed('unit'), passed('unit')], seconds);
    expect(printSummary(summary).split('\n')).toEqual([
      'layer  passed  failed  skipped  seconds  budget',
      `unit        2       0        0      9.0  ${budgetOf('unit')}`,
      '2 passed, 0 failed',
    ]);
  });

  test('lists skipped tests, failures and slow layers before that line', () => {
    const results: Result[] = [
      passed('unit'),
      { layer: 'unit', test: 'later', status: 'skipped' },
      { layer: 'model', test: 'it holds', status: 'failed', message: 'Error: seed 7' },
    ];
    expect(printSummary(summarize(['unit', 'model'], results, seconds)).split('\n')).toEqual([
      'layer  passed  failed  skipped  seconds  budget',
      `unit        1       0        1      9.0  ${budgetOf('unit')}`,
      `model       0       1        0    999.0  ${budgetOf('model')}  over budget`,
      'failed: model: it holds: Error: seed 7',
      '1 skipped',
      '1 passed, 1 failed',
    ]);
  });

  test('a layer that ran no test or skipped all tests is a failure', () => {
    const skipped: Result = { layer: 'ledger', test: 'later', status: 'skipped' };
    const summary = summarize(['unit', 'ledger', 'model'], [passed('unit'), skipped], new Map());
    expect(summary.failures.map(({ layer, message }) => `${layer}: ${message}`)).toEqual([
      'ledger: no test ran',
      'model: no test ran',
    ]);
    expect(summary.failed).toBe(2);
  });

  test('a layer without a budget is counted too', () => {
    const summary = summarize(['unit'], [passed('unit'), passed('other')], new Map());
    expect(summary).toMatchObject({ passed: 2, failed: 0 });
    expect(summary.layers).toContainEqual(expect.objectContaining({ name: 'other', budgetSeconds: null }));
  });
});

describe('the layers', () => {
  const projects: unknown = require('../../../jest.config.js');

  test('are the Jest projects, the checks, and the containers', () => {
    const list: readonly unknown[] =
      isObject(projects) && Array.isArray(projects.projects) ? projects.projects : [];
    const names = list.map((project) => (isObject(project) ? project.displayName : undefined));
    expect([CHECKS, CONTAINERS, ...names].sort()).toEqual(LAYERS.map(({ name }) => name).sort());
  });

  test('are in test/README.md with their budgets, together at most 1.5 times 20 minutes', () => {
    const readme = readFileSync(join(ROOT, 'test', 'README.md'), 'utf8');
    const rows = [...readme.matchAll(/^\| `(\w+)` *\| ([\d.]+) *\|/gm)];
    expect(rows.map(([, name, minutes]) => ({ name, minutes: Number(minutes) }))).toEqual(
      LAYERS.map(({ name, minutes }) => ({ name, minutes })),
    );
    const minutesOf = (names: readonly string[]) =>
      LAYERS.filter(({ name }) => names.includes(name)).reduce((sum, { minutes }) => sum + minutes, 0);
    const behind = [...COMPUTING, CONTAINERS, ...FOLLOWING];
    const alone = [CHECKS, BENCH];
    const onServers = LAYERS.map(({ name }) => name).filter((name) => ![...behind, ...alone].includes(name));
    const oneByOne = minutesOf([...COMPUTING, CONTAINERS]);
    const together = Math.max(minutesOf(onServers) / 2, oneByOne + minutesOf(FOLLOWING) / FOLLOWING_WORKERS);
    expect(minutesOf([CHECKS]) + together + minutesOf([BENCH]) / 2).toBeLessThanOrEqual(1.5 * 20);
  });
});
