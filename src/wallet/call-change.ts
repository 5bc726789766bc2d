/** The change of a stored call after an attempt: its new state, and the call that follows it. Pure. */
import { createHash } from 'node:crypto';
import type { WalletAction } from '../contract/actions';
import {
  addAttempt,
  type CallHistory,
  POLICY_TERMS,
  type PolicyTerms,
  stepAfter,
  type WalletAttempt,
} from './policy';
import type { CallProfile } from './profile';
import { type CallValues, NEEDED_PLACES, PLAYER_VALUE, renderPayload } from './template';

/**
 * - open: an attempt is due, or in flight
 * - ok, refused: the final answer
 * - followed: a rollback or a reconcile took over
 * - given_up: no answer, and the call has no effect
 * - unresolved: people have to look at it
 * - closed: people have
 */
export const CALL_STATES = ['open', 'ok', 'refused', 'followed', 'given_up', 'unresolved', 'closed'] as const;
export type CallState = (typeof CALL_STATES)[number];

export interface StoredCall {
  readonly opId: string;
  readonly action: WalletAction;
  readonly values: CallValues;
  /** Null before the end of the first attempt. */
  readonly history: CallHistory | null;
}

/** A call as it is stored first. */
export interface NewCall {
  readonly opId: string;
  readonly action: WalletAction;
  readonly values: CallValues;
  /** JSON. */
  readonly payload: string;
  /** SHA-256 of the payload without the player. It stays for long, so it may confirm no guess of a player. */
  readonly contentHash: string;
}

export type MadeCall =
  | { readonly type: 'call'; readonly call: NewCall }
  /** All faults at once, with their remedies. */
  | { readonly type: 'malformed'; readonly faults: readonly string[] };

export function makeCall(
  { operatorId, actions }: CallProfile,
  { action, opId, values: given }: Pick<NewCall, 'action' | 'opId' | 'values'>,
): MadeCall {
  const template = actions.get(action)?.payload;
  if (template === undefined)
    return { type: 'malformed', faults: [`the profile of ${operatorId} has no ${action}: add it`] };
  const values: CallValues = { ...given, op_id: opId };
  const missing = (NEEDED_PLACES[action] ?? []).filter((place) => !Object.hasOwn(values, place));
  const rendered = renderPayload(template, values);
  const faults = missing.map((place) => `the payload needs the value ${place}, which the call does not have`);
  if (rendered.type === 'malformed') return { ...rendered, faults: [...faults, ...rendered.faults] };
  if (faults.length > 0) return { type: 'malformed', faults };
  const { json: payload } = rendered;
  const anonymous = renderPayload(template, { ...values, [PLAYER_VALUE]: '0' });
  const hashed = anonymous.type === 'malformed' ? payload : anonymous.json;
  const contentHash = createHash('sha256').update(hashed).digest('hex');
  return { type: 'call', call: { action, opId, values: given, payload, contentHash } };
}

export interface CallChange {
  readonly state: CallState;
  readonly history: CallHistory;
  /** Milliseconds since 1970. Of no meaning in a state other than open. */
  readonly dueAt: number;
  readonly following: (NewCall & { readonly dueAt: number }) | null;
}

/** @param now milliseconds since 1970, by the clock of the store, as all times of the history */
export function changeAfter(
  profile: CallProfile,
  call: StoredCall,
  attempt: WalletAttempt,
  now: number,
  terms: PolicyTerms = POLICY_TERMS,
): CallChange {
  return changeOf(profile, call, addAttempt(call.history, attempt), now, terms);
}

/**
 * The change of a call whose next attempt is due. Null: send it. A bet is not sent again when its time was
 * over before a process came to it.
 */
export function changeInstead(
  profile: CallProfile,
  call: StoredCall,
  now: number,
  terms: PolicyTerms = POLICY_TERMS,
): CallChange | null {
  if (call.history === null) return null;
  const change = changeOf(profile, call, call.history, now, terms);
  return change.state === 'open' ? null : change;
}

function changeOf(
  profile: CallProfile,
  call: StoredCall,
  history: CallHistory,
  now: number,
  terms: PolicyTerms,
): CallChange {
  const step = stepAfter({ action: call.action, spread: spreadOf(call.opId) }, history, now, terms);
  const ended = (state: CallState): CallChange => ({ state, history, dueAt: now, following: null });
  const followedBy = (action: 'rollback' | 'reconcile', dueAt: number): CallChange => {
    const following = followingCall(profile, call, action);
    // A wallet without the action leaves the call to people.
    if (following === null) return ended('unresolved');
    return { ...ended('followed'), following: { ...following, dueAt } };
  };
  switch (step.type) {
    case 'send':
      return { ...ended('open'), dueAt: step.at };
    case 'done':
      return ended(step.answer.type);
    case 'roll_back':
      return followedBy('rollback', now);
    case 'reconcile':
      return followedBy('reconcile', step.at);
    case 'give_up':
      return ended('given_up');
    case 'unresolved':
      return ended('unresolved');
  }
}

/** A share from 0 to 1, the same in every process. */
function spreadOf(opId: string): number {
  return createHash('sha256').update(opId).digest().readUInt32BE(0) / 2 ** 32;
}

function followingCall(
  profile: CallProfile,
  { opId, values }: StoredCall,
  action: 'rollback' | 'reconcile',
): NewCall | null {
  const made = makeCall(profile, {
    action,
    opId: `${opId}.${action}`,
    values: { ...values, original: opId },
  });
  return made.type === 'call' ? made.call : null;
}
