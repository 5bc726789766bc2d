/** The topics that a process writes, and its publishing of verdicts. */
import type { Logger } from 'pino';
import { ConfigError } from '../config/config';
import type { KafkaSettings } from '../config/kafka';
import type { Reference } from '../domain/reference';
import type { Origin } from '../intake/delivery';
import { makeKafka } from '../kafka/client/client';
import { ensureTopics, findCompacted } from '../kafka/client/topics';
import { makeSender, makeTopicsSender, type Sender } from '../kafka/producer';
import { messageOf } from '../lib/errors';
import { makePublishByOperator } from '../publishing/publish-by-operator';
import type { PublishVerdicts } from '../publishing/published-answer';
import { makePublishVerdicts } from '../publishing/verdict-topic';
import { makeVerdictTopics, type VerdictTopics } from '../publishing/verdict-topics';
import { makeLogger } from '../telemetry/logger';
import { needTopics, type Start } from './service';

/** The settings that name topics. The webhook knows VERDICT_TOPIC only. */
interface TopicSettings {
  readonly VERDICT_TOPIC: string | undefined;
  readonly DEAD_LETTER_TOPIC?: string;
  readonly KAFKA_TOPICS?: readonly string[] | undefined;
}

/** The topics that a process writes. They follow the reference data where operators have their own. */
export class OwnTopics {
  readonly verdicts: VerdictTopics | null;
  private operators: readonly string[] = [];
  private others: ReadonlyMap<string, string> = new Map();

  constructor(private readonly settings: TopicSettings) {
    const { VERDICT_TOPIC } = settings;
    this.verdicts = VERDICT_TOPIC === undefined ? null : makeVerdictTopics(VERDICT_TOPIC, () => this.others);
  }

  /** All of them now. */
  get all(): readonly string[] {
    const { DEAD_LETTER_TOPIC } = this.settings;
    return [
      ...(DEAD_LETTER_TOPIC === undefined ? [] : [DEAD_LETTER_TOPIC]),
      ...(this.verdicts?.topicsOf(this.operators) ?? []),
    ];
  }

  /** The reference data has changed. */
  follow(reference: Pick<Reference, 'connections' | 'topics'>): void {
    if (this.verdicts?.isPerOperator !== true) return;
    const { DEAD_LETTER_TOPIC, KAFKA_TOPICS = [] } = this.settings;
    this.operators = operatorsOf(reference);
    this.others = new Map([
      ...[...KAFKA_TOPICS, ...reference.topics.keys()].map((topic): [string, string] => [topic, READ]),
      ...(DEAD_LETTER_TOPIC === undefined ? [] : [[DEAD_LETTER_TOPIC, LETTERS] as const]),
    ]);
  }

  /** @throws ConfigError where an operator can have no topic of its own */
  check(): void {
    const problems = this.verdicts?.problemsOf(this.operators) ?? [];
    if (problems.length > 0)
      throw new ConfigError(
        problems.map(({ problem, remedy }) => ({ setting: 'VERDICT_TOPIC', problem, remedy })),
      );
  }
}

const READ = 'a topic that is read';
const LETTERS = 'the dead-letter topic';

/** The operators that send: those with a connection. */
function operatorsOf({ connections }: Pick<Reference, 'connections'>): readonly string[] {
  return [...new Set([...connections.values()].map(({ operator }) => operator.id))].sort();
}

/**
 * Waits for Kafka, and creates those of the topics that are missing. Where operators have topics of their
 * own, a missing one is only reported: the others must go on.
 *
 * @throws ConfigError where an operator can have no topic of its own
 */
export async function needOwnTopics(
  step: Start,
  kafka: KafkaSettings,
  own: OwnTopics,
  reference: () => Promise<Reference>,
  logger: Logger,
): Promise<void> {
  if (own.verdicts?.isPerOperator !== true) return needTopics(step, kafka, own.all, logger);
  const letters = own.all;
  own.follow(await step('Postgres', reference));
  own.check();
  await needTopics(step, kafka, letters, logger);
  const ofOperators = own.all.filter((topic) => !letters.includes(topic));
  const access = { ...kafka, clientId: 'promo-intake', retries: 1 };
  const { made, refused } = await step('Kafka', () => ensureTopics(makeKafka(access, logger), ofOperators));
  for (const topic of made) logger.info({ topic }, 'topic created');
  for (const [topic, error] of refused)
    logger.error({ topic, error: messageOf(error) }, 'verdict topic is missing');
  const compacted = await step('Kafka', () =>
    findCompacted(
      makeKafka(access, makeLogger('silent')),
      ofOperators.filter((topic) => !refused.has(topic)),
    ),
  );
  if (compacted !== undefined)
    logger.error(
      { topic: compacted },
      'verdict topic is compacted: it refuses messages without a key. Set its cleanup.policy to delete',
    );
}

export interface Producing {
  readonly sender: Sender;
  readonly publishVerdicts: PublishVerdicts<Origin> | null;
  /** Whether each operator has a topic of its own. */
  readonly isPerOperator: boolean;
}

/** The producer of a process. */
export async function makeProducing(
  kafka: ReturnType<typeof makeKafka>,
  { verdicts }: OwnTopics,
  logger: Logger,
): Promise<Producing> {
  if (verdicts?.isPerOperator === true) {
    const sender = await makeTopicsSender(kafka, (topic) => logger.info({ topic }, 'topic created'));
    return { sender, publishVerdicts: makePublishByOperator(sender, verdicts), isPerOperator: true };
  }
  const sender = await makeSender(kafka);
  return {
    sender,
    publishVerdicts: verdicts === null ? null : makePublishVerdicts(sender, verdicts.topicOf('')),
    isPerOperator: false,
  };
}
