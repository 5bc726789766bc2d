/**
 * A real Postgres for tests of the decision. Each test has a database of its own, cloned from a migrated
 * template, an intake over it without Kafka, and small events.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, type Pool } from 'pg';
import type { Logger } from 'pino';
import { until } from '../../dev/servers/deadline';
import type { ReferenceDocument } from '../../src/domain/reference';
import type { Answer, DeadLetter, Envelope } from '../../src/intake/delivery';
import { type Intake, type IntakeResult, makeIntake } from '../../src/intake/intake';
import type { RejectLimit } from '../../src/intake/reject-limit';
import { type Ledger, makeLedger } from '../../src/ledger/decide-batch';
import { runMigrations } from '../../src/ledger/migrate';
import { applyReference, makeReferences } from '../../src/ledger/reference-store';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { textQuery } from '../../src/postgres/texts';
import { fromDocumentJson, toDocumentJson } from '../../src/reference-file/stored';
import { makeLogger } from '../../src/telemetry/logger';
import { asRole, grantTestRoles } from './as-role';
import * as builders from './builders';
import { databaseUrl, dropDatabase } from './servers';

// --- databases

export const MIGRATIONS = join(__dirname, '../../migrations');
const ROLES = join(__dirname, '../../src/ledger/roles.ts');
/** Two test files that need the template at once wait for one another. */
const TEMPLATE_LOCK = 7_302_118_445;
const CONNECT_DEADLINE_MS = 60_000;
const LOCK_WAIT_BEGINS_WITHIN_MS = 60_000;
const STATEMENT_DEADLINE_MS = 120_000;

/**
 * Another migration, other rights, or another month need another template: the migration creates the months'
 * tables.
 */
function templateName(): string {
  const hash = createHash('sha256').update(new Date().toISOString().slice(0, 7));
  hash.update(readFileSync(ROLES));
  for (const name of readdirSync(MIGRATIONS).sort()) {
    hash.update(name).update(readFileSync(join(MIGRATIONS, name)));
  }
  return `promo_template_${hash.digest('hex').slice(0, 16)}`;
}

/** The caller ends the connection. */
export async function connectTo(url: string, statementMs = STATEMENT_DEADLINE_MS): Promise<Client> {
  const client = new Client({
    connectionString: url,
    application_name: 'promo-test',
    connectionTimeoutMillis: CONNECT_DEADLINE_MS,
    query_timeout: statementMs,
  });
  client.on('error', () => {
    // The present statement, or the next one, reports the error.
  });
  await client.connect();
  return client;
}

/** Opens one connection of its own to a database. */
export async function withClient<T>(
  url: string,
  work: (client: Client) => Promise<T>,
  statementMs?: number,
): Promise<T> {
  const client = await connectTo(url, statementMs);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

function urlOf(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * A migrated database of its own. Its migrations ran once, in a template that is kept for later runs on the
 * same server.
 */
export async function migratedDatabase(server: string = databaseUrl()): Promise<string> {
  const template = templateName();
  const name = `promo_test_${randomBytes(8).toString('hex')}`;
  await withClient(server, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const found = await client.query('select from pg_database where datname = $1', [template]);
    if (found.rowCount === 0) {
      // Renamed once it is complete, so that a run killed in between leaves no incomplete template.
      const unfinished = `${template}_${randomBytes(4).toString('hex')}`;
      await client.query(`create database ${unfinished}`);
      await runMigrations(urlOf(server, unfinished));
      await grantTestRoles(client, urlOf(server, unfinished));
      await client.query(`alter database ${unfinished} rename to ${template}`);
    }
    await client.query('select pg_advisory_unlock($1)', [TEMPLATE_LOCK]);
    // Without fsync, copied files need less than a log of all pages, also for the checkpoint before the drop.
    const [[fsync] = []] = await rowsOf(client, `select current_setting('fsync')`);
    const strategy = fsync === 'off' ? 'strategy file_copy' : '';
    await client.query(`create database ${name} template ${template} ${strategy}`);
  });
  return urlOf(server, name);
}

// --- the reference data of most tests

/**
 * Acme has four connections: two with one feed, a third with one brand, and one with a feed of its own. Bravo
 * is another operator.
 */
export const REFERENCE: ReferenceDocument = {
  operators: [
    {
      id: 'acme',
      active: true,
      connections: [
        { id: 'acme-stream', transport: 'kafka', topic: 'acme' },
        { id: 'acme-second', transport: 'kafka', topic: 'acme.second' },
        { id: 'acme-solo', transport: 'kafka', topic: 'acme.solo', brand: 'main' },
        { id: 'acme-apart', transport: 'kafka', topic: 'acme.apart', feed: 'apart' },
        { id: 'acme-shared', transport: 'kafka', topic: 'shared' },
        { id: 'acme-hook', transport: 'webhook' },
      ],
      brands: [
        { id: 'main', active: true, games: { deny: ['g9'] }, minBet: { EUR: '0.10' } },
        { id: 'second', active: true, games: { deny: [] }, minBet: {} },
        { id: 'closed', active: false, games: { deny: [] }, minBet: {} },
      ],
      catalogue: [],
    },
    {
      id: 'bravo',
      active: true,
      connections: [
        { id: 'bravo-stream', transport: 'kafka', topic: 'bravo' },
        { id: 'bravo-shared', transport: 'kafka', topic: 'shared' },
      ],
      brands: [{ id: 'main', active: true, games: { deny: [] }, minBet: {} }],
      catalogue: [],
    },
  ],
};

/** A document as read from a file. */
export function asRead(document: ReferenceDocument): ReferenceDocument {
  return fromDocumentJson(toDocumentJson(document));
}

// --- events

export type Json = Readonly<Record<string, unknown>>;

/** Events of one player in one round, without a game: most tests of the store use them. */
const ofRound =
  (kind: string) =>
  (fields: Json = {}): Json => ({
    ...builders.anEvent(kind),
    round_id: 'r-1',
    game: undefined,
    amount: '10.50',
    ...fields,
  });

export const aBet = ofRound('bet');
export const aWin = ofRound('win');
export const aSettled = ofRound('settled');
export const aRefund = ofRound('refund');
export const aDeposit: (fields?: Json) => Json = builders.aDeposit;
export const aWithdrawal: (fields?: Json) => Json = builders.aWithdrawal;
export const aLogin: (fields?: Json) => Json = builders.aLogin;

/** The content of a record: an event, or any bytes; null is a tombstone. */
export type Content = Json | Buffer | null;

/** A record as the Kafka transport hands it over. */
export function anEnvelope(content: Content, offset: number, claims: readonly string[] = []): Envelope {
  const value =
    content === null || Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content), 'utf8');
  return {
    value,
    payload: { type: 'json', bytes: value },
    claims,
    offset,
    key: null,
    headers: [],
    timestamp: '1795262400000',
  };
}

// --- a store with an intake over it

/** Columns as the texts that Postgres sends: tests compare the stored values. */
export type TextRow = (string | null)[];

export async function rowsOf(
  client: Pool | Client,
  text: string,
  values: readonly unknown[] = [],
): Promise<TextRow[]> {
  const { rows } = await client.query<TextRow>(textQuery(text, values));
  return rows;
}

export interface StoreOptions {
  readonly server?: string;
  /** For a test that changes more than rows: the database is dropped afterwards, not emptied. */
  readonly own?: boolean;
  readonly reference?: ReferenceDocument;
  readonly maxConnections?: number;
  /** The database is cloned from the template. Writers then act as the role of a writer. */
  readonly isCloned?: boolean;
}

export interface WriterOptions {
  /** Its name in pg_stat_activity. */
  readonly name?: string;
  readonly maxConnections?: number;
  /** Milliseconds, for the rate of panics. */
  readonly now?: () => number;
  readonly sendDeadLetters?: (letters: readonly DeadLetter[]) => Promise<void>;
  /** Wraps the ledger between the intake and the store. */
  readonly wrap?: (ledger: Ledger) => Ledger;
  readonly logger?: Logger;
  readonly rejectLimit?: RejectLimit;
  /** The option of decideBatch. */
  readonly fewEvents?: number;
  /** The name of the Kafka cluster that it reads. */
  readonly cluster?: string;
  /** Its answers have what a message about them needs. */
  readonly isPublished?: boolean;
}

/** A worker of its own: a pool, the reference data in its memory, an intake. */
export interface Writer {
  readonly pool: PostgresPool;
  readonly intake: Intake;
  partition(topic: string, partition?: number): TestPartition;
}

/** Emptied databases of this file, to be used again: emptying takes a fifth of the time of a clone. */
const idleDatabases: string[] = [];
/**
 * Of each of these databases one connection, which checks and empties it after each test. A new session reads
 * the whole catalog for the checks: they then take four times as long.
 */
const keepers = new Map<string, Client>();
// The programs that the model kills use this file too, without Jest.
if ('afterAll' in globalThis) {
  afterAll(async () => {
    await Promise.all([...keepers.values()].map((keeper) => keeper.end()));
    keepers.clear();
    await Promise.all(idleDatabases.splice(0).map((url) => dropDatabase(url)));
  });
}

async function keeperOf(url: string): Promise<Client> {
  const found = keepers.get(url);
  if (found !== undefined) return found;
  const keeper = await connectTo(url);
  keepers.set(url, keeper);
  // A test may end all sessions.
  keeper.on('end', () => keepers.delete(url));
  return keeper;
}

/** The findings of promo.check_invariants(): none in a sound store, at any moment. */
export function damagesOf(client: Pool | Client): Promise<TextRow[]> {
  return rowsOf(
    client,
    'select invariant, what, feed_id, event_id, round_id, source, in_all from promo.check_invariants()',
  );
}

/**
 * The tables that a test has used: to truncate one takes more than a millisecond, and most tests use few. A
 * table whose rows were rolled back has a size too.
 */
const USED_TABLES = `select string_agg(format('promo_store.%I', relname), ', ') from pg_class
where relnamespace = 'promo_store'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
and relname not in ('currencies', 'migrations', 'migrations_lock', 'player_keys', 'untagged')`;
/** Those of columns begin again at 1, also where no row was stored. */
const RESTART_SEQUENCES = `select setval(format('promo_store.%I', sequencename), 1, false) from pg_sequences
where schemaname = 'promo_store' and last_value is not null
and sequencename not in ('batch_numbers', 'migrations_id_seq', 'migrations_lock_index_seq')`;

async function empty(client: Client): Promise<void> {
  const [[tables] = []] = await rowsOf(client, USED_TABLES);
  if (tables) await client.query(`truncate ${tables} cascade`);
  await client.query(RESTART_SEQUENCES);
}

/** An empty store with reference data in force. */
export async function freshStore(options: StoreOptions = {}): Promise<TestStore> {
  const isOrdinary = options.own !== true && options.server === undefined;
  const url = (isOrdinary ? idleDatabases.pop() : undefined) ?? (await migratedDatabase(options.server));
  const store = new TestStore(url, { ...options, isCloned: true });
  await store.apply(options.reference ?? REFERENCE);
  return store;
}

export class TestStore {
  private readonly pools: PostgresPool[] = [];
  private readonly own: Writer;
  readonly pool: PostgresPool;
  readonly deadLetters: DeadLetter[] = [];
  /** Set by a test that damages the store by hand: the store is then not checked at the end. */
  damaged = false;

  constructor(
    readonly url: string,
    private readonly options: StoreOptions,
  ) {
    this.own = this.writer({ maxConnections: options.maxConnections ?? 4 });
    this.pool = this.own.pool;
  }

  /** A further worker. The store's own one decides the records that `partition` reads. */
  writer(options: WriterOptions = {}): Writer {
    const logger = options.logger ?? makeLogger('silent');
    const pool = makePool(
      {
        databaseUrl: this.url,
        maxConnections: options.maxConnections ?? 2,
        applicationName: options.name ?? 'promo-test-writer',
      },
      logger,
    );
    this.pools.push(pool);
    const asWriter = this.options.isCloned ? asRole(pool, 'writer') : pool;
    const ledger = makeLedger(asWriter, { fewEvents: options.fewEvents, cluster: options.cluster });
    const intake = makeIntake({
      ledger: options.wrap?.(ledger) ?? ledger,
      references: makeReferences(asWriter),
      sendDeadLetters:
        options.sendDeadLetters ??
        (async (letters) => {
          this.deadLetters.push(...letters);
        }),
      rejectLimit: options.rejectLimit,
      isPublished: options.isPublished,
      logger,
      now: options.now ?? (() => performance.now()),
    });
    return {
      pool,
      intake,
      partition: (topic, partition = 0) => new TestPartition(intake, topic, partition),
    };
  }

  partition(topic: string, partition = 0): TestPartition {
    return this.own.partition(topic, partition);
  }

  async apply(document: ReferenceDocument): Promise<number> {
    return (await applyReference(this.pool, asRead(document), () => true)).version;
  }

  rows(text: string, values: readonly unknown[] = []): Promise<TextRow[]> {
    return rowsOf(this.pool, text, values);
  }

  /** The only column of the only row. */
  async value(text: string, values: readonly unknown[] = []): Promise<string | null> {
    const rows = await this.rows(text, values);
    if (rows.length !== 1 || rows[0]?.length !== 1) throw new Error(`not one value: ${JSON.stringify(rows)}`);
    return rows[0][0] ?? null;
  }

  /** Makes all verdicts older. At the beginning of a month they come into the month before. */
  async age(interval: string): Promise<void> {
    await this.rows(
      `select promo_store.create_month('history', date_trunc('month', min(decided_at) at time zone 'utc' - $1::interval)::date)
       from promo_store.history`,
      [interval],
    );
    await this.rows('update promo_store.history set decided_at = decided_at - $1::interval', [interval]);
  }

  /**
   * Number of deadlocks in the database. A connection keeps its counts to itself for a while, unless a flush
   * is forced.
   */
  async deadlocks(): Promise<number> {
    await Promise.all(
      this.pools.map(async (pool) => {
        const all = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()));
        await Promise.all(all.map((client) => client.query('select pg_stat_force_next_flush()')));
        for (const client of all) client.release();
      }),
    );
    return Number(
      await this.value('select deadlocks from pg_stat_database where datname = current_database()'),
    );
  }

  /** Waits until a batch waits for another writer's lock. */
  untilOneWaits(): Promise<void> {
    return this.untilWaiting(1);
  }

  /** Resolves once so many transactions wait for a lock. */
  untilWaiting(count: number): Promise<void> {
    const waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return until(
      `${count} transactions wait for a lock`,
      LOCK_WAIT_BEGINS_WITHIN_MS,
      async () => Number(await this.value(waiting)) >= count,
    );
  }

  /** The counts of a partition, without zeros. */
  async balance(topic: string, partition = 0): Promise<Record<string, number>> {
    const names = [
      ...['records_read', 'accepted', 'rejected', 'skipped', 'duplicate_deliveries', 'redeliveries'],
      ...['dead_letters', 'events_without_key'],
    ];
    const [row = []] = await this.rows(
      `select ${names.join(', ')} from promo.partitions where topic = $1 and partition = $2`,
      [topic, partition],
    );
    return Object.fromEntries(
      names.map((name, index) => [name, Number(row[index])] as const).filter(([, count]) => count !== 0),
    );
  }

  /** All stored data of events, to check that nothing was left behind. */
  async contents(): Promise<Record<string, TextRow[]>> {
    const contents: Record<string, TextRow[]> = {};
    for (const table of [
      'event_keys',
      'history',
      'rounds',
      'resends',
      'unstored',
      'faults',
      'panics',
      'partitions',
    ]) {
      contents[table] = await this.rows(`select t::text from promo_store.${table} t order by 1`);
    }
    return contents;
  }

  /** Ends the connections, and leaves the database to its creator. */
  async disconnect(): Promise<void> {
    await Promise.all(this.pools.map((pool) => pool.end()));
  }

  /** @throws where the invariants do not hold for the data that the test left in the store */
  async close(): Promise<void> {
    const isKept = this.options.own !== true && this.options.server === undefined;
    const damagesIn = async (client: Client) => (this.damaged ? [] : await damagesOf(client));
    let damages: TextRow[];
    if (isKept) {
      const keeper = await keeperOf(this.url);
      damages = await damagesIn(keeper);
      await this.disconnect();
      await empty(keeper);
      idleDatabases.push(this.url);
    } else {
      damages = await withClient(this.url, damagesIn);
      await this.disconnect();
      await dropDatabase(this.url, this.options.server);
    }
    if (damages.length > 0) throw new Error(`the store is not sound: ${JSON.stringify(damages)}`);
  }
}

/** One partition of a topic as its owner reads it. */
export class TestPartition {
  private next = 0;

  constructor(
    private readonly intake: Intake,
    readonly topic: string,
    readonly partition: number,
  ) {}

  /**
   * Reads the next records as one batch.
   * @returns each record's answer in short
   * @throws where a record stays undecided
   */
  async read(...contents: readonly Content[]): Promise<string[]> {
    const offset = this.next;
    this.next += contents.length;
    return this.readAt(offset, ...contents);
  }

  /** Reads records from `offset` on as one batch. */
  async readAt(offset: number, ...contents: readonly Content[]): Promise<string[]> {
    const result = await this.attempt(offset, contents);
    if (result.undecided !== null) throw result.undecided;
    return result.answers.map(brief);
  }

  /** The same, for records that may stay undecided. */
  attempt(
    offset: number,
    contents: readonly Content[],
    claims: readonly string[] = [],
  ): Promise<IntakeResult> {
    return decidePart(
      this.intake,
      { topic: this.topic, partition: this.partition },
      contents.map((content, index) => anEnvelope(content, offset + index, claims)),
    );
  }
}

/**
 * An answer in short: "accepted", "skipped/zero_amount", "duplicate of accepted, differs", "without key",
 * each perhaps with ", again".
 */
export function brief({ decision }: Answer): string {
  const again = decision.redelivered ? ', again' : '';
  if (decision.type === 'unstored') {
    return (decision.deadLetter === null ? 'without key' : `dead letter ${decision.deadLetter}`) + again;
  }
  const { verdict, reason } = decision.type === 'duplicate' ? decision.first : decision.outcome;
  const name = reason === null ? verdict : `${verdict}/${reason}`;
  if (decision.type === 'decided') return name + again;
  return `duplicate of ${name}${decision.contentDiffers ? ', differs' : ''}${again}`;
}

/** Decides a batch of one partition. */
export async function decidePart(
  intake: Pick<Intake, 'decide'>,
  source: TopicPartition,
  envelopes: readonly Envelope[],
  expectedUpTo?: number,
  onSent: () => void = () => undefined,
): Promise<IntakeResult> {
  const whenSent = { questions: onSent, all: onSent };
  const [result] = await intake.decide([{ origin: source, envelopes, expectedUpTo }], whenSent);
  if (result === undefined) throw new Error('a part of a batch has no result');
  return result;
}
