/**
 * Reports what the webhook refuses, drops or cannot decide: each is counted, and logged seldom. A sender that is refused
 * once is refused often, so each kind is logged once a minute for each sender, and no more than so many lines in all.
 * Addresses and connection ids are logged; events, players and secrets never are.
 */
import type { Logger } from 'pino';
import type { Metrics, UndecidedCause } from '../telemetry/metrics';
import { REFUSALS, type Refusal } from './responses';

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

/** Of these a log line names where the request came from. */
type Sent = Pick<RequestOrigin, 'requestId' | 'address' | 'connectionId'>;

/** Why a network connection is ended. */
export type DropReason =
  | 'full'
  | 'address'
  | 'late_head'
  | 'late_body'
  | 'unread'
  | 'pipelined'
  | 'drain'
  | 'tls'
  | 'http2'
  | 'connect'
  | 'not_http'
  | 'large_head';

export type Reports = ReturnType<typeof makeReports>;

export function makeReports({ logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics }) {
  const seldom = makeSeldom((level, line, message) => logger[level](line, message));
  const countRefusal = (status: number, token: string, connection: string) =>
    metrics.webhookRefusals.inc({ status: String(status), token, connection });
  return {
    refused({ requestId, address, connectionId, isSigned }: RequestOrigin, refusal: Refusal): void {
      const { status, token, body } = refusal;
      countRefusal(status, token, connectionId ?? '');
      const line = { requestId, address, connectionId, isSigned, status, answer: body };
      seldom(`${status} ${token}`, connectionId ?? address, line, 'a request is refused');
    },
    /** @param connectionIds those whose signed requests came over it */
    dropped(why: DropReason, address: string, connectionIds: Iterable<string>, more: object = {}): void {
      metrics.webhookDropped.inc({ why });
      const line = { why, address, connectionIds: [...connectionIds], ...more };
      seldom(why, address, line, 'a connection is dropped');
    },
    /** The sender left in the middle of a request. */
    brokenOff(requestId: string, address: string, connectionIds: Iterable<string>): void {
      metrics.webhookRequests.inc({ status: 'broken_off' });
      const line = { requestId, address, connectionIds: [...connectionIds] };
      seldom('broken_off', address, line, 'a request is broken off');
    },
    undecided({ requestId, address, connectionId }: Sent, cause: UndecidedCause, error: string): void {
      metrics.retries.inc({ class: 'undecided' });
      countRefusal(REFUSALS.undecided.status, REFUSALS.undecided.token, connectionId ?? '');
      const line = { connectionId, cause, error, requestId, address };
      seldom(cause, connectionId ?? address, line, 'request is undecided');
    },
    /** A defect of ours kept a request from its answer. */
    failed(requestId: string, address: string, error: string): void {
      countRefusal(REFUSALS.undecided.status, REFUSALS.undecided.token, '');
      seldom('failed', '', { requestId, address, error }, 'a request could not be answered', 'error');
    },
  };
}

type Level = 'warn' | 'error';

/** Logs a line of a kind and sender at once, and then once in a while, with how many were left out. */
function makeSeldom(log: (level: Level, line: object, message: string) => void) {
  /** By kind and sender, the line that is longest ago first. */
  const last = new Map<string, { at: number; untold: number }>();
  let [lines, since, untoldInAll] = [0, 0, 0];
  return (kind: string, sender: string, line: object, message: string, level: Level = 'warn'): void => {
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
    log(level, { ...line, untold: seen?.untold ?? 0, ...more }, message);
  };
}
