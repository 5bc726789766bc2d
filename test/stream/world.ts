/**
 * A world for one test or one file: a database with reference data, topics, and the settings of workers that
 * join them.
 */
import { randomBytes } from 'node:crypto';
import type { Server, Servers, StartOptions } from '../../dev/servers';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import type { ConnectionEntry, OperatorEntry, ReferenceDocument } from '../../src/domain/reference';
import { applyReference } from '../../src/ledger/reference-store';
import { grantRoles } from '../../src/ledger/roles';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { makeLogger } from '../../src/telemetry/logger';
import { anOperator } from '../support/builders';
import { committedOffsets, endOffsets, makeTopics, type TopicPlan } from '../support/kafka';
import { damagesOf, migratedDatabase, rowsOf, type TextRow, withClient } from '../support/ledger';
import { makeRole } from '../support/roles';
import { databaseUrl, dropDatabase, kafkaBrokers, ownServers, withAdmin } from '../support/servers';
import {
  drained,
  type RunningCommand,
  type Settings,
  startWorker,
  type WorkerOptions,
} from '../support/worker';

/** Default time for events to be decided. */
const DECIDED_DEADLINE_MS = 60_000;
/** Of the statements of the test itself. */
const PATIENCE_MS = 60_000;

export interface WorldOptions<Name extends string> {
  /** Topics by the names that the test uses; a number is the number of partitions. */
  readonly topics: Readonly<Record<Name, number | TopicPlan>>;
  /** Default: a connection for each topic except `verdicts`, which carries several brands. */
  readonly operators?: (topics: Readonly<Record<Name, string>>) => OperatorEntry[];
  /**
   * The test's own servers, which stop with it. The run's shared servers replace those that are missing here.
   */
  readonly servers?: Servers;
  readonly settings?: Settings;
}

export interface World<Name extends string> {
  readonly topics: Readonly<Record<Name, string>>;
  readonly deadLetterTopic: string;
  readonly groupId: string;
  readonly brokers: string[];
  /** Of the owner. */
  readonly databaseUrl: string;
  /** Of a role with the rights of a writer. Workers and webhooks use it, as in production. */
  readonly writerUrl: string;
  /** For commands, which act as the owner. */
  readonly settings: Settings;
  /** Starts a worker, which is killed at the end of the world. */
  start(more?: Settings, options?: WorkerOptions): RunningCommand;
  /** The same, and waits until the worker has its partitions. */
  started(more?: Settings, options?: WorkerOptions): Promise<RunningCommand>;
  /** Runs a worker until all records are decided. */
  drain(more?: Settings, milliseconds?: number): Promise<RunningCommand>;
  readonly pool: PostgresPool;
  apply(operators: readonly OperatorEntry[]): Promise<void>;
  rows(text: string, values?: readonly unknown[]): Promise<TextRow[]>;
  /** "accepted", "skipped/zero_amount" ... by event_id. */
  verdicts(): Promise<Record<string, string>>;
  /**
   * The counts of a topic's partitions, or of all topics, without zeros. `records` counts each record once. A
   * worker on a slow machine may lose its place in the group, and then its records are rightly read again.
   */
  balance(topic?: string): Promise<Record<string, number>>;
  /** Number of records that were read again. */
  redeliveries(): Promise<number>;
  /** Resolves when `events` events have a verdict. */
  untilDecided(events: number, milliseconds?: number): Promise<void>;
  committed(topic: string): Promise<number[]>;
  ends(topic: string): Promise<number[]>;
  /**
   * @throws where stored data contradicts itself. May be called at any moment, because the data must agree
   * even while workers run
   */
  expectSound(): Promise<void>;
  /** The last lines of its workers' logs. */
  logs(): string;
  close(): Promise<void>;
}

/** A connection for a topic. */
export const connectionOf = (topic: string, more: Partial<ConnectionEntry> = {}): ConnectionEntry => ({
  id: `of-${topic}`,
  transport: 'kafka',
  topic,
  ...more,
});

export async function makeWorld<Name extends string>(options: WorldOptions<Name>): Promise<World<Name>> {
  const { servers } = options;
  const brokers = servers?.origin.kafka ? servers.kafkaBrokers.split(',') : kafkaBrokers();
  const server = servers?.origin.postgres ? servers.databaseUrl : databaseUrl();
  const id = randomBytes(6).toString('hex');
  const [url, topics] = await Promise.all([
    migratedDatabase(server),
    freshTopics(options.topics, id, brokers),
  ]);
  const writer = await makeRole(url, 'writer');
  await grantRoles(url, [{ role: 'writer', name: writer.name }]);
  const deadLetterTopic = `dead-letter.${id}`;
  const groupId = `promo-test-${id}`;
  // Silent: a test that stops the server expects the errors.
  const pool = makePool(
    { databaseUrl: url, maxConnections: 3, applicationName: 'promo-test' },
    makeLogger('silent'),
  );
  // Those of a worker would fail a test whose own statement waits for the worker, or for a busy machine.
  pool.options.connectionTimeoutMillis = PATIENCE_MS;
  pool.options.query_timeout = PATIENCE_MS;
  const operators = options.operators?.(topics) ?? [
    anOperator({
      connections: Object.entries<string>(topics).flatMap(([name, topic]) =>
        name === 'verdicts' ? [] : [connectionOf(topic)],
      ),
    }),
  ];

  const rows = (text: string, values: readonly unknown[] = []) => rowsOf(pool, text, values);
  const apply = async (operators: readonly OperatorEntry[]) => {
    const document: ReferenceDocument = { operators };
    await applyReference(pool, document, () => true);
  };
  await apply(operators);
  const settings = {
    KAFKA_BROKERS: brokers.join(','),
    KAFKA_GROUP_ID: groupId,
    DATABASE_URL: url,
    DEAD_LETTER_TOPIC: deadLetterTopic,
    ...options.settings,
  };
  const workers: RunningCommand[] = [];
  const start = (more: Settings = {}, workerOptions: WorkerOptions = {}) => {
    const worker = startWorker({ ...settings, DATABASE_URL: writer.url, ...more }, workerOptions);
    workers.push(worker);
    return worker;
  };

  return {
    topics,
    deadLetterTopic,
    groupId,
    brokers,
    databaseUrl: url,
    writerUrl: writer.url,
    settings,
    start,
    async started(more, workerOptions) {
      const worker = start(more, workerOptions);
      await worker.waitForLog('partitions assigned');
      return worker;
    },
    async drain(more, milliseconds) {
      const worker = start(more, { drain: true });
      await drained(worker, milliseconds);
      return worker;
    },
    pool,
    apply,
    rows,
    async verdicts() {
      const found = await rows('select event_id, verdict, reason from promo.verdicts');
      return Object.fromEntries(
        found.map(([event, verdict, reason]) => [event, reason === null ? verdict : `${verdict}/${reason}`]),
      );
    },
    async balance(topic) {
      const [row = []] = await rows(
        `select coalesce(sum(records_read - redeliveries), 0), ${COUNTS.map((name) => `coalesce(sum(${name}), 0)`).join(', ')}
         from promo.partitions where $1::text is null or topic = $1`,
        [topic ?? null],
      );
      return Object.fromEntries(
        ['records', ...COUNTS]
          .map((name, index) => [name, Number(row[index])] as const)
          .filter(([, count]) => count !== 0),
      );
    },
    async redeliveries() {
      const [[count] = []] = await rows('select coalesce(sum(redeliveries), 0) from promo.partitions');
      return Number(count);
    },
    async untilDecided(events, milliseconds = DECIDED_DEADLINE_MS) {
      await until(`${events} events have a verdict`, milliseconds, async () => {
        const [[count] = []] = await rows('select count(*) from promo_store.event_keys');
        return Number(count) >= events;
      });
    },
    committed: (topic) => committedOffsets(groupId, topic, brokers),
    ends: (topic) => endOffsets(topic, brokers),
    async expectSound() {
      expect(await withClient(url, damagesOf)).toEqual([]);
    },
    logs: () => workers.map((worker, index) => `\n--- worker ${index + 1}\n${worker.tail()}`).join(''),
    async close() {
      await Promise.all(workers.map((worker) => worker.kill()));
      await pool.end();
      if (!servers?.origin.postgres) {
        await dropDatabase(url, server);
        await withClient(server, (client) => client.query(`drop role ${writer.name}`));
      }
      if (servers?.origin.kafka) return;
      const ours = [...Object.values<string>(topics), deadLetterTopic];
      await withAdmin((admin) => deleteTopics(admin, ours), brokers);
    },
  };
}

/** A world for one test, which is closed with it. */
export async function inWorld<Name extends string>(
  options: WorldOptions<Name>,
  work: (world: World<Name>) => Promise<void>,
): Promise<void> {
  const world = await makeWorld(options);
  try {
    await work(world);
    await world.expectSound();
  } catch (error) {
    // The logs of its workers explain more than the expected value.
    if (error instanceof Error) error.message += world.logs();
    throw error;
  } finally {
    await world.close();
  }
}

/** The same on servers of the test's own, which the test may disturb. */
export async function inOwnWorld<Name extends string>(
  start: StartOptions,
  options: WorldOptions<Name>,
  work: (world: World<Name>, servers: OwnServers) => Promise<void>,
): Promise<void> {
  const servers = await ownServers(start);
  try {
    await inWorld({ ...options, servers }, (world) =>
      work(world, {
        get kafka() {
          return ours('kafka', servers.kafka);
        },
        get postgres() {
          return ours('postgres', servers.postgres);
        },
      }),
    );
  } finally {
    await servers.stop();
  }
}

export interface OwnServers {
  readonly kafka: Server;
  readonly postgres: Server;
}

function ours(name: string, server: Server | undefined): Server {
  if (server === undefined) throw new Error(`the test did not start ${name}`);
  return server;
}

const COUNTS = [
  ...['accepted', 'rejected', 'skipped', 'duplicate_deliveries', 'dead_letters', 'events_without_key'],
];

async function freshTopics<Name extends string>(
  plans: Readonly<Record<Name, number | TopicPlan>>,
  id: string,
  brokers: string[],
): Promise<Record<Name, string>> {
  const made: Partial<Record<Name, string>> = {};
  const byTopic: Record<string, TopicPlan> = {};
  const names = Object.keys(plans).filter((name): name is Name => name in plans);
  for (const name of names) {
    const plan: number | TopicPlan = plans[name];
    const topic = `test.${id}.${name}`;
    made[name] = topic;
    byTopic[topic] = typeof plan === 'number' ? { partitions: plan } : plan;
  }
  await makeTopics(byTopic, brokers);
  return complete(made, names);
}

function complete<Name extends string>(
  made: Partial<Record<Name, string>>,
  names: readonly Name[],
): Record<Name, string> {
  const isComplete = (record: Partial<Record<Name, string>>): record is Record<Name, string> =>
    names.every((name) => record[name] !== undefined);
  if (!isComplete(made)) throw new Error('a topic was not created');
  return made;
}
