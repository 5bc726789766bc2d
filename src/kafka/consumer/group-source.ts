/**
 * The consumer group behind `RecordSource`, by kafkajs: chooses the topics to read, and rejoins the group
 * when needed.
 */
import type { Admin, Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { limitLines } from '../../lib/line-limit';
import { connectedAdmin } from '../client/client';
import { KafkaRefusal } from '../client/errors';
import type { RecordSource, SourceListener } from '../port';
import { makeMemberWatch } from './dead-member-watch';
import { joinGroup, type Membership } from './membership';

/** New topics are read within this time of their configuration or creation (docs/rules.md, U6). */
const TOPIC_CHECK_MS = 20_000;
/** Wait after a check that failed, and the shortest time between two checks. */
const TOPIC_RETRY_MS = 2_000;
/** How many times in a row an ended client is replaced by a new one. Then the worker ends. */
const MAX_ENDS_IN_A_ROW = 5;

export interface KafkaSourceOptions {
  readonly groupId: string;
  /**
   * The cluster that is read. The source ends where the brokers turn out to belong to another cluster. Null
   * or absent where the cluster has no id.
   */
  readonly clusterId?: string | null;
  /** Returns the topics to read. Called at each check. */
  readonly wantedTopics: () => Promise<readonly string[]>;
  /**
   * Called at each check of the cluster's topics: whether each wanted topic exists, and the names of all
   * topics.
   */
  readonly onTopics?: (exists: ReadonlyMap<string, boolean>, all: ReadonlySet<string>) => void;
  /**
   * The least time between the starts of two fetches that return records; LEAST_FETCH_INTERVAL_MS by default.
   */
  readonly fetchIntervalMs?: number;
  /** Whether to rejoin where another member looks dead; false by default. */
  readonly watchesDeadMembers?: boolean;
  /** Called where the client has ended too many times in a row, or Kafka refuses the worker. */
  readonly onFatal: (error: Error) => void;
}

/**
 * The states of a worker in its group:
 *
 *     out ----> joining ----> member <----> rejoining
 *      |         ^   ^          |               |
 *      v         |   |          v               |
 *     topicless -+   +------ leaving <----------+
 *
 * - out: in no group: at the begin, and after a join that failed. The next check of the topics joins.
 * - topicless: none of the wanted topics exists. A check that finds one joins.
 * - joining: a membership is being made. A failure leads back to out.
 * - member: a membership reads the topics.
 * - rejoining: a member that leaves at the next check, so that the group rebalances. A rebalance by itself
 *   makes it a member again.
 * - leaving: the membership ends, since it is rejoining, the topics have changed, or the client has ended.
 *   It leads to joining or topicless. A failed try is repeated at the next check.
 */
type State =
  | { readonly name: 'out' | 'topicless' | 'joining' }
  | {
      readonly name: 'member' | 'rejoining' | 'leaving';
      readonly membership: Membership;
      readonly topics: readonly string[];
    };

/** The membership of a state that has one. */
const membershipOf = (state: State) => ('membership' in state ? state.membership : null);

/**
 * The consumer group. Records are delivered as they are fetched: the position in a partition runs ahead of
 * the committed offset.
 *
 * kafkajs fixes a consumer's topics when it starts, so a change of topics needs a new consumer: a new
 * membership.
 */
export function makeKafkaSource(kafka: Kafka, options: KafkaSourceOptions, logger: Logger): RecordSource {
  const { groupId } = options;
  let listener: SourceListener;
  let admin: Admin | null = null;
  let state: State = { name: 'out' };
  let endsInARow = 0;
  let following: Promise<unknown> = Promise.resolve();
  const memberWatch = makeMemberWatch(
    kafka,
    {
      groupId,
      self() {
        if (state.name !== 'member' && state.name !== 'rejoining') return null;
        const { membership, topics } = state;
        const id = membership.memberId();
        // A member that fetches nothing cannot judge the others.
        // Neither can a member that brokers throttle: the other members share its quota.
        const isFetching = !membership.isStalled() && !membership.isThrottled();
        return id !== null && isFetching ? { id, topics } : null;
      },
      onDeadMembers() {
        if (state.name === 'member') state = { ...state, name: 'rejoining' };
      },
    },
    logger,
  );
  const stopping = new AbortController();
  let missing: readonly string[] = [];

  /** The wanted topics that exist. A missing topic is logged once, and does not stop the other topics. */
  async function presentTopics(): Promise<string[]> {
    admin ??= await connectedAdmin(kafka);
    const wanted = await options.wantedTopics();
    const existing = new Set(await admin.listTopics());
    const reported = missing;
    missing = wanted.filter((topic) => !existing.has(topic));
    for (const topic of missing) {
      if (reported.includes(topic)) continue;
      logger.warn({ topic, checkEveryMs: TOPIC_CHECK_MS }, 'topic does not exist; it is read once it exists');
    }
    options.onTopics?.(new Map(wanted.map((topic) => [topic, existing.has(topic)])), existing);
    return wanted.filter((topic) => existing.has(topic)).sort();
  }

  async function checkTopics(): Promise<void> {
    const topics = await presentTopics();
    // Without topics there are no fetches: only this check shows that the worker is alive.
    if (topics.length === 0) listener.onActive();
    if (stopping.signal.aborted || isUpToDate(state, topics)) return;
    if ('membership' in state) {
      const { membership } = state;
      state = { ...state, name: 'leaving' };
      if (membership.hasEnded()) logger.warn({ groupId }, 'the membership of the group has ended; rejoining');
      await membership.leave();
    }
    state = { name: 'out' };
    logger.info({ topics }, topics.length === 0 ? 'there are no topics to read yet' : 'reading topics');
    if (topics.length === 0) {
      state = { name: 'topicless' };
      listener.onAssigned([]);
    } else await join(topics);
  }

  async function join(topics: readonly string[]): Promise<void> {
    state = { name: 'joining' };
    try {
      const membership = await joinGroup(kafka, topics, { ...options, ...callbacks, listener, logger });
      state = { name: 'member', membership, topics };
    } catch (error) {
      state = { name: 'out' };
      throw error;
    }
  }

  const callbacks = {
    onAssigned() {
      memberWatch.onRebalanced();
      if (state.name === 'rejoining') state = { ...state, name: 'member' };
    },
    onFetched() {
      // Not before the first fetch: a client may join each time, and end with its first fetch.
      endsInARow = 0;
    },
    onEnd(error: Error) {
      if (error instanceof KafkaRefusal) {
        options.onFatal(error);
        return;
      }
      logger.error({ error: error.message }, 'the Kafka client failed; creating another one');
      if (++endsInARow >= MAX_ENDS_IN_A_ROW) options.onFatal(error);
    },
  };

  async function follow(): Promise<void> {
    const logLimited = limitLines(logger, systemClock);
    while (!stopping.signal.aborted) {
      let waitMs = TOPIC_CHECK_MS;
      try {
        await checkTopics();
      } catch (cause) {
        // Without a membership only these checks show that the worker is alive. A restart would not bring
        // back the store or Kafka.
        if (membershipOf(state) === null) listener.onActive();
        waitMs = TOPIC_RETRY_MS;
        const error = messageOf(cause);
        logLimited(error, { error, retryMs: waitMs }, 'cannot check topics, retrying');
      }
      const checkAt = systemClock.now() + waitMs;
      do {
        await systemClock.sleep(TOPIC_RETRY_MS, stopping.signal);
      } while (systemClock.now() < checkAt && !needsCheck(state) && !stopping.signal.aborted);
    }
  }

  return {
    async start(to) {
      listener = to;
      const watching = options.watchesDeadMembers === true ? memberWatch.watch(stopping.signal) : undefined;
      following = Promise.all([follow(), watching]);
    },
    pause: (partition) => membershipOf(state)?.pause(partition),
    resume: (partition) => membershipOf(state)?.resume(partition),
    rewindTo: (partition, offset) => membershipOf(state)?.rewindTo(partition, offset),
    async commit(offsets) {
      const membership = membershipOf(state);
      if (membership === null) throw new Error('the worker is not a member of the group');
      await membership.commit(offsets);
    },
    async stop() {
      stopping.abort();
      // A consumer that is stopped while it still joins would continue by itself.
      await following;
      await Promise.all([membershipOf(state)?.leave(), admin?.disconnect()]);
    },
  };
}

/** Whether a check has nothing to change: the topics are those that are read, by a membership that works. */
function isUpToDate(state: State, topics: readonly string[]): boolean {
  if (state.name === 'topicless') return topics.length === 0;
  return state.name === 'member' && topics.join() === state.topics.join() && !state.membership.hasEnded();
}

/** Whether the next check of the topics must not wait. */
function needsCheck(state: State): boolean {
  const membership = membershipOf(state);
  return state.name === 'rejoining' || membership?.isStalled() === true || membership?.hasEnded() === true;
}
