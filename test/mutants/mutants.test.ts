/**
 * Each mutant is applied to a copy of the project. The test that it names has to fail there by one of its own
 * assertions. A mutant that cannot be compiled or loaded, or that never ends, does not count. In the copy
 * without mutants the same tests pass.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { isLongRun } from '../../dev/long-run';
import {
  type Killer,
  killerFile,
  type Mutant,
  MutantError,
  mutate,
  readMutant,
  readMutants,
  readSources,
  SIMULATOR,
  testFiles,
} from '../../dev/mutants';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { type Result, readJestResults } from '../../dev/test-results';
import { isObject } from '../../src/lib/json';
import { JestRuns } from '../support/jest-runs';

const COPIED = ['src', 'test', 'dev', 'migrations', 'schemas', 'docs', 'package.json', 'tsconfig.json'];
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
const SIMULATOR_FILE = 'test/mutants/simulator.ts';
const COMPILED_WITHIN_MS = 900_000;
/** A killer takes a few seconds, and the one of an idle transaction 15 s. */
const KILLED_WITHIN_MS = 300_000;
const ALL_KILLERS_WITHIN_MS = 900_000;

/** Beside other tests, those that erase players take more than Jest's five seconds. */
const TEST_WITHIN_MS = 40_000;

jest.setTimeout(COMPILED_WITHIN_MS + KILLED_WITHIN_MS);

const sources = readSources(ROOT);
const tests = testFiles(ROOT);
const allMutants = readMutants(ROOT).map(withWholePath);
const mutants = isLongRun ? allMutants : oneForEachRuleAndTest(allMutants);
/** Texts that are no valid mutants, to check that they are refused. */
const BAD = {
  unnoticed: bad('unnoticed', '+// It is none.\n const FIRST_WAIT_MS = 1_000;'),
  ofAnotherType: bad('of-another-type', "-const FIRST_WAIT_MS = 1_000;\n+const FIRST_WAIT_MS = '1';"),
  ofAnotherForm: bad(
    'of-another-form',
    '-export function backoffMs(failures: number): number {\n+export function backoffMs(failures: number, _: number): number {',
  ),
  notLoaded: bad(
    'not-loaded',
    "+if (Date.now() > 0) throw new Error('not loaded');\n const FIRST_WAIT_MS = 1_000;",
  ),
  ofAServer: bad(
    'of-a-server',
    " export function backoffMs(failures: number): number {\n+  if (failures > 0) throw new Error('connect ECONNREFUSED 127.0.0.1:1');",
  ),
  endless: bad('endless', '+for (; Date.now() > 0; ) continue;\n const FIRST_WAIT_MS = 1_000;'),
};
const BAD_WITHIN_MS = 3_000;
/** Errors after which a mutant counts as not tried: the servers of this run have gone. */
const A_SERVER_IS_AWAY =
  /ECONNREFUSED|could not open file|the database system is (shutting down|starting up)/;

let directory: string;
let copy: string;
let jestRuns: JestRuns;
/** The errors of the compiler for each mutant, once it has compiled all of them. */
let compiled: Promise<ReadonlyMap<string, string>>;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mutants-'));
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  copy = join(directory, 'copy');
  for (const path of COPIED) cpSync(join(ROOT, path), join(copy, path), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  jestRuns = new JestRuns(copy);
  const { ofAnotherType, ofAnotherForm, ...sound } = BAD;
  const groups = withoutCommonFiles([...mutants, ...Object.values(sound)]);
  compiled = compile([...groups, [ofAnotherType], [ofAnotherForm]]);
  // The tests that await it report its error.
  compiled.catch(() => {});
});

afterAll(async () => {
  await Promise.allSettled([compiled, jestRuns.end()]);
  rmSync(directory, { recursive: true, force: true });
});

/** The layers run these tests as well. So in a usual run the copy needs one of each layer only. */
function killersWithoutMutants(): readonly Killer[] {
  const killers = mutants.map(({ killer }) => killer).filter(({ file }) => file !== SIMULATOR);
  const firsts = Map.groupBy(killers, ({ file }) => file.split('/')[1]).values();
  return isLongRun ? killers : [...firsts].flatMap(([first]) => first ?? []);
}

test('without mutants the killers pass', async () => {
  const killers = killersWithoutMutants();
  expect(killers.length).toBeGreaterThan(3);
  const { results, said } = await runJest(killers, {}, ALL_KILLERS_WITHIN_MS);
  if (results.some(({ status }) => status === 'failed')) throw new Error(said);
  const passed = results.filter(({ status }) => status === 'passed').map(({ test }) => test);
  expect(killers.filter(({ test }) => !passed.some((title) => title.includes(test)))).toEqual([]);
});

/** The seeds of the simulator that noticed a mutant. */
const noticing = new Set<string>();

test.each(mutants)('$name', async (mutant) => {
  const { test, message } = await noticed(mutant);
  if (mutant.killer.file === SIMULATOR) noticing.add(/ seed (\d+) breaks /.exec(message ?? '')?.[1] ?? '');
  process.stdout.write(`mutants: ${mutant.name} is noticed: ${test}: ${message}\n`);
});

test('without a mutant the simulator finds no problem in the seeds that notice one', async () => {
  expect([...noticing]).toContainEqual(expect.stringMatching(/^\d+$/));
  expect([...noticing]).not.toContain('');
  const simulator = { file: SIMULATOR, test: '' };
  const { results, said } = await runJest([simulator], { PLAYED: [...noticing].join() }, KILLED_WITHIN_MS);
  if (results.length !== 1 || results[0]?.status !== 'passed') throw new Error(said);
});

test('break existing rules, and are at least 24', () => {
  const rules = readFileSync(join(ROOT, 'docs', 'rules.md'), 'utf8');
  const unknown = allMutants.flatMap(({ breaks }) =>
    breaks.filter((rule) => !rules.includes(`- **${rule}** `)),
  );
  expect(unknown).toEqual([]);
  expect(mutants.length).toBeGreaterThanOrEqual(24);
});

describe('a mutant is refused', () => {
  test('that no test notices', async () => {
    await expect(noticed(BAD.unnoticed)).rejects.toThrow('unnoticed survives: no test noticed it');
  });
  test.each([
    ['notices', BAD.ofAnotherType, /does not compile: of-another-type.*backoff.ts.*error TS/s],
    [
      'notices in another file',
      BAD.ofAnotherForm,
      /does not compile: of-another-form.*retry-wait.ts.*error TS/s,
    ],
  ])('that the compiler %s', async (_, mutant, message) => {
    await expect(noticed(mutant)).rejects.toThrow(message);
  });
  test('that cannot be loaded', async () => {
    await expect(noticed(BAD.notLoaded)).rejects.toThrow(
      /not-loaded fails before its test begins: .*not loaded/s,
    );
  });
  test('that was tried without a server', async () => {
    await expect(noticed(BAD.ofAServer)).rejects.toThrow(
      'of-a-server was not tried: Error: connect ECONNREFUSED',
    );
  });
  test('that never ends', async () => {
    await expect(noticed(BAD.endless, BAD_WITHIN_MS)).rejects.toThrow('endless does not end within 3 s');
  });
  test.each([
    ['whose lines no longer exist', 'const LAST_WAIT_MS = 1_000;', /no longer applies: .* in no file/],
    ['whose lines exist twice', 'return null;', /no longer applies: .* in \d+ places: .*src\//],
  ])('%s', (_, line, message) => {
    const mutant = bad('stale', `-${line}\n+const A = 1;`);
    expect(() => mutate(mutant, sources)).toThrow(message);
  });
  test('that names no test file, or several', () => {
    const mutant = readMutant('it', 'It is.\n\nbreaks: R1\nkilled by: verdict.test.ts: a\n\n@@\n-a\n+b\n');
    expect(() => killerFile(mutant, ['test/unit/money.test.ts'])).toThrow('no test file ends like this');
    expect(() => killerFile(mutant, ['test/a/verdict.test.ts', 'test/b/verdict.test.ts'])).toThrow(
      'test/a/verdict.test.ts and test/b/verdict.test.ts end like this',
    );
  });
  test.each([
    ['without a head', '@@\n-a\n+b\n', 'does not begin with'],
    ['without a change', 'It is.\n\nbreaks: R1\nkilled by: simulator: I1\n\n', 'changes nothing'],
  ])('%s', (_, text, message) => {
    expect(() => readMutant('it', text)).toThrow(message);
  });
});

test('a mutant applies wherever its lines are, at any indentation', () => {
  const mutant = readMutant('moved', 'It is.\n\nbreaks: R1\nkilled by: a.test.ts: a\n\n@@\n-  one\n+  two\n');
  const moved = new Map([
    ['src/a.ts', 'zero'],
    ['src/b/c.ts', 'zero\n      one\nthree'],
  ]);
  expect([...mutate(mutant, moved)]).toEqual([['src/b/c.ts', 'zero\n  two\nthree']]);
});

function bad(name: string, change: string): Mutant {
  const head =
    'It is none.\n\nbreaks: U2\nkilled by: domain/verdict/reasons.test.ts: has a limit, and no end\n\n';
  return withWholePath(readMutant(name, `${head}@@\n${change}\n`));
}

/** The mutants of a usual run, in the order of their names. The long run tries all of them. */
function oneForEachRuleAndTest(all: readonly Mutant[]): Mutant[] {
  const covered = new Set<string>();
  return all.filter(({ breaks, killer }) => {
    const subjects = [...breaks, killer.file];
    const isFirst = subjects.some((subject) => !covered.has(subject));
    for (const subject of subjects) covered.add(subject);
    return isFirst;
  });
}

function withWholePath(mutant: Mutant): Mutant {
  const { file, test } = mutant.killer;
  return file === SIMULATOR ? mutant : { ...mutant, killer: { file: killerFile(mutant, tests), test } };
}

/**
 * Mutants that change different files can share a copy of the sources, which makes few copies of many
 * mutants. One that changes only migrations needs none.
 */
function withoutCommonFiles(all: readonly Mutant[]): Mutant[][] {
  const groups: { readonly mutants: Mutant[]; readonly paths: Set<string> }[] = [];
  for (const mutant of all) {
    const paths = compiledFiles(mutant);
    if (paths.length === 0) continue;
    let group = groups.find((each) => !paths.some((path) => each.paths.has(path)));
    if (group === undefined) {
      group = { mutants: [], paths: new Set() };
      groups.push(group);
    }
    group.mutants.push(mutant);
    for (const path of paths) group.paths.add(path);
  }
  return groups.map((group) => group.mutants);
}

/** A text that may name a further file. One that is no import does no harm. */
const RELATIVE = /'(\.\.?\/[^']+)'/g;

/** Source files, and all files that import them, also by way of others: no further file can have an error. */
function withImporters(changed: Iterable<string>): Set<string> {
  const importers = new Map<string, string[]>();
  for (const [path, text] of sources)
    for (const [, relative = ''] of text.matchAll(RELATIVE)) {
      const imported = `${posix.join(posix.dirname(path), relative)}.ts`;
      importers.set(imported, [...(importers.get(imported) ?? []), path]);
    }
  const found = new Set(changed);
  for (const path of found) for (const importer of importers.get(path) ?? []) found.add(importer);
  return found;
}

/**
 * Compiles groups of mutants, all at once. A group has a tree of the files in which its mutants can cause an
 * error. The other files are those of the project.
 *
 * @returns the errors by mutant. An error in a file that no mutant changes is one of all mutants of its group
 */
async function compile(groups: readonly (readonly Mutant[])[]): Promise<Map<string, string>> {
  const cwd = join(directory, 'trees');
  for (const [number, group] of groups.entries()) {
    const changed = new Map(group.flatMap((mutant) => [...mutatedFiles(mutant)]));
    for (const path of withImporters(group.flatMap(compiledFiles))) {
      const file = join(cwd, `${number}`, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, changed.get(path) ?? sources.get(path) ?? '');
    }
  }
  const src = join(ROOT, 'src');
  const options = {
    extends: join(ROOT, 'tsconfig.json'),
    include: ['*/src', join(src, '**', '*.d.ts')],
    exclude: [join('*', 'src', 'check-page'), join(src, 'check-page')],
  };
  const compilerOptions = {
    rootDir: '/',
    noEmit: true,
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    // A file that a tree lacks is looked for in the first of these, which has all.
    rootDirs: [src, ...groups.map((_, number) => join(cwd, `${number}`, 'src'))],
  };
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ ...options, compilerOptions }));
  const output = await run([TSC, '-p', cwd, '--pretty', 'false'], {}, COMPILED_WITHIN_MS, cwd);
  const errors = new Map<string, string>();
  for (const line of output.split('\n').filter((each) => each.includes('error TS'))) {
    const group = groups[Number(line.split('/')[0])];
    if (group === undefined) throw new Error(`the compiler fails: ${line}`);
    // The error of a file is that of the mutant which changes the file. Any of them may break a further file.
    const file = /^\d+\/([^(]+)\(/.exec(line)?.[1] ?? '';
    const changing = group.filter((mutant) => mutatedFiles(mutant).has(file));
    const names = (changing.length > 0 ? changing : group).map(({ name }) => name);
    for (const name of names)
      errors.set(name, `${errors.get(name) ?? `${names.join(', ')}, or one of them:\n`}${line}\n`);
  }
  return errors;
}

/** The changed files that a compiler reads: migrations have none. */
const compiledFiles = (mutant: Mutant): string[] =>
  [...mutatedFiles(mutant).keys()].filter((path) => path.startsWith('src/'));

/** Returns nothing of a mutant that does not apply: its own test reports it. */
function mutatedFiles(mutant: Mutant): Map<string, string> {
  try {
    return mutate(mutant, sources);
  } catch (error) {
    if (error instanceof MutantError) return new Map();
    throw error;
  }
}

/**
 * @returns the test that noticed the mutant, with its message. @throws where none did, or for another reason
 * than the mutant's defect
 */
async function noticed(mutant: Mutant, withinMs = KILLED_WITHIN_MS): Promise<Result> {
  const { name, killer } = mutant;
  const files = mutate(mutant, sources);
  const compiler = (await compiled).get(name);
  if (compiler !== undefined) throw new Error(`does not compile: ${compiler}`);
  try {
    for (const [path, text] of files) writeFileSync(join(copy, path), text);
    const environment = killer.file === SIMULATOR ? { EXPECTED: killer.test } : {};
    const { results, said } = await runJest([killer], environment, withinMs).catch((error: unknown) => {
      throw new Error(`${name} ${error instanceof Error ? error.message : error}`);
    });
    const failed = results.find(({ status }) => status === 'failed');
    if (failed === undefined) throw new Error(`${name} survives: no test noticed it`);
    const isOfTest = killer.file === SIMULATOR || failed.test.includes(killer.test);
    if (!isOfTest) throw new Error(`${name} fails before its test begins: ${said}`);
    if (A_SERVER_IS_AWAY.test(failed.message ?? ''))
      throw new Error(`${name} was not tried: ${failed.message}`);
    return failed;
  } finally {
    for (const path of files.keys()) writeFileSync(join(copy, path), sources.get(path) ?? '');
  }
}

/** Runs killers in the copy. @throws where Jest does not end in time, or reports no results */
async function runJest(
  killers: readonly Killer[],
  environment: NodeJS.ProcessEnv,
  withinMs: number,
): Promise<{ results: Result[]; said: string }> {
  const files = new Set(killers.map(({ file }) => (file === SIMULATOR ? SIMULATOR_FILE : file)));
  const config = {
    rootDir: copy,
    testEnvironment: 'node',
    watchman: false,
    ...transforms(),
    // Jest looks at all files below its roots before it runs one.
    roots: [...files].map((file) => join(copy, dirname(file))),
    testMatch: ['<rootDir>/test/**/*.test.ts', `<rootDir>/${SIMULATOR_FILE}`],
    cacheDirectory: join(directory, 'cache'),
    testTimeout: TEST_WITHIN_MS,
  };
  const titles = killers.map(({ file, test }) => (file === SIMULATOR ? 'the simulator' : escaped(test)));
  const output = join(directory, 'results.json');
  rmSync(output, { force: true });
  const options = {
    ci: true,
    runInBand: true,
    config: JSON.stringify(config),
    json: true,
    outputFile: output,
    testNamePattern: [...new Set(titles)].join('|'),
    runTestsByPath: true,
    _: [...files],
  };
  const said = await jestRuns.run(options, environment, withinMs);
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(output, 'utf8'));
  } catch {
    throw new Error(`makes Jest end without results: ${said}`);
  }
  return { results: readJestResults(json, copy).results, said };
}

/** How the layers turn sources and packages into what Node runs. */
function transforms(): object {
  const config: unknown = require('../../jest.config.js');
  const [layer]: readonly unknown[] =
    isObject(config) && Array.isArray(config.projects) ? config.projects : [];
  if (!isObject(layer)) throw new Error('jest.config.js has no layer');
  const { runtime, transform, transformIgnorePatterns } = layer;
  const { testEnvironmentOptions, sandboxInjectedGlobals } = layer;
  return { runtime, transform, transformIgnorePatterns, testEnvironmentOptions, sandboxInjectedGlobals };
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** Runs a Node program to its end. @returns its output. @throws where it has not ended in time */
async function run(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
  withinMs: number,
  cwd: string,
): Promise<string> {
  const child: ChildProcess = spawn(process.execPath, args, { cwd, env: { ...process.env, ...environment } });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  let isLate = false;
  const deadline = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, withinMs);
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve());
  });
  clearTimeout(deadline);
  if (isLate) throw new Error(`does not end within ${withinMs / 1000} s`);
  return output;
}
