/**
 * The verdict topic: one message for each decision, so that operators learn the outcome of their events
 * (docs/rules.md, S7). A message may come twice after a crash, with the same verdict. No message about a
 * record is lost. A message about an event of the webhook can be lost in a crash: the next duplicate then
 * carries the verdict as first_verdict.
 */
import type { Origin } from '../intake/delivery';
import { type Producer, RecordsRefused } from '../kafka/producer';
import { hasMessage, type PublishedAnswer, type PublishVerdicts } from './published-answer';
import { MessageParts, VerdictWriter } from './verdict-writer';

/** Observes each attempt to send messages to a topic of verdicts. */
export type OnVerdicts = (topic: string, messages: number, isStored: boolean) => void;

export function makePublishVerdicts(
  producer: Producer,
  topic: string,
  onVerdicts: OnVerdicts = () => undefined,
): PublishVerdicts<Origin> {
  const parts = new MessageParts();
  return async (origin, all) => {
    const answers = all.every(hasMessage) ? all : all.filter(hasMessage);
    if (answers.length === 0) return;
    try {
      await publishTo(producer, topic, answers, new VerdictWriter(origin, parts));
      onVerdicts(topic, answers.length, true);
    } catch (error) {
      onVerdicts(topic, answers.length, false);
      throw error;
    }
  };
}

export async function publishTo(
  producer: Producer,
  topic: string,
  answers: readonly PublishedAnswer[],
  writer: VerdictWriter,
): Promise<void> {
  try {
    await producer.send(topic, answers, (answer) => writer.encode(answer));
  } catch (error) {
    if (!(error instanceof RecordsRefused)) throw error;
    // The topic's limit is too small for a long id: the id's sender must not stop the partition.
    const refused = answers.filter((answer) => error.refused.has(answer));
    await producer.send(topic, refused, (answer) => writer.encodeKeyed(answer));
  }
}
