/**
 * The runner behind `make test`: `node build/dev/test.js [LAYER...]`. It checks style, types and generated
 * files, runs the Jest projects, and prints the result of each layer. The last line is `N passed, N failed`.
 * The exit code is 1 if a test failed or a layer ran no test. Details are in build/test-results.json, and
 * Jest's own in build/jest-results*.json.
 *
 * Two runs share the cores. Tests on servers wait for most of their time. The checks and the computing layers
 * take the idle cores meanwhile, at a lower priority: so they delay no test with a time limit. The layers
 * that follow them have long time limits.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { RUN_RESULTS } from './jest-results';
import { inRun } from './long-run';
import { projectRoot as ROOT } from './servers/download';
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
  SKIPPED_EXIT_CODE,
  summarize,
} from './test-results';

const ALL_RESULTS = Object.values(RUN_RESULTS);
const TEST_RESULTS = join('build', 'test-results.json');
/** At its lower priority a check may get a tenth of a core, on a machine that is half as fast. */
const CHECK_DEADLINE_MS = 600_000;
/**
 * Test files that run at a time, on two cores. A file on servers uses less than half a core, and more for
 * some seconds. Three at a time missed their own time limits.
 */
const SERVER_WORKERS = 2;
const COMPUTING_WORKERS = 1;
/** Those of a run that has the machine to itself. */
const ALONE_WORKERS = 2;
/** Two files that measure at once would measure each other. */
const BENCH_WORKERS = 1;
/**
 * Room in MiB for new objects in each process of Jest. With the default, short-lived objects cost up to a
 * tenth of its CPU. Only Jest's own processes have it: the product runs with options of its own.
 */
const NEW_OBJECTS = '--max-semi-space-size=32';
/** Steps of priority: beside another process, one of lower priority gets a tenth of a core. */
const LOWER = 10;
/** For those that wait for servers: a quarter of a core. */
const LITTLE_LOWER = 5;
/** The lowest that exists. */
const LOWEST = 19;
/** Several times a whole run on a slow machine: a test that still runs then hangs. */
const JEST_DEADLINE_MS = inRun({ usual: 7_200_000, long: 14_400_000 });
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
const CONTAINERS_DEADLINE_MS = 1_800_000;
interface CheckProgram {
  readonly name: string;
  readonly args: readonly string[];
}

const CHECK_PROGRAMS: readonly CheckProgram[] = [
  { name: 'style', args: [BIOME, 'check', '--error-on-warnings', '.'] },
  { name: 'types', args: [TSC, '--noEmit', '-p', join('test', 'tsconfig.json')] },
  { name: 'types of the page', args: [TSC, '--noEmit', '-p', join('src', 'check-page', 'tsconfig.json')] },
  { name: 'generated files', args: [join('build', 'dev', 'generate.js'), '--check'] },
];

class Interrupted extends Error {}

const interrupt = new AbortController();
const running = new Set<ChildProcess>();

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
  const checkAll = async (programs: readonly CheckProgram[], lower = 0) => {
    if (!wanted.includes(CHECKS)) return;
    const began = performance.now();
    for (const { name, args } of programs) results.push(await check(name, args, lower));
    seconds.set(CHECKS, (seconds.get(CHECKS) ?? 0) + (performance.now() - began) / 1000);
  };
  const add = (jest: JestResults) => {
    results.push(...jest.results);
    for (const [layer, taken] of jest.seconds) seconds.set(layer, taken);
  };
  const chosen = (names: readonly string[]) => wanted.filter((name) => names.includes(name));
  const computing = chosen(COMPUTING);
  const inFront = wanted.filter(
    (name) => ![...COMPUTING, ...FOLLOWING, BENCH, CHECKS, CONTAINERS].includes(name),
  );
  const isShared = computing.length > 0 && inFront.length > 0;
  const following = isShared ? chosen(FOLLOWING) : [];
  const onServers = isShared ? inFront : [...inFront, ...chosen(FOLLOWING)];
  await both(
    (async () => {
      await checkAll(CHECK_PROGRAMS, isShared ? LOWER : 0);
      const workers = isShared ? COMPUTING_WORKERS : ALONE_WORKERS;
      add(await runJest(computing, RUN_RESULTS.computing, { workers, lower: isShared ? LOWER : 0 }));
      if (wanted.includes(CONTAINERS)) {
        const began = performance.now();
        results.push(await testContainers(names.includes(CONTAINERS), isShared ? LOWER : 0));
        seconds.set(CONTAINERS, (performance.now() - began) / 1000);
      }
      const behind = { workers: FOLLOWING_WORKERS, lower: LITTLE_LOWER };
      add(await runJest(following, RUN_RESULTS.following, behind));
    })(),
    (async () => {
      add(
        await runJest(onServers, RUN_RESULTS.servers, { workers: isShared ? SERVER_WORKERS : ALONE_WORKERS }),
      );
    })(),
  );
  add(await runJest(chosen([BENCH]), RUN_RESULTS.bench, { workers: BENCH_WORKERS }));
  // Only a whole run shows which rules and faults have a test.
  if (names.length === 0) {
    results.push(await check('rules and their tests', [RULES_TESTS, ...ALL_RESULTS]));
    results.push(await check('faults and their tests', [FAULTS, '--check', ...ALL_RESULTS]));
  }
  const summary = summarize(wanted, results, seconds);
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  writeFileSync(join(ROOT, TEST_RESULTS), `${JSON.stringify(summary, null, 2)}\n`);
  // One write, and no process.exit, which would cut off output that a pipe has not taken yet.
  process.stdout.write(`${printSummary(summary)}\n`);
  return summary.failed === 0 ? 0 : 1;
}

/** Skipped on a developer's machine unless requested: it may install packages, and starts an engine. */
async function testContainers(isRequested: boolean, lower: number): Promise<Result> {
  const test = { layer: CONTAINERS, test: 'the image, and the servers and the demo in containers' };
  if (!isRequested && !process.env.CI) return { ...test, status: 'skipped' };
  console.log('testing: containers');
  const problem = await run([CONTAINER_TEST], CONTAINERS_DEADLINE_MS, lower);
  if (problem === undefined) return { ...test, status: 'passed' };
  if (problem === `ended with exit code ${SKIPPED_EXIT_CODE}`) return { ...test, status: 'skipped' };
  return { ...test, status: 'failed', message: problem };
}

async function check(name: string, args: readonly string[], lower = 0): Promise<Result> {
  console.log(`checking: ${name}`);
  const problem = await run(args, CHECK_DEADLINE_MS, lower);
  if (problem === undefined) return { layer: CHECKS, test: name, status: 'passed' };
  return { layer: CHECKS, test: name, status: 'failed', message: problem };
}

type JestResults = ReturnType<typeof readJestResults>;

/**
 * @param file for its results
 * @param options.lower steps of priority
 */
async function runJest(
  projects: readonly string[],
  file: string,
  { workers, lower = 0 }: { readonly workers: number; readonly lower?: number },
): Promise<JestResults> {
  if (projects.length === 0) return { results: [], seconds: new Map() };
  rmSync(join(ROOT, file), { force: true });
  const problem = await run(
    [
      ...[NEW_OBJECTS, JEST, '--ci', `--maxWorkers=${workers}`, '--json', `--outputFile=${file}`],
      ...['--selectProjects', ...projects],
    ],
    JEST_DEADLINE_MS,
    lower,
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
 * @param lower steps of priority, beside another run
 * @returns the problem, or undefined
 */
async function run(args: readonly string[], deadlineMs: number, lower = 0): Promise<string | undefined> {
  interrupt.signal.throwIfAborted();
  // In a terminal, both would draw at the same place. Into a pipe, Jest writes whole results.
  const output = lower > 0 ? 'pipe' : 'inherit';
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', output, output],
  });
  // Its own processes inherit it.
  if (lower > 0 && child.pid !== undefined) setPriority(child.pid, Math.min(LOWEST, getPriority() + lower));
  child.stdout?.on('data', (text: Buffer) => process.stdout.write(text));
  child.stderr?.on('data', (text: Buffer) => process.stderr.write(text));
  running.add(child);
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
  running.delete(child);
  interrupt.signal.throwIfAborted();
  return late ? `did not end within ${deadlineMs / 1000} s` : problem;
}

/** Waits for the end of both, also where one of them fails. */
async function both(...works: readonly Promise<void>[]): Promise<void> {
  for (const ended of await Promise.allSettled(works)) if (ended.status === 'rejected') throw ended.reason;
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
    if (running.size === 0) return;
    if (!again) console.error(`${signal}: stopping what runs; again to kill it`);
    for (const child of running) {
      if (again) signalGroup(child, 'SIGKILL');
      else void end(child);
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
