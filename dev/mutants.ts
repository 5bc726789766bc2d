/**
 * Mutants: defects that somebody could really write, each a unified diff against the project's files, below the sentence that says what is
 * wrong with it, the rules that it breaks and the test that has to notice it. They are in test/mutants/, with the layer that tries them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const MUTANTS_DIRECTORY = join('test', 'mutants');
const EXTENSION = '.diff';
/** In place of a test file: the simulator, of which an invariant has to break. */
export const SIMULATOR = 'simulator';

export interface Mutant {
  /** The defect in a few words, which is the name of its file. */
  readonly name: string;
  /** What goes wrong by it. */
  readonly what: string;
  /** Rules of docs/rules.md. */
  readonly breaks: readonly string[];
  readonly killer: Killer;
  readonly changes: readonly Change[];
}

/** Who has to notice a mutant. */
export interface Killer {
  /** Path of a test file from the project's root, or SIMULATOR. */
  readonly file: string;
  /** Words of the test's title, or the invariant. */
  readonly test: string;
}

/** Lines of a file that a mutant replaces. */
interface Change {
  readonly path: string;
  readonly old: readonly string[];
  readonly new: readonly string[];
}

/** A mutant that cannot be tried; the message says what to do about it. */
export class MutantError extends Error {
  override readonly name = 'MutantError';
}

/** All mutants, by name. @throws MutantError */
export function readMutants(root: string): Mutant[] {
  const directory = join(root, MUTANTS_DIRECTORY);
  const files = readdirSync(directory).filter((file) => file.endsWith(EXTENSION));
  return files
    .sort()
    .map((file) => readMutant(basename(file, EXTENSION), readFileSync(join(directory, file), 'utf8')));
}

const HEAD =
  /^(?<what>[^\n]+)\n\nbreaks: (?<breaks>[A-Z]\d+(, [A-Z]\d+)*)\nkilled by: (?<file>[^\s:]+): (?<test>.+)\n\n/;

/** @throws MutantError where the text has no head, or changes nothing */
export function readMutant(name: string, text: string): Mutant {
  const head = HEAD.exec(text);
  const { what, breaks, file, test } = head?.groups ?? {};
  if (head === null || what === undefined || breaks === undefined || file === undefined || test === undefined)
    throw new MutantError(
      `${name} does not begin with a sentence, "breaks: RULE, RULE" and "killed by: FILE: TEST" before the diff`,
    );
  const changes = readDiff(text.slice(head[0].length));
  if (changes.length === 0) throw new MutantError(`${name} changes nothing`);
  return { name, what, breaks: breaks.split(', '), killer: { file, test }, changes };
}

/** The hunks of a unified diff. Their line numbers are for people: what counts is which lines are replaced. */
function readDiff(diff: string): Change[] {
  const changes: { path: string; old: string[]; new: string[] }[] = [];
  let path = '';
  for (const line of diff.split('\n')) {
    const hunk = changes.at(-1);
    if (line.startsWith('+++ b/')) path = line.slice('+++ b/'.length);
    else if (line.startsWith('@@ ')) changes.push({ path, old: [], new: [] });
    else if (line.startsWith('--- ') || hunk?.path !== path) continue;
    else if (line.startsWith('-')) hunk.old.push(line.slice(1));
    else if (line.startsWith('+')) hunk.new.push(line.slice(1));
    else if (line.startsWith(' ')) {
      hunk.old.push(line.slice(1));
      hunk.new.push(line.slice(1));
    }
  }
  return changes;
}

/**
 * The files that a mutant changes, as it leaves them.
 *
 * @param read the text of a file as it is
 * @throws MutantError where lines that it replaces are not there any more, or more than once
 */
export function mutate({ name, changes }: Mutant, read: (path: string) => string): Map<string, string> {
  const mutated = new Map<string, string>();
  for (const change of changes) {
    const text = `\n${mutated.get(change.path) ?? read(change.path)}`;
    const old = `\n${change.old.join('\n')}\n`;
    const places = text.split(old).length - 1;
    if (places !== 1)
      throw new MutantError(
        `${name} no longer applies: the lines that it replaces are in ${change.path} ${places === 0 ? 'no more' : `${places} times`}. Make the same defect in the file as it is now, put "git diff" of it in the place of the one in ${join(MUTANTS_DIRECTORY, name)}${EXTENSION}, and take it back; where the defect cannot be written any more, think of another one.`,
      );
    mutated.set(change.path, text.replace(old, () => `\n${change.new.join('\n')}\n`).slice(1));
  }
  return mutated;
}
