/** What `worker --drain` waits for. */
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../clock';
import { makeCommittedOffsets, watermarks } from './group-offsets';
import { keyOf, messageOf, type StreamDeps } from './record-source';

const DRAIN_CHECK_MS = 250;
const DRAIN_RETRY_MS = 1_000;

export interface Drain {
  /** Resolves when the group is drained, or `stop` is aborted. */
  until(stop: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/**
 * Everything that is in the topics now: drained once the group has committed up to the end that each partition has at this moment,
 * whichever worker of the group decided it, and the store knows of all that was decided then.
 */
export async function makeDrain(
  kafka: Kafka,
  groupId: string,
  topics: readonly string[],
  readDecidedUpTo: StreamDeps['readDecidedUpTo'],
  logger: Logger,
): Promise<Drain> {
  // A partition with nothing in it has nothing to be decided, and no committed offset to wait for.
  const ends = (await watermarks(kafka, topics)).filter(({ low, high }) => high > low);
  const committed = makeCommittedOffsets(kafka, groupId);
  const waitedFor = [...new Set(ends.map(({ topic }) => topic))];

  async function isDrained(): Promise<boolean> {
    if (ends.length === 0) return true;
    const found = new Map((await committed.read(waitedFor)).map((position) => [keyOf(position), position]));
    if (ends.some((end) => (found.get(keyOf(end))?.offset ?? -1) < end.high)) return false;
    const decidedUpTo = await readDecidedUpTo(ends);
    return ends.every(
      (end, index) => (decidedUpTo[index] ?? 0) >= (found.get(keyOf(end))?.expectedUpTo ?? 0),
    );
  }

  return {
    async until(stop) {
      while (!stop.aborted) {
        try {
          if (await isDrained()) return;
          await systemClock.sleep(DRAIN_CHECK_MS, stop);
        } catch (error) {
          logger.warn({ error: messageOf(error) }, 'committed offsets could not be read');
          await systemClock.sleep(DRAIN_RETRY_MS, stop);
        }
      }
    },
    close: () => committed.close(),
  };
}
