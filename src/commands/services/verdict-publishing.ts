/** The topics that a process writes, and its publishing of verdicts. */
import type { Logger } from 'pino';
import { Unable } from '../../cli/explain-error';
import { ConfigError, SETTINGS } from '../../config/config';
import type { KafkaSettings } from '../../config/kafka';
import type { Reference } from '../../domain/reference';
import type { Origin } from '../../intake/delivery';
import { makeKafka } from '../../kafka/client/client';
import { COMPACTED, isCompacted } from '../../kafka/client/errors';
import { ensureTopics, lookAtTopics, type SeenTopics } from '../../kafka/client/topics';
import { makeProducer, makeTopicsProducer, type Producer } from '../../kafka/producer';
import { makeReferences } from '../../ledger/reference-store';
import { messageOf } from '../../lib/errors';
import { StoreError } from '../../postgres/errors';
import { makePool, type StoreAccess } from '../../postgres/pool';
import type { VerdictSupply } from '../../publishing/joint-requests';
import {
  makeOperatorTopics,
  type NoOperatorTopic,
  type OperatorTopics,
} from '../../publishing/operator-topics';
import type { PublishVerdicts } from '../../publishing/published-answer';
import { makePublishByOperator, makePublishVerdicts, type OnVerdicts } from '../../publishing/verdict-topic';
import { makeLogger } from '../../telemetry/logger';
import type { Metrics } from '../../telemetry/metrics';
import { needTopics, type Start } from './service';

/** The settings that name topics. The webhook knows VERDICT_TOPIC only. */
interface TopicSettings {
  readonly VERDICT_TOPIC: string | undefined;
  readonly DEAD_LETTER_TOPIC?: string;
  readonly KAFKA_TOPICS?: readonly string[] | undefined;
}

/** The topics that a process writes. They follow the reference data where operators have their own. */
export class OwnTopics {
  readonly verdicts: OperatorTopics | null;
  private operators: readonly string[] = [];
  private others: ReadonlyMap<string, string> = new Map();

  constructor(private readonly settings: TopicSettings) {
    const { VERDICT_TOPIC } = settings;
    this.verdicts =
      VERDICT_TOPIC === undefined
        ? null
        : makeOperatorTopics(VERDICT_TOPIC, SETTINGS.VERDICT_TOPIC.example, () => this.others);
  }

  /** The operators that send. */
  get operatorIds(): readonly string[] {
    return this.operators;
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

  /** Why operators can have no topic of their own. */
  get problems(): readonly NoOperatorTopic[] {
    return this.verdicts?.problemsOf(this.operators) ?? [];
  }

  /** @throws ConfigError where no operator can have a topic of its own */
  checkAny(): void {
    if (this.verdicts?.topicsOf(this.operators).length === 0) this.checkEach(this.operators);
  }

  /** @throws ConfigError where one of these operators can have no topic of its own */
  checkEach(operators: readonly string[]): void {
    const problems = this.problems.filter(({ operatorIds }) =>
      operatorIds.some((id) => operators.includes(id)),
    );
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
 * own, a missing or an impossible one is only reported: the others must go on.
 *
 * @throws ConfigError where no operator can have a topic of its own
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
  own.checkAny();
  for (const { message } of own.problems)
    logger.error({ error: message }, 'operator can have no verdict topic');
  await needTopics(step, kafka, letters, logger);
  const ofOperators = own.all.filter((topic) => !letters.includes(topic));
  const access = { ...kafka, clientId: 'promo-intake', retries: 1 };
  const { made, refused } = await step('Kafka', () => ensureTopics(makeKafka(access, logger), ofOperators));
  for (const topic of made) logger.info({ topic }, 'topic created');
  for (const [topic, error] of refused)
    logger.error({ topic, error: messageOf(error) }, 'verdict topic is missing');
  const { compacted } = await step('Kafka', () =>
    lookAtTopics(makeKafka(access, makeLogger('silent')), ofOperators),
  );
  for (const topic of compacted) logger.error({ topic, error: COMPACTED }, 'verdict topic is compacted');
}

/** A topic of verdicts as `status` reports it. */
export interface VerdictTopicState {
  /** Null where one topic has the verdicts of all operators. */
  readonly operator: string | null;
  /** Null where the operator can have no topic. */
  readonly topic: string | null;
  readonly state: 'present' | 'missing' | 'impossible';
  /** Why the operator can have no topic, or why its topic refuses messages, and the remedy. */
  readonly problem: string | null;
}

export function verdictTopicStates(
  own: OwnTopics,
  { existing, compacted }: SeenTopics,
): readonly VerdictTopicState[] {
  const { verdicts } = own;
  if (verdicts === null) return [];
  const stateOf = (operator: string | null, topic: string): VerdictTopicState => ({
    operator,
    topic,
    state: existing.has(topic) ? 'present' : 'missing',
    problem: compacted.includes(topic) ? isCompacted(topic) : null,
  });
  if (!verdicts.isPerOperator) return [stateOf(null, verdicts.topicOf(''))];
  return own.operatorIds.map((operator) => {
    const [problem] = verdicts.problemsOf([operator]);
    if (problem !== undefined)
      return { operator, topic: null, state: 'impossible', problem: problem.message };
    return stateOf(operator, verdicts.topicOf(operator));
  });
}

/** The SQLSTATE of a missing permission. */
const FORBIDDEN = '42501';
/** By its design: `grant` gives no reader the reference data. */
const MAY_NOT_READ =
  'the user of DATABASE_URL may not read the reference data, which names the operators. Run status as a writer, or as the owner of the tables, to see these topics';

/** The topics of verdicts, and whether this user may see each. @throws where a server does not answer */
export async function readVerdictTopics(
  own: OwnTopics,
  database: StoreAccess,
  kafka: ReturnType<typeof makeKafka>,
): Promise<readonly VerdictTopicState[]> {
  if (own.verdicts === null) return [];
  if (own.verdicts.isPerOperator) {
    const access = { ...database, maxConnections: 1, applicationName: 'promo-intake-status' };
    const pool = makePool(access, makeLogger('silent'));
    try {
      own.follow(await makeReferences(pool).current());
    } catch (error) {
      if (error instanceof StoreError && error.sqlState === FORBIDDEN) throw new Unable(MAY_NOT_READ);
      throw error;
    } finally {
      await pool.end();
    }
  }
  return verdictTopicStates(own, await lookAtTopics(kafka, own.verdicts.topicsOf(own.operatorIds)));
}

export interface Producing {
  readonly producer: Producer;
  readonly publishVerdicts: PublishVerdicts<Origin> | null;
  /** Whether each operator has a topic of its own. */
  readonly isPerOperator: boolean;
}

/** Longer than the wait of a retry and its request. */
const REFUSAL_KEPT_MS = 120_000;

/**
 * Keeps which topics refuse messages. A topic may refuse the messages of one partition and take all others,
 * so a stored message does not end a refusal.
 *
 * @param set called with 1 where a topic refuses, else with 0
 */
export function makeRefusals(set: (topic: string, refuses: 0 | 1) => void) {
  const ends = new Map<string, NodeJS.Timeout>();
  return (topic: string, isRefused: boolean): void => {
    if (!isRefused) {
      if (!ends.has(topic)) set(topic, 0);
      return;
    }
    set(topic, 1);
    clearTimeout(ends.get(topic));
    const end = () => {
      ends.delete(topic);
      set(topic, 0);
    };
    ends.set(topic, setTimeout(end, REFUSAL_KEPT_MS).unref());
  };
}

/** The producer of a process. */
export async function makeProducing(
  kafka: ReturnType<typeof makeKafka>,
  { verdicts }: OwnTopics,
  logger: Logger,
  metrics?: Pick<Metrics, 'publishedVerdicts' | 'refusingVerdictTopics'>,
  supply?: VerdictSupply,
): Promise<Producing> {
  const onRefusal = makeRefusals((topic, refuses) => metrics?.refusingVerdictTopics.set({ topic }, refuses));
  const onVerdicts: OnVerdicts = (topic, messages, isStored) => {
    if (isStored) metrics?.publishedVerdicts.inc({ topic }, messages);
    onRefusal(topic, !isStored);
  };
  if (verdicts?.isPerOperator === true) {
    const producer = await makeTopicsProducer(kafka, (topic) => logger.info({ topic }, 'topic created'));
    return {
      producer,
      publishVerdicts: makePublishByOperator(producer, verdicts, onVerdicts, supply),
      isPerOperator: true,
    };
  }
  const producer = await makeProducer(kafka);
  return {
    producer,
    publishVerdicts:
      verdicts === null ? null : makePublishVerdicts(producer, verdicts.topicOf(''), onVerdicts),
    isPerOperator: false,
  };
}
