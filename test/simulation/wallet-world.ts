/**
 * Processes that call one wallet, in virtual time: their own code over models of store, network and wallet.
 * Processes are killed and frozen, answers of the store are lost, and requests come late or never.
 */
import pino from 'pino';
import { makeRandom, type Random } from '../../dev/random';
import type { WalletAction } from '../../src/contract/actions';
import type { Clock } from '../../src/lib/clock';
import { StoreError } from '../../src/postgres/errors';
import type { WalletReply } from '../../src/wallet/answer';
import { makeWalletCalls, type WalletCall, type WalletCalls } from '../../src/wallet/calls';
import type { SentReply, WalletClient } from '../../src/wallet/client';
import { POLICY_TERMS, type PolicyTerms } from '../../src/wallet/policy';
import type { WalletSend } from '../../src/wallet/request';
import { aProfile } from '../support/wallet';
import { Actor, Scheduler } from './scheduler';
import { CallStoreModel, callStoreOver, type ModelCall } from './wallet-store';

const EPOCH = Date.UTC(2026, 10, 27);
const DEADLINE_MS = 5_000;
/** As in production, with minutes in place of days. */
const TERMS: PolicyTerms = {
  ...POLICY_TERMS,
  longestWaitMs: 8_000,
  longestRetryAfterMs: 10_000,
  resendMs: 60_000,
};
const PROCESSES = 3;
const CALLS = 10;
const CALLS_WITHIN_MS = 40_000;
const FAULTS_WITHIN_MS = 100_000;
const LONGEST_FREEZE_MS = 70_000;
/** Longer than a bet, its rollback, a reconcile of that, and a lease of each. */
const END_MS = 480_000;
const OPERATOR = 'acme';

/** What happened in a run, for the check that the runs are not all alike. */
export type Event =
  | 'killed'
  | 'killed with an attempt in flight'
  | 'frozen'
  | 'a bet came after its rollback'
  | 'a bet was rolled back'
  | 'a bet was refused after an attempt without an answer'
  | 'a credit was reconciled'
  | 'a call is unresolved'
  | 'an answer came too late to be stored'
  | 'the store lost an answer';

export interface WalletRun {
  readonly problems: readonly string[];
  readonly events: ReadonlySet<Event>;
}

/** Plays one seed to its end. */
export async function playWalletCalls(seed: number): Promise<WalletRun> {
  const world = new WalletWorld(seed);
  await world.play();
  return { problems: world.problems, events: world.events };
}

interface Process {
  readonly actor: Actor;
  readonly calls: WalletCalls;
}

class WalletWorld {
  readonly problems: string[] = [];
  readonly events = new Set<Event>();
  private readonly random: Random;
  private readonly scheduler: Scheduler;
  private readonly store: CallStoreModel;
  private readonly wallet: WalletModel;
  private readonly network = new Actor('network');
  private readonly chaos = new Actor('chaos');
  private readonly processes: Process[] = [];
  private starts = 0;
  private requests = 0;
  /** Until when an attempt of an op_id is in flight. */
  private readonly inFlight = new Map<string, number>();
  private readonly payloads = new Map<string, string>();
  /** In some runs the wallet never answers. */
  private readonly isDead: boolean;

  constructor(private readonly seed: number) {
    this.random = makeRandom(seed);
    this.scheduler = new Scheduler(this.random, false);
    this.store = new CallStoreModel(() => EPOCH + Math.floor(this.scheduler.now()));
    this.wallet = new WalletModel(this.random);
    this.isDead = this.random.chance(0.15);
  }

  async play(): Promise<void> {
    for (let n = 0; n < PROCESSES; n++) this.startProcess();
    for (let n = 0; n < CALLS; n++) this.planCall(n);
    for (let at = 0; at < FAULTS_WITHIN_MS; at += this.random.between(1_000, 25_000))
      this.scheduler.after(at, this.chaos, 'chaos', () => this.strike());
    while (this.scheduler.now() < END_MS && (await this.scheduler.step()));
    this.checkEnd();
  }

  private note(problem: string): void {
    this.problems.push(`seed ${this.seed}, ${(this.scheduler.now() / 1000).toFixed(3)} s: ${problem}`);
  }

  private get isFaulty(): boolean {
    return this.scheduler.now() < FAULTS_WITHIN_MS;
  }

  // --- processes

  private startProcess(): void {
    const actor = new Actor(`process ${++this.starts}`);
    const clock = this.clockOf(actor);
    const client: WalletClient = {
      profile: aProfile('http://wallet', { connections: 2 * CALLS }),
      send: (send) => this.send(actor, send),
    };
    const store = callStoreOver(this.store, (operation, run) => this.reach(actor, operation, run));
    const calls = makeWalletCalls({
      store,
      clients: [client],
      clock,
      terms: TERMS,
      logger: pino({ level: 'silent' }),
      newId: () => `request-${++this.requests}`,
    });
    this.processes.push({ actor, calls });
    this.scheduler.soon(actor, 'run', () => void calls.run(new AbortController().signal));
  }

  private clockOf(actor: Actor): Clock {
    const { scheduler } = this;
    return {
      now: () => scheduler.now(),
      after: () => {
        throw new Error('wallet calls use no timer');
      },
      cancel: () => undefined,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          const done = () => {
            cancel();
            signal.removeEventListener('abort', done);
            resolve();
          };
          const cancel = scheduler.after(ms, actor, 'sleep', done);
          if (signal.aborted) done();
          else signal.addEventListener('abort', done);
        }),
    };
  }

  private strike(): void {
    const { random } = this;
    const place = random.below(this.processes.length);
    const process = this.processes[place];
    if (process === undefined) return;
    if (random.chance(0.5)) {
      this.events.add('frozen');
      process.actor.frozenUntil = this.scheduler.now() + random.between(100, LONGEST_FREEZE_MS);
      return;
    }
    this.events.add('killed');
    if (this.store.calls.some(({ sendingSince }) => sendingSince !== null))
      this.events.add('killed with an attempt in flight');
    process.actor.alive = false;
    this.processes.splice(place, 1);
    this.scheduler.after(random.between(10, 20_000), this.chaos, 'start', () => this.startProcess());
  }

  /** A request to the store: it may be lost on its way, and so may its answer. */
  private async reach<T>(actor: Actor, operation: string, run: () => T): Promise<T> {
    await this.travel(actor);
    const fate = this.isFaulty ? this.random.below(30) : 30;
    if (fate === 0) throw new StoreError(operation, new Error('connection refused'));
    const result = run();
    await this.travel(actor);
    if (fate === 1) {
      this.events.add('the store lost an answer');
      throw new StoreError(operation, new Error('connection lost'));
    }
    if (operation === 'end' && result === false) this.events.add('an answer came too late to be stored');
    return result;
  }

  private travel(actor: Actor): Promise<void> {
    const isSlow = this.isFaulty && this.random.chance(0.02);
    const ms = isSlow ? this.random.between(1_000, 40_000) : this.random.between(1, 20);
    return new Promise((resolve) => this.scheduler.after(ms, actor, 'store', resolve));
  }

  // --- calls

  private planCall(n: number): void {
    const { random } = this;
    const action: WalletAction = random.pick(['debit', 'debit', 'debit', 'credit', 'credit', 'balance']);
    const call = {
      operatorId: OPERATOR,
      action,
      opId: `op-${n}`,
      values: { player: 'p', amount: String(random.between(1, 100)) },
    };
    for (let times = random.chance(0.3) ? 2 : 1; times > 0; times--)
      this.scheduler.after(random.below(CALLS_WITHIN_MS), this.chaos, 'call', () => this.startCall(call));
  }

  private startCall(call: WalletCall): void {
    const process = this.processes[this.random.below(this.processes.length)];
    if (process === undefined) return;
    this.scheduler.soon(process.actor, 'start', () => {
      process.calls.start(call).then(
        ({ state, opId }) => {
          if (state === 'ok' && !this.wallet.hasApplied(opId)) this.note(`${opId} is ok without effect`);
        },
        (error: unknown) => {
          if (!(error instanceof StoreError)) this.note(`start failed: ${String(error)}`);
        },
      );
    });
  }

  private send(actor: Actor, send: WalletSend): Promise<SentReply> {
    this.checkSend(send);
    const { scheduler, random } = this;
    const began = scheduler.now();
    this.inFlight.set(send.opId, began + DEADLINE_MS);
    return new Promise((resolve) => {
      let isOver = false;
      const over = (reply: WalletReply) => {
        if (isOver) return;
        isOver = true;
        this.inFlight.delete(send.opId);
        const ms = scheduler.now() - began;
        scheduler.soon(actor, 'reply', () => resolve({ reply, ms, networkCode: null }));
      };
      scheduler.after(DEADLINE_MS, this.network, 'deadline', () =>
        over({ type: 'nothing', cause: 'timeout' }),
      );
      if (this.isDead) return;
      const fate = this.isFaulty ? random.below(10) : 10;
      if (fate === 0) {
        scheduler.after(random.between(1, 50), this.network, 'reset', () =>
          over({ type: 'nothing', cause: 'unreachable' }),
        );
        return;
      }
      // A request may arrive long after its sender has given it up.
      const delay = fate === 1 ? random.between(4_000, 120_000) : random.between(1, 30);
      scheduler.after(delay, this.network, 'request', () => {
        const body = this.receive(send);
        if (fate === 2 || fate === 3) return;
        const status = fate === 4 ? 502 : 200;
        scheduler.after(random.between(1, 30), this.network, 'answer', () =>
          over({ type: 'http', status, headers: {}, body: Buffer.from(body), ms: scheduler.now() - began }),
        );
      });
    });
  }

  private receive({ action, opId, payload }: WalletSend): string {
    if (action === 'debit' && this.wallet.isRolledBack(opId))
      this.events.add('a bet came after its rollback');
    return JSON.stringify(this.wallet.answer(action, opId, payload, this.isFaulty));
  }

  // --- the promises

  private checkSend({ action, opId, payload }: WalletSend): void {
    const row = this.store.get(OPERATOR, opId);
    if (row === undefined) this.note(`${opId} was sent before it was stored`);
    else if (row.state !== 'open') this.note(`${opId} was sent while it was ${row.state}`);
    else if (row.sendingSince === null) this.note(`${opId} was sent without a mark of its attempt`);
    if (action === 'debit' && this.store.get(OPERATOR, `${opId}.rollback`) !== undefined)
      this.note(`${opId} was sent after its rollback was recorded`);
    if ((this.inFlight.get(opId) ?? 0) > this.scheduler.now())
      this.note(`two attempts of ${opId} are in flight`);
    if ((this.payloads.get(opId) ?? payload) !== payload) this.note(`${opId} was sent with another payload`);
    this.payloads.set(opId, payload);
  }

  private checkEnd(): void {
    for (const call of this.store.calls) {
      const { opId, action, state, history } = call;
      const followed = this.store.calls.find(({ follows }) => follows === call.callNo);
      if (state === 'open') this.note(`${opId} is still open`);
      if ((followed !== undefined) !== (state === 'followed'))
        this.note(`${opId} is ${state}, and ${followed?.opId ?? 'nothing'} follows it`);
      if (state === 'unresolved') {
        this.events.add('a call is unresolved');
        // The time of a reconcile may be over before its process goes on.
        const lastSentAt = (history?.last.sentAt ?? EPOCH) - EPOCH;
        if (!this.isDead && lastSentAt > FAULTS_WITHIN_MS + LONGEST_FREEZE_MS)
          this.note(`${opId} is unresolved, though the wallet answers`);
      }
      if (state === 'given_up' && action !== 'balance') this.note(`the ${action} ${opId} is given up`);
      if (action === 'debit' || action === 'credit') this.checkMoney(call, followed);
    }
  }

  private checkMoney({ opId, action, state, history }: ModelCall, followed: ModelCall | undefined): void {
    const hasMoved = this.wallet.hasMoved(opId);
    if (state === 'ok' && !hasMoved) this.note(`the ${action} ${opId} is ok, and moved no money`);
    if (state === 'refused' && hasMoved) this.note(`the ${action} ${opId} is refused, and moved money`);
    if (followed === undefined) return;
    this.events.add(action === 'debit' ? 'a bet was rolled back' : 'a credit was reconciled');
    if (history?.last.answer.type === 'refused')
      this.events.add('a bet was refused after an attempt without an answer');
    if (followed.action !== (action === 'debit' ? 'rollback' : 'reconcile'))
      this.note(`${opId} is followed by a ${followed.action}`);
    if (followed.action === 'rollback' && followed.state === 'ok' && hasMoved)
      this.note(`${opId} is rolled back, and has taken money`);
  }
}

/** A wallet that keeps its answers, as the contract demands, and fails before or after it has moved money. */
class WalletModel {
  private readonly answers = new Map<string, object>();
  private readonly moved = new Set<string>();
  private readonly rolledBack = new Set<string>();

  constructor(private readonly random: Random) {}

  hasMoved(opId: string): boolean {
    return this.moved.has(opId);
  }
  hasApplied(opId: string): boolean {
    return this.answers.has(opId);
  }
  isRolledBack(opId: string): boolean {
    return this.rolledBack.has(opId);
  }

  answer(action: WalletAction, opId: string, payload: string, isFaulty: boolean): object {
    const fate = isFaulty ? this.random.below(12) : 12;
    if (fate === 0) return failure('ERROR_CODE_INTERNAL');
    if (fate === 1) return failure('ERROR_CODE_MAINTENANCE');
    // The session has expired meanwhile, and the wallet looks at it before it looks for its answer.
    if (fate === 2 && action === 'debit') return failure('ERROR_CODE_INSUFFICIENT_FUNDS');
    const known = this.answers.get(opId) ?? this.apply(action, opId, payload);
    this.answers.set(opId, known);
    return fate === 3 ? failure('ERROR_CODE_INTERNAL') : known;
  }

  private apply(action: WalletAction, opId: string, payload: string): object {
    if (action === 'debit' || action === 'credit') {
      if (this.rolledBack.has(opId)) return failure('ERROR_CODE_ALREADY_ROLLED_BACK');
      this.moved.add(opId);
    }
    if (action === 'rollback') {
      const original = /"original":"([^"]+)"/.exec(payload)?.[1] ?? '';
      this.moved.delete(original);
      this.rolledBack.add(original);
    }
    return { status: 'ok' };
  }
}

const failure = (code: string) => ({ status: 'error', error: { code } });
