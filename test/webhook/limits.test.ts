/**
 * Each limit of docs/security.md on a sender that a test can reach on a running webhook over a real Postgres.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep, until } from '../../dev/servers/deadline';
import { listenAt } from '../../src/telemetry/health-server';
import { answered, dropped, HOOK, LOCK_KEYS, secret, withWebhook } from '../stream/scene';
import { aLogin } from '../support/builders';
import { aBet, withClient } from '../support/ledger';
import { dial, type Line, signedHead, signedText } from '../support/raw-http';
import { aSecret } from '../support/webhook';
import { killWorkers, RunningCommand } from '../support/worker';

const LONG = 60_000;
afterEach(killWorkers);

const TRUSTED = { WEBHOOK_TRUSTED_PROXIES: '127.0.0.0/8' };
const from = (forwarded: string) => ({
  headers: { 'x-forwarded-for': forwarded },
  path: '/v1/events/none',
});

describe('the address of a sender [W8]', () => {
  /** The addresses of refused requests in the log, in order. */
  const logged = (command: RunningCommand) => command.logged('request refused').map(({ address }) => address);

  test('is that of X-Forwarded-For only behind a trusted proxy', () =>
    withWebhook({}, async ({ webhook, send }) => {
      await send(aLogin(), from('198.51.100.1'));
      await until('it is logged', LONG, () => logged(webhook.command).length === 1);
      expect(logged(webhook.command)).toEqual(['127.0.0.1']);
    }));

  test('is the last one that a trusted proxy has seen, whatever addresses come before it', () =>
    withWebhook(TRUSTED, async ({ webhook, send }) => {
      const headers = [
        ...['198.51.100.1', '1.1.1.1, 198.51.100.2', '1.1.1.1, 198.51.100.3, 127.0.0.2, 127.0.0.3'],
        ...['[2001:db8::4]:443', '198.51.100.5, no address', '::ffff:198.51.100.6'],
      ];
      for (const header of headers) await send(aLogin(), from(header));
      const expected = [
        ...['198.51.100.1', '198.51.100.2', '198.51.100.3', '2001:db8::4', '127.0.0.1', '198.51.100.6'],
      ];
      await until('all are logged', LONG, () => logged(webhook.command).length === expected.length);
      expect(logged(webhook.command)).toEqual(expected);
    }));

  /** Requests whose bodies do not come, through a proxy. */
  const half = (port: number, address: string): Line => {
    const line = dial(port);
    const more = [`x-forwarded-for: ${address}`];
    line.socket.write(signedHead({ connectionId: HOOK, secret: aSecret(), body: 'x'.repeat(100), more }));
    return line;
  };

  test('counts as one for all addresses of an IPv6 /64, and for no others', () =>
    withWebhook(TRUSTED, async ({ webhook }) => {
      const { command, port } = webhook;
      const networks = Array.from({ length: 24 }, (_, n) => half(port, `2001:db8:0:${n + 1}::1`));
      await sleep(1_500);
      // Each has places of its own, and there are 32 of them.
      expect(networks.flatMap((line) => line.statuses())).toEqual([]);
      for (const { socket } of networks) socket.destroy();
      await until('they are gone', LONG, async () => (await answered(command, 'broken_off')) === 24);

      const one = Array.from({ length: 24 }, (_, n) => half(port, `2001:db8::${n + 1}`));
      // The webhook reads 16 bodies at once. The slow ones give their places to those that wait.
      await until('8 are refused', LONG, () => one.flatMap((line) => line.statuses()).length === 8);
      expect(new Set(one.flatMap((line) => line.statuses()))).toEqual(new Set([429]));
      for (const { socket } of one) socket.destroy();
    }));
});

test('an unread answer ends its connection after ten seconds, and others are served [W8]', () =>
  withWebhook({}, async ({ webhook, send }) => {
    const { command, port } = webhook;
    // Answers of a megabyte: each names the ids of its events.
    const body = JSON.stringify({
      events: Array.from({ length: 450 }, (_, n) => ({ event_id: `${n}-${'e'.repeat(2_000)}` })),
    });
    const line = dial(port);
    line.socket.pause();
    const text = signedText({ connectionId: HOOK, secret, body });
    // The same answer again, from memory.
    for (let n = 0; n < 15; n++) line.socket.write(text);
    const began = performance.now();
    let slowest = 0;
    await until('it is dropped', LONG, async () => {
      const before = performance.now();
      expect((await send(aBet())).status).toBe(200);
      slowest = Math.max(slowest, performance.now() - before);
      return (await dropped(command, 'unread')) === 1;
    });
    expect(performance.now() - began).toBeGreaterThan(9_000);
    // An answer that waited for the unread one would take all of the time.
    expect(slowest).toBeLessThan(8_000);
    // The body of its next request is late by then, since the webhook reads no further request.
    expect(command.logged('connection dropped')).toMatchObject([
      { why: 'unread', address: '127.0.0.1', connectionIds: [HOOK] },
    ]);
    line.socket.destroy();
  }));

test('a replay whose answer was evicted is decided again: as duplicates, and without a new row of an event [W7] [W8]', () =>
  withWebhook({}, async ({ world, webhook, send }) => {
    const { command, port } = webhook;
    const body = JSON.stringify({ events: [aLogin({ event_id: 'a' }), aLogin({ event_id: 'b' })] });
    const text = signedText({ connectionId: HOOK, secret, body });
    const replays = () => command.metric(`promo_intake_webhook_replays_total{connection="${HOOK}"}`);
    const stored = () => world.rows('select event_id, verdict, decided_at from promo.verdicts order by 1');
    const again = async (): Promise<string> => {
      const line = dial(port);
      line.socket.write(text);
      await until('it is answered', LONG, () => /"verdicts":\[.*\]\}$/s.test(line.text()));
      line.socket.destroy();
      return line.text().split('\r\n\r\n')[1] ?? '';
    };
    const first = await again();
    const rows = await stored();
    expect([await again(), await replays(), rows.length]).toEqual([first, 1, 2]);

    // A megabyte of ids each, which are not stored: 2 MiB of memory.
    for (let n = 0; n < 12; n++) {
      const ids = Array.from({ length: 450 }, (_, m) => `${n}-${m}-${'e'.repeat(2_000)}`);
      expect(
        (await send({ events: ids.map((id) => ({ ...aLogin({ event_id: id }), kind: 'none' })) })).status,
      ).toBe(200);
    }
    const later = await again();
    expect(await replays()).toBe(1);
    expect(JSON.parse(later)).toMatchObject({
      verdicts: ['a', 'b'].map((id) => ({ event_id: id, verdict: 'duplicate', first_verdict: 'accepted' })),
    });
    expect((await stored()).filter(([id]) => id === 'a' || id === 'b')).toEqual(rows);
  }));

test('refusals of one sender are one line a minute, and those of many senders a hundred; all are counted [W8]', () =>
  withWebhook(TRUSTED, async ({ webhook, send }) => {
    const { command } = webhook;
    const lines = () => command.logged('request refused');
    for (let n = 0; n < 50; n++) await send(aLogin(), from('198.51.100.1'));
    expect(lines()).toHaveLength(1);
    for (let n = 0; n < 150; n++) await send(aLogin(), from(`203.0.113.${n}`));
    expect(lines()).toHaveLength(100);
    const refused = 'promo_intake_webhook_refusals_total{status="401",token="unauthorized",connection=""}';
    expect(await command.metric(refused)).toBe(200);
    // Other kinds of refusal have their lines in the same limit.
    await send(aLogin(), { ...from('198.51.100.1'), method: 'PUT' });
    expect(lines()).toHaveLength(100);
    expect(await answered(command, 405)).toBe(1);
  }));

describe('send', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'send-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const sendTo = (port: number) => {
    const file = join(directory, 'events');
    writeFileSync(file, JSON.stringify(aLogin({ event_id: 'a' })));
    return new RunningCommand(['send', file, '--url', `http://127.0.0.1:${port}/`, '--connection', HOOK], {
      WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret }),
    });
  };

  test('waits as long as an overloaded webhook asks for, and sends again', () =>
    withWebhook({ WEBHOOK_SLOTS: '1' }, async ({ world, webhook, send }) => {
      await withClient(world.databaseUrl, async (client) => {
        await client.query(LOCK_KEYS);
        const other = send(aBet());
        await until('the slot is taken', LONG, async () => {
          const [[waiting] = []] = await world.rows(
            `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          );
          return waiting === '1';
        });
        const command = sendTo(webhook.port);
        await until('it has tried', LONG, () =>
          /lines 1-1 will be sent again in 1 s: it answered 503: overloaded/.test(command.output()),
        );
        await client.query('commit');
        expect((await other).status).toBe(200);
        expect(await command.ending()).toEqual({ code: 0, signal: null });
      });
      expect(Object.keys(await world.verdicts())).toContain('a');
    }));

  /** A proxy that refuses the first request itself, as rate limiters do, and forwards the next ones. */
  async function behindProxy(
    port: number,
    refuse: (response: ServerResponse) => void,
    work: (port: number) => Promise<void>,
  ): Promise<void> {
    let requests = 0;
    const proxy = createServer((request: IncomingMessage, response: ServerResponse) => {
      if (requests++ === 0) {
        request.resume();
        refuse(response);
        return;
      }
      const { method, url, headers } = request;
      const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      onward.on('error', (error) => response.destroy(error));
      request.pipe(onward);
    });
    const served = await listenAt(proxy, 0);
    try {
      await work(served);
    } finally {
      proxy.closeAllConnections();
      await new Promise((closed) => proxy.close(closed));
    }
  }

  test.each([
    [429, 'seconds', () => '4'],
    [503, 'a date', () => new Date(Date.now() + 4_000).toUTCString()],
  ])('waits after %i for at least as long as Retry-After says in %s', (status, _, retryAfter) =>
    withWebhook({}, async ({ world, webhook }) => {
      let refusedAt = Number.NaN;
      await behindProxy(
        webhook.port,
        (response) => {
          refusedAt = performance.now();
          response.writeHead(status, { 'retry-after': retryAfter() }).end();
        },
        async (port) => {
          const command = sendTo(port);
          expect(await command.ending()).toEqual({ code: 0, signal: null });
          expect(command.output()).toMatch(new RegExp(`sent again in [1-4] s: it answered ${status}`));
          // A date has whole seconds.
          expect(performance.now() - refusedAt).toBeGreaterThan(3_000);
        },
      );
      expect(await world.verdicts()).toEqual({ a: 'accepted' });
    }),
  );

  test('caps a longer Retry-After at the limit, and can be stopped meanwhile', () =>
    withWebhook({}, async ({ webhook }) => {
      await behindProxy(
        webhook.port,
        (response) => response.writeHead(503, { 'retry-after': '86400' }).end(),
        async (port) => {
          const command = sendTo(port);
          await until('it has tried', LONG, () => /sent again in 300 s/.test(command.output()));
          command.signal('SIGINT');
          await command.ending();
          expect(command.output()).toMatch(/interrupted\. Continue from line 1/);
        },
      );
    }));
});

test('during a flood of unsigned requests the secrets file is read once a second, and a rotation still works [W4] [W8]', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'webhook-'));
  const file = join(directory, 'secrets.json');
  const next = aSecret();
  // A large file, like that of a service with many operators. One read for each request would take all of the
  // time.
  const others = Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`other-${n}`, aSecret()]));
  writeFileSync(file, JSON.stringify({ ...others, [HOOK]: secret }));
  try {
    await withWebhook(
      { WEBHOOK_SECRETS: undefined, WEBHOOK_SECRETS_FILE: file },
      async ({ webhook, send }) => {
        const wrong = aSecret();
        const flood = async () => {
          for (let n = 0; n < 100; n++) expect((await send(aLogin(), { secret: wrong })).status).toBe(401);
        };
        const reads = readsOf(webhook.command);
        const began = performance.now();
        await Promise.all([flood(), flood(), flood(), flood()]);
        const seconds = (performance.now() - began) / 1_000;
        // The file has 130 KB: 400 reads would be 52 MB.
        expect(readsOf(webhook.command) - reads).toBeLessThan((seconds + 2) * 150_000 + 2_000_000);
        writeFileSync(file, JSON.stringify({ ...others, [HOOK]: next }));
        await until(
          'the new secret counts',
          LONG,
          async () => (await send(aLogin(), { secret: next })).status === 200,
        );
        expect((await send(aLogin())).status).toBe(401);
      },
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});

/**
 * Bytes that a process has read so far, from files and sockets. @throws where the system does not report it:
 * only Linux does
 */
function readsOf({ pid }: RunningCommand): number {
  const [, bytes] = /^rchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8')) ?? [];
  if (bytes === undefined) throw new Error('the system does not report how much the process has read');
  return Number(bytes);
}
