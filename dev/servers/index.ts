/**
 * Real servers for development and tests: Kafka, Postgres and a schema registry. The origin of each is chosen
 * in this order: an address in the environment, a container if an engine answers, a child process.
 * STACK=containers and STACK=processes force the latter two.
 */
import { makeRecipe, provideImage, startContainer } from './containers';
import type { Context } from './download';
import { connectToEngine, type Engine, engineIsConceivable, removeContainers } from './engine';
import { DEFAULT_KAFKA_VERSION, missingForKafka, startKafka } from './kafka';
import { startPostgres } from './postgres';
import { DEFAULT_POSTGRES_VERSION, missingForPostgres } from './postgres-programs';
import { missingForRegistry, startRegistry } from './registry';
import { reapLeftovers } from './stack-directory';
import { Supervisor, unlessSignalled } from './supervisor';
import {
  type Environment,
  type Log,
  type Missing,
  MissingRequirementsError,
  messageOf,
  type Origin,
  type ServerName,
  type Servers,
  type Started,
  type StartOptions,
} from './types';

export * from './types';

/** The variable of each address: read here, and passed to child processes. */
export const ADDRESS_VARIABLES = {
  kafka: 'KAFKA_BROKERS',
  postgres: 'DATABASE_URL',
  registry: 'SCHEMA_REGISTRY_URL',
} as const satisfies Record<ServerName, string>;

interface Plan {
  options: StartOptions;
  environment: Environment;
  log: Log;
  versions: { kafka: string; postgres: string };
  addresses: Partial<Record<ServerName, string>>;
  /** Servers that have to be started. */
  own: ServerName[];
  engine: Engine | undefined;
}

/** Containers were tried without success. Another attempt would take as long again. */
let containersFailed = false;

/**
 * An engine that has no images and cannot pull them counts as no engine, unless STACK asks for containers.
 */
async function chooseEngine(plan: Omit<Plan, 'engine'>): Promise<Engine | undefined> {
  const { environment, log, own, versions } = plan;
  const choice = environment.STACK || undefined;
  if (choice !== undefined && choice !== 'containers' && choice !== 'processes') {
    throw new Error(`STACK=${choice} is not supported: containers or processes`);
  }
  if (choice === 'processes' || own.length === 0) {
    return undefined;
  }
  if (choice === undefined && (containersFailed || !engineIsConceivable(environment))) {
    return undefined;
  }
  try {
    const engine = await connectToEngine(environment);
    // One after another: the first image that cannot be had decides, and no pull continues after it.
    for (const name of own) {
      await provideImage(engine, makeRecipe(name, versions, environment), log);
    }
    return engine;
  } catch (error) {
    if (choice === 'containers') {
      throw new Error(`STACK=containers: ${messageOf(error)}`, { cause: error });
    }
    containersFailed = true;
    log(`no containers: ${messageOf(error)}; using processes`);
    return undefined;
  }
}

async function makePlan(options: StartOptions): Promise<Plan> {
  const environment = options.environment ?? process.env;
  const names = [...new Set(options.need)];
  const addresses: Plan['addresses'] = {};
  for (const name of names) {
    const address = environment[ADDRESS_VARIABLES[name]]?.trim();
    if (address) {
      addresses[name] = address;
    }
  }
  const plan = {
    options,
    environment,
    log: options.log ?? (() => {}),
    versions: {
      kafka: options.kafkaVersion ?? DEFAULT_KAFKA_VERSION,
      postgres: options.postgresVersion ?? DEFAULT_POSTGRES_VERSION,
    },
    addresses,
    own: names.filter((name) => addresses[name] === undefined),
  };
  return { ...plan, engine: await chooseEngine(plan) };
}

function missingFor(name: ServerName, { versions, environment }: Plan): Missing[] {
  switch (name) {
    case 'kafka':
      return missingForKafka(versions.kafka, environment);
    case 'postgres':
      return missingForPostgres(versions.postgres, environment);
    case 'registry':
      return missingForRegistry(environment);
  }
}

function findMissing(plan: Plan): Missing[] {
  return plan.engine === undefined ? plan.own.flatMap((name) => missingFor(name, plan)) : [];
}

/** The requirements of `startServers` that this machine lacks; nothing is started. */
export async function missingRequirements(options: StartOptions): Promise<Missing[]> {
  return findMissing(await unlessSignalled(makePlan(options)));
}

function startOne(name: ServerName, plan: Plan, supervisor: Supervisor): Promise<Started> {
  const { engine, environment, log, options, versions } = plan;
  if (engine !== undefined) {
    if (options.kafkaExtras ?? options.postgresExtras) throw new Error('extras are for STACK=processes');
    const recipe = makeRecipe(name, versions, environment, options.withoutFsync);
    return startContainer({ engine, supervisor, log }, recipe);
  }
  const context: Context = { supervisor, environment, log };
  switch (name) {
    case 'kafka':
      return startKafka(context, versions.kafka, options);
    case 'postgres':
      return startPostgres(context, versions.postgres, options);
    case 'registry':
      return startRegistry(context);
  }
}

function present(
  plan: Plan,
  started: Partial<Record<ServerName, Started>>,
  stop: () => Promise<void>,
): Servers {
  const addressOf = (name: ServerName): string | undefined => plan.addresses[name] ?? started[name]?.address;
  const neededAddressOf = (name: ServerName): string => {
    const address = addressOf(name);
    if (address === undefined) {
      throw new Error(`startServers was not asked for ${name}`);
    }
    return address;
  };
  const ownOrigin: Origin = plan.engine === undefined ? 'processes' : 'containers';
  return {
    origin: Object.fromEntries(
      plan.options.need.map((name) => [name, plan.own.includes(name) ? ownOrigin : 'environment']),
    ),
    get kafkaBrokers() {
      return neededAddressOf('kafka');
    },
    get databaseUrl() {
      return neededAddressOf('postgres');
    },
    schemaRegistryUrl: addressOf('registry'),
    kafkaListeners: started.kafka?.listeners ?? {},
    kafka: started.kafka?.server,
    postgres: started.postgres?.server,
    registry: started.registry?.server,
    stop,
  };
}

export async function startServers(options: StartOptions): Promise<Servers> {
  const plan = await unlessSignalled(makePlan(options));
  const { engine, environment, log, own } = plan;
  if (own.length === 0) {
    return present(plan, {}, async () => {});
  }
  await unlessSignalled(
    reapLeftovers(log, async (stack) => {
      await removeContainers(engine ?? (await connectToEngine(environment)), stack);
    }),
  );
  const missing = findMissing(plan);
  if (missing.length > 0) {
    throw new MissingRequirementsError(missing);
  }
  const supervisor = new Supervisor(log, options.exitAfterSignal ?? true, options.withoutFsync !== true);
  if (engine !== undefined) {
    supervisor.directory.noteContainers();
    supervisor.onStop(() => removeContainers(engine, supervisor.directory.name));
  }
  try {
    const started: Partial<Record<ServerName, Started>> = {};
    await Promise.all(
      own.map(async (name) => {
        started[name] = await supervisor.during(() => startOne(name, plan, supervisor));
      }),
    );
    supervisor.refuseWhenStopping();
    return present(plan, started, () => supervisor.stop());
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
}
