/**
 * The resources of a mode: topics, databases, consumer groups and processes of its own. Closing the stage
 * removes all of them. The supervisor closes it on Ctrl-C too.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server, Servers } from '../servers';
import type { Child } from '../servers/child';
import { projectRoot } from '../servers/download';
import { CLI, inheritedFrom, type ProgramCommand, productCommand } from '../servers/product';
import type { Supervisor } from '../servers/supervisor';
import { makeTopics, type TopicPlan } from '../servers/topics';
import { connectionOfOperator, USUAL_SHAPE } from './feed';
import {
  alterSystem,
  dropDatabase,
  kafkaAt,
  makeDatabase,
  removeDatabases,
  removeOwn,
  withAdmin,
  withClient,
} from './guest';

const PROGRAMS = join(__dirname, 'programs');
const COMMAND_DEADLINE_MS = 60_000;
const USED_TOPIC_RETRIES = 20;
/** More than the default interval of a broker's index, in bytes of the log. */
const INDEXED_BYTES = 5_000;
/**
 * A disk that reads far ahead fills the page cache with the holes of large index files. The broker would free
 * these pages in a later run, when it removes the topics.
 */
const SMALL_INDEXES = { 'segment.index.bytes': String(256 * 1024) };

/**
 * Options of Node for the programs beside the worker. They have the worker's options that speed them up, more
 * room for young objects, and no limit on the rest of their memory.
 */
const PROGRAM_NODE_OPTIONS = [
  '--min-semi-space-size=32',
  '--max-semi-space-size=32',
  '--no-parallel-scavenge',
];

export const PARTITIONS = USUAL_SHAPE.partitions;
/** Connection of the webhook. */
export const WEBHOOK = 'bench-hook';
/** Settings of the worker and the contenders beside it, unless a mode changes them. */
export const SETTINGS = { BATCH_EVENTS: '8000', PARTITIONS_AT_ONCE: '3' } as const;

/**
 * Kafka and Postgres share a disk here. The kernel writes unsynced pages once they are half a minute old,
 * hundreds of megabytes at once. All commits of that second wait. So under a paced load a log is synced after
 * this many messages. (flush.ms does nothing unless the broker's log.flush.scheduler.interval.ms is set.)
 */
export const FLUSH_MESSAGES = 3_000;

/**
 * By default Kafka deletes the files of a removed topic a minute later, in the middle of the next
 * measurement.
 */
const GONE_SOON = { 'file.delete.delay.ms': '1000' };

export type Settings = Readonly<Record<string, string>>;

export class Stage {
  readonly brokers: string;
  /** Address of a database that nothing writes to. */
  readonly serverUrl: string;
  private readonly postgres: Server | undefined;
  private readonly ownKafka: Server | undefined;
  private readonly topicPrefix: string;
  private readonly databasePrefix: string;
  private readonly beingMade = new Set<Promise<unknown>>();
  private made = 0;

  constructor(
    servers: Servers,
    private readonly supervisor: Supervisor,
  ) {
    this.brokers = servers.kafkaBrokers;
    this.serverUrl = servers.databaseUrl;
    this.postgres = servers.postgres;
    this.ownKafka = servers.kafka;
    const mark = `${process.pid}_${Date.now().toString(36)}`;
    this.topicPrefix = `promo.bench.${mark}.`;
    this.databasePrefix = `promo_bench_${mark}_`;
    // Servers of our own end with everything in them.
    if (servers.origin.kafka === 'environment')
      supervisor.onStop(() => this.remove(() => removeOwn(this.brokers, this.topicPrefix)));
    if (servers.origin.postgres === 'environment')
      supervisor.onStop(() => this.remove(() => removeDatabases(this.serverUrl, this.databasePrefix)));
  }

  /** Removes resources, once those that are being made exist: before, they could not be removed. */
  private async remove(work: () => Promise<void>): Promise<void> {
    await Promise.allSettled(this.beingMade);
    await work();
  }

  private async make<T>(work: () => Promise<T>): Promise<T> {
    this.supervisor.refuseWhenStopping();
    const making = work();
    this.beingMade.add(making);
    try {
      return await making;
    } finally {
      this.beingMade.delete(making);
    }
  }

  /** A path below a directory that is removed with the stage. */
  file(name: string): string {
    return join(this.supervisor.directory.path, `${this.made++}-${name}`);
  }

  newGroup(): string {
    return `${this.topicPrefix}group.${this.made++}`;
  }

  /** The name of a topic that is made later, or the beginning of such names. */
  newTopic(): string {
    return `${this.topicPrefix}${this.made++}`;
  }

  async makeTopic(config: TopicPlan['config'] = {}): Promise<string> {
    const topic = this.newTopic();
    const plan = { partitions: PARTITIONS, config: { ...GONE_SOON, ...config } };
    await this.make(() => withAdmin(this.brokers, (admin) => makeTopics(admin, { [topic]: plan })));
    return topic;
  }

  /**
   * Makes topics as they are after some use. A broker refuses messages while it makes the files of new
   * topics, which takes seconds for hundreds of them. On a disk that reads far ahead, the first entry of each
   * index then costs milliseconds of CPU.
   */
  async makeUsedTopics(topics: readonly string[], partitions: number): Promise<void> {
    const plan = { partitions, config: { ...GONE_SOON, ...SMALL_INDEXES } };
    await this.make(() =>
      withAdmin(this.brokers, (admin) =>
        makeTopics(admin, Object.fromEntries(topics.map((topic) => [topic, plan]))),
      ),
    );
    const producer = kafkaAt(this.brokers).producer({ retry: { retries: USED_TOPIC_RETRIES } });
    await producer.connect();
    const value = 'x'.repeat(INDEXED_BYTES);
    const messages = Array.from({ length: partitions }, (_, partition) => ({ partition, value }));
    // The second batch of a log makes the first entries of its indexes.
    for (let batch = 0; batch < 2; batch++)
      await producer.sendBatch({ topicMessages: topics.map((topic) => ({ topic, messages })) });
    await producer.disconnect();
  }

  async removeTopic(...topics: string[]): Promise<void> {
    await withAdmin(this.brokers, (admin) => admin.deleteTopics({ topics }));
  }

  /**
   * Makes a database with the product's tables. Its reference data has a connection for each topic, all of
   * one feed.
   */
  makeDatabase(...topics: readonly string[]): Promise<string> {
    return this.makeDatabaseWith(referenceOf(topics));
  }

  private async makeDatabaseWith(reference: object): Promise<string> {
    const name = `${this.databasePrefix}${this.made++}`;
    const url = await this.make(() => makeDatabase(this.serverUrl, name));
    await this.command(['migrate'], { DATABASE_URL: url });
    const file = this.file('reference.json');
    writeFileSync(file, JSON.stringify(reference));
    await this.command(['reference', 'apply', file], { DATABASE_URL: url });
    return url;
  }

  async dropDatabase(url: string): Promise<void> {
    await dropDatabase(this.serverUrl, new URL(url).pathname.slice(1));
  }

  /** Runs the work on a database that exists only for it. */
  withDatabase<T>(topics: readonly string[], work: (databaseUrl: string) => Promise<T>): Promise<T> {
    return this.withDatabaseOf(referenceOf(topics), work);
  }

  /** The same with these reference data. */
  async withDatabaseOf<T>(reference: object, work: (databaseUrl: string) => Promise<T>): Promise<T> {
    const url = await this.makeDatabaseWith(reference);
    const result = await work(url);
    await this.dropDatabase(url);
    return result;
  }

  /**
   * Restarts Postgres with these settings, and all others as they were at first.
   *
   * @throws if Postgres is not ours, or does not know a setting; in that case it goes on as it was
   */
  async restartPostgres(settings: Settings): Promise<void> {
    if (this.postgres === undefined) throw new Error('Postgres is not ours to restart');
    await alterSystem(this.serverUrl, settings);
    await this.postgres.stop();
    await this.postgres.start();
  }

  /**
   * The Kafka server, to be disturbed.
   *
   * @throws if it is not ours
   */
  get kafka(): Server {
    if (this.ownKafka === undefined) throw new Error('Kafka is not ours to disturb');
    return this.ownKafka;
  }

  /** Starts `promo-intake worker` with a log line for each batch. */
  startWorker(args: readonly string[], settings: Settings): Child {
    return this.spawn('worker', productCommand(CLI, ['worker', ...args]), {
      KAFKA_BROKERS: this.brokers,
      DEAD_LETTER_TOPIC: `${this.topicPrefix}dead-letter`,
      HTTP_PORT: '0',
      LOG_LEVEL: 'debug',
      SHUTDOWN_SECONDS: '5',
      ...SETTINGS,
      ...settings,
    });
  }

  /**
   * Starts `promo-intake webhook` at free ports, for the connection WEBHOOK that every database of the stage
   * has.
   */
  startWebhook(secret: string, settings: Settings): Child {
    return this.spawn('webhook', productCommand(CLI, ['webhook']), {
      HTTP_PORT: '0',
      WEBHOOK_PORT: '0',
      WEBHOOK_SECRETS: JSON.stringify({ [WEBHOOK]: secret }),
      SHUTDOWN_SECONDS: '5',
      ...settings,
    });
  }

  /** Starts one of the programs of this benchmark. */
  startProgram(name: string, settings: Settings, nodeOptions: readonly string[] = []): Child {
    const args = [...PROGRAM_NODE_OPTIONS, ...nodeOptions, join(PROGRAMS, `${name}.js`)];
    const program = { file: process.execPath, args, environment: {} };
    return this.spawn(name, program, { KAFKA_BROKERS: this.brokers, ...SETTINGS, ...settings });
  }

  /**
   * Runs a command of the product to its end.
   *
   * @returns its output
   * @throws if its exit code is not 0
   */
  async command(
    args: readonly string[],
    settings: Settings,
    deadlineMs = COMMAND_DEADLINE_MS,
  ): Promise<string> {
    const child = this.start(args, settings);
    await child.untilDone(deadlineMs);
    return child.output();
  }

  /** Starts a command of the product. */
  start(args: readonly string[], { DATABASE_URL, KAFKA_GROUP_ID, WEBHOOK_SECRETS }: Settings): Child {
    const settings = { KAFKA_BROKERS: this.brokers, DATABASE_URL, KAFKA_GROUP_ID, WEBHOOK_SECRETS };
    return this.spawn(args[0] ?? '', productCommand(CLI, args), settings);
  }

  private spawn(
    name: string,
    command: ProgramCommand,
    settings: Readonly<Record<string, string | undefined>>,
  ): Child {
    return this.supervisor.spawn({
      ...command,
      name,
      directory: projectRoot,
      environment: { ...inheritedFrom(process.env), ...command.environment, ...settings },
      logFile: this.file(`${name}.log`),
      stopSignal: 'SIGTERM',
    });
  }
}

/** Reference data of many operators, with a connection each, that share the topic. */
export function referenceOfOperators(ids: readonly string[], topic: string): object {
  const operators = ids.map((id, index) => ({
    id,
    connections: [
      { id: connectionOfOperator(index), transport: 'kafka', topic, brands: 'several' },
      ...(index === 0 ? [{ id: WEBHOOK, transport: 'webhook', brands: 'several' }] : []),
    ],
    brands: BRANDS,
    catalogue: CATALOGUE,
  }));
  return { operators };
}

const BRANDS = [{ id: 'main', min_bet: { EUR: '0.10' } }];
const CATALOGUE = [{ id: 'g1' }];

function referenceOf(topics: readonly string[]): object {
  const streams = topics.map((topic, index) => ({
    id: `bench-stream-${index}`,
    transport: 'kafka',
    topic,
    brands: 'several',
  }));
  const connections = [...streams, { id: WEBHOOK, transport: 'webhook', brands: 'several' }];
  return { operators: [{ id: 'bench', connections, brands: BRANDS, catalogue: CATALOGUE }] };
}

const NO_PRIVILEGE = '42501';

/** Makes Postgres write out the pages of earlier runs, so that the next run does not pay for them. */
export async function checkpoint(databaseUrl: string): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    try {
      await client.query('checkpoint');
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code !== NO_PRIVILEGE) throw error;
    }
  });
}

export const MEBIBYTE = 1024 ** 2;

/** Makes Postgres write this much WAL, as messages that nobody reads. */
export async function writeWal(databaseUrl: string, bytes: number): Promise<void> {
  await withClient(databaseUrl, (client) =>
    client.query(
      `select count(pg_logical_emit_message(false, 'bench', repeat('x', $1))) from generate_series(1, $2)`,
      [MEBIBYTE, Math.max(0, Math.round(bytes / MEBIBYTE))],
    ),
  );
}

/**
 * Wears a new server in. An older server reuses the files of its WAL. A new server makes each file: it writes
 * and syncs 16 MiB while all commits wait. Without this, the benchmark would measure the server's first
 * minute.
 *
 * @param bytes WAL from one checkpoint to the next
 */
export async function wearIn(serverUrl: string, bytes: number): Promise<void> {
  await writeWal(serverUrl, bytes);
  await checkpoint(serverUrl);
}
