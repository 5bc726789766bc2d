/** Topics and groups that tests, benchmarks and the demo make on a Kafka, and their removal. */
import {
  type Admin,
  KafkaJSAggregateError,
  KafkaJSNumberOfRetriesExceeded,
  KafkaJSProtocolError,
} from 'kafkajs';
import { until } from './deadline';

const TOPIC_DEADLINE_MS = 15_000;

export interface TopicPlan {
  readonly partitions: number;
  /** Settings of the topic, such as { 'cleanup.policy': 'compact' }. */
  readonly config?: Readonly<Record<string, string>>;
}

/** Makes topics with these names, with the cluster's own number of replicas, and waits until the leader of each partition serves it. */
export async function makeTopics(admin: Admin, plans: Readonly<Record<string, TopicPlan>>): Promise<void> {
  const topics = Object.entries(plans).map(([topic, { partitions, config = {} }]) => ({
    topic,
    numPartitions: partitions,
    replicationFactor: -1,
    configEntries: Object.entries(config).map(([name, value]) => ({ name, value })),
  }));
  await until('the topics are made', TOPIC_DEADLINE_MS, async () => {
    try {
      // Waiting for leaders is left to us: kafkajs gives up where a broker does not know the topic yet.
      await admin.createTopics({ topics, waitForLeaders: false, timeout: TOPIC_DEADLINE_MS });
      return true;
    } catch (error) {
      // A broker that had no time to say that it lives is none for a moment.
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
/** The second: of several topics, the one that was made by the first try. */
const FOR_NOW = new Set(['INVALID_REPLICATION_FACTOR', 'TOPIC_ALREADY_EXISTS']);

/**
 * Whether the leaders answer for their partitions. That metadata name them says less: a broker knows of a new topic some time before it
 * serves it, on a busy machine by more than a client's retries.
 */
async function isServed(admin: Admin, topic: string, partitions: number): Promise<boolean> {
  return (await answerNow(() => admin.fetchTopicOffsets(topic)))?.length === partitions;
}

/** @returns undefined where Kafka itself says to ask again: a leader is being chosen, a coordinator loads its groups */
export async function answerNow<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    const cause = error instanceof KafkaJSNumberOfRetriesExceeded ? error.cause : error;
    if (cause instanceof KafkaJSProtocolError && cause.retriable) return undefined;
    throw error;
  }
}

/**
 * Removes topics and consumer groups by name, and returns once Kafka lists none that is awaited, which may be a moment later:
 * a group whose member was killed, or told to stop while it was joining, cannot be removed before that member's session ends.
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
    // The first member of all makes Kafka make the topic of its groups, and it lists none before that is loaded.
    const listed = await answerNow(() => admin.listGroups());
    if (listed === undefined) return false;
    const groupIds = listed.groups.map(({ groupId }) => groupId).filter(isOurs);
    removed = Math.max(removed, topics.length);
    // Others may be removing the same; what is still there in the next round is tried again.
    if (topics.length > 0) await admin.deleteTopics({ topics, timeout: TOPIC_DEADLINE_MS }).catch(() => {});
    if (groupIds.length > 0) await admin.deleteGroups(groupIds).catch(() => {});
    return ![...topics, ...groupIds].some(isAwaited);
  });
  return removed;
}
