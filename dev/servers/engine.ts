/** Finds a container engine by way of testcontainers, without waiting where there is none. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { ContainerRuntimeClient } from 'testcontainers';
import { within } from './deadline';
import type { Environment, Log } from './types';

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
function engineIsConceivable(environment: Environment): boolean {
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
    throw new Error(`testcontainers does not load on Node ${process.version}`, { cause: error });
  }
}

/** Undefined, with the reason in the log, if no engine answers. */
export async function findEngine(environment: Environment, log: Log): Promise<Engine | undefined> {
  if (!engineIsConceivable(environment)) {
    return undefined;
  }
  try {
    const testcontainers = await load();
    const client = await within(
      'answer of the container engine',
      ANSWER_DEADLINE_MS,
      testcontainers.getContainerRuntimeClient(),
    );
    return { testcontainers, client };
  } catch (error) {
    log(`no container engine: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** Removes every container of a stack, running or not, with its volumes. */
export async function removeContainers({ client }: Engine, stack: string): Promise<void> {
  const { dockerode } = client.container;
  const filters = { label: [`${STACK_LABEL}=${stack}`] };
  const work = async (): Promise<void> => {
    const containers = await dockerode.listContainers({ all: true, filters });
    await Promise.all(
      containers.map(({ Id }) => dockerode.getContainer(Id).remove({ force: true, v: true })),
    );
  };
  await within(`removal of the containers of ${stack}`, REMOVE_DEADLINE_MS, work());
}
