-- The position behind which no verdict appears any more. `promo-intake tail` reads by it: batches get their
-- numbers in order, and commit in any order.
--
-- Locks: none. Time: instant. Safe while older workers run: they need nothing of this.

create function promo.batches_in_flight(out last_batch bigint, out transactions text[], out is_replica boolean) language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  is_replica := pg_is_in_recovery();
  -- The number comes first. A transaction locks the sequence before it takes a number, and until its end. So
  -- each number up to this one belongs to a transaction that has ended, or that the second statement finds.
  select case when s.is_called then s.last_value else s.last_value - 1 end into last_batch from promo_store.batch_numbers s;
  select coalesce(array_agg(distinct l.virtualtransaction), '{}') into transactions from pg_locks l
  where l.relation = 'promo_store.batch_numbers'::regclass and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
    and l.database = (select d.oid from pg_database d where d.datname = current_database());
end
$$;
comment on function promo.batches_in_flight is 'The number of the last batch, and the transactions that may still commit batches up to it. A verdict id is the batch number times 8192, plus a place in the batch. Once none of these transactions is found any more, no further verdict appears up to that batch. On a replica the transactions are not known.';
revoke execute on function promo.batches_in_flight from public;
