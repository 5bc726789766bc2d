/**
 * A hostile sender for the mode `neighbours`. It repeats one kind of attack (KIND) until it is stopped. It is
 * a process of its own, so that the attack takes no time from the program that measures.
 *
 * It prints `{"attacking":KIND}` once the attack has begun. If the attack is a backlog, it prints
 * `{"sent":KIND}` once the backlog is complete.
 */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { zstdCompressSync } from 'node:zlib';
import { CompressionCodecs, CompressionTypes, type Message } from 'kafkajs';
import { Client } from 'pg';
import { EncodedBatch, installProduceEncoder } from '../../../src/kafka/client/patches/produce';
import { MessageEncoder, RecordBatch } from '../../../src/kafka/protocol/record-batch-writer';
import { sign } from '../../../src/webhook/signature';
import { quietKafka } from '../../servers/guest';
import { type HostileName, isHostileName } from '../hostile-kinds';
import { PARTITIONS } from '../stage';
import { numberSetting, setting } from './settings';

const MEBIBYTE = 1024 ** 2;
/** Another loopback address than the well-behaved sender's. */
const OWN_ADDRESS = '127.0.0.2';
const ADDRESS = '127.0.0.1';
const LARGE_BATCHES = 40;
const LARGE_BYTES = 60 * MEBIBYTE;
const NESTED_ROUNDS = 6_000;
const LONG_ROUND_ID_BYTES = 60_000;
const LONG_ROUND_IDS = 16;
const IDLE_CONNECTIONS = 1_000;
const HALF_SENT_REQUESTS = 110;
const REQUESTS_AT_ONCE = 200;
const PAUSE_MS = 50;

CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }: { buffer: Buffer }) => zstdCompressSync(buffer),
  decompress: async () => {
    throw new Error('this program reads nothing');
  },
});

const ATTACKS: Readonly<Record<HostileName, () => Promise<void>>> = {
  none: async () => {},
  'large-keys': () => largeBatches((large) => ({ key: large, value: loginText() })),
  'large-headers': () => largeBatches((large) => ({ value: loginText(), headers: { large } })),
  'many-headers': manyHeaders,
  'nested-rounds': nestedRounds,
  'idle-connections': () => idleConnections(OWN_ADDRESS),
  'idle-same-address': () => idleConnections(ADDRESS),
  'one-byte-chunks': oneByteChunks,
  'endless-bodies': endlessBodies,
  'many-values': manyValues,
  'many-requests': manyRequests,
  'nested-rounds-webhook': nestedRoundsByWebhook,
  replays,
  'half-sent-requests': halfSentRequests,
  'advisory-locks': advisoryLocks,
};

function loginText(): string {
  return eventText({ kind: 'login' });
}

function betText(roundId: string): string {
  return eventText({ kind: 'bet', round_id: roundId, game: { id: 'g1' }, amount: '1.00', currency: 'EUR' });
}

function eventText(more: object): string {
  const occurredAt = new Date().toISOString();
  const common = { spec: 'promo.event.v1', event_id: randomUUID(), brand: 'main', player_ref: 'p' };
  return JSON.stringify({ ...common, occurred_at: occurredAt, ...more });
}

// --- by Kafka

async function withProducer(
  attack: (send: (topic: string, messages: Message[]) => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const kafka = quietKafka({
    clientId: 'promo-bench-hostile',
    brokers: setting('KAFKA_BROKERS').split(','),
  });
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  await attack((topic, messages) => producer.send({ topic, messages, compression: CompressionTypes.ZSTD }));
  await producer.disconnect();
}

async function largeBatches(recordWith: (large: Buffer) => Message): Promise<void> {
  const large = Buffer.alloc(LARGE_BYTES, 'x');
  await withProducer(async (send) => {
    for (let sent = 0; sent < LARGE_BATCHES; sent++) {
      await send(setting('OWN_TOPIC'), [{ partition: sent % 2, ...recordWith(large) }]);
      begun();
    }
  });
}

/**
 * Sends the same encoded batch again and again: a client takes seconds to write so many headers. No
 * connection claims its record.
 */
async function manyHeaders(): Promise<void> {
  const headers = Array.from({ length: 99_999 }, (): [string, string] => ['h', '']);
  const record = new MessageEncoder().encode({ key: null, value: loginText(), headers });
  const batch = new RecordBatch(record.bytes.length);
  batch.add(record);
  const bytes = await batch.take(Date.now(), null);
  installProduceEncoder();
  await withProducer(async (send) => {
    for (let sent = 0; sent < 200; sent++) {
      await send(setting('SHARED_TOPIC'), [new EncodedBatch(sent % PARTITIONS, bytes)]);
      begun();
    }
  });
}

async function nestedRounds(): Promise<void> {
  await withProducer(async (send) => {
    const topic = setting('OWN_TOPIC');
    const ids = Array.from({ length: NESTED_ROUNDS }, (_, length) => 'a'.repeat(length + 1));
    for (let from = 0; from < ids.length; from += 200) {
      await send(
        topic,
        ids.slice(from, from + 200).map((id) => ({ value: betText(id) })),
      );
    }
    for (;;) {
      await send(
        topic,
        longRoundIds().map((id) => ({ value: betText(id) })),
      );
      begun();
      await sleep(PAUSE_MS);
    }
  });
}

function longRoundIds(): string[] {
  return Array.from({ length: LONG_ROUND_IDS }, () => 'a'.repeat(LONG_ROUND_ID_BYTES) + randomUUID());
}

// --- by the webhook

interface SentRequest {
  readonly body: string;
  readonly head?: { readonly id: string; readonly timestamp: string };
  readonly isSigned?: boolean;
}

const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS_AT_ONCE, localAddress: OWN_ADDRESS });

function headersOf({ body, head = newHead(), isSigned = true }: SentRequest): Record<string, string> {
  const secret = Buffer.from(setting('SECRET'), 'base64');
  return {
    'content-type': 'application/json',
    'webhook-id': head.id,
    'webhook-timestamp': head.timestamp,
    'webhook-signature': sign(secret, head, Buffer.from(isSigned ? body : 'another body')),
  };
}

function newHead(): { id: string; timestamp: string } {
  return { id: randomUUID(), timestamp: String(Math.floor(Date.now() / 1000)) };
}

const path = () => `/v1/events/${setting('CONNECTION')}`;

/** Sends a request and waits for its end, with or without success: a refusal is expected. */
function send(sent: SentRequest): Promise<void> {
  return new Promise((resolve) => {
    const headers = { ...headersOf(sent), 'content-length': Buffer.byteLength(sent.body) };
    const port = numberSetting('WEBHOOK_PORT');
    const outgoing = request(
      { agent, host: ADDRESS, port, method: 'POST', path: path(), headers },
      (answer) => {
        answer.resume().once('close', resolve);
      },
    );
    outgoing.once('error', () => resolve()).end(sent.body);
  });
}

async function repeatAtOnce(count: number, one: () => Promise<void>): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, async () => {
      for (;;) {
        await one();
        begun();
        await sleep(1);
      }
    }),
  );
}

/** Opens a raw connection for bytes that are not valid HTTP. Resolves once it is closed. */
function raw(
  port: number,
  localAddress: string,
  write: (socket: Socket, isClosed: () => boolean) => Promise<void>,
): Promise<void> {
  return new Promise((resolve) => {
    let isClosed = false;
    const socket = connect({ host: ADDRESS, port, localAddress });
    socket.resume();
    socket.on('error', () => undefined);
    socket.once('close', () => {
      isClosed = true;
      resolve();
    });
    socket.once('connect', () => {
      write(socket, () => isClosed).catch(() => socket.destroy());
    });
  });
}

async function idleConnections(localAddress: string): Promise<void> {
  await repeatAtOnce(IDLE_CONNECTIONS, async () => {
    await raw(numberSetting('WEBHOOK_PORT'), localAddress, async () => begun());
    await sleep(PAUSE_MS);
  });
}

async function oneByteChunks(): Promise<void> {
  const chunks = Buffer.from('1\r\nx\r\n'.repeat(10_000));
  await repeatAtOnce(4, () =>
    raw(numberSetting('WEBHOOK_PORT'), OWN_ADDRESS, async (socket, isClosed) => {
      socket.write(requestHead({ body: '', isSigned: false }, 'transfer-encoding: chunked'));
      for (let sent = 0; sent < 100 && !isClosed(); sent++) await written(socket, chunks);
      socket.end('0\r\n\r\n');
    }),
  );
}

async function endlessBodies(): Promise<void> {
  const piece = Buffer.alloc(64 * 1024, 'x');
  await repeatAtOnce(16, () =>
    raw(numberSetting('WEBHOOK_PORT'), OWN_ADDRESS, async (socket, isClosed) => {
      socket.write(requestHead({ body: '', isSigned: false }, 'content-length: 1000000000000'));
      while (!isClosed()) await written(socket, piece);
    }),
  );
}

function requestHead(sent: SentRequest, framing: string): string {
  const headers = Object.entries(headersOf(sent)).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path()} HTTP/1.1\r\nhost: webhook\r\n${headers.join('')}${framing}\r\n\r\n`;
}

function written(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

async function manyValues(): Promise<void> {
  const keys = Array.from({ length: 90_000 }, (_, index) => `"k${index}":1`).join();
  const arrays = 500_000;
  const nested = `${'['.repeat(arrays)}${']'.repeat(arrays)}`;
  const flat = `${'[],'.repeat(300_000)}[]`;
  const bodies = [`{${keys}}`, nested, `[${flat}]`, `{"events":[${flat}]}`];
  let next = 0;
  await repeatAtOnce(8, () => send({ body: bodies[next++ % bodies.length] ?? '' }));
}

async function manyRequests(): Promise<void> {
  await repeatAtOnce(REQUESTS_AT_ONCE, () =>
    send({ body: `{"events":[${Array.from({ length: 100 }, loginText).join()}]}` }),
  );
}

async function nestedRoundsByWebhook(): Promise<void> {
  for (let from = 1; from <= NESTED_ROUNDS; from += 100) {
    const ids = Array.from({ length: 100 }, (_, index) => 'a'.repeat(from + index));
    await send({ body: `{"events":[${ids.map(betText).join()}]}` });
  }
  await repeatAtOnce(6, () => send({ body: `{"events":[${longRoundIds().map(betText).join()}]}` }));
}

async function replays(): Promise<void> {
  const sent = { body: `{"events":[${Array.from({ length: 100 }, loginText).join()}]}`, head: newHead() };
  await repeatAtOnce(20, () => send(sent));
}

// --- by the health port, and by Postgres

async function halfSentRequests(): Promise<void> {
  await repeatAtOnce(HALF_SENT_REQUESTS, () =>
    raw(numberSetting('HEALTH_PORT'), OWN_ADDRESS, async (socket, isClosed) => {
      socket.write('GET /metrics HTTP/1.1\r\nhost: health\r\n');
      while (!isClosed()) {
        await sleep(1_000);
        await written(socket, Buffer.from('x: y\r\n'));
      }
    }),
  );
}

/** The lock numbers of versions before lock rows: feeds (two numbers), months and migrations (one). */
async function advisoryLocks(): Promise<void> {
  const client = new Client({ connectionString: setting('STRANGER_URL') });
  await client.connect();
  await client.query(`select pg_advisory_lock(1347571023, n) from generate_series(1, 50) n`);
  await client.query('select pg_advisory_lock(4915023772)');
  begun();
  await sleep(2 ** 31 - 1);
}

let hasBegun = false;
function begun(): void {
  if (hasBegun) return;
  hasBegun = true;
  process.stdout.write(`${JSON.stringify({ attacking: kind })}\n`);
}

const kind = setting('KIND');
if (!isHostileName(kind)) throw new Error(`there is no attack ${kind}`);
const name: HostileName = kind;
if (name === 'none') begun();
process.once('SIGTERM', () => process.exit(0));
ATTACKS[name]().then(
  () => {
    process.stdout.write(`${JSON.stringify({ sent: name })}\n`);
    setInterval(() => undefined, 2 ** 30);
  },
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
