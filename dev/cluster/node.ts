/**
 * A Kubernetes of one or two nodes, made of its own real programs. They are API server with etcd,
 * controllers, scheduler, DNS, and for each node a kubelet and a containerd. It expects namespaces of its own
 * for network, mounts and processes, which dev/cluster.ts makes. So it changes nothing of the machine, and
 * everything is gone with its first process.
 */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { basename, join } from 'node:path';
import { ApiServer } from '../chart/api-server';
import { at, listAt } from '../chart/objects';
import { findTool, isToolName } from '../chart/tools';
import { withSystem } from '../containers/debian';
import { must } from '../containers/run';
import { Child } from '../servers/child';
import { until } from '../servers/deadline';
import { findOnPath } from '../servers/java';
import type { Log } from '../servers/types';
import { makeCgroup } from './cgroups';
import { findCni } from './requirements';

const COMMAND_DEADLINE_MS = 30_000;
const IMPORT_DEADLINE_MS = 300_000;
/** With this much free memory, the images of a node, some 1.5 GB, are held in memory. */
const ROOMY_BYTES = 8 * 1024 ** 3;
const READY_DEADLINE_MS = 120_000;
const CONTAINERD_DEADLINE_MS = 20_000;
/** Address of the DNS service for pods. Every node has it on its loopback device. */
const DNS_ADDRESS = '10.77.0.10';
const DNS_PORT = 53;
const FIRST_KUBELET_PORT = 10_250;
export const PAUSE_IMAGE = 'docker.io/library/promo-intake-cluster/pause:1';

export interface ClusterOptions {
  /** The place of all written files, on a file system that supports overlays. */
  readonly directory: string;
  /** The archive of `docker save`, for every node. */
  readonly archive: string;
  readonly nodes: readonly string[];
  readonly log: Log;
}

/** @returns the file for kubectl and Helm */
export async function startCluster({ directory, archive, nodes, log }: ClusterOptions): Promise<string> {
  await separate(directory);
  const server = new ApiServer([
    '--kubelet-preferred-address-types',
    'InternalIP',
    '--allow-privileged=false',
  ]);
  await server.start();
  const kubeconfig = join(directory, 'kubeconfig');
  copyFileSync(server.kubeconfig(), kubeconfig);
  log('the API server is ready');
  start(directory, 'kube-controller-manager', [
    ...['--kubeconfig', kubeconfig, '--leader-elect=false', '--secure-port', '0'],
    ...['--service-account-private-key-file', join(server.directory, 'key')],
  ]);
  start(directory, 'kube-scheduler', [
    '--kubeconfig',
    kubeconfig,
    '--leader-elect=false',
    '--secure-port',
    '0',
  ]);
  writeFileSync(join(directory, 'Corefile'), corefile(kubeconfig));
  start(directory, 'coredns', ['-conf', join(directory, 'Corefile')]);
  await Promise.all(
    nodes.map((name, index) => startNode({ directory, archive, name, index, kubeconfig, log })),
  );
  await until('every node is ready', READY_DEADLINE_MS, async () => {
    requireAll();
    const list: unknown = JSON.parse(
      await system('kubectl', ['--kubeconfig', kubeconfig, 'get', 'nodes', '-o', 'json']),
    );
    const ready = listAt(list, 'items').filter((node) =>
      listAt(node, 'status.conditions').some(
        (each) => at(each, 'type') === 'Ready' && at(each, 'status') === 'True',
      ),
    );
    return ready.length === nodes.length;
  });
  return kubeconfig;
}

/** The control group of a node's pods. */
export const cgroupOf = (directory: string, node: string): string => `${basename(directory)}-${node}`;

/** A kubelet would set these values for the whole machine. It finds them already set. */
const WANTED_OF_THE_KERNEL = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
};

/**
 * Keeps the programs from writing outside of `directory` and from changing settings of the machine's kernel.
 */
async function separate(directory: string): Promise<void> {
  const [upper, work] = ['var', 'var-work'].map((name) => join(directory, name));
  for (const each of [upper, work]) mkdirSync(`${each}`);
  await system('mount', ['--make-rprivate', '/']);
  await system('mount', [
    '-t',
    'overlay',
    'overlay',
    '-o',
    `lowerdir=/var,upperdir=${upper},workdir=${work}`,
    '/var',
  ]);
  await system('mount', ['-t', 'tmpfs', 'tmpfs', '/run']);
  for (const [name, value] of Object.entries(WANTED_OF_THE_KERNEL)) {
    const file = join(directory, name.replaceAll('/', '-'));
    writeFileSync(file, `${value}\n`);
    await system('mount', ['--bind', file, join('/proc/sys', name)]);
  }
  await system('ip', ['link', 'set', 'lo', 'up']);
  await system('ip', ['address', 'add', `${DNS_ADDRESS}/32`, 'dev', 'lo']);
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
}

interface NodeOptions extends Omit<ClusterOptions, 'nodes'> {
  readonly name: string;
  readonly index: number;
  readonly kubeconfig: string;
}

async function startNode({
  directory: parent,
  archive,
  name,
  index,
  kubeconfig,
  log,
}: NodeOptions): Promise<void> {
  const directory = join(parent, name);
  const file = (part: string): string => join(directory, part);
  for (const each of ['', 'cni', 'containerd', 'logs', 'kubelet']) mkdirSync(file(each));
  // Images alone: data of pods are on the disk, as on other nodes.
  if (freemem() > ROOMY_BYTES) await system('mount', ['-t', 'tmpfs', 'tmpfs', file('containerd')]);
  const address = `10.77.0.${index + 1}`;
  await system('ip', ['address', 'add', `${address}/32`, 'dev', 'lo']);
  makeCgroup(cgroupOf(parent, name));
  const socket = file('containerd.sock');
  writeFileSync(file('containerd.toml'), containerdConfig(directory, socket));
  writeFileSync(file('cni/pods.conflist'), JSON.stringify(podNetwork(directory, index)));
  writeFileSync(file('resolv.conf'), '');
  writeFileSync(
    file('kubelet.json'),
    JSON.stringify(kubeletConfig(file, `/${cgroupOf(parent, name)}`, FIRST_KUBELET_PORT + index, socket)),
  );
  start(directory, 'containerd', ['--config', file('containerd.toml')]);
  const ctr = (...args: string[]) =>
    must('ctr', ['--address', socket, '--namespace', 'k8s.io', ...args], { deadlineMs: IMPORT_DEADLINE_MS });
  await until(`containerd of ${name} answers`, CONTAINERD_DEADLINE_MS, () =>
    ctr('version').then(
      () => true,
      () => false,
    ),
  );
  const began = performance.now();
  await ctr('images', 'import', archive);
  log(`${name} has its images (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  start(directory, 'kubelet', [
    ...['--kubeconfig', kubeconfig, '--config', file('kubelet.json'), '--root-dir', file('kubelet')],
    ...[
      '--hostname-override',
      name,
      '--node-ip',
      address,
      '--node-labels',
      `topology.kubernetes.io/zone=${name}`,
    ],
  ]);
}

const corefile = (kubeconfig: string): string => `.:${DNS_PORT} {
  bind ${DNS_ADDRESS}
  errors
  kubernetes cluster.local {
    kubeconfig ${kubeconfig}
    ttl 1
  }
}
`;

/**
 * The kernel may forbid a container a lower score than its maker's, if the maker itself may not set a lower
 * one.
 */
const containerdConfig = (directory: string, socket: string): string => `version = 2
root = "${directory}/containerd"
state = "${directory}/state"
[grpc]
  address = "${socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${findCni()}"
    conf_dir = "${directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`;

const podNetwork = (directory: string, index: number) => ({
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: `pods${index}`,
      isGateway: true,
      ipam: {
        type: 'host-local',
        dataDir: join(directory, 'addresses'),
        ranges: [[{ subnet: `10.77.${index + 1}.0/24` }]],
        routes: [{ dst: '0.0.0.0/0' }],
      },
    },
  ],
});

const kubeletConfig = (file: (name: string) => string, cgroupRoot: string, port: number, socket: string) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  // It can be reached only from within the namespace.
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  port,
  healthzPort: 0,
  containerRuntimeEndpoint: `unix://${socket}`,
  cgroupDriver: 'cgroupfs',
  cgroupRoot,
  enforceNodeAllocatable: [],
  failCgroupV1: false,
  clusterDNS: [DNS_ADDRESS],
  clusterDomain: 'cluster.local',
  resolvConf: file('resolv.conf'),
  podLogsDir: file('logs'),
  volumePluginDir: file('plugins'),
  failSwapOn: false,
  localStorageCapacityIsolation: false,
  makeIPTablesUtilChains: false,
  oomScoreAdj: 0,
  // The disk is the machine's, and holds other data too.
  evictionHard: { 'memory.available': '64Mi' },
  imageGCHighThresholdPercent: 100,
});

/** The processes of this cluster; they end with the namespace. */
const children: Child[] = [];

function start(directory: string, name: string, args: readonly string[], file = pathOf(name)): void {
  children.push(
    new Child(
      {
        name,
        file,
        args,
        directory,
        environment: withSystem(process.env),
        logFile: join(directory, `${name}.log`),
        stopSignal: 'SIGTERM',
      },
      () => {},
    ),
  );
}

/** @throws if one of them has ended, with the end of its log */
function requireAll(): void {
  for (const child of children)
    if (child.endedBy !== undefined) throw child.failure(`ended (${child.endedBy})`);
}

function pathOf(name: string): string {
  if (!isToolName(name)) return findOnPath(name, withSystem(process.env)) ?? name;
  const found = findTool(name);
  if ('problem' in found) throw new Error(found.problem);
  return found.path;
}

const system = (file: string, args: readonly string[]): Promise<string> =>
  must(pathOf(file), args, { deadlineMs: COMMAND_DEADLINE_MS });
