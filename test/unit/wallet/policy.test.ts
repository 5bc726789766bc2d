import { WALLET_ACTION_NAMES, type WalletAction } from '../../../src/contract/actions';
import { interpretReply, type WalletAnswer } from '../../../src/wallet/answer';
import { endingOf } from '../../../src/wallet/policy';
import { HOUR_MS, play, RESEND_MS, START, waitsOf } from '../../support/wallet-play';
import { aReply, failureBody, nextStep } from '../../support/wallet-replies';

const BETS: readonly WalletAction[] = ['debit', 'debit_and_credit'];
const RESENT: readonly WalletAction[] = ['credit', 'rollback', 'close_round', 'settle_free_rounds'];
const BRIEF: readonly WalletAction[] = ['balance', 'authenticate', 'notify'];

const SILENCE: WalletAnswer = interpretReply('debit', { type: 'nothing', cause: 'timeout' });
const OK: WalletAnswer = { type: 'ok', body: { status: 'ok' } };
const REFUSED: WalletAnswer = { type: 'refused', code: 'ERROR_CODE_INSUFFICIENT_FUNDS' };
const RETRY: WalletAnswer = { type: 'retry', code: 'ERROR_CODE_MAINTENANCE', retryAfterMs: null };
const FAILED: WalletAnswer = { type: 'retry', code: 'ERROR_CODE_INTERNAL', retryAfterMs: null };

const always =
  (answer: WalletAnswer, ms = 5_000) =>
  (): readonly [WalletAnswer, number] => [answer, ms];

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

  test('is sent again up to 20 s after its first attempt began, and never later', () => {
    const retryAt = START + 20_000;
    const ended = (at: number) => ({ sentAt: START, endedAt: at, answer: SILENCE });
    expect(nextStep({ action }, [ended(retryAt - 1_000)], retryAt)).toEqual({ type: 'send', at: retryAt });
    expect(nextStep({ action }, [ended(retryAt - 999)], retryAt)).toEqual({ type: 'roll_back' });
    expect(nextStep({ action }, [ended(retryAt - 1_000)], retryAt + 1)).toEqual({ type: 'roll_back' });
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
    attempts: [{}, {}, {}],
    end: { type: 'give_up' },
  });
});

describe('Retry-After', () => {
  const asking = (retryAfterMs: number): WalletAnswer => ({
    type: 'retry',
    code: 'ERROR_CODE_RATE_LIMITED',
    retryAfterMs,
  });
  test.each([
    ['longer than the backoff is kept', 30_000, 30_000],
    ['shorter than the backoff changes nothing', 500, 1_000],
    ['of a month is cut to 5 minutes', 30 * 24 * HOUR_MS, 300_000],
  ])('%s', (_, asked, expected) => {
    const attempt = { sentAt: START, endedAt: START + 10, answer: asking(asked) };
    expect(nextStep({ action: 'credit' }, [attempt], START + 10)).toEqual({
      type: 'send',
      at: START + 10 + expected,
    });
  });

  test('never moves a bet beyond the time in which its player waits', () => {
    const attempt = { sentAt: START, endedAt: START + 10, answer: asking(30_000) };
    expect(nextStep({ action: 'debit' }, [attempt], START + 10)).toEqual({ type: 'roll_back' });
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
