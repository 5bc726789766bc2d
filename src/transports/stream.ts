/**
 * The stream: a loop for each partition that the group gives us, and the commits of what they have decided.
 * Every partition goes its own way; one that is undecided waits while the others go on (docs/rules.md, U1-U6).
 */
import { makeCommitter } from './committer';
import { PartitionLoop, type Standing, Turns, type UndecidedPartition } from './partition-loop';
import { keyOf, type SourceListener, type StreamDeps } from './record-source';

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
  standings(): readonly Standing[];
  /** Milliseconds since a broker last answered a fetch. */
  fetchAgeMs(): number;
}

export function makeStream(deps: StreamDeps): Stream {
  const { source, clock, logger, metrics } = deps;
  const turns = new Turns(deps.partitionsAtOnce);
  const committer = makeCommitter(deps);
  let loops = new Map<string, PartitionLoop>();
  let joined = false;
  let stopping = false;
  let lastActivity = clock.now();
  let lastFetch = clock.now();
  const active = () => {
    lastActivity = clock.now();
  };

  const listener: SourceListener = {
    assigned(partitions) {
      for (const loop of loops.values()) loop.revoke();
      committer.forget();
      // What is not there yet cannot be seen to rise.
      for (const { topic } of partitions) metrics.gapRecords.inc({ topic }, 0);
      loops = new Map();
      if (stopping) return;
      for (const partition of partitions)
        loops.set(keyOf(partition), new PartitionLoop(partition, deps, turns, committer, active));
      joined = true;
      logger.info({ partitions: partitions.map(keyOf) }, 'partitions assigned');
    },
    chunk(chunk) {
      loops.get(keyOf(chunk))?.offer(chunk);
    },
    end(partition, offset) {
      lastFetch = clock.now();
      loops.get(keyOf(partition))?.ends(offset);
    },
    setByOthers: (partition) => loops.get(keyOf(partition))?.setByOthers(),
    passedOver: ({ topic }, offsets) => metrics.gapRecords.inc({ topic }, offsets),
    rebalanced: (ms) => metrics.rebalanceSeconds.observe(ms / 1000),
    active,
  };

  return {
    start: () => source.start(listener),
    async stop(deadlineMs) {
      stopping = true;
      const deadline = new AbortController();
      const late = clock.sleep(deadlineMs, deadline.signal).then(() => !deadline.signal.aborted);
      const loopsFinished = Promise.all([...loops.values()].map((loop) => loop.finish()));
      const left = loopsFinished.then(() => committer.flush()).then(() => source.stop());
      const isLate = await Promise.race([left.then(() => false), late]);
      deadline.abort();
      if (isLate) logger.warn({ deadlineMs }, 'stopped at the deadline; what was under way is read again');
      return !isLate;
    },
    joined: () => joined,
    idleMs: () => clock.now() - lastActivity,
    undecided: () => [...loops.values()].flatMap((loop) => loop.undecided() ?? []),
    standings: () => [...loops.values()].map((loop) => loop.standing()),
    fetchAgeMs: () => clock.now() - lastFetch,
  };
}
