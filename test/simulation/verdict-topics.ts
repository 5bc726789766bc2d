/**
 * The verdict topics of a run: one topic for all operators, or one for each (docs/rules.md, S9). The real
 * code that publishes runs over a producer of the model, and each of its failures is checked.
 */
import type { Origin } from '../../src/intake/delivery';
import type { TopicsProducer } from '../../src/kafka/producer';
import { makeOperatorTopics } from '../../src/publishing/operator-topics';
import { NotAllPublished, type PublishVerdicts } from '../../src/publishing/published-answer';
import { makePublishByOperator, makePublishVerdicts } from '../../src/publishing/verdict-topic';
import type { Point } from './faults';
import { documentOf } from './plan';
import { must } from './promise';

const ONE = 'verdicts';
const PATTERN = 'verdicts.{operator}';
const ofOperators = makeOperatorTopics(PATTERN, PATTERN, () => []);
const OPERATORS = documentOf(1).operators.map(({ id }) => id);
const OPERATOR_OF: ReadonlyMap<string, string | null> = new Map<string, string | null>([
  [ONE, null],
  ...OPERATORS.map((id): [string, string] => [ofOperators.topicOf(id), id]),
]);

/** The point of each topic of verdicts. */
export const VERDICT_POINTS: Readonly<Record<string, Point>> = Object.fromEntries(
  [...OPERATOR_OF.keys()].map((topic) => [topic, 'send verdicts']),
);

/** The operator of a topic; null for the topic of all; undefined where the topic has no verdicts. */
export const operatorOfTopic = (topic: string): string | null | undefined => OPERATOR_OF.get(topic);

/** @param onBroken gets the violation of a failure that names answers of a topic that refused nothing */
export function publisherOf(
  producer: TopicsProducer,
  isPerOperator: boolean,
  onBroken: (error: unknown) => void,
): PublishVerdicts<Origin> {
  if (!isPerOperator) return makePublishVerdicts(producer, ONE);
  return async (origin, answers) => {
    const refused = new Set<string>();
    const watching: TopicsProducer = {
      ...producer,
      async send(topic, ...rest) {
        try {
          await producer.send(topic, ...rest);
        } catch (error) {
          refused.add(topic);
          throw error;
        }
      },
    };
    try {
      await makePublishByOperator(watching, ofOperators)(origin, answers);
    } catch (error) {
      try {
        must(error instanceof NotAllPublished, 'S9', `publishing fails as a whole: ${error}`);
        for (const { connection } of error instanceof NotAllPublished ? error.rest : []) {
          const topic = ofOperators.topicOf(connection?.operator.id ?? '');
          must(refused.has(topic), 'S9', `${topic} refuses nothing, and its answers stay unpublished`);
        }
      } catch (violation) {
        onBroken(violation);
      }
      throw error;
    }
  };
}

/** Topics that refuse the first messages of a process, which may repeat them. */
export function refusingFirst(producer: TopicsProducer): TopicsProducer {
  let hasRefused = false;
  return {
    ...producer,
    async send(topic, items, encode) {
      if (hasRefused) return producer.send(topic, items, encode);
      hasRefused = true;
      throw new Error('send verdicts: refused');
    },
    async sendToTopics(items, encode) {
      return hasRefused ? producer.sendToTopics(items, encode) : items;
    },
  };
}
