import { SETTINGS } from '../../../src/config/config';
import { WALLET_ACTION_NAMES, WALLET_ACTIONS } from '../../../src/contract/actions';
import { ERROR_CODES, walletCode } from '../../../src/contract/error-codes';
import { LIMIT_NAMES, LIMITS } from '../../../src/contract/limits';
import { OPERATOR_OPERATION_NAMES } from '../../../src/contract/operations';
import { isRetryable, SERVICE_ERROR_NAMES, serviceError } from '../../../src/contract/service-errors';
import { MAX_PROMO_PLAYER_CHARACTERS } from '../../../src/domain/attribution';
import { MAX_NAME_BYTES } from '../../../src/domain/event/event';
import { backoffMs } from '../../../src/lib/backoff';
import { REFUSALS } from '../../../src/webhook/responses';
import { TIMESTAMP_WINDOW_SECONDS } from '../../../src/webhook/signature';
import { SHOWN_ACTIONS, SHOWN_CODES, SHOWN_ERRORS, SHOWN_LIMITS, SHOWN_OPERATIONS } from './spec-rows';

const shortened = (code: string): string => code.replace(/^ERROR_CODE_/, '');
const yesNo = (is: boolean): 'yes' | 'no' => (is ? 'yes' : 'no');

describe('the contract has the shown rows, each once and in their order:', () => {
  test('errors of operator calls [O1]', () => {
    const rows = SERVICE_ERROR_NAMES.map(serviceError).map(
      ({ status, codes, isRetryable: retries, tokens }) => [
        ...[status, codes.map(shortened).join(' or '), yesNo(retries), tokens.join(', ')],
      ],
    );
    expect(rows).toEqual(SHOWN_ERRORS);
  });

  test('codes of the wallet [O3]', () => {
    const rows = ERROR_CODES.map((code) => {
      const { isRetried, statuses, restriction } = walletCode(code);
      return [shortened(code), yesNo(isRetried), statuses.join(' '), restriction];
    });
    expect(rows).toEqual(SHOWN_CODES);
    expect(ERROR_CODES.filter((code) => !code.startsWith('ERROR_CODE_'))).toEqual([]);
    expect(ERROR_CODES).toHaveLength(15);
  });

  test('actions of the wallet', () => {
    expect(WALLET_ACTION_NAMES.map((name) => WALLET_ACTIONS[name].purpose)).toEqual(SHOWN_ACTIONS);
    expect(WALLET_ACTION_NAMES).toHaveLength(10);
  });

  test('operations of operators', () => {
    expect(OPERATOR_OPERATION_NAMES).toEqual(SHOWN_OPERATIONS);
    expect(OPERATOR_OPERATION_NAMES).toHaveLength(30);
  });

  test('limits', () => {
    const rows = LIMIT_NAMES.map((name) => `${name} ${LIMITS[name].value} ${LIMITS[name].unit}`);
    expect(rows).toEqual(SHOWN_LIMITS.flatMap(([, numbers]) => numbers.split(', ')));
  });
});

describe('the retry rule [O2]', () => {
  test('takes 429, 503 and 504 of all statuses', () => {
    const statuses = Array.from({ length: 1_000 }, (_, status) => status);
    expect(statuses.filter(isRetryable)).toEqual([429, 503, 504]);
  });

  test('is the same for all errors of a status', () => {
    for (const { status, isRetryable: retries } of SERVICE_ERROR_NAMES.map(serviceError))
      expect([status, retries]).toEqual([status, isRetryable(status)]);
  });
});

test('no message token belongs to two errors', () => {
  const tokens = SERVICE_ERROR_NAMES.map(serviceError).flatMap((row) => row.tokens);
  expect(new Set(tokens).size).toBe(tokens.length);
});

describe('the product keeps the limits of the contract:', () => {
  test('events', () => {
    expect(MAX_NAME_BYTES).toBe(LIMITS.brand_bytes.value);
    expect(MAX_NAME_BYTES).toBe(LIMITS.player_ref_bytes.value);
    expect(MAX_PROMO_PLAYER_CHARACTERS).toBe(LIMITS.promo_player_ref_longest.value);
  });

  test('requests of the webhook', () => {
    expect(Number(SETTINGS.WEBHOOK_MAX_EVENTS.fallback)).toBe(LIMITS.webhook_events.value);
    expect(Number(SETTINGS.WEBHOOK_MAX_BYTES.fallback)).toBe(LIMITS.webhook_body.value);
    expect(TIMESTAMP_WINDOW_SECONDS).toBe(LIMITS.webhook_timestamp.value);
    expect(REFUSALS.busy.headers).toEqual({ 'retry-after': String(LIMITS.webhook_retry_after.value) });
  });

  test('waits of an undecided message', () => {
    const { queue_retry_first: first, queue_retry_factor: factor, queue_retry_longest: longest } = LIMITS;
    for (let failures = 1; failures < 40; failures++)
      expect(backoffMs(failures)).toBe(
        1_000 * Math.min(longest.value, first.value * factor.value ** (failures - 1)),
      );
  });
});
