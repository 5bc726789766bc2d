/** The Apicurio schema registry as a child process: in memory, with the interface of Confluent's registry. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Context, fetchByMaven, isCached } from './download';
import { chooseJava, describeJavas, findJavas, findOnPath, type Java } from './java';
import { LocalServer } from './local-server';
import { LOOPBACK, withFreePorts } from './ports';
import type { Environment, Missing, Started } from './types';

export const REGISTRY_VERSION = '3.3.3';
/** The path of the interface that clients of Confluent's registry understand. */
export const REGISTRY_PATH = '/apis/ccompat/v7';
export const REGISTRY_READY_LINE = /Listening on: http/;

const JAVA_VERSION = 21;
const REQUEST_DEADLINE_MS = 10_000;
const CACHE_NAME = `apicurio-registry-${REGISTRY_VERSION}`;

export function missingForRegistry(environment: Environment): Missing[] {
  const missing: Missing[] = [];
  const javas = findJavas(environment);
  if (chooseJava(javas, JAVA_VERSION) === undefined) {
    missing.push({
      server: 'registry',
      what: `The schema registry needs Java ${JAVA_VERSION} or newer: ${describeJavas(javas)}`,
      remedy: `install Java ${JAVA_VERSION} or newer (apt-get install openjdk-${JAVA_VERSION}-jre-headless where it is offered, else Eclipse Temurin), or set JAVA_HOME to it`,
    });
  }
  if (!isCached(CACHE_NAME) && findOnPath('mvn', environment) === undefined) {
    missing.push({
      server: 'registry',
      what: 'The schema registry is fetched by Maven, and there is no mvn on the PATH',
      remedy: 'apt-get install maven',
    });
  }
  return missing;
}

export async function connectToRegistry(url: string): Promise<void> {
  const response = await fetch(`${url}/subjects`, { signal: AbortSignal.timeout(REQUEST_DEADLINE_MS) });
  await response.arrayBuffer();
  if (!response.ok) {
    throw new Error(`GET ${url}/subjects answered ${response.status}`);
  }
}

/**
 * Fetches its program once, and finds a Java that runs it.
 *
 * @throws if there is none
 */
export async function fetchRegistry(context: Context): Promise<{ java: Java; program: string }> {
  const java = chooseJava(findJavas(context.environment), JAVA_VERSION);
  if (java === undefined) {
    throw new Error(`The schema registry needs Java ${JAVA_VERSION} or newer`);
  }
  const properties = { 'registry.version': REGISTRY_VERSION };
  return { java, program: await fetchByMaven(context, CACHE_NAME, 'registry', properties, java) };
}

export async function startRegistry(context: Context): Promise<Started> {
  const { supervisor, environment, log } = context;
  const { java, program } = await fetchRegistry(context);
  supervisor.refuseWhenStopping();

  const directory = join(supervisor.directory.path, 'registry');
  mkdirSync(directory, { recursive: true });
  return withFreePorts(2, async ([port, managementPort]) => {
    const url = `http://${LOOPBACK}:${port}${REGISTRY_PATH}`;
    const server = new LocalServer(
      supervisor,
      {
        name: `registry ${REGISTRY_VERSION}`,
        file: java.executable,
        args: [
          '-Xmx256m',
          '-XX:+UseSerialGC',
          '-XX:TieredStopAtLevel=1',
          '-XX:-UsePerfData',
          `-Djava.io.tmpdir=${directory}`,
          `-Dquarkus.http.host=${LOOPBACK}`,
          `-Dquarkus.http.port=${port}`,
          // Its health and metrics; they would be open to the network on port 9000.
          `-Dquarkus.management.host=${LOOPBACK}`,
          `-Dquarkus.management.port=${managementPort}`,
          '-jar',
          join(program, 'quarkus-run.jar'),
        ],
        directory,
        environment: { PATH: environment.PATH, LANG: 'C.UTF-8', APICURIO_STORAGE_KIND: 'sql' },
        logFile: join(supervisor.directory.path, 'registry.log'),
        stopSignal: 'SIGTERM',
      },
      { line: REGISTRY_READY_LINE, connect: () => connectToRegistry(url) },
      log,
    );
    await server.start();
    return { server, address: url };
  });
}
