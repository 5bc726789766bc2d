/**
 * Signatures of requests (docs/rules.md, W2, W4). Only the connection's sender and this service have the
 * secret, so a valid signature proves the sender. The format is Standard Webhooks:
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { LIMITS } from '../contract/limits';
import { hmacSha256 } from '../lib/hmac';

export const SIGNATURE_HEADERS = {
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
} as const;

/** The most that a request's time may differ from the time here, either way (W2). */
export const TIMESTAMP_WINDOW_SECONDS = LIMITS.webhook_timestamp.value;

/** The only version of symmetric signatures: HMAC-SHA256. */
const VERSION = 'v1';
/** The most signatures that are checked. A request may have several while a secret is being replaced. */
const MAX_SIGNATURES = 10;

/** The three signature headers of a request. */
export interface SignedHeaders {
  readonly id: string;
  /** Seconds since 1970, as sent. */
  readonly timestamp: string;
  /** Each with its version, such as `v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=`. */
  readonly signatures: readonly string[];
}

/** @returns null if one of the three headers is missing or empty */
export function readSignedHeaders(headers: IncomingHttpHeaders): SignedHeaders | null {
  const [id, timestamp, signature] = [
    headers[SIGNATURE_HEADERS.id],
    headers[SIGNATURE_HEADERS.timestamp],
    headers[SIGNATURE_HEADERS.signature],
  ];
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signature !== 'string') return null;
  if (id === '' || timestamp === '' || signature === '') return null;
  return { id, timestamp, signatures: signature.split(' ').slice(0, MAX_SIGNATURES) };
}

/**
 * Whether a request's time is within the window. A malformed time is not.
 *
 * @param nowMs milliseconds since 1970
 */
export function isTimely({ timestamp }: SignedHeaders, nowMs: number): boolean {
  if (!/^\d{1,12}$/.test(timestamp)) return false;
  return Math.abs(Math.floor(nowMs / 1000) - Number(timestamp)) <= TIMESTAMP_WINDOW_SECONDS;
}

/** The signature made with one of the secrets, with its version. Null if no signature is valid. */
export function validSignature(
  secrets: readonly Buffer[],
  headers: SignedHeaders,
  body: Buffer,
): string | null {
  const given = headers.signatures.map((signature) => Buffer.from(signature));
  for (const secret of secrets) {
    const signature = sign(secret, headers, body);
    const expected = Buffer.from(signature);
    if (given.some((each) => each.length === expected.length && timingSafeEqual(each, expected)))
      return signature;
  }
  return null;
}

/** When a signature expires, in milliseconds since 1970. */
export function expiryOf({ timestamp }: SignedHeaders): number {
  return (Number(timestamp) + TIMESTAMP_WINDOW_SECONDS + 1) * 1000;
}

/** The signature of a request, with its version. */
export function sign(
  secret: Buffer,
  { id, timestamp }: Pick<SignedHeaders, 'id' | 'timestamp'>,
  body: Buffer,
): string {
  // Node decodes headers as latin1, so latin1 gives back the bytes that were received.
  const hmac = hmacSha256(secret).update(`${id}.${timestamp}.`, 'latin1').update(body);
  return `${VERSION},${hmac.digest('base64')}`;
}
