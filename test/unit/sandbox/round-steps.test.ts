/** Rounds of the sandbox: whatever the wallet answers, a round ends as a whole. */
import fc from 'fast-check';
import { inRun } from '../../../dev/long-run';
import { WALLET_ACTIONS } from '../../../src/contract/actions';
import {
  eventJson,
  eventsOfRound,
  nextOfRound,
  type PlannedCall,
  possibleOpIds,
  type RoundCall,
  type RoundPlan,
  type RoundState,
} from '../../../src/sandbox/round';
import type { CallState } from '../../../src/wallet/call-change';
import { aRoundPlan } from '../../support/round-plan';

const MOST_STEPS = 200;

/** The last state of a call, and of the rollback that follows it. */
interface Answered {
  readonly state: CallState;
  readonly cause?: string;
  readonly following?: Answered;
}

interface Played {
  readonly state: RoundState;
  readonly calls: ReadonlyMap<string, RoundCall>;
  readonly order: readonly PlannedCall[];
  /** The change of the player's balance, where no call is uncertain. */
  readonly moved: bigint;
}

/** Plays a round against a wallet that answers each call by `answerOf`. Every call is open at first. */
function play(plan: RoundPlan, answerOf: (call: PlannedCall, place: number) => Answered): Played {
  const calls = new Map<string, RoundCall>();
  const open = new Map<string, Answered>();
  const order: PlannedCall[] = [];
  let moved = 0n;
  for (let step = 0; step < MOST_STEPS; step++) {
    const next = nextOfRound(plan, calls);
    if (next.type === 'end') return { state: next.state, calls, order, moved };
    if (next.type === 'wait') {
      const [[opId, answered] = ['', { state: 'ok' } as const]] = open;
      open.delete(opId);
      const { action } = calls.get(opId) ?? { action: 'debit' };
      calls.set(opId, { action, state: answered.state, cause: answered.cause ?? null });
      const call = order.find((each) => each.opId === opId);
      if (answered.state === 'ok' && call?.amount != null) moved += effectOf(call, plan);
      if (answered.state === 'followed' && answered.following !== undefined) {
        const following = WALLET_ACTIONS[action].isNewBet ? 'rollback' : 'reconcile';
        const id = `${opId}.${following}`;
        calls.set(id, { action: following, state: 'open', cause: null });
        open.set(id, answered.following);
      }
      continue;
    }
    if (calls.has(next.call.opId)) throw new Error(`${next.call.opId} is called twice`);
    calls.set(next.call.opId, { action: next.call.action, state: 'open', cause: null });
    open.set(next.call.opId, answerOf(next.call, order.length));
    order.push(next.call);
  }
  throw new Error('the round does not end');
}

function effectOf({ action, amount, win, original }: PlannedCall, plan: RoundPlan): bigint {
  const minor = BigInt(amount ?? '0');
  if (action === 'debit') return -minor;
  if (action === 'debit_and_credit') return BigInt(win ?? '0') - minor;
  if (action === 'credit') return minor;
  const isBet = plan.bets.some((_, place) => original === `r-k-bet-${place + 1}`);
  return isBet ? minor : -minor;
}

const ok = { state: 'ok' } as const;
const refused = { state: 'refused', cause: 'ERROR_CODE_INSUFFICIENT_FUNDS' } as const;
const rolledBack = { state: 'followed', following: ok } as const;
const answers = fc.constantFrom<Answered>(
  ...[ok, ok, ok, ok, refused, rolledBack],
  { state: 'refused', cause: 'ERROR_CODE_ALREADY_ROLLED_BACK' },
  { state: 'followed', following: { state: 'refused', cause: 'ERROR_CODE_ALREADY_ROLLED_BACK' } },
  { state: 'followed', following: { state: 'refused', cause: 'ERROR_CODE_BUSINESS_REJECTED' } },
  { state: 'followed', following: { state: 'unresolved' } },
  { state: 'unresolved' },
  { state: 'closed' },
);
const amounts = (minLength: number) =>
  fc.array(fc.integer({ min: 1, max: 1_000 }).map(String), { minLength, maxLength: 3 });

test('a round ends settled, refunded or refused as a whole, or people look at it [O14]', () => {
  fc.assert(
    fc.property(
      fc
        .record({
          bets: amounts(1),
          wins: amounts(0),
          isVoid: fc.boolean(),
          isClosed: fc.boolean(),
          isAuthenticated: fc.boolean(),
          isAtomic: fc.boolean(),
        })
        .map((plan) =>
          plan.isAtomic
            ? { ...plan, bets: plan.bets.slice(0, 1), wins: [plan.wins[0] ?? '7'], isVoid: false }
            : plan,
        ),
      fc.array(answers, { minLength: 30, maxLength: 30 }),
      (more, given) => {
        const plan = aRoundPlan(more);
        const { state, calls, moved } = play(plan, (call, place) => {
          const answer = given[place] ?? ok;
          // Only a bet is followed by a rollback.
          return answer.state === 'followed' && !WALLET_ACTIONS[call.action].isNewBet ? refused : answer;
        });
        const events = eventsOfRound(plan, calls, state);
        const sumOf = (kind: string) =>
          events.filter((event) => event.kind === kind).reduce((sum, { amount }) => sum + minor(amount), 0n);
        const endings = events
          .filter(({ kind }) => kind === 'settled' || kind === 'refund')
          .map(({ kind }) => kind);
        expect(endings).toEqual(state === 'settled' ? ['settled'] : state === 'refunded' ? ['refund'] : []);
        if (state === 'settled') {
          expect(moved).toBe(sumOf('win') - sumOf('bet'));
          expect(sumOf('settled')).toBe(sumOf('bet'));
          expect(events.filter(({ kind }) => kind === 'win')).toHaveLength(plan.wins.length);
        }
        if (state === 'refunded') expect(sumOf('refund')).toBeGreaterThan(0n);
        if (state === 'refunded' && !isAlreadyReturned(calls)) expect(moved).toBe(0n);
        if (state === 'refused') expect([events, moved]).toEqual([[], 0n]);
        expect(possibleOpIds(plan)).toEqual(expect.arrayContaining([...calls.keys()]));
        expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(events.length);
      },
    ),
    { numRuns: inRun({ usual: 300, long: 20_000 }) },
  );
});

/** The wallet moved the money back by itself, which the count above does not see. */
function isAlreadyReturned(calls: ReadonlyMap<string, RoundCall>): boolean {
  return [...calls.values()].some(({ cause }) => cause === 'ERROR_CODE_ALREADY_ROLLED_BACK');
}

function minor(amount: string): bigint {
  return BigInt(amount.replace('.', ''));
}

describe('a round', () => {
  test('places its bets in order, pays its wins, and is closed', () => {
    const { state, order } = play(aRoundPlan({ bets: ['1', '2'], wins: ['3', '4'] }), () => ok);
    expect(state).toBe('settled');
    expect(order.map(({ action, opId, amount, original }) => [action, opId, amount, original])).toEqual([
      ['debit', 'r-k-bet-1', '1', null],
      ['debit', 'r-k-bet-2', '2', null],
      ['credit', 'r-k-win-1', '3', 'r-k-bet-1'],
      ['credit', 'r-k-win-2', '4', 'r-k-bet-1'],
      ['close_round', 'r-k-close', null, null],
    ]);
  });

  test('that is void rolls back the last stake first, and pays nothing', () => {
    const { state, order } = play(aRoundPlan({ bets: ['1', '2'], wins: [], isVoid: true }), () => ok);
    expect(state).toBe('refunded');
    expect(order.map(({ opId }) => opId)).toEqual([
      'r-k-bet-1',
      'r-k-bet-2',
      'r-k-bet-2-void',
      'r-k-bet-1-void',
    ]);
  });

  test('begins with the session, and ends there where the wallet refuses it', () => {
    const plan = aRoundPlan({ isAuthenticated: true });
    const { state, order } = play(plan, () => ok);
    expect([state, order.map(({ action }) => action)]).toEqual([
      'settled',
      ['authenticate', 'debit', 'credit', 'close_round'],
    ]);
    for (const answer of [refused, { state: 'given_up' } as const]) {
      const ended = play(plan, () => answer);
      expect([ended.state, ended.order.length]).toEqual(['refused', 1]);
      expect(eventsOfRound(plan, ended.calls, ended.state)).toEqual([]);
    }
  });

  test('that is atomic takes its bet and pays its win in one call, and has the events of both', () => {
    const plan = aRoundPlan({ isAtomic: true });
    const { state, order, calls } = play(plan, () => ok);
    expect(order.map(({ action, amount, win }) => [action, amount, win])).toEqual([
      ['debit_and_credit', '100', '250'],
      ['close_round', null, null],
    ]);
    expect(eventsOfRound(plan, calls, state).map(({ kind, amount }) => `${kind} ${amount}`)).toEqual([
      'bet 1.00',
      'win 2.50',
      'settled 1.00',
    ]);
    const back = play(plan, ({ action }) => (action === 'debit_and_credit' ? rolledBack : ok));
    expect(back.state).toBe('refunded');
    expect(
      eventsOfRound(plan, back.calls, back.state).map(({ kind, amount }) => `${kind} ${amount}`),
    ).toEqual(['refund 1.00']);
  });

  test('has other ids where the sandbox forgot the round of this id', () => {
    const [a, b] = [aRoundPlan({ key: 'a' }), aRoundPlan({ key: 'b' })];
    expect(possibleOpIds(a).filter((opId) => possibleOpIds(b).includes(opId))).toEqual([]);
  });

  test('whose closing fails is settled all the same', () => {
    const { state } = play(aRoundPlan(), ({ action }) => (action === 'close_round' ? refused : ok));
    expect(state).toBe('settled');
  });

  test('whose win waits for a reconcile waits too, and is then left to people', () => {
    const plan = aRoundPlan();
    const calls = (state: CallState) =>
      new Map<string, RoundCall>([
        ['r-k-bet-1', { action: 'debit', state: 'ok', cause: null }],
        ['r-k-win-1', { action: 'credit', state: 'followed', cause: 'timeout' }],
        ['r-k-win-1.reconcile', { action: 'reconcile', state, cause: null }],
      ]);
    expect(nextOfRound(plan, calls('open'))).toEqual({ type: 'wait' });
    expect(nextOfRound(plan, calls('ok'))).toEqual({ type: 'end', state: 'unresolved' });
  });

  test('has events in major units, and always the same ones', () => {
    const plan = aRoundPlan({ brand: 'red' });
    const { calls } = play(plan, () => ok);
    const events = eventsOfRound(plan, calls, 'settled');
    expect(events).toEqual([
      { eventId: 'r-k-bet-1', kind: 'bet', amount: '1.00' },
      { eventId: 'r-k-win-1', kind: 'win', amount: '2.50' },
      { eventId: 'r-k-settled', kind: 'settled', amount: '1.00' },
    ]);
    expect(JSON.parse(eventJson(plan, { eventId: 'e', kind: 'bet', amount: '1.00' }))).toEqual({
      spec: 'promo.event.v1',
      event_id: 'e',
      brand: 'red',
      player_ref: 'p',
      kind: 'bet',
      round_id: 'r',
      game: { id: 'g' },
      amount: '1.00',
      currency: 'EUR',
      occurred_at: '2026-11-27T10:00:00.000Z',
    });
  });
});
