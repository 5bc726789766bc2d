/** A cluster of Kubernetes as its users reach it: by kubectl and Helm, and from the desk, a pod inside it. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../src/lib/json';
import { findTool, type ToolName } from '../chart/tools';
import { must, type Ran, run } from '../containers/run';
import { projectRoot } from '../servers/download';
import { PUBLISHED_KAFKAJS } from '../servers/guest';

export const NAMESPACE = 'promo-intake-cluster-test';
const DESK = 'desk';
const DESK_SCRIPT = join(projectRoot, 'dev', 'cluster', 'desk.cjs');
const KUBECTL_DEADLINE_MS = 60_000;
const HELM_DEADLINE_MS = 300_000;

export class Kubernetes {
  private readonly script = readFileSync(DESK_SCRIPT, 'utf8');

  constructor(private readonly kubeconfig: string) {}

  /** @throws if it fails */
  kubectl(args: readonly string[], input = '', deadlineMs = KUBECTL_DEADLINE_MS): Promise<string> {
    return must(pathOf('kubectl'), this.scoped(args), { deadlineMs, input });
  }

  /** The same for a command that may fail. */
  tryKubectl(args: readonly string[], deadlineMs = KUBECTL_DEADLINE_MS, input = ''): Promise<Ran> {
    return run(pathOf('kubectl'), this.scoped(args), { deadlineMs, input });
  }

  /** For a command that keeps running, such as a watch, or one that reads stdin. */
  startKubectl(args: readonly string[]): ChildProcessWithoutNullStreams {
    return spawn(pathOf('kubectl'), this.scoped(args), { stdio: 'pipe' });
  }

  /** @returns the JSON of `kubectl get -o json` */
  async get(...what: readonly string[]): Promise<unknown> {
    return JSON.parse(await this.kubectl(['get', ...what, '-o', 'json']));
  }

  helm(args: readonly string[]): Promise<Ran> {
    return run(pathOf('helm'), this.scoped(args), { deadlineMs: HELM_DEADLINE_MS });
  }

  /** Rows of the last statement. */
  async sql(statements: string, database?: string): Promise<readonly Record<string, unknown>[]> {
    const rows = await this.ask('sql', statements, ...(database === undefined ? [] : [database]));
    if (!Array.isArray(rows)) throw new Error('the desk answered with no rows');
    return rows.filter(isObject);
  }

  async makeTopic(name: string, partitions: number): Promise<void> {
    await this.ask('topic', `${name}:${partitions}`);
  }

  /** The text at an address inside the cluster. */
  async fetch(url: string): Promise<string> {
    const answer = await this.ask('get', url);
    if (!isObject(answer) || typeof answer.text !== 'string') throw new Error(`no answer from ${url}`);
    return answer.text;
  }

  /** Arguments that run a command of the product at the desk, as a superuser of the database. */
  atDesk(args: readonly string[]): string[] {
    return ['exec', '--stdin', DESK, '--', 'node', '/app/dist/cli.js', ...args];
  }

  private async ask(...args: readonly string[]): Promise<unknown> {
    return JSON.parse(
      await this.kubectl(['exec', DESK, '--', 'node', ...PUBLISHED_KAFKAJS, '-e', this.script, ...args]),
    );
  }

  private scoped(args: readonly string[]): string[] {
    return ['--kubeconfig', this.kubeconfig, '--namespace', NAMESPACE, ...args];
  }
}

function pathOf(name: ToolName): string {
  const found = findTool(name);
  if ('problem' in found) throw new Error(found.problem);
  return found.path;
}
