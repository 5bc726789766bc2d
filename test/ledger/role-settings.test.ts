/**
 * An administrator may give a role settings that change how dates, intervals, bytes and names are read and
 * written. They change no result.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../dev/servers/deadline';
import { changeStore } from '../../src/ledger/move-stores';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aWin,
  freshStore,
  REFERENCE,
  TestStore,
  withClient,
} from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { kafkaBrokers } from '../support/servers';
import { describeStoreContract } from '../support/store-contract';
import { RunningCommand } from '../support/worker';

jest.setTimeout(300_000);

const UNUSUAL = {
  DateStyle: "'German, DMY'",
  IntervalStyle: "'sql_standard'",
  TimeZone: "'Asia/Kathmandu'",
  bytea_output: "'escape'",
  extra_float_digits: '-15',
  search_path: 'nowhere',
  array_nulls: 'off',
  quote_all_identifiers: 'on',
  default_transaction_isolation: "'serializable'",
};

/** A superuser with such settings, in the database of a store. */
async function unusualRole(store: TestStore): Promise<{ name: string; url: string }> {
  const role = await makeRole(store.url, 'unusual');
  await withClient(store.url, async (client) => {
    await client.query(`alter role ${role.name} superuser`);
    for (const [name, value] of Object.entries(UNUSUAL))
      await client.query(`alter role ${role.name} set ${name} = ${value}`);
  });
  return role;
}

describe('under a role with unusual settings', () => {
  describeStoreContract(async () => {
    const owner = await freshStore({ own: true });
    const role = await unusualRole(owner);
    const store = new TestStore(role.url, { maxConnections: 6 });
    owner.damaged = true;
    await owner.rows('delete from promo_store.reference_versions');
    return {
      store: store.pool,
      async settle() {
        await sleep(150);
        await until('all running statements wait for a lock', 60_000, async () => {
          return (await owner.value(RUNNING)) === '0';
        });
      },
      get: (promise) => promise,
      applyReference: async () => {
        await store.apply(REFERENCE);
      },
      async close() {
        await store.disconnect();
        await dropRoles(owner.url, [role.name]);
        await owner.close();
      },
    };
  });
});

const RUNNING = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
  and backend_type = 'client backend' and state = 'active' and wait_event_type is distinct from 'Lock'`;

/** Leaves out times of the clock, which differ between two stores. */
const STORED = ['verdicts', 'ledger', 'rounds', 'anomalies'].map(
  (view) =>
    `select (to_jsonb(v) - '{decided_at,entered_at,opened_at,refunded_at}'::text[])::text from promo.${view} v order by 1`,
);

test('the same events get the same verdicts, and the store stays sound', async () => {
  const stores = [await freshStore({ own: true }), await freshStore({ own: true })] as const;
  const role = await unusualRole(stores[1]);
  const unusual = new TestStore(role.url, {});
  try {
    const found = [];
    for (const store of [stores[0], unusual]) {
      const partition = store.partition('acme');
      const answers = [
        await partition.read(
          aBet({ event_id: 'b1' }),
          aWin({ event_id: 'w1' }),
          aDeposit({ event_id: 'd1' }),
        ),
        await partition.read(
          aRefund({ event_id: 'r1' }),
          aBet({ event_id: 'b2' }),
          aLogin({ event_id: 'l1' }),
        ),
        await partition.read(aBet({ event_id: 'b1' }), aBet({ event_id: 'b1', amount: '2.00' })),
      ];
      const owner = store === unusual ? stores[1] : store;
      found.push([answers, ...(await Promise.all(STORED.map((text) => owner.rows(text))))]);
    }
    expect(found[1]).toEqual(found[0]);
    expect(found[0]?.flat().length).toBeGreaterThan(8);
  } finally {
    await unusual.disconnect();
    await dropRoles(stores[1].url, [role.name]);
    for (const store of stores) await store.close();
  }
});

/**
 * The lines of both outputs, in any order between the two. Leaves out the topics that other tests make
 * meanwhile.
 */
function comparable(text: string): string[] {
  return text
    .replace(/"(unread_topics|notes)":\s*\[[^\]]*\],?/g, '')
    .split('\n')
    .filter((line) => !line.includes('no worker reads'))
    .sort();
}

test('commands print the same, with dates in ISO 8601', async () => {
  const store = await freshStore({ own: true });
  const role = await unusualRole(store);
  try {
    await store.partition('acme').read(aBet({ event_id: 'b1' }), aDeposit({ event_id: 'd1' }));
    const seen: Record<string, string> = {};
    for (const args of [
      ['migrate'],
      ['reference', 'history'],
      ['reference', 'export'],
      ['reference', 'rollback', '--to', '1', '--dry-run'],
      ['status'],
      ['status', '--json'],
      ['verify'],
      ['retention', 'apply', '--keep-months', '1', '--dry-run'],
      ['retention', 'apply', '--keep-months', '12'],
      ['erase-player', '--operator', 'nobody', '--player', 'p'],
    ]) {
      const outputs = await Promise.all(
        [store.url, role.url].map(async (url) => {
          const settings = { DATABASE_URL: url, KAFKA_BROKERS: kafkaBrokers().join() };
          const command = new RunningCommand(args, settings);
          const { code } = await command.ending();
          const text = command.output().replaceAll(role.name, 'postgres');
          seen[args.join(' ')] = text;
          return [args, code, comparable(text.replace(/postgres:.*@/g, ''))];
        }),
      );
      expect(outputs[1]).toEqual(outputs[0]);
    }
    const dates = /\b\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?\b/;
    for (const command of [
      'reference history',
      'status',
      'status --json',
      'retention apply --keep-months 12',
    ])
      expect([command, seen[command]]).toEqual([command, expect.stringMatching(dates)]);
    expect(Object.values(seen).join('')).not.toMatch(/\d\d\.\d\d\.\d{4}/);
  } finally {
    await dropRoles(store.url, [role.name]);
    await store.close();
  }
});

test('commands that change the store at the same time wait for each other', async () => {
  const store = await freshStore({ own: true });
  const role = await unusualRole(store);
  try {
    await store.partition('acme').read(aBet({ event_id: 'b1' }));
    const settings = { DATABASE_URL: role.url };
    const ended = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const command = new RunningCommand(['retention', 'apply', '--keep-months', '12'], settings);
        const { code } = await command.ending();
        return [code, command.output()];
      }),
    );
    for (const [code, output] of ended)
      expect([code, output]).toEqual([0, expect.stringContaining('kept: ')]);
  } finally {
    await dropRoles(store.url, [role.name]);
    await store.close();
  }
});

test('the move of an operator changes both stores at the usual isolation level', async () => {
  const store = await freshStore({ own: true });
  const role = await unusualRole(store);
  try {
    const levels = await withClient(role.url, async (client) => {
      const readLevel = async () => (await client.query('show transaction_isolation')).rows;
      return [await readLevel(), await changeStore(client, readLevel)];
    });
    expect(levels).toEqual([
      [{ transaction_isolation: 'serializable' }],
      [{ transaction_isolation: 'read committed' }],
    ]);
  } finally {
    await dropRoles(store.url, [role.name]);
    await store.close();
  }
});
