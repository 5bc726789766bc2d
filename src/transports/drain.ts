/** What `worker --drain` waits for: the ends of partitions, and how far the group has committed. */
import type { Admin, Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../clock';
import type { TopicPartition } from '../intake';
import { readCommitNote } from './commit-note';
import { connectedAdmin, offsetOf } from './kafka';
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
  decidedUpTo: StreamDeps['decidedUpTo'],
  logger: Logger,
): Promise<Drain> {
  // A partition with nothing in it has nothing to be decided, and no committed offset to wait for.
  const ends = (await watermarks(kafka, topics)).filter(({ low, offset }) => offset > low);
  const committed = makeCommittedOffsets(kafka, groupId);
  const waitedFor = [...new Set(ends.map(({ topic }) => topic))];

  async function isDrained(): Promise<boolean> {
    if (ends.length === 0) return true;
    const found = new Map((await committed.read(waitedFor)).map((position) => [keyOf(position), position]));
    if (ends.some((end) => (found.get(keyOf(end))?.offset ?? -1) < end.offset)) return false;
    const held = await decidedUpTo(ends);
    return ends.every((end, index) => (held[index] ?? 0) >= (found.get(keyOf(end))?.decidedUpTo ?? 0));
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

/** The beginning and end of every partition of those topics that exist, as they are now: the end is one past the last record, whatever its transactions. */
export async function watermarks(
  kafka: Kafka,
  topics: readonly string[],
): Promise<(TopicPartition & { low: number; offset: number })[]> {
  const admin = await connectedAdmin(readingUncommitted(kafka));
  try {
    const existing = new Set(await admin.listTopics());
    const present = topics.filter((topic) => existing.has(topic));
    const ends = await Promise.all(
      present.map(async (topic) => {
        const offsets = await admin.fetchTopicOffsets(topic);
        return offsets.map(({ partition, low, high }) => ({
          topic,
          partition,
          low: offsetOf(low),
          offset: offsetOf(high),
        }));
      }),
    );
    return ends.flat();
  } finally {
    await admin.disconnect();
  }
}

/**
 * The same client, asking for ends as readers of uncommitted records see them. kafkajs' admin asks for the last stable offset, which an open
 * transaction holds back, and has no option for it; the option is one of the cluster that a client makes for its admin.
 */
function readingUncommitted(kafka: Kafka): Kafka {
  const makesCluster = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  const makeCluster: unknown = makesCluster && Reflect.get(kafka, makesCluster);
  if (makesCluster === undefined || typeof makeCluster !== 'function')
    throw new Error('kafkajs makes its clusters in another way than version 2.2.4');
  return Object.create(kafka, {
    [makesCluster]: {
      value: (options: object) => makeCluster({ ...options, isolationLevel: READ_UNCOMMITTED }),
    },
  });
}

const READ_UNCOMMITTED = 0;

/** Where a group goes on in a partition: -1 where it has committed nothing; and what it has committed with it, by `readCommitNote`. */
export interface Committed extends TopicPartition {
  readonly offset: number;
  readonly decidedUpTo: number | null;
}

/** A group's committed offsets, by topic and partition. */
export async function committedOffsets(
  admin: Admin,
  groupId: string,
  topics: readonly string[],
): Promise<Committed[]> {
  const committed = await admin.fetchOffsets({ groupId, topics: [...topics] });
  return committed.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset, metadata }) => ({
      ...{ topic, partition, offset: offsetOf(offset) },
      decidedUpTo: readCommitNote(metadata),
    })),
  );
}

/** The same, asked for again and again by a client of its own. */
export function makeCommittedOffsets(kafka: Kafka, groupId: string) {
  let admin: Admin | null = null;
  return {
    async read(topics: readonly string[]): Promise<Committed[]> {
      admin ??= await connectedAdmin(kafka);
      return committedOffsets(admin, groupId, topics);
    },
    async close(): Promise<void> {
      await admin?.disconnect();
    },
  };
}
