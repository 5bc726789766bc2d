/**
 * Counts and logs the requests that the webhook refuses or cannot decide, and the connections that it drops.
 * Log lines are rate-limited, because a sender that is refused once is usually refused often. Addresses and
 * connection ids are logged. Events, players and secrets never are.
 */
import type { Logger } from 'pino';
import type { Clock } from '../lib/clock';
import { limitLines } from '../lib/line-limit';
import type { Metrics, UndecidedCause } from '../telemetry/metrics';
import { REFUSALS, type Refusal } from './responses';

/** The origin of a request. */
export interface RequestOrigin {
  readonly requestId: string;
  readonly address: string;
  /** The connection id in the path, if it has a secret here; else null. */
  readonly connectionId: string | null;
  /** Whether the signature is valid. Until then anyone may have named the connection id. */
  readonly isSigned: boolean;
}

/** The fields of the origin that every log line has. */
type Sent = Pick<RequestOrigin, 'requestId' | 'address' | 'connectionId'>;

/** Why a network connection is dropped. */
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

export interface ReportsDeps {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly clock: Pick<Clock, 'now'>;
  /** Called for each refusal, without the limit of log lines. */
  readonly onRefused?: (origin: RequestOrigin, refusal: Refusal) => void;
}

export function makeReports({ logger, metrics, clock, onRefused }: ReportsDeps) {
  const logLimited = limitLines(logger, clock);
  const countRefusal = (status: number, token: string, connection: string) =>
    metrics.webhookRefusals.inc({ status: String(status), token, connection });
  return {
    refused(origin: RequestOrigin, refusal: Refusal): void {
      onRefused?.(origin, refusal);
      const { requestId, address, connectionId, isSigned } = origin;
      const { status, token, body } = refusal;
      countRefusal(status, token, connectionId ?? '');
      const line = { requestId, address, connectionId, isSigned, status, answer: body };
      logLimited(`${status} ${token} ${connectionId ?? address}`, line, 'request refused');
    },
    /** @param connectionIds ids with a signed request over this network connection */
    dropped(why: DropReason, address: string, connectionIds: Iterable<string>, more: object = {}): void {
      metrics.webhookDropped.inc({ why });
      const line = { why, address, connectionIds: [...connectionIds], ...more };
      logLimited(`${why} ${address}`, line, 'connection dropped');
    },
    /** The sender left in the middle of a request. */
    brokenOff(requestId: string, address: string, connectionIds: Iterable<string>): void {
      metrics.webhookRequests.inc({ status: 'broken_off' });
      const line = { requestId, address, connectionIds: [...connectionIds] };
      logLimited(`broken_off ${address}`, line, 'request aborted by the sender');
    },
    undecided({ requestId, address, connectionId }: Sent, cause: UndecidedCause, error: string): void {
      metrics.retries.inc({ class: 'undecided' });
      countRefusal(REFUSALS.undecided.status, REFUSALS.undecided.token, connectionId ?? '');
      const line = { connectionId, cause, error, requestId, address };
      logLimited(`${cause} ${connectionId ?? address}`, line, 'request undecided');
    },
    /** A defect of this service prevented the answer. */
    failed(requestId: string, address: string, error: string): void {
      countRefusal(REFUSALS.undecided.status, REFUSALS.undecided.token, '');
      logLimited('failed', { requestId, address, error }, 'cannot answer a request', 'error');
    },
  };
}
