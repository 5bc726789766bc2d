/**
 * A model of Postgres, as far as our statements can observe it. Each statement of READ COMMITTED has a
 * snapshot of its own, and row locks are granted in line. A unique key waits for a writer whose transaction
 * is still open. A deadlock is found after a second, and the three timeouts apply.
 * test/support/store-contract.ts compares the model with a real Postgres.
 */
import type { Random } from '../../dev/random';
import { IDLE_TIMEOUT_MS, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '../../src/postgres/transaction';
import { Actor, type Scheduler } from './scheduler';
import { type Request, run } from './statements';
import type { Text, Values } from './wire';

const DEADLOCK_TIMEOUT_MS = 1_000;

/** An error as the store reports it. */
export class StoreFailure extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly constraint?: string,
  ) {
    super(message);
  }
}

export const FAILURES = {
  'lock timeout': new StoreFailure('55P03', 'canceling statement due to lock timeout'),
  deadlock: new StoreFailure('40P01', 'deadlock detected'),
  'serialization failure': new StoreFailure('40001', 'could not serialize access due to concurrent update'),
  'statement timeout': new StoreFailure('57014', 'canceling statement due to statement timeout'),
  'admin shutdown': new StoreFailure('57P01', 'terminating connection due to administrator command'),
  'disk full': new StoreFailure('53100', 'could not extend file: No space left on device'),
  'read-only': new StoreFailure('25006', 'cannot execute in a read-only transaction'),
  'permission denied': new StoreFailure('42501', 'permission denied for table'),
  'missing column': new StoreFailure('42703', 'column does not exist'),
  'too many connections': new StoreFailure('53300', 'sorry, too many clients already'),
} as const;

/** The statements that a read-only store refuses: they change rows or sequences, or lock rows. */
export const WRITING: readonly string[] = [
  ...['partition_no', 'lock_partitions', 'lock_rounds', 'next_batch', 'update_rounds', 'count_partitions'],
  ...[
    'record_panic',
    'copy_keys',
    'copy_rounds',
    'copy_history',
    'copy_resends',
    'copy_unstored',
    'copy_faults',
  ],
  'lock_feeds',
];

/** The holder has changed the row, or is about to; other transactions wait in line. */
export class Lock {
  holder: Transaction | null = null;
  readonly queue: Waiter[] = [];
}

interface Waiter {
  readonly transaction: Transaction;
  readonly grant: () => void;
  /** Called when the waiter becomes the first in line. */
  readonly isNext: () => void;
}

/**
 * A row by its key: its committed versions, and the pending values of the transaction that holds its lock.
 */
export class Row extends Lock {
  readonly versions: { readonly since: number; readonly values: Values }[] = [];
  pending: Values | null = null;

  get newest(): Values | undefined {
    return this.versions.at(-1)?.values;
  }

  /** The values that a statement sees that began when `snapshot` transactions had committed. */
  seenAt(snapshot: number, by: Transaction): Values | undefined {
    if (this.pending !== null && this.holder === by) return this.pending;
    for (let index = this.versions.length - 1; index >= 0; index--) {
      const version = this.versions[index];
      if (version !== undefined && version.since <= snapshot) return version.values;
    }
    return undefined;
  }
}

export type AppendOnly = 'history' | 'resends' | 'unstored' | 'faults' | 'panics';

export class Transaction {
  readonly locks = new Set<Lock>();
  readonly changed = new Map<Row, string>();
  readonly appended: { readonly table: AppendOnly; readonly values: Values }[] = [];
  waitingFor: Lock | null = null;
  hasFailed = false;
  /** The version of the reference data in force when the transaction began. */
  readonly beganUnder: number;

  constructor(beganUnder: number) {
    this.beganUnder = beganUnder;
  }
}

export class StoreModel {
  readonly actor = new Actor('store');
  readonly partitions = new Map<string, Row>();
  readonly eventKeys = new Map<string, Row>();
  readonly rounds = new Map<string, Row>();
  readonly feeds = new Map<string, Row>();
  readonly appended: Record<AppendOnly, { readonly since: number; readonly values: Values }[]> = {
    history: [],
    resends: [],
    unstored: [],
    faults: [],
    panics: [],
  };
  /** Documents of the reference data. The first one is version 1. */
  readonly references: { readonly since: number; readonly appliedAt: string; readonly document: string }[] =
    [];
  /** Numbers of names, as in promo_store.feeds and similar tables: type, operator, name, number. */
  readonly numbers: (readonly [type: string, operator: string, name: string, no: string])[] = [];
  /** Number of committed transactions. */
  committed = 0;
  nextBatchNo = 1;
  nextPartitionNo = 1;
  /** Number of deadlocks, without the injected ones. */
  deadlocks = 0;
  private readonly backends = new Set<Backend>();
  /** Statements that fail for every client, with the failure of each. */
  private readonly refusals = new Set<{ names: readonly string[]; failure: StoreFailure }>();

  constructor(
    readonly scheduler: Scheduler,
    readonly random: Random,
    /** Sees each transaction that changed something, at its commit. */
    private readonly onCommit: (transaction: Transaction) => void,
    /** A trigger on history that raises an exception for some rows. */
    readonly refuses: (history: Values) => boolean = () => false,
    /** Chance that a statement yields to others after one of its rows; drawn again after each yield. */
    readonly betweenRows = 0.3,
  ) {}

  /** Microseconds since 1970. */
  nowMicros(): bigint {
    return 1_795_262_400_000_000n + BigInt(Math.round(this.scheduler.now() * 1000));
  }

  /** Year, month and key: of the first month of the simulation and of the next two. */
  playerKeys(): (string | null)[][] {
    const keys = [
      ['2026', '11', '11'.repeat(16)],
      ['2026', '12', '12'.repeat(16)],
      ['2027', '1', '01'.repeat(16)],
    ];
    return keys.map(([year = '', month = '', key = '']) => [year, month, `\\x${key}`]);
  }

  open(): Backend {
    const backend = new Backend(this);
    this.backends.add(backend);
    return backend;
  }

  closed(backend: Backend): void {
    this.backends.delete(backend);
  }

  /** Ends every connection, as a restart does. */
  terminateAll(): void {
    for (const backend of [...this.backends]) backend.terminate(FAILURES['admin shutdown']);
  }

  /**
   * Models a failover to a standby that has not received the last transactions: they are gone, and so is
   * every connection. The first reference data was applied long before, so it stays. A later version may be
   * gone, and its number is then given to another version.
   *
   * @param least this transaction and all earlier ones stay
   * @returns whether any transaction was lost
   */
  fallBack(transactions: number, least: number): boolean {
    this.terminateAll();
    const since = Math.max(this.committed - transactions, this.references[0]?.since ?? 0, least);
    let lost = 0;
    const forget = (versions: { readonly since: number }[]) => {
      for (; (versions.at(-1)?.since ?? 0) > since; lost++) versions.pop();
    };
    for (const rows of [this.partitions, this.eventKeys, this.rounds])
      for (const { versions } of rows.values()) forget(versions);
    for (const rows of Object.values(this.appended)) forget(rows);
    forget(this.references);
    return lost > 0;
  }

  /** These statements fail for a while each time, as after a bad deploy or on a standby. */
  refuse(names: readonly string[], failure: StoreFailure, ms: number): void {
    const refusal = { names, failure };
    this.refusals.add(refusal);
    this.scheduler.after(ms, this.actor, 'refuses no more', () => this.refusals.delete(refusal));
  }

  refusalOf(name: string): StoreFailure | undefined {
    return [...this.refusals].find(({ names }) => names.includes(name))?.failure;
  }

  commit(transaction: Transaction): void {
    if (transaction.changed.size > 0 || transaction.appended.length > 0) {
      this.committed++;
      for (const row of transaction.changed.keys()) {
        if (row.pending !== null) row.versions.push({ since: this.committed, values: row.pending });
        row.pending = null;
      }
      for (const { table, values } of transaction.appended)
        this.appended[table].push({ since: this.committed, values });
      this.onCommit(transaction);
    }
    this.release(transaction);
  }

  rollback(transaction: Transaction): void {
    for (const row of transaction.changed.keys()) row.pending = null;
    this.release(transaction);
  }

  private release(transaction: Transaction): void {
    for (const lock of transaction.locks) this.pass(lock);
    transaction.locks.clear();
  }

  /** Gives a lock to the next transaction in line. */
  pass(lock: Lock): void {
    const next = lock.queue.shift();
    lock.holder = next?.transaction ?? null;
    next?.grant();
    lock.queue[0]?.isNext();
  }

  /** Whether waiting for this lock closes a cycle of transactions that wait for one another. */
  isDeadlock(from: Transaction): boolean {
    const seen = new Set<Transaction>();
    const visit = (transaction: Transaction): boolean => {
      const { waitingFor } = transaction;
      if (waitingFor === null) return false;
      const ahead = waitingFor.queue.findIndex((waiter) => waiter.transaction === transaction);
      const blockers = waitingFor.queue.slice(0, Math.max(0, ahead)).map((waiter) => waiter.transaction);
      if (waitingFor.holder !== null) blockers.push(waitingFor.holder);
      return blockers.some((blocker) => {
        if (blocker === from) return true;
        if (seen.has(blocker)) return false;
        seen.add(blocker);
        return visit(blocker);
      });
    };
    return visit(from);
  }
}

/** A connection on the store's side: one statement after another, in a transaction or between two. */
export class Backend {
  private transaction: Transaction | null = null;
  private isBusy = false;
  private isClosing = false;
  private ended: StoreFailure | null = null;
  private idleSince = 0;
  private isWatched = false;
  /** Ends the present wait for a lock. */
  private interrupt: ((error: StoreFailure) => void) | null = null;
  /** Number of statements of the present message that have finished. */
  done = 0;

  constructor(private readonly store: StoreModel) {}

  /**
   * Runs the statements of one message one after another.
   *
   * @param failing the statement that fails without having run, and its failure
   * @returns the rows of the last statement
   * @throws StoreFailure; the later statements do not run
   */
  async execute(
    message: readonly Request[],
    failing: { readonly index: number; readonly failure: StoreFailure } | null,
  ): Promise<Text[][]> {
    this.isBusy = true;
    this.done = 0;
    let rows: Text[][] = [];
    try {
      for (const [index, request] of message.entries()) {
        this.check();
        if (failing?.index === index) throw failing.failure;
        rows = await this.statement(request);
        this.check();
        this.done++;
      }
      return rows;
    } catch (error) {
      if (this.transaction !== null) this.transaction.hasFailed = true;
      throw error;
    } finally {
      this.isBusy = false;
      this.idleSince = this.store.scheduler.now();
      if (this.isClosing) this.end();
      else this.watch();
    }
  }

  private async statement(request: Request): Promise<Text[][]> {
    const { store } = this;
    switch (request.name) {
      case 'start transaction':
        this.transaction = new Transaction(store.references.length);
        return [];
      case 'commit':
      case 'rollback': {
        const { transaction } = this;
        this.transaction = null;
        if (transaction === null) return [];
        // Postgres turns the commit of a failed transaction into a rollback, silently.
        if (request.name === 'commit' && !transaction.hasFailed) store.commit(transaction);
        else store.rollback(transaction);
        return [];
      }
      default: {
        const { transaction } = this;
        if (transaction === null) throw new Error(`${request.name} outside of a transaction`);
        if (transaction.hasFailed)
          throw new StoreFailure('25P02', 'current transaction is aborted, commands ignored until end');
        const refusal = store.refusalOf(request.name);
        if (refusal !== undefined) throw refusal;
        return run(new Execution(store, this, transaction), request);
      }
    }
  }

  /** @throws StoreFailure once the connection was terminated */
  check(): void {
    if (this.ended !== null) throw this.ended;
  }

  /**
   * Waits in line for a lock.
   * @throws StoreFailure
   */
  wait(transaction: Transaction, lock: Lock, statementEndsAt: number): Promise<void> {
    const { scheduler, actor } = this.store;
    return new Promise((resolve, reject) => {
      let timers: (() => void)[] = [];
      const stopTimers = () => {
        for (const cancel of timers) cancel();
        timers = [];
      };
      const over = () => {
        stopTimers();
        stopStatement();
        transaction.waitingFor = null;
        this.interrupt = null;
      };
      const fail = (error: StoreFailure) => {
        over();
        const place = lock.queue.indexOf(waiter);
        if (place >= 0) lock.queue.splice(place, 1);
        if (place === 0) lock.queue[0]?.isNext();
        reject(error);
      };
      const failAfter = (ms: number, failureNow: () => StoreFailure | null) =>
        scheduler.after(Math.max(0, ms), actor, 'end of a wait', () => {
          const failure = failureNow();
          if (failure === null) return;
          scheduler.note('store', failure.message);
          fail(failure);
        });
      const startTimers = () => {
        timers.push(
          failAfter(LOCK_TIMEOUT_MS, () => FAILURES['lock timeout']),
          failAfter(DEADLOCK_TIMEOUT_MS, () => {
            if (!this.store.isDeadlock(transaction)) return null;
            this.store.deadlocks++;
            return FAILURES.deadlock;
          }),
        );
      };
      const waiter: Waiter = {
        transaction,
        grant: () => {
          over();
          transaction.locks.add(lock);
          scheduler.soon(actor, 'lock granted', resolve);
        },
        isNext: () => {
          // Postgres waits twice for a locked row: first for the place at the head of its line, then for the
          // row. Each wait has its own timers.
          if (!(lock instanceof Row) || lock.newest === undefined) return;
          stopTimers();
          startTimers();
        },
      };
      lock.queue.push(waiter);
      transaction.waitingFor = lock;
      this.interrupt = fail;
      const stopStatement = failAfter(statementEndsAt - scheduler.now(), () => FAILURES['statement timeout']);
      startTimers();
    });
  }

  /**
   * The client has closed the connection: the running statement finishes, then the transaction is rolled
   * back.
   */
  close(): void {
    this.isClosing = true;
    if (!this.isBusy) this.end();
  }

  /** Ends the connection at once, even in the middle of a statement. */
  terminate(failure: StoreFailure): void {
    this.ended ??= failure;
    this.interrupt?.(failure);
    this.end();
  }

  private end(): void {
    this.ended ??= FAILURES['admin shutdown'];
    if (this.transaction !== null) {
      this.transaction.hasFailed = true;
      this.store.rollback(this.transaction);
    }
    this.transaction = null;
    this.store.closed(this);
  }

  /** Ends a transaction whose client stays silent for too long. */
  private watch(): void {
    if (this.isWatched || this.transaction === null) return;
    this.isWatched = true;
    const { scheduler, actor } = this.store;
    scheduler.after(this.idleSince + IDLE_TIMEOUT_MS - scheduler.now(), actor, 'idle in transaction', () => {
      this.isWatched = false;
      if (this.transaction === null || this.ended !== null) return;
      if (this.isBusy || scheduler.now() < this.idleSince + IDLE_TIMEOUT_MS) {
        if (!this.isBusy) this.watch();
        return;
      }
      scheduler.note('store', 'an idle transaction is ended');
      this.terminate(new StoreFailure('25P03', 'terminating connection due to idle-in-transaction timeout'));
    });
  }
}

/** One statement that is running: its snapshot, and its changes to rows. */
export class Execution {
  /** READ COMMITTED: the number of transactions committed when the statement began. */
  readonly snapshot: number;
  private readonly endsAt: number;

  constructor(
    readonly store: StoreModel,
    private readonly backend: Backend,
    readonly transaction: Transaction,
  ) {
    this.snapshot = store.committed;
    this.endsAt = store.scheduler.now() + STATEMENT_TIMEOUT_MS;
  }

  /** Other statements may run between two rows of a statement. */
  async betweenRows(): Promise<void> {
    while (this.store.random.chance(this.store.betweenRows)) {
      await this.store.scheduler.turn(this.store.actor, 'between rows');
      this.backend.check();
    }
  }

  async lock(lock: Lock): Promise<void> {
    if (lock.holder === this.transaction) return;
    if (lock.holder === null) {
      lock.holder = this.transaction;
      this.transaction.locks.add(lock);
      return;
    }
    await this.backend.wait(this.transaction, lock, this.endsAt);
    this.backend.check();
  }

  seen(row: Row): Values | undefined {
    return row.seenAt(this.snapshot, this.transaction);
  }

  /** A row as it is now, to be changed by the holder of its lock. */
  current(row: Row): Values | undefined {
    return row.pending !== null && row.holder === this.transaction ? row.pending : row.newest;
  }

  change(row: Row, table: string, values: Values): void {
    row.pending = values;
    this.transaction.changed.set(row, table);
  }

  /**
   * Adds a row with a unique key. Waits for another writer of the key to commit or roll back.
   *
   * @returns whether it added the row; false where the key exists
   */
  async insert(rows: Map<string, Row>, key: string, table: string, values: () => Values): Promise<boolean> {
    let row = rows.get(key);
    if (row === undefined) {
      row = new Row();
      rows.set(key, row);
    }
    if (row.newest !== undefined || (row.pending !== null && row.holder === this.transaction)) return false;
    await this.lock(row);
    if (row.newest !== undefined) {
      this.transaction.locks.delete(row);
      this.store.pass(row);
      return false;
    }
    this.change(row, table, values());
    return true;
  }

  append(table: AppendOnly, values: Values): void {
    this.transaction.appended.push({ table, values });
  }
}
