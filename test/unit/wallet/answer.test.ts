import { WALLET_ACTION_NAMES } from '../../../src/contract/actions';
import { interpretReply, MAX_REPLY_BYTES, type WalletAnswer } from '../../../src/wallet/answer';
import { aReply, failureBody } from '../../support/wallet-replies';
import { SHOWN_CODES } from '../contract/spec-rows';

/** Our reading of "new bets only": no call that settles. */
const SETTLING = ['credit', 'rollback', 'close_round', 'settle_free_rounds', 'reconcile', 'notify'];

/** The actions that a restriction excludes. */
const EXCLUDED: Readonly<Record<string, readonly string[]>> = {
  new_bets_only: SETTLING,
  never_rollback_or_reconcile: ['rollback', 'reconcile'],
};

const STATUSES = Array.from({ length: 500 }, (_, index) => 100 + index);

/** The type or the cause of an answer. */
function shortOf(answer: WalletAnswer): string {
  return answer.type === 'no_answer' ? answer.cause : answer.type;
}

/** An answer that has a code, with all that it says. No answer here has a time to wait. */
function summaryOf(answer: WalletAnswer): string {
  if (answer.type === 'ok') return 'ok';
  if (answer.type === 'refused') return `refused ${answer.code}`;
  const wait = answer.retryAfterMs === null ? '' : ` after ${answer.retryAfterMs} ms`;
  if (answer.type === 'retry') return `retry ${answer.code}${wait}`;
  return `${answer.cause} ${answer.code} of ${answer.status}${wait}`;
}

describe.each(SHOWN_CODES)(
  'ERROR_CODE_%s, retried: %s, statuses %s, %s [O3 O4]',
  (name, retried, shown, restriction) => {
    const code = `ERROR_CODE_${name}`;
    const statuses = shown.split(' ').map(Number);

    test.each(WALLET_ACTION_NAMES)('for %s, with every status', (action) => {
      const isExcluded = (EXCLUDED[restriction] ?? []).includes(action);
      const answered = `${retried === 'yes' ? 'retry' : 'refused'} ${code}`;
      const expectedOf = (status: number): string => {
        if (!statuses.includes(status)) return `status_not_allowed ${code} of ${status}`;
        return isExcluded ? `code_not_allowed ${code} of ${status}` : answered;
      };
      const answers = STATUSES.map((status) => interpretReply(action, aReply(failureBody(code), { status })));
      expect(answers.map(summaryOf)).toEqual(STATUSES.map(expectedOf));
    });
  },
);

describe('without the error envelope [O3]', () => {
  const BODIES = ['', '{}', 'Bad gateway', '[]', 'null', '{"status":"ok"}', '{"code":"ERROR_CODE_INTERNAL"}'];

  test.each(BODIES)('the body %j with any status but 200 is no answer', (body) => {
    const bare = STATUSES.filter((status) => status !== 200);
    for (const action of WALLET_ACTION_NAMES) {
      const answers = bare.map((status) => interpretReply(action, aReply(body, { status })));
      expect(answers.map(summaryOf)).toEqual(bare.map((status) => `bare_status null of ${status}`));
    }
  });

  test.each<[string, unknown, string]>([
    ['a success', { status: 'ok', balance: '10.00' }, 'ok'],
    ['a success with error null', { status: 'ok', error: null }, 'ok'],
    ['no status', { balance: '10.00' }, 'no_envelope'],
    ['a status that is no text', { status: 200 }, 'no_envelope'],
    ['an array', [], 'no_envelope'],
    ['null', null, 'no_envelope'],
    ['an error without a code', { status: 'error', error: {} }, 'no_envelope'],
    ['an error that is a text', { status: 'error', error: 'ERROR_CODE_INTERNAL' }, 'no_envelope'],
    ['a failure without an error', { status: 'error' }, 'no_envelope'],
    ['a success that has an error', { status: 'ok', error: { code: 'ERROR_CODE_INTERNAL' } }, 'no_envelope'],
    ['a code of no list', failureBody('ERROR_CODE_TIRED'), 'unknown_code'],
    ['a code in small letters', failureBody('error_code_internal'), 'unknown_code'],
    ['a code named as a member of all objects', failureBody('constructor'), 'unknown_code'],
    ['a code without its prefix', failureBody('INTERNAL'), 'unknown_code'],
  ])('200 with %s', (_, body, expected) => {
    expect(shortOf(interpretReply('credit', aReply(body)))).toBe(expected);
  });

  test.each<[string, Buffer | 'too_large' | 'cut_off', string]>([
    ['no bytes', Buffer.alloc(0), 'not_json'],
    ['half a body', Buffer.from('{"status":"o'), 'not_json'],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'not_json'],
    ['a byte order mark', Buffer.from('\uFEFF{"status":"ok"}'), 'not_json'],
    ['a body beyond the limit', Buffer.alloc(MAX_REPLY_BYTES + 1, ' '), 'too_large'],
    ['a body that the client cut', 'too_large', 'too_large'],
    ['a connection that ended in the body', 'cut_off', 'cut_off'],
    ['brackets without an end', Buffer.from('['.repeat(60_000)), 'not_json'],
  ])('200 with %s', (_, body, expected) => {
    expect(shortOf(interpretReply('debit', aReply('', { body })))).toBe(expected);
  });
});

describe('a reply after the deadline of 5 s [O3]', () => {
  test.each([
    [5_000, 'ok'],
    [5_001, 'timeout'],
    [60_000, 'timeout'],
    [Number.NaN, 'timeout'],
  ])('of %d ms', (ms, expected) => {
    expect(shortOf(interpretReply('debit', aReply({ status: 'ok' }, { ms })))).toBe(expected);
  });

  test('is not read, whatever it says', () => {
    const late = aReply(failureBody('ERROR_CODE_INSUFFICIENT_FUNDS'), { ms: 5_001 });
    expect(interpretReply('debit', late)).toMatchObject({ cause: 'timeout', code: null });
  });
});

describe('Retry-After', () => {
  test.each<[string, Record<string, string>, number | null]>([
    ['seconds', { 'retry-after': '7' }, 7_000],
    ['no number', { 'retry-after': '-7' }, null],
    [
      'a date after the header Date',
      {
        'retry-after': 'Sat, 21 Nov 2026 12:00:30 GMT',
        date: 'Sat, 21 Nov 2026 12:00:00 GMT',
      },
      30_000,
    ],
    ['a date without the header Date', { 'retry-after': 'Sat, 21 Nov 2026 12:00:30 GMT' }, null],
    ['nothing', {}, null],
  ])('that has %s', (_, headers, expected) => {
    const limited = aReply(failureBody('ERROR_CODE_RATE_LIMITED'), { status: 429, headers });
    expect(interpretReply('credit', limited)).toEqual({
      type: 'retry',
      code: 'ERROR_CODE_RATE_LIMITED',
      retryAfterMs: expected,
    });
    const bare = aReply('', { status: 503, headers });
    expect(interpretReply('credit', bare)).toMatchObject({ cause: 'bare_status', retryAfterMs: expected });
  });
});

test("a profile's rule of success replaces ours, and never overrules an error", () => {
  const isSuccess = ({ done }: Readonly<Record<string, unknown>>) => done === true;
  expect(interpretReply('credit', aReply({ done: true }), isSuccess).type).toBe('ok');
  expect(interpretReply('credit', aReply({ status: 'ok' }), isSuccess).type).toBe('no_answer');
  expect(interpretReply('credit', aReply({ done: true, status: 'error' }), isSuccess).type).toBe('no_answer');
  expect(interpretReply('credit', aReply({ done: true, error: {} }), isSuccess).type).toBe('no_answer');
});

test('a success keeps fields that nobody knows', () => {
  const body = { status: 'ok', balance: '10.00', loyalty: { points: [1, 2] } };
  expect(interpretReply('balance', aReply(body))).toEqual({ type: 'ok', body });
});
