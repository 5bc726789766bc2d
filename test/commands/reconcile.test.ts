/** `promo-intake reconcile` as operators run it, on a real Postgres. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { aBet, aLogin, freshStore, type TestStore } from '../support/ledger';
import { killWorkers, RunningCommand } from '../support/worker';

jest.setTimeout(120_000);

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-reconcile-'));
});
afterEach(killWorkers);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const pathOf = (name: string) => join(directory, name);
const linesOf = (...events: readonly unknown[]) =>
  events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event))).join('\n');

async function withStore(work: (store: TestStore) => Promise<void>): Promise<void> {
  const store = await freshStore();
  try {
    await work(store);
  } finally {
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
  withStore(async (store) => {
    await store.partition('acme').read(bet, low, faulty, aLogin({ event_id: 'twice', player_ref: 'p-1' }));
    const other = aLogin({ event_id: 'twice', player_ref: 'p-2' });
    const missingLine = `  ${JSON.stringify(missing).replace('{', '{ ')}  \r`;
    const content = linesOf(bet, low, faulty, other, missingLine, bet, 'no event', {
      ...aLogin({ event_id: 'not yet' }),
      occurred_at: 'yesterday',
    });
    const args = ['--resend', pathOf('again'), '--mend', pathOf('wrong')];
    const { code, output } = await run(store.url, content, args);
    expect(code).toBe(1);
    expect(readFileSync(pathOf('again'), 'utf8')).toBe(`${missingLine}\n`);
    const wrong = readFileSync(pathOf('wrong'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(wrong).toEqual([
      expect.objectContaining({
        ...{ line: 3, event_id: 'faulty', state: 'rejected', reason: 'bad_amount', needs_new_event_id: true },
        remedy: 'Send the exact amount as a decimal string, with a new event_id.',
        details: [expect.objectContaining({ field: '/amount', reason: 'bad_amount' })],
        event: faulty,
      }),
      expect.objectContaining({
        ...{ line: 4, event_id: 'twice', state: 'accepted', content_differs: true, needs_new_event_id: true },
        remedy: 'Give each event its own event_id.',
        event: other,
      }),
      expect.objectContaining({ line: 7, event_id: null, state: 'unidentified', text: 'no event' }),
      expect.objectContaining({
        ...{ line: 8, event_id: 'not yet', state: 'never_received', needs_new_event_id: false },
        details: [expect.objectContaining({ field: '/occurred_at' })],
      }),
    ]);
    expect(output).toContain('events.ndjson:2: low skipped/below_min_bet  /amount: the bet of 0.05 EUR');
    expect(output).toContain('events.ndjson:5: missing never received Send it again as it is.');
    expect(output).toMatch(
      /events\.ndjson: 7 events: 2 accepted, 1 rejected, 1 skipped, 2 never received, 1 unidentified, 1 with other content, 1 repeated in the file/,
    );
    expect(output).toMatch(/^bet +3 +1 +1 +1/m);
    expect(output).toMatch(/^2026-11-21T13Z +1 +0 +0 +0 +1/m);
    expect(output).toContain('bet EUR: sent 10.55, accepted 10.50');
    expect(output).toContain('to send again: 1; to correct: 4; to ask again later: 0');
  }));

test('ends with 0 where every event is accounted for, and changes nothing in the store', () =>
  withStore(async (store) => {
    await store.partition('acme').read(bet, low);
    const before = await store.contents();
    const { code, output } = await run(store.url, linesOf(bet, low), ['--resend', pathOf('nothing')]);
    expect([code, readFileSync(pathOf('nothing'), 'utf8')]).toEqual([0, '']);
    expect(output).toContain('to send again: 0; to correct: 0; to ask again later: 0');
    expect(await store.contents()).toEqual(before);
  }));

test('never shows one operator an event of another', () =>
  withStore(async (store) => {
    await store.partition('bravo').read(bet);
    await store.partition('acme.apart').read(bet);
    const { objects } = await run(store.url, linesOf(bet), ['--json']);
    expect(objects[0]).toMatchObject({ line: 1, event_id: 'counted', state: 'never_received' });
    expect(objects[1].totals.states).toMatchObject({ sent: 1, never_received: 1 });
  }));

test('an id alone is compared by its id, and an event in a document as on a line of its own', () =>
  withStore(async (store) => {
    await store.partition('acme').read(bet);
    const { code, objects } = await run(
      store.url,
      JSON.stringify([{ event_id: 'counted' }, missing], null, 2),
      [...['--json', '--resend', pathOf('one-line')]],
    );
    expect(objects.slice(0, 2)).toEqual([
      expect.objectContaining({ event_id: 'counted', state: 'accepted', action: 'none' }),
      expect.objectContaining({ event_id: 'missing', state: 'never_received', action: 'resend' }),
    ]);
    expect(code).toBe(1);
    expect(readFileSync(pathOf('one-line'), 'utf8').split('\n')).toHaveLength(2);
    expect(JSON.parse(readFileSync(pathOf('one-line'), 'utf8'))).toEqual(missing);
  }));

test('of two events with one id that never came, the first is sent again and the other is corrected', () =>
  withStore(async (store) => {
    const other = { ...missing, player_ref: 'p-other' };
    const args = ['--json', '--resend', pathOf('first'), '--mend', pathOf('second')];
    const { objects } = await run(store.url, linesOf(missing, missing, other), args);
    expect(readFileSync(pathOf('first'), 'utf8')).toBe(`${JSON.stringify(missing)}\n`);
    expect(objects.slice(1, 3)).toEqual([
      expect.objectContaining({ line: 2, first_line: 1, action: 'none' }),
      expect.objectContaining({ line: 3, first_line: 1, action: 'correct', content_differs: true }),
    ]);
  }));

test.each([
  [
    'an unknown connection',
    ['--connection', 'nobody'],
    /no connection nobody\. Its connections: acme-stream/,
  ],
  ['an output that is FILE', ['--resend', '{dir}/events.ndjson'], /--resend: names FILE itself/],
  ['two outputs in one file', ['--resend', '{dir}/x', '--mend', '{dir}/x'], /the same file as --resend/],
  ['an output in no directory', ['--mend', '{dir}/none/x'], /cannot be written \(ENOENT\)/],
  ['an output that is a directory', ['--mend', '{dir}'], /is no file/],
])('%s is wrong use, and no file is written', (_, args, expected) =>
  withStore(async (store) => {
    const before = readdirSync(directory).length;
    const given = args.map((arg) => arg.replace('{dir}', directory));
    const { code, output } = await run(store.url, linesOf(bet), given);
    expect(output).toMatch(expected);
    expect(code).toBe(2);
    expect(readdirSync(directory).length - before).toBeLessThanOrEqual(1);
    expect(existsSync(pathOf('x'))).toBe(false);
  }),
);
