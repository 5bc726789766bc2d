/** Reconciliation over HTTP, on a real Postgres. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { sleep } from '../../dev/servers/deadline';
import {
  MAX_RECONCILED,
  RECONCILE_REQUEST_SCHEMA,
  RECONCILIATION_SCHEMA,
} from '../../src/webhook/reconciling';
import { aBet, aLogin, freshStore, REFERENCE, type TestStore, withClient } from '../support/ledger';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers, RunningCommand } from '../support/worker';

afterEach(killWorkers);

const [acme, bravo] = REFERENCE.operators;
if (acme === undefined || bravo === undefined) throw new Error('there are two operators');
const reference = {
  operators: [
    acme,
    { ...bravo, connections: [...bravo.connections, { id: 'bravo-hook', transport: 'webhook' as const }] },
  ],
};
const secrets = { 'acme-hook': aSecret(), 'acme-stream': aSecret(), 'bravo-hook': aSecret() };
type Id = keyof typeof secrets;

interface Reconciled {
  readonly message?: string;
  readonly entries?: readonly { readonly state: string }[];
}

interface Scene {
  readonly store: TestStore;
  readonly port: number;
  /** Sends events. */
  readonly send: (id: Id, content: unknown) => Promise<number>;
  /** Asks for the standing of events. */
  readonly ask: (
    id: Id,
    content: unknown,
    options?: Parameters<ReturnType<typeof senderTo>>[1],
  ) => Promise<{ status: number; json: Reconciled }>;
}

async function withWebhook(work: (scene: Scene) => Promise<void>): Promise<void> {
  const store = await freshStore({ reference });
  try {
    const { command, port } = await startWebhook({ DATABASE_URL: store.url }, secrets);
    await work({
      store,
      port,
      send: async (id, content) => (await senderTo(port, id, secrets[id])(content)).status,
      async ask(id, content, options = {}) {
        const path = `/v1/reconcile/${id}`;
        const { status, text } = await senderTo(port, id, secrets[id])(content, { path, ...options });
        return { status, json: JSON.parse(text) };
      },
    });
    await command.stop();
  } finally {
    await store.close();
  }
}

const bet = aBet({ event_id: 'counted', round_id: 'r-1', occurred_at: '2026-11-21T12:00:00Z' });
const faulty = { ...aBet({ event_id: 'faulty', round_id: 'r-2' }), amount: '1,50' };

test('each event gets its standing, in the published form, and nothing is stored', () =>
  withWebhook(async ({ store, send, ask }) => {
    await send('acme-hook', { events: [bet, faulty] });
    const before = await store.contents();
    const request = {
      events: [bet, faulty, aLogin({ event_id: 'missing' }), { ...bet, player_ref: 'other' }],
    };
    const ajv = new Ajv2020({ strict: false });
    expect(ajv.validate(RECONCILE_REQUEST_SCHEMA, request)).toBe(true);
    const { status, json } = await ask('acme-hook', request);
    expect(status).toBe(200);
    expect([ajv.validate(RECONCILIATION_SCHEMA, json), ajv.errors]).toEqual([true, null]);
    expect(json).toMatchObject({
      spec: 'promo.reconciliation.v1',
      connection_id: 'acme-hook',
      entries: [
        { event_id: 'counted', state: 'accepted', action: 'none', remedy: null },
        { event_id: 'faulty', state: 'rejected', reason: 'bad_amount', needs_new_event_id: true },
        { event_id: 'missing', state: 'never_received', action: 'resend' },
        { event_id: 'counted', content_differs: true, action: 'correct', first_entry: 1 },
      ],
      totals: { entries: 4, repeated: 1, states: { sent: 3, accepted: 1, rejected: 1, never_received: 1 } },
    });
    expect(await store.contents()).toEqual(before);
  }));

test('an operator sees its own feed alone, and a connection of Kafka may ask, too', () =>
  withWebhook(async ({ send, ask }) => {
    await send('acme-hook', bet);
    const states = async (id: Id) => {
      const { json } = await ask(id, { event_ids: ['counted', 'unknown'] });
      return json.entries?.map(({ state }) => state);
    };
    expect(await states('acme-hook')).toEqual(['accepted', 'never_received']);
    expect(await states('acme-stream')).toEqual(['accepted', 'never_received']);
    expect(await states('bravo-hook')).toEqual(['never_received', 'never_received']);
    const forged = await ask('acme-hook', { event_ids: ['counted'] }, { secret: secrets['bravo-hook'] });
    expect([forged.status, forged.json.entries]).toEqual([401, undefined]);
  }));

test.each<[string, unknown, number, RegExp]>([
  ['too many ids', { event_ids: Array(MAX_RECONCILED + 1).fill('e') }, 413, /more than 10000 events/],
  ['ids that are no texts', { event_ids: [1] }, 400, /event_ids is not an array of ids/],
  ['events and ids', { events: [], event_ids: [] }, 400, /both events and event_ids/],
  ['no JSON', 'oops', 400, /the body/],
  ['a body that is too large', { event_ids: ['e'.repeat(1024 ** 2)] }, 413, /more than 1048576 bytes/],
])('%s: the request is refused with the reason', (_, content, expected, words) =>
  withWebhook(async ({ ask }) => {
    const { status, json } = await ask('acme-hook', content);
    expect([status, json.message]).toEqual([expected, expect.stringMatching(words)]);
  }),
);

test('a store that does not answer makes it a refusal to retry, and events are decided meanwhile', () =>
  withWebhook(async ({ store, send, ask }) => {
    await withClient(store.url, async (client) => {
      // Decisions read no reference data while its version is known. Each reconciliation does.
      await client.query('begin; lock table promo_store.feeds in access exclusive mode');
      const locked = ask('acme-hook', { event_ids: ['e'] });
      await sleep(500);
      await client.query('rollback');
      expect((await locked).status).toBe(200);
      await client.query('begin; lock table promo_store.event_keys in access exclusive mode');
      const { status, json } = await ask('acme-hook', { event_ids: ['e'] });
      expect([status, json.message]).toEqual([503, expect.stringMatching(/could not be looked up now/)]);
      await client.query('rollback');
    });
    expect(await send('acme-hook', bet)).toBe(200);
  }));

describe('reconcile --url', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'promo-reconcile-url-'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const pathOf = (name: string) => join(directory, name);
  const WEBHOOK_SECRETS = JSON.stringify(secrets);

  /** Runs the command over the file. @returns its exit code, its outputs and its files */
  async function run(file: string, args: readonly string[], environment: NodeJS.ProcessEnv) {
    const out = { again: pathOf('again'), wrong: pathOf('wrong') };
    const options = ['--connection', 'acme-stream', '--resend', out.again, '--mend', out.wrong, ...args];
    const command = new RunningCommand(['reconcile', pathOf(file), ...options], environment);
    const { code } = await command.ending();
    const text = (path: string) => readFileSync(path, 'utf8');
    const { stdout, stderr } = command.outputs();
    // The number of progress lines depends on the time.
    const notes = stderr.replace(/^.* read\n/gm, '');
    return { code, stdout, notes, again: text(out.again), wrong: text(out.wrong) };
  }

  const long = aLogin({ event_id: 'long '.repeat(250_000) });
  const many = aLogin({ event_id: 'many', note: Array.from({ length: 60_000 }, () => 1) });
  const lines = (twice: unknown): string => {
    const events = [
      ...[bet, faulty, aLogin({ event_id: 'missing' }), { ...bet, player_ref: 'other' }, bet, twice],
      ...[
        aLogin({ event_id: undefined }),
        aLogin({ event_id: 7 }),
        { ...aBet({ event_id: 'low' }), amount: '1,5' },
      ],
      ...[{ event_id: 'counted' }, { source: { topic: 'acme', partition: 0, offset: 1 } }, [bet], many],
      ...Array.from({ length: 3_500 }, (_, no) => aLogin({ event_id: `more ${no}` })),
    ];
    const texts = events.map((event) => JSON.stringify(event));
    return [
      '\uFEFF',
      [...texts, 'no event', '{"event_id":"cut', '{"spec":"\\ud83c"}'].join('\r\n'),
      '\n',
    ].join('');
  };
  const csv = [
    'event_id;kind;topic;partition;offset',
    'counted;bet;;;',
    'missing;login;;;',
    ';;acme;0;1',
    ';;;;',
  ].join('\n');

  test.each([
    ['events', 'events.ndjson', lines(aLogin({ event_id: 'missing', player_ref: 'p-2' }))],
    ['ids', 'ids.csv', csv],
    [
      'a document',
      'document.json',
      JSON.stringify({ events: [bet, aLogin({ event_id: 'missing' })] }, null, 2),
    ],
  ])('%s have the same outputs, files and exit code as with the database', (_, file, content) =>
    withWebhook(async ({ store, port, send }) => {
      await send('acme-hook', { events: [bet, faulty] });
      await store.partition('acme').read(bet, aLogin({ event_id: undefined }));
      writeFileSync(pathOf(file), content);
      for (const form of [[], ['--json']]) {
        const asked = await run(file, ['--url', `http://127.0.0.1:${port}`, ...form], { WEBHOOK_SECRETS });
        expect(asked).toEqual(await run(file, form, { DATABASE_URL: store.url }));
        expect(asked.code).toBe(1);
      }
    }),
  );

  test('an event that no request can hold is asked for by its id, and one with a longer id not at all', () =>
    withWebhook(async ({ store, port }) => {
      const large = aLogin({ event_id: 'large', note: 'x'.repeat(1_100_000) });
      await store.partition('acme').read(large);
      writeFileSync(pathOf('large.ndjson'), [large, long].map((event) => JSON.stringify(event)).join('\n'));
      const { stdout } = await run('large.ndjson', ['--url', `http://127.0.0.1:${port}`, '--json'], {
        WEBHOOK_SECRETS,
      });
      const [first, second] = stdout
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line));
      expect(first).toMatchObject({ event_id: 'large', state: 'accepted', action: 'none' });
      expect(second).toMatchObject({ state: 'undecided', action: 'wait' });
    }));

  test('it asks again after an answer to retry, and stops at a refusal without a file', async () => {
    const answers = [503, 429, 401];
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(answers.shift() ?? 500, {
          'content-type': 'application/json',
          'retry-after': '0',
        });
        response.end('{"message":"said so"}');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    writeFileSync(pathOf('one.ndjson'), JSON.stringify(bet));
    const out = pathOf('none');
    const command = new RunningCommand(
      [
        'reconcile',
        pathOf('one.ndjson'),
        '--connection',
        'acme-stream',
        '--resend',
        out,
        '--url',
        `http://127.0.0.1:${port}`,
      ],
      { WEBHOOK_SECRETS },
    );
    expect(await command.ending()).toEqual({ code: 1, signal: null });
    server.close();
    expect(command.output()).toMatch(/asking again in [\d.]+ s: it answered 503: said so/);
    expect(command.output()).toMatch(/asking again in [\d.]+ s: it answered 429: said so/);
    expect(command.output()).toContain('cannot be looked up: it answered 401: said so');
    expect(command.output()).toContain('stopped, and no file was written');
    expect(() => readFileSync(out)).toThrow('ENOENT');
  });

  test('a connection without a secret, and an address that is none, are wrong use', async () => {
    writeFileSync(pathOf('one.ndjson'), JSON.stringify(bet));
    for (const [args, expected] of [
      [['--connection', 'nobody', '--url', 'http://127.0.0.1:1'], /no secret of nobody/],
      [['--connection', 'acme-hook', '--url', 'ftp://x'], /--url: is not an address/],
    ] as const) {
      const command = new RunningCommand(['reconcile', pathOf('one.ndjson'), ...args], { WEBHOOK_SECRETS });
      expect((await command.ending()).code).toBe(2);
      expect(command.output()).toMatch(expected);
    }
  });
});
