-- Rounds and duplicates are found by their ids through indexes in which ids that follow one another lie beside one another, no more by hashes.
--
-- Locks: workers and readers wait for rounds and duplicates until the indexes are made; workers are undecided after 5 s. Time: 8 s for 4 million rounds
-- (762 MB) and a million duplicates (97 MB) with UUIDs of version 7, 26 s with random ones. Where there are many millions, and none of more than 65,536 bytes among them
-- (octet_length(round_id), octet_length(event_id)), make them before, which stops nobody, those of duplicates for each month:
--   create index concurrently rounds_id_in_order on promo_store.rounds using spgist (round_id) with (fillfactor = 100)
--   create index concurrently on promo_store.resends_2026_11 using spgist (event_id) with (fillfactor = 100)
-- It takes those that are there, as they are, and makes the others. Safe while older workers run, unless somebody sends them ids of megabytes: they store them whole.

-- Both, before anything is done: a batch that has locked a round and waits to write it would be waited for in the end, and that is a deadlock.
lock table promo_store.rounds, promo_store.resends in access exclusive mode;

-- What builds without locks that were broken off have left behind: taken as it is, it would make the whole index one that is not used.
do $$
declare
  unfinished regclass;
begin
  for unfinished in
    select x.indexrelid from pg_index x left join pg_inherits i on i.inhrelid = x.indrelid
    where (x.indrelid = 'promo_store.rounds'::regclass or i.inhparent = 'promo_store.resends'::regclass) and not x.indisvalid
  loop
    execute format('drop index %s', unfinished);
  end loop;
end $$;
-- A hash puts each id on a page of its own choice, whatever the ids are: with millions of rounds every new one changes another page, which after a checkpoint is
-- written to the log whole. A trie keeps ids that begin alike together, so that those of a time, as of UUIDs of version 7, share pages. Of the
-- kinds of index that keep an order it is the one that takes ids of more than 2,700 bytes; but it takes a long id apart into one level after the other, and
-- copies what is left of it each time: that is why ids are shortened (0008). Pages are filled, as ids that are ordered come to the end.
create index if not exists rounds_id_in_order on promo_store.rounds using spgist (round_id) with (fillfactor = 100);
create index resends_event_in_order on promo_store.resends using spgist (event_id) with (fillfactor = 100);
drop index promo_store.rounds_id, promo_store.resends_event;
alter index promo_store.rounds_id_in_order rename to rounds_id;
alter index promo_store.resends_event_in_order rename to resends_event;

comment on column promo_store.history.unmapped_brand is 'Brand text that is not registered for the operator. Where brand_no names the brand: empty, or null if version 0.1.0 wrote it.';
