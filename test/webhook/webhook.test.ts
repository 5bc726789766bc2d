/** The webhook as its users run it, over a real Postgres, beside workers on a real Kafka. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import type { Client } from 'pg';
import { until } from '../../dev/servers/deadline';
import { isObject } from '../../src/lib/json';
import { ANSWER_SCHEMA } from '../../src/webhook/responses';
import { HOOK, LOCK_KEYS, operators, type Sending, secret, topics, withWebhook } from '../stream/scene';
import { inOwnWorld, inWorld } from '../stream/world';
import { aLogin, anOperator, bytesOf } from '../support/builders';
import { produce, readTopic } from '../support/kafka';
import { aBet, aRefund, aSettled, aWin, withClient } from '../support/ledger';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers, RunningCommand } from '../support/worker';

const LONG = 60_000;
afterEach(killWorkers);

const ofLater = aSecret();
function untilOneWaits(client: Client): Promise<void> {
  return until('a transaction waits for the lock', LONG, async () => {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return rowCount === 1;
  });
}

test('its events are decided, stored and answered like those that workers read [S1] [W5] [D1]', () =>
  withWebhook({}, async ({ world, send }) => {
    expect((await send(aBet({ event_id: 'alone' }))).verdicts).toEqual(['accepted']);
    const batch = {
      events: [
        aBet({ event_id: 'bet', round_id: 'r' }),
        { ...aBet({ event_id: 'number' }), amount: 5 },
        'no event',
        aSettled({ event_id: 'zero', round_id: 'z', amount: '0' }),
        aRefund({ event_id: 'refund', round_id: 'r' }),
        aSettled({ event_id: 'late', round_id: 'r' }),
        aBet({ event_id: 'bet', round_id: 'other' }),
      ],
    };
    const answer = await send(batch);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(answer.verdicts).toEqual([
      ...[
        'accepted',
        'rejected/bad_amount',
        'rejected/no_idempotency_key',
        'skipped/zero_amount',
        'accepted',
      ],
      ...['skipped/round_refunded', 'duplicate of accepted, differs'],
    ]);
    const matches = new Ajv2020({ strict: false }).compile(ANSWER_SCHEMA);
    expect([matches(JSON.parse(answer.text)), matches.errors]).toEqual([true, null]);
    expect((await send(batch)).verdicts).toEqual([
      ...['duplicate of accepted', 'duplicate of rejected/bad_amount', 'rejected/no_idempotency_key'],
      ...['duplicate of skipped/zero_amount', 'duplicate of accepted', 'duplicate of skipped/round_refunded'],
      'duplicate of accepted, differs',
    ]);
    expect((await send({ events: [] })).verdicts).toEqual([]);

    expect(await world.verdicts()).toEqual({
      alone: 'accepted',
      bet: 'accepted',
      number: 'rejected/bad_amount',
      zero: 'skipped/zero_amount',
      refund: 'accepted',
      late: 'skipped/round_refunded',
    });
    expect(await world.rows('select distinct connection_id, source_topic from promo.verdicts')).toEqual([
      [HOOK, null],
    ]);
    expect(await world.rows(`select sum(amount_minor) from promo.ledger where round_id = 'r'`)).toEqual([
      ['0'],
    ]);
    expect(await world.rows('select count(*) from promo.deliveries')).toEqual([['7']]);
  }));

test('an event from one transport is a duplicate by the other, and a refund reverses events of both [R9]', () =>
  withWebhook({}, async ({ world, webhook, send }) => {
    const twice = aLogin({ event_id: 'twice' });
    const again = aLogin({ event_id: 'again' });
    await produce(world.topics.main, [
      { value: bytesOf(aBet({ event_id: 'bet', round_id: 'r-1' })) },
      { value: bytesOf(twice) },
    ]);
    await world.drain();
    expect(
      (
        await send({
          events: [twice, again, aRefund({ event_id: 'refund', round_id: 'r-1' }), aWin({ round_id: 'r-2' })],
        })
      ).verdicts,
    ).toEqual(['duplicate of accepted', 'accepted', 'accepted', 'accepted']);
    await produce(world.topics.main, [
      { value: bytesOf(again) },
      { value: bytesOf(aRefund({ event_id: 'refund-2', round_id: 'r-2' })) },
    ]);
    await world.drain();
    expect(
      await world.rows(
        'select round_id, sum(amount_minor), count(*) from promo.ledger where round_id is not null group by 1 order by 1',
      ),
    ).toEqual([
      ['r-1', '0', '2'],
      ['r-2', '0', '2'],
    ]);
    expect(
      await world.rows(
        'select event_id, connection_id, source_topic is null from promo.deliveries order by 1',
      ),
    ).toEqual([
      ['again', `of-${world.topics.main}`, 'f'],
      ['twice', HOOK, 't'],
    ]);
    const resent = 'promo_intake_duplicates_total{first="kafka",transport="webhook",content="same"}';
    expect(await webhook.command.metric(resent)).toBe(1);
  }));

test('a wrong connection, a wrong time or an invalid request is refused before any event is decided [W1] [W2] [W4] [W6]', () =>
  withWebhook({ WEBHOOK_MAX_EVENTS: '3', WEBHOOK_MAX_BYTES: '2000' }, async ({ world, webhook, send }) => {
    const event = aLogin();
    const minute = 60_000;
    const ago = (minutes: number) => ({ at: new Date(Date.now() - minutes * minute) });
    const header = (name: string, value: string | undefined) => ({ headers: { [name]: value } });
    const refusals: readonly [Parameters<Sending>, number, string][] = [
      [[event, { path: '/v1/events' }], 404, 'invalid request'],
      [[event, { path: '/v1/events/%ff' }], 404, 'invalid request'],
      [[event, { method: 'GET' }], 405, 'invalid request'],
      [[event, header('content-type', 'text/plain')], 415, 'invalid request'],
      [[event, header('content-encoding', 'gzip')], 415, 'invalid request'],
      [[event, header('webhook-id', undefined)], 401, 'signature_missing'],
      [[event, header('webhook-timestamp', undefined)], 401, 'signature_missing'],
      [[event, header('webhook-signature', undefined)], 401, 'signature_missing'],
      [[event, ago(6)], 401, 'signature_stale'],
      [[event, ago(-6)], 401, 'signature_stale'],
      [[event, header('webhook-timestamp', 'yesterday')], 401, 'signature_stale'],
      [[event, { path: '/v1/events/other' }], 401, 'unauthorized'],
      [[event, { secret: aSecret() }], 401, 'signature_invalid'],
      [[event, header('webhook-id', 'another')], 401, 'signature_invalid'],
      [['{"half":'], 400, 'invalid json body'],
      [['[]'], 400, 'invalid request'],
      [['{"events":5}'], 400, 'invalid request'],
      [[{ events: [event, event, event, event] }], 413, 'invalid request'],
      [[{ ...event, note: 'x'.repeat(2_000) }], 413, 'invalid request'],
    ];
    for (const [request, status, begin] of refusals) {
      const answer = await send(...request);
      expect([request, answer.status, JSON.parse(answer.text)]).toEqual([
        ...[request, status],
        { code: 'ERROR_CODE_INVALID_REQUEST', message: expect.stringMatching(`^${begin}: `) },
      ]);
    }
    expect((await send(event, { method: 'PUT' })).headers.get('allow')).toBe('POST');
    expect(await world.verdicts()).toEqual({});
    expect(await webhook.command.metric('promo_intake_webhook_requests_total{status="401"}')).toBe(9);
    // Four minutes are within the window, and the largest allowed request is accepted.
    expect((await send(event, ago(4))).verdicts).toEqual(['accepted']);
    const room = 2_000 - JSON.stringify({ ...event, note: '' }).length;
    expect((await send({ ...event, note: 'x'.repeat(room) })).verdicts).toEqual(['duplicate of accepted']);
    expect((await send({ events: [event, event, event] })).status).toBe(200);
    expect((await send(event, header('content-type', 'application/json; charset=utf-8'))).status).toBe(200);
  }));

test('by default a request has 500 events and 1 MiB at most [W1]', () =>
  withWebhook({}, async ({ world, send }) => {
    const event = aLogin();
    const asLargeAs = (bytes: number) => ({
      ...event,
      note: 'x'.repeat(bytes - JSON.stringify({ ...event, note: '' }).length),
    });
    const batchOf = (events: number) => ({ events: Array.from({ length: events }, () => event) });
    expect((await send(batchOf(501))).status).toBe(413);
    expect((await send(asLargeAs(1024 ** 2 + 1))).status).toBe(413);
    expect(await world.verdicts()).toEqual({});
    expect((await send(batchOf(500))).verdicts).toHaveLength(500);
    expect((await send(asLargeAs(1024 ** 2))).verdicts).toEqual(['duplicate of accepted']);
  }));

test('a body without Content-Length is refused once it is too long', () =>
  withWebhook({ WEBHOOK_MAX_BYTES: '2000' }, async ({ webhook }) => {
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(Buffer.alloc(1_500, ' '));
        sent += 1_500;
        if (sent > 6_000) controller.close();
      },
    });
    let sent = 0;
    const response = await fetch(`http://127.0.0.1:${webhook.port}/v1/events/${HOOK}`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: {
        'content-type': 'application/json',
        'webhook-id': '1',
        'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
        'webhook-signature': 'v1,x',
      },
    });
    expect([response.status, await response.json()]).toEqual([
      413,
      expect.objectContaining({ message: expect.stringContaining('more than 2000 bytes') }),
    ]);
  }));

test('a request without a free slot within half a second is answered 503, and one with a slot is decided [W3]', () =>
  withWebhook({ WEBHOOK_SLOTS: '1' }, async ({ world, webhook, send }) => {
    await withClient(world.databaseUrl, async (client) => {
      await client.query(LOCK_KEYS);
      const first = send(aLogin({ event_id: 'first' }));
      await untilOneWaits(client);
      const began = performance.now();
      const second = await send(aLogin({ event_id: 'second' }));
      const waited = performance.now() - began;
      expect([second.status, second.headers.get('retry-after'), JSON.parse(second.text)]).toEqual([
        ...[503, '1'],
        { code: 'ERROR_CODE_MAINTENANCE', message: expect.stringMatching(/^overloaded: /), retryable: true },
      ]);
      expect(waited).toBeGreaterThan(490);
      // Without a limit of its own it would wait until the first one gives up, after 20 s.
      expect(waited).toBeLessThan(10_000);
      await client.query('commit');
      expect((await first).verdicts).toEqual(['accepted']);
    });
    expect((await send(aLogin({ event_id: 'second' }))).verdicts).toEqual(['accepted']);
    expect(await webhook.command.metric('promo_intake_webhook_requests_total{status="503"}')).toBe(1);
  }));

test('while Postgres is away requests are undecided, and they are decided when sent again [W5] [U1]', () =>
  inOwnWorld({ need: ['postgres'] }, { topics, operators }, async (world, { postgres }) => {
    const { command, port } = await startWebhook({ DATABASE_URL: world.writerUrl }, { [HOOK]: secret });
    const send = senderTo(port, HOOK, secret);
    expect((await send(aLogin({ event_id: 'before' }))).status).toBe(200);
    await postgres.stop();
    const meanwhile = aLogin({ event_id: 'meanwhile' });
    const answer = await send(meanwhile);
    expect([answer.status, answer.headers.get('retry-after'), JSON.parse(answer.text)]).toEqual([
      ...[503, '1'],
      { code: 'ERROR_CODE_MAINTENANCE', message: expect.stringMatching(/^undecided: /), retryable: true },
    ]);
    expect((await command.get('/livez')).status).toBe(200);
    expect(await command.metric('promo_intake_retries_total{class="undecided"}')).toBe(1);
    expect(command.logged('request undecided')).toMatchObject([
      {
        connectionId: HOOK,
        cause: 'store',
        address: '127.0.0.1',
        requestId: answer.headers.get('x-request-id'),
      },
    ]);
    const refusals = `promo_intake_webhook_refusals_total{status="503",token="undecided",connection="${HOOK}"}`;
    expect(await command.metric(refusals)).toBe(1);
    await postgres.start();
    await until('it is decided', LONG, async () => (await send(meanwhile)).status === 200);
    expect(await world.verdicts()).toEqual({ before: 'accepted', meanwhile: 'accepted' });
  }));

test('the answer to a refused request names its fault [W2] [W4]', () =>
  withWebhook({}, async ({ send }) => {
    const message = async (...request: Parameters<Sending>): Promise<unknown> => {
      const answer: unknown = JSON.parse((await send(...request)).text);
      return isObject(answer) ? answer.message : undefined;
    };
    const seconds = (ago: number) => ({ at: new Date(Date.now() - ago * 1000) });
    const event = aLogin();
    expect(await message(event, { headers: { 'content-type': 'text/plain' } })).toMatch(
      /^invalid request: .*; Content-Type is "text\/plain"$/,
    );
    expect(await message(event, { headers: { 'webhook-id': undefined } })).toMatch(
      /^signature_missing: .*; missing: webhook-id$/,
    );
    expect(await message(event, seconds(3_600))).toMatch(
      /^signature_stale: .*; it is 60(\.\d)? min behind the time here$/,
    );
    expect(await message(event, { headers: { 'webhook-signature': `v1,${'0a'.repeat(32)}` } })).toMatch(
      /^signature_invalid: .*; the signature is in hexadecimal digits/,
    );
    const asText = `whsec_${Buffer.from(secret).toString('base64')}`;
    expect(await message(event, { secret: asText })).toMatch(
      /^signature_invalid: .*; the secret was used as a text/,
    );
    expect(await message('{"half":')).toBe(
      'invalid json body: the body ends too early, at byte 8: it was cut off',
    );
  }));

test('a connection is accepted exactly as long as it is in the reference data [C6] [C9] [W6]', () =>
  withWebhook(
    { WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret, later: ofLater }) },
    async ({ world, webhook, send }) => {
      const later = senderTo(webhook.port, 'later', ofLater);
      const forbidden = {
        code: 'ERROR_CODE_BUSINESS_REJECTED',
        message: expect.stringMatching(/^forbidden: /),
      };
      const refused = async (answer: ReturnType<Sending>) => {
        const { status, text } = await answer;
        expect([status, JSON.parse(text)]).toEqual([403, forbidden]);
      };
      expect((await send(aLogin())).verdicts).toEqual(['accepted']);
      await refused(later(aLogin()));
      await refused(later({ events: [] }));
      await world.apply([
        anOperator({
          connections: [
            { id: HOOK, transport: 'kafka', topic: 'some' },
            { id: 'later', transport: 'webhook' },
          ],
        }),
      ]);
      expect((await later(aLogin())).verdicts).toEqual(['accepted']);
      await refused(send(aLogin()));
    },
  ));

test('a request of a suspended operator is answered 403 and uses up no event_id; once the operator is active, the same events count [C9] [W6]', () =>
  withWebhook({}, async ({ world, send }) => {
    const [before, while_] = [aLogin({ event_id: 'before' }), aLogin({ event_id: 'while' })];
    const suspended = (active: boolean) =>
      world.apply([anOperator({ active, connections: [{ id: HOOK, transport: 'webhook' }] })]);
    expect((await send(before)).verdicts).toEqual(['accepted']);
    await suspended(false);
    const bodies = [
      while_,
      { events: [before, while_, { spec: 'wrong', event_id: 'wrong' }] },
      { events: [] },
    ];
    for (const body of bodies) {
      const { status, text } = await send(body);
      expect([status, JSON.parse(text)]).toEqual([
        403,
        { code: 'ERROR_CODE_BUSINESS_REJECTED', message: expect.stringMatching(/^operator_suspended: /) },
      ]);
    }
    expect(await world.verdicts()).toEqual({ before: 'accepted' });
    expect(await world.rows('select count(*) from promo.deliveries')).toEqual([['0']]);
    await suspended(true);
    expect((await send({ events: [] })).status).toBe(200);
    expect((await send({ events: [before, while_] })).verdicts).toEqual([
      'duplicate of accepted',
      'accepted',
    ]);
  }));

test('the answer to a duplicate of a rejected event has the reason, and asks for a new event_id [S7] [W5] [V8]', () =>
  withWebhook({}, async ({ world, send }) => {
    const bad = { ...aBet({ event_id: 'bad' }), amount: '1,50' };
    const good = aBet({ event_id: 'bad' });
    const told = async (event: object): Promise<unknown> => {
      const answer: unknown = JSON.parse((await send(event)).text);
      return isObject(answer) && Array.isArray(answer.verdicts) ? answer.verdicts[0] : undefined;
    };
    const first = await told(bad);
    expect(first).toMatchObject({ verdict: 'rejected', needs_new_event_id: true });
    const details = isObject(first) ? first.details : undefined;
    const duplicate = {
      event_id: 'bad',
      verdict: 'duplicate',
      reason: null,
      needs_new_event_id: true,
      first_verdict: 'rejected',
      first_reason: 'bad_amount',
    };
    expect(await told(bad)).toEqual({
      ...duplicate,
      content_differs: false,
      details,
      remedy:
        'It was rejected under this id. Send the exact amount as a decimal string, with a new event_id.',
    });
    expect(await told(good)).toEqual({
      ...duplicate,
      content_differs: true,
      remedy: 'It was rejected under this id: send it under a new id.',
    });
    expect(await told({ ...good, currency: 5 })).toMatchObject({
      details: [{ field: '/currency', reason: 'malformed' }],
    });
    expect(await world.verdicts()).toEqual({ bad: 'rejected/bad_amount' });
  }));

test('a changed secrets file is used, and an invalid one changes nothing [W4]', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'webhook-'));
  const file = join(directory, 'secrets.json');
  const next = aSecret();
  const NOT_VALID = 'changed secrets are not valid, keeping the old ones';
  writeFileSync(file, JSON.stringify({ [HOOK]: secret }));
  try {
    await withWebhook(
      { WEBHOOK_SECRETS: undefined, WEBHOOK_SECRETS_FILE: file },
      async ({ webhook, send }) => {
        expect((await send(aLogin())).status).toBe(200);
        const counts = (each: string, status: number) =>
          until('a changed file counts', LONG, async () => {
            const answer = await send(aLogin(), { secret: each });
            return answer.status === status;
          });
        writeFileSync(file, JSON.stringify({ [HOOK]: [secret, next] }));
        await counts(next, 200);
        expect((await send(aLogin())).status).toBe(200);
        writeFileSync(file, '{');
        await until('the invalid file is noticed', LONG, async () => {
          expect((await send(aLogin(), { secret: next })).status).toBe(200);
          return webhook.command.logged(NOT_VALID).length > 0;
        });
        expect((await send(aLogin(), { secret: next })).status).toBe(200);
        writeFileSync(file, JSON.stringify({ [HOOK]: next }));
        await counts(secret, 401);
        expect((await send(aLogin(), { secret: next })).status).toBe(200);
        expect(webhook.command.logged('secrets reloaded').map(({ connections }) => connections)).toEqual([
          [HOOK],
          [HOOK],
        ]);
        expect(webhook.command.logged(NOT_VALID)).toHaveLength(1);
        expect(webhook.command.output()).not.toContain(next.slice('whsec_'.length));
      },
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('verdicts are published where a verdict topic is set, with the anomalies of their answers [S7] [A4]', () =>
  inWorld({ topics: { verdicts: 1 }, operators: () => operators({}) }, async (world) => {
    const { port } = await startWebhook(
      {
        DATABASE_URL: world.writerUrl,
        KAFKA_BROKERS: world.settings.KAFKA_BROKERS,
        VERDICT_TOPIC: world.topics.verdicts,
      },
      { [HOOK]: secret },
    );
    const send = senderTo(port, HOOK, secret);
    const long = 'e'.repeat(100);
    const bet = aBet({ event_id: 'bet', round_id: 'r' });
    const answer = await send({
      events: [
        aLogin({ event_id: 'a' }),
        aLogin({ event_id: 'b' }),
        aLogin({ event_id: long }),
        5,
        aLogin({ event_id: 'a' }),
        bet,
        aWin({ event_id: 'win', round_id: 'r', player_ref: 'p-9' }),
      ],
    });
    const accepted = { verdict: 'accepted', reason: null, remedy: null };
    const win = { ...accepted, event_id: 'win', anomalies: ['player_mismatch'] };
    expect(JSON.parse(answer.text)).toMatchObject({
      verdicts: [
        ...Array.from({ length: 5 }, () => expect.anything()),
        { ...accepted, event_id: 'bet' },
        win,
      ],
    });
    const messages = await readTopic(world.topics.verdicts);
    const about = {
      spec: 'promo.verdict.v1',
      operator_id: 'acme',
      feed_id: 'acme',
      connection_id: HOOK,
      decided_at: expect.any(String),
      source: null,
    };
    const login = { kind: 'login', brand: 'main', amount: null, currency: null, round_id: null };
    const money = { kind: 'bet', brand: 'main', amount: '10.50', currency: 'EUR', round_id: 'r' };
    expect(messages.map(({ value }) => JSON.parse(String(value)))).toEqual([
      { ...about, ...login, event_id: 'a', verdict: 'accepted', reason: null, remedy: null },
      { ...about, ...login, event_id: 'b', verdict: 'accepted', reason: null, remedy: null },
      { ...about, ...login, event_id: long, verdict: 'accepted', reason: null, remedy: null },
      expect.objectContaining({
        ...about,
        event_id: null,
        verdict: 'rejected',
        reason: 'no_idempotency_key',
      }),
      expect.objectContaining({ ...about, event_id: 'a', verdict: 'duplicate', first_verdict: 'accepted' }),
      { ...about, ...money, ...accepted, event_id: 'bet' },
      { ...about, ...money, ...win, kind: 'win' },
    ]);
  }));

describe('the process', () => {
  test('answers requests in flight after a signal to stop, and ends with 0 [W5]', () =>
    withWebhook({}, async ({ world, webhook, send }) => {
      await withClient(world.databaseUrl, async (client) => {
        await client.query(LOCK_KEYS);
        const under = send(aLogin({ event_id: 'under-way' }));
        await untilOneWaits(client);
        expect((await webhook.command.get('/readyz')).status).toBe(200);
        webhook.command.signal('SIGTERM');
        await webhook.command.waitForLog('stopping');
        expect((await webhook.command.get('/readyz')).status).toBe(503);
        await expect(send(aLogin())).rejects.toThrow('fetch failed');
        await client.query('commit');
        expect((await under).verdicts).toEqual(['accepted']);
      });
      expect(await webhook.command.ending()).toEqual({ code: 0, signal: null });
      expect(await world.verdicts()).toEqual({ 'under-way': 'accepted' });
    }));

  test('serves on until load balancers know that it stops, and then ends the connections', () =>
    withWebhook({ WEBHOOK_DRAIN_SECONDS: '2' }, async ({ webhook, send }) => {
      expect((await send(aLogin())).headers.get('connection')).toBe('keep-alive');
      webhook.command.signal('SIGTERM');
      await webhook.command.waitForLog('stopping');
      expect((await webhook.command.get('/readyz')).status).toBe(503);
      const answer = await send(aLogin());
      expect([answer.verdicts, answer.headers.get('connection')]).toEqual([['accepted'], 'close']);
      expect(await webhook.command.ending()).toEqual({ code: 0, signal: null });
    }));

  test('serves its own metrics, and none of a worker', () =>
    withWebhook({}, async ({ webhook, send }) => {
      await send({ events: [aLogin(), aLogin()] });
      const { text } = await webhook.command.get('/metrics');
      const names = new Set(
        [...text.matchAll(/^promo_intake_\w+?(?=_bucket|_sum|_count|[{ ])/gm)].map(([name]) => name),
      );
      const short = [
        'verdicts_total',
        'duplicates_total',
        'batch_events',
        'batch_seconds',
        'transaction_step_seconds',
        'retries_total',
        'build_info',
        'health_connections_dropped_total',
        'health_requests_refused_total',
        'log_lines_dropped_total',
      ];
      const own = [
        'webhook_connections',
        'webhook_requests_total',
        'webhook_requests_in_progress',
        'webhook_request_seconds',
      ];
      expect([...names].sort()).toEqual(
        [...short, ...own]
          .filter((name) => name !== 'duplicates_total')
          .map((name) => `promo_intake_${name}`)
          .sort(),
      );
      expect(await webhook.command.metric('promo_intake_batch_events_sum')).toBe(2);
      expect(await webhook.command.metric('promo_intake_webhook_request_seconds_count')).toBe(1);
    }));

  test('does not start at a port that is taken, and names the setting', () =>
    withWebhook({}, async ({ world, webhook }) => {
      const settings = { DATABASE_URL: world.writerUrl, WEBHOOK_PORT: String(webhook.port) };
      await expect(startWebhook(settings, { [HOOK]: secret })).rejects.toThrow(
        /WEBHOOK_PORT cannot be served: listen EADDRINUSE.*the webhook cannot start/,
      );
    }));
});

describe('send', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'send-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const run = (content: string, port: number, ...more: string[]) => {
    const file = join(directory, 'events');
    writeFileSync(file, content);
    return new RunningCommand(
      ['send', file, '--url', `http://127.0.0.1:${port}/`, '--connection', HOOK, ...more],
      { WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret }) },
    );
  };

  test('sends the events of a file in full requests, and prints the verdict of each event that is not simply accepted', () =>
    withWebhook({}, async ({ world, webhook }) => {
      const events = Array.from({ length: 1_200 }, (_, index) => aLogin({ event_id: `e-${index}` }));
      const lines = [...events, aBet({ event_id: 'zero', amount: '0' }), events[3]].map((each) =>
        JSON.stringify(each),
      );
      const clean = run(lines.join('\n'), webhook.port);
      expect(await clean.ending()).toEqual({ code: 0, signal: null });
      expect(clean.output()).toMatch(
        /events:1201: skipped\/zero_amount {2}\/amount: an amount of zero has no effect\.\n/,
      );
      expect(clean.output()).toMatch(
        /1,202 events: 1,200 accepted, 0 rejected, 1 skipped \(1 zero_amount\), 1 duplicate \(1 of accepted\)\n$/,
      );
      expect(await webhook.command.metric('promo_intake_webhook_requests_total{status="200"}')).toBe(3);

      const document = JSON.stringify(
        {
          events: [
            { ...aLogin({ event_id: 'bad' }), spec: 'x' },
            aLogin({ event_id: 'e-1', player_ref: 'other' }),
          ],
        },
        null,
        1,
      );
      const faulty = run(`${document}`, webhook.port, '--json');
      expect(await faulty.ending()).toEqual({ code: 1, signal: null });
      const told = faulty
        .output()
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line): unknown => JSON.parse(line));
      expect(told).toEqual([
        expect.objectContaining({ line: 3, event_id: 'bad', verdict: 'rejected', reason: 'malformed' }),
        expect.objectContaining({ line: 11, event_id: 'e-1', verdict: 'duplicate', content_differs: true }),
      ]);
      expect(Object.keys(await world.verdicts())).toHaveLength(1_202);
    }));

  test('prints the first verdict of resent events, so that an unanswered first try hides nothing', () =>
    withWebhook({}, async ({ webhook }) => {
      const events = [aBet(), aBet({ amount: '0' }), { ...aLogin(), spec: 'x' }];
      const lines = events.map((each) => JSON.stringify(each)).join('\n');
      await run(lines, webhook.port).ending();
      const again = run(lines, webhook.port);
      expect(await again.ending()).toEqual({ code: 1, signal: null });
      expect(again.output()).toMatch(
        /^\S+:2: duplicate of skipped\/zero_amount {2}\/amount: .*\.\n\S+:3: duplicate of rejected\/malformed {2}\/spec: .*\. It was rejected under this id\. Fix the field and send the event with a new event_id\.\n\S+: sent in .* 3 duplicate \(1 of accepted, 1 of rejected\/malformed, 1 of skipped\/zero_amount\)\n$/,
      );
    }));

  test.each([
    [{ '--url': 'events.example.com' }, '--url: is not an address. Write https://host, or http://host:port.'],
    [
      { '--url': `https://events.example.com/promo/v1/events/${HOOK}` },
      '--url: has the path of a request. Leave /v1/events and all behind it out: it is added.',
    ],
    [
      { '--connection': 'other' },
      `--connection: WEBHOOK_SECRETS has no secret of other. Use one of ${HOOK}.`,
    ],
  ])('with %j is wrong usage, and sends nothing', async (given, told) => {
    const options = { '--url': 'http://127.0.0.1:1', '--connection': HOOK, ...given };
    const command = new RunningCommand(['send', '-', ...Object.entries(options).flat()], {
      WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret }),
    });
    expect(await command.ending()).toEqual({ code: 2, signal: null });
    expect(command.output()).toContain(told);
  });

  test('reports the sent part of a file that cannot be read to its end', () =>
    withWebhook({}, async ({ webhook }) => {
      const command = new RunningCommand(
        ['send', '/proc/self/mem', '--url', `http://127.0.0.1:${webhook.port}`, '--connection', HOOK],
        { WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret }) },
      );
      expect(await command.ending()).toEqual({ code: 1, signal: null });
      expect(command.output()).toMatch(
        /: sent in .* 0 events.*stopped\. Continue from line 1: .*\/proc\/self\/mem cannot be read \(EIO\)\n$/s,
      );
    }));

  test('splits events of many fields into as many requests as their values need', () =>
    withWebhook({}, async ({ world, webhook }) => {
      const fields = Object.fromEntries(Array.from({ length: 90 }, (_, index) => [`own_${index}`, index]));
      const lines = Array.from({ length: 400 }, () => JSON.stringify({ ...aLogin(), ...fields }));
      const command = run(lines.join('\n'), webhook.port);
      expect(await command.ending()).toEqual({ code: 0, signal: null });
      expect(await webhook.command.metric('promo_intake_webhook_requests_total{status="200"}')).toBe(2);
      expect(Object.keys(await world.verdicts())).toHaveLength(400);
    }));

  test('skips lines that would make their whole request fail, and reports them', () =>
    withWebhook({}, async ({ world, webhook }) => {
      const long = JSON.stringify({ ...aLogin(), note: 'x'.repeat(1024 ** 2) });
      const lines = [aLogin({ event_id: 'a' }), aLogin({ event_id: 'b' })].map((each) =>
        JSON.stringify(each),
      );
      const command = run([lines[0], '{"half', '{"events":[{}]}', long, lines[1]].join('\n'), webhook.port);
      expect(await command.ending()).toEqual({ code: 1, signal: null });
      for (const said of [
        /:2: not sent: it is not JSON/,
        /:3: not sent: it is a batch/,
        /:4: not sent: it is longer/,
        /; 3 not sent\n/,
      ])
        expect(command.output()).toMatch(said);
      expect(await world.verdicts()).toEqual({ a: 'accepted', b: 'accepted' });
    }));

  test('sends unanswered requests again until they are answered', () =>
    inWorld({ topics, operators }, async (world) => {
      const settings = { DATABASE_URL: world.writerUrl };
      const before = await startWebhook(settings, { [HOOK]: secret });
      await before.command.kill();
      const command = run(JSON.stringify(aLogin({ event_id: 'a' })), before.port);
      await until('it has tried', LONG, () =>
        /lines 1-1 will be sent again in 1 s: .*ECONNREFUSED/.test(command.output()),
      );
      await startWebhook({ ...settings, WEBHOOK_PORT: String(before.port) }, { [HOOK]: secret });
      expect(await command.ending()).toEqual({ code: 0, signal: null });
      expect(await world.verdicts()).toEqual({ a: 'accepted' });
    }));

  test('ends where it is refused in the middle of a document, which cannot be sent in part', () =>
    withWebhook({ WEBHOOK_MAX_EVENTS: '1' }, async ({ webhook }) => {
      const command = run(JSON.stringify([aLogin(), aLogin()]), webhook.port);
      expect(await command.ending()).toEqual({ code: 1, signal: null });
      expect(command.output()).toMatch(
        /lines 1-1 were not accepted: it answered 413: .*stopped\. Send the whole file again: events that are sent twice are duplicates\.\n$/s,
      );
    }));

  test('ends where it is refused, and prints where to continue', () =>
    withWebhook({ WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: aSecret() }) }, async ({ webhook }) => {
      const command = run(JSON.stringify(aLogin()), webhook.port);
      expect(await command.ending()).toEqual({ code: 1, signal: null });
      expect(command.output()).toMatch(
        /lines 1-1 were not accepted: it answered 401: signature_invalid: the secret of WEBHOOK_SECRETS is not that of this connection/,
      );
      expect(command.output()).not.toContain('sign exactly');
      expect(command.output()).toMatch(
        /stopped\. Continue from line 1: events that are sent twice are duplicates\.\n$/,
      );
    }));
});
