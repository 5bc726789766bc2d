/** The end of `worker --drain`: waits until the topics are decided. */

import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { keyOf } from '../../lib/topic-partition';
import { type ReadCluster, type ReadDecidedUpTo, readMirroredOffset } from '../commit-notes';
import { type Committed, makeCommittedOffsets, type Watermarks, watermarks } from './offsets';

const DRAIN_CHECK_MS = 250;
const DRAIN_RETRY_MS = 1_000;
/**
 * Interval of the checks for deleted records. Offsets of records decided before their deletion are committed
 * well within this time.
 */
const DELETED_CHECK_MS = 5_000;

export interface Drain {
  /** Resolves with the reason once nothing is left to wait for, or once `stop` is aborted. */
  until(stop: AbortSignal): Promise<'drained' | 'records deleted' | 'stop requested'>;
  close(): Promise<void>;
}

/**
 * Waits for all records that are in the topics now. The topics are drained once two things hold:
 * - The group has committed up to the present end of each partition, whichever worker decided the records.
 * - The store still has all those decisions.
 *
 * Records that are deleted meanwhile are not waited for.
 */
export async function makeDrain(
  kafka: Kafka,
  groupId: string,
  topics: readonly string[],
  { cluster, readDecidedUpTo }: { readonly cluster: ReadCluster; readonly readDecidedUpTo: ReadDecidedUpTo },
  logger: Logger,
): Promise<Drain> {
  // An empty partition has nothing to decide, and no committed offset to wait for.
  let ends = (await watermarks(kafka, topics)).filter(({ low, high }) => high > low);
  const offsets = makeCommittedOffsets(kafka, groupId);
  /** The last known committed offsets. Kafka forgets them when it deletes a topic. */
  const committed = new Map<string, Committed>();
  /** Partitions whose awaited records were all deleted at the last check. */
  let deletedBefore: ReadonlySet<string> = new Set();

  async function undecided(): Promise<readonly Watermarks[]> {
    if (ends.length === 0) return [];
    for (const each of await offsets.read()) committed.set(keyOf(each), each);
    const uncommitted = ends.filter((end) => (committed.get(keyOf(end))?.offset ?? -1) < end.high);
    if (uncommitted.length > 0) return uncommitted;
    const decidedUpTo = await readDecidedUpTo(ends);
    const left = await Promise.all(
      ends.map(async (end, index) => {
        const note = committed.get(keyOf(end))?.note ?? null;
        if (note === null) return [];
        const isKnown =
          note.cluster === cluster.name
            ? (decidedUpTo[index] ?? 0) >= note.upTo
            : (await readMirroredOffset(readDecidedUpTo, cluster, end, note)).isKnown;
        return isKnown ? [] : [end];
      }),
    );
    return left.flat();
  }

  /**
   * Stops waiting for partitions whose awaited records were all deleted at two checks in a row.
   *
   * @returns whether there are any
   */
  async function leaveOutDeleted(left: readonly Watermarks[]): Promise<boolean> {
    const found = await watermarks(
      kafka,
      left.map(({ topic }) => topic),
    );
    const present = new Map(found.map((now) => [keyOf(now), now]));
    const deleted = left.filter((end) => {
      const now = present.get(keyOf(end));
      // A lower end belongs to a new topic of the same name.
      return now === undefined || now.low >= end.high || now.high < end.high;
    });
    const twice = deleted.filter((end) => deletedBefore.has(keyOf(end)));
    deletedBefore = new Set(deleted.map(keyOf));
    for (const { topic, partition, high } of twice)
      logger.error({ topic, partition, to: high }, 'records were deleted before they were decided');
    ends = ends.filter((end) => !twice.includes(end));
    return twice.length > 0;
  }

  return {
    async until(stop) {
      let drained: 'drained' | 'records deleted' = 'drained';
      let checkAt = systemClock.now() + DELETED_CHECK_MS;
      while (!stop.aborted) {
        try {
          const left = await undecided();
          if (left.length === 0) return drained;
          if (systemClock.now() >= checkAt) {
            if (await leaveOutDeleted(left)) drained = 'records deleted';
            checkAt = systemClock.now() + DELETED_CHECK_MS;
          }
          await systemClock.sleep(DRAIN_CHECK_MS, stop);
        } catch (error) {
          logger.warn({ error: messageOf(error) }, 'cannot read how far the topics are decided, retrying');
          await systemClock.sleep(DRAIN_RETRY_MS, stop);
        }
      }
      return 'stop requested';
    },
    close: () => offsets.close(),
  };
}
