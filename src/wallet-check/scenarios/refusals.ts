/** Scenarios of players who may not bet, of money, and of malformed calls. */
import type { ErrorCode } from '../../contract/error-codes';
import type { PlayerKind } from '../../wallet/profile';
import {
  type Call,
  call,
  credit,
  debit,
  moved,
  refused,
  rollback,
  type Scenario,
  STAKE,
  sendOne,
} from '../scenario';

/** A player who may not bet, and whose wins and rollbacks are accepted all the same. */
const limitedTo = (player: PlayerKind, word: string, code: ErrorCode): Scenario[] => {
  const rule = `7.3: ${code} is for new bets only`;
  return [
    {
      id: `${player}-bet`,
      rule,
      must: `A bet of a player ${word} is refused, and takes nothing.`,
      steps: [sendOne(debit('bet', refused(code), { player })), moved(0n, player)],
    },
    {
      id: `${player}-win`,
      rule,
      must: `A win of a player ${word} is accepted.`,
      steps: [
        sendOne(credit('win', undefined, { player })),
        moved(STAKE, player),
        sendOne(rollback('undo', 'win', undefined, { player })),
      ],
    },
    {
      id: `${player}-rollback`,
      rule,
      must: `A rollback of a player ${word} is accepted.`,
      steps: [sendOne(rollback('undo', 'bet', undefined, { player })), moved(0n, player)],
    },
  ];
};

export const PLAYERS: readonly Scenario[] = [
  ...limitedTo('blocked', 'who is blocked', 'ERROR_CODE_PLAYER_BLOCKED'),
  ...limitedTo('expired', 'whose session has expired', 'ERROR_CODE_SESSION_EXPIRED'),
  ...limitedTo('limited', 'who has reached a limit', 'ERROR_CODE_LIMIT_EXCEEDED'),
  {
    id: 'unknown-player',
    rule: '7.3: ERROR_CODE_PLAYER_NOT_FOUND',
    must: 'A bet of an unknown player is refused, with HTTP 200 and the envelope.',
    steps: [sendOne(debit('bet', refused('ERROR_CODE_PLAYER_NOT_FOUND'), { player: 'unknown' }))],
  },
  {
    id: 'authenticate',
    rule: '4.2: authenticate player session',
    must: 'The session of a usual player is accepted, and nothing moves.',
    steps: [sendOne(call('authenticate', 'session')), moved(0n)],
  },
];

const wrong = (
  id: string,
  must: string,
  code: ErrorCode,
  details: Partial<Call>,
  rule = `7.3: ${code}`,
): Scenario => ({
  id,
  rule,
  must,
  steps: [sendOne(debit('bet', refused(code), details)), moved(0n)],
});

const INVALID = 'ERROR_CODE_INVALID_REQUEST';

export const MALFORMED: readonly Scenario[] = [
  wrong('zero-amount', 'A debit of zero is refused.', INVALID, { amount: 0n }),
  wrong('negative-amount', 'A debit of a negative amount is refused, and adds nothing.', INVALID, {
    amount: -STAKE,
  }),
  wrong('overflow-amount', 'A debit of 2^63 minor units is refused as malformed.', INVALID, {
    amount: 'overflow',
  }),
  {
    id: 'negative-credit',
    rule: `7.3: ${INVALID}`,
    must: 'A credit of a negative amount is refused, and takes nothing.',
    steps: [sendOne(credit('bonus', refused(INVALID), { amount: -STAKE })), moved(0n)],
  },
  wrong('missing-amount', 'A debit without its amount is refused.', INVALID, { without: ['amount'] }),
  wrong('missing-player', 'A debit without its player is refused.', INVALID, { without: ['player'] }),
  wrong('missing-token', 'A debit without the token of its session is refused.', INVALID, {
    without: ['token'],
  }),
  wrong('unknown-enum', 'A debit with an unknown word in a field of fixed words is refused.', INVALID, {
    unknownEnum: true,
  }),
  wrong(
    'broken-json',
    'A body that is no JSON is refused, with HTTP 200 and the envelope.',
    INVALID,
    { body: 'not_json' },
    '4.2 and 7.3: always HTTP 200 with the envelope',
  ),
  wrong('wrong-currency', 'A debit in another currency is refused.', 'ERROR_CODE_CURRENCY_MISMATCH', {
    currency: 'XTS',
  }),
  wrong('wrong-exponent', 'A debit with another exponent is refused.', 'ERROR_CODE_CURRENCY_MISMATCH', {
    exponentOff: 1,
  }),
  {
    id: 'unknown-fields',
    rule: '9: changes are additive',
    must: 'Fields that the wallet does not know are ignored, at every level.',
    steps: [sendOne(debit('bet', undefined, { unknownFields: true })), moved(-STAKE)],
  },
  {
    id: 'wrong-signature',
    rule: '5: keys of wallet calls',
    must: 'A debit with a wrong signature moves nothing.',
    steps: [sendOne(debit('bet', { type: 'not_ok' }, { wrongSignature: true })), moved(0n)],
  },
];
