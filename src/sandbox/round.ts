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
  readonly action: 'debit' | 'credit' | 'rollback' | 'close_round';
  readonly opId: string;
  /** In minor units, as digits. Null without an amount. */
  readonly amount: string | null;
  /** The op_id of the call that this one refers to. */
  readonly original: string | null;
}

/** The outcome of a call for its round. `returned`: its money was moved and moved back, or never moved. */
type Outcome = 'missing' | 'open' | 'done' | 'refused' | 'returned' | 'unresolved';

export function nextOfRound(plan: RoundPlan, calls: RoundCalls): RoundStep {
  const { bets, wins } = plan;
  const betIds = bets.map((_, place) => idOf(plan, 'bet', place));
  const winIds = wins.map((_, place) => idOf(plan, 'win', place));
  for (const [place, opId] of betIds.entries()) {
    const outcome = outcomeOf(opId, calls);
    if (outcome === 'missing') return { type: 'call', call: { ...debitOf(plan, place), opId } };
    if (outcome === 'open') return { type: 'wait' };
    if (outcome === 'unresolved') return { type: 'end', state: 'unresolved' };
    if (outcome === 'returned') return voided(plan, calls);
    // The player cannot place the further bets either.
    if (outcome === 'refused') break;
  }
  const taken = betIds.filter((opId) => outcomeOf(opId, calls) === 'done');
  const [first] = taken;
  if (first === undefined) return { type: 'end', state: 'refused' };
  if (plan.isVoid) return voided(plan, calls);
  for (const [place, opId] of winIds.entries()) {
    const outcome = outcomeOf(opId, calls);
    if (outcome === 'missing')
      return { type: 'call', call: { action: 'credit', opId, amount: wins[place] ?? '0', original: first } };
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
  const opId = `${plan.roundId}-close`;
  const outcome = outcomeOf(opId, calls);
  if (outcome === 'missing')
    return { type: 'call', call: { action: 'close_round', opId, amount: null, original: null } };
  return outcome === 'open' ? { type: 'wait' } : { type: 'end', state: 'settled' };
}

/** Rolls back all that the wallet moved, the last first. */
function voided(plan: RoundPlan, calls: RoundCalls): RoundStep {
  const moved = [
    ...plan.bets.map((_, place) => idOf(plan, 'bet', place)),
    ...plan.wins.map((_, place) => idOf(plan, 'win', place)),
  ];
  for (const original of moved.toReversed()) {
    const outcome = outcomeOf(original, calls);
    if (outcome === 'unresolved') return { type: 'end', state: 'unresolved' };
    if (outcome !== 'done') continue;
    const opId = `${original}-void`;
    const returned = returnOutcome(opId, calls);
    if (returned === 'missing')
      return { type: 'call', call: { action: 'rollback', opId, amount: amountOf(plan, original), original } };
    if (returned === 'open') return { type: 'wait' };
    if (returned !== 'returned') return { type: 'end', state: 'unresolved' };
  }
  return { type: 'end', state: 'refunded' };
}

function debitOf({ bets }: RoundPlan, place: number): Omit<PlannedCall, 'opId'> {
  return { action: 'debit', amount: bets[place] ?? '0', original: null };
}

function idOf({ roundId }: RoundPlan, kind: 'bet' | 'win', place: number): string {
  return `${roundId}-${kind}-${place + 1}`;
}

function amountOf(plan: RoundPlan, opId: string): string | null {
  const find = (kind: 'bet' | 'win', amounts: readonly string[]) =>
    amounts.find((_, place) => idOf(plan, kind, place) === opId);
  return find('bet', plan.bets) ?? find('win', plan.wins) ?? null;
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
  const moved = [
    ...plan.bets.map((_, place) => idOf(plan, 'bet', place)),
    ...plan.wins.map((_, place) => idOf(plan, 'win', place)),
  ];
  const own = [...moved, ...moved.map((opId) => `${opId}-void`), `${plan.roundId}-close`];
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
  const done = (kind: 'bet' | 'win', amounts: readonly string[]) =>
    amounts.flatMap((amount, place) => {
      const opId = idOf(plan, kind, place);
      return outcomeOf(opId, calls) === 'done'
        ? [{ eventId: opId, kind, amount: major(plan, BigInt(amount)) }]
        : [];
    });
  const moves = [...done('bet', plan.bets), ...done('win', plan.wins)];
  const stakes = plan.bets.map((amount, place) => ({
    outcome: outcomeOf(idOf(plan, 'bet', place), calls),
    amount: BigInt(amount),
  }));
  const sum = (outcomes: readonly Outcome[]) =>
    stakes.reduce((total, { outcome, amount }) => (outcomes.includes(outcome) ? total + amount : total), 0n);
  const last = (kind: 'settled' | 'refund', amount: bigint): PlannedEvent => ({
    ...{ eventId: `${plan.roundId}-${kind}`, kind, amount: major(plan, amount) },
  });
  if (state === 'settled') return [...moves, last('settled', sum(['done']))];
  if (state === 'refunded') return [...moves, last('refund', sum(['done', 'returned']))];
  return moves;
}

function major({ scale }: RoundPlan, amount: bigint): string {
  return toMajor(amount, scale);
}

/** The event as it is sent, always the same. */
export function eventJson(plan: RoundPlan, { eventId, kind, amount }: PlannedEvent): string {
  const { player, brand, roundId, game, currency, occurredAt } = plan;
  return JSON.stringify({
    ...{ spec: SPEC, event_id: eventId },
    ...(brand !== null && { brand }),
    ...{ player_ref: player, kind, round_id: roundId, game: { id: game }, amount, currency },
    occurred_at: occurredAt,
  });
}
