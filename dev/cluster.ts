/**
 * `make cluster-test`: checks the promises of the chart on a real cluster. It makes a cluster on this machine
 * from Kubernetes' own programs, in namespaces of its own, and removes all of it. With KUBECONFIG and IMAGE
 * it uses that cluster instead. ONLY=words runs the needed steps, and those with these words in their names.
 * Exits 1 if a step failed. A machine that cannot make a cluster reports the reason, and every step counts as
 * skipped.
 */
import { buildTool, findTool, type ToolName } from './chart/tools';
import { removeCgroup } from './cluster/cgroups';
import { provideImages } from './cluster/images';
import { Kubernetes, NAMESPACE } from './cluster/kubernetes';
import { cgroupOf, startCluster } from './cluster/node';
import { reportOf, type StepResult } from './cluster/report';
import { provideNeeds, whyNoNode } from './cluster/requirements';
import { NotHere, STEPS, type Step } from './cluster/steps';
import { findImageEngine, startImageEngine } from './containers/engine';
import { runInside } from './containers/namespaces';
import { messageOf } from './servers/types';

const NODES = ['node-1', 'node-2'];
const USERS_TOOLS: readonly ToolName[] = ['helm', 'kubectl'];
const NODE_TOOLS: readonly ToolName[] = [
  ...(['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'coredns'] as const),
];
const BUILD_DEADLINE_MS = 1_800_000;
const REMOVE_DEADLINE_MS = 30_000;

const log = (line: string): void => console.log(`cluster-test: ${line}`);

/** @returns the exit code */
async function main([command, directory = '', archive = '']: readonly string[]): Promise<number> {
  if (command === 'inside') return inside(directory, archive);
  const { KUBECONFIG, IMAGE } = process.env;
  if (KUBECONFIG && IMAGE) {
    tools(USERS_TOOLS);
    return onCluster(KUBECONFIG, true);
  }
  const problem = whyNoNode(process.env);
  if (problem !== undefined) return skipAll(problem);
  const engine = await findImageEngine(process.env);
  const missing = await provideNeeds(engine === undefined, process.env, log);
  if (missing !== undefined) return skipAll(missing);
  tools([...USERS_TOOLS, ...NODE_TOOLS]);
  return withNamespaces();
}

function skipAll(why: string): number {
  log(`skipped: ${why}`);
  for (const line of reportOf(
    STEPS.map(({ name }) => ({ name, result: 'skipped', details: why, seconds: 0 })),
  ))
    console.log(line);
  return 0;
}

/** @throws if a tool can neither be built nor found */
function tools(names: readonly ToolName[]): void {
  for (const name of names) {
    if (!('path' in findTool(name))) log(`building ${name} (once) …`);
    const began = performance.now();
    const problem = buildTool(name, BUILD_DEADLINE_MS);
    if (problem !== undefined) throw new Error(`${name}: ${problem}`);
    if (performance.now() - began > 1000)
      log(`${name} is built (${((performance.now() - began) / 1000).toFixed(0)} s)`);
  }
}

/**
 * Starts an engine for the images, then runs this program again in namespaces of its own. When they end,
 * everything in them ends.
 */
const withNamespaces = (): Promise<number> =>
  runInside({
    program: __filename,
    directoryPrefix: 'promo-intake-cluster-',
    log,
    async prepare(directory) {
      const engine = (await findImageEngine(process.env)) ?? (await startImageEngine(directory, process.env));
      const { archive, workerBytes, hasStandIns } = await provideImages(engine, directory, log).finally(() =>
        engine.stop(),
      );
      log(
        `the image has ${Math.round(workerBytes / 1e6)} MB${hasStandIns ? '; images of Debian, Node, Kafka and Postgres are stand-ins' : ''}`,
      );
      return [archive];
    },
    async cleanUp(directory) {
      for (const name of NODES) await removeCgroup(cgroupOf(directory, name));
    },
  });

async function inside(directory: string, archive: string): Promise<number> {
  const kubeconfig = await startCluster({ directory, archive, nodes: NODES, log });
  log(`${NODES.length} nodes are ready`);
  return onCluster(kubeconfig, false);
}

async function onCluster(kubeconfig: string, isKept: boolean): Promise<number> {
  const kubernetes = new Kubernetes(kubeconfig);
  const results: StepResult[] = [];
  const { ONLY } = process.env;
  let isHopeless = false;
  try {
    for (const step of STEPS) {
      const { name, isNeeded = false } = step;
      if (ONLY && !isNeeded && !name.includes(ONLY)) continue;
      const result: StepResult = isHopeless
        ? { name, result: 'skipped', details: 'a step that it needs has failed', seconds: 0 }
        : await seeStep(step, kubernetes);
      isHopeless ||= isNeeded && result.result !== 'passed';
      results.push(result);
      log(`${result.result}: ${name} (${result.seconds.toFixed(1)} s): ${result.details}`);
      if (result.result === 'failed') log(await stateOf(kubernetes));
    }
  } finally {
    if (isKept) await kubernetes.tryKubectl(['delete', 'namespace', NAMESPACE], REMOVE_DEADLINE_MS * 4);
  }
  for (const line of ['', ...reportOf(results)]) console.log(line);
  return results.some(({ result }) => result === 'failed') ? 1 : 0;
}

async function seeStep({ name, see }: Step, kubernetes: Kubernetes): Promise<StepResult> {
  const began = performance.now();
  const resultOf = (result: StepResult['result'], details: string): StepResult => ({
    name,
    result,
    details,
    seconds: (performance.now() - began) / 1000,
  });
  try {
    return resultOf('passed', await see(kubernetes));
  } catch (error) {
    return resultOf(error instanceof NotHere ? 'skipped' : 'failed', messageOf(error));
  }
}

/** The state of the cluster, for a first look after a failure. */
async function stateOf(kubernetes: Kubernetes): Promise<string> {
  const answers = [
    await kubernetes.tryKubectl(['get', 'pods', '--output', 'wide']),
    await kubernetes.tryKubectl(['get', 'events', '--sort-by', '.lastTimestamp']),
    await kubernetes.tryKubectl([
      'logs',
      '--selector',
      'app.kubernetes.io/instance',
      '--tail',
      '8',
      '--prefix',
    ]),
  ];
  return answers.map(({ output }) => output.split('\n').slice(-25).join('\n')).join('\n');
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    log(messageOf(error));
    process.exit(1);
  },
);
