/**
 * The verdict topic: one message for each decision, so that operators learn the outcome of their events
 * (docs/rules.md, S7). A message may come twice after a crash, with the same verdict. No message about a
 * record is lost. A message about an event of the webhook can be lost in a crash: the next duplicate then
 * carries the verdict as first_verdict.
 */

import type { Connection } from '../domain/reference';
import type { Origin } from '../intake/delivery';
import { type Producer, RecordsRefused, type TopicsProducer } from '../kafka/producer';
import { asError, messageOf } from '../lib/errors';
import { makeJointRequests, type VerdictSupply } from './joint-requests';
import type { OperatorTopics } from './operator-topics';
import { hasMessage, NotAllPublished, type PublishedAnswer, type PublishVerdicts } from './published-answer';
import { SharedBuffers, VerdictWriter } from './verdict-message';

/** Observes each attempt to send messages to a topic of verdicts. */
export type OnVerdicts = (topic: string, messages: number, isStored: boolean) => void;

export function makePublishVerdicts(
  producer: Producer,
  topic: string,
  onVerdicts: OnVerdicts = () => undefined,
): PublishVerdicts<Origin> {
  const buffers = new SharedBuffers();
  return async (origin, all) => {
    const answers = all.every(hasMessage) ? all : all.filter(hasMessage);
    if (answers.length === 0) return;
    try {
      await publishTo(producer, topic, answers, new VerdictWriter(origin, buffers));
      onVerdicts(topic, answers.length, true);
    } catch (error) {
      onVerdicts(topic, answers.length, false);
      throw error;
    }
  };
}

async function publishTo(
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

// --- a topic for each operator

/** An answer on its way to its topic. */
interface Verdict {
  readonly answer: PublishedAnswer;
  /** The writer of the answer's batch. */
  readonly writer: VerdictWriter;
}
type VerdictsByTopic = ReadonlyMap<string, readonly Verdict[]>;

/**
 * Publishes each verdict to the topic of its operator (docs/rules.md, S9). A topic that refuses leaves only
 * its own verdicts unpublished.
 */
export function makePublishByOperator(
  producer: TopicsProducer,
  topics: OperatorTopics,
  onVerdicts: OnVerdicts = () => undefined,
  supply?: VerdictSupply,
): PublishVerdicts<Origin> {
  const buffers = new SharedBuffers();
  const sendJointly = makeJointRequests<Verdict>(async (verdicts) => {
    const unsent = await producer.sendToTopics(verdicts, ({ writer, answer }) => writer.encode(answer));
    for (const [topic, its] of verdicts) if (!unsent.has(topic)) onVerdicts(topic, its.length, true);
    return unsent;
  }, supply);

  /** The verdicts that need a request for their topic alone. */
  async function notSentJointly(verdicts: VerdictsByTopic, writer: VerdictWriter): Promise<VerdictsByTopic> {
    if (verdicts.size < 2) return verdicts;
    const unsent = await sendJointly(verdicts);
    const own = [...unsent].map(
      ([topic, its]) => [topic, its.filter((each) => each.writer === writer)] as const,
    );
    return new Map(own.filter(([, its]) => its.length > 0));
  }

  return async (origin, answers) => {
    const writer = new VerdictWriter(origin, buffers);
    const failures = new Map<string, Error>();
    const unpublished = new Set<PublishedAnswer>();
    const { named, nameless } = sorted(answers, topics, writer);
    for (const [topic, { error, its }] of nameless) {
      failures.set(topic, error);
      for (const answer of its) unpublished.add(answer);
    }
    // A topic that refuses the joint request gets a request of its own, which shortens the ids that are too
    // long for it.
    const alone = await notSentJointly(named, writer);
    await Promise.all(
      [...alone].map(async ([topic, its]) => {
        const ofTopic = its.map(({ answer }) => answer);
        try {
          await publishTo(producer, topic, ofTopic, writer);
          onVerdicts(topic, ofTopic.length, true);
        } catch (error) {
          onVerdicts(topic, ofTopic.length, false);
          failures.set(topic, asError(error));
          for (const answer of ofTopic) unpublished.add(answer);
        }
      }),
    );
    if (failures.size === 0) return;
    const texts = [...failures].map(([topic, error]) => explained(topic, messageOf(error)));
    throw new NotAllPublished(
      texts.join('; '),
      answers.filter((answer) => unpublished.has(answer)),
      { cause: [...failures.values()][0] },
    );
  };
}

function explained(topic: string, text: string): string {
  return text.includes(topic) ? text : `${topic}: ${text}`;
}

/** The answers with a message, by whether their operator can have a topic. The others wait for no topic. */
function sorted(answers: readonly PublishedAnswer[], topics: OperatorTopics, writer: VerdictWriter) {
  const byConnection = new Map<Connection, Verdict[]>();
  const nameless = new Map<string, { error: Error; its: PublishedAnswer[] }>();
  const named = new Map<string, Verdict[]>();
  for (const answer of answers) {
    const { connection } = answer;
    if (connection === null || !hasMessage(answer)) continue;
    const known = byConnection.get(connection);
    if (known !== undefined) {
      known.push({ answer, writer });
      continue;
    }
    const operatorId = connection.operator.id;
    try {
      if (!nameless.has(operatorId)) {
        const topic = topics.topicOf(operatorId);
        const ofTopic = named.get(topic) ?? [];
        ofTopic.push({ answer, writer });
        named.set(topic, ofTopic);
        byConnection.set(connection, ofTopic);
        continue;
      }
    } catch (error) {
      nameless.set(operatorId, { error: asError(error), its: [] });
    }
    nameless.get(operatorId)?.its.push(answer);
  }
  return { named, nameless };
}
