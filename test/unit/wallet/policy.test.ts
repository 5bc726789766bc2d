import fc from 'fast-check';
import { WALLET_ACTION_NAMES, type WalletAction } from '../../../src/contract/actions';
import { interpretReply, type WalletAnswer } from '../../../src/wallet/answer';
import {
  addAttempt,
  type CallHistory,
  endingOf,
  nextStep,
  POLICY_TERMS,
  stepAfter,
  type WalletAttempt,
  type WalletStep,
} from '../../../src/wallet/policy';
import { anyAction, anyReply, aReply, failureBody } from './replies';

const HOUR_MS = 3_600_000;
const RESEND_MS = 72 * HOUR_MS;
const START = Date.UTC(2026, 10, 21);

const BETS: readonly WalletAction[] = ['debit', 'debit_and_credit'];
const RESENT: readonly WalletAction[] = ['credit', 'rollback', 'close_round', 'settle_free_rounds'];
const BRIEF: readonly WalletAction[] = ['balance', 'authenticate', 'notify'];

const SILENCE: WalletAnswer = interpretReply('debit', { type: 'nothing', cause: 'timeout' });
const OK: WalletAnswer = { type: 'ok', body: { status: 'ok' } };
const REFUSED: WalletAnswer = { type: 'refused', code: 'ERROR_CODE_INSUFFICIENT_FUNDS' };
const RETRY: WalletAnswer = { type: 'retry', code: 'ERROR_CODE_MAINTENANCE', retryAfterMs: null };
const FAILED: WalletAnswer = { type: 'retry', code: 'ERROR_CODE_INTERNAL', retryAfterMs: null };

/** The conditions under which a call is played. */
interface Play {
  readonly action: WalletAction;
  readonly spread?: number;
  /** The answer to each attempt, from 0, and its time in milliseconds. */
  readonly answer: (index: number) => readonly [WalletAnswer, number];
  /** How late the client looks after a step was due. */
  readonly late?: (index: number) => number;
}

interface Played {
  readonly attempts: readonly WalletAttempt[];
  readonly end: Exclude<WalletStep, { type: 'send' }>;
  /** The virtual time at the end. */
  readonly endedAt: number;
}

/** Plays a call over a virtual clock, as a client would, until no attempt follows. */
function play({ action, spread = 0, answer, late = () => 0 }: Play): Played {
  const attempts: WalletAttempt[] = [];
  let now = START;
  let history: CallHistory | null = null;
  for (;;) {
    const call = { action, spread };
    const step: WalletStep = stepAfter(call, history, now);
    if (step.type !== 'send') return { attempts, end: step, endedAt: now };
    // A client may ask at any time until the step is due: the step stays the same.
    const halfway = Math.floor((now + Math.max(now, step.at)) / 2);
    if (attempts.length > 0) expect(stepAfter(call, history, halfway)).toEqual(step);
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

const always =
  (answer: WalletAnswer, ms = 5_000) =>
  (): readonly [WalletAnswer, number] => [answer, ms];

/** The time from the end of each attempt until the next one. */
const waitsOf = (attempts: readonly WalletAttempt[]): number[] =>
  attempts.slice(1).map(({ sentAt }, index) => sentAt - (attempts[index]?.endedAt ?? 0));

test('each action has one ending, and all actions are in this file', () => {
  expect([...BETS, ...RESENT, ...BRIEF, 'reconcile'].sort()).toEqual([...WALLET_ACTION_NAMES].sort());
  expect(WALLET_ACTION_NAMES.map((action) => [action, endingOf(action)])).toEqual([
    ['balance', 'give_up'],
    ['authenticate', 'give_up'],
    ['debit', 'roll_back'],
    ['credit', 'reconcile'],
    ['debit_and_credit', 'roll_back'],
    ['rollback', 'reconcile'],
    ['close_round', 'reconcile'],
    ['settle_free_rounds', 'reconcile'],
    ['reconcile', 'unresolved'],
    ['notify', 'give_up'],
  ]);
});

test('a call is sent at once', () => {
  for (const action of WALLET_ACTION_NAMES)
    expect(nextStep({ action }, [], START)).toEqual({ type: 'send', at: START });
});

describe.each(BETS)('a %s [O5]', (action) => {
  test.each([
    ['no answer', SILENCE],
    ['maintenance', RETRY],
    ['an internal error', FAILED],
  ])('that gets %s alone is retried, and ends in a rollback while the player waits', (_, answer) => {
    const { attempts, end, endedAt } = play({ action, answer: always(answer) });
    expect(waitsOf(attempts)).toEqual([1_000, 2_000]);
    expect(end).toEqual({ type: 'roll_back' });
    expect(endedAt - START).toBeLessThanOrEqual(20_000);
  });

  test('that is found after a crash long ago is rolled back at once', () => {
    const crashed = { sentAt: START, endedAt: START + 5_000, answer: SILENCE };
    expect(nextStep({ action }, [crashed], START + HOUR_MS)).toEqual({ type: 'roll_back' });
  });

  test('whose first answer is a refusal is over', () => {
    expect(play({ action, answer: always(REFUSED) }).end).toEqual({ type: 'done', answer: REFUSED });
  });

  test.each([
    ['no answer', SILENCE, 'roll_back'],
    ['an internal error', FAILED, 'roll_back'],
    ['maintenance', RETRY, 'done'],
  ])('that gets %s and then a refusal: the stake may be taken or not', (_, before, expected) => {
    const answer = (index: number): readonly [WalletAnswer, number] => [index === 0 ? before : REFUSED, 100];
    expect(play({ action, answer }).end.type).toBe(expected);
  });
});

describe.each(RESENT)('a %s [O6]', (action) => {
  test('that gets no answer is resent for 72 h, and then reconciled', () => {
    const { attempts, end } = play({ action, answer: always(SILENCE) });
    expect(end).toEqual({ type: 'reconcile', at: START + RESEND_MS });
    expect(waitsOf(attempts).slice(0, 8)).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ]);
    expect(Math.max(...waitsOf(attempts))).toBe(60_000);
    const lastSent = attempts.at(-1)?.sentAt ?? 0;
    expect(lastSent).toBeLessThan(START + RESEND_MS);
    expect(lastSent).toBeGreaterThan(START + RESEND_MS - 70_000);
  });

  test('that is found after a crash is resent at once, until 72 h are over', () => {
    const crashed = { sentAt: START, endedAt: START + 5_000, answer: SILENCE };
    const at = (ms: number) => nextStep({ action }, [crashed], START + ms);
    expect(at(71 * HOUR_MS)).toEqual({ type: 'send', at: START + 6_000 });
    expect(at(RESEND_MS - 1)).toEqual({ type: 'send', at: START + 6_000 });
    expect(at(RESEND_MS)).toEqual({ type: 'reconcile', at: START + RESEND_MS });
    expect(at(1_000 * HOUR_MS)).toEqual({ type: 'reconcile', at: START + RESEND_MS });
  });

  test('is over with the first final answer', () => {
    for (const final of [OK, REFUSED]) {
      const answer = (index: number): readonly [WalletAnswer, number] => [index < 3 ? SILENCE : final, 10];
      expect(play({ action, answer })).toMatchObject({ end: { type: 'done', answer: final } });
    }
  });
});

describe('a reconcile [O6]', () => {
  const action = 'reconcile';
  test('is resent for 72 h of its own, and then left to people', () => {
    const { attempts, end } = play({ action, answer: always(SILENCE) });
    expect(end).toEqual({ type: 'unresolved' });
    expect((attempts.at(-1)?.sentAt ?? 0) - START).toBeGreaterThan(RESEND_MS - 70_000);
  });

  test('that is refused leaves its question to people', () => {
    expect(play({ action, answer: always(REFUSED) }).end).toEqual({ type: 'unresolved' });
    expect(play({ action, answer: always(OK) }).end).toEqual({ type: 'done', answer: OK });
  });
});

test.each(BRIEF)('a %s without an answer is given up: nothing is uncertain [O6]', (action) => {
  expect(play({ action, answer: always(SILENCE) })).toMatchObject({
    ...{ attempts: [{}, {}, {}], end: { type: 'give_up' } },
  });
});

describe('Retry-After', () => {
  const asking = (retryAfterMs: number): WalletAnswer => ({
    ...{ type: 'retry', code: 'ERROR_CODE_RATE_LIMITED', retryAfterMs },
  });
  test.each([
    ['longer than the backoff is kept', 30_000, 30_000],
    ['shorter than the backoff changes nothing', 500, 1_000],
    ['of a month is cut to 5 minutes', 30 * 24 * HOUR_MS, 300_000],
  ])('%s', (_, asked, expected) => {
    const attempt = { sentAt: START, endedAt: START + 10, answer: asking(asked) };
    expect(nextStep({ action: 'credit' }, [attempt], START + 10)).toEqual({
      ...{ type: 'send', at: START + 10 + expected },
    });
  });

  test('never moves a bet beyond the time in which its player waits', () => {
    const attempt = { sentAt: START, endedAt: START + 10, answer: asking(30_000) };
    expect(nextStep({ action: 'debit' }, [attempt], START + 10)).toEqual({ type: 'roll_back' });
  });
});

describe('whatever a wallet answers, and whenever the client looks [O5 O6]', () => {
  const anyAnswers = fc.tuple(anyAction, fc.infiniteStream(anyReply), fc.infiniteStream(fc.nat(5_000)));
  /** Mostly in time, and sometimes a downtime of up to four days. */
  const anyDelay = fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.nat(100_000) },
    { weight: 1, arbitrary: fc.nat(96 * HOUR_MS) },
  );

  test('a call ends, in time and as its action demands', () => {
    fc.assert(
      fc.property(
        anyAnswers,
        fc.infiniteStream(anyDelay),
        fc.double({ min: 0, max: 1, noNaN: true }),
        ([action, replies, times], delays, spread) => {
          const { attempts, end } = play({
            action,
            spread,
            answer: () => [interpretReply(action, replies.next().value), times.next().value],
            late: () => delays.next().value,
          });
          const [first] = attempts;
          const final = attempts.find(({ answer }) => answer.type === 'ok' || answer.type === 'refused');
          // Nothing follows a final answer.
          expect(final === undefined ? undefined : attempts.at(-1)).toBe(final);
          if (final === undefined) expect(end.type).toBe(endingOf(action));
          if (end.type === 'done') expect(end.answer).toBe(final?.answer);
          const period = RESENT.includes(action) || action === 'reconcile' ? RESEND_MS : 20_000;
          for (const { sentAt } of attempts)
            expect(sentAt - (first?.sentAt ?? 0)).toBeLessThanOrEqual(period);
          if (period !== RESEND_MS) expect(attempts.length).toBeLessThanOrEqual(POLICY_TERMS.briefAttempts);
          // Each wait is at least half of the backoff.
          waitsOf(attempts).forEach((wait, index) => {
            expect(wait).toBeGreaterThanOrEqual(Math.min(60_000, 1_000 * 2 ** index) / 2);
          });
        },
      ),
      { numRuns: 300 },
    );
  });

  test('a kept history gives the step of all attempts, which stay as they are', () => {
    const anyAttempt = fc
      .tuple(fc.integer(), fc.integer(), anyReply)
      .map(([sentAt, endedAt, reply]) => ({ sentAt, endedAt, answer: interpretReply('credit', reply) }));
    fc.assert(
      fc.property(anyAction, fc.array(anyAttempt), fc.integer(), (action, attempts, now) => {
        const before = structuredClone(attempts);
        const history = attempts.reduce<CallHistory | null>(addAttempt, null);
        expect(stepAfter({ action }, history, now)).toEqual(nextStep({ action }, attempts, now));
        expect(attempts).toEqual(before);
      }),
      { numRuns: 1_000 },
    );
  });
});

test('calls of one outage come back over half of the wait', () => {
  const attempt = { sentAt: START, endedAt: START + 5_000, answer: SILENCE };
  const dues = [0, 0.5, 1, 7].map((spread) =>
    nextStep({ action: 'credit', spread }, [attempt], START + 5_000),
  );
  expect(dues).toEqual([1_000, 750, 500, 500].map((wait) => ({ type: 'send', at: START + 5_000 + wait })));
});

test('a bet whose wallet answers a wrong code is rolled back', () => {
  const odd = interpretReply('debit', aReply(failureBody('ERROR_CODE_INSUFFICIENT_FUNDS'), { status: 402 }));
  expect(play({ action: 'debit', answer: always(odd, 10) }).end).toEqual({ type: 'roll_back' });
});
