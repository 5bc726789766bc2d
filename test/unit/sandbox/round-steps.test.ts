/** Rounds of the sandbox: whatever the wallet answers, a round ends as a whole. */
import fc from 'fast-check';
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

const MOST_STEPS = 200;

const aPlan = (more: Partial<RoundPlan> = {}): RoundPlan => ({
  ...{ roundId: 'r', player: 'p', token: 't', game: 'g', brand: null, currency: 'EUR', scale: 2 },
  ...{ bets: ['100'], wins: ['250'], isVoid: false, isClosed: true, occurredAt: '2026-11-27T10:00:00.000Z' },
  ...more,
});

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
        const id = `${opId}.${action === 'debit' ? 'rollback' : 'reconcile'}`;
        calls.set(id, { action: action === 'debit' ? 'rollback' : 'reconcile', state: 'open', cause: null });
        open.set(id, answered.following);
      }
      continue;
    }
    expect(calls.has(next.call.opId)).toBe(false);
    calls.set(next.call.opId, { action: next.call.action, state: 'open', cause: null });
    open.set(next.call.opId, answerOf(next.call, order.length));
    order.push(next.call);
  }
  throw new Error('the round does not end');
}

function effectOf({ action, amount, original }: PlannedCall, plan: RoundPlan): bigint {
  const minor = BigInt(amount ?? '0');
  if (action === 'debit') return -minor;
  if (action === 'credit') return minor;
  const isBet = plan.bets.some((_, place) => original === `${plan.roundId}-bet-${place + 1}`);
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
      fc.record({ bets: amounts(1), wins: amounts(0), isVoid: fc.boolean(), isClosed: fc.boolean() }),
      fc.array(answers, { minLength: 30, maxLength: 30 }),
      (more, given) => {
        const plan = aPlan(more);
        const { state, calls, moved } = play(plan, (call, place) => {
          const answer = given[place] ?? ok;
          // Only a debit is followed by a rollback.
          return answer.state === 'followed' && call.action !== 'debit' ? refused : answer;
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
        for (const opId of calls.keys()) expect(possibleOpIds(plan)).toContain(opId);
        expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(events.length);
      },
    ),
    { numRuns: 2_000 },
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
    const { state, order } = play(aPlan({ bets: ['1', '2'], wins: ['3', '4'] }), () => ok);
    expect(state).toBe('settled');
    expect(order.map(({ action, opId, amount, original }) => [action, opId, amount, original])).toEqual([
      ['debit', 'r-bet-1', '1', null],
      ['debit', 'r-bet-2', '2', null],
      ['credit', 'r-win-1', '3', 'r-bet-1'],
      ['credit', 'r-win-2', '4', 'r-bet-1'],
      ['close_round', 'r-close', null, null],
    ]);
  });

  test('that is void rolls back the last stake first, and pays nothing', () => {
    const { state, order } = play(aPlan({ bets: ['1', '2'], wins: [], isVoid: true }), () => ok);
    expect(state).toBe('refunded');
    expect(order.map(({ opId }) => opId)).toEqual(['r-bet-1', 'r-bet-2', 'r-bet-2-void', 'r-bet-1-void']);
  });

  test('whose closing fails is settled all the same', () => {
    const { state } = play(aPlan(), ({ action }) => (action === 'close_round' ? refused : ok));
    expect(state).toBe('settled');
  });

  test('whose win waits for a reconcile waits too, and is then left to people', () => {
    const plan = aPlan();
    const calls = (state: CallState) =>
      new Map<string, RoundCall>([
        ['r-bet-1', { action: 'debit', state: 'ok', cause: null }],
        ['r-win-1', { action: 'credit', state: 'followed', cause: 'timeout' }],
        ['r-win-1.reconcile', { action: 'reconcile', state, cause: null }],
      ]);
    expect(nextOfRound(plan, calls('open'))).toEqual({ type: 'wait' });
    expect(nextOfRound(plan, calls('ok'))).toEqual({ type: 'end', state: 'unresolved' });
  });

  test('has events in major units, and always the same ones', () => {
    const plan = aPlan({ brand: 'red' });
    const { calls } = play(plan, () => ok);
    const events = eventsOfRound(plan, calls, 'settled');
    expect(events).toEqual([
      { eventId: 'r-bet-1', kind: 'bet', amount: '1.00' },
      { eventId: 'r-win-1', kind: 'win', amount: '2.50' },
      { eventId: 'r-settled', kind: 'settled', amount: '1.00' },
    ]);
    expect(JSON.parse(eventJson(plan, { eventId: 'e', kind: 'bet', amount: '1.00' }))).toEqual({
      ...{ spec: 'promo.event.v1', event_id: 'e', brand: 'red', player_ref: 'p', kind: 'bet', round_id: 'r' },
      ...{ game: { id: 'g' }, amount: '1.00', currency: 'EUR', occurred_at: '2026-11-27T10:00:00.000Z' },
    });
  });
});
