/** Programs of the compiled stack, run as processes, and first uses of the servers that they start. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import { until, within } from '../../dev/servers/deadline';
import { identify, type ProcessIdentity } from '../../dev/servers/process-table';
import { requireBuild } from '../../dev/servers/product';
import { kafkaClient } from '../support/servers';

export const ROOT = resolve(__dirname, '../..');

export interface Build {
  /** The file of `make stack`. */
  stack: string;
  /** The module of the servers. */
  servers: string;
  /** The files of `make demo` and `make bench`. */
  demo: string;
  bench: string;
}

const START_DEADLINE_MS = 90_000;
const END_DEADLINE_MS = 120_000;
export const PROCESSES = { STACK: 'processes' };

let directory: string;
const programs: ChildProcess[] = [];

/**
 * To be called before all tests.
 *
 * @throws where `make dev-build` has not compiled these sources
 */
export function builtTools(): Build {
  const built = join(ROOT, 'build', 'dev');
  const programOf = (command: string): string => join(built, `${command}.js`);
  requireBuild({ file: programOf('stack'), sources: join(ROOT, 'dev'), by: 'make dev-build' });
  return {
    stack: programOf('stack'),
    servers: join(built, 'servers'),
    demo: programOf('demo'),
    bench: programOf('bench'),
  };
}

/** To be called before each test. Returns the temporary directory that its programs get. */
export function openDirectory(): string {
  directory = mkdtempSync(join(tmpdir(), 'servers-test-'));
  chmodSync(directory, 0o711);
  return directory;
}

/** To be called after each test. */
export function closeDirectory(): void {
  for (const program of programs.splice(0)) {
    program.kill('SIGKILL');
  }
  rmSync(directory, { recursive: true, force: true });
}

export interface Program {
  process: ChildProcess;
  output: () => string;
  errors: () => string;
  ended: Promise<number | string | null>;
}

/** Runs Node with its own temporary directory, so that other stacks on this machine are hidden. */
export function runNode(
  args: string[],
  environment: NodeJS.ProcessEnv = {},
  node: string = process.execPath,
): Program {
  const child = spawn(node, args, {
    env: {
      ...process.env,
      KAFKA_BROKERS: '',
      DATABASE_URL: '',
      SCHEMA_REGISTRY_URL: '',
      ...PROCESSES,
      TMPDIR: directory,
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

/** Waits for an action of a program while it runs. */
export async function whileItRuns(
  program: Program,
  what: string,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  await until(what, START_DEADLINE_MS, () => {
    if (program.process.exitCode !== null || program.process.signalCode !== null) {
      throw new Error(`It ended before ${what}:\n${program.errors()}`);
    }
    return isSo();
  });
}

export const untilReady = (program: Program): Promise<void> =>
  whileItRuns(program, 'it says ready', () => /^ready$/m.test(program.output()));

/** The other servers need some seconds more. */
export const untilAServerIsReady = (program: Program): Promise<void> =>
  whileItRuns(program, 'a server is ready', () => / is ready \(/.test(program.errors()));

export const stackDirectories = (): string[] => readdirSync(directory).map((name) => join(directory, name));

/** The pids and start times in the file of a stack. */
export function childrenOf(stack: string): ProcessIdentity[] {
  const list: unknown = JSON.parse(readFileSync(join(stack, 'processes.json'), 'utf8'));
  const children = typeof list === 'object' && list !== null && 'children' in list ? list.children : [];
  return (Array.isArray(children) ? children : []).flatMap(
    (child: ProcessIdentity) => identify(child.pid) ?? [],
  );
}

export async function query(url: string, statement: string, milliseconds = 30_000): Promise<unknown> {
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

export async function produceAndConsume(
  brokers: string,
  topic: string,
  value: string,
): Promise<string | undefined> {
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
    await until('a record arrives', 60_000, () => received.includes(value));
    return received.find((each) => each === value);
  } finally {
    await Promise.allSettled([producer.disconnect(), consumer.disconnect()]);
  }
}

/** How the program ended: its exit code, or the name of the signal. */
export const ending = (program: Program): Promise<number | string | null> =>
  within('the program ends', END_DEADLINE_MS, program.ended);

/** The text of a program that starts servers and then runs `then`. */
export const startAnd = ({ servers }: Build, need: string, then: string): string[] => [
  '-e',
  `require(${JSON.stringify(servers)}).startServers({ need: ${need}, log: console.error }).then(() => { ${then} })`,
];
