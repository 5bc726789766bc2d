/**
 * Publishes verdicts on what came by the webhook, in the order in which they were decided, before they are answered (docs/rules.md, S7). Tries until it
 * succeeds, as a partition does: the verdicts are stored, and decided again their events would be duplicates.
 */
import type { Logger } from 'pino';
import type { WebhookRequest } from '../intake/delivery';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { PublishedAnswer, PublishVerdicts } from '../publishing/published-answer';

interface Unpublished {
  readonly answers: readonly PublishedAnswer[];
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

export interface Publishing {
  /** Whether the topic refuses now: nothing more is to be decided until it does not. */
  isHeldUp(): boolean;
  /** Resolves once they are published. What waits meanwhile is published together. @throws once it is ended */
  publish(origin: WebhookRequest, answers: readonly PublishedAnswer[]): Promise<void>;
}

export interface PublishingDeps {
  readonly publishVerdicts: PublishVerdicts<WebhookRequest>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Told of each failure. */
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

  async function untilPublished(origin: WebhookRequest, answers: readonly PublishedAnswer[]): Promise<void> {
    for (;;) {
      try {
        await publishVerdicts(origin, answers);
        failures = 0;
        return;
      } catch (error) {
        if (ended.aborted) throw error;
        const waitMs = backoffMs(++failures);
        onFailure();
        logger.warn({ failures, waitMs, error: messageOf(error) }, 'verdicts are not published');
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
        // A message says nothing of the request that it is about.
        await untilPublished(
          origin,
          together.flatMap(({ answers }) => answers),
        );
        for (const { done } of together) done();
      } catch (error) {
        for (const { failed } of together) failed(error);
      }
    }
    isRunning = false;
  }

  return {
    isHeldUp: () => failures > 0,
    publish: (origin, answers) =>
      new Promise((done, failed) => {
        waiting.push({ answers, done, failed });
        if (!isRunning) void run(origin);
      }),
  };
}
