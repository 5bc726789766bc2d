/** The calls of operators' wallets that are not over, in numbers: for `status`, and for the metrics. */
import type { StoreAccess } from '../postgres/pool';
import { inTransaction, type Statement, type Store } from '../postgres/transaction';
import { inStore, READ_TIMEOUT_MS } from './in-store';

export interface WalletBacklog {
  /** Calls whose next attempt is planned, due or in flight. */
  readonly open: number;
  /** Calls that people have to resolve. */
  readonly unresolved: number;
  /** For how long the oldest due call has waited; 0 where none is due. */
  readonly oldestDueSeconds: number;
}

const BACKLOG: Statement = {
  name: 'wallet_backlog',
  text: 'select open::text, unresolved::text, oldest_due_seconds::text from promo.wallet_backlog',
};

/** By a connection of its own. @throws StoreError */
export function readWalletBacklog(database: string | StoreAccess): Promise<WalletBacklog> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row = []] = await query(BACKLOG.text);
    return backlogOf(row);
  });
}

/** By a connection of the pool. @throws StoreError */
export function sampleWalletBacklog(store: Store): Promise<WalletBacklog> {
  return inTransaction(store, async (session) => {
    const [row = []] = await session.query(BACKLOG, []);
    return backlogOf(row);
  });
}

function backlogOf(row: readonly unknown[]): WalletBacklog {
  const [open = 0, unresolved = 0, oldestDueSeconds = 0] = row.map(Number);
  return { open, unresolved, oldestDueSeconds };
}
