/** The loop of a process that folds: steps until a signal, waits between them, and the log. */
import type { Logger } from 'pino';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { StoreError } from '../postgres/errors';
import type { Fold, Stepped } from './fold';
import { CursorBeyondStore } from './plan';

export interface FoldLoop {
  readonly fold: Pick<Fold, 'step'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From the begin of a slice that left nothing to do to the next step. The slice may take longer. */
  readonly intervalMs: number;
  /** Called after each step, and after each failure without an argument. */
  readonly observe: (stepped?: Stepped) => void;
}

/** A batch that is open for long holds the horizon back: the next step waits for it again. */
const isHorizonHeld = (error: unknown): boolean => error instanceof StoreError && error.sqlState === '55P03';

export async function runFold(
  { fold, clock, logger, intervalMs, observe }: FoldLoop,
  stop: AbortSignal,
): Promise<void> {
  let failures = 0;
  let isStandby: boolean | null = null;
  let givesWay = false;
  let heldBy: number | null = null;
  while (!stop.aborted) {
    let waitMs = 0;
    try {
      const stepped = await fold.step();
      if (failures > 0) logger.info({ failures }, 'folding again');
      failures = 0;
      observe(stepped);
      const isWaiting = stepped.kind === 'standby';
      const holder = isWaiting ? stepped.heldBy : null;
      if (holder !== null && holder !== heldBy)
        logger.warn({ pid: holder }, 'an open transaction holds the fold, waiting');
      heldBy = holder;
      // Where a transaction holds the row for a moment, the process that folds stays the same.
      if (isWaiting !== isStandby && (!isWaiting || stepped.isLeased || holder !== null)) {
        isStandby = isWaiting;
        if (!isWaiting) logger.info('this process folds');
        else if (holder === null) logger.info('another process folds, waiting');
      }
      report(stepped, logger);
      if (stepped.kind === 'slice' && stepped.restMs > 0 !== givesWay) {
        givesWay = !givesWay;
        logger.info(
          givesWay ? 'events wait long in Kafka, giving way to the intake' : 'folding at full speed',
        );
      }
      waitMs = waitAfter(stepped, intervalMs);
    } catch (error) {
      failures++;
      observe();
      waitMs = backoffMs(failures);
      const fields = { failures, waitMs, error: messageOf(error) };
      if (error instanceof CursorBeyondStore) logger.error(fields, 'the store lost verdicts that are folded');
      else if (isHorizonHeld(error)) logger.warn(fields, 'a batch is open for long, retrying');
      else logger.warn(fields, 'cannot fold, retrying');
    }
    if (waitMs > 0) await clock.sleep(waitMs, stop);
  }
}

function report(stepped: Stepped, logger: Logger): void {
  switch (stepped.kind) {
    case 'begin':
      logger.info({ generation: stepped.generation, reason: stepped.reason }, 'generation began');
      break;
    case 'give up':
      logger.warn({ generation: stepped.generation }, 'generation given up: its store has changed');
      break;
    case 'slice': {
      const { of, upTo, rows, ms, shows, isOnAnotherServer } = stepped;
      if (isOnAnotherServer)
        logger.warn({ generation: of.generation }, 'another server has the store, folding on');
      logger.debug({ generation: of.generation, upTo, rows, ms: Math.round(ms) }, 'slice folded');
      if (shows) logger.info({ generation: of.generation }, 'generation shown');
      break;
    }
    default:
      break;
  }
}

function waitAfter(stepped: Stepped, intervalMs: number): number {
  switch (stepped.kind) {
    case 'standby':
    case 'idle':
      return intervalMs;
    case 'slice':
      return Math.max(stepped.restMs, stepped.isCaughtUp && !stepped.isFilling ? intervalMs - stepped.ms : 0);
    default:
      return 0;
  }
}
