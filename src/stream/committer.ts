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
export class Committer {
  private next = new Commit();
  private generation = 0;
  private committing: Promise<void> | null = null;
  private readonly flushing = new AbortController();
  /** Message of the last commit's error; null where it succeeded. */
  private lastError: string | null = null;

  constructor(private readonly deps: Pick<StreamDeps, 'source' | 'clock' | 'logger'>) {}

  enqueueCommit(offset: OffsetToCommit): void {
    this.next.offsets.set(keyOf(offset), offset);
    void this.run();
  }

  /**
   * Resolves once the offset is committed. The caller decides no record of the partition meanwhile.
   *
   * @throws where Kafka does not accept the commit now, and where the group rebalances first
   */
  commitNow(offset: OffsetToCommit): Promise<void> {
    this.enqueueCommit(offset);
    return this.next.end.promise;
  }

  /** Drops offsets that are not committed yet: they belong to a generation before the rebalance. */
  discardPending(): void {
    this.generation++;
    this.next.end.reject(new Error('the group has rebalanced'));
    this.next = new Commit();
  }

  /** Resolves when all offsets are committed, or a commit failed. */
  async flush(): Promise<void> {
    this.flushing.abort();
    await this.run();
  }

  private run(): Promise<void> {
    this.committing ??= Promise.resolve().then(() => this.commitPending());
    return this.committing;
  }

  private async commitPending(): Promise<void> {
    while (this.next.offsets.size > 0) {
      const sent = this.next;
      this.next = new Commit();
      const isCommitted = await this.commit(sent, this.generation);
      if (!isCommitted && this.flushing.signal.aborted) break;
      await this.deps.clock.sleep(isCommitted ? COMMIT_INTERVAL_MS : COMMIT_RETRY_MS, this.flushing.signal);
    }
    // Synchronous with the check above, so that no offset is enqueued in between and left without a commit.
    this.committing = null;
  }

  private async commit(sent: Commit, begunIn: number): Promise<boolean> {
    const { source, logger } = this.deps;
    try {
      await source.commit([...sent.offsets.values()]);
      this.lastError = null;
      sent.end.resolve();
      return true;
    } catch (error) {
      // While Kafka refuses one partition, a commit may fail once a second: the same error is logged once.
      if (this.lastError !== messageOf(error))
        logger.warn({ error: messageOf(error) }, 'offset commit failed');
      this.lastError = messageOf(error);
      if (this.generation === begunIn) this.next.offsets = new Map([...sent.offsets, ...this.next.offsets]);
      sent.end.reject(error);
      return false;
    }
  }
}
