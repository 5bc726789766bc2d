/**
 * The closed list of error codes. An operator's wallet answers with them, and so does the service in the
 * error body of operator calls.
 */
import { WALLET_ACTIONS, type WalletAction } from './actions';

/** The calls that a wallet may answer with a code. */
export type CodeRestriction =
  /** No restriction. */
  | 'any_call'
  /** A new bet. Wins, rollbacks and all other calls that settle are accepted all the same. */
  | 'new_bets_only'
  /** Any call but a rollback or a reconcile. */
  | 'never_rollback_or_reconcile';

export interface WalletCodeRow {
  /** Whether the service sends the call again after this code. */
  readonly isRetried: boolean;
  /** The HTTP statuses that may carry the error envelope with this code. */
  readonly statuses: readonly number[];
  readonly restriction: CodeRestriction;
  /** When a wallet returns the code. */
  readonly meaning: string;
}

export const WALLET_CODES = {
  ERROR_CODE_INSUFFICIENT_FUNDS: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning:
      'The balance is smaller than the stake. Also where the wallet rejects the rollback of a credit that the balance does not cover (`DEBIT_MODE_REJECT`).',
  },
  ERROR_CODE_PLAYER_NOT_FOUND: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning: 'The wallet does not know the player.',
  },
  ERROR_CODE_PLAYER_BLOCKED: {
    isRetried: false,
    statuses: [200],
    restriction: 'new_bets_only',
    meaning:
      'The player is blocked, disabled or self-excluded. Wins and rollbacks of the player are accepted.',
  },
  ERROR_CODE_CURRENCY_MISMATCH: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning: "The player's account has another currency, or another exponent.",
  },
  ERROR_CODE_BUSINESS_REJECTED: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning:
      "A rule of the operator's own refuses the call. Also a new bet into a round that is closed or voided.",
  },
  ERROR_CODE_UNKNOWN_ORIGINAL: {
    isRetried: false,
    statuses: [200],
    restriction: 'never_rollback_or_reconcile',
    meaning: 'A credit refers to an original transaction that the wallet does not have.',
  },
  ERROR_CODE_ALREADY_ROLLED_BACK: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning: 'The op_id was rolled back before, or its round is voided.',
  },
  ERROR_CODE_UNSUPPORTED_ACTION: {
    isRetried: false,
    statuses: [200, 404],
    restriction: 'any_call',
    meaning: 'The wallet does not implement this optional action.',
  },
  ERROR_CODE_RATE_LIMITED: {
    isRetried: true,
    statuses: [200, 429],
    restriction: 'any_call',
    meaning: 'The service sends more calls than the wallet takes.',
  },
  ERROR_CODE_MAINTENANCE: {
    isRetried: true,
    statuses: [200],
    restriction: 'any_call',
    meaning: 'The wallet is down for maintenance.',
  },
  ERROR_CODE_INVALID_REQUEST: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning:
      'The request is malformed: a field is missing, an amount is zero, negative or too large, or an enum value is unknown. Also a session call without its token.',
  },
  ERROR_CODE_SESSION_EXPIRED: {
    isRetried: false,
    statuses: [200],
    restriction: 'new_bets_only',
    meaning: 'The launch token or the session has expired.',
  },
  ERROR_CODE_LIMIT_EXCEEDED: {
    isRetried: false,
    statuses: [200],
    restriction: 'new_bets_only',
    meaning: 'The player has reached a limit of deposits or losses.',
  },
  ERROR_CODE_INTERNAL: {
    isRetried: true,
    statuses: [200, 500],
    restriction: 'any_call',
    meaning: 'The wallet failed unexpectedly.',
  },
  ERROR_CODE_IDEMPOTENCY_CONFLICT: {
    isRetried: false,
    statuses: [200],
    restriction: 'any_call',
    meaning: 'The wallet has the op_id already, with other content.',
  },
} as const satisfies Record<string, WalletCodeRow>;
export type ErrorCode = keyof typeof WALLET_CODES;

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(WALLET_CODES, value);
}

/** All codes, in the order of the table. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(WALLET_CODES).filter(isErrorCode);

/** The row of a code, with its statuses as plain numbers. */
export function walletCode(code: ErrorCode): WalletCodeRow {
  return WALLET_CODES[code];
}

/**
 * Whether the contract lets a wallet answer an action with a code.
 *
 * "New bets only" contrasts bets with calls that settle them. Balance and authentication come before a bet
 * and change nothing, so a wallet may refuse them for the same reasons. That is our reading.
 */
export function isCodeAllowed(code: ErrorCode, action: WalletAction): boolean {
  switch (WALLET_CODES[code].restriction) {
    case 'any_call':
      return true;
    case 'new_bets_only':
      return WALLET_ACTIONS[action].isNewBet || action === 'balance' || action === 'authenticate';
    case 'never_rollback_or_reconcile':
      return action !== 'rollback' && action !== 'reconcile';
  }
}
