/**
 * The steps of a round: a pure function of its plan and of the states of its wallet calls. The ids of the
 * calls follow from the plan, so any process goes on where another one was killed.
 *
 * A round ends settled or refunded. A stake that is rolled back voids the round: all other stakes and wins
 * are rolled back, too. A round whose wallet took no stake is refused. Where a rollback stays unresolved,
 * people decide.
 */
import type { WalletAction } from '../contract/actions';
import { SPEC } from '../domain/event/event';
import { toMajor } from '../domain/event/money';
import type { CallState } from '../wallet/call-change';

/** A round as it is stored at its begin. Amounts are in minor units, as digits. */
export interface RoundPlan {
  readonly roundId: string;
  /** A random word in all ids of the round. A forgotten sandbox has other ids for the same round_id. */
  readonly key: string;
  readonly player: string;
  readonly token: string;
  readonly game: string;
  readonly brand: string | null;
  readonly currency: string;
  readonly scale: number;
  readonly bets: readonly string[];
  readonly wins: readonly string[];
  /** Whether the game gives the round up after its bets. */
  readonly isVoid: boolean;
  /** Whether the wallet has the action that closes a round. */
  readonly isClosed: boolean;
  /** Whether the wallet has the action that authenticates a session. The round begins with it. */
  readonly isAuthenticated: boolean;
  /** Whether the one bet and the one win are one call of the wallet. */
  readonly isAtomic: boolean;
  readonly occurredAt: string;
}

/** A stored call of the wallet. */
export interface RoundCall {
  readonly action: WalletAction;
  readonly state: CallState;
  /** The code or cause of its last answer. */
  readonly cause: string | null;
}

/** The calls that were begun, by op_id, with the rollbacks and reconciles that follow them. */
export type RoundCalls = ReadonlyMap<string, RoundCall>;

export const ROUND_STATES = ['playing', 'settled', 'refunded', 'refused', 'unresolved'] as const;
export type RoundState = (typeof ROUND_STATES)[number];

export type RoundStep =
  | { readonly type: 'call'; readonly call: PlannedCall }
  /** A call is open. */
  | { readonly type: 'wait' }
  | { readonly type: 'end'; readonly state: Exclude<RoundState, 'playing'> };

export interface PlannedCall {
  readonly action: 'authenticate' | 'debit' | 'debit_and_credit' | 'credit' | 'rollback' | 'close_round';
  readonly opId: string;
  /** In minor units, as digits. Null without an amount. */
  readonly amount: string | null;
  /** The win of an atomic call. */
  readonly win: string | null;
  /** The op_id of the call that this one refers to. */
  readonly original: string | null;
}

/** The outcome of a call for its round. `returned`: its money was moved and moved back, or never moved. */
type Outcome = 'missing' | 'open' | 'done' | 'refused' | 'returned' | 'unresolved';

export function nextOfRound(plan: RoundPlan, calls: RoundCalls): RoundStep {
  if (plan.isAuthenticated) {
    const call = callOf('authenticate', idOf(plan, 'session'));
    const outcome = outcomeOf(call.opId, calls);
    if (outcome === 'missing') return { type: 'call', call };
    if (outcome === 'open') return { type: 'wait' };
    if (outcome !== 'done') return { type: 'end', state: 'refused' };
  }
  const stakes = stakesOf(plan);
  for (const call of stakes) {
    const outcome = outcomeOf(call.opId, calls);
    if (outcome === 'missing') return { type: 'call', call };
    if (outcome === 'open') return { type: 'wait' };
    if (outcome === 'unresolved') return { type: 'end', state: 'unresolved' };
    if (outcome === 'returned') return voided(plan, calls);
    // The player cannot place the further bets either.
    if (outcome === 'refused') break;
  }
  const first = stakes.find(({ opId }) => outcomeOf(opId, calls) === 'done');
  if (first === undefined) return { type: 'end', state: 'refused' };
  if (plan.isVoid) return voided(plan, calls);
  for (const payout of payoutsOf(plan)) {
    const outcome = outcomeOf(payout.opId, calls);
    if (outcome === 'missing') return { type: 'call', call: { ...payout, original: first.opId } };
    if (outcome === 'open') return { type: 'wait' };
    if (outcome === 'unresolved') return { type: 'end', state: 'unresolved' };
    // A win that is not paid must not leave the stake with the house.
    if (outcome !== 'done') return voided(plan, calls);
  }
  return closed(plan, calls);
}

/** The call that closes the round. Its failure changes no money, so the round is settled all the same. */
function closed(plan: RoundPlan, calls: RoundCalls): RoundStep {
  if (!plan.isClosed) return { type: 'end', state: 'settled' };
  const call = callOf('close_round', idOf(plan, 'close'));
  const outcome = outcomeOf(call.opId, calls);
  if (outcome === 'missing') return { type: 'call', call };
  return outcome === 'open' ? { type: 'wait' } : { type: 'end', state: 'settled' };
}

/** Rolls back all that the wallet moved, the last first. */
function voided(plan: RoundPlan, calls: RoundCalls): RoundStep {
  for (const { opId: original, amount } of [...stakesOf(plan), ...payoutsOf(plan)].toReversed()) {
    const outcome = outcomeOf(original, calls);
    if (outcome === 'unresolved') return { type: 'end', state: 'unresolved' };
    if (outcome !== 'done') continue;
    const call = { ...callOf('rollback', `${original}-void`), amount, original };
    const returned = returnOutcome(call.opId, calls);
    if (returned === 'missing') return { type: 'call', call };
    if (returned === 'open') return { type: 'wait' };
    if (returned !== 'returned') return { type: 'end', state: 'unresolved' };
  }
  return { type: 'end', state: 'refunded' };
}

function callOf(action: PlannedCall['action'], opId: string): PlannedCall {
  return { action, opId, amount: null, win: null, original: null };
}

/** The calls that take stakes, in order. */
function stakesOf(plan: RoundPlan): PlannedCall[] {
  const { bets, wins, isAtomic } = plan;
  if (isAtomic)
    return [
      {
        ...callOf('debit_and_credit', idOf(plan, 'spin')),
        amount: bets[0] ?? '0',
        win: wins[0] ?? '0',
      },
    ];
  return bets.map((amount, place) => ({ ...callOf('debit', moveId(plan, 'bet', place)), amount }));
}

/** The calls that pay wins, in order. */
function payoutsOf(plan: RoundPlan): PlannedCall[] {
  if (plan.isAtomic) return [];
  return plan.wins.map((amount, place) => ({ ...callOf('credit', moveId(plan, 'win', place)), amount }));
}

function idOf({ roundId, key }: RoundPlan, word: string): string {
  return `${roundId}-${key}-${word}`;
}

function moveId(plan: RoundPlan, kind: 'bet' | 'win', place: number): string {
  return idOf(plan, `${kind}-${place + 1}`);
}

function outcomeOf(opId: string, calls: RoundCalls): Outcome {
  const call = calls.get(opId);
  if (call === undefined) return 'missing';
  switch (call.state) {
    case 'open':
      return 'open';
    case 'ok':
      return 'done';
    case 'refused':
    case 'given_up':
      return 'refused';
    case 'followed': {
      if (calls.has(`${opId}.rollback`)) return returnOutcome(`${opId}.rollback`, calls);
      // The answer to a reconcile is not shown, so a person reads it.
      return calls.get(`${opId}.reconcile`)?.state === 'open' ? 'open' : 'unresolved';
    }
    case 'unresolved':
    case 'closed':
      return 'unresolved';
  }
}

/** The outcome of a rollback. A wallet that rolled the call back before says so. */
function returnOutcome(opId: string, calls: RoundCalls): Outcome {
  const outcome = outcomeOf(opId, calls);
  if (outcome === 'done') return 'returned';
  if (outcome !== 'refused') return outcome;
  return calls.get(opId)?.cause === 'ERROR_CODE_ALREADY_ROLLED_BACK' ? 'returned' : 'unresolved';
}

/** All op_ids that calls of the round may have. */
export function possibleOpIds(plan: RoundPlan): string[] {
  const moved = [...stakesOf(plan), ...payoutsOf(plan)].map(({ opId }) => opId);
  const own = [idOf(plan, 'session'), ...moved, ...moved.map((opId) => `${opId}-void`), idOf(plan, 'close')];
  return own.flatMap((opId) => [
    ...[opId, `${opId}.reconcile`, `${opId}.rollback`, `${opId}.rollback.reconcile`],
  ]);
}

export interface PlannedEvent {
  readonly eventId: string;
  readonly kind: 'bet' | 'win' | 'settled' | 'refund';
  /** In major units. */
  readonly amount: string;
}

/** The events that the round has so far. The same calls give the same events, with the same ids. */
export function eventsOfRound(plan: RoundPlan, calls: RoundCalls, state: RoundState): PlannedEvent[] {
  const event = (kind: PlannedEvent['kind'], word: string, amount: bigint): PlannedEvent => ({
    eventId: idOf(plan, word),
    kind,
    amount: toMajor(amount, plan.scale),
  });
  const outcomes = [...stakesOf(plan), ...payoutsOf(plan)].map(({ opId }) => outcomeOf(opId, calls));
  const ofBet = (place: number) => outcomes[place];
  const ofWin = (place: number) => outcomes[plan.isAtomic ? 0 : plan.bets.length + place];
  const done = (
    kind: 'bet' | 'win',
    amounts: readonly string[],
    of: (place: number) => Outcome | undefined,
  ) =>
    amounts.flatMap((amount, place) =>
      of(place) === 'done' ? [event(kind, `${kind}-${place + 1}`, BigInt(amount))] : [],
    );
  const moves = [...done('bet', plan.bets, ofBet), ...done('win', plan.wins, ofWin)];
  const sum = (...counted: readonly (Outcome | undefined)[]) =>
    plan.bets.reduce(
      (total, amount, place) => (counted.includes(ofBet(place)) ? total + BigInt(amount) : total),
      0n,
    );
  if (state === 'settled') return [...moves, event('settled', 'settled', sum('done'))];
  if (state === 'refunded') return [...moves, event('refund', 'refund', sum('done', 'returned'))];
  return moves;
}

/** The event as it is sent, always the same. */
export function eventJson(plan: RoundPlan, { eventId, kind, amount }: PlannedEvent): string {
  const { player, brand, roundId, game, currency, occurredAt } = plan;
  return JSON.stringify({
    spec: SPEC,
    event_id: eventId,
    ...(brand !== null && { brand }),
    player_ref: player,
    kind,
    round_id: roundId,
    game: { id: game },
    amount,
    currency,
    occurred_at: occurredAt,
  });
}
