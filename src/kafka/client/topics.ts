/**
 * Creates the topics that we write to where they are missing, and explains a broker's refusal to create one.
 * Finds those that are compacted.
 */
import {
  type Admin,
  type ConfigEntries,
  ConfigResourceTypes,
  type ITopicConfig,
  type Kafka,
  KafkaJSAggregateError,
  KafkaJSProtocolError,
} from 'kafkajs';
import { connectedAdmin } from './client';
import { KafkaProblem, KafkaRefusal } from './errors';

/** More than the largest record that we read; less than the 100 MiB that brokers accept in a request. */
const MAX_OWN_MESSAGE_BYTES = 80 * 1024 * 1024;

/**
 * The cluster has fewer brokers than the topic has replicas. A retry may help: brokers may still join the
 * cluster.
 */
const TOO_FEW_BROKERS = 'INVALID_REPLICATION_FACTOR';

/**
 * Refusals to create a topic, and the remedy of each. All but TOO_FEW_BROKERS last until an operator acts.
 */
const REFUSALS: Readonly<Record<string, (topic: string) => string>> = {
  POLICY_VIOLATION: (topic) =>
    `Create ${topic} by hand as the policy of the brokers (create.topic.policy.class.name) requires, with a max.message.bytes above twice that of the topics that are read`,
  INVALID_CONFIG: (topic) =>
    `Create ${topic} by hand, with a max.message.bytes above twice that of the topics that are read`,
  [TOO_FEW_BROKERS]: (topic) =>
    `Start the brokers that are missing, lower default.replication.factor of the brokers, or create ${topic} by hand with as many replicas as there are brokers`,
  INVALID_PARTITIONS: (topic) => `Correct num.partitions of the brokers, or create ${topic} by hand`,
  INVALID_REQUEST: (topic) => `Create ${topic} by hand`,
  INVALID_TOPIC_EXCEPTION: (topic) => `Name another topic than ${topic}`,
  TOPIC_AUTHORIZATION_FAILED: (topic) =>
    `Give the user of the worker the ACL Create on the topic, or create ${topic} by hand and give the user Describe and Write`,
  CLUSTER_AUTHORIZATION_FAILED: (topic) =>
    `Give the user of the worker the ACL Create on the topic, or create ${topic} by hand and give the user Describe and Write`,
};

/**
 * Creates a topic if it does not exist, with the cluster's defaults except for the size of messages. The
 * headers make a dead letter larger than its record, and a verdict may name a long event twice. If the topic
 * refused one of them, the partition would wait forever.
 *
 * @throws KafkaRefusal if the brokers refuse to create it, and a retry would not help
 * @throws KafkaProblem if brokers are missing, and may still join
 * @throws if it is missing and cannot be created now
 */
export async function ensureTopic(kafka: Kafka, topic: string): Promise<'present' | 'made'> {
  const admin = await connectedAdmin(kafka);
  try {
    if ((await admin.listTopics()).includes(topic)) return 'present';
    const topics = [withDefaults(topic)];
    // Another process may have created it meanwhile.
    return (await admin.createTopics({ waitForLeaders: true, topics })) ? 'made' : 'present';
  } catch (error) {
    throw refusalOf(topic, error) ?? error;
  } finally {
    await admin.disconnect();
  }
}

/**
 * Creates the missing ones of many topics, as `ensureTopic` does.
 *
 * @returns the created topics, and why each of the others is missing
 * @throws if Kafka cannot be asked now
 */
export async function ensureTopics(
  kafka: Kafka,
  topics: readonly string[],
): Promise<{ made: readonly string[]; refused: ReadonlyMap<string, Error> }> {
  const admin = await connectedAdmin(kafka);
  const refused = new Map<string, Error>();
  try {
    const existing = new Set(await admin.listTopics());
    const missing = topics.filter((topic) => !existing.has(topic));
    if (missing.length === 0) return { made: [], refused };
    try {
      await admin.createTopics({ waitForLeaders: true, topics: missing.map(withDefaults) });
    } catch (error) {
      if (!(error instanceof KafkaJSAggregateError)) throw error;
      for (const each of error.errors) {
        const topic: unknown = Reflect.get(Object(each), 'topic');
        if (!(each instanceof KafkaJSProtocolError) || typeof topic !== 'string') throw error;
        // Another process has created it meanwhile, or it is hidden from this user.
        if (each.type !== 'TOPIC_ALREADY_EXISTS') refused.set(topic, refusalOf(topic, each) ?? each);
      }
    }
    return { made: missing.filter((topic) => !refused.has(topic)), refused };
  } finally {
    await admin.disconnect();
  }
}

/** A topic with the cluster's defaults except for the size of messages. */
function withDefaults(topic: string): ITopicConfig {
  return {
    topic,
    numPartitions: -1,
    replicationFactor: -1,
    configEntries: [{ name: 'max.message.bytes', value: String(MAX_OWN_MESSAGE_BYTES) }],
  };
}

/** The refusal of a topic that an error reports; undefined if no broker has refused it. */
export function refusalOf(topic: string, error: unknown): KafkaProblem | undefined {
  const answers: unknown[] = error instanceof KafkaJSAggregateError ? [...error.errors] : [error];
  const answer = answers.find((each) => each instanceof KafkaJSProtocolError);
  if (!(answer instanceof KafkaJSProtocolError)) return undefined;
  const remedy = REFUSALS[answer.type]?.(topic);
  if (remedy === undefined) return undefined;
  const Refusal = answer.type === TOO_FEW_BROKERS ? KafkaProblem : KafkaRefusal;
  return new Refusal(
    `Topic ${topic} is missing, and the brokers refuse to create it: ${answer.type}: ${answer.message.replace(/\.?\s*$/, '')}. Requested: partitions and replicas by the defaults of the brokers, max.message.bytes=${MAX_OWN_MESSAGE_BYTES}. ${remedy}.`,
    { cause: error },
  );
}

/** The topics of a cluster, by one connection. */
export interface SeenTopics {
  /** All topics that this user sees. */
  readonly existing: ReadonlySet<string>;
  /** Those of the named topics that are compacted. None where this user may not read their settings. */
  readonly compacted: readonly string[];
}

/** @param named the topics whose settings are read, where they exist */
export async function lookAtTopics(kafka: Kafka, named: readonly string[]): Promise<SeenTopics> {
  const admin = await connectedAdmin(kafka);
  try {
    const existing = new Set(await admin.listTopics());
    const present = named.filter((topic) => existing.has(topic));
    return { existing, compacted: await compactedOf(admin, present) };
  } finally {
    await admin.disconnect();
  }
}

async function compactedOf(admin: Admin, topics: readonly string[]): Promise<readonly string[]> {
  if (topics.length === 0) return [];
  const wanted = topics.map((name) => ({ type: ConfigResourceTypes.TOPIC, name, configNames: [CLEANUP] }));
  try {
    const { resources } = await admin.describeConfigs({ resources: wanted, includeSynonyms: false });
    const isCompact = ({ configName, configValue }: ConfigEntries) =>
      configName === CLEANUP && configValue.includes('compact');
    return resources
      .filter(({ configEntries }) => configEntries.some(isCompact))
      .map(({ resourceName }) => resourceName);
  } catch (error) {
    if (error instanceof KafkaJSProtocolError && error.type === 'TOPIC_AUTHORIZATION_FAILED') return [];
    throw error;
  }
}

const CLEANUP = 'cleanup.policy';
