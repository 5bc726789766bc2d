/** Metrics of a process: a closed list, each with a help text and the action to take when it moves. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { makeWebhookMetrics } from './webhook-metrics';

/** The values of our metrics' labels. Each label has few values, however many records come. */
export const LABELS = {
  verdict: 'accepted, rejected, skipped or duplicate',
  reason: 'a reason of schemas/VERDICTS.md; of a duplicate that of its first verdict; empty for none',
  kind: 'one of the seven kinds; empty where an event has none of them',
  connection: 'an id of the reference data; empty where a record belongs to none',
  first: 'the transport that brought the event first: kafka or webhook',
  transport: 'the transport that brought it again: kafka or webhook',
  content: 'same or differs',
  class:
    'undecided: the partition waits, or the store could not decide a request, which is answered 503; again: the batch met other writers and is decided again at once; data: the batch is halved to find the event that fails',
  cause:
    'store: Postgres; kafka: what is published is refused; registry; limit: the topic is paused; reference: there is no reference data, or none that can be read; worker: anything else',
  step: 'connect: a connection of the pool; find: begin, the lock of the partition, what is decided already, in a small batch the locks of its rounds; lock: those of a large one; decide: the rules; write: the rows and the commit',
  result: 'hit, miss: the registry was asked; failure: it did not answer',
  request: 'fetch, produce, or other: joins, heartbeats, commits and look-ups',
  status: 'the HTTP status of the answer; broken_off where the sender left before its request was whole',
  token: 'the first words of the message of a refusal, up to its colon, such as signature_invalid',
  why: 'full, address: another connection took its place; late_head, late_body, unread: the sender sent, or read, too slowly; pipelined: too many requests at once; drain: a refused body did not end; tls, http2, connect, not_http, large_head: what came is no request',
  signed: 'yes, no',
  topic: 'a topic that is to be read',
  partition: 'a number of a partition that this worker has now',
  state: 'deciding, or undecided: it waits, and more workers would not help',
  version: 'of promo-intake',
  node: 'of Node.js',
} as const;
type Label = keyof typeof LABELS;

/** The causes that a partition waits for. */
export const UNDECIDED_CAUSES = ['store', 'kafka', 'registry', 'limit', 'reference', 'worker'] as const;
export type UndecidedCause = (typeof UNDECIDED_CAUSES)[number];

/** The steps of a deciding transaction. */
export const TRANSACTION_STEPS = ['connect', 'find', 'lock', 'decide', 'write'] as const;
export type TransactionStep = (typeof TRANSACTION_STEPS)[number];

export const OWN_PREFIX = 'promo_intake_';

/** The texts of a metric, one sentence each: its meaning, and the operator's action when it moves. */
interface About<L extends Label> {
  readonly help: string;
  readonly action: string;
  readonly labels?: readonly L[];
  /** The process that serves it; absent where both do. */
  readonly of?: Role;
}

/** The process that is measured: a worker, or the webhook. */
type Role = 'worker' | 'webhook';

/**
 * The closed list of metrics.
 * @param role the process whose metrics are served; absent for those of both
 */
export function makeMetrics(role?: Role) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const actions = new Map<string, string>();
  const describe = <L extends Label = never>(name: string, { help, action, labels = [], of }: About<L>) => {
    actions.set(OWN_PREFIX + name, action);
    const isServed = role === undefined || of === undefined || of === role;
    return { name: OWN_PREFIX + name, help, labelNames: [...labels], registers: isServed ? [registry] : [] };
  };
  const metrics = {
    verdicts: new Counter(
      describe('verdicts_total', {
        help: 'Deliveries answered, by verdict, reason, kind and connection.',
        action:
          'Rejected ones of one connection are its sender’s to mend: schemas/VERDICTS.md says how. The reason panic is ours.',
        labels: ['verdict', 'reason', 'kind', 'connection'],
      }),
    ),
    duplicates: new Counter(
      describe('duplicates_total', {
        help: 'Deliveries of events that were decided before, by the transport of the first and of this one, and whether the content differs.',
        action:
          'Resends are harmless. Ask the sender about differing content: it uses an id twice, and promo.deliveries has the events.',
        labels: ['first', 'transport', 'content'],
      }),
    ),
    redeliveries: new Counter(
      describe('redeliveries_total', {
        of: 'worker',
        help: 'Records that were read again and answered as before.',
        action:
          'Some with each rebalance and restart. Look for what makes workers come and go where it does not end.',
      }),
    ),
    deadLetters: new Counter(
      describe('dead_letters_total', {
        of: 'worker',
        help: 'Records sent to the dead-letter topic, by reason.',
        action:
          'Find the sender in the dead-letter topic; unclaimed ones need a connection in the reference data.',
        labels: ['reason'],
      }),
    ),
    gapRecords: new Counter(
      describe('gap_records_total', {
        of: 'worker',
        help: 'Offsets that were passed over: Kafka had deleted their records before they were read, or somebody set the offsets forward.',
        action: 'Have the sender send that time again, which is safe, and give the topic a longer retention.',
        labels: ['topic'],
      }),
    ),
    batchEvents: new Histogram({
      ...describe('batch_events', {
        help: 'Events in a decided batch.',
        action: 'Full batches (BATCH_EVENTS) say that a worker is behind: see the lag.',
      }),
      buckets: [1, 10, 100, 500, 1000, 2000, 4000, 8000],
    }),
    batchSeconds: new Histogram({
      ...describe('batch_seconds', {
        help: 'Seconds from a decoded batch to its committed transaction (messaging.process.duration).',
        action:
          'Where it grows, the steps of the transaction say whether Postgres or the worker takes the time.',
      }),
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    }),
    decideSeconds: new Histogram({
      ...describe('decide_seconds', {
        of: 'worker',
        help: 'Seconds from the time of a record, its append where the topic keeps that, to its commit: of the first record of each batch, which waited longest.',
        action:
          'Where it grows and batch_seconds does not, records wait for their turn: add workers up to the partitions.',
      }),
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    }),
    stepSeconds: new Histogram({
      ...describe('transaction_step_seconds', {
        help: 'Seconds of a deciding transaction, by step.',
        action:
          'connect: Postgres refuses or lacks connections; find and lock: locks or a cold cache; write: its disk; decide: CPU of the worker.',
        labels: ['step'],
      }),
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    }),
    retries: new Counter(
      describe('retries_total', {
        help: 'Waits of undecided partitions, and batches that were decided again, by class.',
        action:
          'undecided: see promo_intake_undecided_seconds; again: senders that spread a round over partitions cost time; data: look for panics.',
        labels: ['class'],
      }),
    ),
    undecidedPartitions: new Gauge(
      describe('undecided_partitions', {
        of: 'worker',
        help: 'Partitions that wait because their next record cannot be decided now.',
        action: 'See promo_intake_undecided_seconds; /readyz names the partitions and what they wait for.',
      }),
    ),
    undecidedSeconds: new Gauge(
      describe('undecided_seconds', {
        of: 'worker',
        help: 'Seconds that the oldest undecided partition has waited, by what it waits for now; 0 where none does.',
        action: 'Mend the cause. Nothing is lost, and no restart helps, but where the cause is limit.',
        labels: ['cause'],
      }),
    ),
    pausedPartitions: new Gauge(
      describe('paused_partitions', {
        of: 'worker',
        help: 'Undecided partitions whose topic is paused, since too many of its events would be rejected.',
        action:
          'Correct the reference data or the schemas, or raise the limit: docs/operations/reject-limit.md.',
        labels: ['topic'],
      }),
    ),
    missingTopics: new Gauge(
      describe('missing_topics', {
        of: 'worker',
        help: '1 for a topic that is to be read and does not exist, else 0; as the last look at Kafka told.',
        action:
          'Make the topic, or correct its name in the reference data; what the user may not Describe does not exist for it.',
        labels: ['topic'],
      }),
    ),
    unreadTopics: new Gauge(
      describe('unread_topics', {
        of: 'worker',
        help: 'Topics that look like topics of events and that nobody reads, as the last look at Kafka found: promo.event.v1 begins their name, or it is close to one that is read.',
        action:
          'The log and `promo-intake status` name them. Name the topic in a connection of the reference data, or have its sender send elsewhere: what stands there gets no verdict.',
      }),
    ),
    refusedPartitions: new Gauge(
      describe('refused_partitions', {
        of: 'worker',
        help: 'Partitions of this worker that a broker does not let it read, that have no leader, or whose next batch is damaged.',
        action:
          'The log says why: an ACL without Read on the topic, a broker or a disk that is away, or one that cannot be read. Other topics go on, and this one does within 30 s once it can be read.',
        labels: ['topic'],
      }),
    ),
    assignedPartitions: new Gauge(
      describe('assigned_partitions', {
        of: 'worker',
        help: 'Partitions that the group has given to this worker.',
        action: 'None for minutes: more workers than partitions, or the worker is not in its group.',
      }),
    ),
    lagRecords: new Gauge(
      describe('lag_records', {
        of: 'worker',
        help: 'Offsets between what is decided of a partition and its end, as the last fetch told; of each partition of this worker.',
        action:
          'Add workers up to the partitions while state is deciding; undecided ones get on by themselves once they can.',
        labels: ['topic', 'partition', 'state'],
      }),
    ),
    lagSeconds: new Gauge(
      describe('lag_seconds', {
        of: 'worker',
        help: 'Age of the oldest fetched record that is not decided. Where all of them are and the partition goes on, as behind an open transaction, the seconds since that was seen. Else 0.',
        action:
          'As for promo_intake_lag_records. It grows while Postgres is away, which the state tells, and where a transaction of a producer is not ended.',
        labels: ['topic', 'partition', 'state'],
      }),
    ),
    fetchAgeSeconds: new Gauge(
      describe('fetch_age_seconds', {
        of: 'worker',
        help: 'Seconds since a broker last answered a fetch; usually less than one.',
        action: 'Beyond a minute: the brokers, the way to them or the ACLs; or the worker has no partition.',
      }),
    ),
    rebalanceSeconds: new Histogram({
      ...describe('rebalance_seconds', {
        of: 'worker',
        help: 'Seconds of a rebalance in which this worker fetched nothing; its count is that of rebalances.',
        action:
          'Some with each rollout. Otherwise look for workers that restart, or that the group takes for dead.',
      }),
      buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60],
    }),
    kafkaThrottledSeconds: new Counter(
      describe('kafka_throttled_seconds_total', {
        help: 'Seconds for which brokers throttled this process by a quota, by request.',
        action:
          'Raise the quota of the user or client id, or share it among fewer workers: docs/operations/quotas.md. A worker that is throttled stays in its group, and its lag grows.',
        labels: ['request'],
      }),
    ),
    registryLookUps: new Counter(
      describe('registry_lookups_total', {
        of: 'worker',
        help: 'Records that name a schema, by how it was found.',
        action:
          'Failures: the registry is away, and what needs it waits. Misses without end: a sender with ever new schemas.',
        labels: ['result'],
      }),
    ),
    ...makeWebhookMetrics(describe),
    logLinesDropped: new Counter(
      describe('log_lines_dropped_total', {
        help: 'Log lines that were dropped, since the log could not be written.',
        action:
          'Look at what the log is written to: a disk that is full, a pipe or terminal whose reader has stopped or is gone. The process goes on.',
      }),
    ),
    healthConnectionsDropped: new Counter(
      describe('health_connections_dropped_total', {
        help: 'Connections to HTTP_PORT that were dropped, the oldest first, since there were too many in all or of one address.',
        action:
          'Find who opens connections to HTTP_PORT and sends no request. Probes and scrapes go on; networkPolicy.from says who may reach the port.',
      }),
    ),
    healthRequestsRefused: new Counter(
      describe('health_requests_refused_total', {
        help: 'Requests to HTTP_PORT that were answered 429, since their address sent too many in a second.',
        action: 'Have its owner ask less often; networkPolicy.from says who may reach the port.',
      }),
    ),
    buildInfo: new Gauge(
      describe('build_info', {
        help: '1, with the version of promo-intake and of Node.js.',
        action: 'Two versions for longer than a rollout: look at the rollout.',
        labels: ['version', 'node'],
      }),
    ),
  };
  // A counter that starts later than at 0 shows no increase at its first event.
  for (const status of ['200', '401', '429', '503']) metrics.webhookRequests.inc({ status }, 0);
  for (const value of ['undecided', 'again', 'data']) metrics.retries.inc({ class: value }, 0);
  return {
    ...metrics,
    registry,
    /** The operator's action by the name of the metric. */
    actions,
    /** Sets the gauges that are computed only for a scrape. Called before each answer. */
    beforeScrape: (): void => undefined,
  };
}

export type Metrics = ReturnType<typeof makeMetrics>;
