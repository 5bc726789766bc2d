/**
 * The dashboard of docs/analysts/grafana.json as Postgres gets its queries: with the macros expanded as the
 * documentation of Grafana's data source for PostgreSQL says.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../src/lib/json';
import { projectRoot } from './servers/download';

export const DASHBOARD = 'docs/analysts/grafana.json';

export interface DashboardPanel {
  readonly title: string;
  readonly description: string;
  /** Such as `timeseries`. */
  readonly type: string;
  readonly sql: string;
  /** Whether the first column is a time, and a text column names the series. */
  readonly isSeries: boolean;
  /** Such as `percentunit`; empty for a number without one. */
  readonly unit: string;
  /** Bars on top of each other, in place of lines. */
  readonly isStacked: boolean;
  /** Its place, in columns and rows of the grid. */
  readonly grid: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
}

export interface Dashboard {
  readonly panels: readonly DashboardPanel[];
  /** The queries of its variables, by their names. */
  readonly variables: Readonly<Record<string, string>>;
}

export interface DashboardRange {
  /** Such as `2026-11-02T00:00:00Z`. */
  readonly from: string;
  readonly to: string;
  readonly operators: readonly string[];
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
/** Follows a path of keys, such as `fieldConfig.defaults`. */
const valueAt = (value: unknown, path: string): unknown =>
  path.split('.').reduce((found, key) => (isObject(found) ? found[key] : undefined), value);
const textAt = (value: unknown, path: string): string => {
  const found = valueAt(value, path);
  return typeof found === 'string' ? found : '';
};
const listAt = (value: unknown, path: string): unknown[] => listOf(valueAt(value, path));
const numberAt = (value: unknown, path: string): number => Number(valueAt(value, path));

export function readDashboard(root = projectRoot): Dashboard {
  const document: unknown = JSON.parse(readFileSync(join(root, DASHBOARD), 'utf8'));
  return {
    panels: listAt(document, 'panels').flatMap((panel) =>
      listAt(panel, 'targets').map((target) => ({
        title: textAt(panel, 'title'),
        description: textAt(panel, 'description'),
        type: textAt(panel, 'type'),
        sql: textAt(target, 'rawSql'),
        isSeries: textAt(target, 'format') === 'time_series',
        unit: textAt(panel, 'fieldConfig.defaults.unit'),
        isStacked: textAt(panel, 'fieldConfig.defaults.custom.stacking.mode') === 'normal',
        grid: {
          x: numberAt(panel, 'gridPos.x'),
          y: numberAt(panel, 'gridPos.y'),
          w: numberAt(panel, 'gridPos.w'),
          h: numberAt(panel, 'gridPos.h'),
        },
      })),
    ),
    variables: Object.fromEntries(
      listAt(document, 'templating.list')
        .filter((variable) => textAt(variable, 'type') === 'query')
        .map((variable) => [textAt(variable, 'name'), textAt(variable, 'query')]),
    ),
  };
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** @throws where a macro or a variable is left, which Grafana would replace or Postgres refuse */
export function expandMacros(sql: string, { from, to, operators }: DashboardRange): string {
  const expanded = sql
    .replaceAll(/\$__timeFilter\((\w+)\)/g, `$1 BETWEEN ${quoted(from)} AND ${quoted(to)}`)
    .replaceAll('$__timeFrom()', quoted(from))
    .replaceAll('$__timeTo()', quoted(to))
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of Grafana's variables.
    .replaceAll('${operator:sqlstring}', operators.map(quoted).join(','));
  if (expanded.includes('$')) throw new Error(`what Grafana would replace is left: ${expanded}`);
  return expanded;
}
