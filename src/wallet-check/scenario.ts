/**
 * A small language for scenarios: calls in order or together, connections that break, and the effects that
 * must follow. A scenario is data. It names operations, rounds and players by words of its own; the runner
 * gives them ids that no wallet has seen.
 */
import type { WalletAction } from '../contract/actions';
import type { ErrorCode } from '../contract/error-codes';
import type { PlayerKind, WalletProfile } from '../wallet/profile';
import { type PayloadPlace, placesOf } from '../wallet/template';

/** Minor units. `all`: the player's balance. `more_than_all`: one more. `overflow`: 2^63, too large. */
export type ScenarioAmount = bigint | 'all' | 'more_than_all' | 'overflow';

/** Where the kit breaks the connection. */
export type Cut = 'half_request' | 'after_request' | 'at_reply';

/** The answers that a call may get. */
export type Expectation =
  | { readonly type: 'ok' }
  /** One of the codes, as a refusal. */
  | { readonly type: 'refused'; readonly codes: readonly ErrorCode[] }
  | { readonly type: 'ok_or_refused'; readonly codes: readonly ErrorCode[] }
  /** Any answer of the contract except a success. A reply without the envelope is fine here. */
  | { readonly type: 'not_ok' }
  /** Any answer that the contract allows, but none of the codes. */
  | { readonly type: 'never'; readonly codes: readonly ErrorCode[] }
  /** The connection is cut, so there is nothing to read. */
  | { readonly type: 'unread' };

export interface Call {
  readonly action: WalletAction;
  /** Calls with the same word have the same op_id. */
  readonly op: string;
  readonly player?: PlayerKind;
  readonly amount?: ScenarioAmount;
  readonly win?: ScenarioAmount;
  readonly round?: string;
  /** The word of the operation that a rollback, a credit or a reconcile refers to. */
  readonly original?: string;
  readonly currency?: string;
  /** Added to the exponent of the player's currency. */
  readonly exponentOff?: number;
  /** Places whose fields are left out. */
  readonly without?: readonly PayloadPlace[];
  /** Gives the enum field of the profile an unknown word. */
  readonly unknownEnum?: true;
  readonly unknownFields?: true;
  readonly body?: 'not_json';
  /** Signs the request with another secret. */
  readonly wrongSignature?: true;
  /** Comes on a connection that no earlier call used. */
  readonly newConnection?: true;
  readonly cut?: Cut;
  /** Calls the path of an action that the wallet does not implement. */
  readonly unsupported?: true;
  readonly expect: Expectation;
}

export type Step =
  | { readonly type: 'call'; readonly call: Call }
  /** All at once, each on a connection of its own. */
  | { readonly type: 'together'; readonly calls: readonly Call[]; readonly accepted?: number }
  /** The answer to each call of the operation so far is the same. */
  | { readonly type: 'one_answer'; readonly op: string }
  /** The player's balance differs this much from the balance at the start of the scenario. */
  | { readonly type: 'balance'; readonly change: bigint; readonly player?: PlayerKind }
  | { readonly type: 'balance_among'; readonly changes: readonly bigint[]; readonly player?: PlayerKind }
  /** Sends calls one after the other, and compares their times with the limits of the contract. */
  | { readonly type: 'latency'; readonly calls: readonly Call[] };

export interface Scenario {
  readonly id: string;
  /** The sections of docs/contract.md. */
  readonly rule: string;
  /** One sentence: the behaviour that must hold. */
  readonly must: string;
  readonly steps: readonly Step[];
}

// --- words for the lists of scenarios

export const ok: Expectation = { type: 'ok' };
export const unread: Expectation = { type: 'unread' };
export const refused = (...codes: readonly ErrorCode[]): Expectation => ({ type: 'refused', codes });

type Details = Omit<Call, 'action' | 'op' | 'expect'>;

export const call = (
  action: WalletAction,
  op: string,
  expect: Expectation = ok,
  details: Details = {},
): Call => ({ action, op, expect, ...details });

export const STAKE = 100n;

export const debit = (op: string, expect: Expectation = ok, details: Details = {}): Call =>
  call('debit', op, expect, { amount: STAKE, round: 'round', ...details });

export const credit = (op: string, expect: Expectation = ok, details: Details = {}): Call =>
  call('credit', op, expect, { amount: STAKE, round: 'round', ...details });

export const rollback = (
  op: string,
  original: string,
  expect: Expectation = ok,
  details: Details = {},
): Call => call('rollback', op, expect, { amount: STAKE, round: 'round', original, ...details });

export const sendOne = (one: Call): Step => ({ type: 'call', call: one });

/** The same call several times at once. */
export const times = (count: number, one: Call): Step => ({
  type: 'together',
  calls: Array(count).fill(one),
});

export const oneAnswer = (op: string): Step => ({ type: 'one_answer', op });

export const moved = (change: bigint, player: PlayerKind = 'usual'): Step => ({
  type: 'balance',
  change,
  player,
});

// --- the needs of a scenario: without them it is not run, and the report says why

export function callsOf({ steps }: Scenario): Call[] {
  return steps.flatMap((step) => {
    if (step.type === 'call') return [step.call];
    return step.type === 'together' || step.type === 'latency' ? step.calls : [];
  });
}

function playersOf(scenario: Scenario): Set<PlayerKind> {
  return new Set([
    ...callsOf(scenario).map(({ player = 'usual' }) => player),
    ...scenario.steps.flatMap((step) =>
      step.type === 'balance' || step.type === 'balance_among' ? [step.player ?? 'usual'] : [],
    ),
  ]);
}

/** The first need that the profile lacks; undefined where it has everything. */
export function missingFor(scenario: Scenario, profile: WalletProfile): string | undefined {
  for (const kind of playersOf(scenario)) {
    if (kind !== 'unknown' && !profile.players.has(kind)) return `the profile has no player "${kind}"`;
  }
  for (const call of callsOf(scenario)) {
    const missing = missingForCall(call, profile);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function missingForCall(call: Call, profile: WalletProfile): string | undefined {
  if (call.unsupported) return undefined;
  const action = profile.actions.get(call.action);
  if (action === undefined) return `the profile has no action "${call.action}"`;
  const places = placesOf(action.payload);
  const place = neededPlaces(call).find((needed) => !places.has(needed));
  if (place !== undefined) return `the payload of "${call.action}" has no {{${place}}}`;
  if (call.unknownEnum && action.enumField === null) return `"${call.action}" has no enum_field`;
  if (call.wrongSignature && profile.signing === null) return 'the profile has no signing';
  return undefined;
}

function neededPlaces({ action, original, currency, exponentOff, without = [], win }: Call): PayloadPlace[] {
  return [
    ...without,
    ...(original !== undefined && action === 'credit' ? (['original'] as const) : []),
    ...(currency === undefined ? [] : (['currency'] as const)),
    ...(exponentOff === undefined ? [] : (['exponent'] as const)),
    ...(win === undefined ? [] : (['win'] as const)),
  ];
}
