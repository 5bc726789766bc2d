/**
 * The dashboard of docs/analysts/grafana.json as Postgres gets its queries: with the macros expanded as the
 * documentation of Grafana's data source for PostgreSQL says.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './servers/download';
import { isNode } from './syntax';

export const DASHBOARD = 'docs/analysts/grafana.json';

export interface DashboardPanel {
  readonly title: string;
  readonly description: string;
  /** Such as `timeseries`. */
  readonly type: string;
  readonly sql: string;
  /** Whether the first column is a time, and a text column names the series. */
  readonly isSeries: boolean;
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
const textAt = (value: unknown, key: string): string => {
  const found = isNode(value) ? Reflect.get(value, key) : undefined;
  return typeof found === 'string' ? found : '';
};
const listAt = (value: unknown, key: string): unknown[] =>
  listOf(typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined);

export function readDashboard(root = projectRoot): Dashboard {
  const document: unknown = JSON.parse(readFileSync(join(root, DASHBOARD), 'utf8'));
  const templating = isNode(document) ? Reflect.get(document, 'templating') : undefined;
  return {
    panels: listAt(document, 'panels').flatMap((panel) =>
      listAt(panel, 'targets').map((target) => ({
        title: textAt(panel, 'title'),
        description: textAt(panel, 'description'),
        type: textAt(panel, 'type'),
        sql: textAt(target, 'rawSql'),
        isSeries: textAt(target, 'format') === 'time_series',
      })),
    ),
    variables: Object.fromEntries(
      listAt(templating, 'list')
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
