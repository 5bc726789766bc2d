/**
 * A worker's connections to the model of the store. They behave as pg does with an answer, without one, and
 * when a connection breaks.
 */

import { StoreError } from '../../src/postgres/errors';
import type { Row, Write } from '../../src/postgres/pipeline';
import { CONNECT_TIMEOUT_MS } from '../../src/postgres/pool';
import {
  IDLE_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
  type Statement,
  type Store,
  type StoreConnection,
} from '../../src/postgres/transaction';
import { type Fault, type Faults, pointOf, type WorldFault } from './faults';
import type { Actor, Scheduler } from './scheduler';
import type { Request } from './statements';
import { type Backend, FAILURES, StoreFailure, type StoreModel, WRITING } from './store-model';
import type { Text } from './wire';

/** Requests that touch no table. */
const OF_TRANSACTIONS = ['start transaction', 'settings', 'commit', 'rollback'];
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** The network between workers and store, which may be interrupted. */
export interface Network {
  readonly scheduler: Scheduler;
  readonly store: StoreModel;
  readonly faults: Pick<Faults, 'at' | 'took' | 'lasts'>;
  isStoreAway: boolean;
  /**
   * Takes an error that comes neither from the store nor from pg: a statement that the model does not know.
   * It ends the run.
   */
  readonly onDefect: (error: unknown) => void;
  /** Every connection, to be cut together with the store. */
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
    readonly isFar: boolean = false,
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
    // A store that is away refuses in any case.
    if (fault !== null && (fault === 'silence before' || !this.network.isStoreAway))
      faults.took('connect', fault);
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

/** The fault of a request, and the function that counts it once it takes effect. */
interface Stroke {
  readonly fault: RequestFault;
  readonly took: () => void;
}

export class ModelConnection implements StoreConnection {
  isBroken = false;
  /** The network drops messages of the store, and hides the end of either side. */
  private isSilent = false;
  /** The network drops messages to the store, too. */
  private isSwallowed = false;
  /** The store has noticed the end of the connection, or has ended it. */
  private isEnded = false;
  /** Requests that the store has not finished yet. It handles one after another. */
  private underWay = 0;
  private dealtWith: Promise<void> = Promise.resolve();
  /** Functions that fail the requests without an answer, for when the connection is lost. */
  private readonly unanswered = new Set<(error: unknown) => void>();
  /** Answers in flight: they arrive in the order in which they were sent. */
  private readonly arriving: (() => void)[] = [];

  constructor(
    private readonly network: Network,
    readonly worker: Actor,
    private readonly backend: Backend,
    private readonly returnToPool: (isClean: boolean) => void,
  ) {
    network.connections.add(this);
  }

  async begin(): Promise<void> {
    await this.send('begin', [
      { name: 'start transaction', text: '' },
      { name: 'settings', text: '' },
    ]);
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
    this.returnToPool(reusable);
  }

  /** The client's side is gone: the store finishes the requests that it has received, and rolls back. */
  close(): void {
    this.isBroken = true;
    this.network.connections.delete(this);
    if (this.underWay === 0 && !this.isSilent) this.end();
  }

  /** Both sides are gone. */
  cut(): void {
    this.isBroken = true;
    this.network.connections.delete(this);
    if (this.unanswered.size > 0)
      this.network.scheduler.soon(this.worker, 'connection lost', () => this.lose());
  }

  /** The store receives nothing from the client any more, not even the end of the connection. */
  vanish(): void {
    this.isSilent = true;
    this.isSwallowed = true;
    this.network.connections.delete(this);
  }

  private send(point: string, message: readonly Request[]): Promise<Row[]> {
    const { scheduler, faults } = this.network;
    const names = message.filter(({ name }) => name !== 'start transaction').map(({ name }) => name);
    scheduler.note(this.worker.name, names.join(', '));
    return new Promise((resolve, reject) => {
      const failed = (error: unknown, at = 0) => {
        if (!this.unanswered.delete(failed)) return;
        if (!(error instanceof StoreFailure) && !(error instanceof ClientError)) this.network.onDefect(error);
        reject(new StoreError(names[at] ?? names[0] ?? point, error));
      };
      this.unanswered.add(failed);
      if (this.isBroken) {
        scheduler.soon(this.worker, 'not sent', () => failed(new ClientError(NOT_QUERYABLE)));
        return;
      }
      let fault: RequestFault | null;
      let took = () => {};
      try {
        const at = pointOf(point);
        fault = faults.at(at, this.worker.name);
        if (fault !== null) took = faults.took.bind(faults, at, fault);
      } catch (error) {
        failed(error);
        return;
      }
      const answered = (rows: Text[][]) => {
        if (this.unanswered.delete(failed)) resolve(rows);
      };
      void this.carry(message, fault && { fault, took }, answered, failed).catch(failed);
    });
  }

  /** The request's way to the store and back. */
  private async carry(
    message: readonly Request[],
    stroke: Stroke | null,
    answered: (rows: Text[][]) => void,
    failed: (error: unknown, at?: number) => void,
  ): Promise<void> {
    const { scheduler, store, faults } = this.network;
    const fault = stroke?.fault;
    const before = this.dealtWith;
    let done = () => {};
    this.dealtWith = new Promise((resolve) => {
      done = resolve;
    });
    this.underWay++;
    if (fault === 'silence before' || fault === 'silence after') {
      if (!this.isSilent || (fault === 'silence before' && !this.isSwallowed)) stroke?.took();
      this.isSilent = true;
      if (fault === 'silence before') this.isSwallowed = true;
      // The store keeps the locks of the transaction until it ends the transaction.
      faults.lasts(IDLE_TIMEOUT_MS);
    }
    if (this.isSilent) {
      // pg then closes the connection, which ends all of its requests.
      scheduler.after(ANSWER_TIMEOUT_MS, this.worker, 'no answer', () => {
        failed(new ClientError('Query read timeout'));
        this.lose();
      });
    }
    if (this.isSwallowed) return;
    await before;
    await scheduler.turn(store.actor, 'request');
    if (!this.isEnded) await this.deal(message, stroke, answered, failed);
    this.underWay--;
    if (this.isBroken && this.underWay === 0) this.end();
    done();
  }

  /** Handles a request on the store's side. */
  private async deal(
    message: readonly Request[],
    stroke: Stroke | null,
    answered: (rows: Text[][]) => void,
    failed: (error: unknown, at?: number) => void,
  ): Promise<void> {
    const { store } = this.network;
    const fault = stroke?.fault ?? null;
    const isOfAnswer = fault === 'cut before' || fault === 'answer lost';
    const isOfSilence = fault === 'silence before' || fault === 'silence after';
    if (!isOfSilence && !(isOfAnswer && this.isSilent)) stroke?.took();
    if (fault === 'cut before') {
      this.end();
      this.arrives('connection lost', () => this.lose());
      return;
    }
    if (fault === 'answer lost' && store.random.chance(0.5))
      this.arrives('connection lost', () => this.lose());
    if (fault === 'admin shutdown') {
      this.backend.terminate(FAILURES['admin shutdown']);
    }
    const failure = fault !== null && fault in FAILURES ? failureOf(fault) : null;
    const isRefused = fault === 'read-only' || fault === 'permission denied' || fault === 'missing column';
    if (failure !== null && isRefused) this.refuse(message, failure);
    // The begin of a transaction does not fail; its first statement may.
    const opening = message[0]?.name === 'start transaction' ? 1 : 0;
    const failing =
      failure === null || isRefused
        ? null
        : { index: opening + store.random.below(message.length - opening), failure };
    try {
      const rows = await this.backend.execute(message, failing);
      if (fault === 'answer lost') {
        this.end();
        this.arrives('connection lost', () => this.lose());
      } else {
        this.arrives('answer', () => answered(rows));
      }
    } catch (error) {
      if (!(error instanceof StoreFailure)) throw error;
      const at = Math.max(0, this.backend.done - opening);
      const isEnd = error.code === '57P01' || error.code === '25P03';
      if (isEnd) this.isEnded = true;
      this.arrives('error', () => {
        failed(error, at);
        if (isEnd) this.lose();
      });
    }
  }

  /** The store refuses a statement of the message, or all writing statements, for a while from now on. */
  private refuse(message: readonly Request[], failure: StoreFailure): void {
    const { store, faults } = this.network;
    const ms = store.random.pick([100, 3_000, 40_000]);
    const named = message.map(({ name }) => name).filter((name) => !OF_TRANSACTIONS.includes(name));
    store.refuse(failure === FAILURES['read-only'] ? WRITING : [store.random.pick(named)], failure, ms);
    faults.lasts(ms);
  }

  /** Delivers a message to the client, unless the network drops it. */
  private arrives(what: string, run: () => void): void {
    if (this.isSilent) return;
    this.arriving.push(run);
    this.network.scheduler.soon(this.worker, what, () => this.arriving.shift()?.());
  }

  private end(): void {
    this.isEnded = true;
    this.backend.close();
  }

  /** Fails every request without an answer, in the order in which they were sent. */
  private lose(): void {
    this.isBroken = true;
    for (const failed of [...this.unanswered]) failed(new ClientError(TERMINATED));
  }
}

function failureOf(fault: RequestFault): StoreFailure {
  const found = Object.entries(FAILURES).find(([name]) => name === fault);
  if (found === undefined) throw new Error(`unknown failure of the store: ${fault}`);
  return found[1];
}

/** An error of pg, not of the store. */
class ClientError extends Error {}
const TERMINATED = 'Connection terminated unexpectedly';
const NOT_QUERYABLE = 'Client has encountered a connection error and is not queryable';
