/**
 * A model of the store of wallet calls. Each operation happens at one moment, by the clock of the model. The
 * scripts of test/support/call-store-contract.ts compare it with the real one.
 */
import type { CallChange, CallState, NewCall } from '../../src/wallet/call-change';
import { type CallStore, type HeldCall, readStoredAnswer, storedAnswer } from '../../src/wallet/call-store';
import type { CallHistory } from '../../src/wallet/policy';

export interface ModelCall extends NewCall {
  readonly callNo: number;
  readonly operatorId: string;
  /** The call that this one rolls back or reconciles. */
  readonly follows: number | null;
  readonly createdAt: number;
  state: CallState;
  isKept: boolean;
  dueAt: number;
  sendingSince: number | null;
  leaseNo: number;
  history: CallHistory | null;
}

export class CallStoreModel {
  readonly calls: ModelCall[] = [];

  /** @param now whole milliseconds since 1970 */
  constructor(private readonly now: () => number) {}

  get(operatorId: string, opId: string): ModelCall | undefined {
    return this.calls.find((call) => call.operatorId === operatorId && call.opId === opId);
  }

  begin(operatorId: string, call: NewCall, leaseMs: number): HeldCall | null {
    if (this.get(operatorId, call.opId) !== undefined) return null;
    const now = this.now();
    const row = this.insert(operatorId, call, now + leaseMs, null);
    row.sendingSince = now;
    row.leaseNo = 1;
    return this.held(row, false);
  }

  take(free: ReadonlyMap<string, number>, leaseMs: number): HeldCall[] {
    const now = this.now();
    return [...free].flatMap(([operatorId, most]) =>
      this.calls
        .filter((row) => row.operatorId === operatorId && row.state === 'open' && row.dueAt <= now)
        .sort((a, b) => a.dueAt - b.dueAt)
        .slice(0, most)
        .map((row) => {
          const isInterrupted = row.sendingSince !== null;
          row.leaseNo++;
          row.dueAt = now + leaseMs;
          row.sendingSince ??= now;
          return this.held(row, isInterrupted);
        }),
    );
  }

  end({ callNo, leaseNo }: HeldCall, { state, history, dueAt, following }: CallChange): boolean {
    const row = this.calls.find((each) => String(each.callNo) === callNo);
    if (row === undefined || row.leaseNo !== leaseNo || row.sendingSince === null) return false;
    const { last } = history;
    const answer = readStoredAnswer(JSON.stringify(storedAnswer(last.answer)));
    Object.assign(row, { state, dueAt, sendingSince: null });
    row.history = { ...history, last: { ...last, answer } };
    row.isKept = state === 'open' || state === 'unresolved';
    if (following !== null) this.insert(row.operatorId, following, following.dueAt, row.callNo);
    return true;
  }

  private insert(operatorId: string, call: NewCall, dueAt: number, follows: number | null): ModelCall {
    const { opId, action, values, payload, contentHash } = call;
    if (this.get(operatorId, opId) !== undefined) throw new Error(`${opId} exists`);
    const row: ModelCall = {
      opId,
      action,
      values,
      payload,
      contentHash,
      operatorId,
      dueAt,
      follows,
      callNo: this.calls.length + 1,
      createdAt: this.now(),
      state: 'open',
      isKept: true,
      sendingSince: null,
      leaseNo: 0,
      history: null,
    };
    this.calls.push(row);
    return row;
  }

  private held(row: ModelCall, isInterrupted: boolean): HeldCall {
    const { opId, action, values, payload, operatorId, leaseNo, history } = row;
    return {
      opId,
      action,
      values,
      payload,
      operatorId,
      leaseNo,
      history,
      isInterrupted,
      callNo: String(row.callNo),
      sendingSince: row.sendingSince ?? 0,
      storeNow: this.now(),
    };
  }
}

/** Runs an operation of the model at a moment of its own, or fails. */
export type Reach = <T>(operation: string, run: () => T) => Promise<T>;

/** The store as a process reaches it. */
export function callStoreOver(model: CallStoreModel, reach: Reach): CallStore {
  return {
    begin: (...values) => reach('begin', () => model.begin(...values)),
    take: (...values) => reach('take', () => model.take(...values)),
    end: (...values) => reach('end', () => model.end(...values)),
    find: (operatorId, opId) =>
      reach('find', () => {
        const row = model.get(operatorId, opId);
        if (row === undefined) return null;
        const { action, state, history, contentHash, isKept, payload } = row;
        return {
          view: {
            operatorId,
            opId,
            action,
            state,
            attempts: history?.attempts ?? 0,
            answer: history?.last.answer ?? null,
          },
          contentHash,
          payload: isKept ? payload : null,
        };
      }),
  };
}
