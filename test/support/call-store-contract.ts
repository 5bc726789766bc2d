/**
 * The properties of the store of wallet calls on which calls.ts relies. The real store and the model of the
 * simulation run the same scripts.
 */
import type { WalletAnswer } from '../../src/wallet/answer';
import type { CallChange, CallState, NewCall } from '../../src/wallet/call-change';
import type { CallStore, HeldCall } from '../../src/wallet/call-store';

/** An empty store, with control over its time. */
export interface CallStoreSide {
  readonly store: CallStore;
  /** Lets time pass in the store. */
  pass(seconds: number): Promise<void>;
  close(): Promise<void>;
}

const LEASE_MS = 30_000;
const SILENCE: WalletAnswer = {
  type: 'no_answer',
  cause: 'bare_status',
  status: 502,
  code: null,
  retryAfterMs: null,
};

const content = (opId: string): Omit<NewCall, 'contentHash'> => ({
  opId,
  action: 'credit',
  values: { player: 'p', amount: '1.50' },
  payload: '{"amount":1.50}',
});
const aCall = (opId: string): NewCall => ({ ...content(opId), contentHash: 'ab'.repeat(32) });

function changeTo(state: CallState, held: HeldCall, more: Partial<CallChange> = {}): CallChange {
  const { sendingSince, storeNow } = held;
  const last = { sentAt: sendingSince, endedAt: storeNow + 10, answer: SILENCE };
  return {
    state,
    dueAt: storeNow + 2_000,
    following: null,
    history: { attempts: 1, firstSentAt: sendingSince, last, isUncertain: true },
    ...more,
  };
}

export function describeCallStoreContract(open: () => Promise<CallStoreSide>): void {
  let side: CallStoreSide;
  beforeEach(async () => {
    side = await open();
  });
  afterEach(() => side.close());

  const begin = async (opId: string, operatorId = 'acme'): Promise<HeldCall> => {
    const held = await side.store.begin(operatorId, aCall(opId), LEASE_MS);
    if (held === null) throw new Error(`${opId} exists`);
    return held;
  };
  const take = (most = 10, operatorId = 'acme') => side.store.take(new Map([[operatorId, most]]), LEASE_MS);
  const idsOf = (calls: readonly HeldCall[]) => calls.map(({ opId }) => opId).sort();
  const stateOf = async (opId: string) => (await side.store.find('acme', opId))?.view.state;

  test('an op_id begins once for each operator', async () => {
    const held = await begin('op-1');
    expect(held).toMatchObject({
      ...content('op-1'),
      operatorId: 'acme',
      isInterrupted: false,
      history: null,
    });
    expect(held.sendingSince).toBe(held.storeNow);
    expect(await side.store.begin('acme', aCall('op-1'), LEASE_MS)).toBeNull();
    expect(await side.store.begin('bravo', aCall('op-1'), LEASE_MS)).not.toBeNull();
  });

  test('a held call is taken once its lease is over, as interrupted', async () => {
    const first = await begin('op-1');
    await side.pass(20);
    expect(await take()).toEqual([]);
    await side.pass(11);
    const [second, ...more] = await take();
    expect(more).toEqual([]);
    expect(second).toMatchObject({ ...content('op-1'), isInterrupted: true, history: null });
    expect(second?.leaseNo).toBe(first.leaseNo + 1);
    // The interrupted attempt keeps its time.
    expect(Math.round(((second?.storeNow ?? 0) - (second?.sendingSince ?? 0)) / 1_000)).toBe(31);
    expect(await take()).toEqual([]);
  });

  test('an answer of a process that lost the call changes nothing', async () => {
    const first = await begin('op-1');
    await side.pass(31);
    const [second] = await take();
    if (second === undefined) throw new Error('the call was not taken');
    expect(await side.store.end(first, changeTo('ok', first))).toBe(false);
    expect(await stateOf('op-1')).toBe('open');
    expect(await side.store.end(second, changeTo('unresolved', second))).toBe(true);
    expect(await side.store.end(second, changeTo('ok', second))).toBe(false);
    expect(await stateOf('op-1')).toBe('unresolved');
  });

  test('an open call is due at its time, with its history, and not as interrupted', async () => {
    const held = await begin('op-1');
    const change = changeTo('open', held, { dueAt: held.storeNow + 5_000 });
    expect(await side.store.end(held, change)).toBe(true);
    await side.pass(3);
    expect(await take()).toEqual([]);
    await side.pass(3);
    const [again] = await take();
    expect(again).toMatchObject({ isInterrupted: false, payload: '{"amount":1.50}' });
    expect(again?.sendingSince).toBe(again?.storeNow);
    expect(again?.history).toMatchObject({ attempts: 1, isUncertain: true, last: { answer: SILENCE } });
  });

  test.each(['ok', 'refused', 'given_up', 'unresolved'] as const)(
    'a call that is %s is never due',
    async (state) => {
      const held = await begin('op-1');
      expect(await side.store.end(held, changeTo(state, held))).toBe(true);
      await side.pass(100 * 3_600);
      expect(await take()).toEqual([]);
      const found = await side.store.find('acme', 'op-1');
      expect(found).toEqual({
        view: { operatorId: 'acme', opId: 'op-1', action: 'credit', state, attempts: 1, answer: SILENCE },
        contentHash: 'ab'.repeat(32),
        payload: state === 'unresolved' ? '{"amount":1.50}' : null,
      });
    },
  );

  test('the call that follows is due at its own time, without a mark of an attempt', async () => {
    const held = await begin('op-1');
    const following = {
      ...aCall('op-1.reconcile'),
      action: 'reconcile' as const,
      dueAt: held.storeNow + 5_000,
    };
    expect(await side.store.end(held, changeTo('followed', held, { following }))).toBe(true);
    await side.pass(3);
    expect(await take()).toEqual([]);
    await side.pass(3);
    const [next, ...more] = await take();
    expect(more).toEqual([]);
    expect(next).toMatchObject({
      opId: 'op-1.reconcile',
      action: 'reconcile',
      isInterrupted: false,
      leaseNo: 1,
    });
    expect(await stateOf('op-1')).toBe('followed');
  });

  test('a process that lost the call leaves no call that follows', async () => {
    const first = await begin('op-1');
    await side.pass(31);
    await take();
    const following = { ...aCall('op-1.rollback'), dueAt: first.storeNow };
    expect(await side.store.end(first, changeTo('followed', first, { following }))).toBe(false);
    expect(await side.store.find('acme', 'op-1.rollback')).toBeNull();
  });

  test('so many calls of each operator are taken, the longest due ones first', async () => {
    for (const opId of ['op-1', 'op-2', 'op-3']) {
      await begin(opId);
      await side.pass(2);
    }
    await begin('op-4', 'bravo');
    await side.pass(31);
    expect(idsOf(await take(2))).toEqual(['op-1', 'op-2']);
    expect(
      idsOf(
        await side.store.take(
          new Map([
            ['acme', 5],
            ['bravo', 5],
            ['other', 5],
          ]),
          LEASE_MS,
        ),
      ),
    ).toEqual(['op-3', 'op-4']);
  });

  test('an unknown op_id is not found', async () => {
    expect(await side.store.find('acme', 'op-1')).toBeNull();
  });
}
