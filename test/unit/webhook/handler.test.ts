/**
 * The webhook over real sockets, with an intake that does what a real store does not do on request. It waits,
 * fails unexpectedly, or cannot publish to the verdict topic.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { sleep, until } from '../../../dev/servers/deadline';
import type { Envelope } from '../../../src/intake/delivery';
import type { IntakeResult } from '../../../src/intake/intake';
import { NoSuchConnection } from '../../../src/intake/undecided';
import { type Clock, systemClock } from '../../../src/lib/clock';
import { makeLogger } from '../../../src/telemetry/logger';
import { makeMetrics } from '../../../src/telemetry/metrics';
import type { WebhookDeps } from '../../../src/webhook/handler';
import { type ServerDeps, serveWebhook, type Webhook } from '../../../src/webhook/server';
import { sign } from '../../../src/webhook/signature';
import { aBet, aConnection } from '../../support/builders';
import { signedText as signedRequest } from '../../support/raw-http';
import { aSecret, senderTo } from '../../support/webhook';

const secret = aSecret();
const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
const connection = aConnection();
const ACCEPTED = { verdict: 'accepted', reason: null, code: 0 } as const;

/** Accepts all of them. */
const accepted = (envelopes: readonly Envelope[]): IntakeResult => ({
  answers: envelopes.map((envelope) => ({
    envelope,
    connection,
    eventId: `e-${envelope.offset}`,
    kind: 'bet',
    faults: [],
    decision: { type: 'decided', outcome: ACCEPTED, counted: true, redelivered: false },
  })),
  undecided: null,
});

const LONG = 15_000;
let metrics: ReturnType<typeof makeMetrics>;
const running: Webhook[] = [];
afterEach(() => Promise.all(running.splice(0).map((each) => each.close(1_000))));

async function serve(decide: WebhookDeps['intake']['decideRequest'], more: Partial<ServerDeps> = {}) {
  metrics = makeMetrics();
  const webhook = await serveWebhook(0, {
    intake: { decideRequest: decide },
    rehearse: never,
    secretsOf: (id) => (id === 'hook' ? [key] : []),
    publishVerdicts: null,
    logger: makeLogger('silent'),
    metrics,
    clock: systemClock,
    now: Date.now,
    slots: 2,
    maxEvents: 500,
    maxBytes: 1024 ** 2,
    trustedProxies: [],
    limits: { connections: 1_000, perAddress: 500 },
    ...more,
  });
  running.push(webhook);
  return { webhook, send: senderTo(webhook.port, 'hook', secret) };
}

/** The beginning of a request that is never completed. */
const HEAD = [
  'POST /v1/events/hook HTTP/1.1',
  ...['host: here', 'content-type: application/json', 'content-length: 100', 'webhook-id: 1'],
  `webhook-timestamp: ${Math.floor(Date.now() / 1000)}`,
  'webhook-signature: v1,x',
];
const HALF = `${HEAD.join('\r\n')}\r\n\r\n{"half":`;

function talk({ port }: Webhook, text: string): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.write(text);
  return socket;
}

const never = () => new Promise<IntakeResult>(() => undefined);

async function requests(status: string): Promise<number> {
  const { values } = await metrics.webhookRequests.get();
  return values.find(({ labels }) => labels.status === status)?.value ?? 0;
}

/** The reasons why connections were dropped. */
async function dropped(): Promise<unknown[]> {
  const { values } = await metrics.webhookDropped.get();
  return values.flatMap(({ labels, value }) => (value > 0 ? [labels.why] : []));
}

async function undecidedRetries(): Promise<number> {
  const { values } = await metrics.retries.get();
  return values.find(({ labels }) => labels.class === 'undecided')?.value ?? 0;
}

async function inProgress(): Promise<number> {
  const { values } = await metrics.webhookInProgress.get();
  return values[0]?.value ?? 0;
}

test('a request that waits too long is answered 503, and requests in flight keep their slots [W5]', async () => {
  const { send } = await serve(never, { slots: 1, answerWithinMs: 1_000 });
  const late = await send(aBet());
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
  expect(late.text).toContain('undecided');
  expect((await send(aBet())).text).toContain('overloaded');
});

test('a request waits for a slot for half a second at most [W3]', async () => {
  const checkEveryMs = 1_000; // of the server, which has nothing to do with a request
  const waits: number[] = [];
  const clock: Clock = {
    ...systemClock,
    after(ms, ...timer) {
      if (ms !== checkEveryMs) waits.push(ms);
      return systemClock.after(ms, ...timer);
    },
  };
  const { send } = await serve(never, { slots: 1, answerWithinMs: 1_500, clock });
  const first = send(aBet());
  await until('it has the slot', LONG, async () => (await inProgress()) === 1);
  expect((await send(aBet())).text).toContain('overloaded');
  await first;
  expect(waits.filter((ms) => ms > 500 && ms < 1_500)).toEqual([]);
});

test('waiting requests are decided together, and each gets its own answer: its verdicts, if all its events are decided [W5]', async () => {
  let decided: ((result: IntakeResult) => void) | undefined;
  const batches: (readonly Envelope[])[] = [];
  const { send } = await serve(
    (_, envelopes) => {
      batches.push(envelopes);
      return new Promise((resolve) => {
        decided = resolve;
      });
    },
    { slots: 1, slotWithinMs: 20_000 },
  );
  const sent: ReturnType<typeof send>[] = [];
  for (const events of [1, 2, 1, 2]) {
    sent.push(send({ events: Array.from({ length: events }, () => aBet()) }));
    await until('it has come', LONG, async () => (await inProgress()) === sent.length);
  }
  decided?.(accepted(batches[0] ?? []));
  await until('the others are in flight', LONG, () => batches.length === 2);
  const [, together = []] = batches;
  expect(together).toHaveLength(5);
  // Four of them are decided before the store goes away.
  decided?.({ answers: accepted(together).answers.slice(0, 4), undecided: new Error('the store is away') });
  const answers = await Promise.all(sent);
  expect(answers.map(({ status, verdicts }) => [status, verdicts.length])).toEqual([
    [200, 1],
    [200, 2],
    [200, 1],
    [503, 0],
  ]);
});

test('a request without a signature by the secret is not decided [W4]', async () => {
  const decided: unknown[] = [];
  const { webhook } = await serve(async (_, envelopes) => {
    decided.push(...envelopes);
    return accepted(envelopes);
  });
  const { status, text } = await senderTo(webhook.port, 'hook', aSecret())(aBet());
  expect([status, text]).toEqual([401, expect.stringContaining('signature_invalid')]);
  expect(decided).toEqual([]);
});

test('a partly decided request is answered 503, also where its connection was removed meanwhile [W5] [W6]', async () => {
  let decided = 1;
  const { send } = await serve(async (_, envelopes) => ({
    answers: accepted(envelopes).answers.slice(0, decided),
    undecided: new NoSuchConnection('the reference data has no webhook connection hook'),
  }));
  expect((await send({ events: [aBet(), aBet()] })).status).toBe(503);
  decided = 0;
  expect((await send({ events: [aBet(), aBet()] })).status).toBe(403);
});

test('a request without events is refused like others of its connection [W6]', async () => {
  let undecided: Error | null = null;
  const { send } = await serve(async (_, envelopes) => ({ ...accepted(envelopes), undecided }));
  expect((await send({ events: [] })).status).toBe(200);
  undecided = new NoSuchConnection('the reference data has no webhook connection hook');
  expect((await send({ events: [] })).status).toBe(403);
  undecided = new Error('the store is away');
  expect((await send({ events: [] })).status).toBe(503);
});

test('an unexpected error leaves a request undecided, and the answer has no details', async () => {
  const { send } = await serve(() => Promise.reject(new Error('XSECRETX')));
  const { status, text } = await send(aBet());
  expect([status, text]).toEqual([503, expect.stringContaining('"undecided: ')]);
  expect(text).not.toContain('XSECRETX');
  expect(await requests('503')).toBe(1);
});

test('verdicts are answered once they are published; while the topic refuses, no more requests are decided [S7] [W5]', async () => {
  let refuses = true;
  let decided = 0;
  const published: number[] = [];
  const { send } = await serve(
    async (_, envelopes) => {
      decided++;
      return accepted(envelopes);
    },
    {
      async publishVerdicts(_, answers) {
        if (refuses) throw new Error('Kafka is away');
        published.push(answers.length);
      },
    },
  );
  const first = send({ events: [aBet(), aBet()] });
  await until('it is tried', LONG, async () => (await undecidedRetries()) === 1);
  const meanwhile = await send(aBet());
  expect([meanwhile.status, meanwhile.headers.get('retry-after'), decided]).toEqual([503, '1', 1]);
  refuses = false;
  expect((await first).verdicts).toEqual(['accepted', 'accepted']);
  expect((await send(aBet())).status).toBe(200);
  expect(published).toEqual([2, 1]);
});

test('verdicts that are decided during a publish are published together, in order [S7]', async () => {
  const batches: number[][] = [];
  let go = (): void => undefined;
  let place = 0;
  const { send } = await serve(
    async (_, envelopes) => {
      const { answers } = accepted(envelopes);
      return { answers: answers.map((answer) => ({ ...answer, eventId: `${place++}` })), undecided: null };
    },
    {
      async publishVerdicts(_, answers) {
        batches.push(answers.map(({ eventId }) => Number(eventId)));
        if (batches.length === 1)
          await new Promise<void>((resolve) => {
            go = resolve;
          });
      },
    },
  );
  const sent = [send(aBet())];
  await until('the first is being published', LONG, () => batches.length === 1);
  sent.push(send(aBet()), send(aBet()));
  await until('the others are decided', LONG, () => place === 3);
  go();
  await Promise.all(sent);
  expect(batches).toEqual([[0], [1, 2]]);
});

test('a sender that aborts its request is counted, and nothing of the request is decided', async () => {
  const { webhook } = await serve(() => Promise.reject(new Error('nothing was sent')));
  const socket = talk(webhook, HALF);
  await once(socket, 'ready');
  // A later request is answered, so the earlier one has arrived.
  expect((await fetch(`http://127.0.0.1:${webhook.port}/none`)).status).toBe(404);
  socket.destroy();
  await until('it is counted', LONG, async () => (await requests('broken_off')) === 1);
});

test('a sender that does not complete a request in time is dropped, and others are served meanwhile', async () => {
  const { webhook, send } = await serve(async (_, envelopes) => accepted(envelopes), {
    requestWithinMs: 1_500,
  });
  const ended = [`${HEAD.slice(0, 2).join('\r\n')}\r\n`, HALF].map((text) =>
    once(talk(webhook, text), 'close'),
  );
  expect((await send(aBet())).status).toBe(200);
  await Promise.all(ended);
});

test('a body that is late because its sender reads no answer is dropped as unread [W8]', async () => {
  const eventId = 'e'.repeat(2_000);
  const { webhook } = await serve(
    async (_, envelopes) => ({
      answers: accepted(envelopes).answers.map((answer) => ({ ...answer, eventId })),
      undecided: null,
    }),
    { requestWithinMs: 1_500, readWithinMs: 60_000 },
  );
  const socket = connect(webhook.port, '127.0.0.1').pause();
  socket.on('error', () => undefined);
  // Answers of a megabyte: more than the buffers of the kernel hold.
  const body = JSON.stringify({ events: Array.from({ length: 450 }, () => ({ event_id: eventId })) });
  for (let n = 0; n < 15; n++) socket.write(signedText(body));
  await until('it is dropped', LONG, async () => (await dropped()).length > 0);
  expect(await dropped()).toEqual(['unread']);
  socket.destroy();
});

test('half-sent requests block nobody: slow ones are answered, and give their places to others [W8]', async () => {
  const { webhook, send } = await serve(async (_, envelopes) => accepted(envelopes));
  const answers: string[] = [];
  for (let round = 0; round < 2; round++) {
    const sockets = Array.from({ length: 64 }, () => talk(webhook, HALF));
    for (const socket of sockets) socket.on('data', (text: Buffer) => answers.push(text.toString()));
    await until('some gave their places to others', LONG, () => answers.length >= (round + 1) * 10);
    // All from one address: a signed request waits as long as one of them may keep its place, and no longer.
    expect((await send(aBet())).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await until('all are gone', LONG, async () => (await send(aBet())).status === 200);
  }
  expect(answers[0]).toMatch(
    /^HTTP\/1\.1 429 .*\r\nretry-after: 1\r\n.*ERROR_CODE_RATE_LIMITED.*too slowly/s,
  );
  expect(await requests('429')).toBeGreaterThanOrEqual(20);
  expect(await requests('503')).toBe(0);
});

/** Collects the bytes of a socket. */
function heard(socket: Socket): () => string {
  let text = '';
  socket.on('data', (part: Buffer) => {
    text += part.toString();
  });
  return () => text;
}

/** A signed request as bytes of the wire. */
function signedText(body: string, more: readonly string[] = []): string {
  const head = { id: `msg-${body.length}-${more.length}`, timestamp: String(Math.floor(Date.now() / 1000)) };
  const lines = [
    'POST /v1/events/hook HTTP/1.1',
    ...['host: here', 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`],
    ...[`webhook-id: ${head.id}`, `webhook-timestamp: ${head.timestamp}`],
    `webhook-signature: ${sign(key, head, Buffer.from(body))}`,
    ...more,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

const GET_NONE = 'GET /none HTTP/1.1\r\nhost: here\r\n\r\n';

test('a connection without a valid signature ends with its first answer; a signed one is reused, also after a refusal [W8]', async () => {
  const { webhook } = await serve(async (_, envelopes) => accepted(envelopes), { maxBytes: 1_000 });
  const body = 'x'.repeat(5_000);
  const head = HEAD.map((line) => line.replace('content-length: 100', `content-length: ${body.length}`));
  const tooLarge = `${head.join('\r\n')}\r\n\r\n${body}`;
  const unsigned = talk(webhook, tooLarge + GET_NONE);
  const toUnsigned = heard(unsigned);
  await once(unsigned, 'close');
  expect(toUnsigned()).toMatch(/^HTTP\/1\.1 413 .*\r\nconnection: close\r\n/is);
  expect(toUnsigned()).not.toContain('HTTP/1.1 404');

  const signed = talk(webhook, signedText(JSON.stringify(aBet())));
  const toSigned = heard(signed);
  const answers = (count: number) =>
    until(`${count} are answered`, LONG, () => (toSigned().match(/HTTP\/1\.1 /g) ?? []).length === count);
  await answers(1);
  signed.write(tooLarge + GET_NONE);
  await answers(3);
  expect(toSigned()).toMatch(/^HTTP\/1\.1 200 .*HTTP\/1\.1 413 .*HTTP\/1\.1 404 /s);
  signed.destroy();
});

test('a replayed request gets the same answer, also while the first is in flight, and is decided once [W7]', async () => {
  let decided = 0;
  let go = (): void => undefined;
  const { webhook } = await serve(async (_, envelopes) => {
    decided++;
    await new Promise<void>((resolve) => {
      go = resolve;
    });
    return accepted(envelopes);
  });
  const text = signedText(JSON.stringify(aBet()));
  const both = [talk(webhook, text), talk(webhook, text)].map(heard);
  await until('both are in flight', LONG, async () => (await replays()) === 1);
  go();
  await until('both are answered', LONG, () => both.every((each) => each().includes('accepted')));
  const later = heard(talk(webhook, text));
  await until('the third is', LONG, () => later().includes('accepted'));
  expect([decided, await replays()]).toEqual([1, 2]);
});

async function replays(): Promise<number> {
  const { values } = await metrics.webhookReplays.get();
  return values[0]?.value ?? 0;
}

test('each answer has the id of its request: the id of the sender where it is safe for the log, else a new one', async () => {
  const { webhook, send } = await serve(async (_, envelopes) => accepted(envelopes));
  const idOf = async (given: string) =>
    (await send(aBet(), { headers: { 'x-request-id': given } })).headers.get('x-request-id');
  expect(await idOf('a-1:b')).toBe('a-1:b');
  expect(await idOf('a b')).toMatch(/^[0-9a-f-]{36}$/);
  const none = await fetch(`http://127.0.0.1:${webhook.port}/none`);
  expect(none.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
});

test('a body in pieces of a byte is refused early, and holds no memory [W8]', async () => {
  const { webhook } = await serve(never);
  const head = HEAD.map((line) => line.replace('content-length: 100', 'transfer-encoding: chunked'));
  const socket = talk(webhook, `${head.join('\r\n')}\r\n\r\n${'1\r\n \r\n'.repeat(20_000)}`);
  // The connection ends while the client still sends, so the client may not read the answer.
  await until('it is cut off', LONG, () => socket.closed);
  expect(await requests('413')).toBe(1);
});

test('a body with too many JSON values is refused, and nothing of it is decided [W1] [W8]', async () => {
  let decided = 0;
  const { send } = await serve(async (_, envelopes) => {
    decided++;
    return accepted(envelopes);
  });
  const event = (values: number) => `{"event_id":"e","own":[${Array.from({ length: values }, () => 0)}]}`;
  const { status, text } = await send(event(30_000));
  expect([status, text, decided]).toEqual([413, expect.stringContaining('20000 JSON values'), 0]);
  expect((await send(event(19_000))).status).toBe(200);
});

test('of too many connections those without a valid signature are dropped first, and a signed one is served [W8]', async () => {
  const { webhook } = await serve(async (_, envelopes) => accepted(envelopes), {
    limits: { connections: 50, perAddress: 50 },
  });
  const signed = talk(webhook, signedText(JSON.stringify(aBet())));
  const text = heard(signed);
  await until('it is answered', LONG, () => text().includes('accepted'));
  const idle = Array.from({ length: 200 }, () => talk(webhook, ''));
  await until('most have gone', LONG, () => idle.filter(({ closed }) => closed).length >= 150);
  signed.write(signedText(JSON.stringify(aBet())));
  await until('it is answered again', LONG, () => (text().match(/accepted/g) ?? []).length === 2);
  for (const socket of [signed, ...idle]) socket.destroy();
});

test('bytes that are no request are answered with a reason, and TLS with its own', async () => {
  const { webhook } = await serve(never);
  const answer = async (sent: string | Buffer) => {
    const socket = connect(webhook.port, '127.0.0.1');
    const text = heard(socket.on('error', () => undefined));
    socket.write(sent);
    await once(socket, 'close');
    return text().replace(/^HTTP\/1.1 (\d+).*"message":"([^"]*)".*$/s, '$1 $2');
  };
  expect(await answer(Buffer.from('160301020001', 'hex'))).toMatch(/^400 .*without TLS/);
  expect(await answer('no http\r\n\r\n')).toMatch(/^400 .*the bytes are not HTTP/);
  expect(await answer('CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n')).toMatch(/^405 /);
  expect(await answer(`GET / HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)).toMatch(/^431 /);
  expect(await answer('GET / HTTP/1.1\r\n\r\n')).toMatch(/^400 .*Host/);
  expect(await answer('GET / HTTP/1.0\r\n\r\n')).toMatch(/^404 /);
});

test('health checks of load balancers are answered on the port of requests', async () => {
  const { webhook } = await serve(never);
  const url = `http://127.0.0.1:${webhook.port}/readyz`;
  expect((await fetch(url)).status).toBe(200);
  webhook.startDraining();
  expect((await fetch(url)).status).toBe(503);
});

describe('a webhook that closes', () => {
  test('answers requests in flight, and ends the connections', async () => {
    let release = (): void => undefined;
    const begun = new Promise<void>((begin) => {
      release = begin;
    });
    let answer: ((result: IntakeResult) => void) | undefined;
    let envelopes: readonly Envelope[] = [];
    const { webhook, send } = await serve((_, given) => {
      envelopes = given;
      release();
      return new Promise((resolve) => {
        answer = resolve;
      });
    });
    const sent = send(aBet());
    await begun;
    const closed = webhook.close(10_000);
    await expect(fetch(`http://127.0.0.1:${webhook.port}/`)).rejects.toThrow('fetch failed');
    answer?.(accepted(envelopes));
    const { status, headers } = await sent;
    expect([status, headers.get('connection')]).toEqual([200, 'close']);
    expect(await closed).toBe(true);
  });

  test('waits for no idle connection, and for no incomplete request', async () => {
    const { webhook } = await serve(never);
    const silent = talk(webhook, '');
    await once(silent, 'ready');
    expect(await webhook.close(20_000)).toBe(true);

    const { webhook: other } = await serve(never, { requestWithinMs: 1_500 });
    const half = talk(other, HALF);
    await until(
      'it has begun',
      LONG,
      async () => (await fetch(`http://127.0.0.1:${other.port}/none`)).status === 404,
    );
    const began = performance.now();
    expect(await other.close(30_000)).toBe(true);
    expect(performance.now() - began).toBeLessThan(15_000);
    half.destroy();
  });

  test('waits no longer than its limit', async () => {
    const { webhook, send } = await serve(never, { answerWithinMs: 1_000 });
    const sent = send(aBet()).catch(() => 'cut');
    await until('it is in flight', LONG, async () => (await inProgress()) === 1);
    expect(await webhook.close(200)).toBe(false);
    expect(await sent).toBe('cut');
  });
});

describe('reconciliation', () => {
  const scope = {
    connection,
    referenceVersion: 1,
    connectionNos: [connection.no],
    ownsTopic: true,
  };
  const path = '/v1/reconcile/hook';

  test('a reconciliation that hangs takes one place, and delays neither events nor another connection', async () => {
    let finish = (): void => undefined;
    const { webhook, send } = await serve(async (_, envelopes) => accepted(envelopes), {
      slotWithinMs: 200,
      secretsOf: () => [key],
      reconciliation: {
        scopeOf: async () => scope,
        reconciler: {
          reconcile: (_, entries) =>
            entries[0]?.eventId === 'hangs'
              ? new Promise((resolve) => {
                  finish = () => resolve([]);
                })
              : Promise.resolve([]),
        },
      },
    });
    const hanging = send({ event_ids: ['hangs'] }, { path });
    await until('it hangs', LONG, () => String(finish) !== '() => undefined');
    const beyond = await send({ event_ids: [] }, { path });
    expect([beyond.status, beyond.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await send(aBet())).verdicts).toEqual(['accepted']);
    const other = senderTo(webhook.port, 'other', secret);
    expect((await other({ event_ids: [] }, { path: '/v1/reconcile/other' })).status).toBe(200);
    finish();
    await hanging;
    expect((await send({ event_ids: [] }, { path })).status).toBe(200);
  });

  test('an unread answer gives its place to a request that waits, so the memory of unread answers has a limit [W8]', async () => {
    const standing = { state: 'never_received', reason: null, action: 'resend', details: [] } as const;
    const { webhook } = await serve(async (_, envelopes) => accepted(envelopes), {
      reconciliation: {
        scopeOf: async () => scope,
        reconciler: {
          reconcile: async (_, entries) =>
            entries.map(({ eventId }) => ({
              ...standing,
              eventId,
              contentDiffers: false,
              remedy: 'x'.repeat(10_000),
            })),
        },
      },
    });
    // An answer of 7 MB: more than a connection holds on its way.
    const body = JSON.stringify({ event_ids: Array.from({ length: 700 }, (_, n) => `e-${n}`) });
    const sockets: Socket[] = [];
    for (let sent = 0; sent < 7; sent++) {
      const socket = talk(webhook, signedRequest({ connectionId: 'hook', secret, body, path }));
      socket.pause();
      sockets.push(socket);
      await sleep(100);
    }
    const unread = async () => {
      const { values } = await metrics.webhookDropped.get();
      return values.find(({ labels }) => labels.why === 'unread')?.value ?? 0;
    };
    await until('unread answers are dropped before ten seconds', 9_000, async () => (await unread()) >= 2);
    for (const socket of sockets) socket.destroy();
  });

  test('without reconciliation there is no such path', async () => {
    const { send } = await serve(async (_, envelopes) => accepted(envelopes));
    expect((await send({ event_ids: [] }, { path })).status).toBe(404);
  });
});
