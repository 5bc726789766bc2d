/**
 * The pages of operators, run as a reader runs them. Each code block runs in its order, in a directory of its
 * own, against a running webhook and a running worker. A block of output is compared with the output.
 */
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { until } from '../../dev/servers/deadline';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { inheritedFrom, productCommand } from '../../dev/servers/product';
import type { OperatorEntry } from '../../src/domain/reference';
import { readReference } from '../../src/reference-file/reference-file';
import { inWorld, type World } from '../stream/world';
import { withAdmin } from '../support/servers';
import { type Block, blocksOf, Terminal } from '../support/terminal';
import { aSecret, startWebhook } from '../support/webhook';
import { killWorkers, program, RunningCommand } from '../support/worker';

const PAGE_DEADLINE_MS = 240_000;
const START_DEADLINE_MS = 60_000;
jest.setTimeout(PAGE_DEADLINE_MS);
afterEach(killWorkers);

const HOOK = 'acme-hook';
const EXAMPLES = 'schemas/examples';
const REFERENCE = `${EXAMPLES}/reference.yaml`;
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const FILES_PAGE = 'docs/operators/files.md';
/** The file of files.md, which other pages use as well. */
const events = (): string => text(blocksOf(read(FILES_PAGE))[0]);
const text = (block: Block | undefined): string => `${(block?.lines ?? []).join('\n')}\n`;

interface Shell {
  readonly directory: string;
  readonly terminal: Terminal;
}

interface Bench extends Shell {
  /** A text of a page, with the addresses, topics and secrets of this run. */
  readonly real: (text: string) => string;
  /** The reverse, for outputs. */
  readonly shown: (text: string) => string;
}

interface Desk extends Bench {
  readonly world: World<'stream'>;
  readonly secret: string;
}

/** Blocks that need a container engine. */
const IN_CONTAINERS = /^docker run|GenericContainer/;

/** The operators of the example, with a topic of this run. */
function exampleOperators({ stream }: Readonly<Record<'stream', string>>): OperatorEntry[] {
  const file = Buffer.from(read(REFERENCE).replace('topic: promo.event.v1,', `topic: ${stream},`));
  const parsed = readReference(file, REFERENCE);
  if (!('document' in parsed)) throw new Error(JSON.stringify(parsed));
  return [...parsed.document.operators];
}

/** Commands of the pages, by the names that the pages have. */
function installCommands(directory: string): string {
  const bin = join(directory, 'bin');
  mkdirSync(bin);
  const { environment, file, args } = productCommand(program(), []);
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const command = [...variables, file, ...args].map((word) => `'${word}'`).join(' ');
  const consumer = join(ROOT, 'test', 'support', 'console-consumer.cjs');
  const scripts = {
    'promo-intake': `exec env ${command} "$@"`,
    'kafka-console-consumer.sh': `exec '${process.execPath}' '${consumer}' "$@"`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}

/** A shell in an empty directory, beside the schemas of a checkout. */
async function atAShell(work: (shell: Shell) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'operator-page-'));
  symlinkSync(join(ROOT, 'schemas'), join(directory, 'schemas'));
  const environment = inheritedFrom(process.env);
  const PATH = `${installCommands(directory)}${delimiter}${environment.PATH}`;
  const terminal = new Terminal(directory, { ...environment, PATH });
  try {
    await work({ directory, terminal });
  } finally {
    await terminal.close();
    rmSync(directory, { recursive: true });
  }
}

/** The same, with a world of the reference data of the examples. */
function atADesk(work: (desk: Desk) => Promise<void>): Promise<void> {
  return inWorld({ topics: { stream: 1 }, operators: exampleOperators }, async (world) => {
    const secret = aSecret();
    const verdictTopic = `verdict.${world.groupId}.{operator}`;
    await world.started({ VERDICT_TOPIC: verdictTopic });
    const { port } = await startWebhook({ DATABASE_URL: world.databaseUrl }, { [HOOK]: secret });
    const real: readonly (readonly [string, string])[] = [
      ['https://intake.example.com', `http://127.0.0.1:${port}`],
      ['broker.example.com:9092', world.brokers.join()],
      ['promo.verdict.v1.acme', verdictTopic.replace('{operator}', 'acme')],
      ['--topic promo.event.v1', `--topic ${world.topics.stream}`],
      ['whsec_...', secret],
    ];
    const shown: readonly (readonly [string, string])[] = [
      [world.topics.stream, 'promo.event.v1'],
      ...real.map(([name, value]) => [value, name] as const),
    ];
    const replaceAll = (pairs: readonly (readonly [string, string])[]) => (given: string) =>
      pairs.reduce((before, [from, to]) => before.replaceAll(from, to), given);
    try {
      await atAShell((shell) =>
        work({ ...shell, world, secret, real: replaceAll(real), shown: replaceAll(shown) }),
      );
    } finally {
      await withAdmin(async (admin) => {
        const prefix = verdictTopic.replace('{operator}', '');
        const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(prefix));
        await admin.deleteTopics({ topics });
      });
    }
  });
}

/** Without what differs from run to run: times and rates. */
const comparable = (output: string): string =>
  output
    .replaceAll(/\d+\.\d s\b/g, 'N s')
    .replaceAll(/[\d,]+\/s, \d+\.\d MB/g, 'N/s')
    .replaceAll(/("decided_at":)"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"/g, '$1"T"')
    .trim();

/** The lines of an output that are JSON objects. */
const objectsIn = (output: string): unknown[] =>
  output.split('\n').flatMap((line): unknown[] => (line.startsWith('{') ? [JSON.parse(line)] : []));

/** A block with prompts: the commands, each with the output that the page shows. */
function dialogue({ lines }: Block): { command: string; output: string }[] {
  const steps: { command: string; output: string }[] = [];
  for (const line of lines) {
    const step = steps.at(-1);
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), output: '' });
    else if (step !== undefined) step.output += `${line}\n`;
  }
  return steps;
}

/** Runs the blocks of a page. @returns their number by language */
async function runPage(page: string, desk: Bench): Promise<Record<string, number>> {
  const { terminal, directory, real, shown } = desk;
  const counts: Record<string, number> = {};
  let output = '';
  for (const block of blocksOf(read(page))) {
    const { language, lines, before } = block;
    if (IN_CONTAINERS.test(text(block))) continue;
    counts[language] = (counts[language] ?? 0) + 1;
    const [, saved] = /Save this as `([^`]+)`:\s*$/.exec(before) ?? [];
    if (saved !== undefined) writeFileSync(join(directory, saved), text(block));
    else if (language === 'sh') {
      const ended = await terminal.run(lines.map(real));
      output = shown(ended.output);
      expect([ended.code, output]).toEqual([0, output]);
      expect(output).not.toContain('ERROR_CODE');
    } else if (language === 'console') {
      for (const step of dialogue(block)) {
        output = shown((await terminal.run([real(step.command)])).output);
        expect(comparable(output)).toBe(comparable(step.output));
      }
    } else if (language === 'json' || language === 'text') {
      if (language === 'json') for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
      if (language === 'json')
        expect(objectsIn(comparable(output))).toEqual(objectsIn(comparable(text(block))));
      else expect(comparable(output)).toBe(comparable(text(block)));
    } else throw new Error(`${page}: no test runs a block of ${language}`);
  }
  return counts;
}

test('docs/operators/webhook.md: the first verdict by HTTP', () =>
  atADesk(async (desk) => {
    expect(await runPage('docs/operators/webhook.md', desk)).toEqual({ sh: 3, json: 1 });
  }));

test('docs/operators/files.md: check, send and publish a file', () =>
  atADesk(async (desk) => {
    expect(await runPage(FILES_PAGE, desk)).toEqual({ json: 1, console: 4 });
  }));

/** The file and the secret that the pages share. */
function lay({ directory, secret }: Desk): void {
  writeFileSync(join(directory, 'events.ndjson'), events());
  writeFileSync(join(directory, 'secrets.json'), JSON.stringify({ [HOOK]: secret }));
}

test('docs/operators/rehearsal.md: rehearse a file', () =>
  atADesk(async (desk) => {
    lay(desk);
    expect(await runPage('docs/operators/rehearsal.md', desk)).toEqual({ console: 1 });
    expect(await desk.world.verdicts()).toEqual({});
  }));

test('docs/operators/kafka.md: the first verdict by Kafka', () =>
  atADesk(async (desk) => {
    expect(await runPage('docs/operators/kafka.md', desk)).toEqual({ sh: 2, console: 1, json: 1 });
  }));

test('docs/operators/signature.md: sign in a shell, and find the fault of a signature', () =>
  atADesk(async (desk) => {
    lay(desk);
    const body = `${JSON.stringify({ kind: 'login' })}\n`;
    const at = new Date();
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(desk.secret).sign('msg_1', at, body.trimEnd()),
    };
    const dump = Object.entries(headers).map(([name, value]) => `> ${name}: ${value}\n`);
    writeFileSync(join(desk.directory, 'bet.json'), body);
    writeFileSync(join(desk.directory, 'headers.txt'), dump.join(''));
    expect(await runPage('docs/operators/signature.md', desk)).toEqual({ sh: 2, console: 1 });
    expect(Object.values(await desk.world.verdicts())).toEqual(['accepted']);
  }));

/** Sends the file of files.md. Then a login that was never sent is added to it. */
async function sendAndForgetOne(desk: Desk): Promise<void> {
  lay(desk);
  const settings = 'WEBHOOK_SECRETS_FILE=secrets.json';
  const address = `--url ${desk.real('https://intake.example.com')} --connection ${HOOK}`;
  await desk.terminal.run([`${settings} promo-intake send events.ndjson ${address}`]);
  expect(Object.keys(await desk.world.verdicts())).toHaveLength(8);
  const login = { event_id: 'e-10', brand: 'main', player_ref: 'p-1003', kind: 'login' };
  const event = { spec: 'promo.event.v1', ...login, occurred_at: '2026-11-21T12:05:00Z' };
  appendFileSync(join(desk.directory, 'events.ndjson'), `${JSON.stringify(event)}\n`);
}

test('docs/which-of-mine.md: which events never came, by the command and by HTTP', () =>
  atADesk(async (desk) => {
    await sendAndForgetOne(desk);
    expect(await runPage('docs/which-of-mine.md', desk)).toEqual({ console: 1, sh: 1, json: 1 });
  }));

test('docs/operations/reconciliation.md: the files for an operator, and the corrected events', () =>
  atADesk(async (desk) => {
    await sendAndForgetOne(desk);
    await desk.terminal.run([`export DATABASE_URL='${desk.world.databaseUrl}'`]);
    expect(await runPage('docs/operations/reconciliation.md', desk)).toEqual({ console: 1 });
    // The operator's own next steps.
    const [, command = ''] = /`(jq [^`]+)`/.exec(read('docs/which-of-mine.md')) ?? [];
    const { code } = await desk.terminal.run([command]);
    const file = (name: string) => readFileSync(join(desk.directory, name), 'utf8');
    expect([code, JSON.parse(file('corrected.ndjson')).event_id]).toEqual([0, 'e-8']);
    expect(JSON.parse(file('again.ndjson')).event_id).toBe('e-10');
  }));

test('docs/operators/kinds.md: check accepts the round', () =>
  atAShell(async ({ directory, terminal }) => {
    const [round, ...more] = blocksOf(read('docs/operators/kinds.md'));
    expect(more).toEqual([]);
    writeFileSync(join(directory, 'round.ndjson'), text(round));
    const { output } = await terminal.run(['promo-intake check round.ndjson']);
    expect(output).toContain('3 events: 3 accepted');
  }));

test('docs/operators/verdicts.md: the fields are those of the example', () => {
  const [shown, ...more] = blocksOf(read('docs/operators/verdicts.md')).map((block) =>
    JSON.parse(text(block)),
  );
  expect(more).toEqual([]);
  const example = JSON.parse(read(`${EXAMPLES}/verdicts/rejected.json`));
  expect(example).toMatchObject(shown);
  expect(Object.keys(shown)).toContain('details');
});

/** The rows of a table of values in code, with the words of the verdict. */
function rowsOf(page: string, column: RegExp): { values: string[]; currency: string; verdict: string }[] {
  const rows = read(page)
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  return rows.flatMap((row) => {
    const [cell = '', ...rest] = row.slice(2, -2).split(' | ');
    const values = [...cell.matchAll(/`([^`]+)`/g)].map(([, value = '']) => value);
    const [, verdict = ''] = /^\[?(accepted|rejected)/.exec(rest.at(-1) ?? '') ?? [];
    return values.every((value) => column.test(value)) ? [{ values, currency: rest[0] ?? '', verdict }] : [];
  });
}

test('docs/operators/amounts-and-times.md: check gives the verdicts of the tables', () =>
  atAShell(async ({ directory, terminal }) => {
    const page = 'docs/operators/amounts-and-times.md';
    const amounts = rowsOf(page, /^("[^"]*"|\d+\.\d)$/).flatMap(({ values, currency, verdict }) =>
      values.map((amount) => ({ fields: { amount: JSON.parse(amount), currency }, verdict })),
    );
    const times = rowsOf(page, /^\d{4}-|^\d{10}$/).flatMap(({ values, verdict }) =>
      values.map((time) => ({
        fields: { occurred_at: /^\d+$/.test(time) ? Number(time) : time },
        verdict,
      })),
    );
    expect([amounts.length, times.length]).toEqual([16, 7]);
    const bet = JSON.parse(read(`${EXAMPLES}/valid/bet.json`));
    const lines = [...amounts, ...times].map(({ fields }, index) =>
      JSON.stringify({ ...bet, event_id: `e-${index}`, ...fields }),
    );
    writeFileSync(join(directory, 'values.ndjson'), lines.join('\n'));
    const { output } = await terminal.run(['promo-intake check values.ndjson --json']);
    const verdicts = output
      .split('\n')
      .flatMap((line) => (line.startsWith('{"line') ? [JSON.parse(line)] : []));
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(
      [...amounts, ...times].map(({ verdict }) => verdict),
    );
  }));

test('docs/operators/try.md: send a file to an intake of your own', () =>
  atAShell(async (shell) => {
    const command = new RunningCommand(['try', '--port', '0'], {});
    const ready = /page +http:\/\/127\.0\.0\.1:(\d+)\/try/;
    await until('it is ready', START_DEADLINE_MS, () => command.hasEnded() || ready.test(command.output()));
    const [, port] = ready.exec(command.output()) ?? [];
    if (port === undefined) throw new Error(command.tail());
    writeFileSync(join(shell.directory, 'events.ndjson'), events());
    const counts = await runPage('docs/operators/try.md', {
      ...shell,
      real: (given) => given.replaceAll(':8081', `:${port}`).replaceAll('npx promo-intake', 'promo-intake'),
      shown: (output) => output,
    });
    expect(counts).toEqual({ console: 2 });
    expect(await command.stop()).toMatchObject({ code: 0 });
  }));

const OWN_TESTS = ['amounts-and-times.md', 'kinds.md', 'verdicts.md'];

test('every page of operators with a code block has a test', () => {
  const pages = readdirSync(join(ROOT, 'docs', 'operators'));
  const withBlocks = pages.filter((page) => blocksOf(read(`docs/operators/${page}`)).length > 0);
  const run = ['files.md', 'kafka.md', 'rehearsal.md', 'signature.md', 'try.md', 'webhook.md'];
  expect(withBlocks.filter((page) => ![...run, ...OWN_TESTS].includes(page))).toEqual([]);
  expect(blocksOf(read('docs/formats.md'))).toEqual([]);
});
