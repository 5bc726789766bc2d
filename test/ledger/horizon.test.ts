/** The horizon: no verdict appears up to it any more. Where the store cannot say so, it refuses to. */
import { join } from 'node:path';
import type { Client } from 'pg';
import { until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { HeldWriter } from '../support/held-writer';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aWin,
  freshStore,
  rowsOf,
  type TestPartition,
  type TestStore,
  withClient,
} from '../support/ledger';
import { startProgram } from '../support/program';
import { dropRoles, makeRole } from '../support/roles';

const STEP_WITHIN_MS = 60_000;

let store: TestStore;
let acme: TestPartition;
beforeEach(async () => {
  store = await freshStore({ own: true });
  // Rows by hand have no keys.
  store.damaged = true;
  acme = store.partition('acme');
  await acme.read(aDeposit({ event_id: 'first' }));
});
afterEach(() => store.close());

const ids = async (statement: string) => (await store.rows(statement)).map(([id]) => id);
const newVerdicts = () => ids('select event_id from promo.new_verdicts(-1)');

/** Settles once a call on `client` waits for writers. */
async function untilWaiting(client: Client): Promise<void> {
  const pid: unknown = Reflect.get(client, 'processID');
  await until('the horizon waits', STEP_WITHIN_MS, async () => {
    const found = await store.value(
      `select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'`,
      [pid],
    );
    return found === '1';
  });
}

describe('the horizon', () => {
  test('it is the end of the last batch, and ranges are read up to it [L4]', async () => {
    const last = Number(await store.value('select max(verdict_id) from promo.verdicts'));
    const horizon = Math.floor(last / 8192) * 8192 + 8191;

    expect(await store.value('select promo.safe_up_to()')).toBe(String(horizon));
    expect(await ids(`select event_id from promo.new_verdicts(-1, ${last - 1})`)).toEqual([]);
    expect(await ids(`select event_id from promo.new_verdicts(-1, ${last})`)).toEqual(['first']);
    expect(await ids(`select event_id from promo.new_verdicts(${last})`)).toEqual([]);
  });

  test('a store without a batch has a horizon, and nothing up to it [L4]', async () => {
    const empty = await freshStore();
    expect(await empty.value('select promo.safe_up_to()')).toBe('8191');
    expect(await empty.rows('select * from promo.changes(-1)')).toEqual([]);
    await empty.close();
  });

  test('a writer is held between its number and its rows: its rows come, and before later ones [L4]', async () => {
    const held = await HeldWriter.begin(store.url);
    await acme.read(aDeposit({ event_id: 'later' }));

    await withClient(store.url, async (client) => {
      const reading = rowsOf(client, 'select event_id from promo.new_verdicts(-1)');
      await untilWaiting(client);
      await held.write('slow');
      await held.end('commit');
      expect(await reading).toEqual([['first'], ['slow'], ['later']]);
    });
  });

  test('writers that begin while it waits are not waited for [L4]', async () => {
    const before = await HeldWriter.begin(store.url);
    await withClient(store.url, async (client) => {
      const horizon = rowsOf(client, `select promo.safe_up_to('5 seconds')`);
      await untilWaiting(client);
      const after = await HeldWriter.begin(store.url);
      await before.write('before');
      await before.end('commit');
      await expect(horizon).resolves.toHaveLength(1);
      const [[found] = []] = await horizon;
      await after.write('after');
      await after.end('commit');
      const [[reached] = []] = await rowsOf(
        client,
        `select array_agg(event_id order by verdict_id) from promo.verdicts where verdict_id <= ${found}`,
      );
      expect(reached).toBe('{first,before}');
    });
  });

  test('a writer that takes its number while the last number is read is waited for [L4]', async () => {
    // Between the two things that the horizon looks up, the time is made as long as the test needs.
    await store.pool.query(`create or replace function promo_store.last_batch() returns bigint language plpgsql volatile
      set search_path = pg_catalog, pg_temp as $$
      begin perform pg_advisory_xact_lock(7); return (select s.last_value from promo_store.batch_numbers s); end $$`);
    await withClient(store.url, async (client) => {
      await client.query('select pg_advisory_lock(7)');
      const horizon = store.value(`select promo.safe_up_to('50 milliseconds')`);
      horizon.catch(() => {});
      await store.untilOneWaits();
      const held = await HeldWriter.begin(store.url);
      await client.query('select pg_advisory_unlock(7)');
      await expect(horizon).rejects.toThrow(`process ${Reflect.get(held.client, 'processID')} has held`);
      await held.end('rollback');
    });
  });

  test('it gives up after the given time, and names the process [L4]', async () => {
    const held = await HeldWriter.begin(store.url);
    await expect(store.value(`select promo.safe_up_to('50 milliseconds')`)).rejects.toThrow(
      `process ${Reflect.get(held.client, 'processID')} has held the number of a batch for longer than 00:00:00.05`,
    );
    await held.end('rollback');
    expect(await newVerdicts()).toEqual(['first']);
  });

  test('a writer is killed by SIGKILL between its rows and its commit [L4]', async () => {
    const program = startProgram(join(__dirname, 'held-writer-program.ts'), { DATABASE_URL: store.url });
    await program.waitForLine('held');
    await expect(store.value(`select promo.safe_up_to('50 milliseconds')`)).rejects.toThrow('process');
    await program.kill();
    await acme.read(aDeposit({ event_id: 'later' }));
    expect(await newVerdicts()).toEqual(['first', 'later']);
  });

  test.each([
    ['an idle transaction', 'idle_in_transaction_session_timeout', 'select 1'],
    ['a statement', 'statement_timeout', 'select pg_sleep(60)'],
  ])('Postgres ends a writer by the limit of %s [L4]', async (_, setting, statement) => {
    const held = await HeldWriter.begin(store.url);
    await held.client.query(`set ${setting} = '300ms'`);
    await held.write('never');
    await held.client.query(statement).catch(() => {});
    if (setting === 'statement_timeout') await held.client.query('rollback');
    expect(await newVerdicts()).toEqual(['first']);
    await held.client.end().catch(() => {});
  });

  test('a savepoint that is rolled back keeps the number [L4]', async () => {
    const held = await HeldWriter.begin(store.url);
    await held.client.query('rollback');
    await held.client.query('begin');
    await held.client.query('savepoint s');
    await held.client.query(`select nextval('promo_store.batch_numbers')`);
    await held.write('undone');
    await held.client.query('rollback to s');
    await expect(store.value(`select promo.safe_up_to('50 milliseconds')`)).rejects.toThrow('process');
    await held.write('kept');
    await held.end('commit');
    expect(await newVerdicts()).toEqual(['first', 'kept']);
  });
});

describe('the rows of a range', () => {
  test('entries and reversals in the order of their batches, each reversal with its refund [L4]', async () => {
    await acme.read(aBet({ event_id: 'b' }), aWin({ event_id: 'w' }));
    const middle = await store.value('select promo.safe_up_to()');
    await acme.read(aLogin({ event_id: 'l' }), aRefund({ event_id: 'r' }), aRefund({ event_id: 'r-2' }));

    const changes = (range: string) =>
      store.rows(`select event_id, kind, amount, reverses_entry_id is not null from promo.changes(${range})`);
    expect(await changes(`-1, ${middle}`)).toEqual([
      ['first', 'deposit', '100.00', 'f'],
      ['b', 'bet', '10.50', 'f'],
      ['w', 'win', '10.50', 'f'],
    ]);
    expect(await changes(`${middle}`)).toEqual([
      ['l', 'login', '0', 'f'],
      ['r', 'bet', '-10.50', 't'],
      ['r', 'win', '-10.50', 't'],
    ]);
  });

  test('a bet and its refund in one batch [L4]', async () => {
    await acme.read(aBet({ event_id: 'b' }), aRefund({ event_id: 'r' }));
    expect(await ids('select event_id from promo.changes(-1)')).toEqual(['first', 'b', 'r']);
  });

  test('duplicates by the number of their batch, also those of an older worker [L4]', async () => {
    const before = await store.value('select promo.safe_up_to()');
    await acme.read(aDeposit({ event_id: 'first' }));
    const COLUMNS = `received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id`;
    await withClient(store.url, async (client) => {
      // As a worker of the version before: its COPY does not name the column.
      await client.query('begin');
      await client.query(`select nextval('promo_store.batch_numbers')`);
      await client.query(
        `insert into promo_store.resends (${COLUMNS}) select received_at, 77, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id from promo_store.resends`,
      );
      await client.query('commit');
    });
    // From before the migration.
    await store.pool.query(
      `insert into promo_store.resends (${COLUMNS}, batch_no) select received_at, 5, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id, null from promo_store.resends limit 1`,
    );

    const offsets = (range: string) =>
      store.rows(
        `select source_offset, change_no > ${before} from promo.new_deliveries(${range}) order by change_no`,
      );
    expect(await offsets('-1')).toEqual([
      ['5', 'f'],
      ['1', 't'],
      ['77', 't'],
    ]);
    expect(await offsets(`${before}`)).toEqual([
      ['1', 't'],
      ['77', 't'],
    ]);
    const last = await store.value('select max(change_no) from promo.new_deliveries(-1)');
    expect(await offsets(`${last}`)).toEqual([]);
  });

  test('the roles of readers read ranges, without players [L4]', async () => {
    const reader = await makeRole(store.url, 'reader');
    await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
    await withClient(reader.url, async (client) => {
      const { rows } = await client.query<Record<string, unknown>>('select * from promo.changes(-1)');
      expect(rows.map((row) => row.event_id)).toEqual(['first']);
      expect(Object.keys(rows[0] ?? {})).not.toContain('player_ref');
      await expect(client.query('select promo.changes_with_players(-1)')).rejects.toThrow(
        'permission denied',
      );
    });
    expect(await ids('select player_ref from promo.changes_with_players(-1)')).toEqual([expect.any(String)]);
    await dropRoles(store.url, [reader.name]);
  });

  test('events of tests are in no range [C11]', async () => {
    await store.pool.query(
      `insert into promo_store.feeds (operator_no, operator_id, feed_id) select operator_no, operator_id, 'acme//test' from promo_store.feeds where feed_id = 'acme'`,
    );
    await store.pool.query(
      `update promo_store.history set feed_no = (select feed_no from promo_store.feeds where feed_id = 'acme//test')`,
    );
    for (const range of ['changes', 'new_verdicts', 'new_deliveries'])
      expect(await store.rows(`select * from promo.${range}(-1)`)).toEqual([]);
  });
});

describe('refusals', () => {
  test.each([
    ['numbers reserved in advance', 'cache 5', 'sessions reserve 5 numbers'],
    ['descending numbers', 'increment -1 minvalue -1000', 'do not ascend'],
    ['numbers that begin again', 'cycle', 'do not ascend'],
    ['numbers that a crash gives again', 'set unlogged', 'not logged'],
  ])('a sequence with %s [L4]', async (_, change, problem) => {
    await store.pool.query(`alter sequence promo_store.batch_numbers ${change}`);
    await expect(store.value('select promo.safe_up_to()')).rejects.toThrow(problem);
    await expect(store.value('select last_batch from promo.batches_in_flight()')).rejects.toThrow(problem);
  });

  test('decisions that a crash loses [L4]', async () => {
    const { name: writer } = await makeRole(store.url, 'writer');
    const { name: reader } = await makeRole(store.url, 'reader');
    await grantRoles(store.url, [
      { role: 'writer', name: writer },
      { role: 'reader', name: reader },
    ]);
    await store.pool.query(`alter role ${reader} set synchronous_commit = off`);
    await store.pool.query(`alter role ${writer} set synchronous_commit = local`);
    expect(await newVerdicts()).toEqual(['first']);

    await store.pool.query(`alter role ${writer} set synchronous_commit = off`);
    await expect(newVerdicts()).rejects.toThrow(`synchronous_commit is off for the role ${writer}`);
    await store.pool.query(`alter role ${writer} reset synchronous_commit`);
    await store.pool.query(
      `do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$`,
    );
    await expect(newVerdicts()).rejects.toThrow('synchronous_commit is off for all roles in the database');
    await dropRoles(store.url, [writer, reader]);
  });

  test('rows that a subscription writes [L4]', async () => {
    await withClient(store.url, async (client) => {
      await client.query(`create subscription theirs connection 'dbname=none' publication none
        with (connect = false, enabled = false, slot_name = none)`);
      await client.query('set allow_system_table_mods = on');
      await client.query(`insert into pg_subscription_rel (srsubid, srrelid, srsubstate)
        select oid, 'promo_store.history'::regclass, 'r' from pg_subscription where subname = 'theirs'`);
      await expect(client.query('select promo.safe_up_to()')).rejects.toThrow(
        'the subscription theirs writes promo_store.history',
      );
      await client.query('delete from pg_subscription_rel');
      await client.query('drop subscription theirs');
    });
  });

  test('numbers that the sequence has not given [L4]', async () => {
    await acme.read(aDeposit({ event_id: 'second' }));
    await store.pool.query(`select setval('promo_store.batch_numbers', 1)`);
    await expect(store.value('select promo.safe_up_to()')).rejects.toThrow(
      'batch 2 is stored, and promo_store.batch_numbers has given numbers up to 1 only',
    );
  });

  test.each(['repeatable read', 'serializable'])('a transaction of the mode %s [L4]', async (mode) => {
    await withClient(store.url, async (client) => {
      await client.query(`begin isolation level ${mode}`);
      await expect(client.query('select * from promo.changes(-1)')).rejects.toThrow('reads one snapshot');
      await client.query('rollback');
    });
  });

  test('a transaction that has taken a number itself [L4]', async () => {
    const held = await HeldWriter.begin(store.url);
    await expect(held.client.query(`select promo.safe_up_to('1 second')`)).rejects.toThrow(
      'this transaction has taken the number of a batch itself',
    );
    await held.end('rollback');
  });

  test('a range beyond the horizon, one of a copy that has more than the store, and one without a begin [L4]', async () => {
    const horizon = Number(await store.value('select promo.safe_up_to()'));
    const rows = (range: string) => store.rows(`select * from promo.changes(${range})`);
    expect(await rows(`${horizon}`)).toEqual([]);
    expect(await rows(`-1, ${horizon}`)).toHaveLength(1);
    await expect(rows(`-1, ${horizon + 1}`)).rejects.toThrow(
      `verdicts may still appear up to ${horizon + 1}`,
    );
    await expect(rows(`${horizon + 1}`)).rejects.toThrow(`the copy has numbers up to ${horizon + 1}`);
    await expect(rows('null')).rejects.toThrow('after is null');
  });

  test('numbers of another lineage, and of a store with arrived operators without one [L4]', async () => {
    const lineage = await store.value('select promo.lineage()');
    const rows = (range: string) => store.rows(`select * from promo.changes(${range})`);
    expect(await rows(`-1, null, '${lineage}'`)).toHaveLength(1);
    await store.pool.query(
      `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ('acme', 'b', 1, '{}', '{}')`,
    );
    await expect(rows(`-1, null, '${lineage}'`)).rejects.toThrow(`of the lineage ${lineage}`);
    await expect(rows('-1')).rejects.toThrow('an operator has arrived from another cell');
    expect(await rows(`-1, null, promo.lineage()`)).toHaveLength(1);
  });
});
