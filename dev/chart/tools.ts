/**
 * The programs that check the chart. The Go toolchain builds them of pinned sources, once, into a cache
 * outside of the checkout. Without a built one, a program of that name in the PATH is used.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/lib/json';
import { projectRoot } from '../servers/download';
import { findOnPath } from '../servers/java';
import type { Environment } from '../servers/types';

/** The Kubernetes version that the chart is checked against: that of cluster/go.mod. */
export const KUBERNETES_VERSION = '1.34.4';

/** A server that was built without its version reports 0.0.0, which no chart accepts. */
const [MAJOR, MINOR] = KUBERNETES_VERSION.split('.');
const SERVER_VERSION = Object.entries({
  gitVersion: `v${KUBERNETES_VERSION}`,
  gitMajor: MAJOR,
  gitMinor: MINOR,
})
  .map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
  .join(' ');

const ofKubernetes = (name: string) => ({
  module: 'cluster',
  source: `k8s.io/kubernetes/cmd/${name}`,
  link: SERVER_VERSION,
});

/** By name: the module of this directory that pins the tool, its source, and the flags of the linker. */
const TOOLS = {
  helm: { module: 'tools', source: 'helm.sh/helm/v3/cmd/helm' },
  'helm-unittest': { module: 'tools', source: 'github.com/helm-unittest/helm-unittest/cmd/helm-unittest' },
  kubeconform: { module: 'tools', source: 'github.com/yannh/kubeconform/cmd/kubeconform' },
  'kube-score': { module: 'score', source: 'github.com/zegl/kube-score/cmd/kube-score' },
  etcd: { module: 'cluster', source: 'go.etcd.io/etcd/server/v3' },
  'kube-apiserver': ofKubernetes('kube-apiserver'),
  'kube-controller-manager': ofKubernetes('kube-controller-manager'),
  'kube-scheduler': ofKubernetes('kube-scheduler'),
  kubelet: ofKubernetes('kubelet'),
  kubectl: ofKubernetes('kubectl'),
  coredns: { module: 'dns', source: 'github.com/coredns/coredns' },
} as const;

export type ToolName = keyof typeof TOOLS;
export const TOOL_NAMES = Object.keys(TOOLS).filter(isToolName);
/** The tools of `make chart`. The others make a node, for `make cluster-test`. */
export const CHART_TOOLS: readonly ToolName[] = [
  ...['helm', 'helm-unittest', 'kubeconform', 'kube-score', 'etcd', 'kube-apiserver'],
].filter(isToolName);

export function isToolName(name: string): name is ToolName {
  return name in TOOLS;
}

/** The path of a tool, or the remedy if it is missing. */
export type Found = { readonly path: string } | { readonly problem: string };

export function findTool(name: ToolName, environment: Environment = process.env): Found {
  const built = builtPath(name, environment);
  if (existsSync(built)) return { path: built };
  const path = findOnPath(name, environment);
  if (path !== undefined) return { path };
  return { problem: `${name} is not built: run make chart-tools, for which Go is needed` };
}

function builtPath(name: ToolName, environment: Environment): string {
  return join(cacheOf(TOOLS[name].module, environment), name);
}

/** The directory for everything made of a module of this directory. Another pin is another directory. */
export function cacheOf(module: string, environment: Environment): string {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum']) hash.update(readFileSync(join(moduleDirectory(module), file)));
  const caches = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(caches, 'promo-intake', `${module}-${hash.digest('hex').slice(0, 16)}`);
}

function moduleDirectory(module: string): string {
  return join(projectRoot, 'dev', 'chart', module);
}

/** @returns the problem, or undefined once the tool is there */
export function buildTool(
  name: ToolName,
  deadlineMs: number,
  environment: Environment = process.env,
): string | undefined {
  const built = builtPath(name, environment);
  // Without Go, a program in the PATH has to do.
  if (
    existsSync(built) ||
    (findOnPath('go', environment) === undefined && 'path' in findTool(name, environment))
  )
    return undefined;
  const { module, source, link = '' }: { module: string; source: string; link?: string } = TOOLS[name];
  const partial = `${built}.partial-${process.pid}`;
  mkdirSync(cacheOf(module, environment), { recursive: true });
  const args = ['build', '-trimpath', `-ldflags=-s -w ${link}`, '-o', partial, source];
  try {
    // Into a new file name: if the name were a directory, Go would build into it.
    const problem = go(module, args, deadlineMs, environment);
    if ('problem' in problem) return problem.problem;
    renameSync(partial, built);
    return undefined;
  } finally {
    rmSync(partial, { force: true });
  }
}

/**
 * The directory with the sources of a package that a module of this directory names.
 *
 * @throws with the reason
 */
export function sourcesOf(module: string, name: string, environment: Environment = process.env): string {
  const answer = go(module, ['mod', 'download', '-json', name], DOWNLOAD_DEADLINE_MS, environment);
  if ('problem' in answer) throw new Error(answer.problem);
  const json: unknown = JSON.parse(answer.output);
  if (!isObject(json) || typeof json.Dir !== 'string') throw new Error(`go names no directory of ${name}`);
  return json.Dir;
}

const DOWNLOAD_DEADLINE_MS = 300_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

function go(
  module: string,
  args: readonly string[],
  deadlineMs: number,
  environment: Environment,
): { output: string } | { problem: string } {
  const path = findOnPath('go', environment);
  if (path === undefined) return { problem: 'go is missing: install Go 1.26 or newer (https://go.dev/dl)' };
  const { status, stdout, stderr, error } = spawnSync(path, args, {
    cwd: moduleDirectory(module),
    // Without C: the programs run wherever they are copied to.
    env: { ...environment, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false' },
    encoding: 'utf8',
    timeout: deadlineMs,
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  if (status === 0) return { output: stdout };
  const why = error === undefined ? stderr.trim().split('\n').slice(-3).join('\n') : error.message;
  return { problem: `go ${args.slice(0, 2).join(' ')}: ${why}` };
}
