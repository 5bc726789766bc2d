/**
 * `make mutation`: Stryker makes a thousand small changes in src/domain, one at a time, and the tests have to
 * notice each. Exits 1 if a mutant survives that test/mutation/equivalent.json does not explain. Exits 1,
 * too, if that list explains a mutant that no longer survives.
 *
 * `node build/dev/mutation.js --report-only` reads the report of the last run again.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../src/lib/json';

const CONFIG = join('test', 'mutation', 'stryker.config.json');
const EXPLAINED = join('test', 'mutation', 'equivalent.json');
const REPORT = join('build', 'mutation', 'report.json');
const STRYKER = join('node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js');
/** Half an hour is usual. */
const DEADLINE_MS = 7_200_000;

/** A mutant and its status. */
export interface Mutant {
  readonly file: string;
  readonly line: number;
  /** The source line that it changes, without the blanks around it. */
  readonly code: string;
  /** The replacement: `a > 0 -> a >= 0`. */
  readonly change: string;
  readonly status: string;
}

/** Mutants of one source line that no test can notice, with the reason. */
export interface Explanation {
  readonly file: string;
  readonly code: string;
  readonly changes: readonly string[];
  readonly why: string;
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/**
 * The mutants of a report.
 * https://github.com/stryker-mutator/mutation-testing-elements/tree/master/packages/report-schema
 * @throws Error if the report has another form
 */
export function readReport(report: unknown): Mutant[] {
  if (!isObject(report) || !isObject(report.files)) throw new Error('the report names no files');
  return Object.entries(report.files).flatMap(([file, entry]) => {
    if (!isObject(entry) || typeof entry.source !== 'string' || !Array.isArray(entry.mutants))
      throw new Error(`the report of ${file} has no source or no mutants`);
    const lines = entry.source.split('\n');
    return entry.mutants.map((mutant: unknown) => readMutant(file, lines, mutant));
  });
}

function readMutant(file: string, lines: readonly string[], mutant: unknown): Mutant {
  const location = isObject(mutant) && isObject(mutant.location) ? mutant.location : {};
  const [start, end] = [readPosition(location.start), readPosition(location.end)];
  if (!isObject(mutant) || !start || !end || typeof mutant.status !== 'string')
    throw new Error(`the report of ${file} has a mutant without place or status`);
  const replaced = lines.slice(start.line - 1, end.line);
  // The end is cut first: on one line, cutting the start would move it.
  replaced.push((replaced.pop() ?? '').slice(0, end.column - 1));
  replaced.unshift((replaced.shift() ?? '').slice(start.column - 1));
  const { replacement, status } = mutant;
  return {
    file,
    line: start.line,
    code: (lines[start.line - 1] ?? '').trim(),
    change: `${replaced.join('\n')} -> ${typeof replacement === 'string' ? replacement : ''}`,
    status,
  };
}

/** Lines and columns count from 1. */
function readPosition(position: unknown): { line: number; column: number } | undefined {
  if (!isObject(position)) return undefined;
  const { line, column } = position;
  return typeof line === 'number' && typeof column === 'number' ? { line, column } : undefined;
}

/** @throws Error if the list has another form */
export function readExplanations(list: unknown): Explanation[] {
  if (!Array.isArray(list)) throw new Error(`${EXPLAINED} is no list`);
  return list.map((entry: unknown) => {
    if (!isObject(entry)) throw new Error(`${EXPLAINED} has an entry that is no object`);
    const { file, code, changes, why } = entry;
    if (typeof file !== 'string' || typeof code !== 'string' || typeof why !== 'string' || !isTexts(changes))
      throw new Error(`${EXPLAINED} has an entry without file, code, changes or why`);
    return { file, code, changes, why };
  });
}

export interface Score {
  readonly total: number;
  readonly noticed: number;
  readonly explained: number;
  /** A sentence for each problem. */
  readonly problems: readonly string[];
}

/**
 * The score of a run. The compiler notices a mutant that does not compile or load, so it counts as no mutant.
 */
export function scoreOf(mutants: readonly Mutant[], explanations: readonly Explanation[]): Score {
  const counted = mutants.filter(
    ({ status }) => !['CompileError', 'RuntimeError', 'Ignored'].includes(status),
  );
  const survivors = counted.filter(({ status }) => status !== 'Killed' && status !== 'Timeout');
  const explains = (entry: Explanation, change: string, mutant: Mutant) =>
    entry.file === mutant.file && entry.code === mutant.code && change === mutant.change;
  const unexplained = survivors.filter(
    (mutant) =>
      !explanations.some((entry) => entry.changes.some((change) => explains(entry, change, mutant))),
  );
  const stale = explanations.flatMap((entry) =>
    entry.changes
      .filter((change) => !survivors.some((mutant) => explains(entry, change, mutant)))
      .map((change) => `${EXPLAINED} explains a mutant that does not survive: ${entry.file}: ${change}`),
  );
  return {
    total: counted.length,
    noticed: counted.length - survivors.length,
    explained: survivors.length - unexplained.length,
    problems: [
      ...unexplained.map(({ file, line, change }) => `${file}:${line} survives: ${change}`),
      ...stale,
    ],
  };
}

function main(args: readonly string[]): number {
  const unknown = args.find((arg) => arg !== '--report-only');
  if (unknown !== undefined) {
    console.error(`unknown argument ${unknown}. Without one, all mutants run for half an hour`);
    return 2;
  }
  if (!args.includes('--report-only')) {
    const { status } = spawnSync(process.execPath, [STRYKER, 'run', CONFIG], {
      stdio: 'inherit',
      timeout: DEADLINE_MS,
    });
    if (status !== 0) return status ?? 1;
  }
  const mutants = readReport(JSON.parse(readFileSync(REPORT, 'utf8')));
  const explanations = readExplanations(JSON.parse(readFileSync(EXPLAINED, 'utf8')));
  const { total, noticed, explained, problems } = scoreOf(mutants, explanations);
  for (const problem of problems) console.error(problem);
  const percent = ((100 * noticed) / total).toFixed(1);
  console.log(
    `${noticed} of ${total} mutants are noticed (${percent} %), ${explained} are explained, ${problems.length} problems`,
  );
  return problems.length === 0 ? 0 : 1;
}

if (require.main === module) process.exitCode = main(process.argv.slice(2));
