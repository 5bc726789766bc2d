/** Topics and groups that tests, benchmarks and the demo make on a Kafka, and their removal. */
import {
  type Admin,
  KafkaJSAggregateError,
  KafkaJSError,
  KafkaJSNumberOfRetriesExceeded,
  KafkaJSProtocolError,
} from 'kafkajs';
import { until } from './deadline';

const TOPIC_DEADLINE_MS = 60_000;

export interface TopicPlan {
  readonly partitions: number;
  /** Settings of the topic, such as { 'cleanup.policy': 'compact' }. */
  readonly config?: Readonly<Record<string, string>>;
}

/**
 * Topics keep all records. A broker checks every five minutes, and deletes records by their own time stamps:
 * tests send old ones.
 */
const KEPT = { 'retention.ms': '-1' };

/**
 * Makes topics with these names and the cluster's default number of replicas. Waits until the leader of each
 * partition serves it.
 */
export async function makeTopics(admin: Admin, plans: Readonly<Record<string, TopicPlan>>): Promise<void> {
  const topics = Object.entries(plans).map(([topic, { partitions, config = {} }]) => ({
    topic,
    numPartitions: partitions,
    replicationFactor: -1,
    configEntries: Object.entries({ ...KEPT, ...config }).map(([name, value]) => ({ name, value })),
  }));
  await until('the topics are made', TOPIC_DEADLINE_MS, async () => {
    try {
      // This code waits for the leaders itself: kafkajs fails if a broker does not know the topic yet.
      await admin.createTopics({ topics, waitForLeaders: false, timeout: TOPIC_DEADLINE_MS });
      return true;
    } catch (error) {
      // For a moment, a broker is not counted until its first heartbeat.
      if (error instanceof KafkaJSAggregateError && error.errors.every(isForNow)) return false;
      throw error;
    }
  });
  for (const [topic, { partitions }] of Object.entries(plans))
    await until(`${topic} is served`, TOPIC_DEADLINE_MS, () => isServed(admin, topic, partitions));
}

function isForNow(error: Error | string): boolean {
  return error instanceof KafkaJSProtocolError && FOR_NOW.has(error.type);
}
/** Temporary errors. TOPIC_ALREADY_EXISTS is one if the first try made one of several topics. */
const FOR_NOW = new Set(['INVALID_REPLICATION_FACTOR', 'TOPIC_ALREADY_EXISTS']);

/**
 * Whether the leaders answer for their partitions. Metadata that name the leaders prove less: a broker knows
 * of a new topic some time before it serves it. On a busy machine that time exceeds a client's retries.
 */
async function isServed(admin: Admin, topic: string, partitions: number): Promise<boolean> {
  return (await answerNow(() => admin.fetchTopicOffsets(topic)))?.length === partitions;
}

/**
 * @returns undefined if Kafka itself asks for a retry: a leader is being chosen, or a coordinator loads its
 * groups
 */
export async function answerNow<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    const cause = error instanceof KafkaJSNumberOfRetriesExceeded ? error.cause : error;
    if (cause instanceof KafkaJSProtocolError && cause.retriable) return undefined;
    throw error;
  }
}

/** Deletes those of the topics that exist. A retry of the client finds none where its first try was slow. */
export async function deleteTopics(admin: Admin, topics: readonly string[]): Promise<void> {
  await until('the topics are deleted', TOPIC_DEADLINE_MS, async () => {
    const existing = await admin.listTopics();
    const left = topics.filter((topic) => existing.includes(topic));
    if (left.length === 0) return true;
    try {
      await admin.deleteTopics({ topics: left, timeout: TOPIC_DEADLINE_MS });
      return true;
    } catch (error) {
      const cause = error instanceof KafkaJSError ? (error.cause ?? error) : error;
      if (cause instanceof KafkaJSProtocolError && cause.type === 'UNKNOWN_TOPIC_OR_PARTITION') return false;
      throw error;
    }
  });
}

/**
 * Removes topics and consumer groups by name, and returns once Kafka lists none of the awaited ones. That may
 * take a moment. A group keeps a member that was killed, or stopped while it was joining, until that member's
 * session ends. Until then the group cannot be removed.
 *
 * @returns how many topics there were
 */
export async function removeFromKafka(
  admin: Admin,
  deadlineMs: number,
  isOurs: (name: string) => boolean,
  isAwaited = isOurs,
): Promise<number> {
  let removed = 0;
  await until('Kafka lists none of these topics and groups any more', deadlineMs, async () => {
    const topics = (await admin.listTopics()).filter(isOurs);
    // The first member of all makes Kafka create its topic of groups. Kafka lists no groups before that topic
    // is loaded.
    const listed = await answerNow(() => admin.listGroups());
    if (listed === undefined) return false;
    const groupIds = listed.groups.map(({ groupId }) => groupId).filter(isOurs);
    removed = Math.max(removed, topics.length);
    // Other programs may be removing the same topics; the next round retries the remaining ones.
    if (topics.length > 0) await admin.deleteTopics({ topics, timeout: TOPIC_DEADLINE_MS }).catch(() => {});
    if (groupIds.length > 0) await admin.deleteGroups(groupIds).catch(() => {});
    return ![...topics, ...groupIds].some(isAwaited);
  });
  return removed;
}
