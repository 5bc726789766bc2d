-- The events of a round are found by bloom filters, one for each range of blocks of history, no more by intervals of the numbers of rounds; and in an index of their own, since
-- whoever looks for one thing reads all of such an index, and filters take thirty times as much as where verdicts and times begin and end.
--
-- Locks: workers wait with writing history until two indexes are made, and are undecided after 5 s; readers go on. Then it takes history for a moment,
-- which waits for the readers under way, and others wait behind it. Time: two readings of history, 7 to 13 s for 20 million events (3.2 GB). Where
-- there are more, make the indexes of the months before, one after the other, which stops nobody:
--   create index concurrently on promo_store.history_2026_11 using brin (round_no int8_bloom_ops (n_distinct_per_range = 1300,
--     false_positive_rate = 0.001)) with (pages_per_range = 32)
--   create index concurrently on promo_store.history_2026_11 using brin (verdict_id, decided_at, occurred_at timestamptz_minmax_multi_ops)
--     with (pages_per_range = 128)
-- It takes those that are there, as they are, and makes the others. Safe while older workers run: they know nothing of it.

-- What builds without locks that were broken off have left behind: taken as it is, it would make the whole index one that is not used.
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
-- Rounds are asked for by equality alone, which a bloom filter answers. An interval is as wide as the numbers in it are apart: where a hundred events
-- of a range come days after their round began, its 16 intervals are as wide as the days between these rounds, and nearly all ranges of these days
-- have to be read for each of them.
-- 32 blocks have some 1,100 to 1,900 events, of as many rounds at most. Filters for 1,300 are the largest of which three lie on a page of the index,
-- all of which every look-up reads. With 1,900 rounds in it a filter says of one range in a hundred that it may have a round which it has not.
-- Made before the old one is dropped, since from then on nobody can read history.
create index history_rounds on promo_store.history using brin (round_no int8_bloom_ops (n_distinct_per_range = 1300, false_positive_rate = 0.001))
  with (pages_per_range = 32);
create index history_order_alone on promo_store.history using brin (verdict_id, decided_at, occurred_at timestamptz_minmax_multi_ops) with (pages_per_range = 128);
-- Workers wait already, and the indexes may have taken long: rather readers wait with them for a moment than all of it be done again.
set local lock_timeout = '30s';
drop index promo_store.history_order;
alter index promo_store.history_order_alone rename to history_order;
