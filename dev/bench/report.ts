/** Writes measured figures into documents, between marks, so that none is ever typed by hand. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../servers/download';
import { describeExtent } from './extent';
import { MODES } from './modes';
import { type Goal, type Result, readResult } from './result';
import { capacityTable, scaleOutTable } from './scale-out';
import { type Table, tableMarkdown } from './table';

const DOCUMENTS = [join('docs', 'performance.md'), join('docs', 'operations', 'sizing.md')];
const MODES_MARK = 'modes';
const GOALS_MARK = 'goals';
/** Marks of tables that are made of the runs of `throughput`. */
const OF_THROUGHPUT: Readonly<Record<string, (throughput: Result) => Table>> = {
  'scale-out': scaleOutTable,
  capacity: capacityTable,
};

/** @returns the paths that changed */
export function writeReport(root = projectRoot): string[] {
  return DOCUMENTS.filter((document) => {
    const path = join(root, document);
    const before = readFileSync(path, 'utf8');
    const after = fillMarks(before, (name) => {
      if (name === MODES_MARK) return modesTable();
      if (name === GOALS_MARK) return goalsTable(before, root);
      return section(name, root);
    });
    if (after !== before) writeFileSync(path, after);
    return after !== before;
  });
}

const MARKS = /(<!-- bench:([a-z-]+) -->\n)[\s\S]*?(<!-- \/bench -->)/g;

/** Replaces the text between `<!-- bench:name -->` and `<!-- /bench -->`, each on a line of its own. */
export function fillMarks(text: string, contentOf: (name: string) => string): string {
  return text.replace(MARKS, (_, open: string, name: string, close: string) => {
    return `${open}\n${contentOf(name)}\n\n${close}`;
  });
}

const NOT_MEASURED = 'Not measured yet.';

function section(name: string, root: string): string {
  const tableOf = OF_THROUGHPUT[name];
  const result = readResult(tableOf === undefined ? name : 'throughput', root);
  if (result === undefined) return NOT_MEASURED;
  return tableOf === undefined ? describeResult(result) : tableMarkdown(tableOf(result));
}

export function describeResult({ name, measuredAt, machine, settings, goals, table, chart }: Result): string {
  const image = chart === undefined ? [] : [`![${chart.title}](performance/${name}.svg)`];
  const list = goals.length === 0 ? [] : [goals.map(goalLine).join('\n')];
  const circumstances = [`Measured on ${measuredAt.slice(0, 10)}.`, ...machine, ...settings];
  return [tableMarkdown(table), ...list, ...image, `\`\`\`text\n${circumstances.join('\n')}\n\`\`\``].join(
    '\n\n',
  );
}

function goalLine({ id, goal, measured, met }: Goal): string {
  return `- ${id}, ${goal}: ${measured}, ${wordFor(met)}.`;
}

function wordFor(met: Goal['met']): string {
  if (met === null) return 'not judged';
  return met ? 'met' : '**not met**';
}

/** All goals of a document as Markdown, in the order of its sections. */
export function goalsTable(document: string, root: string): string {
  const results = [...document.matchAll(MARKS)].flatMap(([, , name = '']) => readResult(name, root) ?? []);
  return tableMarkdown({
    columns: ['', 'goal', 'measured', '', 'figures'],
    rows: results.flatMap(({ name, goals }) =>
      goals.map(({ id, goal, measured, met }) => [
        id,
        goal,
        measured,
        wordFor(met),
        `[${name}](performance/${name}.json)`,
      ]),
    ),
    notes: [],
  });
}

function modesTable(): string {
  return tableMarkdown({
    columns: ['mode', 'what is measured', 'extent, with its defaults'],
    rows: MODES.map(({ name, about, extent }) => [`\`${name}\``, about, `\`${describeExtent(extent)}\``]),
    notes: [],
  });
}
