/**
 * A membership of a consumer group, by kafkajs: what is fetched, what is committed, and what the client is kept from.
 */
import { type Consumer, type EachBatchPayload, type Kafka, KafkaJSNonRetriableError } from 'kafkajs';
import type { Logger } from 'pino';
import { type Clock, NEVER, systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';
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
import { FetchPositions } from './positions';
import { RefusedPartitions, toTopicPartitions } from './refused-partitions';

/** A member joins a rebalance within this time, or within this many session timeouts where that is longer. */
const REBALANCE_TIMEOUT_MS = 15_000;
const REBALANCE_SESSIONS = 1.5;
/**
 * A member that the group has not heard of for this long beyond a rebalance is none any more, and joins anew. kafkajs times its heartbeats
 * by the clock of the day: set back by an hour, it sends none for an hour.
 */
const UNHEARD_BEYOND_MS = 5_000;
/** What a fetch asks for. */
export const FETCH = {
  /** It waits this long for new records; also how long a resumed partition may wait for its next fetch, so that its queue has to last. */
  maxWaitTimeInMs: 100,
  maxBytesPerPartition: 512 * 1024,
  maxBytes: 4 * 1024 * 1024,
} as const;
/**
 * Fetches that bring something begin at least this far apart: each costs the worker and the broker about a millisecond, however little it
 * brings. A record that comes after a pause does not wait for it.
 */
const LEAST_FETCH_INTERVAL_MS = 10;
/** Batches of a fetch that are handed over side by side. More only wait for one another. */
const BATCHES_HANDED_OVER_AT_ONCE = 64;
/** New partitions are noticed within this time, and partitions that had no leader when the group assigned them are fetched again. */
const METADATA_MAX_AGE_MS = 10_000;
/** Without a fetch for this long a topic may be gone: kafkajs then fetches nothing of the others either. */
const STALLED_MS = 3_000;
/** A fetch, and the handing over of what it brought, has ended after this time, one way or other. */
const FETCH_OVER_MS = REQUEST_TIMEOUT_MS + 2_000;
const GATE_CHECK_MS = 20;
/** A member that was throttled counts as throttled for so much longer: a quota comes in waves. */
const THROTTLED_KEPT_MS = 300_000;

/** A consumer of fixed topics, as a member of the group. */
export interface Membership {
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  readonly rewindTo: RecordSource['rewindTo'];
  readonly commit: RecordSource['commit'];
  /** Whether nothing is fetched any more. */
  isStalled(): boolean;
  /** Whether brokers throttle its fetches, or did a moment ago. */
  isThrottled(): boolean;
  /** Who we are to the group; null while it shares out its partitions. */
  memberId(): string | null;
  /** Whether the client has given up, or the group has. */
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
  /** The group works: a broker answered a fetch, or there is none to be sent. */
  readonly onFetched: () => void;
  readonly onEnd: (error: Error) => void;
  readonly logger: Logger;
}

export async function joinGroup(
  kafka: Kafka,
  topics: readonly string[],
  deps: MembershipDeps,
): Promise<Membership> {
  const { groupId, fetchIntervalMs = LEAST_FETCH_INTERVAL_MS, listener, onAssigned, onEnd, logger } = deps;
  const sessionTimeoutMs = sessionTimeoutOf(kafka);
  const rebalanceTimeoutMs = Math.max(REBALANCE_TIMEOUT_MS, REBALANCE_SESSIONS * sessionTimeoutMs);
  let left = false;
  let gone = false;
  let ended = false;
  let fetchBeganAt = systemClock.now();
  let fetchedAt = systemClock.now();
  /** When the group has last heard of us; null while the client is still joining. */
  let heardAt: number | null = null;
  let commitOffsets: EachBatchPayload['commitOffsetsIfNecessary'] | null = null;
  const gate = new FetchGate(systemClock);
  const positions = new FetchPositions(listener, logger);
  /** Our partitions, by `keyOf`. */
  let ours: ReadonlySet<string> = new Set();
  let rebalancingSince: number | null = systemClock.now();
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
      // A consumer that was left in the middle of a crash would come back otherwise.
      restartOnFailure: async () => !left,
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
    end(partition, offset, start) {
      if (left) return;
      deps.onFetched();
      refused.answered(partition);
      positions.onHighWatermark(partition, offset);
      listener.onHighWatermark(partition, offset, start);
    },
    refused(partition, error) {
      if (left) return;
      deps.onFetched();
      refused.refuse(partition, error);
    },
    leaderless(partition, error) {
      if (ours.has(keyOf(partition))) answers.refused(partition, error);
    },
    missing: (partition) => positions.markInDoubt(partition),
    throttled(ms) {
      throttledUntil = systemClock.now() + ms;
    },
    joining() {
      rebalancingSince ??= systemClock.now();
    },
    joined(clusterId) {
      if (left || clusterId === null || deps.clusterId == null || clusterId === deps.clusterId) return;
      // Nothing of the new cluster is taken, and nothing of the old one is committed there.
      left = true;
      commitOffsets = null;
      listener.onAssigned([]);
      onEnd(clusterChanged(deps.clusterId, clusterId));
    },
    committed(partition, offset, note) {
      if (!left) positions.onCommitted(partition, offset, note);
    },
  };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (left) return;
    if (rebalancingSince !== null) listener.onRebalanced(systemClock.now() - rebalancingSince);
    rebalancingSince = null;
    memberId = payload.memberId;
    const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
      numbers.map((partition) => ({ topic, partition })),
    );
    gate.close();
    positions.onAssigned();
    ours = new Set(partitions.map(keyOf));
    fetchedAt = systemClock.now();
    heardAt = systemClock.now();
    commitOffsets = null;
    // kafkajs keeps a partition paused over a rebalance, and whoever paused it is gone.
    consumer.resume(partitions.map(toTopicPartitions));
    refused.assigned();
    onAssigned();
    listener.onAssigned(partitions);
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (left) return;
    heardAt = null;
    rebalancingSince ??= systemClock.now();
    if (payload.restart) {
      logger.warn({ error: messageOf(payload.error) }, 'the Kafka client restarts');
      return;
    }
    // Without restart it has ended (kafkajs#1445), for errors, too, that pass, such as a coordinator that moves.
    ended = true;
    onEnd(sessionRefusal(kafka, payload.error) ?? payload.error);
  });
  consumer.on(consumer.events.HEARTBEAT, () => {
    heardAt = systemClock.now();
  });
  consumer.on(consumer.events.FETCH_START, ({ payload }) => {
    if (gone) leaveAgain();
    fetchBeganAt = systemClock.now();
    listener.onActive();
    gate.fetchBegins(payload.nodeId);
    refused.fetchBegins();
  });
  consumer.on(consumer.events.FETCH, () => {
    if (ours.size === 0) deps.onFetched();
    fetchedAt = systemClock.now();
    listener.onActive();
  });
  // Kafka is slow, and the client goes on trying. Heartbeats do not count: they say nothing of fetches.
  consumer.on(consumer.events.REQUEST_TIMEOUT, () => listener.onActive());

  async function handOver(payload: EachBatchPayload): Promise<void> {
    const { batch, resolveOffset, commitOffsetsIfNecessary } = payload;
    if (left) return;
    if (gate.isClosed() || positions.isVoid) {
      // Not resolved, so it is fetched again.
      await systemClock.sleep(GATE_CHECK_MS, NEVER);
      return;
    }
    const { topic, partition } = batch;
    for (const message of batch.messages) {
      if (!(message instanceof FetchedMessage)) throw new Error('kafkajs decoded a fetch by itself');
      const { fetched } = message;
      const fromOffset = offsetOf(Reflect.get(batch, 'fetchedOffset'));
      const nextOffset = Math.max(fetched.lastOffset + 1, fromOffset);
      if (!positions.advance({ topic, partition }, fromOffset, nextOffset)) return;
      // This is where the next fetch goes on: behind the markers and aborted records at the end, too.
      resolveOffset(message.offset);
      commitOffsets = commitOffsetsIfNecessary;
      for (const chunk of fetched.chunksFrom(fromOffset)) listener.onChunk({ topic, partition, ...chunk });
    }
    // The next fetch begins once all that this one brought is handed over.
    const early = fetchBeganAt + fetchIntervalMs - systemClock.now();
    if (early > 0) await systemClock.sleep(early, NEVER);
  }

  /** A consumer that was about to restart when it was left comes back, and holds partitions that nobody decides. */
  function leaveAgain(): void {
    gone = false;
    membership.leave().catch((error: unknown) => {
      logger.warn({ groupId, error: messageOf(error) }, 'a consumer that came back could not be ended');
      gone = true;
    });
  }

  const isStalled = () => systemClock.now() - fetchedAt >= STALLED_MS;

  const membership: Membership = {
    pause: (partition) => refused.pause(partition),
    resume: (partition) => refused.resume(partition),
    rewindTo(partition, offset) {
      ignoreWhileRestarting(() => consumer.seek({ ...partition, offset: String(offset) }));
      positions.rewindTo(partition, offset);
      // Of other partitions it is fetched again.
      gate.close();
    },
    async commit(progress) {
      // consumer.commitOffsets would try again by itself, over a rebalance too, and set back what the new owner has committed.
      if (commitOffsets === null) throw new Error('nothing was read since the group assigned its partitions');
      await positions.commit(progress, commitOffsets);
    },
    isStalled,
    isThrottled: () => systemClock.now() < throttledUntil + THROTTLED_KEPT_MS,
    memberId: () => (rebalancingSince === null ? memberId : null),
    // Where it is stalled it has met an error, and restarts by itself.
    hasEnded: () =>
      ended ||
      positions.isVoid ||
      (!isStalled() &&
        heardAt !== null &&
        systemClock.now() - heardAt > rebalanceTimeoutMs + UNHEARD_BEYOND_MS),
    async leave() {
      left = true;
      await consumer.disconnect();
      gone = true;
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

/**
 * kafkajs has no group while it restarts, for up to some seconds, and pauses, resumes and seeks nothing. Nor need it: all of that is void once it has
 * joined again.
 */
export function ignoreWhileRestarting(change: () => void): void {
  try {
    change();
  } catch (error) {
    if (!(error instanceof KafkaJSNonRetriableError) || !error.message.startsWith(NO_GROUP)) throw error;
  }
}

const NO_GROUP = 'Consumer group was not initialized';

/**
 * Keeps back what was fetched before the group last assigned its partitions.
 *
 * kafkajs runs a loop of fetches for each broker, and one of them may rejoin the group while another still waits for its records. Those would
 * be taken for the new generation's, which begins at the committed offset: what lies between would never be decided. So nothing is
 * taken from any broker until each of them has begun a fetch in the new generation, or its old one must have timed out.
 */
export class FetchGate {
  private readonly begunAt = new Map<number, number>();
  private readonly old = new Set<number>();

  constructor(private readonly clock: Pick<Clock, 'now'>) {}

  /** What was fetched until now is kept back. */
  close(): void {
    for (const nodeId of this.begunAt.keys()) this.old.add(nodeId);
  }

  fetchBegins(nodeId: number): void {
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
