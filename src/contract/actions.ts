/**
 * The ten calls of the service to an operator's wallet. The documents name them. They show one path, that of
 * `debit`. The other paths and all payloads come from an operator's profile.
 */

export interface WalletActionRow {
  /** The purpose, in the words of the documents. */
  readonly purpose: string;
  /** Whether the call places a stake. Some codes are for such calls only. */
  readonly isNewBet: boolean;
  /** Whether the call changes money or a round. If not, a lost answer leaves nothing uncertain. */
  readonly hasEffect: boolean;
  /** The path under the wallet's base URL, where the documents show it. */
  readonly path: string | null;
}

export const WALLET_ACTIONS = {
  balance: { purpose: 'get player balance', isNewBet: false, hasEffect: false, path: null },
  authenticate: { purpose: 'authenticate player session', isNewBet: false, hasEffect: false, path: null },
  debit: {
    purpose: 'debit player balance (bet)',
    isNewBet: true,
    hasEffect: true,
    path: '/v2/wallet/debit',
  },
  credit: {
    purpose: 'credit player balance (win or bonus)',
    isNewBet: false,
    hasEffect: true,
    path: null,
  },
  debit_and_credit: { purpose: 'atomic debit and credit', isNewBet: true, hasEffect: true, path: null },
  rollback: { purpose: 'rollback transaction', isNewBet: false, hasEffect: true, path: null },
  close_round: { purpose: 'close game round', isNewBet: false, hasEffect: true, path: null },
  settle_free_rounds: { purpose: 'settle free-round grant', isNewBet: false, hasEffect: true, path: null },
  reconcile: { purpose: 'reconcile uncertain transaction', isNewBet: false, hasEffect: false, path: null },
  notify: { purpose: 'non-financial notification', isNewBet: false, hasEffect: false, path: null },
} as const satisfies Record<string, WalletActionRow>;
export type WalletAction = keyof typeof WALLET_ACTIONS;

export function isWalletAction(text: string): text is WalletAction {
  return Object.hasOwn(WALLET_ACTIONS, text);
}

/** All actions, in the order of the table. */
export const WALLET_ACTION_NAMES: readonly WalletAction[] =
  Object.keys(WALLET_ACTIONS).filter(isWalletAction);
