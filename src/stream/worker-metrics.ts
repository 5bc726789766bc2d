/** What of a worker is measured beside its batches: the steps of a transaction, and its state when its metrics are asked for. */
import type { Logger } from 'pino';
import { type OnThrottled, THROTTLED_REQUESTS, type Throttled } from '../kafka/port';
import { secondsSince } from '../lib/clock';
import type { LookUps } from '../schema-registry/wire-format';
import { limitRate } from '../telemetry/logger';
import { type Metrics, type TransactionStep, UNDECIDED_CAUSES } from '../telemetry/metrics';
import type { Stream } from './stream';

/** Measures the steps of one transaction: told of the end of each, it knows how long it took. */
export function makeStepTimer({ stepSeconds }: Metrics): (step: TransactionStep) => void {
  let began = performance.now();
  return (step) => {
    const now = performance.now();
    stepSeconds.observe({ step }, (now - began) / 1000);
    began = now;
  };
}

/** A broker with a quota throttles several times a second. */
const THROTTLED_LOG_EVERY_MS = 60_000;
/** A quota that lets records through answers a fetch in full at least this often: what waits longer may never arrive. */
export const FETCHES_THROTTLED_LONG_MS = 60_000;

/** Counts the time for which brokers throttle this process, and logs it once a minute for each kind of request. */
export function observeThrottling({ kafkaThrottledSeconds }: Metrics, logger: Logger): OnThrottled {
  const logs = new Map(
    THROTTLED_REQUESTS.map((request) => {
      // What is not there yet cannot be seen to rise.
      kafkaThrottledSeconds.inc({ request }, 0);
      const log = ({ broker, ms }: Throttled, suppressed: number) =>
        logger.warn(
          { request, broker, throttleMs: ms, suppressed },
          'Kafka throttles requests of this process: a quota of the brokers',
        );
      return [request, limitRate(THROTTLED_LOG_EVERY_MS, log)];
    }),
  );
  const logLong = limitRate(THROTTLED_LOG_EVERY_MS, ({ broker, ms, everyFetchForMs }: Throttled) =>
    logger.error(
      { broker, throttleMs: ms, everyFetchForMs },
      'Kafka throttles every fetch, and no record arrives: a batch larger than ten seconds of consumer_byte_rate never does; raise the quota',
    ),
  );
  return (throttled) => {
    kafkaThrottledSeconds.inc({ request: throttled.request }, throttled.ms / 1000);
    logs.get(throttled.request)?.(throttled);
    if (throttled.everyFetchForMs >= FETCHES_THROTTLED_LONG_MS) logLong(throttled);
  };
}

/** Sets which of the topics that are to be read are missing. One that is to be read no more has no line any more. */
export function observeTopics({ missingTopics }: Metrics, exists: ReadonlyMap<string, boolean>): void {
  missingTopics.reset();
  for (const [topic, isThere] of exists) missingTopics.set({ topic }, isThere ? 0 : 1);
}

/** Sets what is only worth knowing when the metrics are asked for. What this worker has no more has no line any more. */
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
