/** The result of a test run: the layers and their minutes, the counts of a run, and the printed table. */
import { stripVTControlCharacters } from 'node:util';
import { type JestTest, readJestFiles } from './jest-results';

/**
 * The layers in the order of the table. test/README.md explains what each one proves. The minutes are 1.5
 * times those of a whole run on two cores, added up over the files that ran at the same time.
 */
export const LAYERS = [
  { name: 'checks', minutes: 1 },
  { name: 'unit', minutes: 2.5 },
  { name: 'repository', minutes: 0.4 },
  { name: 'fuzz', minutes: 1 },
  { name: 'simulation', minutes: 2 },
  { name: 'dev', minutes: 7.7 },
  { name: 'chart', minutes: 2 },
  { name: 'ledger', minutes: 17 },
  { name: 'stores', minutes: 8.5 },
  { name: 'mutants', minutes: 4 },
  { name: 'model', minutes: 2 },
  { name: 'stream', minutes: 23 },
  { name: 'webhook', minutes: 8.5 },
  { name: 'faults', minutes: 7 },
  { name: 'monitoring', minutes: 0.5 },
  { name: 'commands', minutes: 12.8 },
  { name: 'bench', minutes: 2.1 },
  { name: 'containers', minutes: 3.3 },
] as const;
/** Style, types and generated files, which the runner itself checks; each one counts as a test. */
export const CHECKS = 'checks';
/** Layers that use a whole core, and have no time limit of less than seconds. They run beside the others. */
export const COMPUTING: readonly string[] = ['repository', 'fuzz', 'simulation', 'mutants'];
/**
 * Layers whose time limits are tens of seconds. They follow the computing layers, so that both runs end at
 * about the same time. None of them needs the registry, which this run does not start.
 */
export const FOLLOWING: readonly string[] = ['stores', 'model', 'dev', 'commands', 'webhook', 'unit'];
/** Files of these that run at a time. */
export const FOLLOWING_WORKERS = 4;
/** The benchmark has the machine to itself. */
export const BENCH = 'bench';
/** `make container-test`, which counts as one test, and may be left out. */
export const CONTAINERS = 'containers';
/** Exit code of a program that could not run here; the Makefile uses it, too. */
export const SKIPPED_EXIT_CODE = 3;

/** A test or check that passed, failed or was skipped. */
export interface Result {
  readonly layer: string;
  readonly test: string;
  readonly status: 'passed' | 'failed' | 'skipped';
  /** The reason of a failure. */
  readonly message?: string;
}

/** Seconds that all files of a layer took, added up: the cost, however many files ran at the same time. */
export type Seconds = ReadonlyMap<string, number>;

export interface LayerCount {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly seconds: number;
  /** Null for a layer without budget: LAYERS does not list it. */
  readonly budgetSeconds: number | null;
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly layers: readonly LayerCount[];
  readonly failures: readonly Result[];
}

/**
 * Counts a run. A requested layer without tests counts as one failed test: a test that does not run proves
 * nothing.
 *
 * @param wanted the requested layers
 */
export function summarize(wanted: readonly string[], results: readonly Result[], seconds: Seconds): Summary {
  const ran = new Set(results.filter(({ status }) => status !== 'skipped').map(({ layer }) => layer));
  const empty = wanted
    .filter((layer) => !ran.has(layer) && layer !== CONTAINERS)
    .map((layer): Result => ({ layer, test: 'the layer', status: 'failed', message: 'no test ran' }));
  const all = [...results, ...empty];
  const names = new Set([...wanted, ...all.map(({ layer }) => layer)]);
  const count = (status: Result['status'], layer?: string): number =>
    all.filter((result) => result.status === status && (layer === undefined || result.layer === layer))
      .length;
  return {
    passed: count('passed'),
    failed: count('failed'),
    skipped: count('skipped'),
    layers: [...names].map((name) => {
      const minutes = LAYERS.find((layer) => layer.name === name)?.minutes;
      return {
        name,
        passed: count('passed', name),
        failed: count('failed', name),
        skipped: count('skipped', name),
        seconds: seconds.get(name) ?? 0,
        budgetSeconds: minutes === undefined ? null : minutes * 60,
      };
    }),
    failures: all.filter(({ status }) => status === 'failed'),
  };
}

/** The table of a run, its failures, and the line that tools read. */
export function printSummary({ layers, failures, passed, failed, skipped }: Summary): string {
  const rows = layers.map((layer) => [
    layer.name,
    String(layer.passed),
    String(layer.failed),
    String(layer.skipped),
    layer.seconds.toFixed(1),
    layer.budgetSeconds === null ? 'none' : String(layer.budgetSeconds),
    layer.budgetSeconds !== null && layer.seconds > layer.budgetSeconds ? 'over budget' : '',
  ]);
  const lines = align([['layer', 'passed', 'failed', 'skipped', 'seconds', 'budget', ''], ...rows]);
  const explained = failures.map(
    ({ layer, test, message = '' }) => `failed: ${layer}: ${test}${message === '' ? '' : `: ${message}`}`,
  );
  // On a line of its own: tools read the last one.
  const left = skipped > 0 ? [`${skipped} skipped`] : [];
  return [...lines, ...explained, ...left, `${passed} passed, ${failed} failed`].join('\n');
}

/** Aligns the first column to the left and numbers to the right; the last column stays as it is. */
function align(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        if (column === 0) return cell.padEnd(width);
        return column === row.length - 1 ? cell : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

/**
 * Reads the output of `jest --json`.
 *
 * @throws if it has another form
 */
export function readJestResults(json: unknown, root: string): { results: Result[]; seconds: Seconds } {
  const results: Result[] = [];
  const seconds = new Map<string, number>();
  for (const { file, tests, hasFailed, message, ...took } of readJestFiles(json, root)) {
    const layer = file.split('/')[1] ?? file;
    if (took.seconds !== undefined) seconds.set(layer, (seconds.get(layer) ?? 0) + took.seconds);
    results.push(...tests.map((test) => resultOf(layer, test)));
    // A file that cannot be loaded, or fails outside of its tests, has a message and no failed test.
    if (hasFailed && !tests.some(({ status }) => status === 'failed'))
      results.push({ layer, test: file, status: 'failed', message: firstLine(message) });
  }
  return { results, seconds };
}

function resultOf(layer: string, { titles, status, message }: JestTest): Result {
  const result = { layer, test: titles.join(' '), status };
  return status === 'failed' ? { ...result, message: firstLine(message) } : result;
}

/** Without colours, which are for terminals. The rest of the message is in Jest's own output. */
function firstLine(message: unknown): string {
  if (typeof message !== 'string') return '';
  const lines = stripVTControlCharacters(message).split('\n');
  return lines.find((line) => line.trim() !== '')?.trim() ?? '';
}
