/** Metrics of a process: a closed list, each with a help text and the action to take when it moves. */
import { makeConsoleMetrics } from './console-metrics';
import {
  makeCompletionMetrics,
  makePromotionMetrics,
  makePseudonymMetrics,
  makeRollupMetrics,
} from './fold-metrics';
import { type MeasuredProcess, makeMetricMakers } from './metric-makers';
import { makeWebhookMetrics } from './webhook-metrics';

/** The causes that a partition waits for. */
export const UNDECIDED_CAUSES = ['store', 'kafka', 'registry', 'limit', 'reference', 'worker'] as const;
export type UndecidedCause = (typeof UNDECIDED_CAUSES)[number];

/** The steps of a deciding transaction. */
export const TRANSACTION_STEPS = ['connect', 'find', 'lock', 'decide', 'write'] as const;
export type TransactionStep = (typeof TRANSACTION_STEPS)[number];

/**
 * The closed list of metrics.
 * @param role the process whose metrics are served; absent for those of both
 */
export function makeMetrics(role?: MeasuredProcess) {
  const { registry, actions, ...makers } = makeMetricMakers(role);
  const { counter, gauge, histogram } = makers;
  const metrics = {
    verdicts: counter('verdicts_total', {
      help: 'Deliveries answered, by verdict, reason, kind and connection.',
      action:
        'Where events of one connection are rejected, its sender has to correct them: see schemas/VERDICTS.md. The reason panic is a defect of promo-intake.',
      labels: ['verdict', 'reason', 'kind', 'connection'],
    }),
    testVerdicts: counter('test_verdicts_total', {
      help: 'Deliveries by connections for tests, by verdict, reason, kind and connection. No other metric of verdicts or duplicates has them.',
      action: 'None. The sender sees them in promo.test_verdicts.',
      labels: ['verdict', 'reason', 'kind', 'connection'],
    }),
    duplicates: counter('duplicates_total', {
      help: 'Deliveries of events that were decided before, by the transport of the first and of this one, and whether the content differs.',
      action:
        'Resends are harmless. Where the content differs, the sender uses an id twice: ask it, and find the events in promo.deliveries.',
      labels: ['first', 'transport', 'content'],
    }),
    redeliveries: counter('redeliveries_total', {
      of: 'worker',
      help: 'Records that were read again and answered as before.',
      action:
        'A rebalance or restart causes some. Where they continue, find the reason for which workers restart or leave the group.',
    }),
    deadLetters: counter('dead_letters_total', {
      of: 'worker',
      help: 'Records sent to the dead-letter topic, by reason.',
      action:
        'Find the sender in the dead-letter topic. The reason unclaimed needs a connection in the reference data.',
      labels: ['reason'],
    }),
    gapRecords: counter('gap_records_total', {
      of: 'worker',
      help: 'Offsets that were skipped: Kafka had deleted their records before a worker read them, or the committed offsets were set forward.',
      action:
        'Have the sender send the events of that time again, which is safe, and give the topic a longer retention.',
      labels: ['topic'],
    }),
    batchEvents: histogram('batch_events', {
      help: 'Events in a decided batch.',
      action: 'Full batches (BATCH_EVENTS) mean that a worker is behind: see the lag.',
      buckets: [1, 10, 100, 500, 1000, 2000, 4000, 8000],
    }),
    batchSeconds: histogram('batch_seconds', {
      help: 'Seconds from a decoded batch to its committed transaction (messaging.process.duration).',
      action:
        'Where it grows, promo_intake_transaction_step_seconds shows whether Postgres or the worker takes the time.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    }),
    decideSeconds: histogram('decide_seconds', {
      of: 'worker',
      help: 'Seconds from the timestamp of a record to its committed transaction. Measured on the first record of each batch, which waited longest. The timestamp is the append time where the topic keeps it.',
      action:
        'Where it grows and batch_seconds does not, records wait in the queue: add workers, at most one for each partition.',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    }),
    stepSeconds: histogram('transaction_step_seconds', {
      help: 'Seconds of a deciding transaction, by step.',
      action:
        'For connect, check the connections of Postgres. For find and lock, check locks and the cache. For write, check the disk of Postgres. For decide, check the CPU of the worker.',
      labels: ['step'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    }),
    retries: counter('retries_total', {
      help: 'Waits of undecided partitions, and retried batches, by class.',
      action:
        'undecided: see promo_intake_undecided_seconds. again: a sender that spreads a round over partitions costs time. data: look for panics.',
      labels: ['class'],
    }),
    undecidedPartitions: gauge('undecided_partitions', {
      of: 'worker',
      help: 'Partitions that wait because their next record cannot be decided now.',
      action: 'See promo_intake_undecided_seconds. /readyz names the partitions and their causes.',
    }),
    undecidedSeconds: gauge('undecided_seconds', {
      of: 'worker',
      help: 'Seconds that the oldest undecided partition has waited, by cause; 0 where no partition waits.',
      action: 'Resolve the cause. Nothing is lost. A restart does not help, except where the cause is limit.',
      labels: ['cause'],
    }),
    pausedPartitions: gauge('paused_partitions', {
      of: 'worker',
      help: 'Undecided partitions whose topic is paused, since too many of its events would be rejected.',
      action:
        'Correct the reference data or the schemas, or raise the limit: docs/operations/reject-limit.md.',
      labels: ['topic'],
    }),
    missingTopics: gauge('missing_topics', {
      of: 'worker',
      help: '1 for a topic of the reference data that did not exist at the last check, else 0.',
      action:
        'Create the topic, or correct its name in the reference data. A topic that the user may not Describe does not exist for it.',
      labels: ['topic'],
    }),
    unreadTopics: gauge('unread_topics', {
      of: 'worker',
      help: 'Topics of events that had no reader at the last check. Their name begins with promo.event.v1, or is close to the name of a topic that is read.',
      action:
        'The log and `promo-intake status` name them. Name the topic in a connection of the reference data, or have its sender use another topic: its records get no verdict. Topics of another cell on the same brokers count, too: leave them.',
    }),
    publishedVerdicts: counter('published_verdicts_total', {
      help: 'Messages that a topic of verdicts has stored. Where operators have topics of their own, each has its own series.',
      action:
        'Where one topic gets no messages while its operator sends, see promo_intake_verdict_topic_refuses.',
      labels: ['topic'],
    }),
    refusingVerdictTopics: gauge('verdict_topic_refuses', {
      help: '1 for a topic of verdicts that has refused a message within the last two minutes, else 0.',
      action:
        'The log has the reason: a missing or compacted topic, an ACL without Write, or a message that is too large. Partitions with records of its operator wait. The other topics go on.',
      labels: ['topic'],
    }),
    refusedPartitions: gauge('refused_partitions', {
      of: 'worker',
      help: 'Partitions of this worker that a broker refuses to serve, that have no leader, or whose next batch is damaged.',
      action:
        'The log has the reason: an ACL without Read on the topic, a missing broker or disk, or a damaged disk. Other topics continue. This one continues within 30 s once it is readable.',
      labels: ['topic'],
    }),
    assignedPartitions: gauge('assigned_partitions', {
      of: 'worker',
      help: 'Partitions that the group has given to this worker.',
      action: '0 for minutes: there are more workers than partitions, or the worker is not in its group.',
    }),
    lagRecords: gauge('lag_records', {
      of: 'worker',
      help: 'Offsets between the last decided record of a partition and its high watermark at the last fetch, for each partition of this worker.',
      action:
        'While state is deciding, add workers, at most one for each partition. Undecided partitions continue by themselves once their cause is resolved.',
      labels: ['topic', 'partition', 'state'],
    }),
    lagSeconds: gauge('lag_seconds', {
      of: 'worker',
      help: 'Age of the oldest fetched record that is not decided. Where all are decided and the partition has more, as behind an open transaction, the seconds since a worker saw that. Else 0.',
      action:
        'As for promo_intake_lag_records. It grows while Postgres is away, with the state undecided, and while a producer leaves a transaction open.',
      labels: ['topic', 'partition', 'state'],
    }),
    fetchAgeSeconds: gauge('fetch_age_seconds', {
      of: 'worker',
      help: 'Seconds since a broker last answered a fetch; usually less than one.',
      action: 'Above a minute: check the brokers, the network and the ACLs. Or the worker has no partition.',
    }),
    rebalanceSeconds: histogram('rebalance_seconds', {
      of: 'worker',
      help: 'Seconds of a rebalance in which this worker fetched nothing; the count is the number of rebalances.',
      action:
        'A rollout causes some. Otherwise look for workers that restart, or that the group removes as dead.',
      buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60],
    }),
    kafkaThrottledSeconds: counter('kafka_throttled_seconds_total', {
      help: 'Seconds for which brokers throttled this process by a quota, by request.',
      action:
        'Raise the quota of the user or client id, or share it among fewer workers: docs/operations/quotas.md. A throttled worker stays in its group, and its lag grows.',
      labels: ['request'],
    }),
    registryLookUps: counter('registry_lookups_total', {
      of: 'worker',
      help: 'Records that name a schema, by the result of the look-up.',
      action:
        'Failures: the registry is away, and its partitions wait. Continuous misses: a sender registers new schemas all the time.',
      labels: ['result'],
    }),
    walletCallsOpen: gauge('wallet_calls_open', {
      of: 'worker',
      help: "Calls of operators' wallets that are not over, in the whole store. Read at most every 10 s, behind a scrape.",
      action:
        'Where it grows, a wallet does not answer, or no process sends calls again: see promo_intake_wallet_oldest_due_seconds.',
    }),
    walletCallsUnresolved: gauge('wallet_calls_unresolved', {
      of: 'worker',
      help: "Calls of operators' wallets that people have to resolve, in the whole store.",
      action: 'Resolve them with the operator, and close them: docs/runbook.md.',
    }),
    walletOldestDueSeconds: gauge('wallet_oldest_due_seconds', {
      of: 'worker',
      help: 'Seconds for which the oldest due call of a wallet has waited, in the whole store; 0 where none is due.',
      action:
        'Above a minute: no process sends wallet calls again, or all its connections to one wallet are in use.',
    }),
    ...makeWebhookMetrics(makers),
    ...makeConsoleMetrics(makers),
    rollups: makeRollupMetrics(makers),
    pseudonyms: makePseudonymMetrics(makers),
    promotions: makePromotionMetrics(makers),
    completions: makeCompletionMetrics(makers),
    logLinesDropped: counter('log_lines_dropped_total', {
      of: 'each',
      help: 'Log lines that were dropped, since the log could not be written.',
      action:
        'Check the target of the log: a full disk, or a pipe or terminal whose reader has stopped or is gone. The process continues.',
    }),
    healthConnectionsDropped: counter('health_connections_dropped_total', {
      of: 'each',
      help: 'Connections to HTTP_PORT that were dropped, the oldest first, since there were too many in all or from one address.',
      action:
        'Find the client that opens connections to HTTP_PORT and sends no request. Probes and scrapes continue. networkPolicy.from lists the peers that may reach the port.',
    }),
    healthRequestsRefused: counter('health_requests_refused_total', {
      of: 'each',
      help: 'Requests to HTTP_PORT that were answered 429, since their address sent too many in a second.',
      action:
        'Make that client send fewer requests. networkPolicy.from lists the peers that may reach the port.',
    }),
    buildInfo: gauge('build_info', {
      of: 'each',
      help: '1, with the version of promo-intake and of Node.js.',
      action: 'Two versions for longer than a rollout: check the rollout.',
      labels: ['version', 'node'],
    }),
  };
  // A counter that starts later than at 0 shows no increase at its first event.
  for (const status of ['200', '401', '429', '503']) metrics.webhookRequests.inc({ status }, 0);
  for (const page of ['/', 'other']) metrics.consoleRequests.inc({ page, status: '200' }, 0);
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
