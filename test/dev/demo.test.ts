/** A real `make demo`: with and without its own servers or a terminal, interrupted, and killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expected } from '../../dev/demo/feed';
import { isLongRun } from '../../dev/long-run';
import type { Servers } from '../../dev/servers';
import { sleep, until } from '../../dev/servers/deadline';
import { findOnPath } from '../../dev/servers/java';
import { isAlive, serversInside } from '../../dev/servers/process-table';
import { requireProduct } from '../../dev/servers/product';
import { answerNow } from '../../dev/servers/topics';
import { type Problem, testWhere } from '../support/needed';
import { ownServers, withAdmin } from '../support/servers';
import {
  builtTools,
  childrenOf,
  closeDirectory,
  ending,
  openDirectory,
  PROCESSES,
  type Program,
  query,
  runNode,
  stackDirectories,
  whileItRuns,
} from './programs';

const STEP_DEADLINE_MS = 90_000;

let demoFile: string;
let servers: Servers;
let given: NodeJS.ProcessEnv;
let temporary: string;

beforeAll(async () => {
  // It runs the built product, and refuses one that is older than its sources.
  requireProduct();
  demoFile = builtTools().demo;
  servers = await ownServers({ need: ['kafka', 'postgres'], environment: PROCESSES });
  given = { KAFKA_BROKERS: servers.kafkaBrokers, DATABASE_URL: servers.databaseUrl };
});
afterAll(() => servers?.stop());
beforeEach(() => {
  temporary = openDirectory();
});
afterEach(closeDirectory);

const said = (program: Program, text: RegExp): Promise<void> =>
  until(`the demo says ${text}`, STEP_DEADLINE_MS, () => {
    if (program.process.exitCode !== null)
      throw new Error(`It has ended:\n${program.output()}${program.errors()}`);
    return text.test(program.output());
  });

async function databasesLeft(): Promise<string[]> {
  const databases = await query(
    servers.databaseUrl,
    "select coalesce(array_agg(datname::text), '{}') from pg_database where datname like 'promo\\_demo\\_%'",
  );
  return Array.isArray(databases) ? databases.map(String) : [];
}

/** All remains of demos on the given servers, and in the temporary directory. */
async function whatIsLeft(): Promise<string[]> {
  const kafka = await withAdmin(
    async (admin) => [
      ...(await admin.listTopics()),
      ...(await admin.listGroups()).groups.map(({ groupId }) => groupId),
    ],
    servers.kafkaBrokers.split(','),
  );
  return [
    ...(await databasesLeft()),
    ...kafka.filter((name) => name.startsWith('promo.demo.')),
    ...stackDirectories(),
    ...serversInside(temporary).map(({ pid }) => `process ${pid}`),
  ];
}

/** The numbers of the printed table by verdict and reason. */
function tableOf(output: string): Map<string, number> {
  const rows = output.matchAll(
    /^ {2}(accepted|rejected|skipped|duplicate|dead letter|all) {2,}(.*?) *([\d,]+)(?: +[\d.]+ %)?$/gm,
  );
  return new Map(
    [...rows].map(([, verdict, reason, number]) => [
      `${verdict} ${reason}`.trim(),
      Number(number?.replaceAll(',', '')),
    ]),
  );
}

function expectWholeReport(output: string): void {
  const { all, ...parts } = Object.fromEntries(tableOf(output));
  expect(all).toBe(20_000);
  expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBe(20_000);
  const reasons = Object.keys(parts).map((name) => name.split(' ').at(-1));
  expect(reasons).toEqual(expect.arrayContaining([...expected.reasons, 'unclaimed']));
  expect(Object.keys(parts)).toEqual(
    expect.arrayContaining(['accepted', 'duplicate equal content', 'duplicate other content']),
  );
  for (const anomaly of [
    'second_settled',
    'settled_mismatch',
    'player_mismatch',
    'brand_mismatch',
    'currency_mismatch',
  ])
    expect(output).toMatch(new RegExp(`^ {2}${anomaly} +[1-9]`, 'm'));
  expect(output).toMatch(/The story of round fj-\d+-\d+/);
  expect(output).toMatch(/Net: bet 0\.00 EUR, settled 0\.00 EUR, win 0\.00 EUR\./);
  expect(output).toMatch(/rounds were refunded, and each of them sums to 0/);
  expect(output).toMatch(/[\d,]+ events a second/);
  expect(output).toMatch(
    /^ {2}demo-refund +accepted\n {2}demo-refund +duplicate +of the first, which is accepted\n {2}demo-late-bet +skipped +round_refunded\n {2}Net of the round now: bet 0\.00 /m,
  );
  expectOwnAnswers(output);
  expectPromotions(output);
  expect(output).toContain('Open build/demo-report.html in a browser.');
  const headings = [...output.matchAll(/^(?! )(\w[\w' ]*)[^\n]*$/gm)].map(([, words]) => words?.trim());
  expect(headings.slice(-5)).toEqual([
    "An operator's own answers",
    ...['Which of mine', 'Promotions', 'Completions', 'Look further'],
  ]);
  expect(output).toMatch(/^ {2}psql 'postgres:\/\/\S+'$/m);
  expect(Math.max(...output.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110);
}

/** The faults of the operator's file, in the order of its lines, with the beginning of each remedy. */
const FAULTS = [
  ['never received', 'Send it again as it is.'],
  ['never received: /amount: ', 'It was never received, and its event_id is free.'],
  ['rejected/bad_amount: /amount: ', 'Send the exact amount as a decimal string, with a new event_id.'],
  ['rejected/malformed: /', 'Fix the field and send the event with a new event_id.'],
  ['rejected/no_player: /player_ref: ', 'Name the player and send the event with a new event_id.'],
  ['rejected/op_unknown: /kind: ', 'Use one of the seven kinds and send the event with a new event_id.'],
  ['rejected/brand_unmapped: /brand: ', 'Ask support to register the brand'],
  ['rejected/operator_inactive: /brand: ', 'Ask support to activate the brand'],
  ['accepted, with other content', 'Give each event its own event_id.'],
  ['never received, with other content (line 2 has the same', 'Give each event its own event_id.'],
  ['rejected/no_idempotency_key: ', 'Fix the payload and send the event again.'],
  ['unidentified: payload: the payload ends too early', 'Nothing can be looked up without an event_id.'],
] as const;

function expectOwnAnswers(output: string): void {
  const [, messages, counts = ''] =
    /^An operator's own answers: promo\.demo\.\S*verdict\.fjordspill\n {2}([\d,]+) messages, all about events of fjordspill: (.*)\.$/m.exec(
      output,
    ) ?? [];
  const parts = [...counts.matchAll(/([\d,]+) (accepted|rejected|skipped|duplicate)/g)];
  const numberOf = (text = '') => Number(text.replaceAll(',', ''));
  expect(parts).toHaveLength(4);
  expect(parts.reduce((sum, [, number]) => sum + numberOf(number), 0)).toBe(numberOf(messages));
  expect(numberOf(messages)).toBeGreaterThan(10_000);
  expect(output).toMatch(
    /"demo-refund","verdict":"accepted".*\n +"reversed":\[\{"currency":"EUR","bet":"[\d.]+"/,
  );
  const [, section = ''] =
    /^Which of mine\? A file of 20 lines with 12 faults\n([\s\S]*?)\n\n/m.exec(output) ?? [];
  const entries = section.split(/^ +\d+ {2}(?=\S)/m).slice(1);
  expect(entries).toHaveLength(FAULTS.length);
  for (const [index, [fault, remedy]] of FAULTS.entries()) {
    const [head = ''] = entries[index]?.split('\n') ?? [];
    expect(head.slice(0, fault.length)).toBe(fault);
    expect(entries[index]?.replaceAll(/\n +/g, ' ')).toContain(remedy);
  }
  expect(section).toMatch(/To send again: 1 \(again\.ndjson\)\. To correct: 11 \(faulty\.ndjson\)\.$/);
}

/** The table of promotions: before and after a late login, a refund and a last gem. */
const PROMOTIONS = [
  ['gems, demo-maja', 'ruby 1 of 2'],
  ['gems, demo-siri', 'ruby 1 of 2, pearl 5 of 5', 'ruby 2 of 2, pearl 5 of 5', 'completed'],
  ['race, demo-maja', '30 points, rank 1', '', 'rank 1 revoked'],
  ['race, demo-olav', '20 points, rank 2', '20 points, rank 1', 'rank 2 revoked, rank 1 completed'],
  ['race, demo-siri', '7 points, rank 3', '7 points, rank 2', 'rank 3 revoked, rank 2 completed'],
  ['streak-3, demo-olav', '1 of 3 days', '3 of 3 days', 'completed'],
];

function expectPromotions(output: string): void {
  const [, section = ''] = /^Promotions: .*\n([\s\S]*?)\n\n/m.exec(output) ?? [];
  const lines = section.split('\n');
  expect(lines[0]).toBe('  promo-intake promotions apply dev/demo/promotions.yaml: document 1 is in force.');
  const header = lines.find((line) => line.includes('promotion, player')) ?? '';
  const starts = ['promotion', 'before', 'now', 'completions'].map((name) => header.indexOf(name));
  const from = lines.indexOf(header) + 1;
  const cells = lines
    .slice(from, from + PROMOTIONS.length)
    .map((line) => starts.map((start, column) => line.slice(start, starts[column + 1]).trim()));
  expect(cells).toEqual(PROMOTIONS.map((row) => [...row, '', '', ''].slice(0, starts.length)));
  // The feed counts, too.
  expect(section).toMatch(/^ {2}\d{3,} players of fjordspill have progress, with \d+ completions\.$/m);
  expect(
    lines.slice(from + PROMOTIONS.length + 1).map((line) => line.trim().replaceAll(/ {2,}/g, ' ')),
  ).toEqual([
    'gems The promotion counts no events of this kind.',
    'race The event counted, and its round was refunded later.',
    'streak-3 The promotion counts no events of this kind.',
  ]);
  expectCompletions(output);
}

/** The messages of rank 1: completed, revoked by the refund, and given to the next player. */
function expectCompletions(output: string): void {
  const [, total = '', section = ''] =
    /^Completions, .*: promo\.demo\.\S*completion\.fjordspill\n {2}([\d,]+) messages\. [^\n]*\n([\s\S]*?)\n\n/m.exec(
      output,
    ) ?? [];
  expect(Number(total.replaceAll(',', ''))).toBeGreaterThanOrEqual(8);
  const messages = section.split('\n').slice(0, -1);
  const [first = '', second = '', third = '', ...others] = messages.map(
    (line) => /"completion_id":"([0-9a-f]{8})\.\.\."/.exec(line)?.[1],
  );
  expect([messages.length, others, first === second, first === third]).toEqual([3, [], true, false]);
  expect(messages.map((line) => line.replace(/^.*?,"change"/, ''))).toEqual([
    ':"completed","player_ref":"demo-maja","rank":1, ...}',
    ':"revoked","player_ref":"demo-maja","rank":1, ...}',
    ':"completed","player_ref":"demo-olav","rank":1, ...}',
  ]);
}

test('with its own servers and no terminal: prints everything, ends with 0, leaves nothing', async () => {
  const demo = runNode([demoFile]);
  expect([await ending(demo), demo.errors()]).toEqual([0, '']);
  expectWholeReport(demo.output());
  for (const control of ['\u001b', '\r']) expect(demo.output()).not.toContain(control);
  expect(await whatIsLeft()).toEqual([]);
});

const MOMENTS: readonly (readonly [step: string, milliseconds: number])[] = [['reference', 200]];
const FURTHER_MOMENTS: typeof MOMENTS = [
  ['servers', 0],
  ['migrate', 0],
  ['publish', 0],
];
test.each(isLongRun ? [...MOMENTS, ...FURTHER_MOMENTS] : MOMENTS)(
  'SIGINT after the line %s and %i ms leaves nothing on given servers',
  async (step, milliseconds) => {
    const demo = runNode([demoFile], given);
    await said(demo, new RegExp(`^ {2}${step}`, 'm'));
    await sleep(milliseconds);
    demo.process.kill('SIGINT');
    expect([await ending(demo), demo.errors()]).toEqual([130, '']);
    expect(await whatIsLeft()).toEqual([]);
  },
);

test('SIGINT while the worker decides leaves nothing on given servers', async () => {
  const demo = runNode([demoFile], given);
  await said(demo, /^ {2}publish/m);
  const [database = ''] = await databasesLeft();
  const url = new URL(servers.databaseUrl);
  url.pathname = `/${database}`;
  await whileItRuns(demo, 'something is decided', async () => {
    return (await query(url.href, 'select count(*)::int from promo_store.event_keys')) !== 0;
  });
  demo.process.kill('SIGINT');
  expect([await ending(demo), demo.errors()]).toEqual([130, '']);
  expect(await whatIsLeft()).toEqual([]);
});

test.each(isLongRun ? [100, 400, 1_000, 3_000] : [3_000])(
  'SIGINT %i ms after the start leaves no servers of its own',
  async (milliseconds) => {
    const demo = runNode([demoFile]);
    await sleep(milliseconds);
    demo.process.kill('SIGINT');
    // Before the program has its first handler, the signal itself ends it.
    expect(['SIGINT', 130]).toContain(await ending(demo));
    expect(await whatIsLeft()).toEqual([]);
  },
);

/** A killed demo's consumer group: it can be removed once Kafka has noticed that its member is gone. */
const isGroup = (name: string): boolean => /^promo\.demo\.[^.]+$/.test(name);

/** Whether the group has a member; undefined if Kafka does not know at the moment. */
async function hasMember(group: string): Promise<boolean | undefined> {
  const brokers = servers.kafkaBrokers.split(',');
  const answer = await answerNow(() => withAdmin((admin) => admin.describeGroups([group]), brokers));
  return answer?.groups.some(({ members }) => members.length > 0);
}

test('starts after a kill -9 remove worker, topics, database and group of the killed demo', async () => {
  // With an empty PATH there is no setpriv: the worker then outlives the demo.
  const killed = runNode([demoFile], { ...given, PATH: join(temporary, 'nothing') });
  await said(killed, /^ {2}publish/m);
  const [directory = ''] = stackDirectories();
  const [database = ''] = await databasesLeft();
  const group = database.replace(/^promo_demo_/, 'promo.demo.').replaceAll('_', '-');
  await until('the worker is a member', STEP_DEADLINE_MS, async () => (await hasMember(group)) === true);
  const children = childrenOf(directory);
  expect(children.length).toBeGreaterThan(0);
  killed.process.kill('SIGKILL');
  await killed.ended;
  const left = await whatIsLeft();
  expect(left).toContainEqual(expect.stringMatching(/^promo_demo_/));
  expect(left.filter((name) => name.startsWith('promo.demo.')).length).toBeGreaterThan(3);

  const next = runNode([demoFile], given);
  await said(next, /^ {2}migrate/m);
  expect(children.filter(isAlive)).toEqual([]);
  expect(next.output()).toContain(`removed the database ${database} that a killed demo left`);
  expect(next.output()).toMatch(/removed \d+ topics that a killed demo left/);
  const others = left.filter((name) => !isGroup(name));
  await until('the remains of the killed demo are gone', STEP_DEADLINE_MS, async () => {
    const now = await whatIsLeft();
    return !others.some((name) => now.includes(name));
  });
  next.process.kill('SIGTERM');
  expect(await ending(next)).toBe(143);

  // The session of the killed worker ends last.
  await until('the member is gone', STEP_DEADLINE_MS, async () => (await hasMember(group)) === false);
  const last = runNode([demoFile], given);
  await said(last, /^ {2}migrate/m);
  expect(await whatIsLeft()).not.toContain(group);
  last.process.kill('SIGTERM');
  expect(await ending(last)).toBe(143);
  expect(await whatIsLeft()).toEqual([]);
});

test('an address without an answer is explained in a sentence', async () => {
  const kafka = runNode([demoFile], { ...given, KAFKA_BROKERS: '127.0.0.1:1' });
  expect(await ending(kafka)).toBe(1);
  expect(kafka.errors()).toMatch(
    /^demo: Kafka at 127\.0\.0\.1:1 does not answer: .*Is KAFKA_BROKERS right\?\n$/,
  );
  const postgres = runNode([demoFile], {
    ...given,
    DATABASE_URL: 'postgres://demo:secret@127.0.0.1:1/promo',
  });
  expect(await ending(postgres)).toBe(1);
  expect(postgres.errors()).toMatch(
    /^demo: Postgres at 127\.0\.0\.1:1 does not answer: .*DATABASE_URL right\?\n$/,
  );
  expect(await whatIsLeft()).toEqual([]);
});

/** The program script of util-linux. On BSD it has other options. */
function findScript(): { readonly script: string } | Problem {
  const script = process.platform === 'linux' ? findOnPath('script', process.env) : undefined;
  return script === undefined ? { problem: 'there is no script of util-linux here' } : { script };
}

describe('in a terminal', () => {
  let terminal: ChildProcess | undefined;
  afterEach(() => terminal?.kill('SIGKILL'));

  testWhere(findScript())(
    'on given servers: shows a bar, waits, can be queried with its psql line, and Ctrl-C removes its topics and database',
    async ({ script }) => {
      // Without exec, a shell that stays (dash does, bash does not) also gets the Ctrl-C. Then script reports
      // the end of the shell.
      const command = `exec '${process.execPath}' '${demoFile}'`;
      terminal = spawn(script, ['-qec', command, '/dev/null'], {
        env: { ...process.env, ...given, TMPDIR: temporary, TERM: 'xterm', SCHEMA_REGISTRY_URL: '' },
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      let output = '';
      terminal.stdout?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
      const ended = once(terminal, 'close');
      await until('the demo waits', STEP_DEADLINE_MS, () => /until Ctrl-C/.test(output));
      const [database, ...topics] = await whatIsLeft();
      expect(database).toMatch(/^promo_demo_[0-9a-f]+_\d+_[0-9a-f]+$/);
      expect(topics).toContainEqual(
        expect.stringMatching(/^promo\.demo\.[0-9a-f]+-\d+-[0-9a-f]+\.fjordspill$/),
      );
      expect(output).toContain('\r\u001b[K  worker      [#');
      expect(output).toMatch(/worker {6}\[#+\.+\] +\d+ %/);
      const url = /psql '(postgres:[^']+)'/.exec(output)?.[1] ?? '';
      expect(url).toMatch(new RegExp(`/${database}$`));
      expect(await query(url, 'select count(*)::int from promo.verdicts')).toBeGreaterThan(19_000);
      terminal.stdin?.write('\u0003');
      expect((await ended)[0]).toBe(0);
      expect(output).toMatch(/everything the demo made is removed/);
      expect(await whatIsLeft()).toEqual([]);
    },
  );
});
