/** Operations on wallet calls: their numbers, retention, and the erasure of a player. */
import { erasePlayer } from '../../src/ledger/erasure';
import { forgetWalletCalls } from '../../src/ledger/retention';
import { readWalletBacklog, sampleWalletBacklog } from '../../src/ledger/wallet-backlog';
import type { CallChange } from '../../src/wallet/call-change';
import type { CallStore } from '../../src/wallet/call-store';
import { InvalidCall, type WalletCall } from '../../src/wallet/calls';
import { freshStore, type TestStore, withClient } from '../support/ledger';
import { aProfile, PLAYER, TestWallet } from '../support/wallet';
import { aCall, type Caller, finish, jump, makeCaller, takeAndSettle } from '../support/wallet-calls';

jest.setTimeout(300_000);

const HOUR = 3_600;
const DAY = 24 * HOUR;
const BY = { requestedBy: 'ops@desk' };

let store: TestStore;
let wallet: TestWallet;
const callers: Caller[] = [];

beforeEach(async () => {
  [store, wallet] = await Promise.all([freshStore({ own: true }), new TestWallet().open()]);
});
afterEach(async () => {
  await Promise.all(callers.splice(0).map(({ pool }) => pool.end()));
  await Promise.all([store.close(), wallet.close()]);
});

function aCaller(wrapStore?: (store: CallStore) => CallStore): Caller {
  const caller = makeCaller(store.url, {
    profiles: [aProfile(wallet.url)],
    ...(wrapStore !== undefined && { wrapStore }),
  });
  callers.push(caller);
  return caller;
}

const credit = (opId: string, player = PLAYER): WalletCall =>
  aCall(opId, { action: 'credit', values: { player, amount: '100' } });
const stored = () =>
  store
    .rows('select op_id, state, attempts from promo.wallet_calls order by call_no')
    .then((rows) => rows.map((row) => row.join(' ')));
const erase = (player = PLAYER) =>
  erasePlayer(store.url, BY, { operator: 'acme', player, batch: 100 }, () => undefined);
/** Everything that the store keeps of wallet calls and of operations, as one text. */
const everything = async () =>
  JSON.stringify([
    await store.rows('select c::text from promo_store.wallet_calls c'),
    await store.rows('select o::text from promo_store.operations o'),
  ]);

describe('the numbers of calls that are not over', () => {
  test('are 0 in an empty store', async () => {
    const none = { open: 0, unresolved: 0, oldestDueSeconds: 0 };
    expect(await readWalletBacklog(store.url)).toEqual(none);
    expect(await sampleWalletBacklog(store.pool)).toEqual(none);
  });

  test('count open and unresolved calls, and the age of the oldest due one [X6]', async () => {
    wallet.always = 'bare_500';
    const { calls } = aCaller();
    await calls.start(aCall('op-1', { action: 'reconcile', values: { player: PLAYER, original: 'op-0' } }));
    await jump(store.pool, 73 * HOUR);
    await takeAndSettle(calls);
    await calls.start(credit('op-2'));
    expect(await readWalletBacklog(store.url)).toEqual({ open: 1, unresolved: 1, oldestDueSeconds: 0 });
    await jump(store.pool, 100);
    const { oldestDueSeconds } = await sampleWalletBacklog(store.pool);
    expect(oldestDueSeconds).toBeGreaterThan(95);
    expect(oldestDueSeconds).toBeLessThan(200);
  });
});

describe('retention', () => {
  test('forgets calls that were over before the month and for four months, and keeps all others', async () => {
    const caller = aCaller();
    wallet.faults = ['lost_by_reset', 'lost_by_reset', 'lost_by_reset'];
    await caller.calls.start(aCall('op-1'));
    await finish(caller);
    expect(await stored()).toEqual([
      expect.stringContaining('op-1 followed'),
      expect.stringMatching('.rollback ok'),
    ]);
    wallet.always = 'bare_500';
    await caller.calls.start(credit('op-2'));
    await jump(store.pool, 100 * DAY);
    await caller.calls.start(aCall('op-3', { action: 'balance' }));
    const tomorrow = String(await store.value(`select (now() + interval '1 day')::date::text`));
    expect(await forgetWalletCalls(store.url, tomorrow, 4)).toBe(0);
    await jump(store.pool, 60 * DAY);
    expect(await forgetWalletCalls(store.url, '2000-01-01', 4)).toBe(0);
    // The rollback names the bet, so the bet goes after it.
    expect(await forgetWalletCalls(store.url, tomorrow, 4)).toBe(2);
    expect(await stored()).toEqual(['op-2 open 1', 'op-3 open 1']);
  });
});

describe('an erasure of a player', () => {
  test('stops the open calls of the player, and leaves nothing of the name [X5]', async () => {
    wallet.faults = ['lost_by_reset', 'bare_500', 'bare_500', 'none'];
    const { calls } = aCaller();
    await calls.start(aCall('op-1'));
    await calls.start(credit('op-2'));
    await calls.start(credit('op-3', 'another'));
    await calls.start(credit('op-4'));
    const seen = wallet.seen.length;
    expect(await erase()).toMatchObject({ walletCalls: 2 });
    expect(await stored()).toEqual(['op-1 unresolved 1', 'op-2 unresolved 1', 'op-3 open 1', 'op-4 ok 1']);
    expect(await everything()).not.toContain(PLAYER);
    expect(await everything()).toContain('another');
    expect(
      await store.rows('select op_id from promo.wallet_calls where erasure_no is not null order by 1'),
    ).toEqual([['op-1'], ['op-2']]);
    expect(await store.value(`select outcome ->> 'wallet_calls' from promo.operations`)).toBe('2');
    await jump(store.pool, 80 * HOUR);
    await takeAndSettle(calls);
    expect(wallet.seen.slice(seen).map(({ opId }) => opId)).toEqual([]);
    // People resolve them by the op_id alone.
    expect(await store.value(`select promo.close_wallet_call('acme', 'op-2', 'paid by hand')`)).toBe('t');
  });

  test('compares the value of the player alone, and of its operator alone', async () => {
    wallet.always = 'bare_500';
    const { calls } = aCaller();
    await calls.start(credit('op-1', '100'));
    await calls.start(credit('op-2', '1000'));
    await calls.start(credit('op-3', '7'));
    expect(await erase('100')).toMatchObject({ walletCalls: 1 });
    await erasePlayer(store.url, BY, { operator: 'bravo', player: '7', batch: 10 }, () => undefined);
    expect(await stored()).toEqual(['op-1 unresolved 1', 'op-2 open 1', 'op-3 open 1']);
  });

  test('of a player without calls has no number of them', async () => {
    expect(await erase('nobody')).not.toHaveProperty('walletCalls');
  });

  test('voids an answer that comes later, with the rollback that would follow [X5]', async () => {
    wallet.always = 'lost_by_reset';
    let end: (() => Promise<boolean>) | undefined;
    const caller = aCaller((real) => ({
      ...real,
      async end(held, change: CallChange) {
        if (change.following === null) return real.end(held, change);
        end = () => real.end(held, change);
        return false;
      },
    }));
    await caller.calls.start(aCall('op-1'));
    await jump(store.pool, 25);
    await takeAndSettle(caller.calls);
    expect(await erase()).toMatchObject({ walletCalls: 1 });
    expect(await end?.()).toBe(false);
    expect(await stored()).toEqual(['op-1 unresolved 1']);
    expect(await everything()).not.toContain(PLAYER);
  });

  test('waits for a call that ends at this moment, and erases the rollback of it [X5]', async () => {
    wallet.faults = ['lost_by_reset'];
    const caller = aCaller();
    await caller.calls.start(aCall('op-1'));
    await withClient(store.url, async (ending) => {
      await ending.query('begin');
      await ending.query(
        `update promo_store.wallet_calls set state = 'followed', payload = null, call_values = null, ended_at = now()`,
      );
      await ending.query(
        `insert into promo_store.wallet_calls (operator_id, op_id, action, follows, content_hash, payload, call_values, due_at)
        select 'acme', 'op-1.rollback', 'rollback', call_no, '', '{}', '{"player": "${PLAYER}"}', now() from promo_store.wallet_calls`,
      );
      const erasing = erase();
      await store.untilOneWaits();
      await ending.query('commit');
      expect(await erasing).toMatchObject({ walletCalls: 1 });
    });
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.rollback unresolved 0']);
    expect(await everything()).not.toContain(PLAYER);
  });
});

test('a call of an operator that has left for another cell is invalid, and is not stored', async () => {
  const { calls } = aCaller();
  const moving = `insert into promo_store.moves (operator_id, direction, other_cell, state) values ('acme', 'out', 'b', 'copying')`;
  await store.rows(moving);
  await expect(calls.start(credit('op-1'))).rejects.toThrow(InvalidCall);
  await store.rows(`update promo_store.moves set state = 'done'`);
  await expect(calls.start(credit('op-1'))).rejects.toThrow('call its wallet from there');
  await store.rows(`update promo_store.moves set direction = 'in'`);
  expect(await calls.start(credit('op-1'))).toMatchObject({ state: 'ok' });
  expect(wallet.seen).toHaveLength(1);
});
