/**
 * A real Prometheus and its promtool, where the machine has them: in the path, or in the directory that
 * PROMETHEUS names.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { stringify } from 'yaml';
import { until, within } from '../../dev/servers/deadline';
import { findOnPath } from '../../dev/servers/java';
import { LOOPBACK, withFreePorts } from '../../dev/servers/ports';
import { isObject } from '../../src/lib/json';

const TOOL_DEADLINE_MS = 120_000;
const START_DEADLINE_MS = 60_000;
const ANSWER_DEADLINE_MS = 30_000;

const PATH = [process.env.PROMETHEUS ?? '', process.env.PATH ?? ''].join(delimiter);

/** A program of Prometheus, or why it is missing. */
export function findPrometheus(name: 'prometheus' | 'promtool'): { path: string } | { problem: string } {
  const path = findOnPath(name, { PATH });
  if (path !== undefined) return { path };
  return {
    problem: `no ${name} in the path, nor in the directory PROMETHEUS; Debian has it in the package prometheus`,
  };
}

function pathOf(name: 'prometheus' | 'promtool'): string {
  const found = findPrometheus(name);
  if ('problem' in found) throw new Error(found.problem);
  return found.path;
}

/** @returns its exit code, and its output on both streams */
export function promtool(args: readonly string[], cwd: string): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync(pathOf('promtool'), args, {
    cwd,
    encoding: 'utf8',
    timeout: TOOL_DEADLINE_MS,
  });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}

/** A series as a query returns it. */
export interface Series {
  readonly metric: Readonly<Record<string, unknown>>;
  readonly value: number;
}

export interface Prometheus {
  /** @throws where Prometheus rejects the expression */
  query(expression: string): Promise<Series[]>;
  /** Names of the alerts that fire. */
  firing(): Promise<string[]>;
}

export interface PrometheusOptions {
  /** The targets of its scrapes: address and labels of each worker. */
  readonly targets: readonly { readonly port: number; readonly labels: Readonly<Record<string, string>> }[];
  readonly rules: string;
  /** Time between two scrapes, and between two evaluations. */
  readonly intervalMs: number;
}

/** Runs `work` with a Prometheus of its own. */
export async function withPrometheus(
  { targets, rules, intervalMs }: PrometheusOptions,
  work: (prometheus: Prometheus) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'prometheus-'));
  const log = join(directory, 'log');
  let child: ChildProcess | undefined;
  try {
    writeFileSync(join(directory, 'alerts.yaml'), rules);
    writeFileSync(
      join(directory, 'prometheus.yaml'),
      stringify({
        global: {
          scrape_interval: `${intervalMs}ms`,
          scrape_timeout: `${intervalMs}ms`,
          evaluation_interval: `${intervalMs}ms`,
        },
        rule_files: ['alerts.yaml'],
        scrape_configs: [
          {
            job_name: 'promo-intake',
            static_configs: targets.map(({ port, labels }) => ({ targets: [`${LOOPBACK}:${port}`], labels })),
          },
        ],
      }),
    );
    await withFreePorts(1, async ([port]) => {
      const address = `${LOOPBACK}:${port}`;
      const out = openSync(log, 'w');
      const args = [
        '--config.file=prometheus.yaml',
        '--storage.tsdb.path=data',
        `--web.listen-address=${address}`,
      ];
      child = spawn(pathOf('prometheus'), args, { cwd: directory, stdio: ['ignore', out, out] });
      closeSync(out);
      await until('Prometheus is ready', START_DEADLINE_MS, async () => {
        if (child?.exitCode !== null) throw new Error(`Prometheus ended: ${readFileSync(log, 'utf8')}`);
        return /Server is ready/.test(readFileSync(log, 'utf8'));
      });
      await work({
        async query(expression) {
          const data = await requestApi(address, `query?${new URLSearchParams({ query: expression })}`);
          return listOf(data, 'result').map((series) => {
            const [, value] = listOf(series, 'value');
            const { metric } = isObject(series) ? series : {};
            return { metric: isObject(metric) ? metric : {}, value: Number(value) };
          });
        },
        async firing() {
          const alerts = listOf(await requestApi(address, 'alerts'), 'alerts').filter(isObject);
          const names = alerts.flatMap(({ state, labels }) =>
            state === 'firing' && isObject(labels) ? [String(labels.alertname)] : [],
          );
          return [...new Set(names)].sort();
        },
      });
    });
  } finally {
    if (child !== undefined && child.exitCode === null) {
      child.kill('SIGKILL');
      await within('Prometheus ends', ANSWER_DEADLINE_MS, once(child, 'exit'));
    }
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @throws with the error that Prometheus reports */
async function requestApi(address: string, what: string): Promise<unknown> {
  const response = await fetch(`http://${address}/api/v1/${what}`, {
    signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
  });
  const answer: unknown = await response.json();
  if (!isObject(answer) || answer.status !== 'success') throw new Error(`${what}: ${JSON.stringify(answer)}`);
  return answer.data;
}

function listOf(node: unknown, name: string): readonly unknown[] {
  const list = isObject(node) ? node[name] : undefined;
  if (!Array.isArray(list)) throw new Error(`Prometheus answered without ${name}`);
  return list;
}
