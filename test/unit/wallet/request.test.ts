/** The request of a wallet call: payload, envelope, headers, signature, and the faults of a profile. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { readWalletRequest } from '../../../src/contract/envelope';
import { balanceIn, type CallProfile, renderPayload, successRuleOf } from '../../../src/wallet/profile';
import { buildRequest, opIdFault, profileFaults } from '../../../src/wallet/request';
import { aProfile } from '../../support/wallet';

const NOW = Date.UTC(2026, 10, 21, 12);
const noSecret = () => Buffer.from('');
const send = {
  action: 'debit',
  opId: 'op-1',
  requestId: 'r-1',
  payload: '{"meta":{"op_id":"op-1"}}',
} as const;
const profile = (more: Partial<CallProfile> = {}) => aProfile('https://wallet.example/base/', more);

describe('the payload', () => {
  const template = {
    path: '/x',
    payload: {
      text: 'player {{player}} in {{currency}}',
      amount: '{{number:amount}}',
      as_text: '{{amount}}',
      nested: [{ round: '{{round}}' }, 1, true, null],
      meta: { op_id: 'not this one', session: '{{round}}' },
    },
  };
  const values = { player: 'p"1', currency: 'EUR', amount: '9223372036854775807', round: 'r' };

  test('has each value at its place, numbers of any length, and always the op_id', () => {
    expect(renderPayload(template, 'op-1', values)).toEqual({
      type: 'payload',
      json: '{"text":"player p\\"1 in EUR","amount":9223372036854775807,"as_text":"9223372036854775807","nested":[{"round":"r"},1,true,null],"meta":{"op_id":"op-1","session":"r"}}',
    });
  });

  test('is refused with all missing values and wrong numbers at once', () => {
    expect(renderPayload(template, 'op-1', { player: 'p', amount: '1,5' })).toEqual({
      type: 'malformed',
      faults: [
        'the payload needs the value currency, which the call does not have',
        'the value amount is not a number',
        'the payload needs the value round, which the call does not have',
      ],
    });
  });

  test('stays JSON of the same form, whatever a value contains', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (player, round) => {
        const rendered = renderPayload(template, 'op-1', { ...values, player, round });
        if (rendered.type !== 'payload') throw new Error('no payload');
        const read = JSON.parse(rendered.json);
        expect(read.text).toBe(`player ${player} in EUR`);
        expect(read.nested).toEqual([{ round }, 1, true, null]);
        expect(Object.keys(read)).toEqual(['text', 'amount', 'as_text', 'nested', 'meta']);
      }),
    );
  });
});

describe('the request', () => {
  test('has the envelope, and the payload byte for byte', () => {
    const payload = '{"amount":12345678901234567890.10,"meta":{"op_id":"op-1"}}';
    const { url, body } = buildRequest(profile(), { ...send, payload }, NOW, noSecret);
    expect(url.href).toBe('https://wallet.example/base/v2/wallet/debit');
    expect(body).toBe(
      `{"request_id":"r-1","ts":"2026-11-21T12:00:00.000Z","operator_id":"acme","payload":${payload}}`,
    );
    expect(readWalletRequest(JSON.parse(body)).type).toBe('request');
  });

  test.each([
    ['iso', '2026-11-21T12:00:00.000Z'],
    ['milliseconds', NOW],
    ['seconds', NOW / 1_000],
  ] as const)('has a ts in the form %s', (ts, expected) => {
    expect(JSON.parse(buildRequest(profile({ ts }), send, NOW, noSecret).body).ts).toBe(expected);
  });

  test('has the headers of the contract, and no signature without signing', () => {
    expect(buildRequest(profile(), send, NOW, noSecret).headers).toEqual({
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
      ...({ type: 'hmac', hash: 'sha256', encoding: 'hex', header: 'X-Signature', prefix: 'v1=' } as const),
      timestampHeader: 'X-Timestamp',
      content: '{{timestamp}}.{{method}}.{{path}}.{{request_id}}.{{body}}.{{other}}',
    };
    const { headers, body } = buildRequest(profile({ signing }), send, NOW, () => Buffer.from('key'));
    const content = `${NOW / 1_000}.POST./base/v2/wallet/debit.r-1.${body}.{{other}}`;
    expect(headers['x-timestamp']).toBe(String(NOW / 1_000));
    expect(headers['x-signature']).toBe(`v1=${createHmac('sha256', 'key').update(content).digest('hex')}`);
  });

  test('is refused for an action that the profile does not have', () => {
    expect(() => buildRequest(profile(), { ...send, action: 'notify' }, NOW, noSecret)).toThrow(
      'the profile has no notify: add it under actions',
    );
  });
});

describe('a reply', () => {
  test('is a success where the named field has the named value', () => {
    const rule = successRuleOf(profile({ success: { field: ['result', 'code'], is: 0 } }));
    expect(rule?.({ result: { code: 0 } }, 'debit')).toBe(true);
    expect(rule?.({ result: { code: '0' } }, 'debit')).toBe(false);
    expect(rule?.({}, 'debit')).toBe(false);
    expect(successRuleOf(profile({ success: null }))).toBeUndefined();
  });

  test('has the balance at its place', () => {
    expect(balanceIn(profile(), { data: { balance: '10.50' } })).toBe('10.50');
    expect(balanceIn(profile(), { data: [] })).toBeNull();
    expect(balanceIn(profile({ balance: null }), { data: { balance: 1 } })).toBeNull();
    expect(balanceIn(profile({ balance: ['__proto__', 'x'] }), {})).toBeNull();
  });
});

describe('a profile', () => {
  test('without faults has none', () => {
    expect(profileFaults(profile())).toEqual([]);
    expect(profileFaults(aProfile('http://127.0.0.1:1'))).toEqual([]);
  });

  test('with all faults reports them at once', () => {
    const faults = profileFaults(
      profile({
        baseUrl: 'http://me:secret@wallet.example/?a=1',
        environment: 'production',
        keyId: 'k\r\nx: y',
        idempotencyHeader: 'X-Request-Id',
        signing: {
          ...{ type: 'hmac', hash: 'sha256', encoding: 'hex', header: 'a b', prefix: '', content: '' },
          timestampHeader: null,
        },
        actions: { debit: { path: 'v2?x', payload: {} } },
        connections: 1,
      }),
    );
    expect(faults).toHaveLength(8);
    expect(faults.join('\n')).not.toContain('secret@');
  });

  test.each(['', 'a b', 'a\nb', 'ä', 'x'.repeat(201), 'op.rollback', 'op.reconcile'])(
    'sends no call with the op_id %j',
    (opId) => {
      expect(opIdFault(opId)).toBeDefined();
    },
  );
});
