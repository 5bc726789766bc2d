/**
 * The tests of faults: `node build/dev/faults.js` runs them all, those that take minutes too, and prints the
 * result of each fault.
 *
 * With `--check [JEST_RESULTS...]` it runs nothing: it compares dev/catalogue/faults.ts with the tests that
 * ran. The default files are those of `make test`. It exits with 1 if a fault names a missing or a failed
 * test, or if a test of the layer `faults` has no fault.
 *
 * Since `make test` leaves out the tests that take minutes, `--check` accepts every skipped test. Without
 * `--check`, a skipped test also causes exit code 1, unless MAY_BE_SKIPPED lists it. Both write
 * build/faults-tests.md, with the tests of each fault.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { FAULTS, type Fault, type FaultGroup, MAY_BE_SKIPPED } from './catalogue/faults';
import { type JestTest, RUN_RESULTS, readJestTests } from './jest-results';
import { projectRoot as ROOT } from './servers/download';
import { splitTitle } from './title-tags';

const FAULT_RESULTS = join('build', 'fault-results.json');
const TESTS_PAGE = join('build', 'faults-tests.md');
const JEST = join('node_modules', 'jest', 'bin', 'jest.js');
const LAYER = 'test/faults/';
const DEADLINE_MS = 3_600_000;

/** A test in the results of Jest. */
export interface Ran extends Pick<JestTest, 'file' | 'status'> {
  readonly name: string;
}

/** A test that cannot run has the reason in its title. The reason is no part of its name. */
const WHY_SKIPPED = / \(skipped: [^)]*\)/;

/** @throws if the file is not one of Jest's */
export function readRan(json: unknown, root: string): Ran[] {
  return readJestTests(json, root).map(({ file, titles, status }) => ({
    file,
    name: titles
      .map((title) => splitTitle(title).text)
      .join(': ')
      .replace(WHY_SKIPPED, ''),
    status,
  }));
}

/** The result of a fault: the worst of all its tests, and the problems. */
export interface Outcome {
  readonly fault: string;
  readonly result: string;
  readonly problems: readonly string[];
}

/** @param maySkip tests that may be skipped, by file and name, and why; null if any may */
export function outcomesOf(
  groups: readonly FaultGroup[],
  ran: readonly Ran[],
  maySkip: Readonly<Record<string, string>> | null,
): Outcome[] {
  const statusOf = new Map(ran.map(({ file, name, status }) => [`${file} ${name}`, status]));
  return groups.flatMap(({ faults }) =>
    faults.map(({ fault, tests }) => {
      const statuses = namesOf(tests).map(({ file, name }) => ({
        file,
        name,
        status: statusOf.get(`${file} ${name}`),
      }));
      const count = (status: Ran['status'] | undefined) =>
        statuses.filter((test) => test.status === status).length;
      const counts = (['passed', 'failed', 'skipped'] as const).flatMap((status) =>
        count(status) > 0 ? [`${count(status)} ${status}`] : [],
      );
      const skipped = statuses.filter(({ status }) => status === 'skipped');
      const allowed = skipped.flatMap(({ file, name }) => maySkip?.[`${file} ${name}`] ?? []);
      return {
        fault,
        result: [...counts, ...allowed].join(', '),
        problems: statuses.flatMap(({ file, name, status }) => {
          if (status === undefined) return [`there is no test "${name}" in ${file}`];
          if (status === 'skipped' && maySkip !== null && maySkip[`${file} ${name}`] === undefined)
            return [`"${name}" was skipped`];
          return status === 'failed' ? [`"${name}" failed`] : [];
        }),
      };
    }),
  );
}

/** The tests of the layer that no fault names. */
export function withoutFault(groups: readonly FaultGroup[], ran: readonly Ran[]): string[] {
  const named = new Set(
    groups.flatMap(({ faults }) =>
      faults.flatMap(({ tests }) => namesOf(tests).map(({ file, name }) => `${file} ${name}`)),
    ),
  );
  return ran
    .filter(({ file, name }) => file.startsWith(LAYER) && !named.has(`${file} ${name}`))
    .map(({ file, name }) => `no fault of dev/catalogue/faults.ts names the test "${name}" in ${file}`);
}

function namesOf(tests: Fault['tests']): { file: string; name: string }[] {
  return Object.entries(tests).flatMap(([file, names]) => names.map((name) => ({ file, name })));
}

/**
 * Runs Jest over the files that the table names.
 *
 * @returns its exit code
 */
function runTests(): number {
  const files = new Set(FAULTS.flatMap(({ faults }) => faults.flatMap(({ tests }) => Object.keys(tests))));
  const layers = new Set([...files].map((file) => file.split('/')[1] ?? ''));
  const { status } = spawnSync(
    process.execPath,
    [
      ...[JEST, '--ci', '--json', `--outputFile=${FAULT_RESULTS}`, '--selectProjects', ...layers],
      ...['--testPathPatterns', ...files],
    ],
    {
      cwd: ROOT,
      env: { ...process.env, FAULTS: 'all' },
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: DEADLINE_MS,
    },
  );
  return status ?? 1;
}

/** Which tests prove which fault: a list for developers, beside docs/faults.md for SREs. */
export function renderTests(groups: readonly FaultGroup[]): string {
  const lines = ['# Which tests prove which fault', '', 'Written by `make test` and `make test-faults`.'];
  for (const { title, faults } of groups) {
    lines.push('', `## ${title}`);
    for (const { fault, tests } of faults) {
      lines.push('', `### ${fault}`, '');
      for (const { file, name } of namesOf(tests)) lines.push(`- \`${file}\`: ${name}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

function main(args: readonly string[]): number {
  const checksOnly = args.includes('--check');
  const code = checksOnly ? 0 : runTests();
  const given = args.filter((arg) => !arg.startsWith('--'));
  const paths = checksOnly ? (given.length > 0 ? given : Object.values(RUN_RESULTS)) : [FAULT_RESULTS];
  const ran = paths.flatMap((path) => readRan(JSON.parse(readFileSync(resolve(ROOT, path), 'utf8')), ROOT));
  const outcomes = outcomesOf(FAULTS, ran, checksOnly ? null : MAY_BE_SKIPPED);
  mkdirSync(dirname(resolve(ROOT, TESTS_PAGE)), { recursive: true });
  writeFileSync(resolve(ROOT, TESTS_PAGE), renderTests(FAULTS));
  const problems = [...outcomes.flatMap((outcome) => outcome.problems), ...withoutFault(FAULTS, ran)];
  if (!checksOnly) {
    const width = Math.max(...outcomes.map(({ fault }) => fault.length));
    for (const { fault, result } of outcomes) console.log(`${fault.padEnd(width)}  ${result}`);
  }
  for (const problem of problems) console.error(problem);
  console.log(`${outcomes.length} faults, ${problems.length} problems`);
  return problems.length === 0 ? code : 1;
}

if (require.main === module) process.exitCode = main(process.argv.slice(2));
