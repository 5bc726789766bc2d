-- After an operator has moved to another cell, new verdicts of the month fill the blocks that its rows have
-- left. Then a range of blocks has old and new verdicts. The index kept the least and the greatest number of
-- a range. So it took all numbers between them for those of the range. A look-up of one verdict of 2.7
-- million read half of the month. The index now keeps several intervals for a range.
--
-- Locks: workers wait to write history until the index is built, and are undecided after 5 s; readers go on.
-- Then it takes history for a moment, which waits for running readers, and others wait behind it. Time: one
-- read of history, 2 to 3 s for 2.4 million events (420 MB). With more than ten million events, build the
-- index of the months before, one after the other, which blocks nobody:
--   create index concurrently on promo_store.history_2026_11 using brin (verdict_id int8_minmax_multi_ops
--     (values_per_range = 16), decided_at timestamptz_minmax_multi_ops (values_per_range = 16),
--     occurred_at timestamptz_minmax_multi_ops) with (pages_per_range = 128)
-- The migration uses an existing index as it is. Safe while older workers run: queries are the same.

-- Interrupted concurrent builds leave invalid indexes behind. One of them would make the whole index invalid.
do $$
declare
  unfinished regclass;
begin
  for unfinished in
    select x.indexrelid from pg_index x join pg_inherits i on i.inhrelid = x.indrelid
    where i.inhparent = 'promo_store.history'::regclass and not x.indisvalid
  loop
    execute format('drop index %s', unfinished);
  end loop;
end $$;
-- 16 values are eight intervals: one for the verdicts of before, and one for those of each time that the
-- blocks were filled again. The new index is built before the old one is dropped, since nobody can read
-- history after the drop.
create index history_order_by_intervals on promo_store.history using brin (verdict_id int8_minmax_multi_ops (values_per_range = 16),
  decided_at timestamptz_minmax_multi_ops (values_per_range = 16), occurred_at timestamptz_minmax_multi_ops) with (pages_per_range = 128);
-- Workers wait already, and the build may have taken long. Let readers wait for a moment with them, rather
-- than repeat all of it.
set local lock_timeout = '30s';
drop index promo_store.history_order;
alter index promo_store.history_order_by_intervals rename to history_order;
-- Beside the old index, the new one of a month got another name than in months to come.
do $$
declare
  month_index record;
begin
  for month_index in
    select i.inhrelid::regclass as name, format('%s_verdict_id_decided_at_occurred_at_idx', t.relname) as usual
    from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid join pg_class c on c.oid = i.inhrelid join pg_class t on t.oid = x.indrelid
    where i.inhparent = 'promo_store.history_order'::regclass and c.relname <> format('%s_verdict_id_decided_at_occurred_at_idx', t.relname)
  loop
    execute format('alter index %s rename to %I', month_index.name, month_index.usual);
  end loop;
end $$;
