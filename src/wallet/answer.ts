/**
 * The meaning of a wallet's reply to one call: a pure and total function. Only a reply that the contract
 * allows for the action counts. Every other reply is no answer: the call may have taken effect or not.
 */

import type { WalletAction } from '../contract/actions';
import { type ErrorCode, isCodeAllowed, isErrorCode, walletCode } from '../contract/error-codes';
import { LIMITS } from '../contract/limits';
import { isObject, parseJson } from '../lib/json';

/** Our own limit: an answer holds a balance, an id or two, and fields of the operator's own. */
export const MAX_REPLY_BYTES = 65_536;

/** The reply to one attempt of a call. */
export type WalletReply =
  /** Without an HTTP status. `interrupted`: this process ended before the reply came. */
  | { readonly type: 'nothing'; readonly cause: 'timeout' | 'unreachable' | 'interrupted' }
  | {
      readonly type: 'http';
      readonly status: number;
      /** By lower-case name. */
      readonly headers: Readonly<Record<string, string | undefined>>;
      /** The whole body, or why there is none. */
      readonly body: Uint8Array | 'too_large' | 'cut_off';
      /** From the first byte sent until the last byte of the body. */
      readonly ms: number;
    };

/** Why a reply is no answer. */
export type NoAnswerCause =
  | 'timeout'
  | 'unreachable'
  | 'interrupted'
  /** A status other than 200, without the envelope. */
  | 'bare_status'
  | 'too_large'
  | 'cut_off'
  /** Not UTF-8, or not JSON. */
  | 'not_json'
  /** JSON, and neither a success nor the error envelope. */
  | 'no_envelope'
  /** The error envelope with a code that is not in the list. */
  | 'unknown_code'
  /** The error envelope with a status that its code does not allow. */
  | 'status_not_allowed'
  /** A code that the contract excludes for this action, such as a blocked player for a win. */
  | 'code_not_allowed';

export type WalletAnswer =
  | { readonly type: 'ok'; readonly body: Readonly<Record<string, unknown>> }
  /** Final: the service does not send the call again. */
  | { readonly type: 'refused'; readonly code: ErrorCode }
  /** The wallet asks for a retry. */
  | { readonly type: 'retry'; readonly code: ErrorCode; readonly retryAfterMs: number | null }
  | {
      readonly type: 'no_answer';
      readonly cause: NoAnswerCause;
      /** Null without an HTTP status. */
      readonly status: number | null;
      /** The code of the envelope, where the reply has one. It may be none of the list. */
      readonly code: string | null;
      readonly retryAfterMs: number | null;
    };

/** @returns whether a JSON object without an error is a success. The documents do not show one. */
export type SuccessRule = (body: Readonly<Record<string, unknown>>, action: WalletAction) => boolean;

/** The rule where a profile has none: the counterpart of the shown failure, `{status: 'error', ...}`. */
export const hasOtherStatus: SuccessRule = ({ status }) => typeof status === 'string' && status !== 'error';

export function interpretReply(
  action: WalletAction,
  reply: WalletReply,
  isSuccess: SuccessRule = hasOtherStatus,
): WalletAnswer {
  if (reply.type === 'nothing')
    return { type: 'no_answer', cause: reply.cause, status: null, code: null, retryAfterMs: null };
  const { status, headers, body } = reply;
  const retryAfterMs = readRetryAfter(headers);
  const noAnswer = (cause: NoAnswerCause, code: string | null = null): WalletAnswer => ({
    type: 'no_answer',
    cause,
    status,
    code,
    retryAfterMs,
  });
  // A reply that came too late is not read: the call was given up at the deadline.
  if (!(reply.ms <= LIMITS.wallet_answer.value)) return noAnswer('timeout');
  const read = typeof body === 'string' ? body : readJsonBody(body);
  const failure = typeof read === 'object' ? readFailure(read) : undefined;
  if (failure === undefined) {
    if (status !== 200) return noAnswer('bare_status');
    if (typeof read === 'string') return noAnswer(read);
    return isSuccess(read, action) && !hasError(read) ? { type: 'ok', body: read } : noAnswer('no_envelope');
  }
  if (!isErrorCode(failure)) return noAnswer('unknown_code', failure);
  const { statuses, isRetried } = walletCode(failure);
  if (!statuses.includes(status)) return noAnswer('status_not_allowed', failure);
  if (!isCodeAllowed(failure, action)) return noAnswer('code_not_allowed', failure);
  return isRetried ? { type: 'retry', code: failure, retryAfterMs } : { type: 'refused', code: failure };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readJsonBody(bytes: Uint8Array): Record<string, unknown> | 'too_large' | 'not_json' | 'no_envelope' {
  if (bytes.length > MAX_REPLY_BYTES) return 'too_large';
  const value = parseUtf8(bytes);
  if (value === undefined) return 'not_json';
  return isObject(value) ? value : 'no_envelope';
}

function parseUtf8(bytes: Uint8Array): unknown {
  try {
    return parseJson(utf8.decode(bytes));
  } catch {
    return undefined; // bytes that are not UTF-8
  }
}

/** The code of the error envelope; undefined where the body is no error envelope. */
function readFailure({ status, error }: Readonly<Record<string, unknown>>): string | undefined {
  return status === 'error' && isObject(error) && typeof error.code === 'string' ? error.code : undefined;
}

/** An error in a body that claims success contradicts it. */
function hasError({ status, error }: Readonly<Record<string, unknown>>): boolean {
  return status === 'error' || (error !== undefined && error !== null);
}

/** The milliseconds of a header Retry-After: seconds, or a date, which is compared with the header Date. */
function readRetryAfter({ 'retry-after': value, date }: Readonly<Record<string, string | undefined>>) {
  if (value === undefined) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const ms = Date.parse(value) - Date.parse(date ?? '');
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}
