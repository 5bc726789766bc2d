/** The table of faults against the tests that ran. */

import { FAULTS, type FaultGroup, MAY_BE_SKIPPED } from '../../../dev/catalogue/faults';
import { outcomesOf, readRan, renderTests, withoutFault } from '../../../dev/faults';

const jestJson = (tests: readonly (readonly [string, string])[]) => ({
  testResults: [
    {
      name: '/project/test/faults/a.test.ts',
      assertionResults: tests.map(([title, status]) => ({
        title,
        status,
        ancestorTitles: ['a store [U1]'],
      })),
    },
  ],
});
const ran = (...tests: (readonly [string, string])[]) => readRan(jestJson(tests), '/project');
const groups = (...names: string[]): FaultGroup[] => [
  {
    title: 'Postgres',
    faults: [
      {
        fault: 'it stops',
        does: 'waits',
        sees: 'a line',
        tests: { 'test/faults/a.test.ts': names.map((name) => `a store: ${name}`) },
      },
    ],
  },
];

test('tests are known by their names without rules and without the reason of a skip', () => {
  expect(ran(['stops [U1] [V9]', 'passed'], ['is full (skipped: no disk): waits', 'pending'])).toEqual([
    { file: 'test/faults/a.test.ts', name: 'a store: stops', status: 'passed' },
    { file: 'test/faults/a.test.ts', name: 'a store: is full: waits', status: 'skipped' },
  ]);
  expect(() => readRan({}, '/project')).toThrow('no list of results');
});

test('each fault has the results of its tests', () => {
  const tests = ran(['stops', 'passed'], ['hangs', 'passed'], ['is full', 'pending'], ['is slow', 'failed']);
  expect(outcomesOf(groups('stops', 'hangs', 'is full'), tests, null)).toEqual([
    { fault: 'it stops', result: '2 passed, 1 skipped', problems: [] },
  ]);
  expect(outcomesOf(groups('is slow'), tests, null)).toEqual([
    { fault: 'it stops', result: '1 failed', problems: ['"a store: is slow" failed'] },
  ]);
});

test('a skipped test in a run of all faults is a problem, unless its skip is allowed', () => {
  const tests = ran(['stops', 'passed'], ['is full', 'pending']);
  const asked = groups('stops', 'is full');
  expect(outcomesOf(asked, tests, {})).toEqual([
    { fault: 'it stops', result: '1 passed, 1 skipped', problems: ['"a store: is full" was skipped'] },
  ]);
  const maySkip = { 'test/faults/a.test.ts a store: is full': 'where there is no disk' };
  expect(outcomesOf(asked, tests, maySkip)).toEqual([
    { fault: 'it stops', result: '1 passed, 1 skipped, where there is no disk', problems: [] },
  ]);
});

test('allowed skips are in the table', () => {
  const named = FAULTS.flatMap(({ faults }) =>
    faults.flatMap(({ tests }) =>
      Object.entries(tests).flatMap(([file, names]) => names.map((name) => `${file} ${name}`)),
    ),
  );
  for (const test of Object.keys(MAY_BE_SKIPPED)) expect(named).toContain(test);
});

test('a fault with a missing test is a problem', () => {
  expect(outcomesOf(groups('stops'), ran(['halts', 'passed']), null)[0]?.problems).toEqual([
    'there is no test "a store: stops" in test/faults/a.test.ts',
  ]);
});

test('a test of the layer without a fault is a problem', () => {
  expect(withoutFault(groups('stops'), ran(['stops', 'passed'], ['hangs', 'passed']))).toEqual([
    'no fault of dev/catalogue/faults.ts names the test "a store: hangs" in test/faults/a.test.ts',
  ]);
});

test('each fault has a test, and is in the table once', () => {
  const faults = FAULTS.flatMap((group) => group.faults);
  expect(faults.filter(({ tests }) => Object.values(tests).flat().length === 0)).toEqual([]);
  expect(new Set(faults.map(({ fault }) => fault)).size).toBe(faults.length);
});

test('the page of tests lists the tests of each fault, by file and name', () => {
  expect(renderTests(groups('stops'))).toContain(
    '## Postgres\n\n### it stops\n\n- `test/faults/a.test.ts`: a store: stops\n',
  );
});
