/** Finds a container engine through testcontainers, without waiting if there is none. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { ContainerRuntimeClient } from 'testcontainers';
import { until, within } from './deadline';
import { type Environment, type Log, messageOf } from './types';

/** Label of each container of ours; its value is the name of the stack's directory. */
export const STACK_LABEL = 'promo-intake.stack';

const ANSWER_DEADLINE_MS = 5_000;
const REMOVE_DEADLINE_MS = 30_000;

export type Testcontainers = typeof import('testcontainers');

export interface Engine {
  testcontainers: Testcontainers;
  client: ContainerRuntimeClient;
}

/**
 * Whether any place exists in which testcontainers looks. Loading it takes most of a second, which this check
 * saves.
 */
export function engineIsConceivable(environment: Environment): boolean {
  const runtimeDirectory = environment.XDG_RUNTIME_DIR;
  return (
    Boolean(environment.DOCKER_HOST) ||
    [
      join(homedir(), '.testcontainers.properties'),
      '/var/run/docker.sock',
      join(homedir(), '.docker', 'run', 'docker.sock'),
      join(homedir(), '.docker', 'desktop', 'docker.sock'),
      `/run/user/${process.getuid?.()}/docker.sock`,
      ...(runtimeDirectory ? [join(runtimeDirectory, 'docker.sock')] : []),
    ].some((path) => existsSync(path))
  );
}

/**
 * Connects to the engine.
 *
 * @throws with the reason if no engine answers
 */
export async function connectToEngine(environment: Environment): Promise<Engine> {
  if (!engineIsConceivable(environment)) {
    throw new Error('no container engine was found; DOCKER_HOST can name its address');
  }
  const testcontainers = await import('testcontainers');
  const client = await within(
    'answer of the container engine',
    ANSWER_DEADLINE_MS,
    testcontainers.getContainerRuntimeClient(),
  );
  return { testcontainers, client };
}

/** Undefined if no engine answers. The reason is logged if an engine could be expected. */
export async function findEngine(environment: Environment, log: Log): Promise<Engine | undefined> {
  if (!engineIsConceivable(environment)) {
    return undefined;
  }
  try {
    return await connectToEngine(environment);
  } catch (error) {
    log(`no containers: ${messageOf(error)}`);
    return undefined;
  }
}

/** Removes every container of a stack, running or not, with its volumes. */
export async function removeContainers({ client }: Engine, stack: string): Promise<void> {
  const { dockerode } = client.container;
  const filters = { label: [`${STACK_LABEL}=${stack}`] };
  const what = `removal of the containers of ${stack}`;
  const removeAll = until(what, REMOVE_DEADLINE_MS, async () => {
    const containers = await dockerode.listContainers({ all: true, filters });
    // A removal fails if another program is removing the same container. The next look finds it gone.
    await Promise.allSettled(
      containers.map(({ Id }) => dockerode.getContainer(Id).remove({ force: true, v: true })),
    );
    return containers.length === 0;
  });
  await within(what, REMOVE_DEADLINE_MS, removeAll);
}
