/** The same servers as containers of the official images. */
import { randomBytes } from 'node:crypto';
import { until, within } from './deadline';
import { type Engine, STACK_LABEL } from './engine';
import { BROKER_SETTINGS, connectToKafka } from './kafka';
import { withFreePorts } from './ports';
import { connectToPostgres, POSTGRES_DATABASE, POSTGRES_SETTINGS, POSTGRES_USER } from './postgres';
import { connectToRegistry, REGISTRY_PATH, REGISTRY_READY_LINE, REGISTRY_VERSION } from './registry';
import type { Supervisor } from './supervisor';
import type { Environment, Log, Server, ServerName, Started } from './types';

const PULL_DEADLINE_MS = 10 * 60_000;
const READY_DEADLINE_MS = 120_000;
const STOP_SECONDS = 15;
const KILL_DEADLINE_MS = 15_000;

interface Recipe {
  name: ServerName;
  image: string;
  /** The port inside the container. */
  port: number;
  environment: (address: string) => Readonly<Record<string, string>>;
  command?: readonly string[];
  readyLine: RegExp;
  /** How often that line comes before it is ready. */
  readyTimes?: number;
  connect: (address: string) => Promise<void>;
  url: (address: string) => string;
}

export interface ContainerContext {
  engine: Engine;
  supervisor: Supervisor;
  log: Log;
}

/** KAFKA_ and the name of the setting: that is how both apache/kafka and confluentinc/cp-kafka take their settings. */
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
      CLUSTER_ID: randomBytes(16).toString('base64url'),
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://${address},BROKER://localhost:9093`,
    }),
    readyLine: /Kafka Server started/,
    connect: connectToKafka,
    url: (address) => address,
  };
}

function postgresRecipe(version: string, environment: Environment): Recipe {
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
      ...Object.entries(POSTGRES_SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    // The image starts a first, private server to set things up.
    readyLine: /database system is ready to accept connections/,
    readyTimes: 2,
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
    readyLine: REGISTRY_READY_LINE,
    connect: (address) => connectToRegistry(url(address)),
    url,
  };
}

export function makeRecipe(
  name: ServerName,
  versions: { kafka: string; postgres: string },
  environment: Environment,
): Recipe {
  switch (name) {
    case 'kafka':
      return kafkaRecipe(versions.kafka, environment);
    case 'postgres':
      return postgresRecipe(versions.postgres, environment);
    case 'registry':
      return registryRecipe(environment);
  }
}

/** Throws if the image is not there and cannot be pulled. */
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
  await within(`pull of ${image}`, PULL_DEADLINE_MS, client.image.pull(name));
  // The client takes a pull that failed half-way for a success.
  if (!(await client.image.exists(name))) {
    throw new Error(`${image} could not be pulled`);
  }
}

class ContainerServer implements Server {
  private readonly container: ReturnType<Engine['client']['container']['getById']>;

  constructor(
    private readonly context: ContainerContext,
    id: string,
    private readonly recipe: Recipe,
    private readonly address: string,
  ) {
    this.container = context.engine.client.container.getById(id);
  }

  async start(): Promise<void> {
    this.context.supervisor.refuseWhenStopping();
    await this.container.start();
    await until(`first connection to ${this.recipe.name}`, READY_DEADLINE_MS, () =>
      this.recipe.connect(this.address).then(
        () => true,
        () => false,
      ),
    );
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
  const { GenericContainer, Wait } = context.engine.testcontainers;
  const { host } = context.engine.client.info.containerRuntime;
  const begin = Date.now();
  // A port that the engine picks would be another one after a restart, and Kafka has to know its own address.
  return withFreePorts(1, async ([port]) => {
    const hostPort = port ?? 0;
    const address = `${host}:${hostPort}`;
    const container = new GenericContainer(recipe.image)
      .withLabels({ [STACK_LABEL]: context.supervisor.directory.name })
      .withEnvironment(recipe.environment(address))
      .withExposedPorts({ container: recipe.port, host: hostPort })
      .withWaitStrategy(Wait.forLogMessage(recipe.readyLine, recipe.readyTimes ?? 1))
      .withStartupTimeout(READY_DEADLINE_MS);
    if (recipe.command !== undefined) {
      container.withCommand([...recipe.command]);
    }
    const started = await container.start();
    await within(`first connection to ${recipe.name}`, READY_DEADLINE_MS, recipe.connect(address));
    context.log(`${recipe.image} is ready (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
    return {
      server: new ContainerServer(context, started.getId(), recipe, address),
      address: recipe.url(address),
    };
  });
}
