/**
 * Requests that no client library sends. Each is answered where possible, counted, and logged with its
 * address. None ends the process.
 */
import { connect } from 'node:net';
import { sleep, until } from '../../dev/servers/deadline';
import { answered, dropped, HOOK, type Scene, secret, withWebhook } from '../stream/scene';
import { aBet } from '../support/ledger';
import { dial, type Line, signedHead, signedText } from '../support/raw-http';
import { killWorkers, type RunningCommand } from '../support/worker';

const LONG = 60_000;
afterEach(killWorkers);

const body = JSON.stringify(aBet());
const signed = (...more: string[]) => signedHead({ connectionId: HOOK, secret, body, more });
const POST = ['POST /v1/events/acme-hook HTTP/1.1', 'host: here', 'content-type: application/json'];
/** An unsigned request with these lines in its head. */
const post = (lines: readonly string[], content = '') =>
  `${[...POST, ...lines].join('\r\n')}\r\n\r\n${content}`;

type Counted = readonly ['dropped' | 'answered', string];

interface Try {
  readonly bytes: string | Buffer;
  /** Null: the sender has gone, or cannot read an answer. */
  readonly status: number | null;
  readonly message?: RegExp;
  readonly counted: Counted;
  /** How the sender leaves after its bytes; default: it waits for the answer. */
  readonly leaves?: 'ends' | 'resets';
}

const NOT_HTTP: Counted = ['dropped', 'not_http'];
const BROKEN_OFF: Counted = ['answered', 'broken_off'];

const TRIES: Readonly<Record<string, Try>> = {
  'an invalid request line': {
    bytes: 'G E T /\r\n\r\n',
    status: 400,
    message: /not HTTP/,
    counted: NOT_HTTP,
  },
  'random bytes': { bytes: Buffer.alloc(64, 0xff), status: 400, counted: NOT_HTTP },
  'a head that is too large': {
    bytes: post([`x: ${'y'.repeat(20_000)}`]),
    status: 431,
    counted: ['dropped', 'large_head'],
  },
  'too many headers': {
    bytes: post(Array.from({ length: 300 }, (_, n) => `h${n}: 1`)),
    status: 431,
    message: /more than 200 headers/,
    counted: ['answered', '431'],
  },
  'an invalid chunk size': {
    bytes: post(
      [
        ...['transfer-encoding: chunked', 'webhook-id: 1', 'webhook-signature: v1,x'],
        `webhook-timestamp: ${Math.floor(Date.now() / 1000)}`,
      ],
      'zz\r\n',
    ),
    status: 400,
    message: /not HTTP.*chunk size/is,
    counted: NOT_HTTP,
  },
  'the hello of TLS': {
    bytes: Buffer.from('16030100c8010000c40303', 'hex'),
    status: 400,
    message: /without TLS/,
    counted: ['dropped', 'tls'],
  },
  'half of a head, and its end': {
    bytes: POST.join('\r\n'),
    leaves: 'ends',
    status: null,
    counted: BROKEN_OFF,
  },
  'half of a head, and a reset': {
    bytes: POST.join('\r\n'),
    leaves: 'resets',
    status: null,
    counted: BROKEN_OFF,
  },
  'half of a body, and its end': {
    bytes: signed() + body.slice(0, 9),
    leaves: 'ends',
    status: null,
    counted: BROKEN_OFF,
  },
  'half of a body, and a reset': {
    bytes: signed() + body.slice(0, 9),
    leaves: 'resets',
    status: null,
    counted: BROKEN_OFF,
  },
  'an upgrade to WebSocket': {
    bytes:
      'GET /v1/events/acme-hook HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
    status: 405,
    counted: ['answered', '405'],
  },
  'an upgrade to HTTP/2': {
    bytes: post(['connection: upgrade, http2-settings', 'upgrade: h2c', 'http2-settings: AAMAAABk']),
    status: 401,
    counted: ['answered', '401'],
  },
  CONNECT: {
    bytes: 'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n',
    status: 405,
    message: /by POST/,
    counted: ['dropped', 'connect'],
  },
  'HTTP/0.9': { bytes: 'GET /\r\n\r\n', status: 404, counted: ['answered', '404'] },
  'the preface of HTTP/2': {
    bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    status: 400,
    message: /speaks HTTP\/1\.1/,
    counted: ['dropped', 'http2'],
  },
  'two lengths': {
    bytes: post(['content-length: 5', 'content-length: 6'], '12345'),
    status: 400,
    message: /not HTTP.*Content-Length/is,
    counted: NOT_HTTP,
  },
  'a length and chunks': {
    bytes: post(['content-length: 5', 'transfer-encoding: chunked'], '0\r\n\r\n'),
    status: 400,
    message: /not HTTP/,
    counted: NOT_HTTP,
  },
  'an unknown transfer encoding': {
    bytes: post(['transfer-encoding: gzip']),
    status: 400,
    counted: NOT_HTTP,
  },
  'an invalid header name': { bytes: post(['a b: c']), status: 400, counted: NOT_HTTP },
  'no host': {
    bytes: 'GET / HTTP/1.1\r\n\r\n',
    status: 400,
    message: /Host/,
    counted: ['answered', '400'],
  },
  'an unknown expectation': {
    bytes: post(['expect: a-miracle']),
    status: 417,
    counted: ['answered', '417'],
  },
};

const METRICS: Record<Counted[0], (command: RunningCommand, label: string) => Promise<number>> = {
  dropped,
  answered,
};

function leave({ socket }: Line, how: Try['leaves']): void {
  if (how === 'ends') socket.end();
  if (how === 'resets') socket.resetAndDestroy();
}

describe('a sender that speaks no HTTP, or leaves in the middle [W6] [W8]', () => {
  test('is answered, counted and logged, and the process continues', () =>
    withWebhook({}, async ({ webhook, send }) => {
      const { command, port } = webhook;
      const failures: string[] = [];
      for (const [name, { bytes, status, message = /./, counted, leaves }] of Object.entries(TRIES)) {
        const [metric, label] = counted;
        const before = await METRICS[metric](command, label);
        const line = dial(port);
        await new Promise<void>((written) => line.socket.write(bytes, () => written()));
        leave(line, leaves);
        const text = await line.closed();
        try {
          if (status !== null) {
            expect([line.statuses(), text]).toEqual([[status], expect.stringMatching(message)]);
            expect(text).toMatch(/^x-request-id: [0-9a-f-]{36}\r$/im);
            expect(text).toMatch(/"code":"ERROR_CODE_INVALID_REQUEST","message":"/);
          }
          await until('it is counted', LONG, async () => (await METRICS[metric](command, label)) > before);
          expect(await METRICS[metric](command, label)).toBe(before + 1);
        } catch (error) {
          failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
        }
        // No line of another kind was logged.
        expect([name, command.hasEnded()]).toEqual([name, false]);
      }
      expect(failures).toEqual([]);
      const lines = command.logged('connection dropped');
      for (const why of ['not_http', 'large_head', 'tls', 'connect', 'http2'])
        expect(lines).toContainEqual(
          expect.objectContaining({ why, address: '127.0.0.1', requestId: expect.any(String) }),
        );
      expect(command.logged('request aborted by the sender')).toContainEqual(
        expect.objectContaining({ address: '127.0.0.1', connectionIds: [], requestId: expect.any(String) }),
      );
      expect(new Set(command.logged('request refused').map(({ status }) => status))).toEqual(
        new Set([400, 401, 404, 405, 417, 431]),
      );
      expect((await send(aBet())).status).toBe(200);
    }));

  test('is dropped beyond a limit of its connection or address, counted by its kind, and logged once', () =>
    withWebhook(
      { WEBHOOK_CONNECTIONS: '10', WEBHOOK_CONNECTIONS_PER_ADDRESS: '6' },
      async ({ webhook: { command, port }, send }) => {
        const drops = async (kinds: readonly string[]) =>
          Promise.all(kinds.map((kind) => dropped(command, kind)));
        const late = [
          '',
          signed(),
          post(['content-length: 9000000'], 'half'),
          signedText({ connectionId: HOOK, secret, body }).repeat(20),
        ].map((text) => {
          const line = dial(port);
          line.socket.write(text);
          return line;
        });
        await Promise.all(late.map((line) => line.closed()));
        const kinds = ['late_head', 'late_body', 'drain', 'pipelined'];
        await until('each is counted', LONG, async () => (await drops(kinds)).join() === '1,1,1,1');

        const open = (localAddress: string, count: number) =>
          Array.from({ length: count }, () => {
            const socket = connect({ port, host: '127.0.0.1', localAddress });
            return socket.on('error', () => undefined).resume();
          });
        const sockets = open('127.0.0.2', 7);
        await until(
          'one of the address is dropped',
          LONG,
          async () => (await dropped(command, 'address')) === 1,
        );
        sockets.push(...open('127.0.0.3', 5));
        await until('one of all is dropped', LONG, async () => (await dropped(command, 'full')) === 1);
        for (const socket of sockets) socket.destroy();

        expect((await send(aBet())).status).toBe(200);
        const lines = command.logged('connection dropped').map(({ why }) => why);
        expect(lines.sort()).toEqual([...kinds, 'address', 'full'].sort());
      },
    ));

  test('does not end the process by a reset at any moment', () =>
    withWebhook({}, async ({ webhook, send }) => {
      const texts = [
        ...['', 'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n', 'no http\r\n\r\n', post(['content-length: 5'])],
        signedText({ connectionId: HOOK, secret, body }),
        post(['expect: 100-continue', 'content-length: 5']),
      ];
      for (let round = 0; round < 20; round++)
        await Promise.all(
          texts.map(async (text) => {
            const line = dial(webhook.port);
            await new Promise<void>((written) => line.socket.write(text, () => written()));
            if (round % 2 === 0) await sleep(round);
            leave(line, 'resets');
          }),
        );
      expect([webhook.command.hasEnded(), webhook.command.tail()]).toEqual([false, expect.any(String)]);
      expect((await send(aBet())).status).toBe(200);
    }));
});

describe('a request that waits for 100 Continue [W6]', () => {
  const expecting = (line: Line, more: readonly string[] = []) =>
    line.socket.write(signed('expect: 100-continue', ...more));

  test('gets 100 Continue once there is a place for its body, and is decided', () =>
    withWebhook({}, async ({ webhook }) => {
      const line = dial(webhook.port);
      expecting(line);
      await until('it gets 100 Continue', LONG, () => line.text().includes('HTTP/1.1 100 Continue'));
      line.socket.write(body);
      await until('it is answered', LONG, () => line.statuses().length === 2);
      expect(line.statuses()).toEqual([100, 200]);
      // The connection is signed now, and stays open.
      line.socket.write(signedText({ connectionId: HOOK, secret, body }));
      await until('it is answered again', LONG, () => line.statuses().length === 3);
      line.socket.destroy();
    }));

  test('is refused by its head alone where possible, and its connection ends at once', () =>
    withWebhook({}, async ({ webhook, ...scene }: Scene) => {
      const line = dial(webhook.port);
      line.socket.write(post(['expect: 100-continue', 'content-length: 1000']));
      const text = await line.closed();
      expect(line.statuses()).toEqual([401]);
      expect(text).toMatch(/^connection: close\r$/im);
      // The webhook does not wait for the missing body. It would count the end of such a wait.
      expect(await dropped(webhook.command, 'drain')).toBe(0);
      expect((await scene.send(aBet())).status).toBe(200);
    }));
});
