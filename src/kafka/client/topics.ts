/** Topics that we write to: they are made where they are missing, and what keeps them from being made is named. */
import { ConfigResourceTypes, type Kafka, KafkaJSAggregateError, KafkaJSProtocolError } from 'kafkajs';
import { connectedAdmin } from './client';
import { KafkaProblem, KafkaRefusal } from './errors';

/** What a record may hold, and more; less than the 100 MiB that brokers take in a request. */
const MAX_OWN_MESSAGE_BYTES = 80 * 1024 * 1024;

/** The answer of a cluster whose brokers are fewer than the replicas: it may pass, since brokers may still be on their way into the cluster. */
const TOO_FEW_BROKERS = 'INVALID_REPLICATION_FACTOR';

/** Answers to the creation of a topic, and the way out of each. All but TOO_FEW_BROKERS stay the same until somebody acts. */
const REFUSALS: Readonly<Record<string, (topic: string) => string>> = {
  POLICY_VIOLATION: (topic) =>
    `Make ${topic} yourself as the policy of the brokers (create.topic.policy.class.name) wants it, with a max.message.bytes above twice that of the topics that are read`,
  INVALID_CONFIG: (topic) =>
    `Make ${topic} yourself, with a max.message.bytes above twice that of the topics that are read`,
  [TOO_FEW_BROKERS]: (topic) =>
    `Start the brokers that are missing, lower default.replication.factor of the brokers, or make ${topic} yourself with as many replicas as there are brokers`,
  INVALID_PARTITIONS: (topic) => `Correct num.partitions of the brokers, or make ${topic} yourself`,
  INVALID_REQUEST: (topic) => `Make ${topic} yourself`,
  INVALID_TOPIC_EXCEPTION: (topic) => `Name another topic than ${topic}`,
  TOPIC_AUTHORIZATION_FAILED: (topic) =>
    `Give the user of the worker the ACL Create on the topic, or make ${topic} yourself and give the user Describe and Write`,
  CLUSTER_AUTHORIZATION_FAILED: (topic) =>
    `Give the user of the worker the ACL Create on the topic, or make ${topic} yourself and give the user Describe and Write`,
};

/**
 * Makes a topic where it does not exist: with the cluster's defaults, but for the size of its messages. A dead letter is larger than its
 * record, by the headers, and a verdict may name a long event twice: where those were refused their partition would wait for good.
 *
 * @throws KafkaRefusal where the brokers refuse to make it, and would again
 * @throws KafkaProblem where brokers are missing, and may come
 * @throws where it is missing and cannot be made now
 */
export async function ensureTopic(kafka: Kafka, topic: string): Promise<'present' | 'made'> {
  const admin = await connectedAdmin(kafka);
  try {
    if ((await admin.listTopics()).includes(topic)) return 'present';
    await admin.createTopics({
      waitForLeaders: true,
      topics: [
        {
          topic,
          numPartitions: -1,
          replicationFactor: -1,
          configEntries: [{ name: 'max.message.bytes', value: String(MAX_OWN_MESSAGE_BYTES) }],
        },
      ],
    });
    return 'made';
  } catch (error) {
    throw refusalOf(topic, error) ?? error;
  } finally {
    await admin.disconnect();
  }
}

/** The refusal that an error stands for; undefined where no broker has refused the topic. */
export function refusalOf(topic: string, error: unknown): KafkaProblem | undefined {
  const answers: unknown[] = error instanceof KafkaJSAggregateError ? [...error.errors] : [error];
  const answer = answers.find((each) => each instanceof KafkaJSProtocolError);
  if (!(answer instanceof KafkaJSProtocolError)) return undefined;
  const remedy = REFUSALS[answer.type]?.(topic);
  if (remedy === undefined) return undefined;
  const Refusal = answer.type === TOO_FEW_BROKERS ? KafkaProblem : KafkaRefusal;
  return new Refusal(
    `Topic ${topic} is missing, and the brokers refuse to make it: ${answer.type}: ${answer.message.replace(/\.?\s*$/, '')}. Asked for: partitions and replicas by the defaults of the brokers, max.message.bytes=${MAX_OWN_MESSAGE_BYTES}. ${remedy}.`,
    { cause: error },
  );
}

/** The first of the topics that is compacted, and so takes no message without a key; undefined, too, where we may not ask. */
export async function findCompacted(kafka: Kafka, topics: readonly string[]): Promise<string | undefined> {
  const admin = await connectedAdmin(kafka);
  try {
    const asked = topics.map((name) => ({ type: ConfigResourceTypes.TOPIC, name, configNames: [CLEANUP] }));
    const { resources } = await admin.describeConfigs({ resources: asked, includeSynonyms: false });
    return resources.find(({ configEntries }) =>
      configEntries.some(
        ({ configName, configValue }) => configName === CLEANUP && configValue.includes('compact'),
      ),
    )?.resourceName;
  } catch (error) {
    if (error instanceof KafkaJSProtocolError && error.type === 'TOPIC_AUTHORIZATION_FAILED')
      return undefined;
    throw error;
  } finally {
    await admin.disconnect();
  }
}

const CLEANUP = 'cleanup.policy';
