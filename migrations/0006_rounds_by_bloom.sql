-- Bloom filters find the events of a round: one filter for each range of blocks of history, instead of
-- intervals of round numbers. They have an index of their own. A look-up reads all of a BRIN index, and
-- filters take thirty times the space of the minima of verdicts and times.
--
-- Locks: workers wait to write history until two indexes are built, and are undecided after 5 s; readers go
-- on. Then it takes history for a moment, which waits for running readers, and others wait behind it. Time:
-- two reads of history, 7 to 13 s for 20 million events (3.2 GB). With more events, build the indexes of the
-- months before, one after the other, which blocks nobody:
--   create index concurrently on promo_store.history_2026_11 using brin (round_no int8_bloom_ops
--     (n_distinct_per_range = 1300, false_positive_rate = 0.001)) with (pages_per_range = 32)
--   create index concurrently on promo_store.history_2026_11 using brin
--     (verdict_id, decided_at, occurred_at timestamptz_minmax_multi_ops) with (pages_per_range = 128)
-- The migration uses existing indexes as they are, and builds the others. Safe while older workers run: they
-- do not use the indexes.

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
-- Queries look rounds up by equality alone, which a bloom filter answers. An interval has to cover the
-- distance between its numbers. Where a hundred events of a range come days after their round began, the 16
-- intervals of the range cover all these days. Then each such round makes Postgres read nearly all ranges of
-- these days. 32 blocks have some 1,100 to 1,900 events, of as many rounds at most. Filters for 1,300 rounds
-- are the largest that fit three to an index page, and every look-up reads all pages. With 1,900 rounds in a
-- filter, one range in a hundred is read in vain. The new index is built before the old one is dropped, since
-- nobody can read history after the drop.
create index history_rounds on promo_store.history using brin (round_no int8_bloom_ops (n_distinct_per_range = 1300, false_positive_rate = 0.001))
  with (pages_per_range = 32);
create index history_order_alone on promo_store.history using brin (verdict_id, decided_at, occurred_at timestamptz_minmax_multi_ops) with (pages_per_range = 128);
-- Workers wait already, and the build may have taken long. Let readers wait for a moment with them, rather
-- than repeat all of it.
set local lock_timeout = '30s';
drop index promo_store.history_order;
alter index promo_store.history_order_alone rename to history_order;
