/**
 * Faults that only an API server refuses: impossible selectors, ports out of range, requests above limits,
 * Pod Security.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ApiServer } from '../../dev/chart/api-server';
import { CRD_DIRECTORY, findSchemas } from '../../dev/chart/schemas';
import { findTool } from '../../dev/chart/tools';
import { isObject } from '../../src/lib/json';
import {
  at,
  CHART,
  commandPod,
  EXAMPLES,
  example,
  listAt,
  type Manifest,
  manifestsOf,
  runTool,
  testWith,
} from '../support/chart';
import { type GameIds, largeReference } from '../support/large-reference';

jest.setTimeout(120_000);

const needed = [findTool('helm'), findTool('etcd'), findTool('kube-apiserver'), findSchemas()];
const withServer = testWith(...needed);
const MINIMAL = ['--values', example('minimal.yaml')];
/** Objects that pods need, and that no controller creates here. */
const NAMESPACE = 'games';

let server: ApiServer;
beforeAll(async () => {
  const schemas = findSchemas();
  if (needed.some((each) => 'problem' in each) || 'problem' in schemas) return;
  server = new ApiServer();
  await server.start();
  const metadata = {
    name: NAMESPACE,
    labels: {
      'pod-security.kubernetes.io/enforce': 'restricted',
      'pod-security.kubernetes.io/warn': 'restricted',
    },
  };
  await apply({ apiVersion: 'v1', kind: 'Namespace', metadata });
  await apply({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'default', namespace: NAMESPACE },
  });
  await apply({
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name: 'business-critical' },
    value: 1000,
  });
  const crds = join(schemas.path, CRD_DIRECTORY);
  for (const file of readdirSync(crds)) {
    const crd: unknown = JSON.parse(readFileSync(join(crds, file), 'utf8'));
    if (isObject(crd)) await server.define(crd);
  }
});
afterAll(() => server?.stop());

async function apply(manifest: Manifest): Promise<void> {
  const { status, body, warnings } = await server.apply(manifest);
  const what = `${at(manifest, 'kind')} ${at(manifest, 'metadata.name')}`;
  expect([what, status < 300 ? 'taken' : at(body, 'message'), warnings]).toEqual([what, 'taken', []]);
}

/** The account of a pod comes before it. */
const inOrder = (manifests: readonly Manifest[]): Manifest[] => {
  const isPod = (manifest: Manifest) => manifest.kind === 'Pod';
  return [...manifests.filter((each) => !isPod(each)), ...manifests.filter(isPod)];
};

for (const name of EXAMPLES) {
  withServer(
    `everything of ${name} is accepted without a warning, and a second apply changes nothing`,
    async () => {
      // A new name: an existing Job cannot be changed.
      const own = ['--set', `fullnameOverride=${name.replace('.yaml', '')}`];
      const manifests = inOrder(manifestsOf(['--values', example(name), ...own]));
      const versions = async () =>
        Promise.all(
          manifests.map(async (manifest) => [
            manifest.kind,
            at((await server.get(manifest)).body, 'metadata.resourceVersion'),
          ]),
        );
      for (const manifest of manifests) await apply(manifest);
      const first = await versions();
      for (const manifest of manifests) await apply(manifest);
      expect(await versions()).toEqual(first);
    },
  );
}

withServer('the pod of docs/kubernetes.md for commands is accepted without a warning', async () => {
  const pod = commandPod();
  await apply({ ...pod, metadata: { ...Object(pod.metadata), namespace: NAMESPACE } });
});

withServer('workers whose old pods have to end first are accepted', async () => {
  const args = [...MINIMAL, '--set', 'fullnameOverride=recreate,worker.strategy.type=Recreate'];
  for (const manifest of manifestsOf(args).filter(({ kind }) => kind === 'Deployment')) await apply(manifest);
});

describe('a file of 50,000 games', () => {
  const JOB = 'here-promo-intake-reference';
  const jobsOf = (existing: string) =>
    manifestsOf([...MINIMAL, '--set', existing]).filter(
      (each) => each.kind === 'Job' && at(each, 'metadata.name') === JOB,
    );
  const holderOf = (kind: 'ConfigMap' | 'Secret', ids: GameIds): Manifest => {
    const data = { 'reference.json.gz': gzipSync(largeReference(ids)).toString('base64') };
    const metadata = { name: `${kind.toLowerCase()}-${ids}`, namespace: NAMESPACE };
    return { apiVersion: 'v1', kind, metadata, [kind === 'Secret' ? 'data' : 'binaryData']: data };
  };

  withServer('is accepted gzipped in a ConfigMap and a Secret, unless its ids are random', async () => {
    for (const kind of ['ConfigMap', 'Secret'] as const) {
      await apply(holderOf(kind, 'counted'));
      const { status, body } = await server.apply(holderOf(kind, 'random'));
      expect([kind, status, at(body, 'message')]).toEqual([
        kind,
        422,
        expect.stringMatching(/Too long: .*1048576/),
      ]);
    }
  });

  withServer('of any size is accepted in a volume', async () => {
    const jobs = jobsOf(
      'reference.existing.volume.persistentVolumeClaim.claimName=games,reference.existing.key=acme/reference.json.gz',
    );
    expect(jobs).toHaveLength(1);
    for (const job of jobs) await apply(job);
  });
});

withServer('impossible objects are refused', async () => {
  const worker = (set: string): Manifest => {
    const found = manifestsOf([...MINIMAL, '--set', `fullnameOverride=other,${set}`]).find(
      ({ kind }) => kind === 'Deployment',
    );
    if (found === undefined) throw new Error('there is no Deployment');
    return found;
  };
  const refusals: readonly [string, RegExp][] = [
    ['worker.resources.requests.memory=1Gi', /must be less than or equal to memory limit/],
    ['worker.strategy.rollingUpdate.maxSurge=0', /may not be 0 when `maxSurge` is 0/],
    ['worker.strategy.rollingUpdat.maxSurge=0', /field not declared in schema/],
    ['pod.securityContext.runAsUser=-1', /must be between 0 and/],
  ];
  for (const [set, message] of refusals) {
    const { status, body } = await server.apply(worker(set));
    expect([set, status >= 400, at(body, 'message')]).toEqual([set, true, expect.stringMatching(message)]);
  }
  const { warnings } = await server.apply(worker('pod.securityContext.runAsNonRoot=false'));
  expect(warnings.join()).toMatch(/violate PodSecurity .*runAsNonRoot != true/);
});

withServer(
  'Helm installs, upgrades and rolls back, and a pod changes only where its own values do',
  async () => {
    const helm = (...args: string[]) => {
      // Without jobs: nothing runs them here.
      const { status, output } = runTool('helm', [
        ...args,
        '--namespace',
        NAMESPACE,
        '--no-hooks',
        '--kubeconfig',
        server.kubeconfig(),
      ]);
      expect([args[0], status === 0 ? 'done' : output]).toEqual([args[0], 'done']);
      return output;
    };
    const deployment = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'cycle-promo-intake-worker', namespace: NAMESPACE },
    };
    const worker = async () => (await server.get(deployment)).body;
    const pods = async () => at(await worker(), 'spec.template');

    expect(helm('install', 'cycle', CHART, ...MINIMAL)).toContain('helm -n games test cycle');
    const installed = await pods();
    helm(
      'upgrade',
      'cycle',
      CHART,
      ...MINIMAL,
      '--set',
      'worker.replicas=5,metrics.monitor=PodMonitor,networkPolicy.from[0].namespaceSelector.matchLabels.name=monitoring',
    );
    expect(at(await worker(), 'spec.replicas')).toBe(5);
    expect(await pods()).toEqual(installed);
    helm('upgrade', 'cycle', CHART, ...MINIMAL, '--set', 'settings.LOG_LEVEL=debug');
    const [container] = listAt(await pods(), 'spec.containers');
    expect(listAt(container, 'env')).toContainEqual({ name: 'LOG_LEVEL', value: 'debug' });
    helm('rollback', 'cycle', '1');
    expect([at(await worker(), 'spec.replicas'), await pods()]).toEqual([2, installed]);
    helm('uninstall', 'cycle');
    expect((await server.get(deployment)).status).toBe(404);
  },
);
