/**
 * A connection beside the one of a slice, which only reads. So a second process of Postgres works for the
 * slice.
 *
 * Both connections see the same rows. Nothing below the horizon changes but the name of a player that is
 * erased, and an erasure waits for the lock of the fold.
 */
import { DifferentServers } from '../postgres/errors';
import { inTransaction, type Session, type Statement, type Store } from '../postgres/transaction';

/** During a failover, the connection may have reached the older primary, or a standby that is behind. */
const STORE_OF_CONNECTION: Statement = {
  name: 'fold_store_of_connection',
  text: `select case when pg_is_in_recovery() then 'standby' else promo.lineage() end`,
};

/**
 * Runs `read` in a transaction of its own.
 *
 * @param lineage of the store that has the slice
 * @throws DifferentServers
 */
export function readBeside<T>(
  beside: Store,
  lineage: string,
  read: (own: Session) => Promise<T>,
): Promise<T> {
  return inTransaction(beside, async (own) => {
    const [[present] = []] = await own.query(STORE_OF_CONNECTION);
    if (present !== lineage)
      throw new DifferentServers(`a slice of the store ${lineage} was to be counted in the store ${present}`);
    return read(own);
  });
}
