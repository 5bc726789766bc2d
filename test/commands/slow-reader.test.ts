/** Large results and a slow reader: the command waits, and keeps at most a part of the result. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep, until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { PART_CHARACTERS } from '../../src/cli/output';
import { applyReference } from '../../src/ledger/reference-store';
import { makePool } from '../../src/postgres/pool';
import { makeLogger } from '../../src/telemetry/logger';
import { anOperator } from '../support/builders';
import { produce } from '../support/kafka';
import { migratedDatabase, withClient } from '../support/ledger';
import { dropDatabase, freshTopic, kafkaBrokers } from '../support/servers';
import { program, ROOT } from '../support/worker';

/** The size of each result: several times the limit of waiting bytes. */
const COUNT = 10_000;
const HALTED_MS = 4_000;
/** A part, and one byte more for each character that JSON escapes; results here have none. */
const MOST_WAITING_BYTES = 2 * PART_CHARACTERS;

let directory: string;
let database: string;
let letters: string;
const topics = Array.from(
  { length: COUNT },
  (_, n) => `a-topic-that-does-not-exist.${String(n).padStart(6, '0')}`,
);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'promo-slow-'));
  database = await migratedDatabase();
  const pool = makePool(
    { databaseUrl: database, maxConnections: 1, applicationName: 'promo-test' },
    makeLogger('silent'),
  );
  const connections = topics.map((topic) => ({ id: topic, transport: 'kafka' as const, topic }));
  await applyReference(pool, { operators: [anOperator({ connections })] }, () => true);
  await pool.end();
  await withClient(database, (client) =>
    client.query(
      `insert into promo_store.partitions (topic, partition, decided_up_to, next_offset) select t, 0, 0, 0 from unnest($1::text[]) t`,
      [topics],
    ),
  );
  const topic = await freshTopic('dead-letters');
  letters = topic;
  const headers = (n: number) => ({
    'source-topic': 'a-topic',
    'source-partition': '0',
    'source-offset': String(n),
    'source-timestamp': '1795341600000',
    'dead-letter-reason': 'unclaimed',
  });
  await produce(
    letters,
    Array.from({ length: COUNT }, (_, n) => ({ value: 'x', headers: headers(n) })),
  );
  writeFileSync(
    join(directory, 'faults.json'),
    JSON.stringify({ operators: topics.map((id) => ({ id, no_such_field: true })) }),
  );
});
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  await dropDatabase(database);
});

async function halted(child: ChildProcess, report: string): Promise<string> {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8');
    stream?.pause();
  }
  await until('the command waits for its reader', 60_000, () => existsSync(`${report}.waits`));
  await sleep(HALTED_MS);
  for (const stream of [child.stdout, child.stderr])
    stream
      ?.on('data', (more: string) => {
        text += more;
      })
      .resume();
  await once(child, 'close');
  return text;
}

/** Texts of a complete result. */
function whole(name: string): string[] {
  if (name.startsWith('dead-letters')) return ['a-topic', String(COUNT - 1)];
  if (name === 'reference apply, of faults') return [`operators[${COUNT - 1}]`, 'nothing was applied'];
  return [topics[0] ?? '', topics.at(-1) ?? ''];
}

test.each<[string, () => string[]]>([
  ['verify', () => ['verify']],
  ['status', () => ['status']],
  ['status --json', () => ['status', '--json']],
  ['reference export', () => ['reference', 'export']],
  ['reference apply, of faults', () => ['reference', 'apply', join(directory, 'faults.json')]],
  ['dead-letters list', () => ['dead-letters', 'list', '--limit', String(COUNT)]],
  ['dead-letters list --json', () => ['dead-letters', 'list', '--json', '--limit', String(COUNT)]],
])('%s waits for a slow reader, and loses nothing', async (name, args) => {
  const report = join(directory, randomBytes(6).toString('hex'));
  const command = productCommand(program(), args());
  const child = spawn(command.file, command.args, {
    env: {
      PATH: process.env.PATH,
      ...command.environment,
      DATABASE_URL: database,
      KAFKA_BROKERS: kafkaBrokers().join(),
      DEAD_LETTER_TOPIC: letters,
      NODE_OPTIONS: `--require ${join(ROOT, 'test/support/waiting-output.cjs')}`,
      WAITING_OUTPUT: report,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = await halted(child, report);
  const waited = Number(readFileSync(report, 'utf8'));
  expect([name, text.length > 5 * MOST_WAITING_BYTES]).toEqual([name, true]);
  expect([name, waited <= MOST_WAITING_BYTES, waited > 0]).toEqual([name, true, true]);
  for (const expected of whole(name)) expect([name, text.includes(expected)]).toEqual([name, true]);
});
