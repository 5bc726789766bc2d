/** The metrics of the webhook alone. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** See LABELS in src/telemetry/metrics.ts. */
type WebhookLabel = 'status' | 'token' | 'connection' | 'why' | 'signed';

interface Described<L extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: L[];
  readonly registers: Registry[];
}

/** Describes a metric: its name, and the processes that serve it. */
type Describe = <L extends WebhookLabel = never>(
  name: string,
  about: {
    readonly of: 'webhook';
    readonly help: string;
    readonly action: string;
    readonly labels?: readonly L[];
  },
) => Described<L>;

export function makeWebhookMetrics(describe: Describe) {
  return {
    webhookRequests: new Counter(
      describe('webhook_requests_total', {
        of: 'webhook',
        help: 'Requests to the webhook, by the status of the answer; broken_off: its sender left before the request was whole.',
        action:
          '401: the sender’s secret or clock. 400, 403, 413, 415: its message says what to mend. 429: one sender is beyond its share. 503: the log says whether Postgres is away or all slots are taken; more pods help against the second.',
        labels: ['status'],
      }),
    ),
    webhookRefusals: new Counter(
      describe('webhook_refusals_total', {
        of: 'webhook',
        help: 'Requests that were answered without a decision, by status, first word of the message, and connection.',
        action:
          'The log line `a request is refused` has the address, the request id and the message. 429 of one connection: its sender sends more at once than its share.',
        labels: ['status', 'token', 'connection'],
      }),
    ),
    webhookDropped: new Counter(
      describe('webhook_dropped_total', {
        of: 'webhook',
        help: 'Network connections that the webhook ended before their sender did, by the reason.',
        action:
          'full or address: find the address in the log line `a connection is dropped`, and limit it in front of the webhook. tls, http2 or not_http: the sender or the load balancer speaks another protocol. unread: its sender does not read the answers.',
        labels: ['why'],
      }),
    ),
    webhookConnections: new Gauge(
      describe('webhook_connections', {
        of: 'webhook',
        help: 'Open network connections, by whether a valid signature has come over them.',
        action:
          'Near WEBHOOK_CONNECTIONS, unsigned connections are dropped first. Many unsigned ones: see promo_intake_webhook_dropped_total.',
        labels: ['signed'],
      }),
    ),
    webhookReplays: new Counter(
      describe('webhook_replays_total', {
        of: 'webhook',
        help: 'Requests with a signature that was answered before: they were given the same answer, and wrote nothing.',
        action:
          'Some where a proxy or a client sends a request again. Many: look at who replays requests of this connection.',
        labels: ['connection'],
      }),
    ),
    webhookInProgress: new Gauge(
      describe('webhook_requests_in_progress', {
        of: 'webhook',
        help: 'Requests to the webhook that wait for a slot or are being decided.',
        action:
          'Usually few. Where they stay many, Postgres is slow (transaction_step_seconds) or there is more than the pods can take: add some.',
      }),
    ),
    webhookSeconds: new Histogram({
      ...describe('webhook_request_seconds', {
        of: 'webhook',
        help: 'Seconds from the head of a request to the webhook to its answer.',
        action:
          'Where it grows and batch_seconds does not, requests wait for a slot or their senders are slow: add pods, or raise WEBHOOK_SLOTS.',
      }),
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
    }),
  };
}
