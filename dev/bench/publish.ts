/** Writes a feed to a topic before anything reads it. */
import type { Message, Producer } from 'kafkajs';
import type { FeedMessage } from './feed';
import { kafkaAt } from './guest';

const SEND_MESSAGES = 2_000;
const SAY_EVERY = 200_000;
/** Age of the first record: millions of records are then older than now. */
const AGE_MS = 3_600_000;

export interface Published {
  readonly topic: string;
  readonly records: number;
  /** Mean size of a record's value. */
  readonly bytes: number;
}

export async function publish(
  brokers: string,
  topic: string,
  feed: Iterable<FeedMessage>,
  say: (line: string) => void = () => {},
): Promise<Published> {
  const producer = kafkaAt(brokers).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    return { topic, ...(await sendAll(producer, topic, feed, say)) };
  } finally {
    await producer.disconnect();
  }
}

export interface HeldBack extends Published {
  /** Makes the records visible to readers, all at once. */
  release(): Promise<void>;
}

/** Longer than the publication of a feed, and below the limit of brokers. */
const TRANSACTION_MS = 600_000;

/** Publishes in a transaction that stays open: readers of committed records wait before it. */
export async function publishHeldBack(
  brokers: string,
  topic: string,
  feed: Iterable<FeedMessage>,
): Promise<HeldBack> {
  const producer = kafkaAt(brokers).producer({
    allowAutoTopicCreation: false,
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: topic,
    transactionTimeout: TRANSACTION_MS,
  });
  await producer.connect();
  const transaction = await producer.transaction();
  const sent = await sendAll(transaction, topic, feed, () => {});
  return {
    topic,
    ...sent,
    async release() {
      await transaction.commit();
      await producer.disconnect();
    },
  };
}

/**
 * The timestamp of a record. Each is a millisecond later than the one before, and none is later than now.
 * By kafkajs alone, all records of a send would have one time, unlike those of a producer of single events. A
 * worker that gathers the records of partitions by time would then find no order.
 *
 * @param index of the record in its feed
 */
export function timestampOf(index: number, now: number): number {
  return Math.min(now, now - AGE_MS + index);
}

/** The next messages are made while the last ones are in flight. */
async function sendAll(
  producer: Pick<Producer, 'send'>,
  topic: string,
  feed: Iterable<FeedMessage>,
  say: (line: string) => void,
): Promise<{ records: number; bytes: number }> {
  let records = 0;
  let bytes = 0;
  let messages: Message[] = [];
  const now = Date.now();
  let sending: Promise<unknown> = Promise.resolve();
  for (const message of feed) {
    bytes += message.value.length;
    messages.push({ ...message, timestamp: String(timestampOf(records, now)) });
    if (++records % SAY_EVERY === 0) say(`published ${records} records`);
    if (messages.length < SEND_MESSAGES) continue;
    await sending;
    sending = producer.send({ topic, messages });
    messages = [];
  }
  await sending;
  if (messages.length > 0) await producer.send({ topic, messages });
  return { records, bytes: bytes / records };
}
