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

interface Waiting {
  readonly offset: OffsetToCommit;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Runs one commit at a time. Each commit includes all offsets that were enqueued during the one before. */
export function makeCommitter({
  source,
  clock,
  logger,
}: Pick<StreamDeps, 'source' | 'clock' | 'logger'>): Committer {
  let pending = new Map<string, OffsetToCommit>();
  let waiting: Waiting[] = [];
  let generation = 0;
  let committing: Promise<void> | null = null;
  const flushing = new AbortController();
  /** Message of the last commit's error; null where it succeeded. */
  let lastError: string | null = null;

  /**
   * Settles the promises of `commitNow` whose offsets were in a commit.
   *
   * @param error null where the commit succeeded
   */
  function settleWaiting(sent: ReadonlyMap<string, OffsetToCommit>, error: unknown): void {
    const isInCommit = ({ offset }: Waiting) => sent.get(keyOf(offset)) === offset;
    const settled = waiting.filter(isInCommit);
    waiting = waiting.filter((each) => !isInCommit(each));
    for (const { resolve, reject } of settled) {
      if (error === null) resolve();
      else reject(error);
    }
  }

  async function commitPending(): Promise<void> {
    while (pending.size > 0) {
      const sent = pending;
      const begunIn = generation;
      pending = new Map();
      let waitMs = COMMIT_INTERVAL_MS;
      try {
        await source.commit([...sent.values()]);
        lastError = null;
        settleWaiting(sent, null);
      } catch (error) {
        // While Kafka refuses one partition, a commit may fail once a second: the same error is logged once.
        if (lastError !== messageOf(error)) logger.warn({ error: messageOf(error) }, 'offset commit failed');
        lastError = messageOf(error);
        if (generation === begunIn) pending = new Map([...sent, ...pending]);
        settleWaiting(sent, error);
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
    pending.set(keyOf(offset), offset);
    void run();
  }

  return {
    enqueueCommit,
    commitNow(offset) {
      enqueueCommit(offset);
      return new Promise((resolve, reject) => waiting.push({ offset, resolve, reject }));
    },
    discardPending() {
      generation++;
      pending = new Map();
      for (const { reject } of waiting.splice(0)) reject(new Error('the group has rebalanced'));
    },
    async flush() {
      flushing.abort();
      await run();
    },
  };
}
