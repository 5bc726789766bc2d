/**
 * The tools of the chart:
 * - `node build/dev/chart.js tools [NAME...]` builds the missing tools.
 * - `manifests FILE...` writes the objects that Helm would install with these values files, for operators who
 * apply objects by other means.
 * - `passed FILE` records that all checks of FILE passed. Jest wrote FILE.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { manifestFiles, tooLargeForApply } from './chart/manifests';
import { record } from './chart/record';
import { makeSchemas } from './chart/schemas';
import { buildTool, CHART_TOOLS, findTool, isToolName, KUBERNETES_VERSION, TOOL_NAMES } from './chart/tools';
import { CHART } from './generate/chart';
import { projectRoot } from './servers/download';

const USAGE = 'usage: node build/dev/chart.js tools [NAME...] | manifests FILE... | passed FILE';
const USAGE_EXIT_CODE = 2;
const BUILD_DEADLINE_MS = 1_800_000;
const HELM_DEADLINE_MS = 60_000;
const MAX_RENDERED_BYTES = 64 * 1024 * 1024;
const MANIFESTS = join('build', 'manifests');

function main([command, ...args]: readonly string[]): number {
  if (command === 'tools') return tools(args);
  if (command === 'manifests' && args.length > 0) return manifests(args);
  if (command === 'passed' && args.length === 1) return passed(args[0] ?? '');
  console.error(USAGE);
  return USAGE_EXIT_CODE;
}

function passed(file: string): number {
  const problem = record(JSON.parse(readFileSync(file, 'utf8')));
  if (problem !== undefined) console.error(`not recorded as passed: ${problem}`);
  return problem === undefined ? 0 : 1;
}

function tools(names: readonly string[]): number {
  const unknown = names.filter((name) => !isToolName(name));
  if (unknown.length > 0) {
    console.error(`there is no tool ${unknown.join(', ')}; the tools are ${TOOL_NAMES.join(', ')}`);
    return USAGE_EXIT_CODE;
  }
  const problems: string[] = [];
  const make = (what: string, work: () => string | undefined): void => {
    const began = performance.now();
    const problem = work();
    if (problem !== undefined) problems.push(`${what}: ${problem}`);
    else console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  };
  const wanted = names.length === 0 ? CHART_TOOLS : names.filter(isToolName);
  if (names.length === 0) make('schemas', () => makeSchemas());
  for (const name of wanted) make(name, () => buildTool(name, BUILD_DEADLINE_MS));
  for (const problem of problems) console.error(problem);
  return problems.length === 0 ? 0 : 1;
}

/** One file for each step, in the order in which they are applied. */
function manifests(valuesFiles: readonly string[]): number {
  const helm = findTool('helm');
  if ('problem' in helm) {
    console.error(helm.problem);
    return 1;
  }
  const { NAMESPACE: namespace = 'default', RELEASE: release = 'promo-intake' } = process.env;
  const { status, stdout, stderr, error } = spawnSync(
    helm.path,
    [
      'template',
      release,
      CHART,
      '--kube-version',
      KUBERNETES_VERSION,
      '--namespace',
      namespace,
      ...valuesFiles.flatMap((file) => ['--values', file]),
    ],
    { cwd: projectRoot, encoding: 'utf8', timeout: HELM_DEADLINE_MS, maxBuffer: MAX_RENDERED_BYTES },
  );
  if (error !== undefined) {
    console.error(`helm template did not end: ${error.message}`);
    return 1;
  }
  if (status !== 0) {
    console.error(stderr);
    return 1;
  }
  const problem = tooLargeForApply(stdout);
  if (problem !== undefined) {
    console.error(problem);
    return 1;
  }
  const target = join(projectRoot, MANIFESTS);
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const { name, text } of manifestFiles(stdout)) {
    writeFileSync(join(target, name), text);
    console.log(join(MANIFESTS, name));
  }
  return 0;
}

process.exitCode = main(process.argv.slice(2));
