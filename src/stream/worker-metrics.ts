/**
 * Metrics of a worker other than those of its batches: the steps of a transaction, and its state at each
 * scrape.
 */
import type { Logger } from 'pino';
import { type OnThrottled, THROTTLED_REQUESTS } from '../kafka/port';
import { secondsSince, systemClock } from '../lib/clock';
import { limitLines } from '../lib/line-limit';
import type { LookUps } from '../schema-registry/wire-format';
import { type Metrics, type TransactionStep, UNDECIDED_CAUSES } from '../telemetry/metrics';
import type { Stream } from './stream';

/** Measures the steps of one transaction. The function is called at the end of each step. */
export function makeStepTimer({ stepSeconds }: Metrics): (step: TransactionStep) => void {
  let began = performance.now();
  return (step) => {
    const now = performance.now();
    stepSeconds.observe({ step }, (now - began) / 1000);
    began = now;
  };
}

/**
 * A quota that lets records through answers a fetch in full at least this often. A fetch that waits longer
 * may never be answered with records.
 */
const FETCHES_THROTTLED_LONG_MS = 60_000;

/**
 * Counts the time for which brokers throttle this process. Logs it once a minute for each kind of request.
 */
export function observeThrottling({ kafkaThrottledSeconds }: Metrics, logger: Logger): OnThrottled {
  // A counter that does not exist yet cannot be seen to rise.
  for (const request of THROTTLED_REQUESTS) kafkaThrottledSeconds.inc({ request }, 0);
  // A broker with a quota throttles several times a second.
  const logLimited = limitLines(logger, systemClock);
  return ({ request, broker, ms, everyFetchForMs }) => {
    kafkaThrottledSeconds.inc({ request }, ms / 1000);
    logLimited(
      request,
      { request, broker, throttleMs: ms },
      'Kafka throttles requests of this process by a quota',
    );
    if (everyFetchForMs < FETCHES_THROTTLED_LONG_MS) return;
    logLimited(
      'every fetch',
      { broker, throttleMs: ms, everyFetchForMs },
      'Kafka throttles every fetch, and no record arrives: raise the quota. A batch larger than ten seconds of consumer_byte_rate never arrives',
      'error',
    );
  };
}

/**
 * Sets for each configured topic whether it is missing. A topic that is no longer configured loses its
 * series.
 */
export function observeTopics({ missingTopics }: Metrics, exists: ReadonlyMap<string, boolean>): void {
  missingTopics.reset();
  for (const [topic, isThere] of exists) missingTopics.set({ topic }, isThere ? 0 : 1);
}

/**
 * Sets the gauges that are only needed at a scrape. A partition that this worker no longer owns loses its
 * series.
 */
export function observeState(
  metrics: Metrics,
  stream: Pick<Stream, 'partitionStatuses' | 'fetchAgeMs'> | null,
  lookUps: LookUps,
): void {
  metrics.registryLookUps.reset();
  for (const result of ['hit', 'miss', 'failure'] as const)
    metrics.registryLookUps.inc({ result }, lookUps[result]);
  if (stream === null) return;
  const statuses = stream.partitionStatuses();
  metrics.assignedPartitions.set(statuses.length);
  metrics.fetchAgeSeconds.set(stream.fetchAgeMs() / 1000);
  metrics.lagRecords.reset();
  metrics.lagSeconds.reset();
  metrics.undecidedPartitions.set(statuses.filter(({ undecided }) => undecided !== null).length);
  metrics.pausedPartitions.reset();
  for (const { topic, undecided } of statuses)
    metrics.pausedPartitions.inc({ topic }, undecided?.cause === 'limit' ? 1 : 0);
  for (const cause of UNDECIDED_CAUSES) metrics.undecidedSeconds.set({ cause }, 0);
  const oldest = new Map<string, number>();
  for (const { topic, partition, lag, waitsSince, undecided } of statuses) {
    const labels = { topic, partition, state: undecided === null ? 'deciding' : 'undecided' };
    if (lag !== null) metrics.lagRecords.set(labels, lag);
    metrics.lagSeconds.set(labels, waitsSince === null ? 0 : secondsSince(waitsSince));
    if (undecided === null) continue;
    const { cause, sinceMs } = undecided;
    oldest.set(cause, Math.max(oldest.get(cause) ?? 0, sinceMs));
    metrics.undecidedSeconds.set({ cause }, (oldest.get(cause) ?? 0) / 1000);
  }
}
