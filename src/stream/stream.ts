/**
 * The stream: a lane for each partition that the group assigns to this worker. One pipeline decides the
 * records of all lanes, and one committer commits their offsets.
 *
 * Partitions are independent: an undecided partition waits while the others go on (docs/rules.md, U1-U6).
 */

import { observed } from '../intake/batch-metrics';
import type { SourceListener } from '../kafka/port';
import { inTime, LATE } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { keyOf } from '../lib/topic-partition';
import { Committer } from './committer';
import type { StreamDeps } from './deps';
import { Lane } from './lane';
import { Pipeline } from './pipeline';
import type { PartitionStatus } from './position';
import { QueueShares } from './record-queue';
import type { UndecidedPartition } from './retry-wait';

/** Interval of the checks whether the store still has the decisions of partitions that receive no records. */
export const STORE_CHECK_MS = 20_000;

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
  const committer = new Committer(deps);
  let lanes = new Map<string, Lane>();
  const pipeline = new Pipeline({ ...deps, intake: observed(deps.intake, deps) }, () => lanes.values());
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
      for (const lane of lanes.values()) lane.revoke();
      committer.discardPending();
      // A counter that does not exist yet cannot be seen to rise.
      for (const { topic } of partitions) metrics.gapRecords.inc({ topic }, 0);
      metrics.refusedPartitions.reset();
      lanes = new Map();
      if (stopping) return;
      const shared = {
        committer,
        queueShares: new QueueShares(),
        onActive: markActive,
        onReady: () => pipeline.onReady(),
      };
      for (const partition of partitions) lanes.set(keyOf(partition), new Lane(partition, deps, shared));
      joined = true;
      logger.info({ partitions: partitions.map(keyOf) }, 'partitions assigned');
    },
    onChunk(chunk) {
      lanes.get(keyOf(chunk))?.onChunk(chunk);
    },
    onHighWatermark(partition, offset, start) {
      lastFetch = clock.now();
      lanes.get(keyOf(partition))?.position.onHighWatermark(offset, start);
    },
    onPositioned(partition, offset, expectedUpTo, cluster) {
      lanes.get(keyOf(partition))?.position.start(offset, expectedUpTo, cluster);
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
      const checked = [...lanes.values()].flatMap((lane) => {
        const expected = lane.expectedUpTo();
        return expected === null || expected === 0 ? [] : [{ lane, expected }];
      });
      try {
        for (const lane of lanes.values()) await lane.checkMirrored();
        if (checked.length === 0) continue;
        const decidedUpTo = await deps.readDecidedUpTo(checked.map(({ lane }) => lane.partition));
        for (const [index, { lane, expected }] of checked.entries()) {
          const decided = decidedUpTo[index] ?? 0;
          if (decided < expected && lane.expectedUpTo() === expected) lane.rewindTo(decided);
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
      pipeline.stop();
      const finished = Promise.all([...lanes.values()].map((lane) => lane.finish()));
      const stopped = finished.then(() => committer.flush()).then(() => source.stop());
      const isLate = (await inTime(clock, stopped, deadlineMs)) === LATE;
      if (isLate) logger.warn({ deadlineMs }, 'stopped at the deadline; records in flight are read again');
      return !isLate;
    },
    joined: () => joined,
    idleMs: () => clock.now() - lastActivity,
    undecided: () => [...lanes.values()].flatMap((lane) => lane.undecided ?? []),
    partitionStatuses: () => [...lanes.values()].map((lane) => lane.status()),
    fetchAgeMs() {
      const all = [...lanes.values()];
      // No fetch is sent while every partition is paused, so a missing answer is no fault of Kafka.
      if (all.length > 0 && all.every((lane) => lane.isFetchPaused)) lastFetch = clock.now();
      return clock.now() - lastFetch;
    },
  };
}
