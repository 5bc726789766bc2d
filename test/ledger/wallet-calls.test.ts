/**
 * Wallet calls over a real Postgres and a real HTTP server. Networks fail, processes are killed at each step,
 * two of them work at once, and clocks jump.
 */
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import type { WalletAction } from '../../src/contract/actions';
import { grantRoles } from '../../src/ledger/roles';
import { InvalidCall, WalletBusy } from '../../src/wallet/calls';
import type { CallProfile } from '../../src/wallet/profile';
import { freshStore, type TestStore } from '../support/ledger';
import { startProgram } from '../support/program';
import { dropRoles, makeRole } from '../support/roles';
import { A_SIGNING, aProfile, type Fault, KEY_ID, PLAYER, SECRET, TestWallet } from '../support/wallet';
import {
  aCall,
  type Caller,
  type CallerOptions,
  finish,
  jump,
  makeCaller,
  takeAndSettle,
} from '../support/wallet-calls';

jest.setTimeout(300_000);

const STEP_DEADLINE_MS = 20_000;
const HOUR = 3_600;

let store: TestStore;
let wallet: TestWallet;
const callers: Caller[] = [];
const wallets: TestWallet[] = [];

beforeEach(async () => {
  store = await freshStore();
  wallet = await aWallet();
});
afterEach(async () => {
  await Promise.all(callers.splice(0).map(({ pool }) => pool.end()));
  await Promise.all(wallets.splice(0).map((each) => each.close()));
  await store.close();
});

async function aWallet(): Promise<TestWallet> {
  const opened = await new TestWallet().open();
  wallets.push(opened);
  return opened;
}

function aCaller(options: Partial<CallerOptions> & { readonly profile?: Partial<CallProfile> } = {}): Caller {
  const caller = makeCaller(store.url, { profiles: [aProfile(wallet.url, options.profile)], ...options });
  callers.push(caller);
  return caller;
}

/** Each stored call in short, in the order of their begin. */
const stored = () =>
  store
    .rows('select op_id, state, attempts from promo.wallet_calls order by call_no')
    .then((rows) => rows.map((row) => row.join(' ')));

describe('a call that is answered', () => {
  test('is stored with its answer, and the same call again is not sent [X1]', async () => {
    const { calls } = aCaller();
    const first = await calls.start(aCall('op-1'));
    expect(first).toMatchObject({ state: 'ok', attempts: 1, body: { data: { balance: '900' } } });
    expect(await calls.start(aCall('op-1'))).toMatchObject({ state: 'ok', attempts: 1, body: null });
    expect(wallet.seen.map(({ path }) => path)).toEqual(['/v2/wallet/debit']);
    expect(await stored()).toEqual(['op-1 ok 1']);
  });

  test('is refused at the first attempt, and is over', async () => {
    wallet.faults = ['refused'];
    const { calls } = aCaller();
    expect(await calls.start(aCall('op-1'))).toMatchObject({
      state: 'refused',
      answer: { type: 'refused', code: 'ERROR_CODE_INSUFFICIENT_FUNDS' },
    });
    await jump(store.pool, 80 * HOUR);
    expect(await takeAndSettle(calls)).toBe(0);
  });

  test('leaves no data of the player in its row [X5]', async () => {
    wallet.faults = ['bare_500'];
    const caller = aCaller();
    await caller.calls.start(aCall('op-1', { action: 'credit' }));
    const rows = () => store.value('select c::text from promo_store.wallet_calls c');
    expect(await rows()).toContain(PLAYER);
    await finish(caller);
    expect(await rows()).not.toContain(PLAYER);
  });

  test('with the op_id of another content is invalid, and is not sent [X1]', async () => {
    const { calls } = aCaller();
    await calls.start(aCall('op-1'));
    const other = aCall('op-1', { values: { player: PLAYER, amount: '7' } });
    await expect(calls.start(other)).rejects.toThrow(InvalidCall);
    expect(wallet.seen).toHaveLength(1);
  });

  test('with the op_id of an open call of another player is invalid, and is not sent', async () => {
    wallet.faults = ['bare_500'];
    const { calls } = aCaller();
    await calls.start(aCall('op-1', { action: 'credit' }));
    const other = aCall('op-1', { action: 'credit', values: { player: 'another', amount: '100' } });
    await expect(calls.start(other)).rejects.toThrow('other content');
    expect(wallet.seen).toHaveLength(1);
  });

  test('without a player is invalid, and is not stored', async () => {
    const { calls } = aCaller();
    await expect(calls.start(aCall('op-1', { values: { amount: '7' } }))).rejects.toThrow('no value player');
    expect(await stored()).toEqual([]);
  });
});

const RESENT: readonly Fault[] = ['none'];
const FAULTS: readonly Fault[] = [
  ...([
    'reset',
    'lost_by_reset',
    'lost_by_silence',
    'lost_by_cut',
    'lost_by_size',
    'lost_by_garbage',
  ] as const),
  ...(['bare_500', 'bare_404', 'redirect', 'internal', 'maintenance'] as const),
];

describe('a fault of the network', () => {
  test.each(FAULTS)('%s: the credit is sent again, and takes effect once [X1]', async (fault) => {
    wallet.faults = [fault, fault, ...RESENT];
    const caller = aCaller();
    expect((await caller.calls.start(aCall('op-1', { action: 'credit' }))).state).toBe('open');
    await finish(caller);
    expect(await stored()).toEqual(['op-1 ok 3']);
    expect(wallet.balance).toBe(1_100);
    const payloads = new Set(wallet.seen.map(({ raw }) => raw.slice(raw.indexOf('"payload"'))));
    expect(payloads.size).toBe(1);
    expect(new Set(wallet.seen.map(({ headers }) => headers['idempotency-key']))).toEqual(new Set(['op-1']));
    expect(new Set(wallet.seen.map(({ requestId }) => requestId)).size).toBe(3);
  });

  test.each(FAULTS)('%s for good: the bet is rolled back, and the stake is returned [O5]', async (fault) => {
    wallet.faults = [fault, fault, fault];
    const caller = aCaller();
    await caller.calls.start(aCall('op-1'));
    for (let step = 0; step < 2; step++) {
      await jump(store.pool, 4);
      expect(await takeAndSettle(caller.calls)).toBe(1);
    }
    await finish(caller);
    expect(await stored()).toEqual(['op-1 followed 3', 'op-1.rollback ok 1']);
    expect(wallet.balance).toBe(1_000);
  });

  test('for 72 h: a credit ends in a reconcile, and a reconcile without an answer is left to people', async () => {
    wallet.always = 'bare_500';
    const caller = aCaller();
    await caller.calls.start(aCall('op-1', { action: 'credit' }));
    await jump(store.pool, 73 * HOUR);
    await takeAndSettle(caller.calls);
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.reconcile open 0']);
    await takeAndSettle(caller.calls);
    await jump(store.pool, 73 * HOUR);
    await takeAndSettle(caller.calls);
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.reconcile unresolved 1']);
    expect(
      await store.value(`select promo.close_wallet_call('acme', 'op-1.reconcile', 'paid by hand')`),
    ).toBe('t');
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.reconcile closed 1']);
  });

  test('of a balance: it is given up, since nothing is uncertain', async () => {
    wallet.always = 'bare_500';
    const caller = aCaller();
    await caller.calls.start(aCall('op-1', { action: 'balance' }));
    await finish(caller);
    expect(await stored()).toEqual(['op-1 given_up 1']);
  });
});

const STEPS = ['before begin', 'after begin', 'at send', 'before end', 'after end'] as const;
const ACTIONS: readonly WalletAction[] = ['debit', 'credit'];

describe('a process that is killed', () => {
  const program = join(__dirname, 'wallet-caller-program.ts');
  const start = (environment: Record<string, string>) =>
    startProgram(program, { DATABASE_URL: store.url, WALLET_URL: wallet.url, ...environment });

  /** What holds after any crash, once another process has gone on. */
  async function expectSound(action: WalletAction): Promise<void> {
    const rows = await stored();
    if (rows.length === 0) expect([wallet.balance, wallet.seen]).toEqual([1_000, []]);
    else if (action === 'credit') {
      expect(rows).toEqual([expect.stringMatching(/^op-1 ok \d$/)]);
      expect(wallet.balance).toBe(1_100);
    } else if (rows.length === 1) {
      expect(rows).toEqual(['op-1 ok 1']);
      expect(wallet.balance).toBe(900);
    } else {
      expect(rows).toEqual(['op-1 followed 1', 'op-1.rollback ok 1']);
      expect(wallet.balance).toBe(1_000);
    }
  }

  test.each(STEPS.flatMap((step) => ACTIONS.map((action) => [step, action] as const)))(
    '%s of a %s: another process goes on [X4]',
    async (step, action) => {
      const running = start({ MODE: 'start', KILL_AT: step, ACTION: action });
      await expect(running.waitForLine('survived')).rejects.toThrow('SIGKILL');
      await finish(aCaller());
      await expectSound(action);
    },
  );

  test.each(ACTIONS)('while the wallet works on a %s: another process goes on [X4]', async (action) => {
    wallet.faults = ['lost_by_silence'];
    const running = start({ MODE: 'start', ACTION: action });
    await until('the wallet has the request', STEP_DEADLINE_MS, () => wallet.seen.length === 1);
    await running.kill();
    await finish(aCaller());
    await expectSound(action);
    expect(wallet.counts().get('op-1')).toBe(action === 'debit' ? 1 : 2);
  });

  test.each(['after take', 'at send', 'before end', 'after end'])(
    '%s of a resumed credit: another process goes on [X4]',
    async (step) => {
      wallet.faults = ['lost_by_reset'];
      const caller = aCaller();
      await caller.calls.start(aCall('op-1', { action: 'credit' }));
      await jump(store.pool, 2);
      const running = start({ MODE: 'resume', KILL_AT: step, ACTION: 'credit' });
      await expect(running.waitForLine('survived')).rejects.toThrow('SIGKILL');
      await finish(caller);
      await expectSound('credit');
    },
  );
});

describe('two processes at once', () => {
  test('send each due call once [X3]', async () => {
    const amount = 40;
    const profile = { connections: amount };
    // On a busy machine, 40 requests at once take longer than the usual deadline.
    const [a, b] = [aCaller({ profile, deadlineMs: 10_000 }), aCaller({ profile, deadlineMs: 10_000 })];
    wallet.always = 'bare_500';
    for (let n = 0; n < amount; n++) await a.calls.start(aCall(`op-${n}`, { action: 'credit' }));
    wallet.always = 'none';
    await jump(store.pool, 2);
    for (let taken = 1; taken > 0; ) {
      const each = await Promise.all([takeAndSettle(a.calls), takeAndSettle(b.calls)]);
      taken = each[0] + each[1];
    }
    expect(new Set(wallet.counts().values())).toEqual(new Set([2]));
    expect(await store.value(`select count(*) from promo.wallet_calls where state = 'ok'`)).toBe(`${amount}`);
    expect(wallet.balance).toBe(1_000 + amount * 100);
  });

  test('store one answer where the lease ended during an attempt [X3]', async () => {
    wallet.faults = ['lost_by_silence'];
    const slow = aCaller({ deadlineMs: 2_000 });
    const first = slow.calls.start(aCall('op-1', { action: 'credit' }));
    await until('the wallet has the request', STEP_DEADLINE_MS, () => wallet.seen.length === 1);
    const quick = aCaller();
    await jump(store.pool, 31);
    expect(await takeAndSettle(quick.calls)).toBe(1);
    expect(await stored()).toEqual(['op-1 open 1']);
    expect(await first).toMatchObject({ state: 'open', attempts: 1, answer: { cause: 'interrupted' } });
    await finish(quick);
    expect(await stored()).toEqual(['op-1 ok 2']);
    expect(wallet.balance).toBe(1_100);
  });

  test('of one start each: the call is sent once', async () => {
    const both = [aCaller(), aCaller()];
    const results = await Promise.all(both.map(({ calls }) => calls.start(aCall('op-1'))));
    expect(wallet.seen).toHaveLength(1);
    expect(results.some(({ state }) => state === 'ok')).toBe(true);
    expect(wallet.balance).toBe(900);
  });
});

describe('a clock that jumps', () => {
  test.each([-80 * HOUR, 80 * HOUR])('of a process by %d s changes no step [X8]', async (seconds) => {
    wallet.faults = ['bare_500'];
    let offset = 0;
    const caller = aCaller({ wallNow: () => Date.now() + offset });
    await caller.calls.start(aCall('op-1', { action: 'credit' }));
    offset = seconds * 1_000;
    expect(await takeAndSettle(caller.calls)).toBe(0);
    await jump(store.pool, 2);
    await takeAndSettle(caller.calls);
    expect(await stored()).toEqual(['op-1 ok 2']);
  });

  test('of the store ahead during a bet rolls the bet back [X2]', async () => {
    wallet.faults = ['lost_by_reset'];
    const caller = aCaller();
    await caller.calls.start(aCall('op-1'));
    await jump(store.pool, 80 * HOUR);
    await takeAndSettle(caller.calls);
    await finish(caller);
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.rollback ok 1']);
    expect(wallet.counts().get('op-1')).toBe(1);
    expect(wallet.balance).toBe(1_000);
  });

  test('of the store back delays a call, and loses none', async () => {
    wallet.faults = ['lost_by_reset'];
    const caller = aCaller();
    await caller.calls.start(aCall('op-1', { action: 'credit' }));
    await jump(store.pool, -HOUR);
    expect(await takeAndSettle(caller.calls)).toBe(0);
    await jump(store.pool, HOUR);
    await finish(caller);
    expect(await stored()).toEqual(['op-1 ok 2']);
    expect(wallet.balance).toBe(1_100);
  });
});

describe('a slow wallet', () => {
  test('does not delay the calls of another one [X9]', async () => {
    const other = await aWallet();
    const profiles = [aProfile(wallet.url), aProfile(other.url, { operatorId: 'bravo' })];
    const { calls } = aCaller({ profiles, deadlineMs: 12_000 });
    wallet.always = 'bare_500';
    other.always = 'bare_500';
    for (let n = 0; n < 12; n++) {
      const operatorId = n % 2 === 0 ? 'acme' : 'bravo';
      await calls.start(aCall(`op-${n}`, { action: 'credit', operatorId }));
    }
    wallet.always = 'lost_by_silence';
    other.always = 'none';
    await jump(store.pool, 2);
    const stop = new AbortController();
    const running = calls.run(stop.signal);
    const began = performance.now();
    await until('all calls of the other wallet are over', STEP_DEADLINE_MS, async () => {
      const open = `select count(*) from promo.wallet_calls where operator_id = 'bravo' and state = 'open'`;
      return (await store.value(open)) === '0';
    });
    // A call to the slow wallet takes 12 s.
    expect(performance.now() - began).toBeLessThan(10_000);
    stop.abort();
    await running;
  });

  test('has only so many connections, and a new call beyond them is refused before it is stored [X9]', async () => {
    wallet.always = 'lost_by_silence';
    const { calls } = aCaller({ deadlineMs: 2_000 });
    const held = [calls.start(aCall('op-1')), calls.start(aCall('op-2'))];
    await until('the wallet has both', STEP_DEADLINE_MS, () => wallet.seen.length === 2);
    await expect(calls.start(aCall('op-3'))).rejects.toThrow(WalletBusy);
    await Promise.all(held);
    expect((await stored()).sort()).toEqual(['op-1 open 1', 'op-2 open 1']);
  });
});

test('no log line has the secret, the key or data of the player [X10]', async () => {
  wallet.faults = [...FAULTS, 'none'];
  const caller = aCaller({ profile: { signing: A_SIGNING } });
  await caller.calls.start(aCall('op-1', { action: 'credit' }));
  await finish(caller);
  expect(wallet.seen.every(({ headers }) => /^[0-9a-f]{64}$/.test(String(headers['x-signature'])))).toBe(
    true,
  );
  expect(caller.log().match(/"op-1"/g)?.length).toBe(FAULTS.length + 1);
  for (const word of [PLAYER, SECRET, KEY_ID]) expect(caller.log()).not.toContain(word);
});

test('the role of the service that calls wallets needs no other right', async () => {
  const role = await makeRole(store.url, 'wallet');
  try {
    await grantRoles(store.url, [{ role: 'wallet', name: role.name }]);
    wallet.faults = ['lost_by_reset', 'bare_500'];
    const caller = makeCaller(role.url, { profiles: [aProfile(wallet.url)] });
    callers.push(caller);
    await caller.calls.start(aCall('op-1'));
    for (let step = 0; step < 3; step++) {
      await jump(store.pool, 61);
      await takeAndSettle(caller.calls);
    }
    expect(await stored()).toEqual(['op-1 followed 1', 'op-1.rollback ok 2']);
    for (const forbidden of [
      'delete from promo_store.wallet_calls',
      `update promo_store.wallet_calls set op_id = 'x'`,
    ])
      await expect(caller.pool.query(forbidden)).rejects.toThrow('permission denied');
  } finally {
    await Promise.all(callers.splice(0).map(({ pool }) => pool.end()));
    await dropRoles(store.url, [role.name]);
  }
});

test('calls that are over are forgotten after their time, and open ones stay', async () => {
  const caller = aCaller();
  wallet.faults = ['none', 'bare_500', 'bare_500'];
  await caller.calls.start(aCall('op-1', { action: 'credit' }));
  await caller.calls.start(aCall('op-2', { action: 'credit' }));
  await jump(store.pool, 24 * HOUR);
  const forget = `select promo.forget_wallet_calls(now() - interval '1 hour')`;
  expect(await store.value(forget)).toBe('1');
  expect(await stored()).toEqual(['op-2 open 1']);
  expect(await store.value(forget)).toBe('0');
});
