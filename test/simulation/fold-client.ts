/** The connections of a process to the model of the store of a fold, and the faults on their way. */
import type { Random } from '../../dev/random';
import { StoreError } from '../../src/postgres/errors';
import type { Row, Write } from '../../src/postgres/pipeline';
import type { Statement, Store, StoreConnection } from '../../src/postgres/transaction';
import type { FoldFault, FoldFaults } from './fold-faults';
import type { FoldBackend, FoldStoreModel } from './fold-store';
import type { Actor } from './scheduler';
import { FAILURES, StoreFailure } from './store-model';
import type { Text } from './wire';

const ANSWER_TIMEOUT_MS = 10_000;
const LONGEST_FREEZE_MS = 30_000;

export interface FoldNetwork {
  readonly store: FoldStoreModel;
  readonly faults: FoldFaults;
  readonly random: Random;
  /** Causes a fault of a process or of the store, at once. */
  readonly strike: (fault: 'killed' | 'stopped' | 'failover' | 'store away', actor: Actor) => void;
  /** Takes an error that the store does not report: it ends the run. */
  readonly onDefect: (error: unknown) => void;
}

export class FoldPool implements Store {
  private readonly idle: FoldConnection[] = [];

  constructor(
    private readonly network: FoldNetwork,
    private readonly actor: Actor,
  ) {}

  async acquire(): Promise<StoreConnection> {
    for (let idle = this.idle.pop(); idle !== undefined; idle = this.idle.pop())
      if (!idle.isBroken) return idle;
    const { store, random } = this.network;
    const { scheduler } = store;
    const fault = this.network.faults.at('connect');
    if (fault !== null) strikeBefore(this.network, this.actor, 'connect', fault);
    await scheduler.turn(store.actor, 'connect');
    if (fault !== null) strikeAfter(this.network, this.actor, fault);
    const isRefused = fault === 'cut before' || store.isAway;
    const backend = isRefused ? null : store.open();
    if (backend !== null && !this.actor.alive) backend.end();
    await new Promise<void>((resolve) => scheduler.after(random.below(5), this.actor, 'connected', resolve));
    if (backend === null) throw new StoreError('connect', new Error('connect ECONNREFUSED'));
    return new FoldConnection(this.network, this.actor, backend, (connection) => {
      this.idle.push(connection);
    });
  }
}

/** A fault that strikes while the process waits, before the request arrives. */
function strikeBefore(
  { faults, strike, store, random }: FoldNetwork,
  actor: Actor,
  point: string,
  fault: FoldFault,
) {
  faults.took(point, fault);
  if (fault === 'killed before') strike('killed', actor);
  if (fault === 'frozen') actor.frozenUntil = store.scheduler.now() + random.between(100, LONGEST_FREEZE_MS);
  if (fault === 'stopped' || fault === 'store away') strike(fault, actor);
}

/** A fault that strikes once the store has run the request. */
function strikeAfter({ strike }: FoldNetwork, actor: Actor, fault: FoldFault) {
  if (fault === 'killed after') strike('killed', actor);
  if (fault === 'failover') strike('failover', actor);
}

/** The wait of a process between two steps, with its faults. */
export function strikeInWait(network: FoldNetwork, actor: Actor): void {
  const fault = network.faults.at('wait');
  if (fault === null) return;
  strikeBefore(network, actor, 'wait', fault);
  strikeAfter(network, actor, fault);
}

class FoldConnection implements StoreConnection {
  isBroken = false;
  /** Neither side hears of the other any more. */
  private isSilent = false;
  private last: Promise<void> = Promise.resolve();

  constructor(
    private readonly network: FoldNetwork,
    private readonly actor: Actor,
    private readonly backend: FoldBackend,
    private readonly keep: (connection: FoldConnection) => void,
  ) {}

  async begin(): Promise<void> {
    await this.request('begin', []);
  }

  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.request(statement.name, values);
  }

  async write(writes: readonly Write[]): Promise<void> {
    for (const { name } of writes) await this.request(name, []);
  }

  release(isClean: boolean): void {
    if (isClean && !this.isBroken) {
      this.keep(this);
      return;
    }
    this.isBroken = true;
    // The store does not hear of it where the network is silent.
    const { store } = this.network;
    if (!this.isSilent) store.scheduler.soon(store.actor, 'closed', () => this.backend.end());
  }

  private request(name: string, values: readonly unknown[]): Promise<Row[]> {
    const before = this.last;
    const answer = new Promise<Row[]>((resolve, reject) => {
      this.last = before
        .then(() => this.carry(name, values, resolve, (error) => reject(new StoreError(name, error))))
        .catch((error: unknown) => this.network.onDefect(error));
    });
    return answer;
  }

  private async carry(
    name: string,
    values: readonly unknown[],
    answered: (rows: Text[][]) => void,
    failed: (error: unknown) => void,
  ): Promise<void> {
    const { network, actor } = this;
    const { store, faults, random } = network;
    const { scheduler } = store;
    const arrives = (what: string, run: () => void) => scheduler.soon(actor, what, run);
    const lost = () => {
      this.isBroken = true;
      arrives('connection lost', () => failed(new Error('Connection terminated unexpectedly')));
    };
    if (this.isBroken) {
      lost();
      return;
    }
    scheduler.note(actor.name, name);
    const fault = faults.at(name);
    if (fault !== null) {
      scheduler.note(actor.name, `FAULT ${fault}`);
      strikeBefore(network, actor, name, fault);
    }
    await scheduler.turn(store.actor, name);
    const isSilenced = fault === 'silence';
    if (isSilenced) this.isSilent = true;
    const isDropped = isSilenced && random.chance(0.5);
    if (this.backend.isEnded || store.isAway || fault === 'cut before') {
      this.backend.end();
      lost();
      return;
    }
    if (fault === 'killed before') {
      this.backend.end();
      return;
    }
    try {
      if (fault === 'refused') throw random.pick(REFUSALS);
      const rows = isDropped ? [] : await this.backend.run(name, values);
      if (fault !== null) strikeAfter(network, actor, fault);
      if (isSilenced) {
        this.isBroken = true;
        scheduler.after(ANSWER_TIMEOUT_MS, actor, 'no answer', () => failed(new Error('Query read timeout')));
      } else if (fault === 'answer lost' || this.backend.isEnded) {
        this.backend.end();
        lost();
      } else {
        arrives('answer', () => answered(rows));
      }
      // A process that was killed closes its connections.
      if (!actor.alive) this.backend.end();
    } catch (error) {
      if (!(error instanceof StoreFailure)) throw error;
      if (fault === 'refused') this.backend.fail();
      if (error.code === '57P01') {
        this.isBroken = true;
        this.backend.end();
      }
      arrives('error', () => failed(error));
    }
  }
}

const REFUSALS = [FAILURES['statement timeout'], FAILURES['disk full'], FAILURES['admin shutdown']];
