/** The metrics of the webhook alone. */
import type { MetricMakers } from './metric-makers';

export function makeWebhookMetrics({ counter, gauge, histogram }: MetricMakers) {
  return {
    webhookRequests: counter('webhook_requests_total', {
      of: 'webhook',
      help: 'Requests to the webhook, by the status of the answer. broken_off: the sender aborted the request.',
      action:
        '401: the secret or the clock of the sender is wrong. 400, 403, 413, 415: the message of the answer has the correction. 429: one sender is beyond its share. 503: the log shows whether Postgres is away or all slots are taken. More pods help where all slots are taken.',
      labels: ['status'],
    }),
    webhookRefusals: counter('webhook_refusals_total', {
      of: 'webhook',
      help: 'Requests that were answered without a decision, by status, first word of the message, and connection.',
      action:
        'The log line `request refused` has the address, the request id and the message. 429 of one connection: its sender has more requests in flight than its share.',
      labels: ['status', 'token', 'connection'],
    }),
    webhookDropped: counter('webhook_dropped_total', {
      of: 'webhook',
      help: 'Network connections that the webhook ended before their sender did, by reason.',
      action:
        'For full or address, find the address in the log line `connection dropped`, and limit it in front of the webhook. For tls, http2 or not_http, the sender or the load balancer uses another protocol. For unread, the sender does not read its answers.',
      labels: ['why'],
    }),
    webhookConnections: gauge('webhook_connections', {
      of: 'webhook',
      help: 'Open network connections, by whether a valid signature has come over them.',
      action:
        'Near WEBHOOK_CONNECTIONS, unsigned connections are dropped first. Many unsigned ones: see promo_intake_webhook_dropped_total.',
      labels: ['signed'],
    }),
    webhookReplays: counter('webhook_replays_total', {
      of: 'webhook',
      help: 'Requests with a signature that was answered before. They got the same answer, and wrote nothing.',
      action:
        'A proxy or client that retries causes some. Many: find the client that replays requests of this connection.',
      labels: ['connection'],
    }),
    webhookRehearsals: counter('webhook_rehearsals_total', {
      of: 'webhook',
      help: 'Rehearsals that were answered with verdicts. They stored nothing, and count in no metric of verdicts or batches.',
      action: 'None. A sender that only rehearses has not gone live yet.',
      labels: ['connection'],
    }),
    webhookRehearsedEvents: counter('webhook_rehearsed_events_total', {
      of: 'webhook',
      help: 'Events of rehearsals that were answered with verdicts.',
      action:
        'Rehearsals share two connections to Postgres, and wait for one another. Many: ask the sender to rehearse a sample.',
      labels: ['connection'],
    }),
    webhookInProgress: gauge('webhook_requests_in_progress', {
      of: 'webhook',
      help: 'Requests to the webhook that wait for a slot or are being decided.',
      action:
        'Usually few. Where they stay many, Postgres is slow (transaction_step_seconds), or the load is too high for the pods: add pods.',
    }),
    webhookSeconds: histogram('webhook_request_seconds', {
      of: 'webhook',
      help: 'Seconds from the head of a request to the webhook to its answer.',
      action:
        'Where it grows and batch_seconds does not, requests wait for a slot or their senders are slow: add pods, or raise WEBHOOK_SLOTS.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
    }),
  };
}
