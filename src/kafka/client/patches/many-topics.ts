/**
 * A producer whose topics do not disturb each other. kafkajs 2.2.4 requests the metadata of each topic that a
 * producer ever sent to, by name. One topic that is deleted or refused then fails this request, and with it
 * the messages to all other topics. This producer requests the metadata of all topics: brokers leave out the
 * topics that are missing or refused.
 */
import type { Kafka, Producer, ProducerConfig } from 'kafkajs';
import Cluster from 'kafkajs/src/cluster';
import type { EncodedBatch } from './produce';

/** The partitions of a topic, each with the broker that leads it. */
export type TopicPartitions = ReturnType<Cluster['findTopicPartitionMetadata']>;

export interface ManyTopics {
  readonly producer: Producer;
  /**
   * The partitions of a topic, the same list until the metadata changes. Empty where the topic is missing or
   * refused. @param isFresh asks the brokers first
   */
  partitionsOf(topic: string, isFresh?: boolean): Promise<TopicPartitions>;
  /** The same from the newest metadata, however old. */
  knownPartitionsOf(topic: string): TopicPartitions;
  /** Requests the metadata where it is old. */
  refreshIfOld(): Promise<void>;
  /**
   * Sends batches by one request to each broker, once.
   *
   * @param onStored called for each partition that has stored its batch
   * @throws where a broker did not answer
   */
  sendOnce(topics: readonly BatchesOfTopic[], timeoutMs: number, onStored: OnStored): Promise<void>;
}

export interface BatchesOfTopic {
  readonly topic: string;
  readonly batches: readonly EncodedBatch[];
}
export type OnStored = (topic: string, partition: number) => void;

/** The function of a client that makes the cluster of each producer. */
const CREATE_CLUSTER = 'private:Kafka:createCluster';

export function producerOfManyTopics(kafka: Kafka, config: ProducerConfig): ManyTopics {
  const name = Object.getOwnPropertySymbols(kafka).find(({ description }) => description === CREATE_CLUSTER);
  const create: unknown = name && Reflect.get(kafka, name);
  if (name === undefined || typeof create !== 'function') throw new Error('kafkajs makes clusters elsewhere');
  const made: Cluster[] = [];
  Reflect.set(kafka, name, (options: unknown) => {
    const cluster: unknown = Reflect.apply(create, kafka, [options]);
    if (cluster instanceof Cluster) made.push(cluster);
    return cluster;
  });
  const producer = kafka.producer(config);
  Reflect.set(kafka, name, create);
  const [cluster] = made;
  if (cluster === undefined) throw new Error('kafkajs makes a producer without a cluster');
  ofAllTopics(cluster);
  return {
    producer,
    async partitionsOf(topic, isFresh = false) {
      await (isFresh ? cluster.refreshMetadata() : cluster.refreshMetadataIfNecessary());
      return cluster.findTopicPartitionMetadata(topic);
    },
    knownPartitionsOf: (topic) => cluster.findTopicPartitionMetadata(topic),
    refreshIfOld: () => cluster.refreshMetadataIfNecessary(),
    async sendOnce(topics, timeoutMs, onStored) {
      const requests = [...byLeader(cluster, topics)].map(async ([nodeId, topicData]) => {
        const broker = await cluster.findBroker({ nodeId });
        const answer = await broker.produce({ acks: ALL_IN_SYNC, timeout: timeoutMs, topicData });
        for (const { topicName, partitions } of answer.topics)
          for (const { partition, errorCode } of partitions)
            if (errorCode === 0) onStored(topicName, partition);
      });
      // All answers count: a broker that fails at once must not hide what another one stores a moment later.
      const settled = await Promise.allSettled(requests);
      const failed = settled.find((each) => each.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    },
  };
}

const ALL_IN_SYNC = -1;

type TopicData = { topic: string; partitions: { partition: number; messages: EncodedBatch[] }[] };

/** The batches of each broker. kafkajs does the same in time that is quadratic in the number of topics. */
function byLeader(cluster: Cluster, topics: readonly BatchesOfTopic[]): Map<number, TopicData[]> {
  const data = new Map<number, TopicData[]>();
  for (const { topic, batches } of topics) {
    const known = cluster.findTopicPartitionMetadata(topic);
    for (const batch of batches) {
      const { partition } = batch;
      const leader = known.find(({ partitionId }) => partitionId === partition)?.leader ?? -1;
      // Without a leader, the batch is left out, and so is not stored.
      if (leader < 0) continue;
      const ofLeader = data.get(leader) ?? [];
      data.set(leader, ofLeader);
      const last = ofLeader.at(-1);
      const ofTopic = last?.topic === topic ? last : { topic, partitions: [] };
      if (ofTopic !== last) ofLeader.push(ofTopic);
      ofTopic.partitions.push({ partition, messages: [batch] });
    }
  }
  return data;
}

function ofAllTopics(cluster: Cluster): void {
  // Without target topics, the cluster requests all topics.
  cluster.addMultipleTargetTopics = async () => {};
  // kafkajs searches a list, several times for each topic of a request.
  let indexed: Cluster['brokerPool']['metadata'] = null;
  let byTopic = new Map<string, TopicPartitions>();
  cluster.findTopicPartitionMetadata = (topic) => {
    const { metadata } = cluster.brokerPool;
    if (metadata !== indexed) {
      indexed = metadata;
      byTopic = new Map(
        metadata?.topicMetadata.map(({ topic, partitionMetadata }) => [topic, partitionMetadata]),
      );
    }
    return byTopic.get(topic) ?? NO_PARTITIONS;
  };
}

const NO_PARTITIONS: TopicPartitions = [];
