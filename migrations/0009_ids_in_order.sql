-- Indexes that keep the order of ids find rounds and duplicates by id, instead of hash indexes. Ids that
-- follow one another lie beside one another.
--
-- Locks: workers and readers wait for rounds and duplicates until the indexes are built; workers are
-- undecided after 5 s. Time: 8 s for 4 million rounds (762 MB) and a million duplicates (97 MB) with UUIDs of
-- version 7. With random UUIDs it is 26 s. With many millions, and no id of more than 65,536 bytes
-- (octet_length(round_id), octet_length(event_id)), build them before, which blocks nobody. Build those of
-- duplicates for each month:
--   create index concurrently rounds_id_in_order on promo_store.rounds using spgist (round_id)
--     with (fillfactor = 100)
--   create index concurrently on promo_store.resends_2026_11 using spgist (event_id)
--     with (fillfactor = 100)
-- The migration uses existing indexes as they are, and builds the others. Safe while older workers run,
-- unless a sender sends them ids of megabytes: they store them whole.

-- Lock both tables before any change. A batch that locked a round and waits to write it would wait for this
-- migration, and the migration for the batch: a deadlock.
lock table promo_store.rounds, promo_store.resends in access exclusive mode;

-- Interrupted concurrent builds leave invalid indexes behind. One of them would make the whole index invalid.
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
-- A hash index puts each id on a random page. With millions of rounds every new id changes another page, and
-- after a checkpoint Postgres writes each changed page whole to the WAL. A trie keeps ids with a common
-- beginning together, so ids of one time share pages, such as UUIDs of version 7. Among the indexes that keep
-- an order, only the trie takes ids of more than 2,700 bytes. But it splits a long id into levels, and copies
-- the rest of the id at each level, so 0008 shortened ids. Pages are filled completely, since ordered ids are
-- added at the end.
create index if not exists rounds_id_in_order on promo_store.rounds using spgist (round_id) with (fillfactor = 100);
create index resends_event_in_order on promo_store.resends using spgist (event_id) with (fillfactor = 100);
drop index promo_store.rounds_id, promo_store.resends_event;
alter index promo_store.rounds_id_in_order rename to rounds_id;
alter index promo_store.resends_event_in_order rename to resends_event;

comment on column promo_store.history.unmapped_brand is 'Brand text that is not registered for the operator. Where brand_no names the brand: empty, or null if version 0.1.0 wrote it.';
