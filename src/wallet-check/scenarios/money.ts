/** Scenarios of stakes, wins, rounds, and calls that do both at once. */
import type { WalletAction } from '../../contract/actions';
import {
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
} from '../scenario';

const poor = refused('ERROR_CODE_INSUFFICIENT_FUNDS');
const ATOMIC = '4.2: atomic debit and credit';

const atomic = (op: string) =>
  call('debit_and_credit', op, undefined, { amount: STAKE, win: STAKE * 3n, round: 'round' });

/** Bets of the whole balance at once: the wallet can pay one of them. */
const BETS_OF_ALL = Array.from({ length: 10 }, (_, i) =>
  debit(
    `bet-${i}`,
    { type: 'ok_or_refused', codes: ['ERROR_CODE_INSUFFICIENT_FUNDS'] },
    { player: 'poor', amount: 'all', round: `round-${i}` },
  ),
);

const DEBITS_IN_TURN = Array.from({ length: 20 }, (_, i) => debit(`bet-${i}`));

export const MONEY: readonly Scenario[] = [
  {
    id: 'bet-and-win',
    rule: '4.2: debit and credit',
    must: 'A debit takes its stake, a credit pays its amount, each exactly.',
    steps: [
      sendOne(debit('bet')),
      moved(-STAKE),
      sendOne(credit('win', undefined, { amount: 257n, original: 'bet' })),
      moved(257n - STAKE),
    ],
  },
  {
    id: 'poor-bet',
    rule: '7.3: ERROR_CODE_INSUFFICIENT_FUNDS',
    must: 'A debit of one minor unit more than the balance is refused, and takes nothing.',
    steps: [sendOne(debit('bet', poor, { player: 'poor', amount: 'more_than_all' })), moved(0n, 'poor')],
  },
  {
    id: 'bets-beyond-balance',
    rule: '7.3: ERROR_CODE_INSUFFICIENT_FUNDS',
    must: 'Of ten debits of the whole balance at once, one is accepted. The others are refused.',
    steps: [
      { type: 'together', calls: BETS_OF_ALL, accepted: 1 },
      ...BETS_OF_ALL.map(({ op, round = '' }) =>
        sendOne(rollback(`undo-${op}`, op, undefined, { player: 'poor', amount: 'all', round })),
      ),
      moved(0n, 'poor'),
    ],
  },
  {
    id: 'win-of-unknown-bet',
    rule: '7.3: ERROR_CODE_UNKNOWN_ORIGINAL',
    must: 'A credit that names an unknown original is refused, and pays nothing.',
    steps: [
      sendOne(credit('win', refused('ERROR_CODE_UNKNOWN_ORIGINAL'), { original: 'never-sent' })),
      moved(0n),
    ],
  },
  {
    id: 'bet-into-closed-round',
    rule: '7.3: ERROR_CODE_BUSINESS_REJECTED',
    must: 'A new bet into a closed round is refused, and takes nothing.',
    steps: [
      sendOne(debit('bet')),
      sendOne(call('close_round', 'close', undefined, { round: 'round' })),
      sendOne(debit('late-bet', refused('ERROR_CODE_BUSINESS_REJECTED'))),
      moved(-STAKE),
    ],
  },
  {
    id: 'round-closed-again',
    rule: '8: stored answer per op_id',
    must: 'The closing of a round that comes again gets the stored answer.',
    steps: [
      sendOne(debit('bet')),
      times(5, call('close_round', 'close', undefined, { round: 'round' })),
      oneAnswer('close'),
      moved(-STAKE),
    ],
  },
  {
    id: 'atomic',
    rule: ATOMIC,
    must: 'A debit and credit in one call moves the difference.',
    steps: [sendOne(atomic('spin')), moved(STAKE * 2n)],
  },
  {
    id: 'atomic-in-parallel',
    rule: ATOMIC,
    must: 'The same debit and credit twenty times at once takes and pays once.',
    steps: [times(20, atomic('spin')), oneAnswer('spin'), moved(STAKE * 2n)],
  },
  {
    id: 'atomic-refused',
    rule: ATOMIC,
    must: 'Where the balance does not cover the stake, neither the debit nor the credit happens.',
    steps: [
      sendOne(
        call('debit_and_credit', 'spin', poor, {
          player: 'poor',
          amount: 'more_than_all',
          win: STAKE,
          round: 'round',
        }),
      ),
      moved(0n, 'poor'),
    ],
  },
  {
    id: 'atomic-rolled-back',
    rule: ATOMIC,
    must: 'The rollback of a debit and credit undoes both.',
    steps: [sendOne(atomic('spin')), sendOne(rollback('undo', 'spin')), moved(0n)],
  },
  {
    id: 'latency',
    rule: '8: wallet answer time',
    must: 'Of twenty debits in turn, half are answered within 1 s, and all within 5 s.',
    steps: [
      { type: 'latency', calls: DEBITS_IN_TURN },
      ...DEBITS_IN_TURN.map(({ op }) => sendOne(rollback(`undo-${op}`, op))),
      moved(0n),
    ],
  },
];

/** A scenario for each action that the profile lists as `unsupported`. */
export function unsupportedScenarios(actions: Iterable<WalletAction>): Scenario[] {
  return [...actions].map((action) => ({
    id: `unsupported-${action.replaceAll('_', '-')}`,
    rule: '7.3: ERROR_CODE_UNSUPPORTED_ACTION',
    must: 'An optional action that is not implemented is refused with the envelope, by HTTP 200 or 404.',
    steps: [
      sendOne(call(action, 'optional', refused('ERROR_CODE_UNSUPPORTED_ACTION'), { unsupported: true })),
    ],
  }));
}
