/**
 * The stream: a loop for each partition that the group gives us, and the commits of what they have decided.
 * Every partition goes its own way; one that is undecided waits while the others go on (docs/rules.md, U1-U6).
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

/** Between two looks at what the store has decided of partitions of which nothing comes. */
export const STORE_CHECK_MS = 20_000;
/** A partition that waits for the store, for a lock or over a long line, keeps no other from being read and judged for longer than this. */
const LONGEST_TURN_MS = 100;

export interface Stream {
  start(): Promise<void>;
  /** Finishes what is being decided, commits, and leaves the group. @returns whether it did so within the deadline */
  stop(deadlineMs: number): Promise<boolean>;
  /** Whether the group has given this worker its partitions. */
  joined(): boolean;
  /** Milliseconds since the source last fetched or tried to, or a batch was last tried. A waiting retry counts as a try. */
  idleMs(): number;
  undecided(): readonly UndecidedPartition[];
  /** Where this worker's partitions stand. */
  partitionStatuses(): readonly PartitionStatus[];
  /** Milliseconds since a broker last answered a fetch; 0 while every partition is paused, since none is sent. */
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
  /** Cuts the wait between two looks at the store short: partitions have come to us, and one of which nothing comes is noticed by no batch. */
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
      // What is not there yet cannot be seen to rise.
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

  /** A store that has lost something is noticed by the next batch of each partition; where none comes, by this. */
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
        logger.warn({ error: messageOf(error) }, 'the store did not say how far it has decided');
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
      if (isLate) logger.warn({ deadlineMs }, 'stopped at the deadline; what was under way is read again');
      return !isLate;
    },
    joined: () => joined,
    idleMs: () => clock.now() - lastActivity,
    undecided: () => [...loops.values()].flatMap((loop) => loop.undecided ?? []),
    partitionStatuses: () => [...loops.values()].map((loop) => loop.status()),
    fetchAgeMs() {
      const all = [...loops.values()];
      // Nothing is asked of Kafka then: that nothing is answered is no trouble of its.
      if (all.length > 0 && all.every((loop) => loop.isFetchPaused)) lastFetch = clock.now();
      return clock.now() - lastFetch;
    },
  };
}
