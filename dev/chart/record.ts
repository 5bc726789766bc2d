/**
 * The record of the chart that passed all checks. Building the tools takes ten minutes, so machines without
 * them, such as those of CI, cannot render the chart. They compare it with this record, which only a whole
 * `make chart` writes.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { isObject } from '../../src/lib/json';
import { CHART } from '../generate/chart';
import { projectRoot } from '../servers/download';

const RECORD = 'dev/chart/passed.json';
/** The pins of the tools. */
const PINS = 'dev/chart';

/** The chart copies dashboards as they are. Unit tests check them, so editing one needs no tools. */
const DASHBOARDS = `${CHART}/files/dashboards/`;

/** Digest of every file that affects the checks, by name and content. */
export function digestOfChart(root: string = projectRoot): string {
  const hash = createHash('sha256');
  for (const path of [
    ...filesOf(root, CHART).filter((each) => !each.startsWith(DASHBOARDS)),
    ...filesOf(root, PINS).filter((each) => each.endsWith('/go.mod')),
  ])
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(root, path)))
      .update('\0');
  return hash.digest('hex');
}

function filesOf(root: string, directory: string): string[] {
  return readdirSync(join(root, directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort();
}

/** The digest of the chart that passed last; undefined if none has. */
export function recordedDigest(root: string = projectRoot): string | undefined {
  if (!existsSync(join(root, RECORD))) return undefined;
  const json: unknown = JSON.parse(readFileSync(join(root, RECORD), 'utf8'));
  return isObject(json) && typeof json.chart === 'string' ? json.chart : undefined;
}

/**
 * @param results the output of `jest --json`
 * @returns why there is nothing to record, or undefined
 */
export function record(results: unknown, root: string = projectRoot): string | undefined {
  if (!isObject(results) || results.success !== true) return 'a check failed';
  const { numPassedTests: passed, numPendingTests: skipped } = results;
  if (skipped !== 0) return `${skipped} checks were skipped: their names say what is missing`;
  writeFileSync(
    join(root, RECORD),
    `${JSON.stringify({ chart: digestOfChart(root), checks: passed }, null, 2)}\n`,
  );
  return undefined;
}
