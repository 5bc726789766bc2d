import Ajv2020 from 'ajv/dist/2020';
import fc from 'fast-check';
import { ERROR_BODY_SCHEMA, serializeErrorBody } from '../../../src/contract/error-body';
import { ERROR_CODES } from '../../../src/contract/error-codes';
import { SERVICE_ERROR_NAMES, serviceError } from '../../../src/contract/service-errors';
import { parseErrorBody, serviceErrorOf, tokenOf } from '../../support/read-error-body';
import { anyCharacter } from '../../support/texts';

const anyBody = fc.record({
  code: fc.constantFrom(...ERROR_CODES),
  message: fc.string({ unit: anyCharacter }),
  isRetryable: fc.boolean(),
});
const matchesSchema = new Ajv2020().compile(ERROR_BODY_SCHEMA);

test('retryable is left out where it is false [O1]', () => {
  const body = { code: 'ERROR_CODE_INTERNAL', message: 'provider_error', isRetryable: false } as const;
  expect(serializeErrorBody(body)).toBe('{"code":"ERROR_CODE_INTERNAL","message":"provider_error"}');
  expect(serializeErrorBody({ ...body, isRetryable: true })).toBe(
    '{"code":"ERROR_CODE_INTERNAL","message":"provider_error","retryable":true}',
  );
});

test('a written body is read again, and matches the published schema', () => {
  fc.assert(
    fc.property(anyBody, (body) => {
      const text = serializeErrorBody(body);
      expect(parseErrorBody(text)).toEqual({ type: 'error', body });
      expect(matchesSchema(JSON.parse(text))).toBe(true);
      expect('retryable' in JSON.parse(text)).toBe(body.isRetryable);
    }),
  );
});

test.each([
  ['', 'the body is not JSON'],
  ['<html>', 'the body is not JSON'],
  ['null', 'the body is no JSON object'],
  ['[]', 'the body is no JSON object'],
  ['{"message":"x"}', 'code is none of the 15 error codes'],
  ['{"code":"toString","message":"x"}', 'code is none of the 15 error codes'],
  ['{"code":"ERROR_CODE_INTERNAL"}', 'message is no string'],
  ['{"code":"ERROR_CODE_INTERNAL","message":"x","retryable":"yes"}', 'retryable is neither true nor false'],
])('%s is no error body: %s', (text, problem) => {
  expect(parseErrorBody(text)).toEqual({ type: 'no_error_body', problem });
});

test('a reader ignores fields that it does not know, and takes false for absent [O1]', () => {
  const text = '{"code":"ERROR_CODE_INTERNAL","message":"x","retryable":false,"trace":"7"}';
  expect(parseErrorBody(text)).toEqual({
    type: 'error',
    body: { code: 'ERROR_CODE_INTERNAL', message: 'x', isRetryable: false },
  });
});

test('any text is read', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(['error', 'no_error_body']).toContain(parseErrorBody(text).type);
    }),
  );
});

describe('the token of a message', () => {
  test.each([
    ['signature_invalid', 'signature_invalid'],
    ['signature_invalid: no signature matches', 'signature_invalid'],
    ['invalid request', 'invalid request'],
    ['invalid_request; a field', 'invalid_request'],
    ['operator forbidden', 'operator forbidden'],
    ['forbidden_fruit', null],
    ['unauthorizedly', null],
    ['Unauthorized', null],
    ['the signature_invalid', null],
    ['', null],
  ])('%j begins with %j', (message, token) => {
    expect(tokenOf(message)).toBe(token);
  });

  test.each(SERVICE_ERROR_NAMES)('with its status and code leads back to the row %s', (name) => {
    const { status, codes, tokens } = serviceError(name);
    for (const code of codes)
      for (const token of tokens) {
        expect(tokenOf(`${token}: more`)).toBe(token);
        expect(serviceErrorOf(status, { code, message: `${token}: more` })).toBe(name);
      }
  });

  test('that is unknown leaves the first row of status and code', () => {
    const of = (status: number, code: (typeof ERROR_CODES)[number]) =>
      serviceErrorOf(status, { code, message: 'of a newer service' });
    expect(of(403, 'ERROR_CODE_BUSINESS_REJECTED')).toBe('forbidden');
    expect(of(403, 'ERROR_CODE_INVALID_REQUEST')).toBe('not_allowed');
    expect(of(503, 'ERROR_CODE_INTERNAL')).toBe('launch_in_progress');
    expect(of(501, 'ERROR_CODE_UNSUPPORTED_ACTION')).toBe('not_implemented');
    expect(of(503, 'ERROR_CODE_RATE_LIMITED')).toBeUndefined();
    expect(of(418, 'ERROR_CODE_INTERNAL')).toBeUndefined();
  });
});
