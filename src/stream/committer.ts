/** Commits offsets to the group, after the transactions that decided their records (docs/rules.md, U1). */

import type { OffsetToCommit } from '../kafka/port';
import { messageOf } from '../lib/errors';
import { keyOf } from '../lib/topic-partition';
import type { StreamDeps } from './deps';

/**
 * Wait between two commits: a commit costs the worker and the broker as much as a small batch. Records
 * decided since the last commit are redelivered after a rebalance, and the store recognizes them.
 */
const COMMIT_INTERVAL_MS = 100;
/** Wait after a commit that failed. */
const COMMIT_RETRY_MS = 1_000;

export interface Committer {
  enqueueCommit(offset: OffsetToCommit): void;
  /**
   * Resolves once the offset is committed. The caller decides no record of the partition meanwhile.
   *
   * @throws where Kafka does not accept the commit now, and where the group rebalances first
   */
  commitNow(offset: OffsetToCommit): Promise<void>;
  /** Drops offsets that are not committed yet: they belong to a generation before the rebalance. */
  discardPending(): void;
  /** Resolves when all offsets are committed, or a commit failed. */
  flush(): Promise<void>;
}

/** Offsets that are committed together, and the end of their commit. */
class Commit {
  offsets = new Map<string, OffsetToCommit>();
  readonly end = Promise.withResolvers<void>();

  constructor() {
    // Nobody waits for most commits.
    this.end.promise.catch(() => undefined);
  }
}

/** Runs one commit at a time. Each commit includes all offsets that were enqueued during the one before. */
export function makeCommitter({
  source,
  clock,
  logger,
}: Pick<StreamDeps, 'source' | 'clock' | 'logger'>): Committer {
  let next = new Commit();
  let generation = 0;
  let committing: Promise<void> | null = null;
  const flushing = new AbortController();
  /** Message of the last commit's error; null where it succeeded. */
  let lastError: string | null = null;

  async function commitPending(): Promise<void> {
    while (next.offsets.size > 0) {
      const sent = next;
      const begunIn = generation;
      next = new Commit();
      let waitMs = COMMIT_INTERVAL_MS;
      try {
        await source.commit([...sent.offsets.values()]);
        lastError = null;
        sent.end.resolve();
      } catch (error) {
        // While Kafka refuses one partition, a commit may fail once a second: the same error is logged once.
        if (lastError !== messageOf(error)) logger.warn({ error: messageOf(error) }, 'offset commit failed');
        lastError = messageOf(error);
        if (generation === begunIn) next.offsets = new Map([...sent.offsets, ...next.offsets]);
        sent.end.reject(error);
        if (flushing.signal.aborted) break;
        waitMs = COMMIT_RETRY_MS;
      }
      await clock.sleep(waitMs, flushing.signal);
    }
    // Synchronous with the check above, so that no offset is enqueued in between and left without a commit.
    committing = null;
  }

  function run(): Promise<void> {
    committing ??= Promise.resolve().then(commitPending);
    return committing;
  }

  function enqueueCommit(offset: OffsetToCommit): void {
    next.offsets.set(keyOf(offset), offset);
    void run();
  }

  return {
    enqueueCommit,
    commitNow(offset) {
      enqueueCommit(offset);
      return next.end.promise;
    },
    discardPending() {
      generation++;
      next.end.reject(new Error('the group has rebalanced'));
      next = new Commit();
    },
    async flush() {
      flushing.abort();
      await run();
    },
  };
}
