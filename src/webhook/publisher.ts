/**
 * Publishes the verdicts on the webhook's events in the order in which they were decided, before the requests
 * are answered (docs/rules.md, S7). It retries until it succeeds, as a partition does. The verdicts are
 * already stored: if the events were decided again, they would be duplicates.
 */
import type { Logger } from 'pino';
import type { WebhookRequest } from '../intake/delivery';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { PublishedAnswer, PublishVerdicts } from '../publishing/published-answer';

interface Unpublished {
  readonly answers: readonly PublishedAnswer[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export interface Publishing {
  /** Whether the last attempt reject. No more requests may be decided until an attempt succeeds. */
  isBlocked(): boolean;
  /**
   * Resolves once the answers are published. Waiting answers are published in one batch. Rejects after
   * `ended`.
   */
  publish(origin: WebhookRequest, answers: readonly PublishedAnswer[]): Promise<void>;
}

export interface PublishingDeps {
  readonly publishVerdicts: PublishVerdicts<WebhookRequest>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called after each failure. */
  readonly onFailure: () => void;
  readonly ended: AbortSignal;
}

export function makePublishing({
  publishVerdicts,
  clock,
  logger,
  onFailure,
  ended,
}: PublishingDeps): Publishing {
  let waiting: Unpublished[] = [];
  let isRunning = false;
  let failures = 0;

  async function publishWithRetries(
    origin: WebhookRequest,
    answers: readonly PublishedAnswer[],
  ): Promise<void> {
    for (;;) {
      try {
        await publishVerdicts(origin, answers);
        failures = 0;
        return;
      } catch (error) {
        if (ended.aborted) throw error;
        const waitMs = backoffMs(++failures);
        onFailure();
        logger.warn({ failures, waitMs, error: messageOf(error) }, 'cannot publish verdicts, retrying');
        await clock.sleep(waitMs, ended);
        if (ended.aborted) throw error;
      }
    }
  }

  async function run(origin: WebhookRequest): Promise<void> {
    isRunning = true;
    while (waiting.length > 0) {
      const together = waiting;
      waiting = [];
      try {
        // A message does not name its request, so one origin serves for all.
        await publishWithRetries(
          origin,
          together.flatMap(({ answers }) => answers),
        );
        for (const { resolve } of together) resolve();
      } catch (error) {
        for (const { reject } of together) reject(error);
      }
    }
    isRunning = false;
  }

  return {
    isBlocked: () => failures > 0,
    publish: (origin, answers) =>
      new Promise((resolve, reject) => {
        waiting.push({ answers, resolve, reject });
        if (!isRunning) void run(origin);
      }),
  };
}
