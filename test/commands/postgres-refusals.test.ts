/** Refusals of a real Postgres: commands print the cause and the right remedy. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migratedDatabase, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { databaseUrl, dropDatabase, freshDatabase } from '../support/servers';
import { ROOT, RunningCommand, type Settings } from '../support/worker';

const REFERENCE = join(ROOT, 'schemas/examples/reference.yaml');
const MIGRATE = ['migrate'];
const APPLY = ['reference', 'apply', REFERENCE];

let database: string;
let role: { name: string; url: string };
beforeAll(async () => {
  database = await migratedDatabase();
  role = await makeRole(database, 'refused');
});
afterAll(async () => {
  await dropRoles(database, [role.name]);
  await dropDatabase(database);
});

const administer = (text: string) => withClient(database, (client) => client.query(text));

async function refused(args: readonly string[], settings: Settings): Promise<string> {
  const command = new RunningCommand(args, settings);
  const { code } = await command.ending();
  expect([code, /^ +at /m.test(command.output())]).toEqual([1, false]);
  return command.output().trim();
}

const withOptions = (options: string) => `${database}?options=${encodeURIComponent(options)}`;

test('the store that an operator moves to, which has its address in a file', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'promo-refused-'));
  try {
    const file = join(directory, 'b.url');
    writeFileSync(file, 'postgres://nobody@127.0.0.1:1/away');
    const output = await refused(['move-operator', '--operator', 'acme', '--to', file], {
      DATABASE_URL: database,
    });
    expect(output).toMatch(/^the receiving store: Postgres cannot be reached: connect ECONNREFUSED/);
    expect(output).toContain(`Check that the server of the address in ${file} runs`);
    expect(output).not.toContain('DATABASE_URL');
  } finally {
    rmSync(directory, { recursive: true });
  }
});

describe('a role', () => {
  test.each<[string, set: string, reset: string, expected: RegExp]>([
    [
      'whose password has expired',
      "valid until '2020-01-01'",
      "valid until 'infinity'",
      /password authentication failed .*an expired password \(alter role \.\.\. valid until\)\.$/,
    ],
    ['that may not log in', 'nologin', 'login', /not permitted to log in\. Run: alter role \.\.\. login\./],
    [
      'with no connection left',
      'connection limit 0',
      'connection limit -1',
      /too many connections for role .*\. Close connections of this user, or run: alter role \.\.\. connection limit N\.$/,
    ],
    [
      'that is read-only by default',
      'set default_transaction_read_only = on',
      'reset default_transaction_read_only',
      /read-only transaction\. If the server is a standby, .* Else turn default_transaction_read_only off: .*\.$/,
    ],
  ])('%s', async (_, set, reset, expected) => {
    await administer(`alter role ${role.name} ${set}; grant all on schema promo_store to ${role.name};
      grant all on all tables in schema promo_store to ${role.name}`);
    try {
      expect(await refused(APPLY, { DATABASE_URL: role.url })).toMatch(expected);
    } finally {
      await administer(
        `alter role ${role.name} ${reset}; revoke all on all tables in schema promo_store from ${role.name};
        revoke all on schema promo_store from ${role.name}`,
      );
    }
  });

  test.each([
    ['verify', /permission denied for schema promo\. Run promo-intake grant for the user of DATABASE_URL/],
    ['reference export', /permission denied for schema promo_store\. Run promo-intake grant/],
    ['retention apply --keep-months 12', /permission denied for schema promo\. Run promo-intake grant/],
  ])('without grants is refused %s', async (line, expected) => {
    const settings = { DATABASE_URL: role.url, KAFKA_BROKERS: 'localhost:1' };
    expect(await refused(line.split(' '), settings)).toMatch(expected);
  });

  test('without permission to create in the database is refused migrate', async () => {
    const empty = await freshDatabase();
    try {
      const url = new URL(role.url);
      url.pathname = new URL(empty.url).pathname;
      expect(await refused(MIGRATE, { DATABASE_URL: url.href })).toMatch(
        /permission denied for database .*\. Grant the user of DATABASE_URL connect .* A user who runs migrate needs create as well\.$/,
      );
    } finally {
      await empty.drop();
    }
  });

  test('without permission to connect to the database', async () => {
    const closed = await freshDatabase();
    try {
      const url = new URL(role.url);
      url.pathname = new URL(closed.url).pathname;
      await withClient(closed.url, (client) =>
        client.query(`revoke connect on database "${url.pathname.slice(1)}" from public`),
      );
      expect(await refused(MIGRATE, { DATABASE_URL: url.href })).toMatch(
        /permission denied for database .*\. Grant the user of DATABASE_URL connect on this database/,
      );
    } finally {
      await closed.drop();
    }
  });
});

test.each<[string, url: () => string, expected: RegExp]>([
  [
    'a database that accepts no connections',
    () => databaseUrl().replace(/\/[^/]*$/, '/template0'),
    /not currently accepting connections\. Run: alter database \.\.\. allow_connections true\./,
  ],
  [
    'a setting that Postgres does not have',
    () => withOptions('-c nonsense=1'),
    /unrecognized configuration parameter "nonsense"\. Postgres has no such setting\. Correct the options in DATABASE_URL/,
  ],
])('%s', async (_, url, expected) => {
  const settings = { DATABASE_URL: url(), KAFKA_BROKERS: 'localhost:1' };
  expect(await refused(['verify'], settings)).toMatch(expected);
});

test('a statement that is cancelled at its timeout', () =>
  withClient(database, async (client) => {
    const applied = new RunningCommand(APPLY, { DATABASE_URL: database });
    expect(await applied.ending()).toMatchObject({ code: 0 });
    // This transaction of the command has a statement timeout of 10 s, and no lock timeout.
    await client.query('begin; lock table promo_store.operations in access exclusive mode');
    expect(await refused(['reference', 'rollback', '--to', '1'], { DATABASE_URL: database })).toMatch(
      /statement timeout\. Look in pg_stat_activity .* If statement_timeout is set .*, raise it\.$/,
    );
  }));

describe('a server that is no Postgres', () => {
  test.each([
    [
      'and TLS',
      { DATABASE_SSL_MODE: 'verify-full' },
      /is no Postgres\. Correct the host and the port in DATABASE_URL\.$/,
    ],
    ['and no TLS', {}, /Check that the server of DATABASE_URL runs, that it is a Postgres,/],
  ])('%s', async (_, settings, expected) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const DATABASE_URL = `postgres://a:b@127.0.0.1:${port}/promo`;
      expect(await refused(MIGRATE, { DATABASE_URL, ...settings })).toMatch(expected);
    } finally {
      server.close();
    }
  });
});

test('migrate of an older version reports that the database is newer, and changes nothing', async () => {
  const own = await migratedDatabase();
  try {
    await withClient(own, (client) =>
      client.query(
        "insert into promo_store.migrations (name, batch, migration_time) values ('9999_newer.sql', 99, now())",
      ),
    );
    const command = new RunningCommand(MIGRATE, { DATABASE_URL: own });
    const end = await command.ending();
    expect([end.code, command.output()]).toEqual([
      0,
      'the database is of a newer version: it has 9999_newer.sql. Nothing was changed\n',
    ]);
    await withClient(own, (client) =>
      client.query(
        'delete from promo_store.migrations where name = (select max(name) from promo_store.migrations where name < $1)',
        ['9999'],
      ),
    );
    expect(await refused(MIGRATE, { DATABASE_URL: own })).toMatch(
      /^the database has migrations of another version \(9999_newer\.sql\), and lacks .* of this one: run migrate of the newer version$/,
    );
  } finally {
    await dropDatabase(own);
  }
});

test('commands of an older version name the key of newer reference data that they cannot read, and change nothing', async () => {
  const own = await migratedDatabase();
  const settings = { DATABASE_URL: own };
  try {
    const apply = new RunningCommand(APPLY, settings);
    expect(await apply.ending()).toMatchObject({ code: 0 });
    await withClient(own, (client) =>
      client.query(
        `update promo_store.reference_versions set document = jsonb_set(document::jsonb, '{operators,0,quota}', '7')`,
      ),
    );
    const commands = [['reference', 'export'], APPLY, ['reference', 'rollback', '--to', '1']];
    for (const output of await Promise.all(commands.map((command) => refused(command, settings))))
      expect(output).toMatch(
        /operators\[0\]\.quota: The key "quota" is unknown here\. A newer version of promo-intake may have applied it: use the command of that version\.$/,
      );
    const history = new RunningCommand(['reference', 'history'], settings);
    expect(await history.ending()).toMatchObject({ code: 0 });
    expect(history.output()).toMatch(/^1 .* in force$/m);
  } finally {
    await dropDatabase(own);
  }
});
