/** The refusals of the webhook, against the contract with operators. */

import { CONNECT, LATE_BODY } from '../../../src/webhook/raw-responses';
import { isRefusal, REFUSALS, type Refusal, withDetail } from '../../../src/webhook/responses';
import { parseErrorBody } from '../../support/read-error-body';

const { tooLarge, tooMany, tooManyValues, tooManyPieces, tooManyHeaders, malformed, ...others } = REFUSALS;
const { tooManyReconciled, paused, ...plain } = others;

const INVALID = 'ERROR_CODE_INVALID_REQUEST';
const REJECTED = 'ERROR_CODE_BUSINESS_REJECTED';
const LIMITED = 'ERROR_CODE_RATE_LIMITED';
const MAINTENANCE = 'ERROR_CODE_MAINTENANCE';

/** Operators match on these: status, code, begin of the message, and whether to retry. */
const WIRE: Readonly<Record<keyof typeof plain, readonly [number, string, string, boolean]>> = {
  noSuchPath: [404, INVALID, 'invalid request: send', false],
  wrongDryRun: [400, INVALID, 'invalid request: rehearse by POST /v1/rehearse/', false],
  noSuchMethod: [405, INVALID, 'invalid request: send', false],
  readOnly: [405, INVALID, 'invalid request: read this path by GET', false],
  noJson: [415, INVALID, 'invalid request: Content-Type', false],
  unauthorized: [401, INVALID, 'unauthorized: ', false],
  unsigned: [401, INVALID, 'signature_missing: ', false],
  stale: [401, INVALID, 'signature_stale: webhook-timestamp is not within 300 s', false],
  wronglySigned: [401, INVALID, 'signature_invalid: ', false],
  noConnection: [403, REJECTED, 'forbidden: ', false],
  noSuchConnection: [403, REJECTED, 'forbidden: ', false],
  suspended: [403, REJECTED, 'operator_suspended: ', false],
  noHost: [400, INVALID, 'invalid request: ', false],
  noExpectation: [417, INVALID, 'invalid request: ', false],
  tooSlow: [429, LIMITED, 'rate limit: ', true],
  beyondShare: [429, LIMITED, 'rate limit: ', true],
  busy: [503, MAINTENANCE, 'overloaded: no slot', true],
  crowded: [503, MAINTENANCE, 'overloaded: too many', true],
  undecided: [503, MAINTENANCE, 'undecided: the events could not be decided now', true],
  unanswered: [503, MAINTENANCE, 'undecided: the events could not be looked up now', true],
  late: [503, MAINTENANCE, 'undecided: the events could not be decided in time', true],
};

/** A refusal as its sender sees it. */
function wireOf({ status, body, headers }: Refusal): unknown[] {
  const read = parseErrorBody(body);
  if (read.type !== 'error') throw new Error(read.problem);
  const { code, message, isRetryable } = read.body;
  return [status, code, message, isRetryable, headers];
}

const ALLOW: Readonly<Record<string, object>> = {
  noSuchMethod: { allow: 'POST' },
  readOnly: { allow: 'GET, HEAD' },
};
const RETRY_AFTER = { 'retry-after': '1' };

test.each(Object.entries(WIRE))('%s', (name, [status, code, begin, isRetryable]) => {
  const refusal = Object.entries(plain).find(([each]) => each === name)?.[1];
  expect(refusal && isRefusal(refusal) && wireOf(refusal)).toEqual([
    ...[status, code, expect.stringMatching(`^${begin}`), isRetryable],
    isRetryable ? RETRY_AFTER : ALLOW[name],
  ]);
});

test.each<[string, Refusal, number, string]>([
  ['tooLarge', tooLarge(9), 413, 'invalid request: the body has more than 9 bytes'],
  ['tooMany', tooMany(9), 413, 'invalid request: the batch has more than 9 events'],
  ['tooManyReconciled', tooManyReconciled(9), 413, 'invalid request: the request names more than 9 events'],
  ['tooManyValues', tooManyValues(9), 413, 'invalid request: the body holds more than 9 JSON values'],
  ['tooManyPieces', tooManyPieces(9), 413, 'invalid request: the body came in more than 9 pieces'],
  ['tooManyHeaders', tooManyHeaders(9), 431, 'invalid request: the request has more than 9 headers'],
  ['malformed JSON', malformed(true, 'no event'), 400, 'invalid request: no event'],
  ['no JSON', malformed(false, 'a comma'), 400, 'invalid json body: a comma'],
  ['a late body', LATE_BODY.refusal, 408, 'invalid request: the request was not complete'],
  ['CONNECT', CONNECT.refusal, 405, 'invalid request: send events by POST'],
  ['a detail', withDetail(REFUSALS.noJson, 'it is text/plain'), 415, 'invalid request: Content-Type'],
])('%s', (_, refusal, status, begin) => {
  expect(wireOf(refusal)).toEqual([status, INVALID, expect.stringMatching(`^${begin}`), false, undefined]);
});

test('a paused connection is answered as restricted by business, with the remedy [W11]', () => {
  const [status, code, message, isRetryable] = wireOf(paused('9 of 10 events would be rejected'));
  expect([status, code, isRetryable]).toEqual([403, REJECTED, false]);
  expect(message).toMatch(
    /^restricted: 9 of 10 events would be rejected, and this request has used up no event_id.*\/v1\/rehearse\/\{connection_id\}: a duplicate was decided by an earlier/,
  );
});

test('a detail comes after the text, and the token stays', () => {
  const detailed = withDetail(REFUSALS.stale, 'it is 400 s old');
  expect(detailed).toMatchObject({ token: 'signature_stale', status: 401 });
  expect(parseErrorBody(detailed.body)).toMatchObject({
    body: { message: expect.stringMatching(/each try; it is 400 s old$/) },
  });
});
