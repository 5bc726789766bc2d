/** What `worker --drain` waits for. */

import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { keyOf } from '../../lib/topic-partition';
import { type ReadCluster, type ReadDecidedUpTo, readMovedOffset } from '../moved-offsets';
import { type Committed, makeCommittedOffsets, type Watermarks, watermarks } from './offsets';

const DRAIN_CHECK_MS = 250;
const DRAIN_RETRY_MS = 1_000;
/** Whether what is waited for is still there. Offsets of what was decided before it was deleted are committed well within it. */
const DELETED_CHECK_MS = 5_000;

export interface Drain {
  /** Resolves when nothing is left to wait for, or `stop` is aborted, with why it does. */
  until(stop: AbortSignal): Promise<'drained' | 'records deleted' | 'told to stop'>;
  close(): Promise<void>;
}

/**
 * Everything that is in the topics now: drained once the group has committed up to the end that each partition has at this moment,
 * whichever worker of the group decided it, and the store knows of all that was decided then. What is deleted meanwhile is not waited for.
 */
export async function makeDrain(
  kafka: Kafka,
  groupId: string,
  topics: readonly string[],
  { cluster, readDecidedUpTo }: { readonly cluster: ReadCluster; readonly readDecidedUpTo: ReadDecidedUpTo },
  logger: Logger,
): Promise<Drain> {
  // A partition with nothing in it has nothing to be decided, and no committed offset to wait for.
  let ends = (await watermarks(kafka, topics)).filter(({ low, high }) => high > low);
  const offsets = makeCommittedOffsets(kafka, groupId);
  /** What the group was last seen to have committed: what is deleted with its topic, too. */
  const committed = new Map<string, Committed>();
  /** Partitions of which nothing that is waited for was left at the last check. */
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
            : (await readMovedOffset(readDecidedUpTo, cluster, end, note)).isKnown;
        return isKnown ? [] : [end];
      }),
    );
    return left.flat();
  }

  /** Waits no more for partitions of which nothing was left at two checks. @returns whether there are any */
  async function leaveOutDeleted(left: readonly Watermarks[]): Promise<boolean> {
    const found = await watermarks(
      kafka,
      left.map(({ topic }) => topic),
    );
    const present = new Map(found.map((now) => [keyOf(now), now]));
    const deleted = left.filter((end) => {
      const now = present.get(keyOf(end));
      // A lower end is that of a topic made anew.
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
          logger.warn({ error: messageOf(error) }, 'it cannot be told how far the topics are decided');
          await systemClock.sleep(DRAIN_RETRY_MS, stop);
        }
      }
      return 'told to stop';
    },
    close: () => offsets.close(),
  };
}
