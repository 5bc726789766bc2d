/**
 * The topics of verdicts, or of completions: one for all operators, or one for each (docs/rules.md, S9, S10).
 * The setting then has `{operator}` in place of the operator's id.
 */

const OPERATOR = '{operator}';
const TOPIC = /^[a-zA-Z0-9._-]+$/;
const MAX_TOPIC_LENGTH = 249;

/** Why an operator can have no topic of its own. */
export class NoOperatorTopic extends Error {
  override readonly name = 'NoOperatorTopic';
  constructor(
    /** The operators that can have none: one, or several whose topics collide. */
    readonly operatorIds: readonly string[],
    readonly problem: string,
    readonly remedy: string,
  ) {
    super(`${problem}. ${remedy}`);
  }
}

export interface OperatorTopics {
  readonly isPerOperator: boolean;
  /** @throws NoOperatorTopic */
  topicOf(operatorId: string): string;
  /** The topics of these operators; of those who can have one. */
  topicsOf(operatorIds: Iterable<string>): readonly string[];
  /** The problem of each operator that can have no topic. */
  problemsOf(operatorIds: Iterable<string>): readonly NoOperatorTopic[];
}

/**
 * @param pattern VERDICT_TOPIC or COMPLETION_TOPIC
 * @param example of a pattern
 * @param others other topics of the deployment now, by a noun for each: those that it reads, and dead letters
 */
export function makeOperatorTopics(
  pattern: string,
  example: string,
  others: () => Iterable<readonly [topic: string, noun: string]>,
): OperatorTopics {
  const isPerOperator = pattern.includes(OPERATOR);
  const topicOf = (operatorId: string): string => {
    if (!isPerOperator) return pattern;
    const topic = pattern.replace(OPERATOR, () => operatorId);
    if (!TOPIC.test(topic) || topic === '.' || topic === '..')
      throw new NoOperatorTopic(
        [operatorId],
        `operator ${JSON.stringify(operatorId)} makes "${topic}", which is not a Kafka topic name`,
        `A topic has letters, digits, ".", "_" and "-" only. Name one topic for all operators, without ${OPERATOR}`,
      );
    if (topic.length > MAX_TOPIC_LENGTH)
      throw new NoOperatorTopic(
        [operatorId],
        `operator ${JSON.stringify(operatorId)} makes a topic name of ${topic.length} characters`,
        `Kafka allows ${MAX_TOPIC_LENGTH}. Shorten the part beside ${OPERATOR}, or name one topic for all operators`,
      );
    for (const [other, noun] of others())
      if (collide(topic, other))
        throw new NoOperatorTopic(
          [operatorId],
          `operator ${JSON.stringify(operatorId)} makes "${topic}", which ${topic === other ? 'is' : `Kafka takes for "${other}",`} ${noun}`,
          `Use a separate beginning, such as ${example}`,
        );
    return topic;
  };
  const problemOf = (operatorId: string): NoOperatorTopic | null => {
    try {
      topicOf(operatorId);
      return null;
    } catch (error) {
      if (error instanceof NoOperatorTopic) return error;
      throw error;
    }
  };
  return {
    isPerOperator,
    topicOf,
    topicsOf: (operatorIds) =>
      isPerOperator ? [...operatorIds].filter((id) => problemOf(id) === null).map(topicOf) : [pattern],
    problemsOf(operatorIds) {
      const ids = [...operatorIds];
      const twins = isPerOperator ? twinsAmong(ids) : [];
      return [
        ...ids.map(problemOf).filter((problem) => problem !== null),
        ...twins.map(
          (pair) =>
            new NoOperatorTopic(
              pair,
              `operators ${pair.map((id) => JSON.stringify(id)).join(' and ')} make topics that differ in "." and "_" only, and Kafka refuses the second`,
              `Name one topic for all operators, without ${OPERATOR}`,
            ),
        ),
      ];
    },
  };
}

/** Kafka's metrics write "." as "_", so it refuses to create a topic whose name differs in these alone. */
const inMetrics = (topic: string) => topic.replaceAll('.', '_');

function collide(topic: string, other: string): boolean {
  return inMetrics(topic) === inMetrics(other);
}

function twinsAmong(ids: readonly string[]): string[][] {
  return [...Map.groupBy(ids, inMetrics).values()].filter((same) => same.length > 1);
}
