/** Container engines for tests: the engine of this machine, and one without images or a registry. */
import { createServer } from 'node:http';
import { join } from 'node:path';
import { makeRecipe } from '../../dev/servers/containers';
import { type Engine, engineIsConceivable, findEngine, STACK_LABEL } from '../../dev/servers/engine';
import { DEFAULT_KAFKA_VERSION } from '../../dev/servers/kafka';
import { DEFAULT_POSTGRES_VERSION } from '../../dev/servers/postgres-programs';
import type { Problem } from '../support/needed';
import { runProgramNow } from '../support/program';

const VERSIONS = { kafka: DEFAULT_KAFKA_VERSION, postgres: DEFAULT_POSTGRES_VERSION };

const NOWHERE = 'there is no socket of a container engine';

/** The engine of this machine if it has every image, or else the reason to skip the tests. */
export async function engineWithImages(): Promise<Engine | Problem> {
  let problem = NOWHERE;
  const engine = await findEngine(process.env, (line) => {
    problem = line;
  });
  if (engine === undefined) {
    return { problem };
  }
  const { testcontainers, client } = engine;
  for (const name of ['kafka', 'postgres', 'registry'] as const) {
    const { image } = makeRecipe(name, VERSIONS, process.env);
    // Not pulled here: a pull takes longer than all tests together.
    if (!(await client.image.exists(testcontainers.ImageName.fromString(image)))) {
      return { problem: `the container engine does not have ${image}` };
    }
  }
  return engine;
}

/** Whether there is an engine. Synchronous, because the titles of tests depend on it. */
export function findEngineWithImages(): Problem | Record<never, never> {
  if (!engineIsConceivable(process.env)) return { problem: NOWHERE };
  const problem = runProgramNow(join(__dirname, 'engine-program.ts'));
  return problem === '' ? {} : { problem };
}

export async function containersOf({ client }: Engine, stack: string): Promise<string[]> {
  const filters = { label: [`${STACK_LABEL}=${stack}`] };
  const containers = await client.container.dockerode.listContainers({ all: true, filters });
  return containers.map(({ Id }) => Id);
}

export interface EngineWithoutImages {
  /** For DOCKER_HOST. */
  address: string;
  pulls: () => number;
  close(): Promise<void>;
}

/** @param pull whether a pull fails at once, or hangs */
export async function engineWithoutImages(
  directory: string,
  pull: 'fails' | 'hangs',
): Promise<EngineWithoutImages> {
  let pulls = 0;
  const server = createServer(({ url = '' }, response) => {
    const answer = (code: number, body: object): void => {
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (url.startsWith('/info')) {
      answer(200, { ServerVersion: '1', OSType: 'linux', OperatingSystem: 'none', Architecture: 'none' });
    } else if (url.startsWith('/networks/')) {
      // Requested if the tests themselves run in a container.
      answer(200, { IPAM: { Config: [{ Gateway: '127.0.0.1' }] } });
    } else if (!url.startsWith('/images/create')) {
      answer(404, { message: 'No such image' });
    } else {
      pulls++;
      if (pull === 'fails') {
        answer(500, { message: 'the registry cannot be reached' });
      }
    }
  });
  const socket = join(directory, 'engine.sock');
  await new Promise<void>((resolve) => {
    server.listen(socket, resolve);
  });
  return {
    address: `unix://${socket}`,
    pulls: () => pulls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
