/**
 * Several processes call one wallet that fails at random, and are killed at random steps of their attempts.
 * Time is real, with short terms. SEED repeats a run, and WALLET_SEEDS adds more.
 */
import { join } from 'node:path';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { freshStore, type TestStore } from '../support/ledger';
import { startProgram } from '../support/program';
import { type Fault, PLAYER, TestWallet } from '../support/wallet';

const PROCESSES = 3;
const CALLS_EACH = 12;
const KILLS = 6;
const END_WITHIN_MS = 60_000;
const FAULTS: readonly Fault[] = [
  ...(['none', 'none', 'none', 'reset', 'lost_by_reset', 'lost_by_silence', 'lost_by_cut'] as const),
  ...(['bare_500', 'internal', 'maintenance'] as const),
];
const { SEED } = process.env;
const COUNT = inRun({ usual: 1, long: 2, variable: 'WALLET_SEEDS' });
const FIRST = Number(SEED ?? 1);
const SEEDS = Array.from({ length: SEED === undefined ? COUNT : 1 }, (_, n) => FIRST + n);

jest.setTimeout(300_000);

let store: TestStore;
afterEach(() => store.close());

test.each(SEEDS)(
  'processes that are killed at any step send no bet after its rollback, and leave no call open: seed %d [X2] [X3] [X4]',
  async (seed) => {
    const random = makeRandom(seed);
    store = await freshStore();
    const wallet = await new TestWallet().open();
    wallet.faults = Array.from({ length: 400 }, () => random.pick(FAULTS));
    const program = join(__dirname, 'wallet-crew-program.ts');
    const start = (name: string, calls: number) =>
      startProgram(program, {
        DATABASE_URL: store.url,
        WALLET_URL: wallet.url,
        NAME: name,
        CALLS: String(calls),
        SEED: String(random.below(1_000_000)),
      });
    const running = new Map(
      Array.from({ length: PROCESSES }, (_, n) => [n, start(`first-${n}`, CALLS_EACH)]),
    );
    try {
      for (let kills = 1; kills <= KILLS; kills++) {
        const place = random.below(PROCESSES);
        // It may have killed itself before.
        await running
          .get(place)
          ?.waitForLine('started')
          .catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, random.between(50, 1_500)));
        await running.get(place)?.kill();
        running.set(place, start(`next-${kills}`, CALLS_EACH));
      }
      await Promise.all(
        [...running.values()].map((each) => each.waitForLine('started').catch(() => undefined)),
      );
      for (const each of running.values()) await each.kill();
      wallet.faults = [];
      running.set(0, start('last', 0));
      await until('no call is open', END_WITHIN_MS, async () => {
        const { rows } = await store.pool.query(
          `select count(*) as open from promo.wallet_calls where state = 'open'`,
        );
        return rows[0]?.open === '0';
      });
    } finally {
      await Promise.all([...running.values()].map((each) => each.kill()));
      await wallet.close();
    }
    const calls = await store.rows(
      `select op_id, action, state, followed_by, followed_state, (extract(epoch from created_at) * 1000)::bigint from promo.wallet_calls order by call_no`,
    );
    expect(calls.length).toBeGreaterThan(PROCESSES);
    const createdAt = new Map(calls.map(([opId, , , , , at]) => [String(opId), Number(at)]));
    const tooLate = wallet.seen.filter(({ path, opId, raw }) => {
      const rollback = createdAt.get(`${opId}.rollback`);
      return (
        path.endsWith('/debit') && rollback !== undefined && Number(/"ts":(\d+)/.exec(raw)?.[1]) > rollback
      );
    });
    expect(tooLate).toEqual([]);
    for (const [opId, action, state, followedBy, followedState] of calls) {
      const moved = wallet.hasMoved(String(opId));
      const call = `${opId} ${action} ${state} ${followedBy ?? ''} ${followedState ?? ''}`;
      expect([call, ['ok', 'refused', 'followed', 'unresolved'].includes(String(state))]).toEqual([
        call,
        true,
      ]);
      if (state === 'ok' && (action === 'debit' || action === 'credit'))
        expect([call, moved]).toEqual([call, true]);
      if (state === 'refused') expect([call, moved]).toEqual([call, false]);
      if (followedState === 'ok' && String(followedBy).endsWith('.rollback'))
        expect([call, moved]).toEqual([call, false]);
    }
    // All that the processes sent was stored before.
    for (const { opId } of wallet.seen) expect(createdAt.has(opId)).toBe(true);
    expect(
      JSON.stringify(
        await store.rows(`select c::text from promo_store.wallet_calls c where state <> 'unresolved'`),
      ),
    ).not.toContain(PLAYER);
  },
);
