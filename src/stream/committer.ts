/** Offset commits: how far partitions are decided, told to the group after the transactions that decided (docs/rules.md, U1). */

import type { Progress } from '../kafka/port';
import { messageOf } from '../lib/errors';
import { keyOf } from '../lib/topic-partition';
import type { StreamDeps } from './deps';

/**
 * Wait between two commits: each costs the worker and the broker as much as a small batch does. What was decided meanwhile is read again
 * where the group moves on, and recognized.
 */
const COMMIT_INTERVAL_MS = 100;
/** The same after a commit that failed. */
const COMMIT_RETRY_MS = 1_000;

export interface Committer {
  enqueueCommit(progress: Progress): void;
  /** Fulfils once that is committed; nothing else may be decided of the partition meanwhile. @throws where Kafka does not take it now, and where the group moves on first */
  commitNow(progress: Progress): Promise<void>;
  /** Drops what is not committed yet: the group has moved on. */
  discardPending(): void;
  /** Resolves when everything decided is committed, or a commit failed. */
  flush(): Promise<void>;
}

interface Waiting {
  readonly progress: Progress;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Commits how far partitions are decided: one commit at a time, each with everything that has been decided meanwhile. */
export function makeCommitter({
  source,
  clock,
  logger,
}: Pick<StreamDeps, 'source' | 'clock' | 'logger'>): Committer {
  let pending = new Map<string, Progress>();
  let waiting: Waiting[] = [];
  let generation = 0;
  let committing: Promise<void> | null = null;
  const flushing = new AbortController();
  /** What was said of the last commit; null where it succeeded. */
  let lastError: string | null = null;

  /** Tells those who wait for it what came of a commit. @param error null where it succeeded */
  function settleWaiting(sent: ReadonlyMap<string, Progress>, error: unknown): void {
    const isOfIt = ({ progress }: Waiting) => sent.get(keyOf(progress)) === progress;
    const settled = waiting.filter(isOfIt);
    waiting = waiting.filter((each) => !isOfIt(each));
    for (const { resolve, reject } of settled) {
      if (error === null) resolve();
      else reject(error);
    }
  }

  async function commitPending(): Promise<void> {
    while (pending.size > 0) {
      const progress = pending;
      const begunIn = generation;
      pending = new Map();
      let waitMs = COMMIT_INTERVAL_MS;
      try {
        await source.commit([...progress.values()]);
        lastError = null;
        settleWaiting(progress, null);
      } catch (error) {
        // It may fail once a second for as long as one partition is refused.
        if (lastError !== messageOf(error)) logger.warn({ error: messageOf(error) }, 'offset commit failed');
        lastError = messageOf(error);
        if (generation === begunIn) pending = new Map([...progress, ...pending]);
        settleWaiting(progress, error);
        if (flushing.signal.aborted) break;
        waitMs = COMMIT_RETRY_MS;
      }
      await clock.sleep(waitMs, flushing.signal);
    }
    // In the same step in which nothing was left: what is decided from now on begins anew.
    committing = null;
  }

  function run(): Promise<void> {
    committing ??= Promise.resolve().then(commitPending);
    return committing;
  }

  function enqueueCommit(progress: Progress): void {
    pending.set(keyOf(progress), progress);
    void run();
  }

  return {
    enqueueCommit: enqueueCommit,
    commitNow(progress) {
      enqueueCommit(progress);
      return new Promise((resolve, reject) => waiting.push({ progress, resolve, reject }));
    },
    discardPending() {
      generation++;
      pending = new Map();
      for (const { reject } of waiting.splice(0)) reject(new Error('the group has moved on'));
    },
    async flush() {
      flushing.abort();
      await run();
    },
  };
}
