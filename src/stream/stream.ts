/**
 * The stream: one loop for each partition that the group assigns to this worker, and one committer for all
 * loops.
 *
 * Partitions are independent: an undecided partition waits while the others continue (docs/rules.md, U1-U6).
 */

import type { SourceListener } from '../kafka/port';
import { messageOf } from '../lib/errors';
import { Semaphore } from '../lib/semaphore';
import { keyOf } from '../lib/topic-partition';
import { Turns } from '../lib/turns';
import { QueueShares } from './chunk-queue';
import { makeCommitter } from './committer';
import type { StreamDeps } from './deps';
import { PartitionLoop, type PartitionStatus } from './partition-loop';
import type { UndecidedPartition } from './retry-wait';

/** Interval of the checks whether the store still has the decisions of partitions that receive no records. */
export const STORE_CHECK_MS = 20_000;
/**
 * A turn ends after this time, though its partition may still wait for the store, for a lock or over a long
 * line. Until then no other partition with a large backlog is read and judged.
 */
const LONGEST_TURN_MS = 100;

export interface Stream {
  start(): Promise<void>;
  /**
   * Finishes the batches in flight, commits, and leaves the group.
   *
   * @returns whether all of that was done within the deadline
   */
  stop(deadlineMs: number): Promise<boolean>;
  /** Whether the group has assigned this worker its partitions. */
  joined(): boolean;
  /**
   * Milliseconds since the last fetch, successful or not, or the last try of a batch. A waiting retry counts
   * as a try (U5).
   */
  idleMs(): number;
  undecided(): readonly UndecidedPartition[];
  /** The state of each partition of this worker. */
  partitionStatuses(): readonly PartitionStatus[];
  /**
   * Milliseconds since a broker last answered a fetch. 0 while every partition is paused: no fetch is sent
   * then.
   */
  fetchAgeMs(): number;
}

export function makeStream(deps: StreamDeps): Stream {
  const { source, clock, logger, metrics } = deps;
  const slots = new Semaphore(deps.partitionsAtOnce);
  const turns = new Turns((ended) => clock.sleep(LONGEST_TURN_MS, ended));
  const committer = makeCommitter(deps);
  let loops = new Map<string, PartitionLoop>();
  let joined = false;
  let stopping = false;
  /**
   * Ends the wait for the next check of the store early. Partitions have just been assigned, and no batch
   * checks the store for a partition that receives no records.
   */
  let checkSoon = new AbortController();
  let lastActivity = clock.now();
  let lastFetch = clock.now();
  const markActive = () => {
    lastActivity = clock.now();
  };

  const listener: SourceListener = {
    onAssigned(partitions) {
      for (const loop of loops.values()) loop.revoke();
      committer.discardPending();
      // A counter that does not exist yet cannot be seen to rise.
      for (const { topic } of partitions) metrics.gapRecords.inc({ topic }, 0);
      metrics.refusedPartitions.reset();
      loops = new Map();
      if (stopping) return;
      const shared = { slots, turns, committer, queueShares: new QueueShares(), onActive: markActive };
      for (const partition of partitions)
        loops.set(keyOf(partition), new PartitionLoop(partition, deps, shared));
      joined = true;
      logger.info({ partitions: partitions.map(keyOf) }, 'partitions assigned');
    },
    onChunk(chunk) {
      loops.get(keyOf(chunk))?.offer(chunk);
    },
    onHighWatermark(partition, offset, start) {
      lastFetch = clock.now();
      loops.get(keyOf(partition))?.onHighWatermark(offset, start);
    },
    onPositioned(partition, offset, expectedUpTo, cluster) {
      loops.get(keyOf(partition))?.onPositioned(offset, expectedUpTo, cluster);
      checkSoon.abort();
    },
    onPassedOver: ({ topic }, offsets) => metrics.gapRecords.inc({ topic }, offsets),
    onRefused({ topic }, because) {
      if (because === null) metrics.refusedPartitions.dec({ topic });
      else metrics.refusedPartitions.inc({ topic });
    },
    onRebalanced: (ms) => metrics.rebalanceSeconds.observe(ms / 1000),
    onActive: markActive,
  };

  /**
   * Finds lost decisions of partitions that receive no records. Where records arrive, the next batch finds
   * the loss.
   */
  async function watchStore(): Promise<void> {
    for (;;) {
      await clock.sleep(STORE_CHECK_MS, checkSoon.signal);
      if (stopping) return;
      checkSoon = new AbortController();
      const checked = [...loops.values()].flatMap((loop) => {
        const expected = loop.expectedUpTo();
        return expected === null || expected === 0 ? [] : [{ loop, expected }];
      });
      try {
        for (const loop of loops.values()) await loop.checkMoved();
        if (checked.length === 0) continue;
        const decidedUpTo = await deps.readDecidedUpTo(checked.map(({ loop }) => loop.partition));
        for (const [index, { loop, expected }] of checked.entries()) {
          const decided = decidedUpTo[index] ?? 0;
          if (decided < expected && loop.expectedUpTo() === expected) loop.rewindTo(decided);
        }
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'cannot read how far the store has decided, retrying');
      }
    }
  }

  return {
    async start() {
      await source.start(listener);
      void watchStore();
    },
    async stop(deadlineMs) {
      stopping = true;
      checkSoon.abort();
      const deadline = new AbortController();
      const late = clock.sleep(deadlineMs, deadline.signal).then(() => !deadline.signal.aborted);
      const loopsFinished = Promise.all([...loops.values()].map((loop) => loop.finish()));
      const stopped = loopsFinished.then(() => committer.flush()).then(() => source.stop());
      const isLate = await Promise.race([stopped.then(() => false), late]);
      deadline.abort();
      if (isLate) logger.warn({ deadlineMs }, 'stopped at the deadline; records in flight are read again');
      return !isLate;
    },
    joined: () => joined,
    idleMs: () => clock.now() - lastActivity,
    undecided: () => [...loops.values()].flatMap((loop) => loop.undecided ?? []),
    partitionStatuses: () => [...loops.values()].map((loop) => loop.status()),
    fetchAgeMs() {
      const all = [...loops.values()];
      // No fetch is sent while every partition is paused, so a missing answer is no fault of Kafka.
      if (all.length > 0 && all.every((loop) => loop.isFetchPaused)) lastFetch = clock.now();
      return clock.now() - lastFetch;
    },
  };
}
