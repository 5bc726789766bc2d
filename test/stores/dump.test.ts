/** A store moves to another server by a dump, as in docs/operations/backup-and-restore.md. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Servers } from '../../dev/servers';
import { until } from '../../dev/servers/deadline';
import { runMigrations } from '../../src/ledger/migrate';
import { grantTestRoles } from '../support/as-role';
import { aPromotionFold, aRollupFold, foldAll } from '../support/folds';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  freshStore,
  TestStore,
  withClient,
} from '../support/ledger';
import { testWhere } from '../support/needed';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { ownServers } from '../support/servers';
import { findDumpTools } from '../support/toolchains';

const DUMP_DEADLINE_MS = 60_000;
/** Two servers are started. */
const TEST_DEADLINE_MS = 240_000;
const LEASE_ENDS_WITHIN_MS = 60_000;
const OWNER = 'promo_owner';

const PROMOTIONS = definitionsOf(
  'id: bets, type: bet_count, target: 2, completes: each',
  'id: logins, type: login_streak, days: 1, time_zone: UTC',
  'id: race, type: leaderboard, window: { every: day }, time_zone: UTC, points: [{ counts: bet, points: 1 }], keep_ranks: 3',
);

const run = promisify(execFile);

/** What readers see, without the times of deciding. */
async function contents(store: TestStore) {
  return {
    verdicts: await store.rows('select event_id, verdict, reason, counted from promo.verdicts order by 1'),
    rounds: await store.rows(
      'select round_id, refunded, settled, net_bet_minor from promo.rounds order by 1',
    ),
    deliveries: await store.rows('select event_id, source_offset from promo.deliveries order by 1, 2'),
    progress: await store.rows(
      'select promotion_id, window_key, player_ref, value, completions from promo.promotion_progress order by 1, 2, 3',
    ),
    completions: await store.rows(
      `select encode(completion_id, 'hex'), change, ordinal, attempt from promo_store.promotion_completions order by 1, 2`,
    ),
    hours: await store.rows(
      'select kind, verdict, sum(verdicts) from promo.verdicts_hourly group by 1, 2 order by 1, 2',
    ),
    days: await store.rows(
      'select kind, sum(entries), sum(refunded) from promo.ledger_daily group by 1 order by 1',
    ),
    generations: await store.rows(
      `select generation, rebuilt_because, complete_since, up_to_verdict_id is null from promo.promotion_coverage
       union all select generation, rebuilt_because, complete_since, up_to_verdict_id is null from promo.rollup_coverage`,
    ),
  };
}

/**
 * Counts all verdicts, by the roles of the processes. In a restored store, the lease of the process that
 * counted in the first one has to end before.
 */
async function count(store: TestStore): Promise<void> {
  for (const fold of [aRollupFold(store.pool, { holder: store.url }), aPromotionFold(store.pool)]) {
    await until(
      'the lease has ended',
      LEASE_ENDS_WITHIN_MS,
      async () => (await fold.step()).kind !== 'standby',
    );
    await foldAll(fold, 2);
  }
}

/** Numbers of transactions that the next server does not reach: none may be stored. */
const BURN_NUMBERS = `do $$ begin
  create temp table burnt (n int);
  for n in 1..5000 loop
    begin insert into burnt values (n); raise exception 'undone'; exception when raise_exception then null; end;
  end loop;
end $$`;

testWhere(findDumpTools())(
  'a dump restored on another server counts on where the first one was, as the first one does [K3] [L5] [P20]',
  async ({ version, dump, restore }) => {
    const environment = { ...process.env, STACK: 'processes' };
    const directory = mkdtempSync(join(tmpdir(), 'dump-'));
    const servers: Servers[] = [];
    const start = async () => {
      const started = await ownServers({ need: ['postgres'], postgresVersion: version, environment });
      servers.push(started);
      return started.databaseUrl;
    };
    try {
      const first = await freshStore({ server: await start() });
      await first.rows(BURN_NUMBERS);
      await applyDefinitions(first.pool, PROMOTIONS);
      await first
        .partition('acme')
        .read(
          aBet({ event_id: 'b1', round_id: 'r1' }),
          aBet({ event_id: 'b2', round_id: 'r2' }),
          aLogin({ event_id: 'l1' }),
          aDeposit({ event_id: 'd1' }),
          aBet({ event_id: 'b1', round_id: 'r1' }),
        );
      await count(first);
      // Decided and not counted when the dump is taken.
      await first.partition('bravo').read(aSettled({ event_id: 's1', round_id: 'r9' }));

      const file = join(directory, 'promo.dump');
      await run(dump, ['-Fc', '-f', file, first.url], { timeout: DUMP_DEADLINE_MS });
      const other = await start();
      // On a new server, roles come first: the dump has grants to them.
      const roles = await first.rows(`select rolname from pg_roles where rolname like 'promo%'`);
      await withClient(other, async (client) => {
        for (const [role] of [...roles, [OWNER]]) await client.query(`create role ${role}`);
        await client.query(`create database restored owner ${OWNER}`);
      });
      const url = Object.assign(new URL(other), { pathname: '/restored' }).href;
      const args = ['--exit-on-error', '--no-owner', `--role=${OWNER}`, '-j', '2', '-d', url, file];
      await run(restore, args, { timeout: DUMP_DEADLINE_MS });
      expect(await runMigrations(url)).toEqual([]);
      await withClient(other, (client) => grantTestRoles(client, url));

      const second = new TestStore(url, { isCloned: true });
      expect(await contents(second)).toEqual(await contents(first));
      for (const store of [first, second]) {
        await store
          .partition('acme')
          .readAt(5, aRefund({ event_id: 'f1', round_id: 'r1' }), aBet({ event_id: 'b3', round_id: 'r3' }));
        await store.partition('acme').readAt(0, aBet({ event_id: 'b1', round_id: 'r1' }));
        await count(store);
      }
      const counted = await contents(second);
      expect(counted).toEqual(await contents(first));
      // The login, the day of the race and two bets complete. The refund revokes the bets, and the third bet
      // completes them again.
      expect(counted.completions.map(([, change]) => change).sort()).toEqual(['0', '0', '0', '0', '1']);
      await second.disconnect();
      await first.close();
    } finally {
      await Promise.all(servers.map((each) => each.stop()));
      rmSync(directory, { recursive: true });
    }
  },
  TEST_DEADLINE_MS,
);
