/** The same servers as containers of the official images. */
import { randomBytes } from 'node:crypto';
import { CommandError } from './child';
import { until, within } from './deadline';
import { type Engine, STACK_LABEL } from './engine';
import { BROKER_HEAP, BROKER_SETTINGS, connectToKafka } from './kafka';
import { LOOPBACK, withFreePorts } from './ports';
import { connectToPostgres, POSTGRES_DATABASE, POSTGRES_USER, postgresSettings } from './postgres';
import { connectToRegistry, REGISTRY_PATH, REGISTRY_READY_LINE, REGISTRY_VERSION } from './registry';
import type { Supervisor } from './supervisor';
import { type Environment, type Log, messageOf, type Server, type ServerName, type Started } from './types';

const PULL_DEADLINE_MS = 10 * 60_000;
const READY_DEADLINE_MS = 120_000;
const CONNECT_DEADLINE_MS = 30_000;
const STOP_SECONDS = 15;
const KILL_DEADLINE_MS = 15_000;

type Container = ReturnType<Engine['client']['container']['getById']>;

interface Recipe {
  name: ServerName;
  image: string;
  /** The port inside the container. */
  port: number;
  environment: (address: string) => Readonly<Record<string, string>>;
  command?: readonly string[];
  /** A pattern that matches its log as soon as it serves. */
  readyLog: RegExp;
  connect: (address: string) => Promise<void>;
  url: (address: string) => string;
}

export interface ContainerContext {
  engine: Engine;
  supervisor: Supervisor;
  log: Log;
}

/** KAFKA_ and the name of the setting: both apache/kafka and confluentinc/cp-kafka read their settings so. */
const asVariable = (setting: string): string => `KAFKA_${setting.toUpperCase().replaceAll('.', '_')}`;

function kafkaRecipe(version: string, environment: Environment): Recipe {
  const settings: Record<string, string> = {
    ...BROKER_SETTINGS,
    listeners: 'PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'BROKER',
    'controller.quorum.voters': '1@localhost:9094',
  };
  const variables = Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [asVariable(name), value]),
  );
  return {
    name: 'kafka',
    image: environment.STACK_KAFKA_IMAGE || `apache/kafka:${version}`,
    port: 9092,
    environment: (address) => ({
      ...variables,
      KAFKA_HEAP_OPTS: `-Xmx${BROKER_HEAP}`,
      CLUSTER_ID: randomBytes(16).toString('base64url'),
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://${address},BROKER://localhost:9093`,
    }),
    readyLog: /Kafka Server started/,
    connect: (address) => connectToKafka(address, 0),
    url: (address) => address,
  };
}

function postgresRecipe(version: string, environment: Environment, withoutFsync: boolean): Recipe {
  const password = randomBytes(12).toString('hex');
  const serverUrl = (address: string): string => `postgres://${POSTGRES_USER}:${password}@${address}`;
  return {
    name: 'postgres',
    image: environment.STACK_POSTGRES_IMAGE || `postgres:${version}`,
    port: 5432,
    environment: () => ({
      POSTGRES_USER,
      POSTGRES_PASSWORD: password,
      POSTGRES_INITDB_ARGS: '--encoding=UTF8 --locale=C',
    }),
    command: [
      'postgres',
      ...Object.entries(postgresSettings(withoutFsync)).flatMap(([name, value]) => [
        '-c',
        `${name}=${value}`,
      ]),
    ],
    // The image first starts a private server for its set-up. That one is ready too, but does not listen.
    readyLog: /listening on IP.*database system is ready to accept connections/s,
    connect: (address) => connectToPostgres(serverUrl(address)),
    url: (address) => `${serverUrl(address)}/${POSTGRES_DATABASE}`,
  };
}

function registryRecipe(environment: Environment): Recipe {
  const url = (address: string): string => `http://${address}${REGISTRY_PATH}`;
  return {
    name: 'registry',
    image: environment.STACK_REGISTRY_IMAGE || `apicurio/apicurio-registry:${REGISTRY_VERSION}`,
    port: 8080,
    environment: () => ({ APICURIO_STORAGE_KIND: 'sql' }),
    readyLog: REGISTRY_READY_LINE,
    connect: (address) => connectToRegistry(url(address)),
    url,
  };
}

export function makeRecipe(
  name: ServerName,
  versions: { kafka: string; postgres: string },
  environment: Environment,
  withoutFsync = false,
): Recipe {
  switch (name) {
    case 'kafka':
      return kafkaRecipe(versions.kafka, environment);
    case 'postgres':
      return postgresRecipe(versions.postgres, environment, withoutFsync);
    case 'registry':
      return registryRecipe(environment);
  }
}

/**
 * Pulls the image unless it is there.
 *
 * @throws if it cannot be pulled
 */
export async function provideImage(
  { testcontainers, client }: Engine,
  { image }: Recipe,
  log: Log,
): Promise<void> {
  const name = testcontainers.ImageName.fromString(image);
  if (await client.image.exists(name)) {
    return;
  }
  log(`pulling ${image} …`);
  try {
    await within(`pull of ${image}`, PULL_DEADLINE_MS, client.image.pull(name));
  } catch (error) {
    throw new Error(`${image} could not be pulled: ${messageOf(error)}`, { cause: error });
  }
  // The client reports success even if a pull failed half-way.
  if (!(await client.image.exists(name))) {
    throw new Error(`${image} could not be pulled`);
  }
}

class ContainerServer implements Server {
  constructor(
    private readonly context: ContainerContext,
    private readonly container: Container,
    private readonly recipe: Recipe,
    private readonly address: string,
  ) {}

  async start(): Promise<void> {
    const { supervisor, log } = this.context;
    const { name, image, connect } = this.recipe;
    supervisor.refuseWhenStopping();
    const begin = Date.now();
    try {
      // Not from its start: the first lines of a server may be older than the engine's record of its start.
      const { FinishedAt } = (await this.container.inspect()).State;
      await this.container.start();
      await this.untilLogged(Math.max(0, Date.parse(FinishedAt)));
      // An engine in a virtual machine may open the port later than the server does.
      await until(`first connection to ${name} at ${this.address}`, CONNECT_DEADLINE_MS, () => {
        supervisor.refuseWhenStopping();
        return connect(this.address).then(
          () => true,
          () => false,
        );
      });
    } catch (error) {
      supervisor.refuseWhenStopping();
      throw error;
    }
    log(`${image} is ready (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  }

  async stop(): Promise<void> {
    await this.ifRunning(() => this.container.stop({ t: STOP_SECONDS }));
  }

  async kill(): Promise<void> {
    const { name } = this.recipe;
    await this.ifRunning(() => this.container.kill());
    await within(`${name} ends after SIGKILL`, KILL_DEADLINE_MS, this.container.wait());
  }

  async suspend(): Promise<void> {
    await this.container.pause();
  }

  async resume(): Promise<void> {
    await this.container.unpause();
  }

  /**
   * Follows the log of this start.
   *
   * @param sinceMs when it ended before, by the engine's clock; milliseconds since 1970
   * @throws with the last lines of the log if the server does not get ready
   */
  private async untilLogged(sinceMs: number): Promise<void> {
    const { name, readyLog } = this.recipe;
    const logs = () => this.context.engine.client.container.logs(this.container, { since: sinceMs / 1000 });
    const stream = await logs();
    let output = '';
    const read = async (): Promise<void> => {
      for await (const text of stream) {
        output += text;
        if (readyLog.test(output)) {
          return;
        }
      }
      // If the server ended at once, the engine may not have written the whole log by then.
      const { StatusCode } = await this.container.wait();
      output = '';
      for await (const text of await logs()) output += text;
      throw new Error(`ended while starting (exit code ${StatusCode})`);
    };
    try {
      await within(`it logs ${readyLog}`, READY_DEADLINE_MS, read());
    } catch (error) {
      throw new CommandError(`${name}: ${messageOf(error)}`, output, 'its log');
    } finally {
      stream.destroy();
    }
  }

  private async ifRunning(action: () => Promise<unknown>): Promise<void> {
    const { State } = await this.container.inspect();
    if (State.Paused) {
      await this.container.unpause();
    }
    if (State.Running) {
      await action();
    }
  }
}

export async function startContainer(context: ContainerContext, recipe: Recipe): Promise<Started> {
  const { client, testcontainers } = context.engine;
  const { host } = client.info.containerRuntime;
  const isOnThisMachine = host === 'localhost';
  // A port that the engine picks would change after a restart, and Kafka has to know its own address.
  return withFreePorts(1, async ([port]) => {
    const address = `${isOnThisMachine ? LOOPBACK : host}:${port}`;
    const containerPort = `${recipe.port}/tcp`;
    const binding = { HostPort: String(port), ...(isOnThisMachine && { HostIp: LOOPBACK }) };
    // No GenericContainer: it is open to the network, and hides the log of a server that does not start. It
    // also needs one more image, for a container that cleans up; here the label serves for that.
    const container = await client.container.create({
      Image: testcontainers.ImageName.fromString(recipe.image).string,
      Labels: { [STACK_LABEL]: context.supervisor.directory.name },
      Env: Object.entries(recipe.environment(address)).map((pair) => pair.join('=')),
      ...(recipe.command && { Cmd: [...recipe.command] }),
      ExposedPorts: { [containerPort]: {} },
      HostConfig: { PortBindings: { [containerPort]: [binding] } },
    });
    const server = new ContainerServer(context, container, recipe, address);
    await server.start();
    return { server, address: recipe.url(address) };
  });
}
