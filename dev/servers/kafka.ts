/** Apache Kafka as a child process: one KRaft node on the loopback interface. */
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import type { Command } from './child';
import { type Context, cached, fetchByMaven, isCached, moveToCache } from './download';
import { quietKafka } from './guest';
import { chooseJava, describeJavas, findJavas, findOnPath, type Java } from './java';
import { LocalServer } from './local-server';
import { LOOPBACK, withFreePorts } from './ports';
import type { Environment, KafkaExtras, Missing, Started, StartOptions } from './types';

export const DEFAULT_KAFKA_VERSION = '4.4.0';

const JAVA_VERSION = 17;
const FORMAT_DEADLINE_MS = 60_000;
const COMPILE_DEADLINE_MS = 60_000;
const START_DEADLINE_MS = 60_000;
/** Time for a broker to write its classes. */
const WRITE_DEADLINE_MS = 90_000;
/** Without the optimizing compiler Java starts in half the time, and then takes up to twice the CPU. */
const QUICK = '-XX:TieredStopAtLevel=1';
const STARTED = /Kafka Server started/;
/** Java ends by the signal itself after its shutdown hooks, which write the file of classes. */
const ENDED_BY_SIGTERM = 'exit code 143';
const MEBIBYTE = 1024 * 1024;
const cacheName = (version: string): string => `kafka-${version}`;

export const BROKER_HEAP = '384m';

/** Settings of every broker of ours, as a child process or in a container. */
export const BROKER_SETTINGS: Readonly<Record<string, string>> = {
  'node.id': '1',
  'process.roles': 'broker,controller',
  'controller.listener.names': 'CONTROLLER',
  // The absence of a topic has to be noticed.
  'auto.create.topics.enable': 'false',
  'message.max.bytes': String(16 * MEBIBYTE),
  'replica.fetch.max.bytes': String(16 * MEBIBYTE),
  // There is only one node.
  'default.replication.factor': '1',
  'offsets.topic.replication.factor': '1',
  'transaction.state.log.replication.factor': '1',
  'transaction.state.log.min.isr': '1',
  'share.coordinator.state.topic.replication.factor': '1',
  'share.coordinator.state.topic.min.isr': '1',
  // With fifty partitions each, the first group and the first transaction would wait for them.
  'offsets.topic.num.partitions': '4',
  'transaction.state.log.num.partitions': '4',
  'group.initial.rebalance.delay.ms': '0',
  // After a kill -9 the controller keeps the broker out until its old session has run out (default: 9 s).
  'broker.session.timeout.ms': '4000',
  'broker.heartbeat.interval.ms': '1000',
  // Two empty records a second show replicas of the controller how far they are behind. Here is none, and
  // they take a third of the CPU of a broker without work.
  'metadata.max.idle.interval.ms': '0',
  // The default, 128 MiB, is a good part of the heap.
  'log.cleaner.dedupe.buffer.size': String(4 * MEBIBYTE),
};

export function missingForKafka(version: string, environment: Environment): Missing[] {
  const missing: Missing[] = [];
  const javas = findJavas(environment);
  if (chooseJava(javas, JAVA_VERSION) === undefined) {
    missing.push({
      server: 'kafka',
      what: `Kafka ${version} needs Java ${JAVA_VERSION} or newer: ${describeJavas(javas)}`,
      remedy: `apt-get install openjdk-${JAVA_VERSION}-jre-headless, or set JAVA_HOME to a newer Java`,
    });
  }
  if (!isCached(cacheName(version)) && findOnPath('mvn', environment) === undefined) {
    missing.push({
      server: 'kafka',
      what: `Kafka ${version} is fetched by Maven, and there is no mvn on the PATH`,
      remedy: 'apt-get install maven',
    });
  }
  return missing;
}

export async function connectToKafka(brokers: string, retries = 20): Promise<void> {
  const admin = quietKafka({
    clientId: 'local-servers',
    brokers: brokers.split(','),
    connectionTimeout: 3_000,
    requestTimeout: 5_000,
    retry: { retries, initialRetryTime: 50, maxRetryTime: 500 },
  }).admin();
  await admin.connect();
  try {
    await admin.describeCluster();
  } finally {
    await admin.disconnect();
  }
}

const NO_EXTRAS: KafkaExtras = { listeners: {}, settings: {}, scramUsers: [], javaOptions: [] };

/**
 * Fetches its jars once, and finds a Java that runs them.
 *
 * @throws if there is none
 */
export async function fetchKafka(context: Context, version: string): Promise<{ java: Java; jars: string }> {
  const java = chooseJava(findJavas(context.environment), JAVA_VERSION);
  if (java === undefined) {
    throw new Error(`Kafka needs Java ${JAVA_VERSION} or newer`);
  }
  const properties = { 'kafka.version': version };
  return { java, jars: await fetchByMaven(context, cacheName(version), 'kafka', properties, java) };
}

export async function startKafka(
  context: Context,
  version: string,
  {
    kafkaExtras: extras = NO_EXTRAS,
    longLived = false,
  }: Pick<StartOptions, 'kafkaExtras' | 'longLived'> = {},
): Promise<Started> {
  const { supervisor, environment, log } = context;
  const { java, jars } = await fetchKafka(context, version);
  supervisor.refuseWhenStopping();

  const directory = join(supervisor.directory.path, 'kafka');
  const temporary = join(directory, 'tmp');
  const classes = join(directory, 'classes');
  const settingsFile = join(directory, 'server.properties');
  const logFile = join(supervisor.directory.path, 'kafka.log');
  for (const each of [temporary, classes]) mkdirSync(each, { recursive: true });
  for (const [name, source] of Object.entries(extras.classes ?? {})) {
    const file = join(classes, `${name}.java`);
    writeFileSync(file, source);
    const args = ['--release', String(JAVA_VERSION), '-cp', join(jars, '*'), '-d', classes, file];
    await supervisor.run(
      {
        name: 'javac',
        file: findOnPath('javac', environment) ?? 'javac',
        args,
        directory,
        environment: { PATH: environment.PATH, LANG: 'C.UTF-8' },
        logFile,
        stopSignal: 'SIGTERM' as const,
      },
      COMPILE_DEADLINE_MS,
    );
  }
  const archive = await provideClasses(context, version, java, jars);
  const javaCommand = (mainClass: string, heap: string, args: readonly string[]) =>
    commandOf(context, java, [join(jars, '*'), classes], mainClass, heap, args, [
      ...(longLived ? [] : [QUICK]),
      ...(archive === undefined ? [] : [`-XX:SharedArchiveFile=${archive}`]),
      ...extras.javaOptions,
    ]);

  let formatted = false;
  const names = Object.keys(extras.listeners);
  return withFreePorts(2 + names.length, async ([port, controllerPort, ...ports]) => {
    const brokers = `${LOOPBACK}:${port}`;
    const listeners = Object.fromEntries(names.map((name, index) => [name, `localhost:${ports[index]}`]));
    const further = names.map((name) => `,${name}://${listeners[name]}`).join('');
    const advertised = names
      .map((name) => `,${name}://${extras.advertised?.[name] ?? listeners[name]}`)
      .join('');
    const protocols = names.map((name) => `,${name}:${extras.listeners[name]}`).join('');
    writeSettings(settingsFile, {
      ...BROKER_SETTINGS,
      listeners: `PLAINTEXT://${brokers},CONTROLLER://${LOOPBACK}:${controllerPort}${further.replaceAll('localhost', LOOPBACK)}`,
      'advertised.listeners': `PLAINTEXT://${brokers}${advertised}`,
      'listener.security.protocol.map': `PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT${protocols}`,
      'controller.quorum.voters': `1@${LOOPBACK}:${controllerPort}`,
      'log.dirs': join(directory, 'data'),
      ...extras.settings,
    });
    if (!formatted) {
      const users = extras.scramUsers.flatMap((user) => ['--add-scram', user]);
      const tool = () =>
        supervisor.run(
          {
            name: 'kafka format',
            ...javaCommand('kafka.tools.StorageTool', '128m', [...formatArguments(settingsFile), ...users]),
          },
          FORMAT_DEADLINE_MS,
        );
      const isUsual =
        version === DEFAULT_KAFKA_VERSION && users.length === 0 && !('log.dirs' in extras.settings);
      await (isUsual ? formatOnce(version, join(directory, 'data'), tool) : tool());
      formatted = true;
    }
    const server = new LocalServer(
      supervisor,
      { name: `kafka ${version}`, ...javaCommand('kafka.Kafka', BROKER_HEAP, [settingsFile]) },
      { line: STARTED, connect: () => connectToKafka(brokers) },
      log,
    );
    await server.start();
    return { server, address: brokers, listeners };
  });
}

function commandOf(
  { supervisor, environment }: Context,
  java: Java,
  classPath: readonly string[],
  mainClass: string,
  heap: string,
  args: readonly string[],
  options: readonly string[],
): Omit<Command, 'name'> {
  const directory = join(supervisor.directory.path, 'kafka');
  return {
    file: java.executable,
    args: [
      `-Xmx${heap}`,
      '-XX:+UseSerialGC',
      // Nothing outside the stack's own directory: neither performance data nor unpacked libraries.
      '-XX:-UsePerfData',
      `-Djava.io.tmpdir=${join(directory, 'tmp')}`,
      ...options,
      '-cp',
      classPath.join(delimiter),
      mainClass,
      ...args,
    ],
    directory,
    environment: { PATH: environment.PATH, LANG: 'C.UTF-8' },
    logFile: join(supervisor.directory.path, 'kafka.log'),
    stopSignal: 'SIGTERM',
  };
}

function writeSettings(file: string, settings: Readonly<Record<string, string>>): void {
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value.replaceAll('\n', '\\n')}\n`);
  writeFileSync(file, lines.join(''));
}

const randomId = (): string => randomBytes(16).toString('base64url');

// The id as one argument: it may begin with "-".
const formatArguments = (settingsFile: string): string[] => [
  ...['format', `--cluster-id=${randomId()}`, '--config', settingsFile],
];

/** The features of a new cluster: the one file of a formatted directory beside its ids. */
const FEATURES = join('__cluster_metadata-0', '00000000000000000000-0000000000.checkpoint');

/**
 * Formats the data of a broker by Kafka's own tool, and keeps its file of features. The next time it writes
 * the same directory with other ids: to start the tool needs half as much CPU as to start a broker.
 */
async function formatOnce(version: string, data: string, tool: () => Promise<unknown>): Promise<void> {
  const name = `${cacheName(version)}-features`;
  const features = join(data, FEATURES);
  if (!isCached(name)) {
    await tool();
    const copied = join(dirname(data), name);
    copyFileSync(features, copied);
    moveToCache(copied, name);
    return;
  }
  mkdirSync(dirname(features), { recursive: true });
  copyFileSync(cached(name), features);
  writeSettings(join(data, 'meta.properties'), {
    version: '1',
    'cluster.id': randomId(),
    'node.id': '1',
    'directory.id': randomId(),
  });
}

/**
 * A file of a broker's classes, as this Java keeps them in memory. With it a broker needs half the CPU to
 * start. A broker that runs only for that purpose writes it when it ends. Other versions than the default
 * start too seldom.
 */
async function provideClasses(
  context: Context,
  version: string,
  java: Java,
  jars: string,
): Promise<string | undefined> {
  const name = `${cacheName(version)}-java-${java.version}.jsa`;
  if (isCached(name)) return cached(name);
  if (version !== DEFAULT_KAFKA_VERSION) return undefined;
  const { supervisor, log } = context;
  const directory = join(supervisor.directory.path, 'kafka', 'for-classes');
  const settingsFile = join(directory, 'server.properties');
  const file = join(directory, name);
  const begin = Date.now();
  log(`preparing the classes of kafka ${version} (once) …`);
  mkdirSync(directory, { recursive: true });
  // Java refuses the file where this path is not the beginning of a broker's own.
  const command = (mainClass: string, args: readonly string[], options: readonly string[]): Command => ({
    name: `kafka ${version} for its classes`,
    ...commandOf(context, java, [join(jars, '*')], mainClass, BROKER_HEAP, args, [QUICK, ...options]),
  });
  const ended = await withFreePorts(2, async ([port, controllerPort]) => {
    const controller = `${LOOPBACK}:${controllerPort}`;
    writeSettings(settingsFile, {
      ...BROKER_SETTINGS,
      listeners: `PLAINTEXT://${LOOPBACK}:${port},CONTROLLER://${controller}`,
      'controller.quorum.voters': `1@${controller}`,
      'log.dirs': join(directory, 'data'),
    });
    const format = [...formatArguments(settingsFile), '--ignore-formatted'];
    await supervisor.run(command('kafka.tools.StorageTool', format, []), FORMAT_DEADLINE_MS);
    const write = `-XX:ArchiveClassesAtExit=${file}`;
    const broker = supervisor.spawn(command('kafka.Kafka', [settingsFile], [write]));
    try {
      await broker.untilLogged(STARTED, START_DEADLINE_MS);
    } catch (error) {
      await broker.stop();
      supervisor.refuseWhenStopping();
      throw error;
    }
    await broker.stop(WRITE_DEADLINE_MS);
    return broker.endedBy;
  });
  supervisor.refuseWhenStopping();
  // Killed in the middle of the file: the next start tries again.
  if (ended !== ENDED_BY_SIGTERM) return undefined;
  moveToCache(file, name);
  log(`prepared the classes of kafka ${version} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  return cached(name);
}
