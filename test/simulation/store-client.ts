/** A worker's connections to the model of the store: what pg does with answers, with none, and with a connection that breaks. */
import {
  IDLE_TIMEOUT_MS,
  type Row,
  STATEMENT_TIMEOUT_MS,
  type Statement,
  type Store,
  type StoreConnection,
} from '../../src/ledger/connection';
import { StoreError } from '../../src/ledger/failures';
import type { Write } from '../../src/ledger/writing';
import { type Fault, type Faults, pointOf, type WorldFault } from './faults';
import type { Actor, Scheduler } from './scheduler';
import type { Request } from './statements';
import { type Backend, FAILURES, StoreFailure, type StoreModel } from './store-model';
import type { Text } from './wire';

const CONNECT_TIMEOUT_MS = 5_000;
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** The way to the store: it may be away. */
export interface Network {
  readonly scheduler: Scheduler;
  readonly store: StoreModel;
  readonly faults: Pick<Faults, 'at' | 'lasts'>;
  isStoreAway: boolean;
  /** Takes what is neither the store's error nor pg's: a statement that the model does not know. The run ends with it. */
  readonly onDefect: (error: unknown) => void;
  /** Every connection, to be cut with the store. */
  readonly connections: Set<ModelConnection>;
}

export class ModelPool implements Store {
  private readonly idle: ModelConnection[] = [];
  private readonly waiting: (() => void)[] = [];
  private size = 0;

  constructor(
    private readonly network: Network,
    private readonly worker: Actor,
    private readonly maxConnections: number,
  ) {}

  async acquire(): Promise<StoreConnection> {
    const { scheduler } = this.network;
    for (;;) {
      const idle = this.idle.pop();
      if (idle !== undefined) {
        if (!idle.isBroken) return idle;
        this.size--;
        continue;
      }
      if (this.size < this.maxConnections) break;
      await new Promise<void>((resolve, reject) => {
        const cancel = scheduler.after(CONNECT_TIMEOUT_MS, this.worker, 'no connection is free', () => {
          this.waiting.splice(this.waiting.indexOf(next), 1);
          reject(new StoreError('connect', new Error('timeout exceeded when trying to connect')));
        });
        const next = () => {
          cancel();
          resolve();
        };
        this.waiting.push(next);
      });
    }
    this.size++;
    try {
      return await this.connect();
    } catch (error) {
      this.freed();
      throw new StoreError('connect', error);
    }
  }

  private freed(): void {
    this.size--;
    this.waiting.shift()?.();
  }

  private async connect(): Promise<ModelConnection> {
    const { scheduler, store, faults } = this.network;
    const fault = faults.at('connect', this.worker.name);
    await scheduler.turn(store.actor, 'connect');
    if (fault === 'silence before') {
      faults.lasts(CONNECT_TIMEOUT_MS);
      await new Promise<void>((resolve) =>
        scheduler.after(CONNECT_TIMEOUT_MS, this.worker, 'connect timeout', resolve),
      );
      throw new Error('Connection terminated due to connection timeout');
    }
    const backend = fault === null && !this.network.isStoreAway ? store.open() : null;
    await scheduler.turn(this.worker, 'connected');
    if (fault === 'too many connections') throw FAILURES['too many connections'];
    if (backend === null) throw new Error('connect ECONNREFUSED');
    const connection = new ModelConnection(this.network, this.worker, backend, (isClean) => {
      if (isClean) {
        this.idle.push(connection);
        this.waiting.shift()?.();
      } else {
        this.freed();
      }
    });
    return connection;
  }
}

type RequestFault = Exclude<Fault, WorldFault>;

export class ModelConnection implements StoreConnection {
  isBroken = false;
  /** The network swallows everything: not even its end is heard of on the other side. */
  private isSilent = false;
  private isSent = false;
  private fail: ((error: Error) => void) | null = null;

  constructor(
    private readonly network: Network,
    readonly worker: Actor,
    private readonly backend: Backend,
    private readonly giveBack: (isClean: boolean) => void,
  ) {
    network.connections.add(this);
  }

  begin(opening: Statement): Promise<Row[]> {
    return this.send(opening.name, [{ name: 'start transaction', text: '' }, opening]);
  }

  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.send(statement.name, [{ ...statement, values }]);
  }

  async write(writes: readonly Write[]): Promise<void> {
    const message = writes.map(
      ({ name, text, rows }): Request =>
        rows === undefined ? { name, text } : { name, text, rows: Buffer.from(rows.end()) },
    );
    for (const { rows } of writes) rows?.recycle();
    const last = writes.at(-1)?.name;
    const isEnd = last === 'commit' || last === 'rollback';
    const isAlone = writes.length === 1 && isEnd;
    await this.send(isAlone ? last : isEnd ? 'write and commit' : 'write', message);
  }

  release(isClean: boolean): void {
    const reusable = isClean && !this.isBroken;
    if (!reusable) this.close();
    this.giveBack(reusable);
  }

  /** The client's side is gone: the store does to its end what it has been sent, and rolls back. */
  close(): void {
    this.isBroken = true;
    this.network.connections.delete(this);
    if (!this.isSent && !this.isSilent) this.backend.close();
  }

  /** Both sides are gone. */
  cut(): void {
    this.isBroken = true;
    this.network.connections.delete(this);
    const { fail } = this;
    this.fail = null;
    if (fail !== null)
      this.network.scheduler.soon(this.worker, 'connection lost', () => fail(new ClientError(TERMINATED)));
  }

  /** Nothing is heard of the client any more, nor that it is gone. */
  vanish(): void {
    this.isSilent = true;
    this.network.connections.delete(this);
  }

  private send(point: string, message: readonly Request[]): Promise<Row[]> {
    const { scheduler, faults } = this.network;
    const names = message.filter(({ name }) => name !== 'start transaction').map(({ name }) => name);
    scheduler.note(this.worker.name, names.join(', '));
    return new Promise((resolve, reject) => {
      const failed = (error: unknown, at = 0) => {
        this.fail = null;
        if (!(error instanceof StoreFailure) && !(error instanceof ClientError)) this.network.onDefect(error);
        reject(new StoreError(names[at] ?? names[0] ?? point, error));
      };
      if (this.isBroken) {
        scheduler.soon(this.worker, 'not sent', () => failed(new ClientError(NOT_QUERYABLE)));
        return;
      }
      // pg sends nothing before it has the answer to what was sent before, and sets no deadline for what it has not sent.
      if (this.isSent) return;
      let fault: RequestFault | null;
      try {
        fault = faults.at(pointOf(point), this.worker.name);
      } catch (error) {
        failed(error);
        return;
      }
      this.isSent = true;
      this.fail = failed;
      const answered = (rows: Text[][]) => {
        if (this.fail !== failed) return;
        this.fail = null;
        resolve(rows);
      };
      const failedOnce = (error: unknown, at?: number) => {
        if (this.fail === failed) failed(error, at);
      };
      void this.carry(message, fault, answered, failedOnce).catch(failedOnce);
    });
  }

  /** The request's way to the store and back. */
  private async carry(
    message: readonly Request[],
    fault: RequestFault | null,
    answered: (rows: Text[][]) => void,
    failed: (error: unknown, at?: number) => void,
  ): Promise<void> {
    const { scheduler, store, faults } = this.network;
    const toClient = (what: string, run: () => void) => scheduler.soon(this.worker, what, run);
    if (fault === 'silence before' || fault === 'silence after') {
      this.isSilent = true;
      // The store keeps what the transaction has locked until it ends it.
      faults.lasts(IDLE_TIMEOUT_MS);
      scheduler.after(ANSWER_TIMEOUT_MS, this.worker, 'no answer', () =>
        failed(new ClientError('Query read timeout')),
      );
      if (fault === 'silence before') return;
    }
    await scheduler.turn(store.actor, 'request');
    if (fault === 'cut before') {
      this.backend.close();
      toClient('connection lost', () => this.lose(failed));
      return;
    }
    if (fault === 'answer lost' && store.random.chance(0.5))
      toClient('connection lost', () => this.lose(failed));
    if (fault === 'admin shutdown') {
      this.backend.terminate(FAILURES['admin shutdown']);
    }
    const failure = fault !== null && fault in FAILURES ? failureOf(fault) : null;
    const failing = failure === null ? null : { index: store.random.below(message.length), failure };
    try {
      const rows = await this.backend.execute(message, failing);
      if (this.isSilent) return;
      if (fault === 'answer lost') {
        this.isSent = false;
        this.backend.close();
        toClient('connection lost', () => this.lose(failed));
        return;
      }
      this.isSent = false;
      if (this.isBroken) this.backend.close();
      toClient('answer', () => answered(rows));
    } catch (error) {
      if (!(error instanceof StoreFailure)) throw error;
      if (this.isSilent) return;
      this.isSent = false;
      const opening = message[0]?.name === 'start transaction' ? 1 : 0;
      const at = Math.max(0, this.backend.done - opening);
      const isEnd = error.code === '57P01' || error.code === '25P03';
      if (this.isBroken) this.backend.close();
      toClient('error', () => {
        if (isEnd) this.isBroken = true;
        failed(error, at);
      });
    }
  }

  private lose(failed: (error: unknown) => void): void {
    this.isBroken = true;
    failed(new ClientError(TERMINATED));
  }
}

function failureOf(fault: RequestFault): StoreFailure {
  const found = Object.entries(FAILURES).find(([name]) => name === fault);
  if (found === undefined) throw new Error(`no failure of the store is named ${fault}`);
  return found[1];
}

/** An error of pg, not of the store. */
class ClientError extends Error {}
const TERMINATED = 'Connection terminated unexpectedly';
const NOT_QUERYABLE = 'Client has encountered a connection error and is not queryable';
