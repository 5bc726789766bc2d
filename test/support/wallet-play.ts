/** Plays the attempts of a call to a wallet, until no attempt follows. */
import { isDeepStrictEqual } from 'node:util';
import type { WalletAction } from '../../src/contract/actions';
import type { WalletAnswer } from '../../src/wallet/answer';
import {
  addAttempt,
  type CallHistory,
  stepAfter,
  type WalletAttempt,
  type WalletStep,
} from '../../src/wallet/policy';

export const HOUR_MS = 3_600_000;
export const RESEND_MS = 72 * HOUR_MS;
export const START = Date.UTC(2026, 10, 21);

/** The conditions under which a call is played. */
export interface Play {
  readonly action: WalletAction;
  readonly spread?: number;
  /** The answer to each attempt, from 0, and its time in milliseconds. */
  readonly answer: (index: number) => readonly [WalletAnswer, number];
  /** How late the client looks after a step was due. */
  readonly late?: (index: number) => number;
}

export interface Played {
  readonly attempts: readonly WalletAttempt[];
  readonly end: Exclude<WalletStep, { type: 'send' }>;
  /** The virtual time at the end. */
  readonly endedAt: number;
}

/** Plays a call over a virtual clock, as a client would, until no attempt follows. */
export function play({ action, spread = 0, answer, late = () => 0 }: Play): Played {
  const attempts: WalletAttempt[] = [];
  let now = START;
  let history: CallHistory | null = null;
  for (;;) {
    const call = { action, spread };
    const step: WalletStep = stepAfter(call, history, now);
    if (step.type !== 'send') return { attempts, end: step, endedAt: now };
    // A client may ask at any time until the step is due: the step stays the same.
    const halfway = Math.floor((now + Math.max(now, step.at)) / 2);
    const meanwhile = stepAfter(call, history, halfway);
    // A call has thousands of attempts, so the slow comparison shows a difference alone.
    if (attempts.length > 0 && !isDeepStrictEqual(meanwhile, step)) expect(meanwhile).toEqual(step);
    now = Math.max(now, step.at) + late(attempts.length);
    const again = stepAfter(call, history, now);
    if (again.type !== 'send') return { attempts, end: again, endedAt: now };
    const [given, ms] = answer(attempts.length);
    const attempt = { sentAt: now, endedAt: now + ms, answer: given };
    attempts.push(attempt);
    history = addAttempt(history, attempt);
    now = attempt.endedAt;
  }
}

/** The time from the end of each attempt until the next one. */
export const waitsOf = (attempts: readonly WalletAttempt[]): number[] =>
  attempts.slice(1).map(({ sentAt }, index) => sentAt - (attempts[index]?.endedAt ?? 0));
