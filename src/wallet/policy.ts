/**
 * The step that follows a wallet call: a pure function of the action, the attempts so far, and the time. All
 * attempts of a call have the same op_id and content, so a wallet answers them alike.
 *
 * A bet that stays without an answer is rolled back, since its player waits. A call that settles is resent
 * for 72 h, and then reconciled. A call without an effect is given up.
 */
import { WALLET_ACTIONS, type WalletAction } from '../contract/actions';
import { LIMITS } from '../contract/limits';
import type { WalletAnswer } from './answer';

/** One attempt, with times in milliseconds since 1970. */
export interface WalletAttempt {
  readonly sentAt: number;
  /** When the answer was there, or was given up. */
  readonly endedAt: number;
  readonly answer: WalletAnswer;
}

/** A call as the policy sees it. */
export interface PolicyCall {
  readonly action: WalletAction;
  /**
   * From 0 to 1, the same for all attempts of the call. It shortens each wait by up to half, so that the
   * calls of an outage do not come back at once.
   */
  readonly spread?: number;
}

export type WalletStep =
  /** Send the call at this time. A time that has passed means now. */
  | { readonly type: 'send'; readonly at: number }
  /** The call is over. `answer` is the final one. */
  | { readonly type: 'done'; readonly answer: FinalAnswer }
  /** Give the bet up: send a rollback of it, as a call of its own. */
  | { readonly type: 'roll_back' }
  /** Ask the wallet at this time for the state of the call, by a reconcile of its own. */
  | { readonly type: 'reconcile'; readonly at: number }
  /** Nothing is uncertain, and no attempt is left. */
  | { readonly type: 'give_up' }
  /** The wallet did not resolve the call by a reconcile either. People have to. */
  | { readonly type: 'unresolved' };

/** The numbers of the policy. Only the time of resending is the contract's; the others are ours. */
export interface PolicyTerms {
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** The longest wait that a wallet may ask for by Retry-After. */
  readonly longestRetryAfterMs: number;
  /** The attempts of a bet and of a call without an effect, and the time in which they may begin. */
  readonly briefAttempts: number;
  readonly briefMs: number;
  readonly resendMs: number;
}

const MS_PER_HOUR = 3_600_000;

export const POLICY_TERMS: PolicyTerms = {
  firstWaitMs: 1_000,
  longestWaitMs: 60_000,
  longestRetryAfterMs: 300_000,
  briefAttempts: 3,
  briefMs: 20_000,
  resendMs: LIMITS.wallet_resend.value * MS_PER_HOUR,
};

/** The end of a call that never gets an answer. */
export type WalletEnding = 'roll_back' | 'reconcile' | 'give_up' | 'unresolved';

export function endingOf(action: WalletAction): WalletEnding {
  if (action === 'reconcile') return 'unresolved';
  const { isNewBet, hasEffect } = WALLET_ACTIONS[action];
  if (isNewBet) return 'roll_back';
  return hasEffect ? 'reconcile' : 'give_up';
}

/** The facts of all attempts that the policy reads. They fit a row of a table. */
export interface CallHistory {
  /** 1 or more. */
  readonly attempts: number;
  readonly firstSentAt: number;
  readonly last: WalletAttempt;
  /** Whether an attempt before the last one may have taken effect. */
  readonly isUncertain: boolean;
}

/** @param history null before the first attempt. An attempt after a final answer changes nothing */
export function addAttempt(history: CallHistory | null, attempt: WalletAttempt): CallHistory {
  if (history === null)
    return { attempts: 1, firstSentAt: attempt.sentAt, last: attempt, isUncertain: false };
  const { attempts, firstSentAt, last } = history;
  if (isFinal(last.answer)) return history;
  const isUncertain = history.isUncertain || mayHaveEffect(last.answer);
  return { attempts: attempts + 1, firstSentAt, last: attempt, isUncertain };
}

/** @param history null before the first attempt. @param now milliseconds since 1970 */
export function stepAfter(
  call: PolicyCall,
  history: CallHistory | null,
  now: number,
  terms: PolicyTerms = POLICY_TERMS,
): WalletStep {
  if (history === null) return { type: 'send', at: now };
  const { attempts, firstSentAt, last } = history;
  if (isFinal(last.answer)) return finalStep(call.action, last.answer, history.isUncertain);
  const ending = endingOf(call.action);
  const due = last.endedAt + waitMs(call, attempts, last.answer, terms);
  if (ending === 'reconcile' || ending === 'unresolved') {
    const end = firstSentAt + terms.resendMs;
    if (now < end && due < end) return { type: 'send', at: due };
    return ending === 'reconcile' ? { type: 'reconcile', at: end } : { type: ending };
  }
  const end = firstSentAt + terms.briefMs;
  if (attempts < terms.briefAttempts && now <= end && due <= end) return { type: 'send', at: due };
  return { type: ending };
}

type FinalAnswer = Extract<WalletAnswer, { type: 'ok' | 'refused' }>;

function isFinal(answer: WalletAnswer): answer is FinalAnswer {
  return answer.type === 'ok' || answer.type === 'refused';
}

function finalStep(action: WalletAction, answer: FinalAnswer, isUncertain: boolean): WalletStep {
  if (answer.type === 'ok') return { type: 'done', answer };
  // A refused reconcile leaves its question open.
  if (action === 'reconcile') return { type: 'unresolved' };
  // A wallet may have taken the stake on an earlier attempt, and refuse the retry as its session has expired.
  if (WALLET_ACTIONS[action].isNewBet && isUncertain) return { type: 'roll_back' };
  return { type: 'done', answer };
}

/** Whether the call may have taken effect. A wallet that limits calls, or is down, has not begun it. */
function mayHaveEffect(answer: WalletAnswer): boolean {
  return answer.type === 'no_answer' || (answer.type === 'retry' && answer.code === 'ERROR_CODE_INTERNAL');
}

function waitMs(
  { spread = 0 }: PolicyCall,
  failures: number,
  answer: WalletAnswer,
  terms: PolicyTerms,
): number {
  // 2^30 waits exceed every longest wait. A larger exponent would only risk an infinite number.
  const backoff = Math.min(terms.longestWaitMs, terms.firstWaitMs * 2 ** Math.min(failures - 1, 30));
  const requestedMs = answer.type === 'retry' || answer.type === 'no_answer' ? answer.retryAfterMs : null;
  const share = Math.min(1, Math.max(0, spread));
  return Math.max(backoff * (1 - share / 2), Math.min(requestedMs ?? 0, terms.longestRetryAfterMs));
}
