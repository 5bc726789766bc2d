/** The running webhook against its OpenAPI document. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { objectOf } from '../../dev/compatibility/json-schema';
import { findFuzzer, fuzz } from '../../dev/fuzzer';
import { projectRoot } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';
import { HOOK, LOCK_KEYS, operators, secret, topics, withWebhook } from '../stream/scene';
import { inWorld } from '../stream/world';
import { aLogin, anOperator } from '../support/builders';
import { withClient } from '../support/ledger';
import { testWhere } from '../support/needed';
import { dial, signedText } from '../support/raw-http';
import { aSecret, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

const DOCUMENT = 'schemas/webhook.openapi.json';
const FUZZ_DEADLINE_MS = 900_000;
/**
 * An invalid event has a verdict, and is no reason to refuse its request. The schema of events has no words
 * for U+0000, which no store keeps.
 */
const NOT_PROMISED = [
  ...['--exclude-checks', 'negative_data_rejection,positive_data_acceptance'],
  ...['--generation-allow-x00', 'false'],
];

/** The suspended operator's connection, and one that is in no reference data. */
const [SUSPENDED, STRANGER] = ['borealis-hook', 'stranger'];

afterEach(killWorkers);

testWhere(findFuzzer())(
  'random requests get the answers that the document has, and valid events no verdict on their form',
  (python) =>
    withWebhook({}, async ({ world, webhook }) => {
      const baseUrl = `http://127.0.0.1:${webhook.port}`;
      const { findings, output } = await fuzz(python, {
        document: join(projectRoot, DOCUMENT),
        baseUrl,
        hooks: join(__dirname, 'fuzzer', 'hooks.py'),
        environment: { CONNECTION: HOOK, SECRET: secret },
        options: NOT_PROMISED,
      });
      expect(findings.length === 0 ? '' : output).toBe('');
      await world.expectSound();
    }),
  FUZZ_DEADLINE_MS,
);

const document: unknown = JSON.parse(readFileSync(join(projectRoot, DOCUMENT), 'utf8'));

test('the document is served as it is published, to everyone, with its tag and for a time', () =>
  withWebhook({}, async ({ webhook }) => {
    const get = (init: RequestInit = {}) => fetch(`http://127.0.0.1:${webhook.port}/v1/openapi.json`, init);
    const served = await get();
    expect(await served.json()).toEqual(document);
    expect([served.status, served.headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(served.headers.get('cache-control')).toBe('public, max-age=3600');
    const etag = served.headers.get('etag') ?? '';
    const again = await get({ headers: { 'if-none-match': `"other", W/${etag}` } });
    expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, etag, '']);
    const head = await get({ method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
      ...[200, served.headers.get('content-length'), ''],
    ]);
    const posted = await get({ method: 'POST', body: '{}' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  }));

test('its limits are those of the settings', () =>
  withWebhook({ WEBHOOK_MAX_EVENTS: '7' }, async ({ webhook }) => {
    const served = await fetch(`http://127.0.0.1:${webhook.port}/v1/openapi.json`);
    expect(await served.json()).toMatchObject({
      components: { schemas: { Batch: { properties: { events: { maxItems: 7 } } } } },
    });
  }));

test('each example of a request fits its schema', () => {
  const operation = at(document, 'paths', '/v1/events/{connection_id}', 'post');
  const { schema, examples } = objectOf(at(operation, 'requestBody', 'content', 'application/json'));
  const validate = new Ajv2020({ strict: false, validateFormats: false }).compile({
    ...objectOf(schema),
    components: at(document, 'components'),
  });
  for (const example of Object.values(objectOf(examples)))
    expect([validate(at(example, 'value')), validate.errors]).toEqual([true, null]);
});

/** The bytes that are sent to get an example. A body of events is signed for the connection. */
type Provocation = string | { readonly body: string; readonly of?: string; readonly to?: string };

const post = (lines: readonly string[], path = `/v1/events/${HOOK}`) =>
  `POST ${path} HTTP/1.1\r\nhost: here\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`;
const JSON_TYPE = 'content-type: application/json';
const headers = (timestamp: number, signature = 'v1,x') => [
  ...['webhook-id: msg_1', `webhook-timestamp: ${timestamp}`, `webhook-signature: ${signature}`],
];
const now = () => Math.floor(Date.now() / 1000);
const chunks = (count: number) => `${'1\r\n \r\n'.repeat(count)}0\r\n\r\n`;

/** By the names of the examples. */
const PROVOCATIONS: Readonly<Record<string, () => Provocation>> = {
  noSuchPath: () => post([JSON_TYPE], '/v1/event'),
  noSuchMethod: () => `GET /v1/events/${HOOK} HTTP/1.1\r\nhost: here\r\n\r\n`,
  readOnly: () => post([], '/v1/openapi.json'),
  wrongDryRun: () => post([JSON_TYPE], `/v1/events/${HOOK}?dryrun=1`),
  noJson: () => post(['content-type: text/plain']),
  unauthorized: () => post([JSON_TYPE, ...headers(now())], '/v1/events/nobody'),
  unsigned: () => post([JSON_TYPE]),
  stale: () => post([JSON_TYPE, ...headers(now() - 400)]),
  wronglySigned: () => post([JSON_TYPE, ...headers(now()), 'content-length: 0']),
  noConnection: () => ({ body: JSON.stringify(aLogin()), of: STRANGER }),
  noSuchConnection: () => ({ body: '{"event_ids":[]}', of: STRANGER, to: 'reconcile' }),
  tooManyReconciled: () => ({
    body: JSON.stringify({ event_ids: Array(10_001).fill('e') }),
    to: 'reconcile',
  }),
  suspended: () => ({ body: JSON.stringify(aLogin()), of: SUSPENDED }),
  tooLarge: () => post([JSON_TYPE, ...headers(now()), 'content-length: 1048577']),
  tooMany: () => ({ body: JSON.stringify({ events: Array.from({ length: 501 }, () => 1) }) }),
  tooManyValues: () => ({ body: JSON.stringify({ events: [Array.from({ length: 20_001 }, () => 1)] }) }),
  tooManyPieces: () => post([JSON_TYPE, ...headers(now()), 'transfer-encoding: chunked']) + chunks(4_097),
  tooManyHeaders: () => post(Array.from({ length: 201 }, (_, index) => `h${index}: 1`)),
  noHost: () => 'GET / HTTP/1.1\r\n\r\n',
  noExpectation: () => post(['expect: a-miracle']),
  malformed: () => ({ body: '' }),
  malformed2: () => ({ body: '{"events":1}' }),
  'late 408': () => post([JSON_TYPE, ...headers(now()), 'content-length: 9']),
  largeHead: () => post([`x-long: ${'x'.repeat(17_000)}`]),
  tls: () => '\x16\x03\x01\x02\x00\x01\x00',
  http2: () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  notHttp: () => 'SEND /v1/events/acme-hook HTTP/1.1\r\n\r\n',
};

/** Examples of a webhook under load. Their answers have no details; unit/webhook/handler.test.ts has each. */
const OF_LOAD = ['tooSlow', 'beyondShare', 'crowded', 'unanswered', 'late 503'];
/** A connection that sent too many events that are rejected: webhook/reject-limit.test.ts has its answer. */
const OF_REJECTIONS = ['paused'];

test('each example of an error is an answer of the running service', () =>
  inWorld({ topics, operators: withSuspended }, async (world) => {
    const secrets: Record<string, string> = { [HOOK]: secret, [SUSPENDED]: aSecret(), [STRANGER]: aSecret() };
    const settings = { DATABASE_URL: world.writerUrl, WEBHOOK_SLOTS: '1' };
    const { port } = await startWebhook(settings, secrets);
    const signerOf = (connectionId: string) => ({ connectionId, secret: secrets[connectionId] ?? '' });
    const ask = async (given: Provocation): Promise<unknown> => {
      const line = dial(port);
      const more = ['connection: close'];
      line.socket.write(
        typeof given === 'string'
          ? given
          : signedText({ ...signerOf(given.of ?? HOOK), body: given.body, more }).replace(
              '/v1/events/',
              `/v1/${given.to ?? 'events'}/`,
            ),
        'latin1',
      );
      const text = await line.closed();
      const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? [];
      // A second may pass in between.
      const answer = text.replace('it is 401 s behind', 'it is 400 s behind');
      return { status, value: JSON.parse(/\{.*\}/s.exec(answer)?.[0] ?? 'null') };
    };
    const answers = Object.entries(PROVOCATIONS).map(
      async ([name, make]): Promise<[string, unknown]> => [name, await ask(make())],
    );
    const quiet = Object.fromEntries(await Promise.all(answers));
    const login = (id: string) => ({ body: JSON.stringify(aLogin({ event_id: id })) });
    const busy = await withClient(world.databaseUrl, async (client) => {
      await client.query(LOCK_KEYS);
      const held = Array.from({ length: 6 }, (_, index) => ask(login(`held-${index}`)));
      const given = await Promise.all(held);
      await client.query('rollback');
      return given;
    });
    const expected = examplesOf(document);
    const seen: Record<string, unknown> = { ...quiet };
    for (const name of ['busy', 'undecided'])
      seen[name] = busy.find((answer) => JSON.stringify(answer) === JSON.stringify(expected[name])) ?? busy;
    expect({ ...seen, ...pick(expected, [...OF_LOAD, ...OF_REJECTIONS]) }).toEqual(expected);
  }));

const withSuspended = (of: Readonly<Record<string, string>>) => [
  ...operators(of),
  anOperator({
    id: 'borealis',
    active: false,
    brands: [],
    connections: [{ id: SUSPENDED, transport: 'webhook' as const }],
  }),
];

/** The examples of errors by name. One name is used by two statuses. */
function examplesOf(from: unknown): Record<string, unknown> {
  const paths = Object.values(objectOf(at(from, 'paths'))).flatMap((item) => Object.values(objectOf(item)));
  const found = paths.flatMap((operation) =>
    Object.entries(objectOf(at(operation, 'responses'))).flatMap(([status, response]) =>
      Object.entries(objectOf(at(response, 'content', 'application/json', 'examples'))).map(
        ([name, example]): [string, unknown] => [
          name === 'late' ? `late ${status}` : name,
          { status, value: at(example, 'value') },
        ],
      ),
    ),
  );
  return Object.fromEntries(found);
}

function pick(from: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, from[name]]));
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((within, key) => (isObject(within) ? within[key] : undefined), value);
}
