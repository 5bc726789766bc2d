/**
 * The runner behind `make test`: `node build/dev/test.js [LAYER...]`. It builds, checks style, types and
 * generated files, runs the Jest projects, and prints the result of each layer. The last line is `N passed, N
 * failed`. The exit code is 1 if a test failed or a layer ran no test. Details are in
 * build/test-results.json, and Jest's own in build/jest-results.json.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from './servers/download';
import {
  BENCH,
  CHECKS,
  CONTAINERS,
  LAYERS,
  printSummary,
  type Result,
  readJestResults,
  SKIPPED_EXIT_CODE,
  summarize,
} from './test-results';

const JEST_RESULTS = join('build', 'jest-results.json');
const BENCH_RESULTS = join('build', 'jest-results-bench.json');
const TEST_RESULTS = join('build', 'test-results.json');
const CHECK_DEADLINE_MS = 180_000;
/** Test files that run at a time, on two cores. With three, tests that have time limits miss them. */
const WORKERS = 2;
/** Beyond the budget of all layers together: a test that still runs then hangs. */
const JEST_DEADLINE_MS = 3_600_000;
/** The servers of a run are stopped within this time. */
const STOP_DEADLINE_MS = 45_000;
const USAGE_EXIT_CODE = 2;
const INTERRUPTED_EXIT_CODE = 130;

const TSC = join('node_modules', 'typescript', 'bin', 'tsc');
const BIOME = join('node_modules', '@biomejs', 'biome', 'bin', 'biome');
const JEST = join('node_modules', 'jest', 'bin', 'jest.js');
const RULES_TESTS = join('build', 'dev', 'rules-tests.js');
const FAULTS = join('build', 'dev', 'faults.js');
const CONTAINER_TEST = join('build', 'dev', 'container-test.js');
const CONTAINERS_DEADLINE_MS = 900_000;
const CHECK_PROGRAMS: readonly { readonly name: string; readonly args: readonly string[] }[] = [
  { name: 'build', args: [TSC, '-p', 'tsconfig.json'] },
  // The generator below has to be built from the current sources.
  { name: 'build of the tools', args: [TSC, '-p', join('dev', 'tsconfig.json')] },
  { name: 'style', args: [BIOME, 'check', '--error-on-warnings', '.'] },
  { name: 'types', args: [TSC, '--noEmit', '-p', join('test', 'tsconfig.json')] },
  { name: 'generated files', args: [join('build', 'dev', 'generate.js'), '--check'] },
];

class Interrupted extends Error {}

const interrupt = new AbortController();
let running: ChildProcess | undefined;

async function main(names: readonly string[]): Promise<number> {
  const known: readonly string[] = LAYERS.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    console.error(`there is no layer ${unknown.join(', ')}; the layers are ${known.join(', ')}`);
    return USAGE_EXIT_CODE;
  }
  const wanted = names.length === 0 ? known : known.filter((name) => names.includes(name));
  const results: Result[] = [];
  const seconds = new Map<string, number>();
  if (wanted.includes(CHECKS)) {
    const began = performance.now();
    for (const { name, args } of CHECK_PROGRAMS) results.push(await check(name, args));
    seconds.set(CHECKS, (performance.now() - began) / 1000);
  }
  const projects = wanted.filter((name) => name !== CHECKS && name !== CONTAINERS);
  const isAlone = (name: string) => name === BENCH;
  for (const [file, together] of [
    [JEST_RESULTS, projects.filter((name) => !isAlone(name))],
    [BENCH_RESULTS, projects.filter(isAlone)],
  ] as const) {
    if (together.length === 0) continue;
    const jest = await runJest(together, file);
    results.push(...jest.results);
    for (const [layer, taken] of jest.seconds) seconds.set(layer, taken);
  }
  if (wanted.includes(CONTAINERS)) {
    const began = performance.now();
    results.push(await testContainers(names.includes(CONTAINERS)));
    seconds.set(CONTAINERS, (performance.now() - began) / 1000);
  }
  // Only a whole run shows which rules and faults have a test.
  if (names.length === 0) {
    results.push(await check('rules and their tests', [RULES_TESTS, JEST_RESULTS, BENCH_RESULTS]));
    results.push(await check('faults and their tests', [FAULTS, '--check', JEST_RESULTS, BENCH_RESULTS]));
  }
  const summary = summarize(wanted, results, seconds);
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  writeFileSync(join(ROOT, TEST_RESULTS), `${JSON.stringify(summary, null, 2)}\n`);
  // One write, and no process.exit, which would cut off output that a pipe has not taken yet.
  process.stdout.write(`${printSummary(summary)}\n`);
  return summary.failed === 0 ? 0 : 1;
}

/** Skipped on a developer's machine unless requested: it may install packages, and starts an engine. */
async function testContainers(isRequested: boolean): Promise<Result> {
  const test = { layer: CONTAINERS, test: 'the image, and the servers and the demo in containers' };
  if (!isRequested && !process.env.CI) return { ...test, status: 'skipped' };
  console.log('testing: containers');
  const problem = await run([CONTAINER_TEST], CONTAINERS_DEADLINE_MS);
  if (problem === undefined) return { ...test, status: 'passed' };
  if (problem === `ended with exit code ${SKIPPED_EXIT_CODE}`) return { ...test, status: 'skipped' };
  return { ...test, status: 'failed', message: problem };
}

async function check(name: string, args: readonly string[]): Promise<Result> {
  console.log(`checking: ${name}`);
  const problem = await run(args, CHECK_DEADLINE_MS);
  if (problem === undefined) return { layer: CHECKS, test: name, status: 'passed' };
  return { layer: CHECKS, test: name, status: 'failed', message: problem };
}

/** @param file for its results */
async function runJest(
  projects: readonly string[],
  file: string,
): Promise<ReturnType<typeof readJestResults>> {
  rmSync(join(ROOT, file), { force: true });
  const problem = await run(
    [
      JEST,
      '--ci',
      `--maxWorkers=${WORKERS}`,
      '--json',
      `--outputFile=${file}`,
      '--selectProjects',
      ...projects,
    ],
    JEST_DEADLINE_MS,
  );
  const broken = (message: string): Result => ({ layer: CHECKS, test: 'jest', status: 'failed', message });
  if (!existsSync(join(ROOT, file)))
    return { results: [broken(problem ?? 'wrote no results')], seconds: new Map() };
  const json: unknown = JSON.parse(readFileSync(join(ROOT, file), 'utf8'));
  const { results, seconds } = readJestResults(json, ROOT);
  const isExplained = problem === undefined || results.some(({ status }) => status === 'failed');
  // Such as servers that could not be stopped, after every test has passed.
  return {
    results: isExplained ? results : [...results, broken(`${problem}, though no test failed`)],
    seconds,
  };
}

/**
 * Runs a Node program to its end, in a process group of its own. A signal to the group then reaches every
 * process that it has started.
 *
 * @returns the problem, or undefined
 */
async function run(args: readonly string[], deadlineMs: number): Promise<string | undefined> {
  interrupt.signal.throwIfAborted();
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  running = child;
  let late = false;
  const deadline = setTimeout(() => {
    late = true;
    void end(child);
  }, deadlineMs);
  const problem = await new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) =>
      resolve(code === 0 ? undefined : `ended with ${signal ?? `exit code ${code}`}`),
    );
  });
  clearTimeout(deadline);
  running = undefined;
  interrupt.signal.throwIfAborted();
  return late ? `did not end within ${deadlineMs / 1000} s` : problem;
}

/** Interrupts a program and all its processes. Kills them after a while. */
async function end(child: ChildProcess): Promise<void> {
  signalGroup(child, 'SIGINT');
  const kill = setTimeout(() => signalGroup(child, 'SIGKILL'), STOP_DEADLINE_MS);
  await new Promise((resolve) => child.once('exit', resolve));
  clearTimeout(kill);
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    const again = interrupt.signal.aborted;
    interrupt.abort(new Interrupted());
    if (running === undefined) return;
    if (again) signalGroup(running, 'SIGKILL');
    else {
      console.error(`${signal}: stopping what runs; again to kill it`);
      void end(running);
    }
  });
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    if (error instanceof Interrupted) {
      console.error('interrupted');
      process.exitCode = INTERRUPTED_EXIT_CODE;
      return;
    }
    console.error(error instanceof Error ? (error.stack ?? error.message) : error);
    process.exitCode = 1;
  },
);
