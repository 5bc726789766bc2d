/** The runner with a wallet in memory: effects, retries, limits, interruption, and reports without tokens. */
import type { WalletAction } from '../../../src/contract/actions';
import { parseJson } from '../../../src/lib/json';
import type { WalletAnswer, WalletReply } from '../../../src/wallet/answer';
import { type ActionProfile, fieldAt, type WalletProfile } from '../../../src/wallet/profile';
import { describeExpectation, isExpected, percentile } from '../../../src/wallet-check/judge';
import { jsonReport, junitReport, textReport } from '../../../src/wallet-check/report';
import { runScenarios, type ScenarioResult } from '../../../src/wallet-check/runner';
import {
  credit,
  debit,
  type Expectation,
  moved,
  oneAnswer,
  refused,
  type Scenario,
  type Step,
  sendOne,
} from '../../../src/wallet-check/scenario';
import type { WalletTransport } from '../../../src/wallet-check/transport';

const TOKEN = 'token-<of>-the-player';
const action = (path: string): ActionProfile => ({
  path,
  enumField: null,
  payload: { meta: { op_id: '{{op_id}}' }, player: '{{player}}', token: '{{token}}', amount: '{{amount}}' },
});

const PROFILE: WalletProfile = {
  baseUrl: 'http://wallet',
  operatorId: 'acme',
  keyId: 'k',
  idempotencyHeader: 'i',
  headers: new Map(),
  ts: 'rfc3339',
  amounts: 'minor',
  game: 'g',
  signing: null,
  unsupported: new Map(),
  connections: 2,
  catalogue: null,
  tokenEndpoint: null,
  actions: new Map<WalletAction, ActionProfile>([
    ['balance', action('/balance')],
    ['debit', action('/debit')],
    ['credit', action('/credit')],
  ]),
  answers: { balance: 'balance', success: null, changing: [] },
  players: new Map([['usual', { id: 'p', token: TOKEN, currency: 'EUR', exponent: 2, earlierBet: null }]]),
  limits: { requests: 100, seconds: 60 },
};

const reply = (body: unknown, status = 200): WalletReply => ({
  type: 'http',
  status,
  headers: {},
  ms: 3,
  body: Buffer.from(JSON.stringify(body)),
});
const failed = (code: string) => reply({ status: 'error', error: { code } });

/** A wallet that keeps a balance, and answers by `special` first. */
function walletInMemory(special: (path: string, payload: string, calls: number) => WalletReply | undefined) {
  let [balance, calls] = [1_000n, 0];
  const transport: WalletTransport = {
    call: ({ path, payload }) => {
      const answer = special(path, payload, ++calls);
      if (answer !== undefined) return Promise.resolve(answer);
      const amount = BigInt(String(fieldAt(parseJson(payload), 'amount') ?? 0));
      if (path !== '/balance') balance += path === '/debit' ? -amount : amount;
      return Promise.resolve(reply({ status: 'ok', balance: String(balance) }));
    },
  };
  return { transport, calls: () => calls };
}

const scenario = (...steps: readonly Step[]): Scenario => ({
  id: 'a-scenario',
  rule: '8: a rule',
  must: 'It holds.',
  steps,
});

function run(
  scenarios: readonly Scenario[],
  transport: WalletTransport,
  change: Partial<WalletProfile> = {},
  stop: AbortSignal = new AbortController().signal,
): Promise<ScenarioResult[]> {
  let now = 0;
  const clock = { now: () => ++now, sleep: () => Promise.resolve() };
  const profile = { ...PROFILE, ...change };
  return runScenarios(scenarios, { profile, transport, clock, run: 'run', stop, progress: () => undefined });
}

const none = () => undefined;

test('effects are compared with the balance at the start [O8]', async () => {
  const steps = [
    sendOne(debit('bet')),
    moved(-100n),
    sendOne(credit('win', undefined, { amount: 30n })),
    moved(-70n),
  ];
  expect(await run([scenario(...steps)], walletInMemory(none).transport)).toMatchObject([
    { status: 'passed', problems: [], requests: 5 },
  ]);
});

test('a wrong effect says the change, and the change that had to be', async () => {
  const results = await run([scenario(sendOne(debit('bet')), moved(-99n))], walletInMemory(none).transport);
  expect(results).toMatchObject([
    {
      status: 'failed',
      problems: [{ came: expect.stringContaining('changed by -100'), expected: 'a change by -99' }],
    },
  ]);
});

test('a call is sent again where the wallet asks for a retry, and not for ever', async () => {
  const once = walletInMemory((_, __, calls) => (calls === 1 ? failed('ERROR_CODE_MAINTENANCE') : undefined));
  expect(await run([scenario(sendOne(debit('bet')))], once.transport)).toMatchObject([
    { status: 'passed', requests: 2 },
  ]);
  const always = walletInMemory(() => failed('ERROR_CODE_MAINTENANCE'));
  expect(await run([scenario(sendOne(debit('bet')))], always.transport)).toMatchObject([
    { status: 'failed', requests: 4 },
  ]);
});

test('answers to one op_id have to be equal, but for the fields that the profile names [O8]', async () => {
  const steps = [sendOne(debit('bet')), sendOne(debit('bet')), oneAnswer('bet')];
  expect(await run([scenario(...steps)], walletInMemory(none).transport)).toMatchObject([
    { status: 'failed' },
  ]);
  const answers = { ...PROFILE.answers, changing: ['balance'] };
  expect(await run([scenario(...steps)], walletInMemory(none).transport, { answers })).toMatchObject([
    { status: 'passed' },
  ]);
});

test('no more requests are sent than the profile allows [O9]', async () => {
  const wallet = walletInMemory(none);
  const many = Array.from({ length: 10 }, () => scenario(sendOne(debit('bet')), sendOne(debit('other'))));
  const results = await run(many, wallet.transport, { limits: { requests: 5, seconds: 60 } });
  expect(wallet.calls()).toBe(5);
  expect(results.map(({ status }) => status)).toEqual([
    ...Array(2).fill('passed'),
    ...Array(8).fill('not_run'),
  ]);
  expect(results.at(-1)?.reason).toContain('limits.requests');
});

test('no scenario begins after the time of the profile [O9]', async () => {
  const wallet = walletInMemory(none);
  const many = Array.from({ length: 3_000 }, () => scenario(sendOne(debit('bet'))));
  const results = await run(many, wallet.transport, { limits: { requests: 20_000, seconds: 1 } });
  expect(wallet.calls()).toBeLessThan(1_000);
  expect(results.at(-1)).toMatchObject({
    status: 'not_run',
    reason: expect.stringContaining('limits.seconds'),
  });
});

test('an interruption ends the check, and is no failure of the wallet [O9]', async () => {
  const stop = new AbortController();
  const wallet = walletInMemory(() => {
    stop.abort();
    return { type: 'nothing', cause: 'interrupted' };
  });
  const results = await run([scenario(sendOne(debit('bet'))), scenario()], wallet.transport, {}, stop.signal);
  expect(results.map(({ status }) => status)).toEqual(['not_run', 'not_run']);
  expect(wallet.calls()).toBe(1);
});

test('a scenario without its player, action or place is not run, and says why [O9]', async () => {
  const scenarios = [
    scenario(sendOne(debit('bet', undefined, { player: 'blocked' }))),
    scenario(sendOne({ ...debit('bet'), action: 'close_round' })),
    scenario(sendOne(debit('bet', undefined, { currency: 'XTS' }))),
  ];
  const wallet = walletInMemory(none);
  expect((await run(scenarios, wallet.transport)).map(({ reason }) => reason)).toEqual([
    'the profile has no player "blocked"',
    'the profile has no action "close_round"',
    'the payload of "debit" has no {{currency}}',
  ]);
  expect(wallet.calls()).toBe(0);
});

test('a value that the payload cannot hold as a number is the reason why a scenario is not run [O9]', async () => {
  const actions = new Map(PROFILE.actions).set('debit', {
    ...action('/debit'),
    payload: { meta: { op_id: '{{op_id}}' }, player: '{{player|number}}', amount: '{{amount}}' },
  });
  const wallet = walletInMemory(none);
  expect(await run([scenario(sendOne(debit('bet')))], wallet.transport, { actions })).toMatchObject([
    {
      status: 'not_run',
      reason: 'the payload of "debit" cannot be written: the value player is not a number',
    },
  ]);
  expect(wallet.calls()).toBe(0);
});

test('no report holds a token, and JUnit is well-formed text [O10]', async () => {
  const wallet = walletInMemory(() => reply({ status: 'ok', token: TOKEN, bad: '\u0000<&"' }, 500));
  const results = await run([scenario(sendOne(debit('bet')))], wallet.transport);
  for (const report of [textReport(results), jsonReport(results), junitReport(results)]) {
    expect(report).not.toContain('of>-the-player');
    expect(report).not.toContain('of&gt;-the-player');
    expect(report).toContain('(token)');
  }
  const junit = junitReport(results);
  expect(junit).toMatch(/tests="1" failures="1" errors="0" skipped="0"/);
  expect(junit.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
});

test('no report holds a part of a token, where a long reply is cut off [O10]', async () => {
  for (let length = 560; length < 600; length++) {
    const body = { pad: 'x'.repeat(length), token: TOKEN };
    const wallet = walletInMemory(() => reply(body, 500));
    const results = await run([scenario(sendOne(debit('bet')))], wallet.transport);
    expect(jsonReport(results)).toContain('xxx');
    expect(jsonReport(results)).not.toMatch(/token\\":\\"t/);
  }
});

test('no report holds a token whose slashes are escaped [O10]', async () => {
  const token = 'c2Vz/c2lvbg';
  const written = JSON.stringify({ status: 'ok', token }).replaceAll('/', String.raw`\/`);
  const wallet = walletInMemory(() => ({
    type: 'http',
    status: 500,
    headers: {},
    ms: 3,
    body: Buffer.from(written),
  }));
  const results = await run([scenario(sendOne(debit('bet')))], wallet.transport, {
    players: new Map([['usual', { id: 'p', token, currency: 'EUR', exponent: 2, earlierBet: null }]]),
  });
  expect(jsonReport(results)).toContain('(token)');
  expect(jsonReport(results)).not.toContain('c2lvbg');
});

test('a refusal is expected by its code alone [O8]', () => {
  const expected = refused('ERROR_CODE_PLAYER_BLOCKED');
  expect(isExpected(expected, { type: 'refused', code: 'ERROR_CODE_PLAYER_BLOCKED' })).toBe(true);
  expect(isExpected(expected, { type: 'refused', code: 'ERROR_CODE_INTERNAL' })).toBe(false);
  expect(isExpected(expected, { type: 'ok', body: {} })).toBe(false);
  expect(describeExpectation(expected)).toBe('a refusal with ERROR_CODE_PLAYER_BLOCKED');
});

test('each expectation allows its own answers and no others [O8]', () => {
  const codes = ['ERROR_CODE_PLAYER_BLOCKED'] as const;
  const answers: Readonly<Record<string, WalletAnswer>> = {
    ok: { type: 'ok', body: {} },
    named: { type: 'refused', code: 'ERROR_CODE_PLAYER_BLOCKED' },
    another: { type: 'refused', code: 'ERROR_CODE_INVALID_REQUEST' },
    retry: { type: 'retry', code: 'ERROR_CODE_INTERNAL', retryAfterMs: null },
    bare: { type: 'no_answer', cause: 'bare_status', status: 401, code: null, retryAfterMs: null },
    silence: { type: 'no_answer', cause: 'timeout', status: null, code: null, retryAfterMs: null },
  };
  const allowed = (expected: Expectation) =>
    Object.keys(answers).filter((name) => isExpected(expected, answers[name]!));
  expect(allowed({ type: 'ok' })).toEqual(['ok']);
  expect(allowed({ type: 'refused', codes })).toEqual(['named']);
  expect(allowed({ type: 'ok_or_refused', codes })).toEqual(['ok', 'named']);
  expect(allowed({ type: 'not_ok' })).toEqual(['named', 'another', 'bare']);
  expect(allowed({ type: 'never', codes })).toEqual(['ok', 'another']);
  expect(allowed({ type: 'unread' })).toEqual(Object.keys(answers));
});

test('percentiles are of the times that came', () => {
  expect(percentile([], 0.5)).toBe(0);
  expect(percentile([3, 1, 2], 0.5)).toBe(2);
  expect(
    percentile(
      Array.from({ length: 100 }, (_, i) => i + 1),
      0.99,
    ),
  ).toBe(99);
});
