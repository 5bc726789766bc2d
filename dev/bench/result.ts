/**
 * The result of a mode, as docs/performance/<name>.json keeps it. The tables of the documents are made of
 * these files.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { projectRoot } from '../servers/download';
import { type Chart, chartSvg } from './chart';
import type { Table } from './table';

/** A goal of the project, and the measured value. */
export interface Goal {
  /** P1, P2 ... */
  readonly id: string;
  readonly goal: string;
  readonly measured: string;
  /** Null if it cannot be judged. */
  readonly met: boolean | null;
}

/** One run, as it is printed in a line of JSON. */
export type RunRecord = Readonly<Record<string, string | number | boolean | null>>;

export interface Measured {
  readonly table: Table;
  readonly goals: readonly Goal[];
  readonly runs: readonly RunRecord[];
  readonly chart?: Chart;
  /** Sentences on the run that the extent alone does not express. */
  readonly settings?: readonly string[];
  /** The reason for exit code 1, for a mode that runs as a check. */
  readonly failure?: string;
  /** Suffix of the mode's name in the names of its files. */
  readonly variant?: string;
}

export interface Result {
  readonly name: string;
  readonly measuredAt: string;
  readonly machine: readonly string[];
  readonly settings: readonly string[];
  readonly table: Table;
  readonly goals: readonly Goal[];
  readonly runs: readonly RunRecord[];
  readonly chart?: Chart;
}

const DIRECTORY = join('docs', 'performance');

const text = { type: 'string' };
const texts = { type: 'array', items: text };
const axis = shape({ label: text, scale: { enum: ['linear', 'log'] } });
const point = { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 };
const series = shape({ name: text, points: { type: 'array', items: point } });
const goal = shape({ id: text, goal: text, measured: text, met: { type: ['boolean', 'null'] } });
const table = shape({ columns: texts, rows: { type: 'array', items: texts }, notes: texts });

/** A schema of an object that has all of these properties. */
function shape(properties: Readonly<Record<string, object>>) {
  return { type: 'object', properties, required: Object.keys(properties) };
}

const required = shape({
  name: text,
  measuredAt: text,
  machine: texts,
  settings: texts,
  table,
  goals: { type: 'array', items: goal },
  runs: { type: 'array', items: { type: 'object' } },
});
const chart = shape({ title: text, x: axis, y: axis, series: { type: 'array', items: series } });
const ajv = new Ajv2020({ allowUnionTypes: true });
const isResult = ajv.compile<Result>({ ...required, properties: { ...required.properties, chart } });

/**
 * Writes the figures and, if there is one, the chart.
 *
 * @returns the paths from the project's root
 */
export function writeResult(measured: Result, root = projectRoot): string[] {
  const { chart, ...figures } = measured;
  const result: Result = chart === undefined ? figures : { ...figures, chart: finite(chart) };
  mkdirSync(join(root, DIRECTORY), { recursive: true });
  const files: [string, string][] = [[`${result.name}.json`, resultText(result)]];
  if (result.chart !== undefined) files.push([`${result.name}.svg`, chartSvg(result.chart)]);
  return files.map(([name, content]) => {
    writeFileSync(join(root, DIRECTORY, name), content);
    return join(DIRECTORY, name);
  });
}

/** JSON with one run on a line, so that a change of one run is a change of one line. */
function resultText(result: Result): string {
  const block = (value: unknown): string =>
    Array.isArray(value) && value.length > 0
      ? `[\n${value.map((item) => `    ${JSON.stringify(item)}`).join(',\n')}\n  ]`
      : JSON.stringify(value);
  const lines = Object.entries(result).map(([key, value]) => `  ${JSON.stringify(key)}: ${block(value)}`);
  return `{\n${lines.join(',\n')}\n}\n`;
}

/** Leaves out points that could not be measured: JSON cannot express NaN. */
function finite(chart: Chart): Chart {
  const series = chart.series.map(({ name, points }) => ({
    name,
    points: points.filter((place) => place.every(Number.isFinite)),
  }));
  return { ...chart, series };
}

/**
 * Undefined if the mode was never measured.
 *
 * @throws if the file has another format
 */
export function readResult(name: string, root = projectRoot): Result | undefined {
  const file = join(root, DIRECTORY, `${name}.json`);
  if (!existsSync(file)) return undefined;
  const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (isResult(value)) return value;
  throw new Error(`${DIRECTORY}/${name}.json: ${ajv.errorsText(isResult.errors)}`);
}

export function goalText({ id, goal, measured, met }: Goal): string {
  const word = met === null ? 'not judged' : met ? 'met' : 'NOT MET';
  return `${id}: ${goal}: ${measured}: goal ${word}`;
}
