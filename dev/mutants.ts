/**
 * Mutants: defects that a developer could really write. Each file of test/mutants/ holds a sentence on the
 * failure, the broken rules, the test that has to notice the defect, and the changed lines. It holds no path:
 * lines and tests are found by their text, so a mutant survives when files move.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const MUTANTS_DIRECTORY = join('test', 'mutants');
const EXTENSION = '.diff';
const MIGRATIONS = 'migrations';
/** Files that mutants change, and files that notice mutants. */
const SOURCES: readonly { readonly directory: string; readonly extension: string }[] = [
  { directory: 'src', extension: '.ts' },
  { directory: MIGRATIONS, extension: '.sql' },
];
const TESTS = { directory: 'test', extension: '.test.ts' };
/** In place of a test file: the simulator, which has to break an invariant. */
export const SIMULATOR = 'simulator';

export interface Mutant {
  /** The defect in a few words, which is the name of its file. */
  readonly name: string;
  /** The failure that it causes. */
  readonly what: string;
  /** Rules of docs/rules.md. */
  readonly breaks: readonly string[];
  readonly killer: Killer;
  readonly changes: readonly Change[];
}

/** The test or invariant that has to notice a mutant. */
export interface Killer {
  /** The end of a test file's path, long enough to be unique, or SIMULATOR. */
  readonly file: string;
  /** Words of the test's title, or the invariant. */
  readonly test: string;
}

/** Lines that a mutant replaces. Their indentation is for readers: lines are compared without it. */
interface Change {
  readonly old: readonly string[];
  readonly new: readonly string[];
}

/** A mutant that cannot be tried; the message gives the correction. */
export class MutantError extends Error {
  override readonly name = 'MutantError';
}

/**
 * All mutants, by name.
 *
 * @throws MutantError
 */
export function readMutants(root: string): Mutant[] {
  const directory = join(root, MUTANTS_DIRECTORY);
  const files = readdirSync(directory).filter((file) => file.endsWith(EXTENSION));
  return files
    .sort()
    .map((file) => readMutant(basename(file, EXTENSION), readFileSync(join(directory, file), 'utf8')));
}

/** The text of each file that a mutant may change, by its path from the root. */
export function readSources(root: string): Map<string, string> {
  const paths = SOURCES.flatMap(({ directory, extension }) => pathsIn(root, directory, extension));
  return new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}

/** Paths of all test files from the root. */
export function testFiles(root: string): string[] {
  return pathsIn(root, TESTS.directory, TESTS.extension);
}

/**
 * @returns the path of the test file that has to notice a mutant
 * @throws MutantError if no file or several files have this ending
 */
export function killerFile({ name, killer }: Mutant, tests: readonly string[]): string {
  const found = tests.filter((path) => path.endsWith(`/${killer.file}`));
  const [path] = found;
  if (path === undefined || found.length > 1)
    throw new MutantError(
      `${name} names ${killer.file}: ${path === undefined ? 'no test file ends' : `${found.join(' and ')} end`} like this. Name the end of one path behind "killed by:".`,
    );
  return path;
}

function pathsIn(root: string, directory: string, extension: string): string[] {
  return readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(extension))
    .map((file) => `${directory}/${file.replaceAll('\\', '/')}`)
    .sort();
}

const HEAD =
  /^(?<what>[^\n]+)\n\nbreaks: (?<breaks>[A-Z]\d+(, [A-Z]\d+)*)\nkilled by: (?<file>[^\s:]+): (?<test>.+)\n\n/;

/** @throws MutantError if the text has no head, or changes nothing */
export function readMutant(name: string, text: string): Mutant {
  const head = HEAD.exec(text);
  const { what, breaks, file, test } = head?.groups ?? {};
  if (head === null || what === undefined || breaks === undefined || file === undefined || test === undefined)
    throw new MutantError(
      `${name} does not begin with a sentence, "breaks: RULE, RULE" and "killed by: FILE: TEST" before the lines that it changes`,
    );
  const changes = readChanges(text.slice(head[0].length));
  if (changes.length === 0) throw new MutantError(`${name} changes nothing`);
  return { name, what, breaks: breaks.split(', '), killer: { file, test }, changes };
}

/** Each change begins with a line `@@`: behind it `-` removes a line, `+` adds one, a blank keeps one. */
function readChanges(diff: string): Change[] {
  const changes: { old: string[]; new: string[] }[] = [];
  for (const line of diff.split('\n')) {
    const change = changes.at(-1);
    if (line.startsWith('@@')) changes.push({ old: [], new: [] });
    else if (line.startsWith('-')) change?.old.push(line.slice(1));
    else if (line.startsWith('+')) change?.new.push(line.slice(1));
    else if (line.startsWith(' ')) {
      change?.old.push(line.slice(1));
      change?.new.push(line.slice(1));
    }
  }
  return changes;
}

/**
 * The changed text of each file that a mutant changes.
 *
 * @param sources the text of each file that a mutant may change, by its path
 * @throws MutantError if the lines that it replaces are missing, or occur in more than one place
 */
export function mutate({ name, changes }: Mutant, sources: ReadonlyMap<string, string>): Map<string, string> {
  const mutated = new Map<string, string>();
  for (const change of changes) {
    const found = [...sources].flatMap(([path, text]) => findPlaces(path, mutated.get(path) ?? text, change));
    // A later migration redefines views and functions of an earlier one: only the last definition is in
    // force.
    const last = found.findLast(({ path }) => path.startsWith(MIGRATIONS))?.path;
    const places = found.filter(({ path }) => !path.startsWith(MIGRATIONS) || path === last);
    const [place] = places;
    if (place === undefined || places.length > 1)
      throw new MutantError(
        `${name} no longer applies: the lines that it replaces are ${place === undefined ? 'in no file' : `in ${places.length} places: ${places.map(({ path, from }) => `${path}:${from + 1}`).join(', ')}`}. Make the same defect in the present code, and write the lines of "git diff" that show its place into ${join(MUTANTS_DIRECTORY, name)}${EXTENSION}. If the defect is impossible now, write another one.`,
      );
    const replacedBy = laterDefinition(place, sources);
    if (replacedBy !== undefined)
      throw new MutantError(
        `${name} breaks nothing: ${replacedBy} defines again what ${place.path}:${place.from + 1} defines. Write the lines of ${replacedBy} into ${join(MUTANTS_DIRECTORY, name)}${EXTENSION}.`,
      );
    place.lines.splice(place.from, change.old.length, ...change.new);
    mutated.set(place.path, place.lines.join('\n'));
  }
  return mutated;
}

const DEFINITION = /^create (?:or replace )?(function|view) ([\w.]+)/;

/** The later migration that replaces the function or view of a place in a migration. */
function laterDefinition(place: Place, sources: ReadonlyMap<string, string>): string | undefined {
  if (!place.path.startsWith(MIGRATIONS)) return undefined;
  const [, kind, name] =
    place.lines
      .slice(0, place.from + 1)
      .map((line) => DEFINITION.exec(line))
      .findLast((found) => found !== null) ?? [];
  if (name === undefined) return undefined;
  const again = new RegExp(`^create (?:or replace )?${kind} ${name.replaceAll('.', '\\.')}\\b`, 'm');
  return [...sources].find(
    ([path, text]) => path.startsWith(MIGRATIONS) && path > place.path && again.test(text),
  )?.[0];
}

/** The lines of a file, and where those of a change begin. */
interface Place {
  readonly path: string;
  readonly lines: string[];
  readonly from: number;
}

function findPlaces(path: string, text: string, { old }: Change): Place[] {
  // The words of the longest line rule most files out, before their lines are compared.
  const longest = old.reduce((best, line) => (line.trim().length > best.length ? line.trim() : best), '');
  if (!text.includes(longest)) return [];
  const lines = text.split('\n');
  const trimmed = lines.map((line) => line.trim());
  const wanted = old.map((line) => line.trim());
  return trimmed.flatMap((_, from) =>
    wanted.every((line, index) => trimmed[from + index] === line) ? [{ path, lines, from }] : [],
  );
}
