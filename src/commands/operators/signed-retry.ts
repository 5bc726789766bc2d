/** Sends a signed request until the webhook answers it, for the commands that are clients of the webhook. */
import { randomUUID } from 'node:crypto';
import { backoffMs } from '../../lib/backoff';
import { systemClock } from '../../lib/clock';
import type { NotAnswered } from '../../webhook/client';

export interface AttemptReports {
  readonly refused: (because: string) => void;
  readonly retried: (because: string, seconds: number) => void;
}

/**
 * @param attempt sends the request with this id, which all attempts share
 * @returns null if the request is refused, or on a stop signal
 */
export async function untilAnswered<A extends { readonly type: string }>(
  attempt: (id: string) => Promise<A | NotAnswered>,
  reports: AttemptReports,
  stop: AbortSignal,
): Promise<A | null> {
  const id = `msg_${randomUUID()}`;
  for (let failures = 1; ; failures++) {
    const answer = await attempt(id);
    if (isUsable(answer)) return answer;
    if (stop.aborted) return null;
    if (answer.type === 'refused') {
      reports.refused(answer.because);
      return null;
    }
    // The answer sets the shortest wait. The backoff makes it longer while the webhook stays unreachable.
    const waitMs = Math.max(answer.waitMs, backoffMs(failures));
    reports.retried(answer.because, waitMs / 1000);
    await systemClock.sleep(waitMs, stop);
    if (stop.aborted) return null;
  }
}

function isUsable<A extends { readonly type: string }>(answer: A | NotAnswered): answer is A {
  return answer.type !== 'later' && answer.type !== 'refused';
}
