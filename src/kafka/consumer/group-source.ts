/**
 * The consumer group behind `RecordSource`, by kafkajs: chooses the topics to read, and rejoins the group
 * when needed.
 */
import type { Admin, Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
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
  let membership: Membership | null = null;
  let subscribed: readonly string[] | null = null;
  let endsInARow = 0;
  let following: Promise<unknown> = Promise.resolve();
  /** Whether to rejoin the group although this worker's own membership works. */
  let wantsToRejoin = false;
  const memberWatch = makeMemberWatch(
    kafka,
    {
      groupId,
      self() {
        const id = membership?.memberId() ?? null;
        // A member that fetches nothing cannot judge the others.
        // Neither can a member that brokers throttle: the other members share its quota.
        const isFetching = membership?.isStalled() === false && !membership.isThrottled();
        return id !== null && isFetching && subscribed !== null ? { id, topics: subscribed } : null;
      },
      onDeadMembers() {
        wantsToRejoin = true;
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
    const isJoined =
      topics.join() === subscribed?.join() && membership?.hasEnded() !== true && !wantsToRejoin;
    if (stopping.signal.aborted || isJoined) return;
    subscribed = null;
    wantsToRejoin = false;
    if (membership?.hasEnded()) logger.warn({ groupId }, 'the membership of the group has ended; rejoining');
    await membership?.leave();
    membership = null;
    logger.info({ topics }, topics.length === 0 ? 'there are no topics to read yet' : 'reading topics');
    if (topics.length === 0) listener.onAssigned([]);
    else membership = await joinGroup(kafka, topics, { ...options, ...callbacks, listener, logger });
    subscribed = topics;
  }

  const callbacks = {
    onAssigned() {
      memberWatch.onRebalanced();
      wantsToRejoin = false;
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
    while (!stopping.signal.aborted) {
      let waitMs = TOPIC_CHECK_MS;
      try {
        await checkTopics();
      } catch (error) {
        // Without a membership only these checks show that the worker is alive. A restart would not bring
        // back the store or Kafka.
        if (membership === null) listener.onActive();
        waitMs = TOPIC_RETRY_MS;
        logger.warn({ error: messageOf(error), retryMs: waitMs }, 'cannot check topics, retrying');
      }
      const checkAt = systemClock.now() + waitMs;
      do {
        await systemClock.sleep(TOPIC_RETRY_MS, stopping.signal);
      } while (
        systemClock.now() < checkAt &&
        membership?.isStalled() !== true &&
        membership?.hasEnded() !== true &&
        !wantsToRejoin &&
        !stopping.signal.aborted
      );
    }
  }

  return {
    async start(to) {
      listener = to;
      const watching = options.watchesDeadMembers === true ? memberWatch.watch(stopping.signal) : undefined;
      following = Promise.all([follow(), watching]);
    },
    pause: (partition) => membership?.pause(partition),
    resume: (partition) => membership?.resume(partition),
    rewindTo: (partition, offset) => membership?.rewindTo(partition, offset),
    async commit(progress) {
      if (membership === null) throw new Error('the worker is not a member of the group');
      await membership.commit(progress);
    },
    async stop() {
      stopping.abort();
      // A consumer that is stopped while it still joins would continue by itself.
      await following;
      await Promise.all([membership?.leave(), admin?.disconnect()]);
    },
  };
}
