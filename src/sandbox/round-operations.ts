/** The calls that play and show rounds. */
import type { WalletAction } from '../contract/actions';
import { type Currency, currencyOf, MAX_MINOR, toMinor } from '../domain/event/money';
import { refuse, type SandboxAnswer, success } from './answers';
import type { SandboxSession } from './launch';
import { hashOf, noSession, type Operations, type SandboxCall, withBody } from './operations';
import { type PlayRequest, readPlay, readRoundRequest } from './requests';
import { possibleOpIds, type RoundPlan } from './round';
import type { RoundStore, SandboxRound } from './round-store';
import type { Rounds } from './rounds';
import type { SessionStore } from './session-store';

/** A caller waits this long for the end of a round. */
const ANSWER_WITHIN_MS = 8_000;

export interface RoundOperationsDeps {
  readonly sessions: Pick<SessionStore, 'findSession'>;
  readonly store: RoundStore;
  readonly rounds: Pick<Rounds, 'drive' | 'callsOf'>;
  /** The actions of the wallet of each operator that has one. */
  readonly wallets: ReadonlyMap<string, ReadonlySet<WalletAction>>;
  readonly newId: () => string;
  /** Milliseconds since 1970. */
  readonly wallNow: () => number;
  readonly stop: AbortSignal;
}

export function makeRoundOperations(deps: RoundOperationsDeps): Operations {
  const { sessions, store, rounds, wallets, newId, wallNow, stop } = deps;

  async function play(request: PlayRequest, call: SandboxCall): Promise<SandboxAnswer> {
    const { operator } = call;
    const wallet = wallets.get(operator.id);
    if (wallet === undefined)
      return refuse('unsupported action', 'the file of the sandbox has no wallet of the operator; add one');
    const session = await sessions.findSession(operator.id, request.session_id);
    if (session === null) return noSession();
    const wrong = whyNoRound(session);
    if (wrong !== undefined) return wrong;
    const plan = planOf(session, request, { newId, actions: wallet, now: wallNow() });
    if ('status' in plan) return plan;
    const isAttributed = session.promoPlayerRef !== null && operator.intake !== null;
    const begun = await store.beginRound(
      {
        operatorId: operator.id,
        sessionId: session.sessionId,
        plan,
        attribution: isAttributed ? 'waiting' : 'none',
      },
      hashOf(call.json),
    );
    if (!begun.isSame)
      return refuse('session_token_conflict', 'the round_id was used with another body; use a new one');
    const { round } = begun;
    if (round.state === 'playing') await rounds.drive(round, ANSWER_WITHIN_MS, stop);
    const played = (await store.findRound(operator.id, round.plan.roundId)) ?? round;
    return show(played, played.state === 'playing' ? 202 : 200);
  }

  async function show(round: SandboxRound, status: 200 | 202): Promise<SandboxAnswer> {
    const { plan, sessionId, state, attribution } = round;
    const [calls, events] = [await rounds.callsOf(round), await store.eventsOf(round)];
    const listed = possibleOpIds(plan).flatMap((opId) => {
      const found = calls.get(opId);
      if (found === undefined) return [];
      return [{ op_id: opId, action: found.action, state: found.state, cause: found.cause }];
    });
    return success(
      {
        round_id: plan.roundId,
        session_id: sessionId,
        state,
        calls: listed,
        attribution,
        events: events.map(({ eventId, kind, amount, verdict, reason }) => ({
          event_id: eventId,
          kind,
          amount,
          verdict,
          reason,
        })),
      },
      status,
    );
  }

  return {
    playRound: withBody(readPlay, play),
    getRound: withBody(readRoundRequest, async ({ round_id: roundId }, { operator }) => {
      const round = await store.findRound(operator.id, roundId);
      if (round !== null) return show(round, 200);
      return refuse('invalid request', 'the operator has no round with this id', 404);
    }),
  };
}

function whyNoRound({ state, player }: SandboxSession): SandboxAnswer | undefined {
  if (player === null) return refuse('invalid_request', 'the session is a demo, which has no wallet');
  if (state === 'open') return undefined;
  if (state === 'launching') return refuse('launch_in_progress', 'the launch of the session still runs');
  return refuse('session_token_conflict', 'the session has ended; launch a game with a new token');
}

interface PlanTerms {
  readonly newId: () => string;
  readonly actions: ReadonlySet<WalletAction>;
  /** Milliseconds since 1970. */
  readonly now: number;
}

function planOf(
  { player, token, game, brand, currency: code }: SandboxSession,
  { round_id, bets, wins = [], ending = 'settle', atomic: isAtomic = false }: PlayRequest,
  { newId, actions, now }: PlanTerms,
): RoundPlan | SandboxAnswer {
  const currency = currencyOf(code);
  if (currency === undefined || player === null || token === null)
    throw new Error('a session of the sandbox has no player, or no known currency');
  const [stakes, payouts] = [minorOf(bets, currency), minorOf(wins, currency)];
  if (stakes === undefined || payouts === undefined)
    return refuse(
      'invalid_request',
      `an amount is zero, too large, or has more than the ${currency.scale} decimals of ${code}`,
    );
  if (ending === 'void' && wins.length > 0)
    return refuse('invalid_request', 'a round that is void has no wins; leave them out');
  if (isAtomic && (bets.length !== 1 || wins.length !== 1))
    return refuse(
      'invalid_request',
      'an atomic round has one bet and one win; leave atomic out, or the others',
    );
  if (isAtomic && !actions.has('debit_and_credit'))
    return refuse('unsupported action', 'the profile of the wallet has no debit_and_credit; add it');
  return {
    roundId: round_id ?? `r-${newId()}`,
    key: newId(),
    player,
    token,
    game,
    brand,
    currency: code,
    scale: currency.scale,
    bets: stakes,
    wins: payouts,
    isVoid: ending === 'void',
    isClosed: actions.has('close_round'),
    isAuthenticated: actions.has('authenticate'),
    isAtomic,
    occurredAt: new Date(now).toISOString(),
  };
}

/** Undefined where an amount, or the sum, is no amount of the currency. */
function minorOf(amounts: readonly string[], { scale }: Currency): string[] | undefined {
  const minor = amounts.map((amount) => toMinor(amount, scale));
  const known = minor.filter((amount) => amount !== undefined && amount > 0n);
  const sum = minor.reduce<bigint>((total, amount) => total + (amount ?? 0n), 0n);
  if (known.length < amounts.length || sum > MAX_MINOR) return undefined;
  return minor.map(String);
}
