/**
 * Bugs that the example wallet can have on demand. Each is a mistake of real wallets, and names the
 * scenario of `promo-intake wallet-check` that catches it.
 */

export interface PlantedBug {
  readonly does: string;
  readonly caughtBy: string;
}

export const BUGS = {
  op_id_not_locked: { does: 'looks for the op_id without a lock', caughtBy: 'debit-in-parallel' },
  answer_of_credit_not_stored: { does: 'forgets the op_id of credits', caughtBy: 'credit-repeated' },
  rollbacks_in_parallel: { does: 'looks for a rollback without a lock', caughtBy: 'rollback-in-parallel' },
  content_not_compared: { does: 'answers any call by its op_id alone', caughtBy: 'debit-with-other-amount' },
  round_not_compared: { does: 'compares contents without the round', caughtBy: 'debit-with-other-round' },
  op_ids_by_action: { does: 'keeps op_ids for each action apart', caughtBy: 'op-id-of-another-action' },
  answer_lost_with_connection: {
    does: 'stores the answer only where the connection is still open',
    caughtBy: 'debit-cut-after-request',
  },
  rollback_each_time: { does: 'returns a stake for each rollback', caughtBy: 'rollback-twice' },
  rollback_of_unknown_refused: {
    does: 'refuses the rollback of an unknown debit',
    caughtBy: 'rollback-of-unknown',
  },
  rollback_of_unknown_forgotten: {
    does: 'accepts the rollback of an unknown debit, and forgets it',
    caughtBy: 'rollback-before-debit',
  },
  rolled_back_taken_again: {
    does: 'takes a debit again that was rolled back',
    caughtBy: 'debit-after-rollback',
  },
  rollback_of_refused_pays: {
    does: 'returns the stake of a debit that was refused',
    caughtBy: 'rollback-of-refused-debit',
  },
  spent_win_taken_in_part: {
    does: 'takes back what is left of a win that was spent',
    caughtBy: 'rollback-of-spent-win',
  },
  one_rollback_a_round: {
    does: 'returns one stake for each round, and no further one',
    caughtBy: 'void-round',
  },
  rolled_back_win_paid_again: {
    does: 'pays a win again that was rolled back',
    caughtBy: 'void-round-win-again',
  },
  reconcile_refuses_unknown: {
    does: 'answers a reconcile with ERROR_CODE_UNKNOWN_ORIGINAL',
    caughtBy: 'reconcile-unknown',
  },
  blocked_bets_taken: { does: 'takes bets of blocked players', caughtBy: 'blocked-bet' },
  blocked_wins_refused: { does: 'refuses wins of blocked players', caughtBy: 'blocked-win' },
  expired_bets_taken: { does: 'takes bets of expired sessions', caughtBy: 'expired-bet' },
  expired_rollbacks_refused: {
    does: 'refuses rollbacks of expired sessions',
    caughtBy: 'expired-rollback',
  },
  limited_wins_refused: { does: 'refuses wins of limited players', caughtBy: 'limited-win' },
  unknown_player_is_404: { does: 'answers 404 for an unknown player', caughtBy: 'unknown-player' },
  poor_bets_taken: { does: 'lets a balance fall below zero', caughtBy: 'poor-bet' },
  balance_checked_before_lock: {
    does: 'compares the stake with a balance that may have changed',
    caughtBy: 'bets-beyond-balance',
  },
  win_of_unknown_bet_paid: { does: 'pays a win of an unknown bet', caughtBy: 'win-of-unknown-bet' },
  closed_round_open: { does: 'takes bets into closed rounds', caughtBy: 'bet-into-closed-round' },
  atomic_in_two: { does: 'pays the win of a refused atomic call', caughtBy: 'atomic-refused' },
  zero_taken: { does: 'takes a stake of zero', caughtBy: 'zero-amount' },
  negative_taken: { does: 'takes a negative stake', caughtBy: 'negative-amount' },
  overflow_breaks: { does: 'answers 500 where an amount overflows', caughtBy: 'overflow-amount' },
  token_not_required: { does: 'takes a bet without a token', caughtBy: 'missing-token' },
  enum_not_checked: { does: 'takes any type of a bet', caughtBy: 'unknown-enum' },
  own_code: { does: 'answers a code of its own', caughtBy: 'broken-json' },
  currency_not_checked: { does: 'takes any currency', caughtBy: 'wrong-currency' },
  exponent_not_checked: { does: 'takes any exponent', caughtBy: 'wrong-exponent' },
  unknown_fields_refused: { does: 'refuses fields that it does not know', caughtBy: 'unknown-fields' },
  signature_not_checked: { does: 'takes any signature', caughtBy: 'wrong-signature' },
  unsupported_is_bare_404: {
    does: 'answers a bare 404 for an optional action',
    caughtBy: 'unsupported-notify',
  },
  old_catalogue_request_taken: {
    does: 'answers a catalogue request of any age',
    caughtBy: 'catalogue-too-old',
  },
  catalogue_limit_ignored: { does: 'answers with all games', caughtBy: 'catalogue-least-limit' },
  token_lives_a_day: { does: 'gives tokens for a day', caughtBy: 'token-expiry' },
  token_without_player: { does: 'gives tokens without a player', caughtBy: 'token-player' },
  slow: { does: 'takes 1.2 s for each debit', caughtBy: 'latency' },
} as const satisfies Record<string, PlantedBug>;

export type BugName = keyof typeof BUGS;

export function isBugName(text: string): text is BugName {
  return Object.hasOwn(BUGS, text);
}

export const BUG_NAMES: readonly BugName[] = Object.keys(BUGS).filter(isBugName);

/** The bugs of a run; none in a sound wallet. */
export type Bugs = ReadonlySet<BugName>;
