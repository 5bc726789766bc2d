/**
 * Empties a throwaway store: every decision, and no reference data. It refuses any other store: only the
 * server of throwaway-postgres.ts has the setting promo.throwaway.
 */
import { inTransaction, type Store } from '../postgres/transaction';

/** Tables that a new store has rows in, and those of reference data. */
const KEPT = [
  ...['migrations', 'migrations_lock', 'migrate_guard', 'months', 'player_keys', 'first_cluster', 'cell'],
  ...['currencies', 'reference_versions', 'operators', 'feeds', 'connections', 'brands'],
];

const EMPTY = {
  name: 'empty_store',
  text: `do $$
declare
  names text;
begin
  if current_setting('promo.throwaway', true) is distinct from 'on' then
    raise exception 'this store is not a throwaway one';
  end if;
  select string_agg(format('promo_store.%I', c.relname), ', ' order by c.relname) into names
  from pg_catalog.pg_class c
  where c.relnamespace = 'promo_store'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> all (array[${KEPT.map((name) => `'${name}'`).join(', ')}]);
  execute 'truncate ' || names;
end $$`,
};

/** No decision may be in flight. @throws StoreError */
export async function emptyStore(store: Store): Promise<void> {
  await inTransaction(store, (session) => session.write([EMPTY]));
}
