/** The request of a wallet call: path, envelope, headers, signature. */
import { createHmac } from 'node:crypto';
import { readWalletRequest } from '../../../src/contract/envelope';
import { type CallProfile, fieldAt, successRuleOf } from '../../../src/wallet/profile';
import { buildRequest, opIdFault, pathOf, type WalletSend } from '../../../src/wallet/request';
import { A_SIGNING, aProfile } from '../../support/wallet';

const NOW = Date.UTC(2026, 10, 21, 12);
const noSecret = () => Buffer.from('');
const send = {
  action: 'debit',
  opId: 'op-1',
  requestId: 'r-1',
  payload: '{"meta":{"op_id":"op-1"}}',
} as const;
const profile = (more: Partial<CallProfile> = {}) => aProfile('https://wallet.example/base/', more);
const request = (more: Partial<CallProfile>, sent: WalletSend = send, secret = noSecret) =>
  buildRequest(profile(more), pathOf(profile(more), sent.action), sent, NOW, secret);

describe('the request', () => {
  test('has the envelope, and the payload byte for byte', () => {
    const payload = '{"amount":12345678901234567890.10,"meta":{"op_id":"op-1"}}';
    const { url, body } = request({}, { ...send, payload });
    expect(url.href).toBe('https://wallet.example/base/v2/wallet/debit');
    expect(body).toBe(
      `{"request_id":"r-1","ts":"2026-11-21T12:00:00.000Z","operator_id":"acme","payload":${payload}}`,
    );
    expect(readWalletRequest(JSON.parse(body)).type).toBe('request');
  });

  test.each([
    ['rfc3339', '2026-11-21T12:00:00.000Z'],
    ['unix_ms', NOW],
    ['unix_s', NOW / 1_000],
  ] as const)('has a ts in the form %s', (ts, expected) => {
    expect(JSON.parse(request({ ts }).body).ts).toBe(expected);
  });

  test('has the headers of the contract, and no signature without signing', () => {
    expect(request({}).headers).toEqual({
      'content-type': 'application/json',
      accept: 'application/json',
      'accept-encoding': 'identity',
      'x-api-key-id': 'key-id-7',
      'x-request-id': 'r-1',
      'idempotency-key': 'op-1',
    });
  });

  test('is signed over the content that the profile names', () => {
    const signing = {
      ...A_SIGNING,
      prefix: 'v1=',
      timestampHeader: 'X-Timestamp',
      content: '{{timestamp}}.{{ method }}.{{path}}.{{request_id}}.{{body}}',
    };
    const { headers, body } = request({ signing }, send, () => Buffer.from('key'));
    const content = `${NOW / 1_000}.POST./base/v2/wallet/debit.r-1.${body}`;
    expect(headers['x-timestamp']).toBe(String(NOW / 1_000));
    expect(headers['x-signature']).toBe(`v1=${createHmac('sha256', 'key').update(content).digest('hex')}`);
  });

  test('has the headers of the profile, by their lower-case names', () => {
    expect(request({ headers: new Map([['X-Tenant', 'a']]) }).headers).toMatchObject({ 'x-tenant': 'a' });
  });

  test('is signed by each scheme', () => {
    const signing = { ...A_SIGNING, scheme: 'hmac-sha512', encoding: 'base64' } as const;
    const { headers, body } = request({ signing }, send, () => Buffer.from('key'));
    expect(headers['x-signature']).toBe(createHmac('sha512', 'key').update(body).digest('base64'));
  });

  test('is refused for an action that the profile does not have', () => {
    expect(() => request({}, { ...send, action: 'notify' })).toThrow(
      'the profile has no notify: add it under actions',
    );
  });
});

describe('a reply', () => {
  const ruleOf = (field: string, values: readonly string[]) =>
    successRuleOf({ answers: { balance: 'b', success: { field, values }, changing: [] } });

  test('is a success where the named field has one of the named values', () => {
    const rule = ruleOf('result.code', ['0', 'DONE']);
    for (const [code, expected] of [
      [0, true],
      ['0', true],
      ['DONE', true],
      ['done', false],
      [1, false],
    ] as const)
      expect(rule({ result: { code } }, 'debit')).toBe(expected);
    expect(rule({}, 'debit')).toBe(false);
  });

  test('is a success by its status where the profile names no field', () => {
    const rule = successRuleOf({ answers: { balance: 'b', success: null, changing: [] } });
    expect([rule({ status: 'done' }, 'debit'), rule({ status: 'error' }, 'debit')]).toEqual([true, false]);
  });

  test('has each field at its path, and nothing of a prototype', () => {
    expect(fieldAt({ data: { balance: '10.50' } }, 'data.balance')).toBe('10.50');
    expect(fieldAt({ data: [] }, 'data.length')).toBeUndefined();
    expect(fieldAt({}, '__proto__.x')).toBeUndefined();
    expect(fieldAt({}, 'constructor.name')).toBeUndefined();
  });
});

test.each(['', 'a b', 'a\nb', 'ä', 'x'.repeat(201), 'op.rollback', 'op.reconcile'])(
  'no call has the op_id %j',
  (opId) => {
    expect(opIdFault(opId)).toBeDefined();
  },
);
