/** Finds a container engine by way of testcontainers, without waiting where there is none. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { ContainerRuntimeClient } from 'testcontainers';
import { until, within } from './deadline';
import { type Environment, type Log, messageOf } from './types';

/** On every container of ours; its value is the name of the stack's directory. */
export const STACK_LABEL = 'promo-intake.stack';

const ANSWER_DEADLINE_MS = 5_000;
const REMOVE_DEADLINE_MS = 30_000;

export type Testcontainers = typeof import('testcontainers');

export interface Engine {
  testcontainers: Testcontainers;
  client: ContainerRuntimeClient;
}

/** The places where testcontainers looks. Loading it takes most of a second, which is saved where none of them exists. */
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

/** Not at the top of the file: on Node 20 it cannot be loaded at all (its undici needs the zstd of newer versions). */
async function load(): Promise<Testcontainers> {
  try {
    return await import('testcontainers');
  } catch (error) {
    throw new Error(`testcontainers does not load on Node ${process.version}; it needs a newer one`, {
      cause: error,
    });
  }
}

/** Throws with the reason if no engine answers. */
export async function connectToEngine(environment: Environment): Promise<Engine> {
  if (!engineIsConceivable(environment)) {
    throw new Error('no container engine was found; DOCKER_HOST can name its address');
  }
  const testcontainers = await load();
  const client = await within(
    'answer of the container engine',
    ANSWER_DEADLINE_MS,
    testcontainers.getContainerRuntimeClient(),
  );
  return { testcontainers, client };
}

/** Undefined if no engine answers, with the reason in the log where one could have been expected. */
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
    // What somebody else is removing at the same time fails here, and is gone when it is looked for again.
    await Promise.allSettled(
      containers.map(({ Id }) => dockerode.getContainer(Id).remove({ force: true, v: true })),
    );
    return containers.length === 0;
  });
  await within(what, REMOVE_DEADLINE_MS, removeAll);
}
