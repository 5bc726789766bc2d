/** The webhook over real sockets, with an intake that does what a store cannot be made to do: wait, fail as nobody foresaw, be refused the verdict topic. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { until } from '../../dev/servers/deadline';
import type { Envelope, IntakeResult } from '../../src/intake';
import { makeLogger, makeMetrics } from '../../src/telemetry';
import { serveWebhook, type Webhook, type WebhookDeps } from '../../src/transports/webhook';
import { aBet, aConnection } from '../support/builders';
import { aSecret, senderTo } from '../support/webhook';

const secret = aSecret();
const connection = aConnection();
const ACCEPTED = { verdict: 'accepted', reason: null, code: 0 } as const;

/** All of them accepted. */
const accepted = (envelopes: readonly Envelope[]): IntakeResult => ({
  answers: envelopes.map((envelope) => ({
    ...{ envelope, connection, eventId: `e-${envelope.offset}`, kind: 'bet', faults: [] },
    decision: { type: 'decided', outcome: ACCEPTED, counted: true, redelivered: false },
  })),
  undecided: null,
});

let metrics: ReturnType<typeof makeMetrics>;
const running: Webhook[] = [];
afterEach(() => Promise.all(running.splice(0).map((each) => each.close(1_000))));

async function serve(decide: WebhookDeps['intake']['decideRequest'], more: Partial<WebhookDeps> = {}) {
  metrics = makeMetrics();
  const webhook = await serveWebhook(0, {
    intake: { decideRequest: decide },
    secretsOf: (id) => (id === 'hook' ? [Buffer.from(secret.slice('whsec_'.length), 'base64')] : []),
    publishVerdicts: null,
    logger: makeLogger('silent'),
    metrics,
    now: Date.now,
    ...{ slots: 2, maxEvents: 500, maxBytes: 1024 ** 2 },
    ...more,
  });
  running.push(webhook);
  return { webhook, send: senderTo(webhook.port, 'hook', secret) };
}

const never = () => new Promise<IntakeResult>(() => undefined);

async function requests(status: string): Promise<number> {
  const { values } = await metrics.webhookRequests.get();
  return values.find(({ labels }) => labels.status === status)?.value ?? 0;
}

async function inProgress(): Promise<number> {
  const { values } = await metrics.webhookInProgress.get();
  return values[0]?.value ?? 0;
}

test('who waits for too long is told to come again, and what is under way keeps its slot [W5]', async () => {
  const { send } = await serve(never, { slots: 1, answerWithinMs: 1_000 });
  const late = await send(aBet());
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
  expect(late.text).toContain('undecided');
  expect((await send(aBet())).text).toContain('overloaded');
});

test('requests that wait are decided together, and each is answered for itself: with its verdicts, where all of its events are decided [W5]', async () => {
  let decided: ((result: IntakeResult) => void) | undefined;
  const batches: (readonly Envelope[])[] = [];
  const { send } = await serve(
    (_, envelopes) => {
      batches.push(envelopes);
      return new Promise((resolve) => {
        decided = resolve;
      });
    },
    { slots: 1 },
  );
  const first = send(aBet());
  await until('the first is under way', 5_000, () => batches.length === 1);
  const others = [send({ events: [aBet(), aBet()] }), send(aBet()), send({ events: [aBet(), aBet()] })];
  await until('all have come', 5_000, async () => (await inProgress()) === 4);
  decided?.(accepted(batches[0] ?? []));
  expect((await first).verdicts).toEqual(['accepted']);
  await until('the others are under way', 5_000, () => batches.length === 2);
  const [, together = []] = batches;
  expect(together).toHaveLength(5);
  // Four of them are decided before the store goes away.
  decided?.({ answers: accepted(together).answers.slice(0, 4), undecided: new Error('the store is away') });
  const answers = await Promise.all(others);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 503]);
  expect(answers.flatMap(({ verdicts }) => verdicts)).toHaveLength(3);
});

test('what nobody has signed who knows the secret is not decided [W4]', async () => {
  const decided: unknown[] = [];
  const { webhook } = await serve(async (_, envelopes) => {
    decided.push(...envelopes);
    return accepted(envelopes);
  });
  const { status, text } = await senderTo(webhook.port, 'hook', aSecret())(aBet());
  expect([status, text]).toEqual([401, expect.stringContaining('signature_invalid')]);
  expect(decided).toEqual([]);
});

test('what nobody foresaw is an error of ours, told without its details', async () => {
  const { send } = await serve(() => Promise.reject(new Error('XSECRETX')));
  const { status, text } = await send(aBet());
  expect([status, JSON.parse(text)]).toEqual([
    500,
    { code: 'ERROR_CODE_INTERNAL', message: 'internal error' },
  ]);
  expect(await requests('500')).toBe(1);
});

test('verdicts that cannot be published are not answered: sent again, they are duplicates, and that is published [S7] [W5]', async () => {
  let refused = 1;
  const published: number[] = [];
  const { send } = await serve(async (_, envelopes) => accepted(envelopes), {
    async publishVerdicts(_, answers) {
      if (refused-- > 0) throw new Error('Kafka is away');
      published.push(answers.length);
    },
  });
  const { status, text } = await send({ events: [aBet(), aBet()] });
  expect([status, JSON.parse(text)]).toEqual([503, expect.objectContaining({ retryable: true })]);
  expect((await send({ events: [aBet(), aBet()] })).verdicts).toEqual(['accepted', 'accepted']);
  expect(published).toEqual([2]);
});

test('a sender who leaves before his request is whole is counted, and nothing of it is decided', async () => {
  const { webhook } = await serve(() => Promise.reject(new Error('nothing was sent')));
  const socket = connect(webhook.port, '127.0.0.1');
  const head = [
    'POST /v1/events/hook HTTP/1.1',
    ...['host: here', 'content-type: application/json', 'content-length: 100', 'webhook-id: 1'],
    `webhook-timestamp: ${Math.floor(Date.now() / 1000)}`,
    'webhook-signature: v1,x',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n{"half":`);
  await once(socket, 'ready');
  // A request that comes behind it is answered, so it has been seen.
  expect((await fetch(`http://127.0.0.1:${webhook.port}/none`)).status).toBe(404);
  socket.destroy();
  await until('it is counted', 5_000, async () => (await requests('broken_off')) === 1);
});

test('who does not send a request to its end in time is let go, and others are served meanwhile [W1]', async () => {
  const { webhook, send } = await serve(async (_, envelopes) => accepted(envelopes));
  const socket = connect(webhook.port, '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.write('POST /v1/events/hook HTTP/1.1\r\nhost: here\r\n');
  const ended = once(socket, 'close');
  expect((await send(aBet())).status).toBe(200);
  await ended;
}, 20_000);

describe('a webhook that closes', () => {
  test('answers what is under way, and ends the connections', async () => {
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

  test('waits no longer than it may', async () => {
    const { webhook, send } = await serve(never, { answerWithinMs: 1_000 });
    const sent = send(aBet()).catch(() => 'cut');
    await until('it is under way', 5_000, async () => (await inProgress()) === 1);
    expect(await webhook.close(200)).toBe(false);
    expect(await sent).toBe('cut');
  });
});
