/** A role that may only connect holds all locks that it can. Nothing of the service waits for it (U4, D2). */
import type { Client } from 'pg';
import { until } from '../../dev/servers/deadline';
import type { Ledger } from '../../src/ledger/decide-batch';
import { migrationNames, runMigrations } from '../../src/ledger/migrate';
import { openClient } from '../../src/postgres/pool';
import { aBet, freshStore, rowsOf, type TestStore, withClient } from '../support/ledger';
import { pgbouncerProblem, withPgbouncer } from '../support/pgbouncer';
import { dropRoles, makeRole } from '../support/roles';
import { type FreshDatabase, freshDatabase } from '../support/servers';

jest.setTimeout(300_000);

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

/** Of the versions before 0016: of feeds, of months and of migrators. */
const FEED_LOCK = 1_347_571_023;
const MONTHS_LOCK = 4_915_023_772;
const MIGRATE_LOCK = 4_915_023_771;

/** Runs `work` while a role that may only connect holds every advisory lock that the store has ever taken. */
async function besideStranger(url: string, work: (stranger: Client) => Promise<void>): Promise<void> {
  const role = await makeRole(url, 'stranger');
  try {
    await withClient(role.url, async (stranger) => {
      await stranger.query('select pg_advisory_lock($1, n) from generate_series(1, 50) n', [FEED_LOCK]);
      for (const lock of [MONTHS_LOCK, MIGRATE_LOCK])
        await stranger.query('select pg_advisory_lock($1)', [lock]);
      await work(stranger);
    });
  } finally {
    await dropRoles(url, [role.name]);
  }
}

/** The result of `work` within the given number of seconds. */
async function within<T>(seconds: number, work: Promise<T>): Promise<T | 'too late'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'too late'>((resolve) => {
    timer = setTimeout(() => resolve('too late'), seconds * 1_000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const contended =
  (decideBatch: Ledger['decideBatch']): Ledger['decideBatch'] =>
  (batch) =>
    decideBatch({ ...batch, contended: true });

test('batches under contention are decided [U4]', async () => {
  await besideStranger(store.url, async () => {
    const { partition } = store.writer({
      wrap: (ledger) => ({ ...ledger, decideBatch: contended(ledger.decideBatch) }),
    });
    expect(await within(30, partition('acme').read(aBet()))).toEqual(['accepted']);
  });
});

test('months are created and dropped, and players are erased [D2]', async () => {
  await store.partition('acme').read(aBet());
  await store.pool.query(`create table promo_store.history_2020_01 partition of promo_store.history
    for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`);
  await besideStranger(store.url, async () => {
    await withClient(store.url, async (client) => {
      await client.query(`set lock_timeout = '1s'`);
      expect(await rowsOf(client, 'select promo_store.ensure_months(4)')).toEqual([['8']]);
      expect(
        await rowsOf(client, `select verdicts from promo.erase_player('acme', $1)`, [aBet().player_ref]),
      ).toEqual([['1']]);
      expect(await rowsOf(client, `select promo.drop_months_before('2020-02-01')`)).toEqual([
        ['history_2020_01'],
      ]);
    });
  });
});

describe('months and erasures exclude one another as before, and block no reader', () => {
  const MAKE = 'select promo_store.ensure_months(4)';
  const DROP = `select promo.drop_months_before('2020-02-01')`;
  const ERASE = `select promo.erase_player('acme', 'nobody')`;
  const WAITS_FOR_ME =
    'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
  const waitsFor = (holds: string, asks: string) =>
    withClient(store.url, async (holder) => {
      await holder.query('begin');
      await holder.query(holds);
      return withClient(store.url, async (client) => {
        let [isOver, waits] = [false, false];
        const asked = client.query(asks).finally(() => {
          isOver = true;
        });
        // The error is reported once the holder has gone.
        asked.catch(() => undefined);
        await until('it waits for the holder, or is over', 60_000, async () => {
          waits = !isOver && (await holder.query(WAITS_FOR_ME)).rowCount === 1;
          return waits || isOver;
        });
        await holder.query('rollback');
        await asked;
        return waits;
      });
    });

  test.each([
    [MAKE, MAKE, true],
    [MAKE, DROP, true],
    [MAKE, ERASE, true],
    [DROP, MAKE, true],
    [DROP, DROP, true],
    [DROP, ERASE, true],
    [ERASE, MAKE, true],
    [ERASE, DROP, true],
    [ERASE, ERASE, false],
  ])('%s, then %s: waits %s', async (holds, asks, waits) => {
    expect(await waitsFor(holds, asks)).toBe(waits);
  });

  test.each([MAKE, DROP, ERASE])('readers and dumps continue after %s', async (holds) => {
    for (const read of [
      'select * from promo.check_invariants()',
      'select count(*) from promo.operations',
      'lock table promo_store.months in access share mode',
    ])
      expect(await waitsFor(holds, `begin; ${read}; commit`)).toBe(false);
  });
});

describe('migrate', () => {
  const databases: FreshDatabase[] = [];
  async function database(upTo?: string): Promise<string> {
    const made = await freshDatabase();
    databases.push(made);
    if (upTo !== undefined) await runMigrations(made.url, { upTo });
    return made.url;
  }
  afterAll(async () => {
    for (const made of databases) await made.drop();
  });

  test('runs beside a role that holds its old lock [D1]', async () => {
    const url = await database('0015_ledger_by_refunds.sql');
    await besideStranger(url, async () => {
      const pending = (await migrationNames()).filter((name) => name > '0016');
      expect(await within(60, runMigrations(url, { guardTimeoutMs: 2_000 }))).toEqual(pending);
    });
  });

  test('waits for an older migrator, which holds the old lock with the rights of the owner [D1]', async () => {
    const url = await database('0015_ledger_by_refunds.sql');
    const older = await openClient(url, { application_name: 'promo-test-older-migrator' });
    try {
      await older.query('select pg_advisory_lock($1)', [MIGRATE_LOCK]);
      await expect(runMigrations(url, { guardTimeoutMs: 1_500 })).rejects.toThrow(
        'another migrator has run for more than 1.5 s',
      );
      const migrating = runMigrations(url);
      expect(await within(2, migrating)).toBe('too late');
      await older.query('select pg_advisory_unlock($1)', [MIGRATE_LOCK]);
      expect(await migrating).toContain('0016_locks_of_our_own.sql');
    } finally {
      await older.end();
    }
  });

  test('waits for another one, and reports it at the end [D1]', async () => {
    const url = await database('0001_intake.sql');
    await withClient(url, async (other) => {
      await other.query('begin; lock table promo_store.migrate_guard in share update exclusive mode');
      await expect(runMigrations(url, { guardTimeoutMs: 1_000 })).rejects.toThrow(
        'another migrator has run for more than 1 s',
      );
      await other.query('rollback');
    });
    expect(await runMigrations(url, { upTo: '0002_operations.sql' })).toEqual(['0002_operations.sql']);
  });

  test('keeps its turn where a database ends idle transactions [D1]', async () => {
    const url = await database();
    await withClient(url, (client) =>
      client.query(
        `do $$ begin execute format('alter database %I set idle_in_transaction_session_timeout = 700', current_database()); end $$`,
      ),
    );
    expect(await runMigrations(url)).toEqual(await migrationNames());
  });

  test('ends where the transaction that excludes others ends [D1]', async () => {
    const url = await database('0004_time_ranges.sql');
    await withClient(url, async (holder) => {
      await holder.query('begin; select from promo_store.partitions');
      const failed = expect(
        runMigrations(url, {
          onWait: () =>
            void holder.query(
              `select pg_terminate_backend(pid) from pg_locks where relation = 'promo_store.migrate_guard'::regclass`,
            ),
        }),
      ).rejects.toThrow('the connection that excludes other migrators ended');
      await failed;
      await holder.query('rollback');
    });
    expect(await runMigrations(url)).toContain('0005_decided_up_to.sql');
  });

  const problem = pgbouncerProblem();
  (problem === undefined ? test : test.skip)(
    'works through a pgbouncer in transaction mode, two at once too [D1]',
    async () => {
      const url = await database();
      await withPgbouncer(url, { default_pool_size: 20 }, async (pooled) => {
        const ran = await Promise.all([runMigrations(pooled), runMigrations(pooled)]);
        expect(ran.flat()).toEqual(await migrationNames());
        const left = await withClient(url, (client) =>
          rowsOf(
            client,
            `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
          ),
        );
        expect(left).toEqual([['0']]);
      });
    },
  );
});
