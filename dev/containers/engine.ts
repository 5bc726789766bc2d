/** The container engine that answers, or one that is started for the purpose, and is gone with it. */
import { dirname, join } from 'node:path';
import { cacheOf } from '../chart/tools';
import { Child } from '../servers/child';
import { until } from '../servers/deadline';
import { projectRoot } from '../servers/download';
import { findOnPath } from '../servers/java';
import type { Environment, Log } from '../servers/types';
import { type Need, program, withSystem } from './debian';
import { must, run } from './run';

const ANSWER_DEADLINE_MS = 5_000;
const START_DEADLINE_MS = 30_000;
export const BUILD_DEADLINE_MS = 600_000;

/** Requirements for starting an engine, and for making stand-ins of images. */
export const ENGINE_NEEDS: readonly Need[] = [
  program('dockerd', 'docker.io'),
  program('debootstrap', 'debootstrap'),
];
/** Requirements for containers with addresses of their own. */
export const BRIDGE_NEEDS: readonly Need[] = [program('iptables', 'iptables'), program('ip', 'iproute2')];

/** Leaves the network of the machine as it is: containers have that network, or none. */
const WITHOUT_BRIDGE = [
  ...['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'],
];

/** A container engine, by its command line. */
export interface ImageEngine {
  readonly cli: string;
  readonly environment: Environment;
  /**
   * Whether it was started here: then builds share the machine's network, since the engine has none of its
   * own.
   */
  readonly isOwn: boolean;
  stop(): Promise<void>;
}

/** The engine that answers; undefined if none does. */
export async function findImageEngine(environment: Environment): Promise<ImageEngine | undefined> {
  const cli = findOnPath('docker', environment) ?? findOnPath('podman', environment);
  if (cli === undefined) return undefined;
  const { code } = await run(cli, ['version'], { deadlineMs: ANSWER_DEADLINE_MS, environment });
  return code === 0 ? { cli, environment, isOwn: false, stop: async () => {} } : undefined;
}

/**
 * Starts an engine. Its images stay in the cache.
 *
 * @param hasNetwork whether its network is its own: then it makes a bridge there
 * @throws if it does not start, with the end of its log
 */
export async function startImageEngine(
  directory: string,
  environment: Environment,
  hasNetwork = false,
): Promise<ImageEngine> {
  const inSystem = withSystem(environment);
  const file = findOnPath('dockerd', inSystem) ?? 'dockerd';
  const socket = `unix://${join(directory, 'docker.sock')}`;
  const engine = new Child(
    {
      name: 'dockerd',
      file,
      directory,
      environment: inSystem,
      args: [
        ...['--data-root', join(dirname(cacheOf('cluster', environment)), 'engine'), '--host', socket],
        ...['--exec-root', join(directory, 'engine'), '--pidfile', join(directory, 'docker.pid')],
        ...(hasNetwork ? [] : WITHOUT_BRIDGE),
      ],
      logFile: join(directory, 'dockerd.log'),
      stopSignal: 'SIGTERM',
    },
    () => {},
  );
  // The client beside its server: a client from another installation may require plugins.
  const besides = {
    ...inSystem,
    PATH: `/usr/bin:${inSystem.PATH}`,
    DOCKER_HOST: socket,
    DOCKER_BUILDKIT: '1',
  };
  const cli = findOnPath('docker', besides) ?? 'docker';
  await until('dockerd answers', START_DEADLINE_MS, async () => {
    if (engine.endedBy !== undefined) throw engine.failure(`ended while starting (${engine.endedBy})`);
    return (await run(cli, ['version'], { deadlineMs: ANSWER_DEADLINE_MS, environment: besides })).code === 0;
  });
  return { cli, environment: besides, isOwn: true, stop: () => engine.stop() };
}

/**
 * Runs a command of the engine.
 *
 * @returns its output
 */
export function docker(
  { cli, environment }: ImageEngine,
  args: readonly string[],
  input = '',
): Promise<string> {
  return must(cli, args, { deadlineMs: BUILD_DEADLINE_MS, environment, input });
}

export async function hasImage({ cli, environment }: ImageEngine, name: string): Promise<boolean> {
  const { code } = await run(cli, ['image', 'inspect', name], {
    deadlineMs: ANSWER_DEADLINE_MS,
    environment,
  });
  return code === 0;
}

/** Arguments that let a build fetch packages. */
export const networkOf = ({ isOwn }: ImageEngine): string[] => (isOwn ? ['--network', 'host'] : []);

/** The base images of the product's image. */
export interface BaseImages {
  readonly node: string;
  readonly runtime: string;
}

/** Builds the product's image by its Dockerfile. @param target a stage of it; the last one by default */
export async function buildImage(
  engine: ImageEngine,
  name: string,
  { node, runtime }: BaseImages,
  log: Log,
  target?: 'try',
): Promise<void> {
  const began = performance.now();
  const made = `--build-arg NODE_IMAGE=${node} --build-arg RUNTIME_IMAGE=${runtime}`;
  await must(
    'make',
    [
      ...['--no-print-directory', 'image', `IMAGE=${name}`],
      ...(target === undefined ? [] : [`TARGET=${target}`]),
      `BUILD_OPTIONS=${[made, ...networkOf(engine)].join(' ')}`,
    ],
    { deadlineMs: BUILD_DEADLINE_MS, environment: engine.environment, directory: projectRoot },
  );
  log(`the image ${name} is built (${secondsSince(began)})`);
}

/** For a log line with a duration. */
export const secondsSince = (began: number): string => `${((performance.now() - began) / 1000).toFixed(1)} s`;
