/**
 * Calls of wallets from their begin to their end. A call is stored before it is sent, and its answer after
 * it. So a crash at any step leaves a row, from which any process goes on.
 */
import type { Logger } from 'pino';
import type { WalletAction } from '../contract/actions';
import { backoffMs } from '../lib/backoff';
import { type Clock, NEVER } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { Semaphore } from '../lib/semaphore';
import { interpretReply, type WalletAnswer } from './answer';
import { type CallChange, changeAfter, changeInstead, makeCall, type NewCall } from './call-change';
import type { CallStore, CallView, FoundCall, HeldCall } from './call-store';
import type { SentReply, WalletClient } from './client';
import { POLICY_TERMS, type PolicyTerms } from './policy';
import { successRuleOf } from './profile';
import { opIdFault } from './request';
import { type CallValues, PLAYER_VALUE } from './template';

/**
 * How long a process holds a call. Another one takes the call over afterwards. It is far longer than an
 * attempt and the storing of its answer.
 */
export const LEASE_MS = 30_000;
/**
 * A process that got stuck for this share of the lease no longer sends. The rest of the lease is longer than
 * an attempt and the storing of its answer. Afterwards another process may hold the call.
 */
const LATEST_SEND = 2 / 3;
/** The longest wait of a new call for a free connection. The player waits too. */
const ENTRY_WAIT_MS = 500;
const POLL_MS = 1_000;
const STORE_TRIES = 3;

export interface WalletCall {
  readonly operatorId: string;
  readonly action: WalletAction;
  /** Of this operation alone, for good. */
  readonly opId: string;
  /** With the `player` as events name the player (`player_ref`). No other value may name a player. */
  readonly values: CallValues;
}

/** The call cannot be sent as it is. Nothing was stored or sent. */
export class InvalidCall extends Error {
  override readonly name = 'InvalidCall';
}

/** All connections for new calls to this wallet are in use. Nothing was stored or sent. */
export class WalletBusy extends Error {
  override readonly name = 'WalletBusy';
}

export interface CallResult extends CallView {
  /** The body of a success that came at once. Null otherwise: bodies are not stored. */
  readonly body: Readonly<Record<string, unknown>> | null;
}

export interface WalletCalls {
  /**
   * Stores a call and sends its first attempt. A call that stays open goes on by itself. The same call again
   * returns the stored state.
   *
   * @throws InvalidCall, WalletBusy, or StoreError. After a StoreError it is unknown whether the call was
   * stored: the same call again returns its state
   */
  start(call: WalletCall): Promise<CallResult>;
  /** Takes calls that are due, and begins their steps. @returns how many. @throws StoreError */
  takeDue(): Promise<number>;
  /** Resumes all calls that are due until `stop`. Then waits for the attempts in flight. */
  run(stop: AbortSignal): Promise<void>;
  /** Resolves when no resent call is in flight. */
  settle(): Promise<void>;
}

export interface WalletCallsDeps {
  readonly store: CallStore;
  /** One for each operator. */
  readonly clients: readonly WalletClient[];
  readonly clock: Clock;
  readonly newId: () => string;
  readonly logger: Logger;
  /** For tests. */
  readonly leaseMs?: number;
  readonly terms?: PolicyTerms;
}

interface Wallet {
  readonly client: WalletClient;
  readonly entry: Semaphore;
  /** Free connections for resent calls. New calls have their own, so neither waits for the other. */
  free: number;
}

export function makeWalletCalls(deps: WalletCallsDeps): WalletCalls {
  const { store, clock, newId, logger, leaseMs = LEASE_MS, terms = POLICY_TERMS } = deps;
  const wallets = new Map<string, Wallet>(
    deps.clients.map((client) => {
      const { operatorId, connections } = client.profile;
      const free = Math.floor(connections / 2);
      return [operatorId, { client, free, entry: new Semaphore(connections - free) }];
    }),
  );
  const inFlight = new Set<Promise<void>>();
  let wake = new AbortController();

  /** Sends the attempt that the call is held for. Null where this process was stuck before it could. */
  async function sendOnce({ client }: Wallet, held: HeldCall, heldSince: number): Promise<SentReply | null> {
    if (held.isInterrupted)
      return { reply: { type: 'nothing', cause: 'interrupted' }, ms: 0, networkCode: null };
    if (clock.now() - heldSince > leaseMs * LATEST_SEND) return null;
    const { action, opId, payload } = held;
    return client.send({ action, opId, payload, requestId: newId() });
  }

  /** @returns the answer; null where the call went to another process, or will */
  async function attempt(wallet: Wallet, held: HeldCall, heldSince: number): Promise<WalletAnswer | null> {
    const { profile } = wallet.client;
    const instead = held.isInterrupted ? null : changeInstead(profile, held, held.storeNow, terms);
    if (instead !== null) {
      await storeEnd(held, instead);
      const following = instead.following?.action;
      logger.warn(
        { ...fieldsOf(held), state: instead.state, following },
        'wallet call not sent again: its time is over',
      );
      return null;
    }
    const sent = await sendOnce(wallet, held, heldSince);
    if (sent === null) {
      logger.warn(fieldsOf(held), 'wallet call not sent: this process was stuck, and another one takes it');
      return null;
    }
    const answer = interpretReply(held.action, sent.reply, successRuleOf(profile));
    const endedAt = held.storeNow + (clock.now() - heldSince);
    const ended = { sentAt: held.sendingSince, endedAt, answer };
    const change = changeAfter(profile, held, ended, endedAt, terms);
    const isStored = await storeEnd(held, change);
    const level = answer.type === 'no_answer' || change.state === 'unresolved' ? 'warn' : 'debug';
    logger[level](
      {
        ...fieldsOf(held),
        answer: answer.type,
        cause: causeIn(answer),
        networkCode: sent.networkCode,
        attempts: change.history.attempts,
        state: change.state,
        ms: Math.round(sent.ms),
        following: change.following?.action,
      },
      isStored ? 'wallet call answered' : 'wallet call answered, and no longer held by this process',
    );
    return isStored ? answer : null;
  }

  /** Retries, since a lost answer of the store costs an attempt. @returns whether the call was still held */
  async function storeEnd(held: HeldCall, change: CallChange): Promise<boolean> {
    for (let failures = 1; ; failures++) {
      try {
        return await store.end(held, change);
      } catch (error) {
        logger.warn(
          { ...fieldsOf(held), failures, error: messageOf(error) },
          'cannot store the answer of a wallet',
        );
        if (failures === STORE_TRIES) return false; // the lease ends, and the call is resumed
        await clock.sleep(backoffMs(failures), NEVER);
      }
    }
  }

  async function start({ operatorId, action, opId, values }: WalletCall): Promise<CallResult> {
    const wallet = wallets.get(operatorId);
    if (wallet === undefined)
      throw new InvalidCall(`no wallet has the operator ${operatorId}: add its profile`);
    const idFault = opIdFault(opId);
    if (idFault !== undefined) throw new InvalidCall(idFault);
    if ((values[PLAYER_VALUE] ?? '') === '')
      throw new InvalidCall(
        `the call has no value ${PLAYER_VALUE}: an erasure finds the calls of a player by it`,
      );
    const made = makeCall(wallet.client.profile, { action, opId, values });
    if (made.type === 'malformed') throw new InvalidCall(made.faults.join('; '));
    if (!(await wallet.entry.acquireWithin(ENTRY_WAIT_MS)))
      throw new WalletBusy(`all connections to the wallet of ${operatorId} are in use: retry later`);
    try {
      const heldSince = clock.now();
      const held = await store.begin(operatorId, made.call, leaseMs);
      const answer = held === null ? null : await attempt(wallet, held, heldSince);
      const found = await store.find(operatorId, opId);
      if (found === null)
        throw new InvalidCall(
          `${operatorId} is in another cell, or moves to one: call its wallet from there after the move`,
        );
      if (!isSameCall(found, made.call))
        throw new InvalidCall(`the op_id ${opId} was used with other content: give each operation its own`);
      return { ...found.view, body: answer?.type === 'ok' ? answer.body : null };
    } finally {
      wallet.entry.release();
    }
  }

  async function takeDue(): Promise<number> {
    const free = new Map(
      [...wallets].map(([id, wallet]) => [id, wallet.free] as const).filter(([, n]) => n > 0),
    );
    if (free.size === 0) return 0;
    const heldSince = clock.now();
    const taken = await store.take(free, leaseMs);
    for (const held of taken) {
      const wallet = wallets.get(held.operatorId);
      if (wallet !== undefined) resume(wallet, held, heldSince);
    }
    return taken.length;
  }

  function resume(wallet: Wallet, held: HeldCall, heldSince: number): void {
    wallet.free--;
    const work = attempt(wallet, held, heldSince)
      .then(
        () => undefined,
        // A defect of ours. The lease ends, and the call is resumed: it counts as interrupted.
        (error: unknown) =>
          logger.error({ ...fieldsOf(held), error: messageOf(error) }, 'wallet call failed'),
      )
      .finally(() => {
        wallet.free++;
        inFlight.delete(work);
        wake.abort();
      });
    inFlight.add(work);
  }

  async function settle(): Promise<void> {
    while (inFlight.size > 0) await Promise.all(inFlight);
  }

  async function run(stop: AbortSignal): Promise<void> {
    stop.addEventListener('abort', () => wake.abort());
    for (let failures = 0; !stop.aborted; ) {
      wake = new AbortController();
      let waitMs = POLL_MS;
      try {
        await takeDue();
        failures = 0;
      } catch (error) {
        failures++;
        waitMs = backoffMs(failures);
        logger.warn({ failures, waitMs, error: messageOf(error) }, 'cannot take due wallet calls, retrying');
      }
      // After a failure a free connection is no reason to ask the store early.
      await clock.sleep(waitMs, failures === 0 ? wake.signal : stop);
    }
    await settle();
  }

  return { start, takeDue, run, settle };
}

/** The player counts while the payload is kept. */
function isSameCall({ view, contentHash, payload }: FoundCall, call: NewCall): boolean {
  return (
    view.action === call.action &&
    contentHash === call.contentHash &&
    (payload === null || payload === call.payload)
  );
}

/** Without values of the call: they are data of players. */
function fieldsOf({ operatorId, opId, action }: HeldCall): Record<string, unknown> {
  return { operator: operatorId, opId, action };
}

/** A code of the list, or our own word. The text of an unknown code may be anything. */
function causeIn(answer: WalletAnswer): string | null {
  if (answer.type === 'ok') return null;
  return answer.type === 'no_answer' ? answer.cause : answer.code;
}
