/** The head of a request: a refusal, or the sender that it claims and its purpose (W4, W9). */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { RequestTarget } from './request-path';
import { REFUSALS, type Refusal, withDetail } from './responses';
import { isTimely, readSignedHeaders, type SignedHeaders } from './signature';
import { describeSkew, describeType, missingHeaders } from './signature-mistakes';

/** Without this limit a head of 16 KiB could hold thousands of headers. */
export const MAX_REQUEST_HEADERS = 200;

const JSON_TYPE = /^application\/json\s*(;|$)/i;

export type RequestMode = Exclude<RequestTarget['mode'], 'unclear'>;

/** The sender that the head of a request claims, before the signature is checked. */
export interface Claimed {
  readonly connectionId: string;
  readonly mode: RequestMode;
  readonly signed: SignedHeaders;
  readonly secrets: readonly Buffer[];
}

export interface HeadRules {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly maxBytes: number;
  /** False: the path /v1/reconcile does not exist. */
  readonly canReconcile: boolean;
}

/**
 * Checks a head.
 *
 * @param secrets those of the connection that the path names; empty if it has none
 */
export function readHead(
  { headers, rawHeaders, method, httpVersion }: IncomingMessage,
  target: RequestTarget | null,
  secrets: readonly Buffer[],
  { now, maxBytes, canReconcile }: HeadRules,
): Refusal | Claimed {
  if (rawHeaders.length > 2 * MAX_REQUEST_HEADERS) return REFUSALS.tooManyHeaders(MAX_REQUEST_HEADERS);
  if (headers.host === undefined && httpVersion === '1.1') return REFUSALS.noHost;
  if (headers.expect !== undefined && !/^100-continue$/i.test(headers.expect)) return REFUSALS.noExpectation;
  if (target === null || (target.mode === 'reconcile' && !canReconcile)) return REFUSALS.noSuchPath;
  if (method !== 'POST') return REFUSALS.noSuchMethod;
  if (target.mode === 'unclear') return REFUSALS.wrongDryRun;
  if (!isPlainJson(headers)) return withDetail(REFUSALS.noJson, describeType(headers));
  const signed = readSignedHeaders(headers);
  if (signed === null) return withDetail(REFUSALS.unsigned, missingHeaders(headers));
  if (!isTimely(signed, now)) return withDetail(REFUSALS.stale, describeSkew(signed, now));
  if (secrets.length === 0) return REFUSALS.unauthorized;
  if (Number(headers['content-length'] ?? 0) > maxBytes) return REFUSALS.tooLarge(maxBytes);
  return { connectionId: target.connectionId, mode: target.mode, signed, secrets };
}

function isPlainJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  return JSON_TYPE.test(type) && encoding === 'identity';
}
