/**
 * The head of a request: the connection and the purpose that its path names, and the checks of the head. The
 * result is a refusal, or the sender that the request claims (W4, W9).
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { REFUSALS, type Refusal, withDetail } from './responses';
import { signedUrlOf } from './routes';
import { isTimely, readSignedHeaders, type SignedHeaders } from './signature';
import { describeSkew, describeType, missingHeaders } from './signature-mistakes';

/** Without this limit a head of 16 KiB could hold thousands of headers. */
export const MAX_REQUEST_HEADERS = 200;

const JSON_TYPE = /^application\/json\s*(;|$)/i;

/** Any way to write the parameter. Only the right one begins a rehearsal, and none decides by mistake. */
const LIKE_DRY_RUN = /^dry\W*_?run$/i;

export interface RequestTarget {
  readonly connectionId: string;
  readonly mode: 'decide' | 'rehearse' | 'reconcile' | 'unclear';
}

/** Null where the path is no address of the webhook. */
export function targetIn(url: string): RequestTarget | null {
  const found = signedUrlOf(url);
  if (found === null) return null;
  const { route, written, query } = found;
  try {
    const connectionId = decodeURIComponent(written);
    if (route === 'reconcile') return { connectionId, mode: 'reconcile' };
    const byQuery = query === '' ? 'absent' : modeOf(query);
    if (route === 'events') return { connectionId, mode: byQuery === 'absent' ? 'decide' : byQuery };
    // The path asks for a rehearsal: a query that asks for a decision contradicts the path.
    const isRehearsal = byQuery === 'absent' || byQuery === 'rehearse';
    return { connectionId, mode: isRehearsal ? 'rehearse' : 'unclear' };
  } catch {
    return null; // a % that encodes no character
  }
}

function modeOf(query: string): 'absent' | 'decide' | 'rehearse' | 'unclear' {
  const alike = [...new URLSearchParams(query)].filter(([name]) => LIKE_DRY_RUN.test(name.trim()));
  const [only] = alike;
  if (only === undefined) return 'absent';
  const [name, value] = only;
  if (alike.length > 1 || name !== 'dry_run') return 'unclear';
  return value === 'true' ? 'rehearse' : value === 'false' ? 'decide' : 'unclear';
}

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
