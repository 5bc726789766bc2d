/**
 * One membership of a consumer group, by kafkajs: its fetches, its commits, and guards against faults of the
 * client.
 */
import { type Consumer, type EachBatchPayload, type Kafka, KafkaJSNonRetriableError } from 'kafkajs';
import type { Logger } from 'pino';
import { type Clock, NEVER, systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { keyOf, type TopicPartition } from '../../lib/topic-partition';
import {
  clusterChanged,
  FIRST_RETRY_MS,
  MAX_RETRY_MS,
  offsetOf,
  REQUEST_TIMEOUT_MS,
  RETRIES,
  sessionRefusal,
  sessionTimeoutOf,
} from '../client/client';
import { type AnswerListener, FetchedMessage, runWithListener } from '../client/patches/fetch';
import { heartbeatMs } from '../client/patches/heartbeats';
import type { RecordSource, SourceListener } from '../port';
import { FetchPositions, RefusedPartitions, toTopicPartitions } from './assigned-partitions';

/**
 * The time in which a member must join a rebalance. Session timeouts replace it where REBALANCE_SESSIONS of
 * them are longer.
 */
const REBALANCE_TIMEOUT_MS = 15_000;
const REBALANCE_SESSIONS = 1.5;
/**
 * A member has lost its membership once the group has not heard from it for the time of a rebalance and this
 * time. It joins again then. kafkajs times heartbeats by the wall clock: set back by an hour, it sends none
 * for an hour.
 */
const UNHEARD_BEYOND_MS = 5_000;
/** Parameters of a fetch. */
export const FETCH = {
  /**
   * A fetch waits this long for new records. A resumed partition may wait as long for its next fetch, so its
   * queue has to last.
   */
  maxWaitTimeInMs: 100,
  maxBytesPerPartition: 512 * 1024,
  maxBytes: 4 * 1024 * 1024,
} as const;
/**
 * The least time between the starts of two fetches that return records: each fetch costs the worker and the
 * broker about a millisecond, however small. A record that arrives after a pause does not wait.
 */
const LEAST_FETCH_INTERVAL_MS = 10;
/**
 * After an answer of this size, the next fetch begins LEAST_FETCH_INTERVAL_MS after the one before. The
 * records then cost far more than the fetch, and a longer interval would only delay them. Where a partition
 * has a backlog, the longer interval stays, since larger batches are cheaper.
 */
const BUSY_ANSWER_BYTES = 64 * 1024;
/** Batches of a fetch that are handed over at the same time. More of them would only wait for one another. */
const BATCHES_HANDED_OVER_AT_ONCE = 64;
/** New partitions are found within this time, and partitions without a leader are fetched again. */
const METADATA_MAX_AGE_MS = 10_000;
/** Without a fetch for this long a topic may be deleted: kafkajs then fetches no other topic either. */
const STALLED_MS = 3_000;
/** After this time a fetch has ended, and its records are handed over, or it has failed. */
const FETCH_OVER_MS = REQUEST_TIMEOUT_MS + 2_000;
const GATE_CHECK_MS = 20;
/** A member counts as throttled for this long after it was throttled: a quota comes in waves. */
const THROTTLED_KEPT_MS = 300_000;

/** A consumer of fixed topics, as a member of the group. */
export interface Membership {
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  readonly rewindTo: RecordSource['rewindTo'];
  readonly commit: RecordSource['commit'];
  /** Whether fetches have stopped. */
  isStalled(): boolean;
  /** Whether brokers throttle this member's fetches, or did so recently. */
  isThrottled(): boolean;
  /** The member's id in the group; null during a rebalance. */
  memberId(): string | null;
  /** Whether the membership is over: the client or the group has given it up. */
  hasEnded(): boolean;
  leave(): Promise<void>;
}

export interface MembershipDeps {
  readonly groupId: string;
  /** The cluster that is read; null where it has no id. */
  readonly clusterId?: string | null;
  readonly fetchIntervalMs?: number;
  readonly listener: SourceListener;
  readonly onAssigned: () => void;
  /** Called where the membership works: a broker answered a fetch, or there is no partition to fetch. */
  readonly onFetched: () => void;
  readonly onEnd: (error: Error) => void;
  readonly logger: Logger;
}

/**
 * The states of a membership:
 *
 *     joining ----> member <----> rejoining       any but left ---> leaving <---> left
 *        ^            |               |
 *        |<-----------+<--------------+  the client restarts
 *        +----> ended <---------------+  the client has ended for good (also from member)
 *
 * - joining: the client has no assignment: at the begin, and while it restarts.
 * - member: the group has assigned partitions. The group hears from this member.
 * - rejoining: the group rebalances. The partitions of before are read on until the next assignment.
 * - ended: the client will not come back. The group source replaces the membership.
 * - leaving: this worker leaves, or the brokers belong to another cluster. Nothing that arrives counts.
 * - left: the client is disconnected. A client that restarts nevertheless has to leave again.
 *
 * A stalled membership is in any of the states: its fetches have stopped for STALLED_MS.
 */
type State = 'joining' | 'member' | 'rejoining' | 'ended' | 'leaving' | 'left';

export async function joinGroup(
  kafka: Kafka,
  topics: readonly string[],
  deps: MembershipDeps,
): Promise<Membership> {
  const { groupId, fetchIntervalMs = LEAST_FETCH_INTERVAL_MS, listener, onAssigned, onEnd, logger } = deps;
  const sessionTimeoutMs = sessionTimeoutOf(kafka);
  const rebalanceTimeoutMs = Math.max(REBALANCE_TIMEOUT_MS, REBALANCE_SESSIONS * sessionTimeoutMs);
  let state: State = 'joining';
  /** Whether this worker has given the membership up. */
  const hasLeft = () => state === 'leaving' || state === 'left';
  let fetchBeganAt = systemClock.now();
  let fetchedAt = systemClock.now();
  /** When the group last heard from this member. Without meaning while it is joining. */
  let lastAnswerAt = systemClock.now();
  /** When the group began to assign partitions. Without meaning for a member. */
  let rebalancingSince = systemClock.now();
  let commitOffsets: EachBatchPayload['commitOffsetsIfNecessary'] | null = null;
  const gate = new FetchGate(systemClock);
  const positions = new FetchPositions(listener, logger);
  /** The partitions assigned to this member, by `keyOf`. */
  let assignedKeys: ReadonlySet<string> = new Set();
  let memberId: string | null = null;
  let throttledUntil = Number.NEGATIVE_INFINITY;

  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: heartbeatMs(sessionTimeoutMs),
    rebalanceTimeout: rebalanceTimeoutMs,
    ...FETCH,
    metadataMaxAge: METADATA_MAX_AGE_MS,
    allowAutoTopicCreation: false,
    retry: {
      initialRetryTime: FIRST_RETRY_MS,
      maxRetryTime: MAX_RETRY_MS,
      retries: RETRIES,
      // A consumer that leaves during a crash would come back otherwise.
      restartOnFailure: async () => !hasLeft(),
    },
  });
  const pauses: Pick<Consumer, 'pause' | 'resume'> = {
    pause: (partitions) => ignoreWhileRestarting(() => consumer.pause(partitions)),
    resume: (partitions) => ignoreWhileRestarting(() => consumer.resume(partitions)),
  };
  const refused = new RefusedPartitions(pauses, systemClock, logger, (partition, because) =>
    listener.onRefused(partition, because),
  );
  const answers: AnswerListener = {
    onHighWatermark(partition, offset, start) {
      if (hasLeft()) return;
      deps.onFetched();
      refused.onAnswered(partition);
      positions.onHighWatermark(partition, offset);
      listener.onHighWatermark(partition, offset, start);
    },
    onRefused(partition, error) {
      if (hasLeft()) return;
      deps.onFetched();
      refused.refuse(partition, error);
    },
    onLeaderless(partition, error) {
      if (assignedKeys.has(keyOf(partition))) answers.onRefused(partition, error);
    },
    onMissing: (partition) => positions.markInDoubt(partition),
    onThrottled(ms) {
      throttledUntil = systemClock.now() + ms;
    },
    onJoining() {
      if (state !== 'member') return;
      state = 'rejoining';
      rebalancingSince = systemClock.now();
    },
    onJoined(clusterId) {
      if (hasLeft() || clusterId === null || deps.clusterId == null || clusterId === deps.clusterId) return;
      // Records of the new cluster are ignored, and no offset of the old cluster is committed to the new one.
      state = 'leaving';
      commitOffsets = null;
      listener.onAssigned([]);
      onEnd(clusterChanged(deps.clusterId, clusterId));
    },
    onCommitted(partition, offset, note) {
      if (!hasLeft()) positions.onCommitted(partition, offset, note);
    },
  };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (hasLeft()) return;
    if (state !== 'member') listener.onRebalanced(systemClock.now() - rebalancingSince);
    // A client that has ended is replaced, whatever it still does.
    if (state !== 'ended') state = 'member';
    memberId = payload.memberId;
    const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
      numbers.map((partition) => ({ topic, partition })),
    );
    gate.close();
    positions.onAssigned();
    assignedKeys = new Set(partitions.map(keyOf));
    fetchedAt = systemClock.now();
    lastAnswerAt = systemClock.now();
    commitOffsets = null;
    // kafkajs keeps a partition paused over a rebalance, but the loop that paused it no longer exists.
    consumer.resume(partitions.map(toTopicPartitions));
    refused.onAssigned();
    onAssigned();
    listener.onAssigned(partitions);
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (hasLeft()) return;
    if (state === 'member') rebalancingSince = systemClock.now();
    if (payload.restart) {
      if (state !== 'ended') state = 'joining';
      logger.warn({ error: messageOf(payload.error) }, 'the Kafka client restarts');
      return;
    }
    // Without a restart the consumer has ended (kafkajs#1445), even after a transient error such as a
    // coordinator that moves.
    state = 'ended';
    onEnd(sessionRefusal(kafka, payload.error) ?? payload.error);
  });
  consumer.on(consumer.events.HEARTBEAT, () => {
    lastAnswerAt = systemClock.now();
  });
  consumer.on(consumer.events.FETCH_START, ({ payload }) => {
    if (state === 'left') leaveAgain();
    fetchBeganAt = systemClock.now();
    listener.onActive();
    gate.onFetchStart(payload.nodeId);
    refused.onFetchStart();
  });
  consumer.on(consumer.events.FETCH, () => {
    if (assignedKeys.size === 0) deps.onFetched();
    fetchedAt = systemClock.now();
    listener.onActive();
  });
  // Kafka is slow, and the client keeps trying. Heartbeats do not count: they do not show that fetches work.
  consumer.on(consumer.events.REQUEST_TIMEOUT, () => listener.onActive());

  async function handOver(payload: EachBatchPayload): Promise<void> {
    const { batch, resolveOffset, commitOffsetsIfNecessary } = payload;
    if (hasLeft()) return;
    if (gate.isClosed() || positions.isVoid) {
      // The batch is not resolved, so it is fetched again.
      await systemClock.sleep(GATE_CHECK_MS, NEVER);
      return;
    }
    const { topic, partition } = batch;
    let isBusy = false;
    for (const message of batch.messages) {
      if (!(message instanceof FetchedMessage)) throw new Error('kafkajs decoded a fetch by itself');
      const { fetched, answerBytes } = message;
      const fromOffset = offsetOf(Reflect.get(batch, 'fetchedOffset'));
      const nextOffset = Math.max(fetched.lastOffset + 1, fromOffset);
      if (!positions.advance({ topic, partition }, fromOffset, nextOffset)) return;
      // The next fetch continues here, behind markers and aborted records at the end of the batch.
      resolveOffset(message.offset);
      commitOffsets = commitOffsetsIfNecessary;
      isBusy = answerBytes >= BUSY_ANSWER_BYTES && nextOffset >= Number(batch.highWatermark);
      for (const chunk of fetched.chunksFrom(fromOffset)) listener.onChunk({ topic, partition, ...chunk });
    }
    // The next fetch begins once all records of this one are handed over.
    const intervalMs = isBusy ? LEAST_FETCH_INTERVAL_MS : fetchIntervalMs;
    const early = fetchBeganAt + intervalMs - systemClock.now();
    if (early > 0) await systemClock.sleep(early, NEVER);
  }

  /**
   * A consumer that was about to restart when it left comes back. It would hold partitions that no loop
   * decides.
   */
  function leaveAgain(): void {
    membership.leave().catch((error: unknown) => {
      logger.warn(
        { groupId, error: messageOf(error) },
        'cannot stop a consumer that restarted after it left',
      );
      state = 'left';
    });
  }

  const isStalled = () => systemClock.now() - fetchedAt >= STALLED_MS;

  const membership: Membership = {
    pause: (partition) => refused.pause(partition),
    resume: (partition) => refused.resume(partition),
    rewindTo(partition, offset) {
      ignoreWhileRestarting(() => consumer.seek({ ...partition, offset: String(offset) }));
      positions.rewindTo(partition, offset);
      // The gate discards fetches in flight. Records of other partitions in them are fetched again.
      gate.close();
    },
    async commit(offsets) {
      // `consumer.commitOffsets` retries by itself, even across a rebalance. It would then set back an offset
      // that the new owner has committed.
      if (commitOffsets === null) throw new Error('nothing was read since the group assigned its partitions');
      await positions.commit(offsets, commitOffsets);
    },
    isStalled,
    isThrottled: () => systemClock.now() < throttledUntil + THROTTLED_KEPT_MS,
    memberId: () => (state === 'member' ? memberId : null),
    // A stalled client has met an error, and restarts by itself.
    hasEnded: () =>
      state === 'ended' ||
      positions.isVoid ||
      (!isStalled() &&
        (state === 'member' || state === 'rejoining') &&
        systemClock.now() - lastAnswerAt > rebalanceTimeoutMs + UNHEARD_BEYOND_MS),
    async leave() {
      state = 'leaving';
      await consumer.disconnect();
      state = 'left';
    },
  };
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [...topics], fromBeginning: true });
    await runWithListener(answers, () =>
      consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        partitionsConsumedConcurrently: BATCHES_HANDED_OVER_AT_ONCE,
        eachBatch: handOver,
      }),
    );
    return membership;
  } catch (error) {
    await membership.leave();
    throw error;
  }
}

/** Ignores the error of a pause, resume or seek without a group: joining again makes the change void. */
export function ignoreWhileRestarting(change: () => void): void {
  try {
    change();
  } catch (error) {
    if (!isWithoutGroup(error)) throw error;
  }
}

const NO_GROUP = 'Consumer group was not initialized';

/** The client ends or restarts, and has no group meanwhile, for up to some seconds. */
export function isWithoutGroup(error: unknown): boolean {
  return error instanceof KafkaJSNonRetriableError && error.message.startsWith(NO_GROUP);
}

/**
 * Discards fetches that began before the group last assigned its partitions.
 *
 * kafkajs runs a fetch loop for each broker. One loop may rejoin the group while another still waits for a
 * fetch. The records of that old fetch would count as records of the new generation, which begins at the
 * committed offset. The records in between would never be decided. So the gate stays closed until each broker
 * has begun a fetch in the new generation, or its old fetch must have timed out.
 */
export class FetchGate {
  private readonly begunAt = new Map<number, number>();
  private readonly old = new Set<number>();

  constructor(private readonly clock: Pick<Clock, 'now'>) {}

  /** Discards the fetches that have begun until now. */
  close(): void {
    for (const nodeId of this.begunAt.keys()) this.old.add(nodeId);
  }

  onFetchStart(nodeId: number): void {
    this.begunAt.set(nodeId, this.clock.now());
    this.old.delete(nodeId);
  }

  isClosed(): boolean {
    for (const nodeId of this.old) {
      if (this.clock.now() - (this.begunAt.get(nodeId) ?? 0) < FETCH_OVER_MS) return true;
      // A broker that is gone begins no further fetch.
      this.old.delete(nodeId);
      this.begunAt.delete(nodeId);
    }
    return false;
  }
}
