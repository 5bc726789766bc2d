/** The chart's files for Prometheus and Grafana, read for tests. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { CHART } from '../../dev/generate/chart';
import { projectRoot } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';

const FILES = join(projectRoot, CHART, 'files');
/** The text of the file, with SELECTOR for the labels of a release's workers, and CRONJOB for its CronJob. */
export const RULES = readFileSync(join(FILES, 'alerts.yaml'), 'utf8');
/** The query by which KEDA scales, also with SELECTOR. */
export const SCALING = readFileSync(join(FILES, 'scaling.promql'), 'utf8').trim();

/** Replaces SELECTOR by labels of the selected workers, and CRONJOB by those of the CronJob `retention`. */
export const selecting = (labels: string, text: string): string =>
  text
    .replaceAll('SELECTOR', labels)
    .replaceAll('CRONJOB', `${labels.replace(/pod=.*/, '')}cronjob="retention"`);

export interface Alert {
  readonly name: string;
  readonly expression: string;
  readonly severity: string;
  readonly annotations: Readonly<Record<string, unknown>>;
}

function nodesOf(node: unknown, name: string) {
  const list = isObject(node) ? node[name] : undefined;
  return Array.isArray(list) ? list.filter(isObject) : [];
}

export function alertsOf(rules: string): Alert[] {
  return nodesOf(parse(rules), 'groups')
    .flatMap((group) => nodesOf(group, 'rules'))
    .map(({ alert, expr, labels, annotations }) => ({
      name: String(alert),
      expression: String(expr),
      severity: isObject(labels) ? String(labels.severity) : '',
      annotations: isObject(annotations) ? annotations : {},
    }));
}

export interface Panel {
  readonly title: string;
  readonly description: string;
  readonly row: string;
  readonly expressions: readonly string[];
  /** Whether its queries ask for the last moment only. */
  readonly isNow: boolean;
  /** The least time between two of its points. */
  readonly interval: unknown;
}

/** The panels of all dashboards, in their order. */
export function panels(): Panel[] {
  return readdirSync(join(FILES, 'dashboards')).flatMap((file) => {
    const dashboard: unknown = JSON.parse(readFileSync(join(FILES, 'dashboards', file), 'utf8'));
    let row = '';
    return nodesOf(dashboard, 'panels').flatMap((panel) => {
      if (panel.type === 'row') {
        row = String(panel.title);
        return [];
      }
      const targets = nodesOf(panel, 'targets');
      return [
        {
          title: String(panel.title),
          description: String(panel.description),
          row,
          expressions: targets.map(({ expr }) => String(expr)),
          isNow: targets.every(({ instant, range }) => instant === true && range === false),
          interval: panel.interval,
        },
      ];
    });
  });
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

/** The same rules, but faster: divides every duration, and every limit on a metric in seconds. */
export function faster(rules: string, times: number): string {
  const divided = (number: string, unit: string) =>
    `${Math.max(1, Math.round((Number(number) * (UNIT_SECONDS[unit] ?? 0) * 1000) / times))}ms`;
  return rules
    .replace(/\[(\d+)([smh])\]/g, (_, number, unit) => `[${divided(number, unit)}]`)
    .replace(/\boffset (\d+)([smh])\b/g, (_, number, unit) => `offset ${divided(number, unit)}`)
    .replace(/\bfor: (\d+)([smh])$/gm, (_, number, unit) => `for: ${divided(number, unit)}`)
    .replace(
      /(_seconds(?:\{[^}]*\})?(?:\[\w+\])?\)* [<>] )(\d+)/g,
      (_, metric, limit) => `${metric}${Number(limit) / times}`,
    );
}
