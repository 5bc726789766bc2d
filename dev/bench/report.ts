/** Writes measured figures into docs/performance.md, between marks, so that none is ever typed by hand. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../servers/download';
import { describeExtent } from './extent';
import { MODES } from './modes';
import { type Goal, type Result, readResult } from './result';
import { scaleOutTable } from './scale-out';
import { tableMarkdown } from './table';

const DOCUMENT = join('docs', 'performance.md');
const MODES_MARK = 'modes';
const SCALE_OUT_MARK = 'scale-out';

/** @returns the paths that changed */
export function writeReport(root = projectRoot): string[] {
  const path = join(root, DOCUMENT);
  const before = readFileSync(path, 'utf8');
  const after = fillMarks(before, (name) => {
    if (name === MODES_MARK) return modesTable();
    return name === SCALE_OUT_MARK ? scaleOut(root) : section(name, root);
  });
  if (after === before) return [];
  writeFileSync(path, after);
  return [DOCUMENT];
}

const MARKS = /(<!-- bench:([a-z-]+) -->\n)[\s\S]*?(<!-- \/bench -->)/g;

/** Replaces what stands between `<!-- bench:name -->` and `<!-- /bench -->`, each on a line of its own. */
export function fillMarks(text: string, contentOf: (name: string) => string): string {
  return text.replace(MARKS, (_, open: string, name: string, close: string) => {
    return `${open}\n${contentOf(name)}\n\n${close}`;
  });
}

const NOT_MEASURED = 'Not measured yet.';

function section(name: string, root: string): string {
  const result = readResult(name, root);
  return result === undefined ? NOT_MEASURED : describeResult(result);
}

function scaleOut(root: string): string {
  const throughput = readResult('throughput', root);
  return throughput === undefined ? NOT_MEASURED : tableMarkdown(scaleOutTable(throughput));
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
  const word = met === null ? 'not judged' : met ? 'met' : '**not met**';
  return `- ${id}, ${goal}: ${measured}, ${word}.`;
}

function modesTable(): string {
  return tableMarkdown({
    columns: ['mode', 'what is measured', 'extent, with its defaults'],
    rows: MODES.map(({ name, about, extent }) => [`\`${name}\``, about, `\`${describeExtent(extent)}\``]),
    notes: [],
  });
}
