/** The producer of many topics, with brokers that answer at different times. */
import { Kafka, logLevel } from 'kafkajs';
import Broker from 'kafkajs/src/broker';
import Cluster from 'kafkajs/src/cluster';
import { producerOfManyTopics } from '../../../../src/kafka/client/patches/many-topics';
import { EncodedBatch } from '../../../../src/kafka/client/patches/produce';

const FAILING = 1;
const STORING = 2;
const topicAt = (topic: string, leader: number) => ({
  topic,
  partitionMetadata: [{ partitionId: 0, leader }],
});

afterEach(() => {
  jest.restoreAllMocks();
});

test('a broker that fails at once does not hide the batches that another one stores [S9]', async () => {
  jest.spyOn(Cluster.prototype, 'refreshMetadataIfNecessary').mockImplementation(async function (
    this: Cluster,
  ) {
    const metadata = { topicMetadata: [topicAt('acme', FAILING), topicAt('beta', STORING)] };
    Object.assign(this.brokerPool, { metadata });
  });
  jest.spyOn(Cluster.prototype, 'findBroker').mockImplementation(async ({ nodeId }) => {
    if (nodeId === FAILING) throw new Error('the broker is away');
    return Object.assign(Object.create(Broker.prototype), {
      async produce() {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return { topics: [{ topicName: 'beta', partitions: [{ partition: 0, errorCode: 0 }] }] };
      },
    });
  });
  const kafka = new Kafka({ clientId: 'test', brokers: ['localhost:1'], logLevel: logLevel.NOTHING });
  const { partitionsOf, sendOnce } = producerOfManyTopics(kafka, {});
  await partitionsOf('acme');
  const stored: string[] = [];
  const sending = sendOnce(
    ['acme', 'beta'].map((topic) => ({ topic, batches: [new EncodedBatch(0, Buffer.alloc(1))] })),
    1_000,
    (topic) => {
      stored.push(topic);
    },
  );
  await expect(sending).rejects.toThrow('the broker is away');
  expect(stored).toEqual(['beta']);
});
