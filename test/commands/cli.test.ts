/** The commands as a user runs them: the compiled program, as a process, with real servers. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Servers } from '../../dev/servers';
import { sleep, until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { MAX_DECOMPRESSED_BYTES } from '../../src/kafka/client/client';
import { aBet } from '../support/builders';
import { registerCodecs } from '../support/kafkajs-codecs';
import { migratedDatabase, withClient } from '../support/ledger';
import {
  databaseUrl,
  dropDatabase,
  type FreshDatabase,
  freshDatabase,
  freshTopic,
  kafkaBrokers,
  kafkaClient,
  ownServers,
  withAdmin,
} from '../support/servers';
import { program, ROOT } from '../support/worker';

const DEADLINE_MS = 100_000;
const HOUR_MS = 3_600_000;
let directory: string;
let database: FreshDatabase;

beforeAll(async () => {
  // The reader of this test is the plain client, which has gzip alone.
  registerCodecs({ maxDecompressedBytes: MAX_DECOMPRESSED_BYTES });
  directory = mkdtempSync(join(tmpdir(), 'promo-commands-'));
  database = await freshDatabase();
});
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  await database.drop();
});

/** Most commands need a migrated database, and migrating one takes seconds. */
async function migrated(): Promise<FreshDatabase> {
  const url = await migratedDatabase();
  return { url, drop: () => dropDatabase(url) };
}

interface Run {
  code: number | string;
  output: string;
  errors: string;
}

/** Starts the program without the settings of this process. */
function start(args: readonly string[], settings: Readonly<Record<string, string>> = {}) {
  const command = productCommand(program(), args);
  const child = spawn(command.file, command.args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...command.environment, ...settings },
    stdio: 'pipe',
  });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  child.stdin.on('error', () => {}); // it may end before it has read all input
  const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS);
  const ended: Promise<Run> = once(child, 'close').then(([code, signal]: unknown[]) => {
    clearTimeout(timer);
    return { code: typeof code === 'number' ? code : String(signal), output, errors };
  });
  return { child, ended, errorsSoFar: () => errors };
}

function run(
  args: readonly string[],
  settings?: Readonly<Record<string, string>>,
  input: string | Buffer = '',
): Promise<Run> {
  const { child, ended } = start(args, settings);
  child.stdin.end(input);
  return ended;
}

function file(content: string | Buffer): string {
  const path = join(directory, `${randomBytes(6).toString('hex')}.ndjson`);
  writeFileSync(path, content);
  return path;
}

const kafka = () => ({ KAFKA_BROKERS: kafkaBrokers().join() });
const json = (value: unknown) => JSON.stringify(value);

async function countRecords(topic: string): Promise<number> {
  const offsets = await withAdmin((admin) => admin.fetchTopicOffsets(topic));
  return offsets.reduce((sum, { high }) => sum + Number(high), 0);
}

interface Received {
  partition: number;
  key: string | undefined;
  value: Buffer | null;
  connection: string | undefined;
}

/** Every record of a topic, in the order of its partitions. */
async function records(topic: string): Promise<Received[]> {
  const wanted = await countRecords(topic);
  const received: Received[] = [];
  const consumer = kafkaClient().consumer({ groupId: `${topic}-reader` });
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const connection = message.headers?.['connection-id']?.toString();
        received.push({ partition, key: message.key?.toString(), value: message.value, connection });
      },
    });
    await until('all records are read', DEADLINE_MS, () => received.length >= wanted);
  } finally {
    await consumer.disconnect();
  }
  return received.sort((a, b) => a.partition - b.partition);
}

describe('the program', () => {
  test('--help and --version answer without any setting', async () => {
    expect(await run(['--help'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('reference apply FILE'),
    });
    expect(await run(['publish', '--help'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('--topic'),
    });
    const version: unknown = expect.stringMatching(/^promo-intake \d+\.\d+\.\d+\n$/);
    expect(await run(['--version'])).toEqual({ code: 0, output: version, errors: '' });
  });

  test('on a Node.js that is too old it says so in one sentence, ends with 2, and starts nothing', async () => {
    const older = "Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.20.2'}})";
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(older)}`;
    expect(await run(['worker'], { ...kafka(), DATABASE_URL: database.url, NODE_OPTIONS })).toEqual({
      code: 2,
      output: '',
      errors: 'this is Node.js 20.20.2, and promo-intake needs 22.15 or newer (of line 23, 23.8 or newer)\n',
    });
  });

  test('wrong usage ends with 2, explains itself on stderr, and starts nothing', async () => {
    expect(await run([])).toMatchObject({ code: 2, output: '' });
    expect(await run(['worker', '--drian'])).toEqual({
      code: 2,
      output: '',
      errors:
        'worker has no option --drian; did you mean --drain?\nUsage: promo-intake worker [--drain]\npromo-intake worker --help shows the options.\n',
    });
    const missing = await run(['check', '/no/such', '--reference', directory, '--connection', 'c']);
    expect(missing).toEqual({
      code: 2,
      output: '',
      errors: `there is no file /no/such\n${directory} is a directory; name a file\n`,
    });
  });

  test('standard input is the file of an option where the command takes it, and of no other one', async () => {
    const [promotions, events] = ['promotions.yaml', 'promotion-events.ndjson'].map((name) =>
      join(ROOT, 'schemas/examples', name),
    );
    const preview = ['promotions', 'preview', promotions ?? '', '--events'];
    const piped = await run([...preview, '-'], {}, readFileSync(events ?? ''));
    expect(piped).toMatchObject({ code: 0, errors: '' });
    expect(piped.output).toMatch(/^-: 15 events: 15 accepted/);
    expect(await run([...preview, events ?? '', '--operator', 'acne'])).toMatchObject({
      code: 2,
      errors: expect.stringContaining(
        '--operator: names acne, which has no promotion in FILE. Did you mean acme?\n',
      ),
    });
    expect(await run([...preview, events ?? '', '--attributions', '-'])).toMatchObject({
      code: 2,
      errors: 'there is no file -\n',
    });
  });

  test('the webhook reports all wrong settings together, and none of its secrets', async () => {
    const wrong = { WEBHOOK_SECRETS: '{"hook":"XSECRETX"}', WEBHOOK_SLOTS: '0', VERDICT_TOPIC: 'verdicts' };
    const { code, errors } = await run(['webhook'], wrong);
    expect([
      code,
      errors
        .trimEnd()
        .split('\n')
        .map((line) => line.split(':')[0]),
    ]).toEqual([2, ['WEBHOOK_SECRETS', 'WEBHOOK_SLOTS', 'DATABASE_URL', 'KAFKA_BROKERS']]);
    expect(errors).not.toContain('SECRETX');
  });

  test('health prints the answer of a worker, or its absence', async () => {
    const server = createServer(({ url }, response) =>
      response.writeHead(url === '/livez' ? 200 : 503).end('so it is\n'),
    );
    const port = await new Promise<number>((resolve) => {
      server.listen(0, '127.0.0.1', () => {
        const address = server.address();
        if (typeof address === 'object' && address !== null) resolve(address.port);
      });
    });
    const at = `http://127.0.0.1:${port}`;
    const said = (code: number, output: string) => ({ code, output, errors: '' });
    try {
      expect(await run(['health'], { HTTP_PORT: `${port}` })).toEqual(
        said(0, `${at}/livez: HTTP 200: so it is\n`),
      );
      expect(await run(['health', '--url', `${at}/readyz`])).toEqual(
        said(1, `${at}/readyz: HTTP 503: so it is\n`),
      );
    } finally {
      server.close();
      server.closeAllConnections();
    }
    expect(await run(['health', '--url', `${at}/readyz`])).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/\/readyz: no answer: connect ECONNREFUSED .*that --url is its address/),
    });
    expect(await run(['health', '--url', 'worker:8080'])).toMatchObject({ code: 2, output: '' });
    expect(await run(['health'], { HTTP_PORT: '0' })).toMatchObject({
      code: 2,
      errors: expect.stringContaining('give the address with --url'),
    });
    // Ports that browsers block.
    expect(await run(['health'], { HTTP_PORT: '6000' })).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/no answer: (?!bad port)/),
    });
    expect(await run(['health', '--url', 'http://promo:s3cret@worker:8080/readyz'])).toEqual({
      code: 2,
      output: '',
      errors: expect.stringMatching(/^--url has a user or a password(?!.*s3cret)/),
    });
  });

  test('all wrong settings are reported together', async () => {
    const { code, errors } = await run(['worker'], { DATABASE_URL: 'x', HTTP_PORT: 'y' });
    expect(code).toBe(2);
    for (const name of ['KAFKA_BROKERS', 'DATABASE_URL', 'HTTP_PORT']) expect(errors).toContain(`${name}: `);
  });
});

describe('migrate and reference apply', () => {
  const reference = 'schemas/examples/reference.yaml';

  test('prepare a new database, and change nothing the second time', async () => {
    const settings = { DATABASE_URL: database.url };
    expect(await run(['reference', 'apply', reference], settings)).toEqual({
      code: 1,
      output: '',
      errors: expect.stringMatching(/The database lacks migrations\. Run: promo-intake migrate\n$/),
    });
    expect(await run(['migrate'], settings)).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^ran 0001/),
    });
    expect(await run(['migrate'], settings)).toMatchObject({
      code: 0,
      output: 'the database is up to date\n',
    });
    expect(await run(['reference', 'apply', reference], settings)).toMatchObject({
      code: 0,
      output: expect.stringMatching(/version 1 is in force\n$/),
    });
    const latin1 = file(Buffer.from('operators: [] # caf\xe9', 'latin1'));
    expect(await run(['reference', 'apply', latin1], settings)).toEqual({
      code: 1,
      output: '',
      errors: `${latin1}:1:20: The file is not UTF-8: byte 20, 0xe9, belongs to no character. Save it as UTF-8.\n${latin1}: 1 fault, nothing was applied\n`,
    });
    expect(await run(['reference', 'apply', '--dry-run', reference], settings)).toMatchObject({
      code: 0,
      output: expect.stringContaining('no changes; version'),
    });
  });

  test.each([
    [
      'nobody listens',
      () => 'postgres://promo:s3cret@127.0.0.1:1/promo',
      /^Postgres cannot be reached: .*ECONNREFUSED/,
    ],
    [
      'the database does not exist',
      () => Object.assign(new URL(databaseUrl()), { pathname: '/promo_test_none' }).href,
      /^Postgres answered: .* does not exist\. Create the database/,
    ],
  ])('if %s, they explain it in a sentence without the password', async (_, url, expected) => {
    const { password } = new URL(url());
    for (const args of [['migrate'], ['reference', 'apply', reference]]) {
      const { code, output, errors } = await run(args, { DATABASE_URL: url() });
      expect({ code, errors }).toEqual({ code: 1, errors: expect.stringMatching(expected) });
      expect(errors.trim().split('\n')).toHaveLength(1);
      expect(password === '' || !(output + errors).includes(password)).toBe(true);
    }
  });
});

describe('earlier versions of reference data', () => {
  test('are printed completely to a slow reader', async () => {
    const own = await migrated();
    const settings = { DATABASE_URL: own.url };
    const ids = Array.from({ length: 20_000 }, (_, n) => `a-game-with-a-long-name-${n}`);
    try {
      const catalogue = ids.map((id) => ({ id, active: true }));
      const document = { operators: [{ id: 'large', catalogue }] };
      expect(await run(['reference', 'apply', '-'], settings, json(document))).toMatchObject({ code: 0 });
      const { child, ended } = start(['reference', 'export'], settings);
      child.stdout.pause();
      // Longer than the printing, and than the end in spite of open handles.
      await sleep(6_000);
      child.stdout.resume();
      const { code, output } = await ended;
      expect(code).toBe(0);
      expect(JSON.parse(output).operators[0].catalogue.map(({ id }: { id: string }) => id)).toEqual(ids);
    } finally {
      await own.drop();
    }
  });

  test('are listed, printed as a file without changes, and put into force again as a new version', async () => {
    const own = await migrated();
    const settings = { DATABASE_URL: own.url };
    try {
      expect(await run(['reference', 'export'], settings)).toMatchObject({
        code: 1,
        errors: 'there is no reference data yet\n',
      });
      const examples = 'schemas/examples/reference.yaml';
      await run(['reference', 'apply', examples], settings);
      const exported = await run(['reference', 'export'], settings);
      expect(await run(['reference', 'apply', '-'], settings, exported.output)).toMatchObject({
        code: 0,
        output: 'no changes; version 1 stays in force\n',
      });
      const emptied = ['reference', 'apply', '-', '--allow-removal'];
      expect(await run(emptied, settings, 'operators: []')).toMatchObject({ code: 0 });

      const rollback = ['reference', 'rollback', '--to'];
      expect(await run([...rollback, '1', '--dry-run'], settings)).toMatchObject({
        code: 0,
        output: expect.stringMatching(/^added operator .*dry run: nothing was applied; version 2 stays/s),
      });
      expect(await run([...rollback, '1', '--by', 'ops'], settings)).toMatchObject({
        code: 0,
        output: expect.stringMatching(/version 3 is in force\n$/),
      });
      expect(await run(['reference', 'export', '--version', '3'], settings)).toEqual(exported);
      expect(await run([...rollback, '2'], settings)).toMatchObject({
        code: 1,
        errors: expect.stringContaining('--allow-removal'),
      });
      expect(await run([...rollback, '9'], settings)).toMatchObject({
        code: 1,
        errors: 'there is no version 9 of the reference data\n',
      });
      const { output } = await run(['reference', 'history'], settings);
      expect(output).toMatch(/^3 \S+Z \d+ operators, in force\n2 \S+Z 0 operators\n1 \S+Z \d+ operators\n$/);

      const client = new Client(own.url);
      await client.connect();
      await client.query('drop function promo.end_operation');
      await client.end();
      expect(await run([...rollback, '2', '--allow-removal'], settings)).toEqual({
        code: 1,
        output: expect.stringMatching(/version 4 is in force\n$/),
        errors: expect.stringMatching(
          /^the end of operation \d+ could not be written to promo.operations: .*The database lacks migrations\. Run: promo-intake migrate\n$/,
        ),
      });
    } finally {
      await own.drop();
    }
  });
});

describe('retention and erasure', () => {
  test('attribute credits rounds to players, repeats without a change, corrects, and names no player [B1] [B3] [B9]', async () => {
    const own = await migrated();
    const settings = { DATABASE_URL: own.url };
    const one = (player: string, ...more: string[]) =>
      run(['attribute', 'round', '--operator', 'acme', '--round', 'r-1', ...more], settings, player);
    try {
      await run(['reference', 'apply', 'schemas/examples/reference.yaml'], settings);
      expect(await one('p-secret\n')).toEqual({
        code: 0,
        errors: '',
        output: 'set: promotions credit the round to the player\n',
      });
      expect(await one('p-secret')).toMatchObject({ code: 0, output: expect.stringMatching(/^unchanged/) });
      expect(await one('p-other')).toMatchObject({
        code: 1,
        errors: expect.stringContaining('another player'),
      });
      expect(await one('p secret')).toEqual({
        code: 1,
        errors: 'InvalidArgument: promo_player_ref has white space. Remove the white space.\n',
        output: '',
      });
      expect(await one('p-secret', '--brand', 'nobody')).toMatchObject({
        code: 1,
        errors: expect.stringMatching(/^InvalidArgument: the brand nobody/),
      });
      const correct = (players: string, ...more: string[]) =>
        run(
          ['attribute', 'correct', '--operator', 'acme', '--round', 'r-1', '--words', 'a slip', ...more],
          settings,
          players,
        );
      expect(await correct('p-other\np-third\n')).toMatchObject({
        code: 1,
        errors: expect.stringContaining('is not credited to the player'),
      });
      expect(await correct('p-secret\n')).toMatchObject({ code: 2 });
      expect(await correct('', '--player', 'p-third')).toMatchObject({ code: 2 });
      expect(await correct('p-secret\r\np-third\n', '--by', 'ann')).toMatchObject({
        code: 0,
        output: expect.stringMatching(/^corrected: /),
      });
      expect(await correct('', '--was', 'p-third', '--player', 'p-secret')).toMatchObject({ code: 0 });
      const file = join(directory, 'attributions.ndjson');
      const lines = Array.from({ length: 4_500 }, (_, n) => ({
        round_id: `f-${n}`,
        promo_player_ref: `p-${n % 7}`,
      }));
      writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      const all = () => run(['attribute', 'file', file, '--operator', 'acme'], settings);
      expect(await all()).toMatchObject({
        code: 0,
        output: expect.stringContaining('4500 lines: 4500 set, 0 unchanged'),
      });
      expect(await all()).toMatchObject({
        code: 0,
        output: expect.stringContaining('0 set, 4500 unchanged'),
      });
      const wrong = [
        '{"round_id":"f-1","promo_player_ref":"p-secret"}',
        '{"round_id":"f-x","promo_player_ref":"p secret"}',
        'p-secret',
        '{"round_id":"f-y","promo_player_ref":"p-secret","feed":"acme"}',
        '{"round_id":"f-z","promo_player_ref":"p-secret","operator_id":"borealis"}',
        '{"round_id":"f-ok","promo_player_ref":"p-secret","feed_id":"acme","brand":"main"}',
      ];
      const refused = await run(['attribute', 'file', '-', '--operator', 'acme'], settings, wrong.join('\n'));
      expect(refused.output).toBe(
        '-: 6 lines: 1 set, 0 unchanged, 0 of erased players and not stored, 5 refused (4 invalid, 1 with another player, 0 to set again)\n',
      );
      expect(refused.code).toBe(1);
      expect(refused.errors.split('\n').map((line) => line.slice(0, 3))).toEqual([
        ...['-:2', '-:3', '-:4', '-:5', '-:1', ''],
      ]);
      for (const { output, errors } of [
        refused,
        await one('p-secret'),
        await one('p-other'),
        await correct('p-x\np-other'),
      ])
        expect(output + errors).not.toMatch(/p-secret|p-other|p-x/);
      expect(await run(['attribute', 'file', file, '--operator', 'none'], settings)).toMatchObject({
        code: 1,
        errors: expect.stringContaining(`InvalidArgument: there is no operator 'none'`),
      });
      expect(
        await run(['attribute', 'round', '--operator', 'acme', '--player', 'p'], settings),
      ).toMatchObject({
        code: 2,
      });
    } finally {
      await own.drop();
    }
  });

  test('run on an empty store, print their work, and refuse wrong options', async () => {
    const own = await migrated();
    const settings = { DATABASE_URL: own.url };
    try {
      expect(await run(['retention', 'apply', '--keep-months', '13', '--dry-run'], settings)).toMatchObject({
        code: 0,
        output: expect.stringMatching(/^kept: \d{4}-\d\d-01 and later; .*there is nothing to drop\ndry run/s),
      });
      expect(await run(['retention', 'apply', '--keep-months', '0'], settings)).toMatchObject({ code: 2 });
      await run(['reference', 'apply', 'schemas/examples/reference.yaml'], settings);
      expect(await run(['erase-player', '--operator', 'acme'], settings, 'p-1\n')).toEqual({
        code: 0,
        errors: '',
        output: expect.stringMatching(
          /^0 verdicts, 0 rounds so far\nerased: 0 verdicts now name erased:1;.*still to do/s,
        ),
      });
      expect(await run(['erase-player', '--operator', 'none'], settings, 'p-1')).toMatchObject({
        code: 1,
        errors: expect.stringContaining("there is no operator 'none'"),
      });
      expect(await run(['erase-player', '--operator', 'acme'], settings)).toMatchObject({ code: 2 });
      // A player of an attribution has 255 characters, which are more bytes than a player_ref of an event.
      expect(
        await run(['erase-player', '--operator', 'acme'], settings, '\u{1F3B2}'.repeat(255)),
      ).toMatchObject({ code: 0 });
      for (const nobody of ['p-1\np-2\n', '\uFEFFp-1', 'x'.repeat(300), Buffer.from('M\u00FCller', 'latin1')])
        expect(await run(['erase-player', '--operator', 'acme'], settings, nobody)).toMatchObject({
          code: 2,
        });
    } finally {
      await own.drop();
    }
  });

  test('retention drops nothing where the clock of Postgres differs from its own by hours', async () => {
    const own = await migrated();
    // The clock of the command is behind, so that of Postgres is ahead.
    const behind = {
      NODE_OPTIONS: `--require ${join(ROOT, 'test', 'support', 'disturb.cjs')}`,
      DISTURB: `wrong:${-2 * HOUR_MS}`,
    };
    try {
      const settings = { DATABASE_URL: own.url, ...behind };
      expect(await run(['retention', 'apply', '--keep-months', '13'], settings)).toMatchObject({
        code: 1,
        output: '',
        errors: expect.stringMatching(/^The clock of Postgres shows .*Nothing was dropped: correct/),
      });
    } finally {
      await own.drop();
    }
  });

  test('wallet calls are deleted by retention, stopped by an erasure, and counted by status [X5] [X6]', async () => {
    const own = await migrated();
    const settings = { DATABASE_URL: own.url };
    try {
      await run(['reference', 'apply', 'schemas/examples/reference.yaml'], settings);
      await withClient(own.url, (client) =>
        client.query(
          `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, state, due_at, ended_at)
          values ('acme', 'old', 'credit', '', null, null, 'ok', now(), now() - interval '2 years'),
            ('acme', 'new', 'credit', '', null, null, 'ok', now(), now()),
            ('acme', 'open', 'credit', '', '{}', '{"player": "p-1"}', 'open', now(), null)`,
        ),
      );
      expect(await run(['retention', 'apply', '--keep-months', '1'], settings)).toMatchObject({
        code: 0,
        output: expect.stringMatching(/\nwallet calls deleted: 1\n$/),
      });
      expect(await run(['erase-player', '--operator', 'acme'], settings, 'p-1')).toMatchObject({
        code: 0,
        output: expect.stringContaining('\n1 wallet call without data of the player now: not sent again'),
      });
      const { output } = await run(['status', '--json'], { ...settings, ...kafka() });
      expect(JSON.parse(output)).toMatchObject({
        needs_a_person: expect.arrayContaining([expect.stringContaining('1 wallet call is unresolved')]),
        wallet_calls: { open: 0, unresolved: 1, oldest_due_seconds: 0 },
      });
    } finally {
      await own.drop();
    }
  });
});

describe('publish', () => {
  /** It retries for half a minute, while the other tests run. */
  let whileKafkaIsAway: ReturnType<typeof start>;
  let ownKafka: Servers;
  beforeAll(async () => {
    ownKafka = await ownServers({ need: ['kafka'] });
    const brokers = ownKafka.kafkaBrokers.split(',');
    const topic = await freshTopic('publish', { partitions: 1, brokers });
    whileKafkaIsAway = start(['publish', '-', '--topic', topic], { KAFKA_BROKERS: ownKafka.kafkaBrokers });
    const { child, errorsSoFar } = whileKafkaIsAway;
    child.stdin.write(`${json(aBet())}\n`);
    // The record may be in Kafka before its acknowledgement arrives.
    await until('a record is acknowledged', DEADLINE_MS, () => errorsSoFar().includes('-: 1 event,'));
    await ownKafka.kafka?.kill();
    child.stdin.write(`${json(aBet())}\n${json(aBet())}\n`);
  });
  afterAll(() => ownKafka.stop());

  test('sends the bytes of each line unchanged, keyed by player, with the connection', async () => {
    const topic = await freshTopic('publish', { partitions: 3 });
    const bets = Array.from({ length: 60 }, (_, index) => aBet({ player_ref: `p${index % 5}` }));
    const odd = [
      Buffer.from('{"event_id":"no-player"}\r'),
      Buffer.from('not json'),
      Buffer.from([0x7b, 0xff, 0x7d]),
      Buffer.from('{"player_ref":7,"event_id":""}'),
    ];
    const content = Buffer.concat(
      [...odd, Buffer.from('  '), ...bets.map((bet) => Buffer.from(json(bet)))].flatMap((line) => [
        line,
        Buffer.from('\n'),
      ]),
    );
    const path = file(content);
    const { code, output, errors } = await run(
      ['publish', path, '--topic', topic, '--connection', 'c1', '--force'],
      kafka(),
    );
    // They are sent, but are no events: the exit code reports that to scripts.
    expect([code, output]).toEqual([1, expect.stringMatching(/: 64 events, .*; 2 are no JSON objects\n$/)]);
    expect(errors).toBe(
      [2, 3].map((line) => `${path}:${line}: warning: is no JSON object; it is sent unchanged\n`).join(''),
    );

    const received = await records(topic);
    const sorted = (lines: (Buffer | null)[]) => lines.map((line) => line?.toString('latin1')).sort();
    expect(sorted(received.map(({ value }) => value))).toEqual(
      sorted([...odd, ...bets.map((bet) => Buffer.from(json(bet)))]),
    );
    expect(new Set(received.map(({ connection }) => connection))).toEqual(new Set(['c1']));
    expect(received.filter(({ key }) => key === undefined)).toHaveLength(3);
    expect(received.some(({ key }) => key === 'no-player')).toBe(true);
    for (const player of ['p0', 'p1', 'p2', 'p3', 'p4']) {
      const own = received.filter(({ key }) => key === player);
      expect(new Set(own.map(({ partition }) => partition)).size).toBe(1);
      expect(own.map(({ value }) => String(value))).toEqual(
        bets.filter(({ player_ref }) => player_ref === player).map(json),
      );
    }
  });

  test.each(['none', 'gzip', 'snappy', 'lz4', 'zstd'])(
    'reads standard input and compresses: %s',
    async (compression) => {
      const topic = await freshTopic('publish');
      const line = json(aBet());
      const args = ['publish', '-', '--topic', topic, '--compression', compression];
      expect(await run(args, kafka(), `${line}\n${line}`)).toMatchObject({ code: 0, errors: '' });
      expect(await countRecords(topic)).toBe(2);
      expect((await records(topic)).map(({ value }) => String(value))).toEqual([line, line]);
    },
  );

  test('names the topic before it sends to one that nobody named', async () => {
    const { errors } = await run(['publish', '-'], kafka(), '');
    expect(errors).toMatch(/^-: sending to the default topic promo\.event\.v1; --topic names another\n/);
  });

  test('reports a line that the broker refuses, and sends the others once', async () => {
    const config = { 'max.message.bytes': '20000' };
    const topic = await freshTopic('publish', { partitions: 2, config });
    const lines = Array.from({ length: 200 }, (_, index) =>
      json(aBet({ player_ref: `p${index}`, pad: 'x'.repeat(index === 50 || index === 120 ? 30_000 : 100) })),
    );
    const { code, output, errors } = await run(['publish', '-', '--topic', topic], kafka(), lines.join('\n'));
    expect([code, output]).toEqual([1, expect.stringMatching(/: 198 events, .*; 2 not delivered\n$/)]);
    expect(errors.trim().split('\n').sort()).toEqual([
      expect.stringMatching(/^-:121: not delivered \(30,\d+ bytes\): .*larger than/),
      expect.stringMatching(/^-:51: not delivered \(30,\d+ bytes\): .*larger than/),
    ]);
    expect(await countRecords(topic)).toBe(198);
  });

  test('sends a line that is no JSON object only with --force, and explains each', async () => {
    const topic = await freshTopic('publish');
    const lines = [json(aBet()), '\ufeff{}', 'e-1;bet;1.00', '{"half":', '5', '"text"', json(aBet())];
    const { code, output, errors } = await run(['publish', '-', '--topic', topic], kafka(), lines.join('\n'));
    expect([code, output]).toEqual([1, expect.stringMatching(/: 2 events, .*; 5 not delivered\n$/)]);
    expect(errors.trim().split('\n')).toEqual([
      expect.stringMatching(
        /^-:2: not delivered \(5 bytes\): it begins with a byte order mark.*--force sends it/,
      ),
      expect.stringMatching(/^-:3: .*: it looks like CSV/),
      expect.stringMatching(/^-:4: .*: it ends too early, at byte 8/),
      expect.stringMatching(/^-:5: .*: it is a number, not a JSON object/),
      expect.stringMatching(/^-:6: .*: it is a text, not a JSON object/),
    ]);
    expect(await countRecords(topic)).toBe(2);
    const one = await run(['publish', '-', '--topic', topic, '--force'], kafka(), '5');
    expect([one.code, one.output]).toEqual([
      1,
      expect.stringMatching(/: 1 event, .*; 1 is no JSON object\n$/),
    ]);
  });

  test('does not send a batch as an event, nor a document over several lines', async () => {
    const topic = await freshTopic('publish');
    const batch = { spec: 'promo.event.v1', events: [aBet(), aBet()] };
    const input = [aBet(), batch, [aBet()], { ...aBet(), events: [] }].map(json).join('\n');
    const { code, output, errors } = await run(['publish', '-', '--topic', topic], kafka(), input);
    expect([code, output]).toEqual([1, expect.stringMatching(/: 2 events, .*; 2 not delivered\n$/)]);
    expect(errors.trim().split('\n')).toEqual(
      [2, 3].map((line) =>
        expect.stringMatching(
          new RegExp(`^-:${line}: not delivered .*it is a batch, .*: write one event per line$`),
        ),
      ),
    );
    const pretty = JSON.stringify(batch, null, 2);
    expect(await run(['publish', '-', '--topic', topic], kafka(), pretty)).toEqual({
      code: 1,
      output: '',
      errors: expect.stringMatching(
        /^-: line 1 begins a JSON document .* in line \d\d, .* Nothing was sent\.\n$/,
      ),
    });
    expect(await countRecords(topic)).toBe(2);
  });

  test('sends nothing to a missing topic, and does not create the topic', async () => {
    const topic = `publish.missing.${randomBytes(6).toString('hex')}`;
    expect(await run(['publish', '-', '--topic', topic], kafka(), json(aBet()))).toEqual({
      code: 1,
      output: '',
      errors: `Kafka has no topic ${topic}, or hides it from this user. Create it, or correct --topic. Nothing was sent.\n`,
    });
    expect(await withAdmin((admin) => admin.listTopics())).not.toContain(topic);
  });

  test('prints the number of sent lines when the file cannot be read to its end', async () => {
    const topic = await freshTopic('publish');
    expect(await run(['publish', '/proc/self/mem', '--topic', topic], kafka())).toEqual({
      code: 1,
      output: expect.stringMatching(/: 0 events, /),
      errors: expect.stringMatching(/cannot be read to its end: EIO.*\n.*stopped\. Continue from line 1: /),
    });
  });

  test('continues when nobody reads its messages', async () => {
    const topic = await freshTopic('publish');
    const { child, ended } = start(['publish', '-', '--topic', topic, '--force'], kafka());
    child.stderr.destroy();
    child.stdin.end('no object\n'.repeat(5));
    expect(await ended).toMatchObject({ code: 1, output: expect.stringMatching(/: 5 events, /) });
    expect(await countRecords(topic)).toBe(5);
  });

  test('explains in a sentence that Kafka cannot be reached', async () => {
    const { code, errors } = await run(['publish', '-', '--topic', 't'], { KAFKA_BROKERS: '127.0.0.1:1' });
    expect([code, errors]).toEqual([
      1,
      expect.stringMatching(/^Kafka cannot be reached: .*ECONNREFUSED.*KAFKA_BROKERS.*\n$/),
    ]);
  });

  test('ends cleanly on Ctrl-C: complete lines are sent, half a line is not', async () => {
    const topic = await freshTopic('publish');
    const { child, ended } = start(['publish', '-', '--topic', topic], kafka());
    child.stdin.write(`${json(aBet())}\n${json(aBet())}\n{"half":`);
    await until('two records are there', DEADLINE_MS, async () => (await countRecords(topic)) === 2);
    child.kill('SIGINT');
    expect(await ended).toEqual({
      code: 1,
      output: expect.stringContaining('2 events'),
      errors: expect.stringMatching(/^-: interrupted\. Continue from line 3: /),
    });
    expect(await countRecords(topic)).toBe(2);
  });

  test('stops when Kafka is away for a long time, and prints the line from which to continue', async () => {
    const { code, output, errors } = await whileKafkaIsAway.ended;
    expect([code, output]).toEqual([1, expect.stringContaining('1 event,')]);
    expect(errors).toMatch(/^-: not delivered: lines 2-3: .+$/m);
    expect(errors).toMatch(/^-: stopped\. Continue from line 2: /m);
  });
});

describe('check', () => {
  test('needs neither settings nor servers, and ends with 1 if an event is not accepted', async () => {
    expect(await run(['check', '-'], {}, json(aBet()))).toMatchObject({ code: 0, errors: '' });
    expect(await run(['check', file(json(aBet({ amount: '-1' })))])).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^\S+\.ndjson:1: rejected\/bad_amount {2}\/amount: /),
    });
  });

  test('ends quietly when its reader is gone', async () => {
    const { child, ended } = start(['check', '-', '--json']);
    child.stdout.destroy();
    child.stdin.end(`${json(aBet())}\n`.repeat(20_000));
    expect(await ended).toMatchObject({ code: 1, errors: '' });
  });

  test('ends cleanly on Ctrl-C: half a line is not judged', async () => {
    const { child, ended } = start(['check', '-', '--json']);
    child.stdin.write(`${json(aBet())}\n{"half":`);
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    expect(await ended).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^\{"line":1,.*\}\n$/),
      errors: expect.stringContaining('interrupted; so far 1 event: 1 accepted'),
    });
  });
});
