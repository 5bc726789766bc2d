/**
 * A model of the store of a fold. It has one lock, transactions of READ COMMITTED, and batches that are open.
 * A standby may take over that lacks the last transactions. test/ledger/fold-model.test.ts compares its
 * statements with Postgres.
 */
import { IDLE_TIMEOUT_MS, LOCK_TIMEOUT_MS } from '../../src/postgres/transaction';
import { LEDGER_STATEMENTS } from './fold-ledger-statements';
import { RECORD_STATEMENTS } from './fold-record-statements';
import { RESULT_STATEMENTS } from './fold-result-statements';
import { FOLD_STATEMENTS, type FoldSession } from './fold-statements';
import { copyTables, emptyTables, type FoldTables, type LedgerTables } from './fold-tables';
import { Actor, type Scheduler } from './scheduler';
import { FAILURES, StoreFailure } from './store-model';
import type { Text } from './wire';

const STATEMENTS = {
  ...FOLD_STATEMENTS,
  ...LEDGER_STATEMENTS,
  ...RECORD_STATEMENTS,
  ...RESULT_STATEMENTS,
};
/** Between two looks of a statement that waits. */
const LOOK_MS = 40;
/** Earlier states that a standby may have. */
const STATES = 40;

/** The tables after a commit. */
interface CommittedState {
  readonly ledger: LedgerTables;
  readonly tables: FoldTables;
  readonly lastBatchNo: number;
}

export class FoldStoreModel {
  readonly actor = new Actor('store');
  isAway = false;
  /** The transaction that has the lock of the fold. */
  holder: FoldBackend | null = null;
  readonly openBatches = new Set<number>();
  lastBatchNo = 0;
  timeline = 1;
  /** How often rows of another store came. */
  arrivals = 0;
  private windows = 0;
  private readonly states: CommittedState[] = [];
  private readonly backends = new Set<FoldBackend>();

  constructor(
    readonly scheduler: Scheduler,
    /** Milliseconds since 1970 at the begin of virtual time. */
    private readonly epochMs: number,
    ledger: LedgerTables,
    /** Sees each transaction of the fold that changed something. */
    private readonly onCommit: (before: FoldTables, after: FoldTables) => void,
  ) {
    this.states.push({ ledger, tables: emptyTables(), lastBatchNo: 0 });
  }

  now(): bigint {
    return BigInt(Math.round((this.epochMs + this.scheduler.now()) * 1_000));
  }

  lineage(): string {
    return `system/${this.timeline}/${this.arrivals}`;
  }

  /** Numbers are in no order, and a transaction that fails uses them up. */
  nextWindowNo(_key: string): number {
    return ++this.windows;
  }

  get committed(): CommittedState {
    const state = this.states.at(-1);
    if (state === undefined) throw new Error('the store has no state');
    return state;
  }

  /** Commits what another process writes. */
  write(ledger: LedgerTables, tables = this.committed.tables): void {
    this.push(ledger, tables);
  }

  commit(tables: FoldTables): void {
    const before = this.committed.tables;
    this.push(this.committed.ledger, tables);
    this.onCommit(before, tables);
  }

  private push(ledger: LedgerTables, tables: FoldTables): void {
    this.states.push({ ledger, tables, lastBatchNo: this.lastBatchNo });
    if (this.states.length > STATES) this.states.shift();
  }

  open(): FoldBackend {
    const backend = new FoldBackend(this);
    this.backends.add(backend);
    return backend;
  }

  closed(backend: FoldBackend): void {
    this.backends.delete(backend);
  }

  endAll(): void {
    for (const backend of [...this.backends]) backend.end();
  }

  /**
   * A standby takes over that lacks the last transactions: of fold and intake together.
   *
   * @param ahead numbers that the sequence skips: a standby knows its value some numbers ahead
   */
  fallBack(transactions: number, ahead: number): void {
    this.endAll();
    this.openBatches.clear();
    this.timeline++;
    const kept = Math.max(1, this.states.length - transactions);
    this.states.splice(kept);
    this.lastBatchNo = this.committed.lastBatchNo + ahead;
  }
}

/** A connection on the store's side. */
export class FoldBackend {
  isEnded = false;
  private isOpen = false;
  private hasFailed = false;
  private draft: FoldTables | null = null;
  private requests = 0;
  /** The rows of the scan that is read in pages. */
  private page: Text[][] | null = null;

  constructor(private readonly store: FoldStoreModel) {}

  /** @throws StoreFailure */
  async run(name: string, values: readonly unknown[]): Promise<Text[][]> {
    this.requests++;
    try {
      return await this.statement(name, values);
    } catch (error) {
      this.hasFailed = true;
      throw error;
    } finally {
      if (this.isOpen) this.watch();
    }
  }

  /** A request fails, and the transaction with it. */
  fail(): void {
    this.requests++;
    this.isOpen = true;
    this.hasFailed = true;
    this.watch();
  }

  private async statement(name: string, values: readonly unknown[]): Promise<Text[][]> {
    this.check();
    switch (name) {
      case 'begin':
        this.isOpen = true;
        this.hasFailed = false;
        return [];
      case 'commit':
        if (this.draft !== null && !this.hasFailed) this.store.commit(this.draft);
        this.over();
        return [];
      case 'rollback':
        this.over();
        return [];
      default: {
        if (!this.isOpen) throw new Error(`${name} outside of a transaction`);
        if (this.hasFailed) throw new StoreFailure('25P02', 'current transaction is aborted');
        const statement = STATEMENTS[name];
        if (statement === undefined) throw new Error(`the model does not know the statement ${name}`);
        const rows = await statement(this.session(), values);
        this.check();
        return rows;
      }
    }
  }

  private session(): FoldSession {
    const { store } = this;
    const draft = () => this.draft;
    return {
      now: () => store.now(),
      lineage: () => store.lineage(),
      lastBatch: () => store.lastBatchNo,
      nextWindowNo: (key) => store.nextWindowNo(key),
      ledger: store.committed.ledger,
      get seen() {
        return draft() ?? store.committed.tables;
      },
      changed: () => {
        if (store.holder !== this) throw new Error('a transaction changes results without the lock');
        this.draft ??= copyTables(store.committed.tables);
        return this.draft;
      },
      declare: (rows) => {
        if (this.page !== null) throw new StoreFailure('42P03', 'the cursor exists already');
        this.page = rows;
        return [];
      },
      nextPage: (rows) => this.page?.splice(0, rows) ?? [],
      endPages: () => {
        this.page = null;
        return [];
      },
      tryLock: () => {
        store.holder ??= this;
        return store.holder === this;
      },
      lock: () =>
        this.until(
          LOCK_TIMEOUT_MS,
          () => {
            store.holder ??= this;
            return store.holder === this;
          },
          FAILURES['lock timeout'],
        ),
      waitForBatches: (patienceMs) => {
        const open = [...store.openBatches];
        const failure = new StoreFailure('55P03', 'a batch is open for long');
        return this.until(patienceMs, () => open.every((each) => !store.openBatches.has(each)), failure);
      },
    };
  }

  private async until(withinMs: number, holds: () => boolean, failure: StoreFailure): Promise<void> {
    const { scheduler, actor } = this.store;
    const endsAt = scheduler.now() + withinMs;
    while (!holds()) {
      if (scheduler.now() >= endsAt) throw failure;
      await new Promise<void>((resolve) => scheduler.after(LOOK_MS, actor, 'waits', resolve));
      this.check();
    }
  }

  private check(): void {
    if (this.isEnded) throw FAILURES['admin shutdown'];
  }

  /** Ends a transaction whose client stays silent. */
  private watch(): void {
    const { requests } = this;
    this.store.scheduler.after(IDLE_TIMEOUT_MS, this.store.actor, 'idle in transaction', () => {
      if (this.isOpen && this.requests === requests) this.end();
    });
  }

  private over(): void {
    this.isOpen = false;
    this.draft = null;
    this.page = null;
    if (this.store.holder === this) this.store.holder = null;
  }

  /** Ends the connection, and rolls its transaction back. */
  end(): void {
    this.isEnded = true;
    this.over();
    this.store.closed(this);
  }
}
