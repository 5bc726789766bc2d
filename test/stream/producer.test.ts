/**
 * Messages sent by the worker and by `publish`, as a broker stores them and as readers with kafkajs see them.
 */

import { deleteTopics } from '../../dev/servers/topics';
import { installProduceEncoder } from '../../src/kafka/client/patches/produce';
import { encodeMessages, makeProducer, type Producer, RecordsRefused } from '../../src/kafka/producer';
import type { OutgoingMessage } from '../../src/kafka/protocol/record-batch-writer';
import { messageOf } from '../../src/lib/errors';
import { readTopic } from '../support/kafka';
import { freshTopic, kafkaClient, makeTopics, withAdmin } from '../support/servers';

const TEST_DEADLINE_MS = 180_000;
const NO_HEADERS: OutgoingMessage['headers'] = [];

let producer: Producer;
beforeAll(async () => {
  // This patch alone: the readers of this process are plain kafkajs.
  installProduceEncoder();
  producer = await makeProducer(kafkaClient());
});
afterAll(() => producer.stop());

const numbered = (count: number, bytes: number) =>
  Array.from({ length: count }, (_, index) => ({
    key: `k${index % 50}`,
    value: `${index} ${'x'.repeat(bytes)}`,
    headers: NO_HEADERS,
  }));
const numberOf = ({ value }: { value: Buffer | null }) => Number(value?.toString().split(' ')[0]);

test(
  'sends more than a broker accepts at once, each message once and the messages of a partition in order',
  async () => {
    const topic = await freshTopic('producer', { partitions: 2 });
    await producer.send(topic, numbered(8_000, 400), encodeMessages());
    const records = await readTopic(topic);
    expect(records.map(numberOf).sort((a, b) => a - b)).toEqual(Array.from({ length: 8_000 }, (_, i) => i));
    for (const partition of [0, 1]) {
      const numbers = records.filter((record) => record.partition === partition).map(numberOf);
      expect(numbers.length).toBeGreaterThan(1_000);
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    }
  },
  TEST_DEADLINE_MS,
);

test(
  'halves a batch that a broker refuses as too large, and sends each message once and in order',
  async () => {
    const topic = await freshTopic('producer', { partitions: 1, config: { 'max.message.bytes': '100000' } });
    // Two requests: the first is refused, the second is not.
    await producer.send(topic, numbered(1_750, 300), encodeMessages());
    expect((await readTopic(topic)).map(numberOf)).toEqual(Array.from({ length: 1_750 }, (_, i) => i));
  },
  TEST_DEADLINE_MS,
);

test(
  'sends the messages beside those that are too large, and names the latter',
  async () => {
    const topic = await freshTopic('producer', { partitions: 3, config: { 'max.message.bytes': '20000' } });
    const messages: OutgoingMessage[] = numbered(300, 100).map((message, index) =>
      index === 40 || index === 41 ? { ...message, value: `${index} ${'x'.repeat(30_000)}` } : message,
    );
    const error: unknown = await producer
      .send(topic, messages, encodeMessages())
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RecordsRefused);
    const refused = error instanceof RecordsRefused ? [...error.refused.keys()] : [];
    expect(messageOf(error)).toMatch(
      new RegExp(`larger than.* Raise max.message.bytes of the topic: kafka-configs.* --topic ${topic} `),
    );
    expect(messages.flatMap((message, index) => (refused.includes(message) ? [index] : [])).sort()).toEqual([
      40, 41,
    ]);
    const stored = (await readTopic(topic)).map(numberOf);
    expect([...new Set(stored)].sort((a, b) => a - b)).toEqual(
      messages.map((_, index) => index).filter((index) => index !== 40 && index !== 41),
    );
  },
  TEST_DEADLINE_MS,
);

test(
  'notices that a topic was created again with fewer partitions, and then uses those',
  async () => {
    const topic = await freshTopic('producer', { partitions: 4 });
    await producer.send(topic, numbered(100, 10), encodeMessages());
    await withAdmin((admin) => deleteTopics(admin, [topic]));
    await makeTopics({ [topic]: { partitions: 1 } });
    const messages = numbered(100, 10);
    // The first tries may still use the old partitions; none of them may count as sent.
    let failures = 0;
    for (let sent = false; !sent && failures < 20; ) {
      try {
        await producer.send(topic, messages, encodeMessages());
        sent = true;
      } catch {
        failures++;
      }
    }
    expect(failures).toBeGreaterThan(0);
    expect(new Set((await readTopic(topic)).map(numberOf)).size).toBe(100);
  },
  TEST_DEADLINE_MS,
);
