/**
 * Offsets as Kafka's brokers report them: the first and last offsets of partitions, and the committed offsets
 * of groups.
 */
import type { Admin, Kafka } from 'kafkajs';
import { keyOf, type TopicPartition } from '../../lib/topic-partition';
import { connectedAdmin, offsetOf } from '../client/client';
import { type CommitNote, readCommitNote } from '../commit-notes';

/** The range of offsets of a partition. */
export interface Watermarks extends TopicPartition {
  /** The first offset that is not deleted. */
  readonly low: number;
  /** One past the last record, even one of an open transaction. */
  readonly high: number;
}

/** The present range of offsets of each partition, for those topics that exist. */
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
 * The same client, but with the high watermark as the end of a partition. The admin client of kafkajs asks
 * for the last stable offset, which an open transaction holds back. It has no option to change that, but the
 * cluster object that a client makes for its admin has one.
 */
function readingUncommitted(kafka: Kafka): Kafka {
  const makesCluster = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  const makeCluster: unknown = makesCluster && Reflect.get(kafka, makesCluster);
  if (makesCluster === undefined || typeof makeCluster !== 'function')
    throw new Error('kafkajs creates its clusters in another way than version 2.2.4');
  return Object.create(kafka, {
    [makesCluster]: {
      value: (options: object) => makeCluster({ ...options, isolationLevel: READ_UNCOMMITTED }),
    },
  });
}

const READ_UNCOMMITTED = 0;

/** A group's committed offset in a partition, less than 0 for none, and its note by `readCommitNote`. */
export interface Committed extends TopicPartition {
  readonly offset: number;
  readonly note: CommitNote | null;
}

/**
 * All committed offsets of a group. Names no topics on purpose: kafkajs would look them up first, which fails
 * for deleted topics, or creates them.
 */
export async function committedOffsets(admin: Admin, groupId: string): Promise<Committed[]> {
  const committed = await admin.fetchOffsets({ groupId });
  return committed.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset, metadata }) => ({
      topic,
      partition,
      offset: offsetOf(offset),
      note: readCommitNote(metadata),
    })),
  );
}

/** Reads committed offsets repeatedly, with a client of its own. */
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

/** The range of offsets of a partition, and a group's position in it. */
export interface Position extends Watermarks {
  /** The committed offset; null where the group has committed none. */
  readonly committed: number | null;
  /** The note of a worker beside the offset, perhaps copied by a mirror; null where there is none. */
  readonly note?: CommitNote | null;
}

/**
 * The positions of a group, for those of the topics that exist. Committed offsets are read first, so the ends
 * can only be beyond them.
 *
 * @param topics with `others`, all further topics are added for which the group has committed an offset
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

/**
 * The first offset of each partition of a topic at or after a time, in milliseconds since 1970. The
 * partition's end where there is none.
 */
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

/** Number of members of a group. */
export async function countMembers(kafka: Kafka, groupId: string): Promise<number> {
  const admin = await connectedAdmin(kafka);
  try {
    const { groups } = await admin.describeGroups([groupId]);
    return groups[0]?.members.length ?? 0;
  } finally {
    await admin.disconnect();
  }
}
