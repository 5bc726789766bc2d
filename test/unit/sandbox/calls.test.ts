/** The sandbox's answers before any state: signatures, ordered faults, launches that come again, bodies. */

import { SERVICE_ERROR_NAMES, serviceError } from '../../../src/contract/service-errors';
import { orderedError, refuse, success } from '../../../src/sandbox/answers';
import { authenticate, type KnownKeys, signCall, whyForbidden } from '../../../src/sandbox/authentication';
import type { SandboxOperator } from '../../../src/sandbox/config-file';
import { repeatedLaunch, type SandboxSession } from '../../../src/sandbox/launch';
import { hashOf } from '../../../src/sandbox/operations';
import { readDelayOrder, readFaultOrder } from '../../../src/sandbox/ordered-faults';
import { readLaunch, readPlay } from '../../../src/sandbox/requests';
import { SANDBOX_ROUTES } from '../../../src/sandbox/routes';
import { parseErrorBody, serviceErrorOf } from '../../support/read-error-body';

const NOW = 1_795_740_000_000;
const operator: SandboxOperator = {
  id: 'acme',
  isActive: true,
  keys: [],
  players: null,
  brands: null,
  walletFile: null,
  intake: null,
};
const key = { id: 'k', isReadOnly: false, secretFile: '' };
const keys: KnownKeys = new Map([['k', { operator, key, secret: 's' }]]);

const call = (timestamp: string, more: Record<string, string | string[] | undefined> = {}) => {
  const signed = { method: 'POST', path: '/p?q=1', body: Buffer.from('{}') };
  const headers = {
    'x-api-key-id': 'k',
    'x-timestamp': timestamp,
    'x-signature': signCall('s', timestamp, signed),
  };
  return { ...signed, headers: { ...headers, ...more } };
};
const at = (seconds: number) => String(NOW / 1_000 + seconds);
const answered = (result: object) =>
  'body' in result && typeof result.body === 'string'
    ? JSON.parse(result.body).message.split(':')[0]
    : 'known';

describe('a signature', () => {
  test.each([
    [-300, 'known'],
    [300, 'known'],
    [-301, 'signature_stale'],
    [301, 'signature_stale'],
  ])('whose time differs by %i s is %s [O12]', (seconds, expected) => {
    expect(answered(authenticate(call(at(seconds)), keys, NOW))).toBe(expected);
  });

  test.each<[string, Record<string, string | string[] | undefined>, string]>([
    ['key', { 'x-api-key-id': undefined }, 'unauthorized'],
    ['known key', { 'x-api-key-id': 'other' }, 'unauthorized'],
    ['signature', { 'x-signature': undefined }, 'signature_missing'],
    ['single signature', { 'x-signature': ['a', 'b'] }, 'signature_missing'],
    ['time', { 'x-timestamp': '' }, 'signature_missing'],
    ['right signature', { 'x-signature': '0'.repeat(64) }, 'signature_invalid'],
    ['whole signature', { 'x-signature': '0' }, 'signature_invalid'],
  ])('without a %s has a token of its own [O12]', (_, headers, token) => {
    expect(answered(authenticate(call(at(0), headers), keys, NOW))).toBe(token);
  });

  test.each([
    ['method', { method: 'PUT' }],
    ['path', { path: '/p?q=2' }],
    ['body', { body: Buffer.from('{ }') }],
  ])('of another %s is invalid [O12]', (_, more) => {
    expect(answered(authenticate({ ...call(at(0)), ...more }, keys, NOW))).toBe('signature_invalid');
  });

  test('of a suspended operator, or of a read-only key on a write, is forbidden [O12]', () => {
    const suspended = { operator: { ...operator, isActive: false }, key };
    const reader = { operator, key: { ...key, isReadOnly: true } };
    expect([suspended, reader].map((caller) => whyForbidden(caller, true)?.status)).toEqual([403, 403]);
    expect([suspended, reader].map((caller) => whyForbidden(caller, false)?.status)).toEqual([
      403,
      undefined,
    ]);
    expect(whyForbidden({ operator, key }, true)).toBeUndefined();
  });
});

describe('an error', () => {
  test.each(SERVICE_ERROR_NAMES)('that is ordered is the row %s of the contract [O15]', (name) => {
    const { status, body, headers } = orderedError(name, undefined);
    const read = parseErrorBody(body);
    if (read.type !== 'error') throw new Error(read.problem);
    const row = serviceError(name);
    expect([status, read.body.code, read.body.isRetryable]).toEqual([
      row.status,
      row.codes[0],
      row.isRetryable,
    ]);
    expect(read.body.message).toMatch(/\(sandbox\)$/);
    expect(serviceErrorOf(status, read.body)).toBe(name);
    expect(headers['retry-after']).toBe(row.isRetryable ? '1' : undefined);
  });

  test('and a success say sandbox [O15]', () => {
    expect(JSON.parse(refuse('forbidden', 'why').body).message).toBe('forbidden: why (sandbox)');
    expect(JSON.parse(success({ n: 1 }).body)).toEqual({ sandbox: true, n: 1 });
  });
});

describe('an order', () => {
  const always = { times: null, isAfter: false, token: undefined };

  test.each<[string | undefined, object]>([
    [undefined, { order: null }],
    ['provider_timeout', { order: { ...always, name: 'provider_timeout' } }],
    ['game_unavailable', { order: { ...always, name: 'not_allowed', token: 'game_unavailable' } }],
    ['internal ; times = 3;after', { order: { ...always, name: 'internal', times: 3, isAfter: true } }],
    ['nothing', { problem: expect.stringContaining('names no error') }],
    ['internal; times=101', { problem: expect.stringContaining('unknown option') }],
    ['internal; before', { problem: expect.stringContaining('unknown option') }],
  ])('of %s is read', (header, expected) => {
    expect(readFaultOrder(header)).toEqual(expected);
  });

  test.each([
    ['0', { order: 0 }],
    ['30000', { order: 30_000 }],
    ['30001', { problem: expect.any(String) }],
    ['-1', { problem: expect.any(String) }],
  ])('of a delay of %s ms is read', (header, expected) => {
    expect(readDelayOrder(header)).toEqual(expected);
  });
});

describe('a launch that comes again', () => {
  const session: SandboxSession = {
    sessionId: 's',
    operatorId: 'acme',
    token: 't',
    player: 'p',
    game: 'g',
    currency: 'EUR',
    brand: null,
    promoPlayerRef: null,
    state: 'open',
    launchNo: 1,
    until: NOW + 1,
  };
  const request = { token: 't', player: 'p', game: 'g', currency: 'EUR' };
  const stepOf = (more: Partial<SandboxSession>, other: object = {}) => {
    const step = repeatedLaunch({ ...session, ...more }, { ...request, ...other }, NOW);
    return step.type === 'answer' ? step.answer.status : step.type;
  };

  test.each<[string, Partial<SandboxSession>, object, number | string]>([
    ['the same session', {}, {}, 200],
    ['a conflict for another player', {}, { player: 'q' }, 409],
    ['a conflict for another game', {}, { game: 'h' }, 409],
    ['a conflict for another currency', {}, { currency: 'USD' }, 409],
    ['a conflict after it was closed', { state: 'closed' }, {}, 409],
    ['a conflict after it expired', { state: 'expired' }, {}, 409],
    ['a conflict at its end', { until: NOW }, {}, 409],
    ['a retry while the first runs', { state: 'launching' }, {}, 503],
    ['a conflict for another game while the first runs', { state: 'launching' }, { game: 'h' }, 409],
    [
      'another launch where the process of the first is gone',
      { state: 'launching', until: NOW },
      {},
      'launch_again',
    ],
  ])('gives %s [O13]', (_, more, other, expected) => {
    expect(stepOf(more, other)).toBe(expected);
  });
});

describe('a body', () => {
  test('with all faults at once is refused', () => {
    const read = readLaunch({ token: '', game: 7, currency: 'XXX', attributes: { promo_player_ref: 'a b' } });
    const problem = 'problem' in read ? read.problem : '';
    for (const part of [
      "'player'",
      'token',
      'game',
      'currency',
      'InvalidArgument: attributes.promo_player_ref',
    ])
      expect(problem).toContain(part);
  });

  test('that has more fields is taken', () => {
    expect(readPlay({ session_id: 's-1', bets: ['1'], more: 1 })).toHaveProperty('value');
  });

  test('has one hash in whatever order its fields come', () => {
    expect(hashOf({ a: 1, b: [{ c: 2, d: null }] })).toBe(hashOf({ b: [{ d: null, c: 2 }], a: 1 }));
    expect(hashOf({ a: 1 })).not.toBe(hashOf({ a: '1' }));
    expect(hashOf([1, 2])).not.toBe(hashOf([2, 1]));
  });
});

test('each operation has one path under a prefix of the contract, and the controls have their own', () => {
  const paths = SANDBOX_ROUTES.map(({ path }) => path);
  expect(new Set(paths).size).toBe(33);
  expect(paths.filter((path) => /^\/v2\/(aggregator|features)\/[a-zA-Z]+$/.test(path))).toHaveLength(30);
  expect(paths.filter((path) => path.startsWith('/sandbox/'))).toHaveLength(3);
});

test('these calls write, so a read-only key may not make them', () => {
  const writes = SANDBOX_ROUTES.filter(({ isWrite }) => isWrite).map(({ operation }) => operation);
  expect(writes).toEqual([
    ...[
      'updateGame',
      'launchGame',
      'launchDemo',
      'closeSession',
      'issueGrant',
      'cancelGrant',
      'subscribe',
      'ack',
    ],
    ...['issueBonusBuy', 'cancelBonusBuy', 'cancelCampaign', 'endSession', 'playRound'],
  ]);
});
