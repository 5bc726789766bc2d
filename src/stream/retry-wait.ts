/** How long an undecided partition waits, and what is told of it meanwhile (docs/rules.md, U2). */

import { backoffMs } from '../lib/backoff';
import { messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { UndecidedCause } from '../telemetry/metrics';
import type { StreamDeps } from './deps';

/** A partition that waits. */
export interface UndecidedPartition extends TopicPartition {
  /** Milliseconds since its first failure. */
  readonly sinceMs: number;
  readonly failures: number;
  /** What the last one said. */
  readonly because: string;
  readonly cause: UndecidedCause;
}

export class RetryWait {
  /** Failures since something of the partition was last decided. */
  private failing: { since: number; failures: number; error: unknown; cause: UndecidedCause } | null = null;

  constructor(
    private readonly partition: TopicPartition,
    private readonly deps: Pick<StreamDeps, 'clock' | 'logger' | 'metrics'>,
  ) {}

  /** Null where the partition is decided. */
  get state(): UndecidedPartition | null {
    if (this.failing === null) return null;
    const { since, failures, error, cause } = this.failing;
    return {
      ...this.partition,
      sinceMs: this.deps.clock.now() - since,
      failures,
      because: messageOf(error),
      cause,
    };
  }

  /** Waits 1, 2, 4 ... 30 s. @param ended cuts the wait short: shutdown, or the partition is lost */
  async afterFailure(error: unknown, cause: UndecidedCause, ended: AbortSignal): Promise<void> {
    const { clock, logger, metrics } = this.deps;
    if (ended.aborted) return;
    const { since = clock.now(), failures: before = 0 } = this.failing ?? {};
    const failures = before + 1;
    this.setFailing({ since, failures, error, cause });
    metrics.retries.inc({ class: 'undecided' });
    const waitMs = backoffMs(failures);
    logger.warn({ ...this.partition, failures, waitMs, error: messageOf(error) }, 'partition is undecided');
    await clock.sleep(waitMs, ended);
  }

  /** Something of the partition is decided: the next failure waits 1 s again. */
  onDecided(): void {
    if (this.failing === null) return;
    const { failures } = this.failing;
    this.deps.logger.info({ ...this.partition, failures }, 'partition is no longer undecided');
    this.setFailing(null);
  }

  /** The partition is given up. */
  clear(): void {
    this.setFailing(null);
  }

  private setFailing(failing: typeof this.failing): void {
    const { undecidedPartitions, pausedPartitions } = this.deps.metrics;
    const { topic } = this.partition;
    if (this.failing !== null) undecidedPartitions.dec();
    if (this.failing?.cause === 'limit') pausedPartitions.dec({ topic });
    if (failing !== null) undecidedPartitions.inc();
    if (failing?.cause === 'limit') pausedPartitions.inc({ topic });
    this.failing = failing;
  }
}
