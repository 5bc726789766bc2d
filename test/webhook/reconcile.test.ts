/** Reconciliation over HTTP, on a real Postgres. */
import Ajv2020 from 'ajv/dist/2020';
import { sleep } from '../../dev/servers/deadline';
import {
  MAX_RECONCILED,
  RECONCILE_REQUEST_SCHEMA,
  RECONCILIATION_SCHEMA,
} from '../../src/webhook/reconciling';
import { aBet, aLogin, freshStore, REFERENCE, type TestStore, withClient } from '../support/ledger';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

jest.setTimeout(120_000);
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
      ...{ store, port },
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
