/**
 * The pages of operators, run as a reader runs them. Each code block runs in its order, in a directory of its
 * own, against a running webhook and a running worker. A block of output is compared with the output.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { projectRoot as ROOT } from '../../dev/servers/download';
import type { OperatorEntry } from '../../src/domain/reference';
import { readReference } from '../../src/reference-file/reference-file';
import { inWorld, type World } from '../stream/world';
import {
  atAShell,
  type Bench,
  dialogue,
  EXAMPLES,
  events,
  FILES_PAGE,
  HOOK,
  REFERENCE,
  read,
  runPage,
  text,
  withTry,
} from '../support/operator-pages';
import { withAdmin } from '../support/servers';
import { blocksOf } from '../support/terminal';
import { aSecret, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

const PAGE_DEADLINE_MS = 240_000;
/** Events of a long file. */
const LONG = 20_000;
jest.setTimeout(PAGE_DEADLINE_MS);
afterEach(killWorkers);

interface Desk extends Bench {
  readonly world: World<'stream'>;
  readonly secret: string;
}

/** The operators of the example, with a topic of this run. */
function exampleOperators({ stream }: Readonly<Record<'stream', string>>): OperatorEntry[] {
  const file = Buffer.from(read(REFERENCE).replace('topic: promo.event.v1,', `topic: ${stream},`));
  const parsed = readReference(file, REFERENCE);
  if (!('document' in parsed)) throw new Error(JSON.stringify(parsed));
  return [...parsed.document.operators];
}

/** The same, with a world of the reference data of the examples. */
function atADesk(work: (desk: Desk) => Promise<void>): Promise<void> {
  return inWorld({ topics: { stream: 1 }, operators: exampleOperators }, async (world) => {
    const secret = aSecret();
    const verdictTopic = `verdict.${world.groupId}.{operator}`;
    await world.started({ VERDICT_TOPIC: verdictTopic });
    const { port } = await startWebhook({ DATABASE_URL: world.writerUrl }, { [HOOK]: secret });
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

/** Sends the file of files.md. */
async function sendAll(desk: Desk): Promise<void> {
  lay(desk);
  const settings = 'WEBHOOK_SECRETS_FILE=secrets.json';
  const address = `--url ${desk.real('https://intake.example.com')} --connection ${HOOK}`;
  await desk.terminal.run([`${settings} promo-intake send events.ndjson ${address}`]);
  expect(Object.keys(await desk.world.verdicts())).toHaveLength(8);
}

test('docs/which-of-mine.md: which events never came, by the command and by HTTP', () =>
  atADesk(async (desk) => {
    await sendAll(desk);
    expect(await runPage('docs/which-of-mine.md', desk)).toEqual({ console: 1, sh: 2, json: 1 });
  }));

test('docs/operations/reconciliation.md: the files for an operator, and the corrected events', () =>
  atADesk(async (desk) => {
    await sendAll(desk);
    // A login that was never sent.
    const [added] = blocksOf(read('docs/which-of-mine.md'));
    await desk.terminal.run(added?.lines ?? []);
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
  atAShell((shell) =>
    withTry(shell, async (bench) => {
      writeFileSync(join(shell.directory, 'events.ndjson'), events());
      expect(await runPage('docs/operators/try.md', bench)).toEqual({ console: 2 });
    }),
  ));

/** A long file as operators export it: rounds, some with a win, and a few mistakes. */
function longExport(): Readonly<Record<string, unknown>>[] {
  const rounds = Array.from({ length: 8_600 }, (_, n) => {
    const round = { spec: 'promo.event.v1', brand: 'main', player_ref: `p-${n % 800}`, round_id: `r-${n}` };
    const at = { currency: 'EUR', occurred_at: '2026-11-21T12:00:00Z', game: { id: 'g1' } };
    const amount = `${(n % 50) + 1}.50`;
    return [
      { event_id: `bet-${n}`, kind: 'bet', ...round, amount, ...at },
      ...(n % 3 === 0 ? [{ event_id: `win-${n}`, kind: 'win', ...round, amount: '12.00', ...at }] : []),
      { event_id: `settled-${n}`, kind: 'settled', ...round, amount, ...at },
    ];
  });
  const mistakes: Readonly<Record<number, object>> = {
    100: { amount: '1,50' },
    7000: { occurred_at: '2026-11-21T12:00:00' },
    8000: { brand: 'nobody' },
    8500: { kind: 'spin' },
    15000: { event_id: 'bet-0' },
  };
  return rounds
    .flat()
    .slice(0, LONG)
    .map((event, line) => ({ ...event, ...mistakes[line] }));
}

/** Asks and corrects by the commands of the page, until every event is accounted for. */
test(`${LONG} events are reconciled by the commands of the pages`, () =>
  atAShell((shell) =>
    withTry(shell, async ({ directory, terminal, secret, real }) => {
      const [asked] = blocksOf(read('docs/which-of-mine.md')).filter(
        ({ language }) => language === 'console',
      );
      const ask = asked === undefined ? [] : dialogue(asked).map(({ command }) => real(command));
      const write = (name: string, lines: readonly object[]) =>
        writeFileSync(join(directory, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      const exported = longExport();
      const began = performance.now();
      const run = async (...lines: readonly string[]) => (await terminal.run(lines.map(real))).output;
      const address = `--url https://intake.example.com --connection ${HOOK}`;
      const send = (file: string) => run(`promo-intake send ${file} ${address}`);
      write('events.ndjson', exported);
      writeFileSync(join(directory, 'secrets.json'), JSON.stringify({ [HOOK]: secret }));
      expect(await run('promo-intake check events.ndjson')).toContain('20,000 events: 19,996 accepted');
      // A rehearsal uses up no id: the events are accepted afterwards.
      await run('export WEBHOOK_SECRETS_FILE=secrets.json');
      const rehearsed = await run(`promo-intake send events.ndjson ${address} --dry-run`);
      expect(rehearsed).toMatch(/rehearsed, nothing stored, .*; 20,000 events: 19,996 accepted, 4 rejected/);
      // The last fifty never left the operator's system.
      write('sent.ndjson', exported.slice(0, -50));
      expect(await send('sent.ndjson')).toContain('19,950 events: 19,945 accepted, 4 rejected');
      const first = await terminal.run(ask);
      expect([first.code, first.output]).toEqual([
        1,
        expect.stringContaining('to send again: 50; to correct: 5;'),
      ]);
      expect(await send('again.ndjson')).toContain('50 events: 50 accepted');
      const right = { brand: 'main', amount: '1.50', occurred_at: '2026-11-21T12:00:00Z', kind: 'win' };
      const corrected = exported.flatMap((event, line) =>
        [100, 7_000, 8_000, 8_500, 15_000].includes(line)
          ? [{ ...event, ...right, event_id: `corrected-${line}` }]
          : [],
      );
      write('corrected.ndjson', corrected);
      expect(await send('corrected.ndjson')).toContain('5 events: 5 accepted');
      write('events.ndjson', [
        ...exported.filter((_, line) => ![100, 7_000, 8_000, 8_500, 15_000].includes(line)),
        ...corrected,
      ]);
      expect((await terminal.run(ask)).code).toBe(0);
      const minutes = (performance.now() - began) / 60_000;
      console.info(`reconciled ${LONG} events in ${(minutes * 60).toFixed(1)} s`);
      // With the time for reading, and for the installation, the title of the section holds.
      const [, section = ''] =
        /^## Ten minutes to a reconciled file\n(.*?)^## /ms.exec(read('docs/operators.md')) ?? [];
      const [, reading = ''] = /words a minute \| ([\d.]+) min/.exec(section) ?? [];
      const [, install = '', start = ''] =
        /: the installation, .*\| (\d+) s, (\d+) s and/.exec(section) ?? [];
      expect(minutes + Number(reading) + (Number(install) + Number(start)) / 60).toBeLessThan(10);
      expect(Number(reading) * Number(install) * Number(start)).toBeGreaterThan(0);
    }),
  ));

const OPERATORS = 'docs/operators';
/** Pages whose blocks run above, in the order of the page. */
const RUN = ['files.md', 'kafka.md', 'rehearsal.md', 'signature.md', 'try.md', 'webhook.md'];
/** Pages with a test of another kind. That of completions is test/stream/completions-process.test.ts. */
const OWN_TESTS = ['completions.md', 'kinds.md', 'verdicts.md'];

test('every page of operators with a code block has a test', () => {
  const pages = readdirSync(join(ROOT, OPERATORS));
  const withBlocks = pages.filter((page) => blocksOf(read(`${OPERATORS}/${page}`)).length > 0);
  expect(withBlocks.filter((page) => ![...RUN, ...OWN_TESTS].includes(page))).toEqual([]);
  expect([...RUN, ...OWN_TESTS].filter((page) => !withBlocks.includes(page))).toEqual([]);
  expect(blocksOf(read('docs/formats.md'))).toEqual([]);
});

/** That of the package runs in test/dev/package.test.ts. */
test('docs/operators.md: the alias passes on the command, and no other block has no test', () =>
  atAShell(async ({ directory, terminal }) => {
    const [install, alias, ...more] = blocksOf(read('docs/operators.md'));
    expect([install?.lines[0], more]).toEqual([expect.stringMatching(/^npm install /), []]);
    // An engine that prints its arguments.
    writeFileSync(join(directory, 'docker'), '#!/bin/sh\nprintf "%s\\n" "$@"\n', { mode: 0o755 });
    const lines = ['PATH=$PWD:$PATH', 'shopt -s expand_aliases', ...(alias?.lines ?? [])];
    const { code, output } = await terminal.run([...lines, 'promo-intake check events.ndjson']);
    const words = output.trim().split('\n');
    expect([code, words[0]]).toEqual([0, 'run']);
    expect(words.slice(-3)).toEqual([expect.stringMatching(/^promo-intake:/), 'check', 'events.ndjson']);
    expect(words).toContain(`${directory}:/w`);
  }));
