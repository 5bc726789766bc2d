/**
 * A feed from the empty database to the dropped month. Each step runs under the role that it is meant for.
 */
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { aDeposit, aLogin, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { rowsOf, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { freshDatabase, freshTopic, kafkaBrokers, withAdmin } from '../support/servers';
import { drain, RunningCommand, type Settings } from '../support/worker';

/**
 * Runs a command to its end.
 * @throws where it does not end with 0
 */
async function run(args: readonly string[], settings: Settings): Promise<string[]> {
  const command = new RunningCommand(args, settings);
  const { code } = await command.ending(100_000);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}\n${command.output()}`);
  return command.output().trim().split('\n');
}

test('the migrator migrates and grants, the writer decides a feed, the reader verifies it, and the janitor drops months [D1] [U1]', async () => {
  const database = await freshDatabase();
  const topic = await freshTopic('roles', { partitions: 2 });
  const directory = await mkdtemp(join(tmpdir(), 'promo-roles-'));
  const roles = {
    migrator: await makeRole(database.url, 'migrator'),
    writer: await makeRole(database.url, 'writer'),
    reader: await makeRole(database.url, 'reader'),
    janitor: await makeRole(database.url, 'janitor'),
  };
  const names = Object.values(roles).map(({ name }) => name);
  const deadLetters = `${topic}.dead-letter`;
  try {
    const name = new URL(database.url).pathname.slice(1);
    await withClient(database.url, (client) =>
      client.query(`grant create on database ${name} to ${roles.migrator.name}`),
    );
    const reference = join(directory, 'reference.json');
    const connections = [{ id: `of-${topic}`, transport: 'kafka', topic, brands: 'several' }];
    const brands = [{ id: 'main', active: true }];
    writeFileSync(
      reference,
      JSON.stringify({ operators: [{ id: 'acme', active: true, connections, brands }] }),
    );

    const owner = { DATABASE_URL: roles.migrator.url };
    expect(await run(['migrate'], owner)).toContain('ran 0001_intake.sql');
    const printed = await run(['grant', '--writer', roles.writer.name, '--print'], {});
    expect(printed).toContain(
      'grant usage on sequence promo_store.batch_numbers to "'.concat(roles.writer.name, '";'),
    );
    await withClient(roles.migrator.url, (client) => client.query(printed.join('\n')));
    const more = ['--reader', roles.reader.name, '--janitor', roles.janitor.name];
    expect(await run(['grant', ...more], owner)).toEqual([
      `reader: ${roles.reader.name}`,
      `janitor: ${roles.janitor.name}`,
      `any role of the server may still connect to the database: only its owner ${new URL(database.url).username} can revoke that`,
      'As the owner of the database, check the roles in these statements, and run:',
      expect.stringMatching(/^ {2}grant connect on database "\w+" to "\w+", "\w+", "\w+";$/),
      expect.stringMatching(/^ {2}revoke connect on database "\w+" from public;$/),
    ]);
    await run(['reference', 'apply', reference], owner);

    await produce(topic, [
      ...Array.from({ length: 1_000 }, (_, n) => ({
        value: bytesOf(aDeposit({ event_id: `e-${n % 900}` })),
        partition: n % 2,
      })),
      { value: 'no json' },
      { value: bytesOf(aLogin({ event_id: '\u0000' })), partition: 1 },
    ]);
    const settings = {
      KAFKA_BROKERS: kafkaBrokers().join(),
      KAFKA_GROUP_ID: topic,
      DEAD_LETTER_TOPIC: deadLetters,
    };
    await drain({ ...settings, DATABASE_URL: roles.writer.url });

    const { KAFKA_BROKERS, KAFKA_GROUP_ID } = settings;
    const verified = await run(['verify'], { KAFKA_BROKERS, KAFKA_GROUP_ID, DATABASE_URL: roles.reader.url });
    expect(verified).toEqual([
      expect.stringContaining(`${topic}/0: 501 records decided`),
      expect.stringContaining(`${topic}/1: 501 records decided`),
      'sound',
    ]);
    const asReader = (query: string) => withClient(roles.reader.url, (client) => rowsOf(client, query));
    expect(await asReader('select verdict, count(*) from promo.verdicts group by verdict')).toEqual([
      ['accepted', '900'],
    ]);
    const drop = `select promo.drop_months_before((now() at time zone 'utc')::date)`;
    await expect(asReader(drop)).rejects.toThrow('permission denied');
    await withClient(database.url, (client) =>
      client.query(`set role ${roles.migrator.name};
        create table promo_store.history_2020_01 partition of promo_store.history for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`),
    );
    expect(await withClient(roles.janitor.url, (client) => rowsOf(client, drop))).toEqual([
      ['history_2020_01'],
    ]);
    expect(await asReader('select * from promo.check_invariants()')).toEqual([]);
  } finally {
    await dropRoles(database.url, names);
    await database.drop();
    await rm(directory, { recursive: true, force: true });
    await withAdmin(async (admin) => {
      const existing = await admin.listTopics();
      await admin.deleteTopics({ topics: [topic, deadLetters].filter((each) => existing.includes(each)) });
    });
  }
});
