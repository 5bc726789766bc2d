/** The loops of a process that publishes completions, and their log. */
import type { Logger } from 'pino';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { CompletionPublisher, HeldBack, PublishedStep } from './publisher';

export interface PublishingLoops {
  readonly publisher: CompletionPublisher;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The wait after a step that left nothing to do. */
  readonly intervalMs: number;
  /** Called after each step of the first loop, and after each failure without an argument. */
  readonly observe: (step?: PublishedStep) => void;
}

/**
 * Publishes until the signal. Operators whose topic refuses have a loop of their own: a broker that does not
 * answer for one of them delays none of the others.
 */
export async function runPublishing(loops: PublishingLoops, stop: AbortSignal): Promise<void> {
  const { publisher, logger, observe } = loops;
  let isStandby: boolean | null = null;
  await Promise.all([
    repeat(loops, 'cannot publish completions, retrying', stop, async () => {
      const step = await publisher.step();
      observe(step);
      if ((step.kind === 'standby') !== isStandby) {
        isStandby = step.kind === 'standby';
        logger.info(
          isStandby ? 'another process publishes completions, waiting' : 'this process publishes completions',
        );
      }
      if (step.kind === 'standby') return false;
      report(step.heldBack, logger);
      if (step.messages > 0) logger.debug({ messages: step.messages }, 'completions published');
      return step.hasAdvanced;
    }),
    repeat(loops, 'cannot publish held back completions, retrying', stop, async () => {
      const { hasAdvanced, heldBack, caughtUp } = await publisher.stepBacklogs();
      report(heldBack, logger);
      for (const operator of caughtUp) logger.info({ operator }, 'completions are no longer held back');
      return hasAdvanced;
    }),
  ]);
}

/** @param failed the log message of a failure @param step returns whether there may be more to do at once */
async function repeat(
  { clock, logger, intervalMs, observe }: PublishingLoops,
  failed: string,
  stop: AbortSignal,
  step: () => Promise<boolean>,
): Promise<void> {
  let failures = 0;
  while (!stop.aborted) {
    let waitMs = 0;
    try {
      if (!(await step())) waitMs = intervalMs;
      if (failures > 0) logger.info({ failures }, 'publishing again');
      failures = 0;
    } catch (error) {
      failures++;
      observe();
      waitMs = backoffMs(failures);
      logger.warn({ failures, waitMs, error: messageOf(error) }, failed);
    }
    if (waitMs > 0) await clock.sleep(waitMs, stop);
  }
}

function report(heldBack: readonly HeldBack[], logger: Logger): void {
  for (const { operatorId: operator, topic, failures, waitMs, reason: error } of heldBack)
    logger.warn({ operator, topic, failures, waitMs, error }, 'completions are held back');
}
