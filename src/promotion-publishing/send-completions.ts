/** Sends entries of the outbox to the topics of their operators. */
import { encodeMessages, type TopicsProducer } from '../kafka/producer';
import type { OutgoingMessage } from '../kafka/protocol/record-batch-writer';
import { asError } from '../lib/errors';
import type { OperatorTopics } from '../publishing/operator-topics';
import type { OutboxEntry } from './completion-message';

/** The time for a topic that did not take its messages with those of all others. */
const ALONE_WITHIN_MS = 10_000;

export interface OutboxMessage extends OutgoingMessage {
  readonly entry: OutboxEntry;
}

/** Observes each attempt to send completions to a topic. */
export type OnCompletions = (topic: string, messages: number, isStored: boolean) => void;

/**
 * Sends each message to the topic of its operator. All replicas have stored a message before it counts as
 * sent. A topic that refuses keeps none of the others waiting for long.
 *
 * @returns why some operators' messages are not all sent, by the number of the operator
 */
export async function sendCompletions(
  producer: TopicsProducer,
  topics: OperatorTopics,
  messages: readonly OutboxMessage[],
  onCompletions: OnCompletions,
): Promise<ReadonlyMap<number, Error>> {
  const refused = new Map<number, Error>();
  const byOperator = Map.groupBy(messages, ({ entry }) => entry.operatorNo);
  const topicOf = new Map<number, string>();
  for (const [operatorNo, [first]] of byOperator) {
    try {
      topicOf.set(operatorNo, topics.topicOf(first?.entry.operatorId ?? ''));
    } catch (error) {
      refused.set(operatorNo, asError(error));
    }
  }
  const topicOfMessage = ({ entry }: OutboxMessage) => topicOf.get(entry.operatorNo) ?? '';
  const sendable = messages.filter(({ entry }) => topicOf.has(entry.operatorNo));
  const byTopic = Map.groupBy(sendable, topicOfMessage);
  const unsent = byTopic.size < 2 ? byTopic : await producer.sendToTopics(byTopic, encodeMessages());
  for (const [topic, its] of byTopic) if (!unsent.has(topic)) onCompletions(topic, its.length, true);
  await Promise.all(
    [...unsent].map(async ([topic, its]) => {
      try {
        await producer.send(topic, its, encodeMessages(), { withinMs: ALONE_WITHIN_MS });
        onCompletions(topic, its.length, true);
      } catch (error) {
        onCompletions(topic, its.length, false);
        const refusal = asError(error);
        for (const { entry } of its) refused.set(entry.operatorNo, refusal);
      }
    }),
  );
  return refused;
}
