/**
 * Limits of the webhook whose edges a running server does not reach in a second: minutes, addresses, clocks.
 */
import { Writable } from 'node:stream';
import pino from 'pino';
import { until } from '../../../dev/servers/deadline';
import { makeAddresses, networkOf } from '../../../src/lib/address';
import { systemClock } from '../../../src/lib/clock';
import { makeMetrics } from '../../../src/telemetry/metrics';
import { MAX_RETRY_AFTER_MS, retryAfterMs } from '../../../src/webhook/client';
import { type Place, Places } from '../../../src/webhook/places';
import { makeReports } from '../../../src/webhook/refusal-log';
import { makeReplays } from '../../../src/webhook/replays';
import { REFUSALS } from '../../../src/webhook/responses';

describe('the address of a sender [W8]', () => {
  const { senderOf } = makeAddresses(['127.0.0.1', '10.0.0.0/8', 'fd00::/8']);
  const from = (peer: string, forwarded?: string) =>
    senderOf(peer, forwarded === undefined ? {} : { 'x-forwarded-for': forwarded });

  test.each([
    ['that is no proxy, whatever header it sends', '203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['behind a proxy', '127.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['behind three proxies', '127.0.0.1', '198.51.100.1, 10.0.0.1, 10.2.3.4', '198.51.100.1'],
    [
      'behind two, with a forged address before it',
      '127.0.0.1',
      '1.1.1.1, 198.51.100.1, 10.0.0.1',
      '198.51.100.1',
    ],
    ['of IPv6, with a port', '127.0.0.1', '[2001:db8::7]:443', '2001:db8::7'],
    ['of IPv4, with a port', '127.0.0.1', '198.51.100.1:5000', '198.51.100.1'],
    ['of IPv4 in its IPv6 form', '127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['behind a proxy of IPv6', 'fd00::1', '198.51.100.1', '198.51.100.1'],
    ['that is a proxy itself', '127.0.0.1', '10.0.0.1', '10.0.0.1'],
    ['without the header', '127.0.0.1', undefined, '127.0.0.1'],
    ['with an empty header', '127.0.0.1', '', '127.0.0.1'],
    ['with a host name in the header', '127.0.0.1', 'unknown', '127.0.0.1'],
    ['behind an invalid entry', '127.0.0.1', '198.51.100.1, garbage, 10.0.0.1', '10.0.0.1'],
    ['in an invalid list', '127.0.0.1', ', ,;=\u0000,', '127.0.0.1'],
    ['more than ten proxies away', '127.0.0.1', `198.51.100.1${', 10.0.0.1'.repeat(10)}`, '10.0.0.1'],
  ])('%s', (_, peer, forwarded, sender) => {
    expect(from(peer, forwarded)).toBe(sender);
  });

  test('is read fast, however long the header is', () => {
    const long = `${'1.1.1.1,'.repeat(100_000)}198.51.100.1`;
    const began = performance.now();
    expect(from('127.0.0.1', long)).toBe('198.51.100.1');
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test.each([
    ['198.51.100.1', '198.51.100.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['2001:db8::198.51.100.1', '2001:db8:0:0::/64'],
  ])('%s shares the limits of %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

describe('a log line on refusals [W8]', () => {
  const lines: Record<string, unknown>[] = [];
  const logger = pino(
    new Writable({
      write(chunk: Buffer, _, done) {
        lines.push(JSON.parse(chunk.toString()));
        done();
      },
    }),
  );
  const metrics = makeMetrics('webhook');
  let reports: ReturnType<typeof makeReports>;
  const refuse = (address: string, refusal = REFUSALS.unsigned) =>
    reports.refused({ requestId: 'r', address, connectionId: null, isSigned: false }, refusal);

  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] });
    lines.length = 0;
    // Each test starts its own clock.
    jest.advanceTimersByTime(120_000);
    reports = makeReports({ logger, metrics, clock: systemClock });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('is written once a minute for each kind and sender, and the next one has the number of suppressed ones', () => {
    for (let n = 0; n < 50; n++) {
      refuse('198.51.100.1');
      refuse('198.51.100.2');
      refuse('198.51.100.1', REFUSALS.noSuchPath);
      reports.dropped('tls', '198.51.100.1', []);
      reports.brokenOff('r', '198.51.100.1', []);
    }
    expect(lines.map(({ address, status, why, msg }) => [address, status ?? why ?? msg])).toEqual([
      ['198.51.100.1', 401],
      ['198.51.100.2', 401],
      ['198.51.100.1', 404],
      ['198.51.100.1', 'tls'],
      ['198.51.100.1', 'request aborted by the sender'],
    ]);
    jest.advanceTimersByTime(59_000);
    refuse('198.51.100.1');
    expect(lines).toHaveLength(5);
    jest.advanceTimersByTime(1_000);
    refuse('198.51.100.1');
    expect(lines.slice(5)).toMatchObject([{ address: '198.51.100.1', status: 401, suppressed: 50 }]);
  });

  test('is one of at most a hundred a minute for all senders; all are counted, and the next line has the number of suppressed ones', async () => {
    const before = await refusals();
    for (let n = 0; n < 5_000; n++) refuse(`10.0.${n >> 8}.${n & 255}`);
    expect([lines.length, (await refusals()) - before]).toEqual([100, 5_000]);
    jest.advanceTimersByTime(60_000);
    refuse('198.51.100.9');
    expect(lines[100]).toMatchObject({ address: '198.51.100.9', suppressedOfOthers: 4_900 });
  });

  async function refusals(): Promise<number> {
    const { values } = await metrics.webhookRefusals.get();
    return values.reduce((sum, { value }) => sum + value, 0);
  }
});

describe('places that senders share [W8]', () => {
  const LIMITS = { clock: systemClock, places: 4, share: 3, waiting: 4, waitingShare: 3 };
  const make = () => {
    const places = new Places(LIMITS);
    const given: string[] = [];
    const held: Place[] = [];
    const take = async (sender: string, withinMs = 3_000, onEvicted = () => {}) => {
      const place = await places.take(sender, withinMs);
      given.push(typeof place === 'string' ? `${sender}: ${place}` : sender);
      if (typeof place === 'string') return;
      place.onEvicted = onEvicted;
      held.push(place);
    };
    return { take, given, held };
  };
  const settled = () => new Promise<void>((resolve) => setTimeout(resolve, 20));

  test('a sender has at most its share of them, and waiting ones take turns', async () => {
    const { take, given, held } = make();
    for (let n = 0; n < 5; n++) void take('much');
    void take('little');
    void take('other');
    await settled();
    // Three of one sender wait for its share, and one place stays free.
    expect(given).toEqual(['much', 'much', 'much', 'little']);
    held[0]?.release();
    await settled();
    expect(given.slice(4)).toEqual(['much']);
    held[3]?.release();
    await settled();
    expect(given.slice(5)).toEqual(['other']);
    for (const place of held) place.release();
  });

  test('a sender beyond its share is refused for its share, and others for the overload', async () => {
    const { take, given, held } = make();
    for (let n = 0; n < 6; n++) void take('much', 50);
    await take('much', 50);
    expect(given.slice(3)).toEqual(['much: share']);
    void take('little');
    await take('other', 50);
    expect(given.slice(4).sort()).toEqual([
      'little',
      'much: share',
      'much: share',
      'much: share',
      'other: short',
    ]);
    for (const place of held) place.release();
  });

  test('a slow holder gives its place to one that waits', async () => {
    const { take, given, held } = make();
    let asked = 0;
    for (let n = 0; n < 3; n++) void take('slow', 3_000, () => void asked++);
    void take('also', 3_000, () => void asked++);
    await settled();
    void take('quick');
    await until('the sender with the most places gives one up', 30_000, () => asked === 1);
    held[0]?.release();
    await settled();
    expect([given.at(-1), asked]).toEqual(['quick', 1]);
    for (const place of held) place.release();
  });
});

describe('stored answers for replays [W7] [W8]', () => {
  const TEXT = 'x'.repeat(200);
  const make = () => {
    let decided = 0;
    const replays = makeReplays<string>({ now: () => 0, textOf: (text) => text, keptBytes: 10_000 });
    const send = async (connectionId: string, signature: string) => {
      const { isAgain, answer } = replays.answer(connectionId, signature, 1, async () => {
        decided++;
        return TEXT;
      });
      await answer;
      return isAgain;
    };
    return { send, decided: () => decided };
  };

  test('are dropped beyond the limit, the oldest first, of the connection with the most', async () => {
    const { send } = make();
    await send('quiet', 'q');
    // 1,000 bytes each.
    for (let n = 0; n < 30; n++) await send('busy', `b-${n}`);
    expect(await send('quiet', 'q')).toBe(true);
    expect(await send('busy', 'b-29')).toBe(true);
    expect(await send('busy', 'b-0')).toBe(false);
  });

  test('take no more memory than the limit, for any number of answers', async () => {
    const { send, decided } = make();
    for (let n = 0; n < 500; n++) await send('busy', `b-${n}`);
    let again = 0;
    for (let n = 499; n >= 0; n--) if (await send('busy', `b-${n}`)) again++;
    expect(again).toBe(10);
    expect(decided()).toBe(500 + 490);
  });
});

describe('the wait that Retry-After asks for', () => {
  const NOW = 'Thu, 26 Nov 2026 12:00:00 GMT';
  test.each([
    ['seconds', { 'retry-after': '7' }, 7_000],
    ['a date', { 'retry-after': 'Thu, 26 Nov 2026 12:00:09 GMT', date: NOW }, 9_000],
    ['a past date', { 'retry-after': 'Thu, 26 Nov 2026 11:00:00 GMT', date: NOW }, 0],
    ['nothing', {}, 0],
    ['no number', { 'retry-after': 'soon' }, 0],
    ['a negative number', { 'retry-after': '-5' }, 0],
    ['more than the limit', { 'retry-after': '86400' }, MAX_RETRY_AFTER_MS],
    ['more digits than numbers have', { 'retry-after': '9'.repeat(400) }, MAX_RETRY_AFTER_MS],
    ['a date years ahead', { 'retry-after': 'Thu, 26 Nov 2099 12:00:00 GMT', date: NOW }, MAX_RETRY_AFTER_MS],
  ])('as %s', (_, headers: Record<string, string>, waitMs) => {
    expect(retryAfterMs(new Headers(headers))).toBe(waitMs);
  });

  test('is counted from our own clock where the answer has no date', () => {
    const at = new Date(Date.now() + 20_000).toUTCString();
    const waitMs = retryAfterMs(new Headers({ 'retry-after': at }));
    expect(waitMs).toBeGreaterThanOrEqual(18_000);
    expect(waitMs).toBeLessThanOrEqual(20_000);
  });
});
