/**
 * Produces the feed in its order. Some records have no value, no key or odd headers, which only a producer
 * can send.
 */
import type { FeedRecord } from './feed';
import { kafkaAt } from './guest';
import type { Stage } from './stage';

const RECORDS_AT_ONCE = 2_500;

export async function publish(
  { kafkaBrokers, topicHere }: Stage,
  feed: Iterable<FeedRecord>,
  sent: (records: number) => void,
): Promise<number> {
  const producer = kafkaAt(kafkaBrokers).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    let total = 0;
    let waiting: FeedRecord[] = [];
    const flush = async (): Promise<void> => {
      const byTopic = new Map<string, FeedRecord[]>();
      for (const each of waiting) {
        const topic = topicHere(each.topic);
        byTopic.set(topic, [...(byTopic.get(topic) ?? []), each]);
      }
      waiting = [];
      await producer.sendBatch({
        acks: -1,
        topicMessages: [...byTopic].map(([topic, records]) => ({ topic, messages: records.map(toMessage) })),
      });
      sent(total);
    };
    for (const record of feed) {
      waiting.push(record);
      total++;
      if (waiting.length === RECORDS_AT_ONCE) await flush();
    }
    if (waiting.length > 0) await flush();
    return total;
  } finally {
    await producer.disconnect();
  }
}

const toMessage = ({ key, value, headers }: FeedRecord) => ({ key, value, headers: { ...headers } });
