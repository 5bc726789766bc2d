/** `try` as its users run it: a process with nothing beside it. */
import { execFile } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { until } from '../../dev/servers/deadline';
import { isObject } from '../../src/lib/json';
import { parseReference } from '../../src/reference-file/reference-file';
import { MAX_LISTED_EVENTS } from '../../src/try/event-log';
import { EXAMPLE_REFERENCE, trySecretOf } from '../../src/try/example';
import { aBet } from '../support/builders';
import { serve } from '../support/serve';
import { senderTo } from '../support/webhook';
import { killWorkers, ONE_REQUEST, ROOT, RunningCommand } from '../support/worker';

const READY_DEADLINE_MS = 60_000;
/** Coarse: tests run beside each other. The goal is 5 s, and the mode start of the benchmark measures it. */
const READY_WITHIN_S = 50;
const END_DEADLINE_MS = 60_000;
const CONNECTION = 'acme-hook';

/** The directory of temporary files of these tests alone. */
let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'try-test-'));
  // The user of the server has to reach its own directory in it.
  if (process.getuid?.() === 0) chmodSync(scratch, 0o755);
});
afterAll(async () => {
  await killWorkers();
  rmSync(scratch, { recursive: true, force: true });
});

interface Trying {
  readonly command: RunningCommand;
  readonly address: string;
  readonly port: number;
  readonly send: ReturnType<typeof senderTo>;
}

async function startTry(...args: string[]): Promise<Trying> {
  const command = new RunningCommand(['try', '--port', '0', ...args], { TMPDIR: scratch });
  await until('it is ready', READY_DEADLINE_MS, () => {
    if (command.hasEnded()) throw new Error(`It ended early\n${command.output()}`);
    return command.output().includes('promo-intake try is ready');
  });
  const port = Number(/page +http:\/\/127\.0\.0\.1:(\d+)\/try/.exec(command.output())?.[1]);
  const send = senderTo(port, CONNECTION, trySecretOf(CONNECTION));
  return { command, address: `http://127.0.0.1:${port}`, port, send };
}

/** A list of `try`, or an error. */
interface Listed {
  readonly [field: string]: unknown;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

async function read(url: string, options: RequestInit = {}): Promise<{ status: number; json: Listed }> {
  const response = await fetch(url, { ...options, headers: { ...ONE_REQUEST, ...options.headers } });
  const json: unknown = await response.json();
  if (!isObject(json)) throw new Error('the answer is no object');
  const events: unknown[] = Array.isArray(json.events) ? json.events : [];
  return { status: response.status, json: { ...json, events: events.filter(isObject) } };
}

const eventsOf = (trying: Trying, query = '') => read(`${trying.address}/try/events${query}`);
const reset = (trying: Trying, headers = {}) =>
  read(`${trying.address}/try/reset`, { method: 'POST', headers });
const directories = () => readdirSync(scratch).filter((name) => name.startsWith('promo-intake-try-'));

/** The server of the only intake. */
function serverPid(): number {
  const [directory = ''] = directories();
  return Number(readFileSync(join(scratch, directory, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function isRunning(pid: number): boolean {
  // A process that has ended, and that nobody waits for, is still listed.
  const status = `/proc/${pid}/status`;
  return existsSync(status) && !/^State:\s+Z/m.test(readFileSync(status, 'utf8'));
}

describe('a running intake', () => {
  let trying: Trying;
  beforeAll(async () => {
    trying = await startTry();
  });
  afterAll(async () => {
    const pid = serverPid();
    trying.command.signal('SIGINT');
    expect(await trying.command.ending(END_DEADLINE_MS)).toEqual({ code: 0, signal: null });
    expect(directories()).toEqual([]);
    await until('the server has ended', END_DEADLINE_MS, () => !isRunning(pid));
  });
  beforeEach(async () => {
    expect(await reset(trying)).toMatchObject({ status: 200, json: { last: 0, events: [] } });
  });

  test(`is ready within ${READY_WITHIN_S} s of its start, and says how long it took`, () => {
    const [, seconds] = /^promo-intake try is ready, after (\d+\.\d) s$/m.exec(trying.command.output()) ?? [];
    expect(Number(seconds)).toBeGreaterThan(0);
    expect(Number(seconds)).toBeLessThan(READY_WITHIN_S);
  });

  test('says at once that it starts', () => {
    expect(trying.command.output()).toMatch(/^starting a throwaway Postgres/);
  });

  test('decides the commands of its output, pasted into a shell twice', async () => {
    const commands = /^body=[\s\S]*?^curl .*$/m.exec(trying.command.output())?.[0] ?? '';
    const paste = () => promisify(execFile)('sh', ['-c', commands]);
    expect((await paste()).stdout).toContain('"event_id":"try-1","verdict":"accepted"');
    expect((await paste()).stdout).toContain('"verdict":"duplicate"');
    expect((await eventsOf(trying)).json.counts).toMatchObject({ accepted: 1, duplicate: 1 });
  });

  test('lists each event with verdict, reason, pointer, remedy and content, and filters them', async () => {
    const good = aBet({ event_id: 'good' });
    const bad = aBet({ event_id: 'bad', amount: '1,50' });
    await trying.send({ events: [good, bad, good] });
    const { json } = await eventsOf(trying);
    expect(json.counts).toEqual({
      accepted: 1,
      rejected: 1,
      skipped: 0,
      duplicate: 1,
      refused_requests: 0,
    });
    expect(json.events.map(({ no, event_id }) => [no, event_id])).toEqual([
      [1, 'good'],
      [2, 'bad'],
      [3, 'good'],
    ]);
    const { json: rejected } = await eventsOf(
      trying,
      '?verdict=rejected&reason=bad_amount&connection=acme-hook',
    );
    expect(rejected).toMatchObject({ matched: 1 });
    expect(rejected.events).toEqual([
      expect.objectContaining({
        verdict: 'rejected',
        reason: 'bad_amount',
        connection_id: CONNECTION,
        event: bad,
        kind: 'bet',
        remedy: expect.stringContaining('decimal'),
        needs_new_event_id: true,
        details: [expect.objectContaining({ field: '/amount', reason: 'bad_amount' })],
        sentence: expect.stringMatching(/^bet bad is rejected\/bad_amount\. /),
      }),
    ]);
    expect((await eventsOf(trying, '?after=1&limit=1')).json).toMatchObject({
      matched: 2,
      events: [{ no: 3, sentence: expect.stringContaining('is duplicate of accepted.') }],
    });
    expect((await eventsOf(trying, '?connection=other')).json.events).toEqual([]);
  });

  test('has a database that the other commands read, by the address of its output', async () => {
    const [, DATABASE_URL = ''] = /^ +database +(\S+)$/m.exec(trying.command.output()) ?? [];
    const tail = new RunningCommand(['tail', '--connection', CONNECTION], { DATABASE_URL });
    await until('tail follows', READY_DEADLINE_MS, () => tail.output().includes('following the verdicts'));
    await trying.send(aBet({ event_id: 'followed' }));
    await until('the verdict', READY_DEADLINE_MS, () => tail.output().includes('bet followed'));
    expect(tail.output()).not.toContain('warning');
    expect((await tail.stop(END_DEADLINE_MS)).code).toBe(0);
  });

  test('lists a refused request with the reason of its refusal', async () => {
    expect((await trying.send(aBet(), { secret: trySecretOf('other') })).status).toBe(401);
    const { json } = await read(`${trying.address}/try/refusals`);
    expect(json.refusals).toEqual([
      expect.objectContaining({
        status: 401,
        connection_id: CONNECTION,
        message: expect.stringMatching(/^signature_invalid: /),
      }),
    ]);
    expect(json.counts).toMatchObject({ refused_requests: 1 });
  });

  test.each([
    ['/try/events?verdict=rejcted', 400, 'did you mean rejected?'],
    ['/try/events?reason=bad_amout', 400, 'did you mean bad_amount?'],
    ['/try/events?verdct=rejected', 400, 'the parameters are verdict, reason, connection, after, limit'],
    ['/try/events?verdict=rejected&verdict=skipped', 400, 'give it once'],
    ['/try/events?limit=100000', 400, `up to ${MAX_LISTED_EVENTS}`],
    ['/try/events?after=x', 400, 'after is not a whole number'],
    ['/try/nothing', 404, 'the paths are'],
  ])('refuses GET %s with %i', async (path, status, message) => {
    const answered = await read(`${trying.address}${path}`);
    expect(answered).toMatchObject({ status, json: { message: expect.stringContaining(message) } });
  });

  test('forgets its events at a reset, so that each id and each signed request is new', async () => {
    const at = new Date();
    const bet = aBet();
    const signature = new Webhook(trySecretOf(CONNECTION)).sign('msg_fixed', at, JSON.stringify(bet));
    const headers = { 'webhook-id': 'msg_fixed', 'webhook-signature': signature };
    const send = () => trying.send(bet, { at, headers });
    expect((await send()).verdicts).toEqual(['accepted']);
    expect((await send()).verdicts).toEqual(['accepted']);
    expect((await trying.send(bet)).verdicts).toEqual(['duplicate of accepted']);
    await reset(trying);
    expect((await send()).verdicts).toEqual(['accepted']);
    expect((await eventsOf(trying)).json.counts).toMatchObject({ accepted: 1, duplicate: 0 });
  });

  test('refuses a reset that a page of another site sends, and one by GET', async () => {
    await trying.send(aBet());
    expect(await reset(trying, { 'sec-fetch-site': 'cross-site' })).toMatchObject({ status: 403 });
    expect(await read(`${trying.address}/try/reset`)).toMatchObject({ status: 405 });
    expect((await eventsOf(trying)).json.counts).toMatchObject({ accepted: 1 });
  });

  test('decides every request while it is reset again and again', async () => {
    let isOver = false;
    const resets = (async () => {
      for (let count = 0; !isOver; count++)
        expect([count, (await reset(trying)).status]).toEqual([count, 200]);
    })();
    const rounds = Array.from({ length: 12 }, (_, sender) => async () => {
      for (let request = 0; request < 8; request++) {
        const id = (place: number) => `${sender}-${request}-${place}`;
        const events = Array.from({ length: 20 }, (_, place) =>
          aBet({ event_id: id(place), round_id: `r-${place}` }),
        );
        let sent = await trying.send({ events });
        // A request that waits too long for its slot is sent again, as a client does.
        while (sent.status === 503 && sent.text.includes('no slot became free'))
          sent = await trying.send({ events });
        expect([sent.status, new Set(sent.verdicts)]).toEqual([200, new Set(['accepted'])]);
      }
    });
    try {
      await Promise.all(rounds.map((round) => round()));
    } finally {
      isOver = true;
      await resets;
    }
    await reset(trying);
    expect((await eventsOf(trying)).json).toMatchObject({ last: 0, listed: 0, matched: 0 });
  });

  test('lists no more than its bound, and keeps its memory, over thousands of large events', async () => {
    const before = memoryMib(trying);
    for (let request = 0; request < 24; request++) {
      const events = Array.from({ length: 500 }, (_, place) =>
        aBet({ event_id: `${request}-${place}`, round_id: `r-${place}`, note: 'x'.repeat(1_800) }),
      );
      expect((await trying.send({ events })).status).toBe(200);
    }
    const { json } = await eventsOf(trying, '?limit=5000');
    expect(json.counts).toMatchObject({ accepted: 12_000 });
    expect(Number(json.listed)).toBeLessThanOrEqual(MAX_LISTED_EVENTS);
    expect(json.events.at(-1)).toMatchObject({ no: 12_000 });
    expect(memoryMib(trying) - before).toBeLessThan(200);

    const large = aBet({ event_id: 'large', note: 'x'.repeat(900_000) });
    expect((await trying.send(large)).verdicts).toEqual(['accepted']);
    expect((await eventsOf(trying, '?after=12000')).json.events).toEqual([
      expect.objectContaining({ event_id: 'large', event: null, event_bytes: JSON.stringify(large).length }),
    ]);
    expect((await trying.send({ events: [aBet({ note: 'x'.repeat(2 ** 20) })] })).status).toBe(413);
  });

  test('gives hostile texts as JSON alone, and its page is the same for every event', async () => {
    const hostile = '</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e"\n\\';
    const page = await (await fetch(`${trying.address}/try`)).text();
    await trying.send(aBet({ event_id: hostile, player_ref: hostile, amount: '1,5' }));
    const answered = await fetch(`${trying.address}/try/events`);
    expect(answered.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(answered.headers.get('x-content-type-options')).toBe('nosniff');
    const listed: unknown = await answered.json();
    expect(listed).toMatchObject({ events: [{ event_id: hostile, event: { player_ref: hostile } }] });
    const again = await fetch(`${trying.address}/try`);
    expect(await again.text()).toBe(page);
    expect(again.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';/,
    );
    // Nothing inline, nothing from another address, and a script that writes text alone.
    expect(page).not.toMatch(/<script(?! src="\/try\/page\.js"><\/script>)|<style| on\w+=|https?:/);
    const script = await (await fetch(`${trying.address}/try/page.js`)).text();
    expect(script).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|setAttribute/);
  });

  test('is the webhook in all other paths: it rehearses, reconciles, and describes itself', async () => {
    const path = `/v1/rehearse/${CONNECTION}`;
    expect((await trying.send(aBet(), { path })).verdicts).toEqual(['accepted']);
    expect((await eventsOf(trying)).json).toMatchObject({ last: 0 });
    const asked = await trying.send(
      { events: [{ event_id: 'never' }] },
      { path: `/v1/reconcile/${CONNECTION}` },
    );
    expect([asked.status, asked.text]).toEqual([200, expect.stringContaining('never')]);
    expect((await fetch(`${trying.address}/readyz`)).status).toBe(200);
    expect((await fetch(`${trying.address}/v1/openapi.json`)).status).toBe(200);
  });
});

function memoryMib({ command }: Trying): number {
  const status = readFileSync(`/proc/${command.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

test('serves the connections of reference data that it is given', async () => {
  const file = join(scratch, 'own.yaml');
  writeFileSync(
    file,
    'operators: [{ id: own, connections: [{ id: own-hook, transport: webhook, brand: b }], brands: [{ id: b }] }]\n',
  );
  const { command, port } = await startTry('--reference', file);
  const send = senderTo(port, 'own-hook', trySecretOf('own-hook'));
  const { brand: _, ...bet } = aBet();
  expect((await send(bet)).verdicts).toEqual(['accepted']);
  expect((await command.stop(END_DEADLINE_MS)).code).toBe(0);
});

test('has the webhook of schemas/examples/reference.yaml where it is given no reference data', () => {
  const [example, own] = ['schemas/examples/reference.yaml', null].map((file) => {
    const text = file === null ? EXAMPLE_REFERENCE : readFileSync(join(ROOT, file), 'utf8');
    const parsed = parseReference(text, 'reference.yaml');
    return 'document' in parsed ? parsed.document.operators[0] : undefined;
  });
  const ofWebhook = example?.connections.filter(({ transport }) => transport === 'webhook');
  expect(own).toEqual({ ...example, connections: ofWebhook });
});

test.each([
  ['no YAML', ':', 'own.yaml:1:'],
  ['no webhook', 'operators: []', 'no connection has the transport webhook'],
])('with reference data that has %s ends with 2', async (_, text, problem) => {
  const file = join(scratch, 'own.yaml');
  writeFileSync(file, text);
  const command = new RunningCommand(['try', '--reference', file], { TMPDIR: scratch });
  expect([(await command.ending()).code, command.output()]).toEqual([2, expect.stringContaining(problem)]);
});

test('on a port that is taken ends with 1, names the remedy, and leaves nothing behind', async () => {
  const other = await serve(createServer());
  try {
    const command = new RunningCommand(['try', '--port', String(other.port)], { TMPDIR: scratch });
    expect((await command.ending()).code).toBe(1);
    expect(command.output()).toMatch(/--port cannot be served: .*EADDRINUSE.* Set it to a free port/);
    expect(directories()).toEqual([]);
  } finally {
    await other.close();
  }
});

test('that gets two signals at its start ends at once, and leaves nothing behind', async () => {
  const command = new RunningCommand(['try', '--port', '0'], { TMPDIR: scratch });
  await until('it has begun', READY_DEADLINE_MS, () => directories().length === 1);
  command.signal('SIGINT');
  command.signal('SIGTERM');
  const { signal } = await command.ending(END_DEADLINE_MS);
  expect([signal, directories()]).toEqual([null, []]);
});

test('that is killed leaves a server behind, which the next start ends and removes', async () => {
  const killed = await startTry();
  const [left] = directories();
  const pid = serverPid();
  await killed.command.kill();
  expect([directories(), isRunning(pid)]).toEqual([[left], true]);
  const next = await startTry();
  expect(directories()).toEqual([expect.not.stringMatching(`^${left}$`)]);
  await until('the server that was left has ended', END_DEADLINE_MS, () => !isRunning(pid));
  expect((await next.send(aBet())).verdicts).toEqual(['accepted']);
  expect((await next.command.stop(END_DEADLINE_MS)).code).toBe(0);
  expect(directories()).toEqual([]);
});

test('two at once do not disturb each other', async () => {
  const [one, two] = await Promise.all([startTry(), startTry()]);
  expect((await one.send(aBet())).verdicts).toEqual(['accepted']);
  expect((await one.command.stop(END_DEADLINE_MS)).code).toBe(0);
  expect((await two.send(aBet())).verdicts).toEqual(['accepted']);
  expect((await two.command.stop(END_DEADLINE_MS)).code).toBe(0);
});

test('whose server is lost ends with 1, and leaves nothing behind', async () => {
  const { command } = await startTry();
  process.kill(serverPid(), 'SIGKILL');
  expect((await command.ending(END_DEADLINE_MS)).code).toBe(1);
  expect(command.output()).toContain('the throwaway postgres has ended');
  expect(directories()).toEqual([]);
});
