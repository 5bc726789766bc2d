/** Any reply of a wallet has a meaning, and any history of replies an ending in time. */
import fc from 'fast-check';
import type { WalletAction } from '../../src/contract/actions';
import { interpretReply } from '../../src/wallet/answer';
import { addAttempt, type CallHistory, endingOf, POLICY_TERMS, stepAfter } from '../../src/wallet/policy';
import { HOUR_MS, play, RESEND_MS, waitsOf } from '../support/wallet-play';
import { anyAction, anyReply, nextStep } from '../support/wallet-replies';
import { SHOWN_CODES } from '../unit/contract/spec-rows';

const NO_ANSWER_TYPES = [
  ...['timeout', 'unreachable', 'interrupted', 'bare_status', 'too_large', 'cut_off', 'not_json'],
  ...['no_envelope', 'unknown_code', 'status_not_allowed', 'code_not_allowed'],
];
/** They are resent for days. */
const RESENT: readonly WalletAction[] = [
  ...(['credit', 'rollback', 'close_round', 'settle_free_rounds', 'reconcile'] as const),
];

test('every reply has a meaning, and a refusal or a retry has an allowed code [O3]', () => {
  fc.assert(
    fc.property(anyAction, anyReply, (action, reply) => {
      const answer = interpretReply(action, reply);
      expect(answer).toEqual(interpretReply(action, reply));
      if (answer.type === 'no_answer') expect(NO_ANSWER_TYPES).toContain(answer.cause);
      if (answer.type === 'ok') expect(reply).toMatchObject({ type: 'http', status: 200 });
      if (answer.type !== 'refused' && answer.type !== 'retry') return;
      const row = SHOWN_CODES.find(([name]) => `ERROR_CODE_${name}` === answer.code);
      expect(row?.[1]).toBe(answer.type === 'retry' ? 'yes' : 'no');
      expect(row?.[2].split(' ')).toContain(String(reply.type === 'http' && reply.status));
    }),
    { numRuns: 5_000 },
  );
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
          const period = RESENT.includes(action) ? RESEND_MS : 20_000;
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
