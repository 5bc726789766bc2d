/** Writes measured figures into documents, between marks, so that none is ever typed by hand. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { capacityTable, keyFigures, questionSpeeds, scaleOutTable } from './overview';
import { type Goal, type Result, readResult } from './result';
import { figure, type Table, tableMarkdown } from './table';

const DOCUMENTS = 'docs';
/** The document of the goals. Its sections come first in their table. */
const PERFORMANCE = join(DOCUMENTS, 'performance.md');
const MARK = '<!-- bench:';
/** The beginning of the setting about CPU that the host gave to other machines. */
const HOST_TOOK = 'the host took';

export interface Document {
  /** Path from the project's root. */
  readonly path: string;
  readonly text: string;
}

/** The tables of several results. */
type Overview = (documents: readonly Document[], root: string) => string;
const OVERVIEWS: Readonly<Record<string, Overview>> = {
  'key-figures': (_, root) => tableMarkdown(keyFigures((name) => required(name, root))),
  capacity: (_, root) => tableMarkdown(capacityTable(required('throughput', root))),
  'scale-out': (_, root) => tableMarkdown(scaleOutTable(required('throughput', root))),
  goals: (documents, root) => goalsTable(documents, root),
  machines: (documents, root) => machinesText(resultsOf(documents, root).map(({ result }) => result)),
};

/** Results that one mark shows in one table. The mark has the name of the first one. */
const TOGETHER: Readonly<
  Record<string, { readonly also: string; readonly table: (first: Result, also: Result) => Table }>
> = { questions: { also: 'questions-100m', table: questionSpeeds } };

/** The documents that show figures, with the committed figures between their marks. */
export function reportFiles(root: string): Document[] {
  const documents = documentsWithMarks(root);
  const machines = machinesOf(resultsOf(documents, root).map(({ result }) => result));
  return documents.map(({ path, text }) => ({
    path,
    text: fillMarks(text, (name) => {
      const overview = OVERVIEWS[name];
      if (overview !== undefined) return overview(documents, root);
      const [result, also] = resultsOfMark(name, root);
      if (result === undefined) return 'Not measured yet.';
      const table = also && TOGETHER[name]?.table(result, also);
      return table && also
        ? describeTogether(table, [result, also], machines, path)
        : describeResult(result, machines, path);
    }),
  }));
}

function resultsOfMark(name: string, root: string): Result[] {
  const also = TOGETHER[name]?.also;
  return [name, ...(also === undefined ? [] : [also])].flatMap((each) => readResult(each, root) ?? []);
}

function documentsWithMarks(root: string): Document[] {
  const names = readdirSync(join(root, DOCUMENTS), { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(DOCUMENTS, name))
    .sort((a, b) => Number(b === PERFORMANCE) - Number(a === PERFORMANCE) || a.localeCompare(b))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
    .filter(({ text }) => text.includes(MARK));
}

const MARKS = /(<!-- bench:([a-z-]+) -->\n)[\s\S]*?(<!-- \/bench -->)/g;

/** Replaces the text between `<!-- bench:name -->` and `<!-- /bench -->`, each on a line of its own. */
export function fillMarks(text: string, contentOf: (name: string) => string): string {
  return text.replace(MARKS, (_, open: string, name: string, close: string) => {
    return `${open}${contentOf(name)}\n${close}`;
  });
}

/** @throws if the mode was never measured */
function required(name: string, root: string): Result {
  const result = readResult(name, root);
  if (result === undefined) throw new Error(`there is no result of ${name}: run BENCH=${name} make bench`);
  return result;
}

// --- one result

/**
 * The table, and a paragraph on its making.
 *
 * @param machines all machines, which a result names by their places
 * @param path of the document
 */
export function describeResult(result: Result, machines: readonly string[], path: string): string {
  const { name, table, chart } = result;
  const toFigures = figuresFrom(path);
  return [
    tableMarkdown({ ...table, notes: [] }),
    [...table.notes, originOf(result, machines, `${toFigures}/${name}.json`)].join(' '),
    ...(chart === undefined ? [] : [`![${chart.title}](${toFigures}/${name}.svg)`]),
  ].join('\n\n');
}

/** The table of two results, and a paragraph on the making of each. */
function describeTogether(
  table: Table,
  results: readonly Result[],
  machines: readonly string[],
  path: string,
): string {
  const notes = results.at(-1)?.table.notes ?? [];
  const origins = results.map((result) =>
    originOf(result, machines, `${figuresFrom(path)}/${result.name}.json`),
  );
  return [tableMarkdown({ ...table, notes: [] }), notes.join(' '), ...origins].join('\n\n');
}

const figuresFrom = (path: string): string => join(relative(dirname(path), DOCUMENTS), 'performance');

/** The date, the machine, the command that repeats the run, and the link to all its runs. */
function originOf(result: Result, machines: readonly string[], figures: string): string {
  const { measuredAt, machine, settings } = result;
  const [extent = '', ...more] = settings;
  const host = more.filter((setting) => setting.startsWith(HOST_TOOK));
  const others = more.filter((setting) => !host.includes(setting));
  // A variant is named after its mode. The whole extent is given, since defaults may change.
  const command = `make bench BENCH=${result.name.replace(/-.*/, '')} ${extent}`;
  return [
    `Measured on ${measuredAt.slice(0, 10)} on machine ${machines.indexOf(machine.join('\n')) + 1}`,
    ...host.map((setting) => `, where ${setting}`),
    others.length === 0 ? '.' : `. Settings: ${others.join('; ')}.`,
    ` Repeat: \`${command}\`. [All runs](${figures}).`,
  ].join('');
}

// --- all results

interface Shown {
  readonly result: Result;
  readonly document: string;
  /** The heading above the mark. */
  readonly heading: string;
}

/** The results that documents show, in the order of their marks. */
function resultsOf(documents: readonly Document[], root: string): Shown[] {
  return documents.flatMap(({ path, text }) =>
    [...text.matchAll(MARKS)].flatMap(({ index, 2: name = '' }) => {
      const results = name in OVERVIEWS ? [] : resultsOfMark(name, root);
      const heading = [...text.slice(0, index).matchAll(/^#+ (.+)$/gm)].at(-1)?.[1] ?? '';
      return results.map((result) => ({ result, document: path, heading }));
    }),
  );
}

/** All goals: a row for those of a result that are met, and one for the others. The others come first. */
export function goalsTable(documents: readonly Document[], root: string): string {
  const rows = resultsOf(documents, root).flatMap(({ result, document, heading }) => {
    const section = `[${heading}](${linkTo(document, heading)})`;
    return [false, null, true].flatMap((met) => {
      const goals = result.goals.filter((goal) => goal.met === met);
      const lines = goals.map(({ id, goal, measured }) => `${id}, ${goal}: ${measured}`);
      const cells = [lines.join('<br>'), wordFor(met), section];
      return goals.length === 0 ? [] : [{ isMissed: met !== true, cells }];
    });
  });
  const missed = rows.filter(({ isMissed }) => isMissed);
  return tableMarkdown({
    columns: ['goal: measured', '', 'section'],
    rows: [...missed, ...rows.filter(({ isMissed }) => !isMissed)].map(({ cells }) => cells),
    notes: [],
  });
}

function wordFor(met: Goal['met']): string {
  if (met === null) return 'not judged';
  return met ? 'met' : '**not met**';
}

/** From the document of the goals to a heading, by GitHub's anchor. */
function linkTo(document: string, heading: string): string {
  const anchor = heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, '');
  const path = document === PERFORMANCE ? '' : relative(DOCUMENTS, document);
  return `${path}#${anchor.replaceAll(' ', '-')}`;
}

/** Each machine once, in the order of the results. */
function machinesOf(results: readonly Result[]): string[] {
  return [...new Set(results.map(({ machine }) => machine.join('\n')))];
}

/** Each machine on a line, below the lines that all of them share. */
function machinesText(results: readonly Result[]): string {
  const machines = machinesOf(results).map((machine) => machine.split('\n'));
  const [first = []] = machines;
  const shared = first.filter((line) => machines.every((machine) => machine.includes(line)));
  const own = machines.map((machine) => machine.filter((line) => !shared.includes(line)).join('; '));
  const lines = [...shared, ...own.map((line, index) => `${figure(index + 1)}: ${line}`)];
  return `\`\`\`text\n${lines.join('\n')}\n\`\`\``;
}
