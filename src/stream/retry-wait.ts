/**
 * How long an undecided partition waits before it retries, with the log lines of the wait (docs/rules.md,
 * U2).
 */

import { backoffMs } from '../lib/backoff';
import { messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { UndecidedCause } from '../telemetry/metrics';
import type { StreamDeps } from './deps';

/** A partition that waits to retry. */
export interface UndecidedPartition extends TopicPartition {
  /** Milliseconds since its first failure. */
  readonly sinceMs: number;
  readonly failures: number;
  /** Message of the last failure. */
  readonly because: string;
  readonly cause: UndecidedCause;
}

export class RetryWait {
  /** The failures since a batch of the partition was last decided. */
  private failing: { since: number; failures: number; error: unknown; cause: UndecidedCause } | null = null;

  constructor(
    private readonly partition: TopicPartition,
    private readonly deps: Pick<StreamDeps, 'clock' | 'logger' | 'metrics'>,
  ) {}

  /** Null where the partition is not undecided. */
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

  /**
   * Waits 1, 2, 4 ... 30 s before the next retry.
   *
   * @param stopSignal ends the wait early: the worker stops, or the partition is revoked
   */
  async afterFailure(error: unknown, cause: UndecidedCause, stopSignal: AbortSignal): Promise<void> {
    const { clock, logger, metrics } = this.deps;
    if (stopSignal.aborted) return;
    const { since, failures: before } = this.failing ?? { since: clock.now(), failures: 0 };
    const failures = before + 1;
    this.failing = { since, failures, error, cause };
    metrics.retries.inc({ class: 'undecided' });
    const waitMs = backoffMs(failures);
    logger.warn(
      { ...this.partition, cause, failures, waitMs, error: messageOf(error) },
      'partition is undecided',
    );
    await clock.sleep(waitMs, stopSignal);
  }

  /**
   * Does the work again until it succeeds, with a wait after each failure.
   *
   * @throws the work's error where the signal stops the retries
   */
  async retry(work: () => Promise<void>, cause: UndecidedCause, stopSignal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (stopSignal.aborted) throw error;
        await this.afterFailure(error, cause, stopSignal);
      }
    }
  }

  /** A batch was decided, so the next failure waits 1 s again. */
  onDecided(): void {
    if (this.failing === null) return;
    const { failures } = this.failing;
    this.deps.logger.info({ ...this.partition, failures }, 'partition is no longer undecided');
    this.failing = null;
  }
}
