/** `promo-intake reconcile` as operators run it, on a real Postgres. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { aBet, aLogin, freshStore, type TestStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { killWorkers, RunningCommand } from '../support/worker';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-reconcile-'));
});
afterEach(killWorkers);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const pathOf = (name: string) => join(directory, name);
const linesOf = (...events: readonly unknown[]) =>
  events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event))).join('\n');

/** @param work with the address of the store as a reconciler */
async function withStore(work: (url: string, store: TestStore) => Promise<void>): Promise<void> {
  const store = await freshStore();
  const role = await makeRole(store.url, 'reconciler');
  try {
    await grantRoles(store.url, [{ role: 'reconciler', name: role.name }]);
    await work(role.url, store);
  } finally {
    await dropRoles(store.url, [role.name]);
    await store.close();
  }
}

/** Runs the command over a file with this content. */
async function run(
  url: string,
  content: string | Buffer,
  args: readonly string[] = [],
  file = 'events.ndjson',
) {
  writeFileSync(pathOf(file), content);
  const command = new RunningCommand(
    [
      'reconcile',
      pathOf(file),
      ...(args.includes('--connection') ? [] : ['--connection', 'acme-stream']),
      ...args,
    ],
    {
      DATABASE_URL: url,
    },
  );
  const { code } = await command.ending();
  const objects = command
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
  return { code, output: command.output().replaceAll(`${directory}/`, ''), objects };
}

const bet = aBet({
  event_id: 'counted',
  round_id: 'r-1',
  amount: '10.50',
  occurred_at: '2026-11-21T12:00:00Z',
});
const low = aBet({ event_id: 'low', round_id: 'r-2', amount: '0.05', occurred_at: '2026-11-21T12:10:00Z' });
const faulty = { ...aBet({ event_id: 'faulty', round_id: 'r-3' }), amount: '1,50' };
const missing = aLogin({ event_id: 'missing', occurred_at: '2026-11-21T13:00:00Z' });

test('names for each event the verdict, the remedy and the next step, and writes both files', () =>
  withStore(async (url, store) => {
    await store.partition('acme').read(bet, low, faulty, aLogin({ event_id: 'twice', player_ref: 'p-1' }));
    const other = aLogin({ event_id: 'twice', player_ref: 'p-2' });
    const missingLine = `  ${JSON.stringify(missing).replace('{', '{ ')}  \r`;
    const content = linesOf(bet, low, faulty, other, missingLine, bet, 'no event', {
      ...aLogin({ event_id: 'not yet' }),
      occurred_at: 'yesterday',
    });
    const args = ['--resend', pathOf('again'), '--mend', pathOf('wrong')];
    const { code, output } = await run(url, content, args);
    expect(code).toBe(1);
    expect(readFileSync(pathOf('again'), 'utf8')).toBe(`${missingLine}\n`);
    const wrong = readFileSync(pathOf('wrong'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(wrong).toEqual([
      expect.objectContaining({
        line: 3,
        event_id: 'faulty',
        state: 'rejected',
        reason: 'bad_amount',
        needs_new_event_id: true,
        remedy: 'Send the exact amount as a decimal string, with a new event_id.',
        details: [expect.objectContaining({ field: '/amount', reason: 'bad_amount' })],
        event: faulty,
      }),
      expect.objectContaining({
        line: 4,
        event_id: 'twice',
        state: 'accepted',
        content_differs: true,
        needs_new_event_id: true,
        remedy: 'Give each event its own event_id.',
        event: other,
      }),
      expect.objectContaining({ line: 7, event_id: null, state: 'unidentified', text: 'no event' }),
      expect.objectContaining({
        line: 8,
        event_id: 'not yet',
        state: 'never_received',
        needs_new_event_id: false,
        details: [expect.objectContaining({ field: '/occurred_at' })],
      }),
    ]);
    expect(output).toContain('events.ndjson:2: low skipped/below_min_bet  /amount: the bet of 0.05 EUR');
    expect(output).toContain('events.ndjson:5: missing never received. Send it again as it is.');
    expect(output).toMatch(
      /events\.ndjson: 7 events: 2 accepted, 1 rejected, 1 skipped, 2 never received, 1 unidentified, 1 with other content, 1 repeated in the file/,
    );
    expect(output).toMatch(/^bet +3 +1 +1 +1/m);
    expect(output).toMatch(/^2026-11-21T13Z +1 +0 +0 +0 +1/m);
    expect(output).toContain('bet EUR: sent 10.55, accepted 10.50');
    expect(output).toContain('to send again: 1; to correct: 4; to ask again later: 0');
  }));

test('ends with 0 where every event is accounted for, and changes nothing in the store', () =>
  withStore(async (url, store) => {
    await store.partition('acme').read(bet, low);
    const before = await store.contents();
    const { code, output } = await run(url, linesOf(bet, low), ['--resend', pathOf('nothing')]);
    expect([code, readFileSync(pathOf('nothing'), 'utf8')]).toEqual([0, '']);
    expect(output).toContain('to send again: 0; to correct: 0; to ask again later: 0');
    expect(await store.contents()).toEqual(before);
  }));

test('never shows one operator an event of another', () =>
  withStore(async (url, store) => {
    await store.partition('bravo').read(bet);
    await store.partition('acme.apart').read(bet);
    const { objects } = await run(url, linesOf(bet), ['--json']);
    expect(objects[0]).toMatchObject({ line: 1, event_id: 'counted', state: 'never_received' });
    expect(objects[1].totals.states).toMatchObject({ sent: 1, never_received: 1 });
  }));

test('an id alone is compared by its id, and an event in a document as on a line of its own', () =>
  withStore(async (url, store) => {
    await store.partition('acme').read(bet);
    const { code, objects } = await run(url, JSON.stringify([{ event_id: 'counted' }, missing], null, 2), [
      ...['--json', '--resend', pathOf('one-line')],
    ]);
    expect(objects.slice(0, 2)).toEqual([
      expect.objectContaining({ event_id: 'counted', state: 'accepted', action: 'none' }),
      expect.objectContaining({ event_id: 'missing', state: 'never_received', action: 'resend' }),
    ]);
    expect(code).toBe(1);
    expect(readFileSync(pathOf('one-line'), 'utf8').split('\n')).toHaveLength(2);
    expect(JSON.parse(readFileSync(pathOf('one-line'), 'utf8'))).toEqual(missing);
  }));

test('of two events with one id that never came, the first is sent again and the other is corrected', () =>
  withStore(async (url) => {
    const other = { ...missing, player_ref: 'p-other' };
    const args = ['--json', '--resend', pathOf('first'), '--mend', pathOf('second')];
    const { objects } = await run(url, linesOf(missing, missing, other), args);
    expect(readFileSync(pathOf('first'), 'utf8')).toBe(`${JSON.stringify(missing)}\n`);
    expect(objects.slice(1, 3)).toEqual([
      expect.objectContaining({ line: 2, first_line: 1, action: 'none' }),
      expect.objectContaining({ line: 3, first_line: 1, action: 'correct', content_differs: true }),
    ]);
  }));

test.each([
  ['an unknown connection', ['--connection', 'nobody'], /no connection nobody\. Use one of acme-stream/],
  ['an output that is FILE', ['--resend', '{dir}/events.ndjson'], /--resend: names FILE itself/],
  ['two outputs in one file', ['--resend', '{dir}/x', '--mend', '{dir}/x'], /the same file as --resend/],
  ['an output in no directory', ['--mend', '{dir}/none/x'], /cannot be written \(ENOENT\)/],
  ['an output that is a directory', ['--mend', '{dir}'], /is no file/],
])('%s is wrong use, and no file is written', (_, args, expected) =>
  withStore(async (url) => {
    const before = readdirSync(directory).length;
    const given = args.map((arg) => arg.replace('{dir}', directory));
    const { code, output } = await run(url, linesOf(bet), given);
    expect(output).toMatch(expected);
    expect(code).toBe(2);
    expect(readdirSync(directory).length - before).toBeLessThanOrEqual(1);
    expect(existsSync(pathOf('x'))).toBe(false);
  }),
);

describe('FILE', () => {
  const csv = (...rows: readonly string[]) => rows.join('\r\n');

  test.each([
    [
      'CSV with names, a byte order mark and CR LF',
      csv('\uFEFFkind,event_id,note', 'bet,counted,x', 'login,missing,"a ""b"", c"'),
      'ids.csv',
      [],
    ],
    ['CSV with semicolons', csv('event_id;kind', '"counted";bet', 'missing;login'), 'ids.csv', []],
    ['a plain list of ids', 'counted\nmissing\n', 'ids.txt', ['--csv']],
  ])('%s is looked up by id, and --resend has its rows as they are', (_, content, file, args) =>
    withStore(async (url, store) => {
      await store.partition('acme').read(bet);
      const { code, objects } = await run(
        url,
        content,
        [...args, '--json', '--resend', pathOf('rows')],
        file,
      );
      expect(objects.map(({ event_id, state }) => [event_id, state]).slice(0, 2)).toEqual([
        ['counted', 'accepted'],
        ['missing', 'never_received'],
      ]);
      expect(code).toBe(1);
      const rows = content.split('\n').filter((row) => row !== '' && !row.includes('counted'));
      expect(readFileSync(pathOf('rows'), 'utf8')).toBe(`${rows.join('\n')}\n`);
      if (file === 'ids.csv')
        expect(objects[2].totals.kinds).toMatchObject({ bet: { accepted: 1 }, login: { never_received: 1 } });
    }),
  );

  test('CSV finds a record by its place', () =>
    withStore(async (url, store) => {
      await store.partition('acme').read(aLogin({ event_id: undefined }));
      const { objects } = await run(
        url,
        csv('topic,partition,offset', 'acme,0,0', 'acme,0,5', 'acme,0,x'),
        ['--json'],
        'places.csv',
      );
      expect(objects.slice(0, 3).map(({ state, reason }) => [state, reason])).toEqual([
        ['rejected', 'no_idempotency_key'],
        ['undecided', null],
        ['unidentified', null],
      ]);
    }));

  test.each([
    [
      'CSV without a column to look up',
      csv('player,amount', 'p-1,5'),
      'x.csv',
      2,
      /FILE: has no column event_id: its first line is "player,amount"\. Name the columns there/,
    ],
    [
      'a list of ids without --csv',
      'e-1\ne-2\n',
      'ids.txt',
      1,
      /ids\.txt: its first line is no JSON\. --csv reads CSV, or an id on each line\n/,
    ],
    [
      'a file of events to correct',
      linesOf({
        line: 8,
        event_id: 'e-8',
        state: 'rejected',
        reason: null,
        action: 'correct',
        event: faulty,
      }),
      'wrong.ndjson',
      2,
      /^FILE: has answers of reconcile, and no events\. Take the events out, and correct them: jq -c /,
    ],
    ['a gzipped file', gzipSync(linesOf(bet)), 'x.gz', 2, /FILE: is compressed\. Run: gunzip -c FILE/],
    [
      'a file of UTF-16',
      Buffer.from(`\uFEFF${linesOf(bet)}`, 'utf16le'),
      'x.ndjson',
      2,
      /^FILE: is UTF-16, and must be UTF-8\. Run: iconv -f UTF-16 -t UTF-8 FILE \| promo-intake reconcile -/,
    ],
    [
      'a currency near another',
      linesOf(aBet({ currency: 'EURO' })),
      'x.ndjson',
      1,
      /did you mean "EUR"\? It was never received/,
    ],
    ['an empty file', '', 'x.ndjson', 0, /0 events: 0 accepted/],
    ['a quotation mark that is not closed', csv('event_id,kind', '"e-1,bet'), 'x.csv', 1, /not closed/],
    [
      'an id with blanks, which are part of it',
      csv('event_id,kind', ' e-1 ,bet'),
      'x.csv',
      1,
      /x\.csv:2: " e-1 " never/,
    ],
    ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'x.ndjson', 1, /unidentified.*UTF-8/],
  ])('%s has a stated outcome', (_, content, file, expected, words) =>
    withStore(async (url) => {
      const { code, output } = await run(url, content, [], file);
      expect([code, output]).toEqual([expected, expect.stringMatching(words)]);
    }),
  );

  test('the event after a byte order mark is written without it, so it can be sent and corrected', () =>
    withStore(async (url) => {
      const out = ['--resend', pathOf('marked-again'), '--mend', pathOf('marked-wrong')];
      await run(url, `\uFEFF${linesOf(missing)}`, out);
      expect(readFileSync(pathOf('marked-again'), 'utf8')).toBe(`${JSON.stringify(missing)}\n`);
      const line = linesOf(faulty);
      await run(url, `\uFEFF${line}`, out);
      expect(JSON.parse(readFileSync(pathOf('marked-wrong'), 'utf8')).event).toEqual(JSON.parse(line));
    }));

  test('an event after a byte order mark is looked up, and an id of a megabyte, too', () =>
    withStore(async (url, store) => {
      const long = aLogin({ event_id: 'long '.repeat(200_000) });
      await store.partition('acme').read(bet, long);
      const { code, output } = await run(url, `\uFEFF${linesOf(bet, long)}\r\n`);
      expect([code, output]).toEqual([0, expect.stringMatching(/2 events: 2 accepted/)]);
    }));
});

test.each([
  ['without a writer', null],
  ['with a writer that waits', `${linesOf(missing)}\n`],
])(
  'after Ctrl-C at a pipe %s there is no file of it, half or whole, and a file of before stays',
  (name, text) =>
    withStore(async (url) => {
      writeFileSync(pathOf('older'), 'older');
      const fifo = pathOf(`fifo ${name}`);
      execFileSync('mkfifo', [fifo]);
      const out = ['--resend', pathOf('older'), '--mend', pathOf('newer')];
      const command = new RunningCommand(['reconcile', fifo, '--connection', 'acme-stream', ...out], {
        DATABASE_URL: url,
      });
      const writer = text === null ? null : await open(fifo, 'w');
      await writer?.write(text ?? '');
      await until('it writes beside', 60_000, () =>
        readdirSync(directory).some((name) => name.endsWith('.part')),
      );
      command.signal('SIGINT');
      expect(await command.ending()).toEqual({ code: 1, signal: null });
      await writer?.close();
      expect(command.output()).toContain('interrupted, and no file was written');
      expect(readFileSync(pathOf('older'), 'utf8')).toBe('older');
      expect(readdirSync(directory).filter((name) => /newer|part$/.test(name))).toEqual([]);
    }),
);
