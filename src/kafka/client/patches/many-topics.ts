/**
 * A producer whose topics do not disturb each other. kafkajs 2.2.4 requests the metadata of each topic that a
 * producer ever sent to, by name. One topic that is deleted or refused then fails this request, and with it
 * the messages to all other topics. This producer requests the metadata of all topics: brokers leave out the
 * topics that are missing or refused.
 */
import type { Kafka, Producer, ProducerConfig } from 'kafkajs';
import Cluster from 'kafkajs/src/cluster';

/** The partitions of a topic, each with the broker that leads it. */
export type TopicPartitions = ReturnType<Cluster['findTopicPartitionMetadata']>;

export interface ManyTopics {
  readonly producer: Producer;
  /**
   * The partitions of a topic, the same list until the metadata changes. Empty where the topic is missing or
   * refused. @param isFresh asks the brokers first
   */
  partitionsOf(topic: string, isFresh?: boolean): Promise<TopicPartitions>;
}

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
  };
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
