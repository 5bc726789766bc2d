/** Scenarios of "one op_id, one effect, one answer": repetitions, broken connections, rollbacks. */
import {
  type Call,
  call,
  credit,
  debit,
  moved,
  oneAnswer,
  refused,
  rollback,
  type Scenario,
  STAKE,
  sendOne,
  times,
  unread,
} from '../scenario';

const conflict = refused('ERROR_CODE_IDEMPOTENCY_CONFLICT');
const RESEND = '8: stored answer per op_id; resend of uncertain calls';
const CONFLICT = '7.3: ERROR_CODE_IDEMPOTENCY_CONFLICT';
const ROLLBACK = '7.3: a bet without an answer ends in a rollback';

/**
 * Connections that break, and the retries that the service sends. Five of them: a break may also come before
 * the wallet has read the request, and then proves nothing.
 */
const cutThenSent = (make: (op: string) => Call, change: bigint): Scenario['steps'] => [
  ...Array.from({ length: 5 }, (_, i) => make(`cut-${i}`)).flatMap((each) => [
    sendOne({ ...each, cut: 'after_request' as const, expect: unread }),
    sendOne(each),
    sendOne(each),
    oneAnswer(each.op),
  ]),
  moved(change * 5n),
];

export const REPEATED: readonly Scenario[] = [
  {
    id: 'debit-in-parallel',
    rule: RESEND,
    must: 'The same debit twenty times at once takes the stake once, and has one answer.',
    steps: [times(20, debit('bet')), oneAnswer('bet'), moved(-STAKE)],
  },
  {
    id: 'credit-in-parallel',
    rule: RESEND,
    must: 'The same credit twenty times at once pays once, and has one answer.',
    steps: [
      sendOne(debit('bet')),
      times(20, credit('win', undefined, { original: 'bet' })),
      oneAnswer('win'),
      moved(0n),
    ],
  },
  {
    id: 'debit-repeated',
    rule: RESEND,
    must: 'A debit that comes again on another connection gets the stored answer, without a second effect.',
    steps: [
      sendOne(debit('bet')),
      sendOne(debit('bet')),
      sendOne(debit('bet', undefined, { newConnection: true })),
      oneAnswer('bet'),
      moved(-STAKE),
    ],
  },
  {
    id: 'credit-repeated',
    rule: RESEND,
    must: 'A credit that comes again gets the stored answer, without a second effect.',
    steps: [
      sendOne(debit('bet')),
      sendOne(credit('win', undefined, { original: 'bet' })),
      sendOne(credit('win', undefined, { original: 'bet', newConnection: true })),
      oneAnswer('win'),
      moved(0n),
    ],
  },
  {
    id: 'debit-with-other-amount',
    rule: CONFLICT,
    must: 'A debit with a used op_id and another amount is a conflict, and moves nothing.',
    steps: [sendOne(debit('bet')), sendOne(debit('bet', conflict, { amount: STAKE + 1n })), moved(-STAKE)],
  },
  {
    id: 'debit-with-other-round',
    rule: CONFLICT,
    must: 'A debit with a used op_id and another round is a conflict, and moves nothing.',
    steps: [sendOne(debit('bet')), sendOne(debit('bet', conflict, { round: 'other-round' })), moved(-STAKE)],
  },
  {
    id: 'credit-with-other-amount',
    rule: CONFLICT,
    must: 'A credit with a used op_id and another amount is a conflict, and moves nothing.',
    steps: [
      sendOne(debit('bet')),
      sendOne(credit('win', undefined, { original: 'bet' })),
      sendOne(credit('win', conflict, { original: 'bet', amount: STAKE * 2n })),
      moved(0n),
    ],
  },
  {
    id: 'op-id-of-another-action',
    rule: CONFLICT,
    must: 'A credit with the op_id of a debit is a conflict, and moves nothing.',
    steps: [sendOne(debit('bet')), sendOne(credit('bet', conflict)), moved(-STAKE)],
  },
  {
    id: 'debit-cut-after-request',
    rule: RESEND,
    must: 'A debit whose connection breaks before the answer takes the stake once, however often it comes again.',
    steps: cutThenSent((op) => debit(op), -STAKE),
  },
  {
    id: 'credit-cut-after-request',
    rule: RESEND,
    must: 'A credit whose connection breaks before the answer pays once, however often it comes again.',
    steps: cutThenSent((op) => credit(op), STAKE),
  },
  {
    id: 'debit-cut-in-request',
    rule: RESEND,
    must: 'Half a debit has no effect. The whole one after it takes the stake once.',
    steps: [
      sendOne(debit('bet', unread, { cut: 'half_request' })),
      moved(0n),
      sendOne(debit('bet')),
      moved(-STAKE),
    ],
  },
  {
    id: 'debit-cut-at-reply',
    rule: RESEND,
    must: 'A debit whose connection breaks within the answer takes the stake once.',
    steps: [sendOne(debit('bet', unread, { cut: 'at_reply' })), sendOne(debit('bet')), moved(-STAKE)],
  },
];

const bet = debit('bet');
const undo = rollback('undo', 'bet');

/** The calls of one round, and the rollback of each, the last first. */
const VOIDED_WIN = credit('win', undefined, { amount: 150n, original: 'bet-1' });
const VOIDED = [debit('bet-1'), debit('bet-2'), VOIDED_WIN];
const VOIDS = [
  rollback('void-win', 'win', undefined, { amount: 150n }),
  rollback('void-2', 'bet-2'),
  rollback('void-1', 'bet-1'),
];

export const ROLLED_BACK: readonly Scenario[] = [
  {
    id: 'rollback-returns-stake',
    rule: ROLLBACK,
    must: 'The rollback of a debit returns its stake.',
    steps: [sendOne(bet), moved(-STAKE), sendOne(undo), moved(0n)],
  },
  {
    id: 'rollback-in-parallel',
    rule: RESEND,
    must: 'The same rollback twenty times at once returns the stake once, and has one answer.',
    steps: [sendOne(bet), times(20, undo), oneAnswer('undo'), moved(0n)],
  },
  {
    id: 'rollback-twice',
    rule: '7.3: ERROR_CODE_ALREADY_ROLLED_BACK',
    must: 'A second rollback of a debit, with another op_id, returns nothing.',
    steps: [
      sendOne(bet),
      sendOne(undo),
      sendOne(
        rollback('undo-again', 'bet', { type: 'ok_or_refused', codes: ['ERROR_CODE_ALREADY_ROLLED_BACK'] }),
      ),
      moved(0n),
    ],
  },
  {
    id: 'rollback-cut-after-request',
    rule: RESEND,
    must: 'A rollback whose connection breaks before the answer returns the stake once.',
    steps: [
      sendOne(bet),
      sendOne({ ...undo, cut: 'after_request', expect: unread }),
      sendOne(undo),
      moved(0n),
    ],
  },
  {
    id: 'rollback-of-unknown',
    rule: '7.3: ERROR_CODE_UNKNOWN_ORIGINAL is never for a rollback',
    must: 'The rollback of a debit that the wallet never had is accepted, and moves nothing.',
    steps: [sendOne(rollback('undo', 'never-sent')), moved(0n)],
  },
  {
    id: 'rollback-before-debit',
    rule: '7.3: ERROR_CODE_ALREADY_ROLLED_BACK',
    must: 'A debit that comes after its own rollback is refused, and takes nothing.',
    steps: [sendOne(undo), sendOne(debit('bet', refused('ERROR_CODE_ALREADY_ROLLED_BACK'))), moved(0n)],
  },
  {
    id: 'debit-after-rollback',
    rule: '7.3: ERROR_CODE_ALREADY_ROLLED_BACK',
    must: 'A debit that was taken, rolled back, and comes again takes nothing.',
    steps: [
      sendOne(bet),
      sendOne(undo),
      sendOne(debit('bet', { type: 'ok_or_refused', codes: ['ERROR_CODE_ALREADY_ROLLED_BACK'] })),
      moved(0n),
    ],
  },
  {
    id: 'debit-races-its-rollback',
    rule: ROLLBACK,
    must: 'A debit and its rollback at once leave the balance as it was, whichever is first.',
    steps: [
      {
        type: 'together',
        calls: Array.from({ length: 10 }, (_, i) => [
          debit(`bet-${i}`, { type: 'ok_or_refused', codes: ['ERROR_CODE_ALREADY_ROLLED_BACK'] }),
          rollback(`undo-${i}`, `bet-${i}`),
        ]).flat(),
      },
      moved(0n),
    ],
  },
  {
    id: 'rollback-of-refused-debit',
    rule: ROLLBACK,
    must: 'The rollback of a debit that was refused returns nothing.',
    steps: [
      sendOne(
        debit('bet', refused('ERROR_CODE_INSUFFICIENT_FUNDS'), { player: 'poor', amount: 'more_than_all' }),
      ),
      sendOne(rollback('undo', 'bet', undefined, { player: 'poor', amount: 'more_than_all' })),
      moved(0n, 'poor'),
    ],
  },
  {
    id: 'rollback-of-credit',
    rule: '7.3: a credit rollback under DEBIT_MODE_REJECT',
    must: 'The rollback of a credit takes it back once.',
    steps: [
      sendOne(credit('bonus')),
      moved(STAKE),
      sendOne(rollback('undo', 'bonus')),
      sendOne(rollback('undo', 'bonus')),
      moved(0n),
    ],
  },
  {
    id: 'rollback-of-spent-win',
    rule: '7.3: ERROR_CODE_INSUFFICIENT_FUNDS for a credit rollback under DEBIT_MODE_REJECT',
    must: 'The rollback of a win that the player has spent takes the whole win back, or is refused and takes nothing.',
    steps: [
      sendOne(credit('bonus', undefined, { player: 'poor' })),
      sendOne(debit('bet', undefined, { player: 'poor', amount: 'more_than_all' })),
      sendOne(
        rollback(
          'undo',
          'bonus',
          { type: 'ok_or_refused', codes: ['ERROR_CODE_INSUFFICIENT_FUNDS'] },
          { player: 'poor' },
        ),
      ),
      sendOne(rollback('undo-bet', 'bet', undefined, { player: 'poor', amount: 'more_than_all' })),
      { type: 'balance_among', changes: [0n, STAKE], player: 'poor' },
      sendOne(
        rollback(
          'undo-again',
          'bonus',
          { type: 'ok_or_refused', codes: ['ERROR_CODE_ALREADY_ROLLED_BACK'] },
          { player: 'poor' },
        ),
      ),
      moved(0n, 'poor'),
    ],
  },
  {
    id: 'void-round',
    rule: '4.2: rollback transaction',
    must: 'A round whose bets and wins are all rolled back, the last first, leaves the balance as it was.',
    steps: [...VOIDED.map(sendOne), moved(150n - 2n * STAKE), ...VOIDS.map(sendOne), moved(0n)],
  },
  {
    id: 'void-round-win-again',
    rule: '8: stored answer per op_id',
    must: 'A win that comes again after its rollback gets its stored answer or a refusal, and pays nothing.',
    steps: [
      ...[...VOIDED, ...VOIDS].map(sendOne),
      sendOne({
        ...VOIDED_WIN,
        expect: { type: 'ok_or_refused', codes: ['ERROR_CODE_ALREADY_ROLLED_BACK'] },
      }),
      moved(0n),
    ],
  },
  {
    id: 'reconcile-known',
    rule: '4.2: reconcile uncertain transaction',
    must: 'A reconcile of a debit that the wallet has is answered, and moves nothing.',
    steps: [
      sendOne(bet),
      sendOne(call('reconcile', 'ask', undefined, { original: 'bet', round: 'round' })),
      moved(-STAKE),
    ],
  },
  {
    id: 'reconcile-unknown',
    rule: '7.3: ERROR_CODE_UNKNOWN_ORIGINAL is never for a reconcile',
    must: 'A reconcile of a debit that the wallet never had is answered without ERROR_CODE_UNKNOWN_ORIGINAL.',
    steps: [
      sendOne(
        call(
          'reconcile',
          'ask',
          { type: 'never', codes: ['ERROR_CODE_UNKNOWN_ORIGINAL'] },
          { original: 'never-sent', round: 'round' },
        ),
      ),
      moved(0n),
    ],
  },
];
