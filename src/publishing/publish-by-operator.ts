/**
 * Publishes each verdict to the topic of its operator (docs/rules.md, S9). A topic that refuses leaves only
 * its own verdicts unpublished.
 */
import type { Connection } from '../domain/reference';
import type { Origin } from '../intake/delivery';
import type { TopicsSender } from '../kafka/producer';
import { asError, messageOf } from '../lib/errors';
import type { OperatorTopics } from './operator-topics';
import { hasMessage, NotAllPublished, type PublishedAnswer, type PublishVerdicts } from './published-answer';
import { type OnVerdicts, publishTo } from './verdict-topic';
import { VerdictWriter } from './verdict-writer';

export function makePublishByOperator(
  sender: TopicsSender,
  topics: OperatorTopics,
  onVerdicts: OnVerdicts = () => undefined,
): PublishVerdicts<Origin> {
  return async (origin, answers) => {
    const writer = new VerdictWriter(origin);
    const failures = new Map<string, Error>();
    const unpublished = new Set<PublishedAnswer>();
    const { topicOf, named, nameless } = sorted(answers, topics);
    for (const [topic, { error, its }] of nameless) {
      failures.set(topic, error);
      for (const answer of its) unpublished.add(answer);
    }
    const counts = countsOf(named, topicOf);
    // One request for several topics comes first. A topic that refuses then gets a request of its own, which
    // shortens the ids that are too long for it.
    const [only = ''] = counts.keys();
    const alone =
      counts.size < 2
        ? new Map(named.length === 0 ? [] : [[only, named]])
        : await sender.sendToTopics(named, topicOf, (answer) => writer.encode(answer));
    for (const [topic, count] of counts) if (!alone.has(topic)) onVerdicts(topic, count, true);
    await Promise.all(
      [...alone].map(async ([topic, its]) => {
        try {
          await publishTo(sender, topic, its, writer);
          onVerdicts(topic, its.length, true);
        } catch (error) {
          onVerdicts(topic, its.length, false);
          failures.set(topic, asError(error));
          for (const answer of its) unpublished.add(answer);
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

function countsOf(
  answers: readonly PublishedAnswer[],
  topicOf: (answer: PublishedAnswer) => string,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const answer of answers) {
    const topic = topicOf(answer);
    counts.set(topic, (counts.get(topic) ?? 0) + 1);
  }
  return counts;
}

function explained(topic: string, text: string): string {
  return text.includes(topic) ? text : `${topic}: ${text}`;
}

/** The answers with a message, by whether their operator can have a topic. The others wait for no topic. */
function sorted(answers: readonly PublishedAnswer[], topics: OperatorTopics) {
  const byConnection = new Map<Connection, string>();
  const nameless = new Map<string, { error: Error; its: PublishedAnswer[] }>();
  const named = answers.filter((answer) => {
    const { connection } = answer;
    if (connection === null || !hasMessage(answer)) return false;
    if (byConnection.has(connection)) return true;
    const operatorId = connection.operator.id;
    try {
      if (!nameless.has(operatorId)) {
        byConnection.set(connection, topics.topicOf(operatorId));
        return true;
      }
    } catch (error) {
      nameless.set(operatorId, { error: asError(error), its: [] });
    }
    nameless.get(operatorId)?.its.push(answer);
    return false;
  });
  const topicOf = ({ connection }: PublishedAnswer) =>
    (connection === null ? undefined : byConnection.get(connection)) ?? '';
  return { topicOf, named, nameless };
}
