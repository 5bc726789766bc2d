/** Offsets of partitions and groups, as Kafka's brokers tell them: where a partition begins and ends, and how far a group has committed. */
import type { Admin, Kafka } from 'kafkajs';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';
import { connectedAdmin, offsetOf } from '../client/client';
import { type CommitNote, readCommitNote } from '../commit-note';

/** What Kafka has of a partition. */
export interface Watermarks extends TopicPartition {
  /** The first offset that is still there. */
  readonly low: number;
  /** One past the last record, whatever its transactions. */
  readonly high: number;
}

/** What Kafka has of each partition of those topics that exist, as they are now. */
export async function watermarks(kafka: Kafka, topics: readonly string[]): Promise<Watermarks[]> {
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
          high: offsetOf(high),
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

/** Where a group goes on in a partition: less than 0 where it has committed nothing; and what it has committed with it, by `readCommitNote`. */
export interface Committed extends TopicPartition {
  readonly offset: number;
  readonly note: CommitNote | null;
}

/** Whatever a group has committed. Naming topics would ask brokers about these first, which fails, or makes them, where they are deleted. */
export async function committedOffsets(admin: Admin, groupId: string): Promise<Committed[]> {
  const committed = await admin.fetchOffsets({ groupId });
  return committed.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset, metadata }) => ({
      ...{ topic, partition, offset: offsetOf(offset) },
      note: readCommitNote(metadata),
    })),
  );
}

/** The same, asked for again and again by a client of its own. */
export function makeCommittedOffsets(kafka: Kafka, groupId: string) {
  let admin: Admin | null = null;
  return {
    async read(): Promise<Committed[]> {
      admin ??= await connectedAdmin(kafka);
      return committedOffsets(admin, groupId);
    },
    async close(): Promise<void> {
      await admin?.disconnect();
    },
  };
}

/** What Kafka has of a partition, and where a group stands in it. */
export interface Position extends Watermarks {
  /** How far the group has committed; null where it has not. */
  readonly committed: number | null;
  /** What a worker, or a mirror that copied its offset, has noted beside it; null where nobody has. */
  readonly note?: CommitNote | null;
}

/**
 * The positions of a group in those of the topics that exist. What it committed is read first: the ends can only be beyond it.
 *
 * @param topics `others`: beside these, all that the group has committed something of
 */
export async function readPositions(
  kafka: Kafka,
  groupId: string,
  topics: readonly string[],
  { others = false } = {},
): Promise<Position[]> {
  const offsets = makeCommittedOffsets(kafka, groupId);
  try {
    const all = await offsets.read();
    const committed = new Map(all.map((each) => [keyOf(each), each]));
    const committedTopics = all.filter(({ offset }) => offset >= 0).map(({ topic }) => topic);
    const ends = await watermarks(
      kafka,
      [...new Set([...topics, ...(others ? committedTopics : [])])].sort(),
    );
    return ends.map((end) => {
      const { offset = -1, note = null } = committed.get(keyOf(end)) ?? {};
      return offset < 0 ? { ...end, committed: null } : { ...end, committed: offset, note };
    });
  } finally {
    await offsets.close();
  }
}

/** The first offset of each partition of a topic at or behind a time, in ms since 1970; its end where there is none. */
export async function offsetsAt(
  kafka: Kafka,
  topic: string,
  timestampMs: number,
): Promise<Map<number, number>> {
  const admin = await connectedAdmin(kafka);
  try {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestampMs);
    return new Map(found.map(({ partition, offset }) => [partition, offsetOf(offset)]));
  } finally {
    await admin.disconnect();
  }
}

/** How many members a group has. */
export async function membersOf(kafka: Kafka, groupId: string): Promise<number> {
  const admin = await connectedAdmin(kafka);
  try {
    const { groups } = await admin.describeGroups([groupId]);
    return groups[0]?.members.length ?? 0;
  } finally {
    await admin.disconnect();
  }
}
