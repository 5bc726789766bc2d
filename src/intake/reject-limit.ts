/**
 * The limit on rejected events. After a bad deploy of schemas or of reference data, a topic is paused instead
 * of rejected to its end (docs/rules.md, U7, U8). Each worker counts for itself, in memory.
 */

import type { Logger } from 'pino';
import { isSameVersion, type Reference, type ReferenceVersion } from '../domain/reference';
import type { Decision } from '../domain/verdict/decide';
import { Undecided } from '../ledger/failures';
import { counted } from '../lib/printable';

export interface RejectThreshold {
  /** A topic is paused above this percentage of rejected events. */
  readonly percent: number;
  /**
   * The number of a topic's last events in the window. The window has more where its oldest batch would be
   * split.
   */
  readonly windowEvents: number;
  /** Fewer events than this never pause a topic. */
  readonly minEvents: number;
}

/** Events that were answered for the first time, and the number of them that were rejected. */
export interface Tally {
  readonly events: number;
  readonly rejected: number;
}

/** The cause of a pause: the counts that the topic's last events would have reached. */
export interface Pause extends Tally {
  /** The number of rejected events by reason, in the batch that exceeded the limit. */
  readonly reasons: Readonly<Record<string, number>>;
  /** The reference data that judged the events. */
  readonly judgedBy: ReferenceVersion;
}

/** The topic is paused: none of its records is decided. */
export class TopicPaused extends Undecided {
  override readonly name: string = 'TopicPaused';
}

export interface RejectLimit {
  isPaused(topic: string): boolean;
  /**
   * Resumes a topic that was paused under other reference data. @throws TopicPaused where it remains paused
   */
  admit(topic: string, reference: ReferenceVersion): void;
  /**
   * Checks a batch before its commit.
   *
   * @returns a function that counts the batch once it has ended
   * @throws TopicPaused where the batch must not be committed
   */
  check(
    topic: string,
    reference: ReferenceVersion & Partial<Pick<Reference, 'connections'>>,
    decisions: readonly Decision[],
  ): Checked;
}

/** Called at the end of a batch that was checked. */
export type Checked = (isCommitted: boolean) => void;

export function makeRejectLimit(threshold: RejectThreshold, logger: Logger): RejectLimit {
  const { percent, windowEvents, minEvents } = threshold;
  const windows = new Map<string, readonly Tally[]>();
  const pauses = new Map<string, Pause>();

  function refuseWhilePaused(topic: string, reference: ReferenceVersion): void {
    const pause = pauses.get(topic);
    if (pause !== undefined && isSameVersion(pause.judgedBy, reference))
      throw new TopicPaused(
        `topic ${topic} is paused: ${describePause(pause)}. Apply corrected reference data. Or correct the registry or the producer, and restart the workers.`,
      );
  }

  return {
    isPaused: (topic) => pauses.has(topic),
    admit(topic, reference) {
      refuseWhilePaused(topic, reference);
      if (pauses.delete(topic))
        logger.info({ topic, referenceVersion: reference.version }, 'topic is no longer paused');
    },
    check(topic, reference, decisions) {
      // Another partition of the topic may have exceeded the limit meanwhile.
      refuseWhilePaused(topic, reference);
      const tally = tallyOf(decisions);
      const slid = () => slide(windows.get(topic) ?? [], tally, windowEvents);
      const window = slid();
      // A batch within the limit does no harm. Other batches may have caused the excess, or good batches may
      // have left the window.
      if (isBeyond(window, threshold) && !isWithin(tally, threshold)) {
        const counted = { ...sumOf(window), reasons: reasonsOf(decisions) };
        pauses.set(topic, { ...counted, judgedBy: reference });
        logger.error(
          { topic, percent, windowEvents, minEvents, ...counted, referenceVersion: reference.version },
          'topic is paused: too many of its events would be rejected',
        );
        refuseWhilePaused(topic, reference);
      }
      return (isCommitted) => {
        if (isCommitted) windows.set(topic, slid());
      };
    },
  };
}

function describePause({ events, rejected, reasons }: Pause): string {
  const most = Object.entries(reasons).sort(([, a], [, b]) => b - a)[0]?.[0];
  return `${rejected} of its last ${counted(events, 'event')} would be rejected, most of them as ${most}`;
}

/**
 * The counts of a batch. Duplicates and redelivered records were answered before. An event without a verdict
 * counts as rejected.
 */
export function tallyOf(decisions: readonly Decision[]): Tally {
  let events = 0;
  let rejected = 0;
  for (const decision of decisions) {
    if (decision.redelivered || decision.type === 'duplicate') continue;
    events++;
    if (rejectedFor(decision) !== null) rejected++;
  }
  return { events, rejected };
}

export function reasonsOf(decisions: readonly Decision[]): Record<string, number> {
  const reasons: Record<string, number> = {};
  for (const decision of decisions) {
    const reason = rejectedFor(decision);
    if (reason !== null) reasons[reason] = (reasons[reason] ?? 0) + 1;
  }
  return reasons;
}

function rejectedFor(decision: Decision): string | null {
  if (decision.redelivered || decision.type === 'duplicate') return null;
  if (decision.type === 'unstored') return decision.deadLetter ?? 'no_idempotency_key';
  return decision.outcome.verdict === 'rejected' ? decision.outcome.reason : null;
}

/**
 * Small batches are merged, so that a window has at most twice this number of parts: each batch sums up the
 * window.
 */
const WINDOW_PARTS = 1_000;

/** The fewest last batches that together hold `windowEvents` events. */
export function slide(batches: readonly Tally[], batch: Tally, windowEvents: number): readonly Tally[] {
  if (batch.events === 0) return batches;
  const last = batches.at(-1);
  const isPart = last !== undefined && (last.events + batch.events) * WINDOW_PARTS <= windowEvents;
  const window = isPart ? [...batches.slice(0, -1), sumOf([last, batch])] : [...batches, batch];
  let { events } = sumOf(window);
  while (window[0] !== undefined && events - window[0].events >= windowEvents) {
    events -= window[0].events;
    window.shift();
  }
  return window;
}

export function isWithin(
  { events, rejected }: Tally,
  { percent }: Pick<RejectThreshold, 'percent'>,
): boolean {
  return rejected * 100 <= events * percent;
}

export function isBeyond(window: readonly Tally[], { percent, minEvents }: RejectThreshold): boolean {
  const { events, rejected } = sumOf(window);
  return events >= minEvents && !isWithin({ events, rejected }, { percent });
}

export function sumOf(window: readonly Tally[]): Tally {
  let events = 0;
  let rejected = 0;
  for (const batch of window) {
    events += batch.events;
    rejected += batch.rejected;
  }
  return { events, rejected };
}
