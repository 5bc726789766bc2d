-- Adds an index for time ranges of rounds and anomalies: promo.rounds and promo.anomalies by opened_at.
--
-- Locks: workers wait to write rounds until the index is built, and are undecided after 5 s; readers go on.
-- Time: one read of rounds, 1 s for 4 million of them (800 MB). With many millions, build the index before,
-- which blocks nobody:
--   create index concurrently rounds_opened_at on promo_store.rounds using brin (opened_at
--     timestamptz_minmax_multi_ops (values_per_range = 16)) with (pages_per_range = 256, autosummarize = on)
-- An interrupted build leaves an invalid index. The migration drops it first, which waits for running
-- readers, and others wait behind it. Safe while older workers run: they do not use the index.

-- An interrupted concurrent build leaves an invalid index behind.
do $$
begin
  if exists (select from pg_index where indexrelid = to_regclass('promo_store.rounds_opened_at') and not indisvalid) then
    drop index promo_store.rounds_opened_at;
  end if;
end $$;
-- Rounds lie in the order in which they were opened, except a few that left their page when they changed.
-- These may go to any page with room, and a single interval of a range would then span their whole age. A
-- change of a round leaves opened_at as it is, and adds nothing to this index. Rounds are kept forever and
-- vacuums of them are rare, so a range is summarized as soon as it is full.
create index if not exists rounds_opened_at on promo_store.rounds using brin (opened_at timestamptz_minmax_multi_ops (values_per_range = 16))
  with (pages_per_range = 256, autosummarize = on);

comment on column promo.rounds.opened_at is 'When the first event of the round was decided.';
comment on column promo.anomalies.opened_at is 'When the first event of the round was decided.';
