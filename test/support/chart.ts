/** The chart as Helm renders it, and the tools that check it. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import type { Manifest } from '../../dev/chart/objects';
import { type Found, findTool, KUBERNETES_VERSION, type ToolName } from '../../dev/chart/tools';
import { CHART as CHART_PATH } from '../../dev/generate/chart';
import { projectRoot } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';

export { at, listAt, type Manifest } from '../../dev/chart/objects';

export const CHART = join(projectRoot, CHART_PATH);
const TOOL_DEADLINE_MS = 60_000;

/** Values files of the chart, by name. */
export const EXAMPLES = readdirSync(join(CHART, 'examples')).sort();
export const example = (name: string): string => join(CHART, 'examples', name);

/** `test` where all of these tools are found; otherwise a skipped test that names the missing one. */
export function testWith(
  ...found: readonly Found[]
): (name: string, work: jest.ProvidesHookCallback) => void {
  const problem = found.flatMap((each) => ('problem' in each ? [each.problem] : []))[0];
  return (name, work) => {
    if (problem === undefined) test(name, work);
    else test.skip(`${name} (skipped: ${problem})`, work);
  };
}

/** The pod for commands in docs/kubernetes.md. */
export function commandPod(): Manifest {
  const document = readFileSync(join(projectRoot, 'docs', 'kubernetes.md'), 'utf8');
  const [, block = ''] = /^```yaml\n(.+?)^```/ms.exec(document) ?? [];
  const pod: unknown = parse(block, { version: '1.1' });
  if (!isObject(pod) || pod.kind !== 'Pod') throw new Error('docs/kubernetes.md has no pod for commands');
  return pod;
}

export interface Ran {
  readonly status: number | null;
  /** Of both streams. */
  readonly output: string;
  readonly stdout: string;
}

/** @throws where the tool is missing or hangs */
export function runTool(name: ToolName, args: readonly string[], input = ''): Ran {
  const found = findTool(name);
  if ('problem' in found) throw new Error(found.problem);
  const { status, stdout, stderr, error } = spawnSync(found.path, args, {
    input,
    encoding: 'utf8',
    timeout: TOOL_DEADLINE_MS,
  });
  if (error !== undefined) throw error;
  return { status, stdout, output: stdout + stderr };
}

/** Runs `helm template` with these further arguments. */
export function template(args: readonly string[], chart = CHART): Ran {
  return runTool('helm', [
    'template',
    'here',
    chart,
    '--namespace',
    'games',
    '--kube-version',
    KUBERNETES_VERSION,
    ...args,
  ]);
}

/**
 * The manifests of an example.
 * @throws where Helm fails, with its output
 */
export function manifestsOf(args: readonly string[], chart = CHART): Manifest[] {
  const { status, output, stdout } = template(args, chart);
  if (status !== 0) throw new Error(output);
  return parseAllDocuments(stdout).flatMap((document) => {
    const json: unknown = document.toJS();
    return isObject(json) ? [json] : [];
  });
}
