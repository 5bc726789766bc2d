/**
 * The signature of an operator call. The contract shows four tokens and the window of 300 s. The headers and
 * the signed text are ours.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { LIMITS } from '../contract/limits';
import { refuse, type SandboxAnswer } from './answers';
import type { SandboxKey, SandboxOperator } from './config-file';

export const CALL_HEADERS = {
  keyId: 'x-api-key-id',
  timestamp: 'x-timestamp',
  signature: 'x-signature',
} as const;

/** The parts of a call that are signed. */
export interface SignedCall {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly body: Uint8Array;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface Caller {
  readonly operator: SandboxOperator;
  readonly key: SandboxKey;
}

/** The keys by their ids, each with its secret. */
export type KnownKeys = ReadonlyMap<string, Caller & { readonly secret: string }>;

/** The signature of a call, in hexadecimal digits. */
export function signCall(
  secret: string,
  timestamp: string,
  { method, path, body }: Omit<SignedCall, 'headers'>,
): string {
  return createHmac('sha256', secret).update(`${timestamp}.${method}.${path}.`).update(body).digest('hex');
}

/** @returns who calls, or the answer with status 401. @param nowMs milliseconds since 1970 */
export function authenticate(call: SignedCall, keys: KnownKeys, nowMs: number): Caller | SandboxAnswer {
  const [keyId, timestamp, signature] = [
    CALL_HEADERS.keyId,
    CALL_HEADERS.timestamp,
    CALL_HEADERS.signature,
  ].map((name) => textOf(call.headers[name]));
  const known = keyId === undefined ? undefined : keys.get(keyId);
  if (known === undefined)
    return refuse('unauthorized', 'no key has the id in X-API-Key-Id; use a key of the file of the sandbox');
  if (timestamp === undefined || signature === undefined)
    return refuse('signature_missing', 'send X-Timestamp and X-Signature');
  if (!isTimely(timestamp, nowMs))
    return refuse(
      'signature_stale',
      `X-Timestamp is not within ${LIMITS.signature_timestamp.value} s of the time here; send seconds since 1970, and a new time with each try`,
    );
  const expected = Buffer.from(signCall(known.secret, timestamp, call));
  const given = Buffer.from(signature);
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    return refuse(
      'signature_invalid',
      'X-Signature is not the HMAC-SHA256 in hexadecimal digits of timestamp.METHOD.path.body',
    );
  return { operator: known.operator, key: known.key };
}

/** A header that comes twice counts as missing: it would name two things. */
function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isTimely(timestamp: string, nowMs: number): boolean {
  if (!/^\d{1,12}$/.test(timestamp)) return false;
  return Math.abs(Math.floor(nowMs / 1_000) - Number(timestamp)) <= LIMITS.signature_timestamp.value;
}

/** Why a caller may not make a call: the operator is suspended, or the key may only read. */
export function whyForbidden({ operator, key }: Caller, isWrite: boolean): SandboxAnswer | undefined {
  if (!operator.isActive) return refuse('operator_suspended', 'the operator is not active');
  if (isWrite && key.isReadOnly)
    return refuse('forbidden', 'the key may only read, and this call writes; use another key');
  return undefined;
}
