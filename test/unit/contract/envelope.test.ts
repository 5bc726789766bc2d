import Ajv2020 from 'ajv/dist/2020';
import fc from 'fast-check';
import { inRun } from '../../../dev/long-run';
import {
  readWalletRequest,
  WALLET_FAILURE_SCHEMA,
  WALLET_REQUEST_SCHEMA,
  walletFailure,
} from '../../../src/contract/envelope';
import { ERROR_CODES } from '../../../src/contract/error-codes';

const ajv = new Ajv2020({ allowUnionTypes: true });
const matchesRequest = ajv.compile(WALLET_REQUEST_SCHEMA);
const matchesFailure = ajv.compile(WALLET_FAILURE_SCHEMA);

const aCall = (more: object = {}) => ({
  request_id: 'r1',
  ts: 1,
  operator_id: 'acme',
  payload: { meta: { op_id: 'o1' } },
  ...more,
});

test('a call keeps fields that nobody knows, at every level', () => {
  const text =
    '{"request_id":"r1","ts":"now","operator_id":"acme","__proto__":{"x":1},"payload":{"meta":{"op_id":"o1","try":2},"amount":"1.00"},"more":[1]}';
  const read = readWalletRequest(JSON.parse(text));
  expect(read.type === 'request' && JSON.stringify(read.request)).toBe(text);
});

test.each<[string, unknown, readonly string[]]>([
  ['no object', [], ['the body is no JSON object']],
  ['an empty op_id', aCall({ payload: { meta: { op_id: '' } } }), ['payload.meta.op_id is no text']],
  ['a ts that is null', aCall({ ts: null }), ['ts is neither a text nor a number']],
  [
    'nothing at all',
    {},
    [
      ...['request_id is no text', 'ts is neither a text nor a number', 'operator_id is no text'],
      ...['payload is no object', 'payload.meta is no object', 'payload.meta.op_id is no text'],
    ],
  ],
])('a call with %s has all its faults at once', (_, value, faults) => {
  expect(readWalletRequest(value)).toEqual({ type: 'malformed', faults });
  expect(matchesRequest(value)).toBe(false);
});

test('the reader and the published schema agree', () => {
  const field = fc.oneof(fc.constantFrom('', 'x', 0, null), fc.jsonValue());
  const part = fc.oneof(field, fc.record({ meta: fc.oneof(field, fc.record({ op_id: field })) }));
  const record = fc.record(
    { request_id: field, ts: field, operator_id: field, payload: part },
    { requiredKeys: [] },
  );
  const nearly = fc.tuple(record, fc.subarray(['request_id', 'ts', 'operator_id', 'payload'])).map(
    // Valid but for the chosen fields.
    ([broken, keys]) => ({
      ...aCall(),
      ...Object.fromEntries(keys.map((key) => [key, Reflect.get(broken, key)])),
    }),
  );
  fc.assert(
    fc.property(fc.oneof(record, nearly, fc.jsonValue()), (given) => {
      const value: unknown = JSON.parse(JSON.stringify(given));
      return (readWalletRequest(value).type === 'request') === matchesRequest(value);
    }),
    { numRuns: inRun({ usual: 300, long: 20_000 }) },
  );
});

test('a failure of each code matches the published schema', () => {
  for (const code of ERROR_CODES) {
    expect(JSON.stringify(walletFailure(code))).toBe(`{"status":"error","error":{"code":"${code}"}}`);
    expect(matchesFailure(walletFailure(code))).toBe(true);
  }
});
