/**
 * Reports what the webhook refuses, drops or cannot decide: each is counted, and logged seldom. A sender that is refused
 * once is refused often, so each kind is logged once a minute for each sender, and no more than so many lines in all.
 * Addresses and connection ids are logged; events, players and secrets never are.
 */
import type { Logger } from 'pino';
import type { Metrics, UndecidedCause } from '../telemetry';
import type { Refusal } from './webhook-answer';

const LINE_EVERY_MS = 60_000;
/** Lines in that time, of all senders. */
const MAX_LINES = 100;
/** Senders and kinds whose last line is remembered. */
const MAX_REMEMBERED = 1_000;

/** Where a request came from. */
export interface RequestOrigin {
  readonly requestId: string;
  readonly address: string;
  /** The connection that its path names, where that has a secret here. */
  readonly connectionId: string | null;
  /** Whether its signature is that of the connection. Until then anybody may have named it. */
  readonly isSigned: boolean;
}

/** Why a network connection is ended. */
export type DropReason =
  | 'full'
  | 'address'
  | 'late_head'
  | 'late_body'
  | 'unread'
  | 'pieces'
  | 'pipelined'
  | 'drain'
  | 'tls'
  | 'not_http'
  | 'large_head';

export type Reports = ReturnType<typeof makeReports>;

export function makeReports({ logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics }) {
  const seldom = makeSeldom((line, message) => logger.warn(line, message));
  return {
    refused({ requestId, address, connectionId, isSigned }: RequestOrigin, refusal: Refusal): void {
      const { status, token, body } = refusal;
      const connection = connectionId ?? '';
      metrics.webhookRefusals.inc({ status: String(status), token, connection });
      const line = { requestId, address, connectionId, isSigned, status, answer: body };
      seldom(`${status} ${token}`, connectionId ?? address, line, 'a request is refused');
    },
    /** @param connectionIds those whose signed requests came over it */
    dropped(why: DropReason, address: string, connectionIds: Iterable<string>, more: object = {}): void {
      metrics.webhookDropped.inc({ why });
      const line = { why, address, connectionIds: [...connectionIds], ...more };
      seldom(why, address, line, 'a connection is dropped');
    },
    undecided(connectionId: string, cause: UndecidedCause, error: string, requestId: string): void {
      metrics.retries.inc({ class: 'undecided' });
      seldom(cause, connectionId, { connectionId, cause, error, requestId }, 'request is undecided');
    },
  };
}

/** Logs a line of a kind and sender at once, and then once in a while, with how many were left out. */
function makeSeldom(log: (line: object, message: string) => void) {
  /** By kind and sender, the line that is longest ago first. */
  const last = new Map<string, { at: number; untold: number }>();
  let [lines, since, untoldInAll] = [0, 0, 0];
  return (kind: string, sender: string, line: object, message: string): void => {
    const now = performance.now();
    const key = `${kind} ${sender}`;
    const seen = last.get(key);
    if (seen !== undefined && now - seen.at < LINE_EVERY_MS) {
      seen.untold++;
      return;
    }
    if (now - since >= LINE_EVERY_MS) [lines, since] = [0, now];
    if (lines >= MAX_LINES) {
      untoldInAll++;
      return;
    }
    lines++;
    last.delete(key);
    last.set(key, { at: now, untold: 0 });
    const [oldest] = last.keys();
    if (last.size > MAX_REMEMBERED && oldest !== undefined) last.delete(oldest);
    const more = untoldInAll > 0 ? { untoldOfOthers: untoldInAll } : {};
    untoldInAll = 0;
    log({ ...line, untold: seen?.untold ?? 0, ...more }, message);
  };
}
