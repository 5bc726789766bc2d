-- Rounds and anomalies of a range of time are found by an index: promo.rounds and promo.anomalies by opened_at.
--
-- Locks: workers wait with writing rounds until the index is made, and are undecided after 5 s; readers go on. Time: one reading of rounds, 1 s
-- for 4 million of them (800 MB). Where there are many millions, make the index before, which stops nobody:
--   create index concurrently rounds_opened_at on promo_store.rounds using brin (opened_at timestamptz_minmax_multi_ops (values_per_range = 16))
--     with (pages_per_range = 256, autosummarize = on)
-- One that such a build has left unfinished is dropped first, which waits for the readers under way, and others wait behind it.
-- Safe while older workers run: they know nothing of it.

-- What a build without locks that was broken off has left behind.
do $$
begin
  if exists (select from pg_index where indexrelid = to_regclass('promo_store.rounds_opened_at') and not indisvalid) then
    drop index promo_store.rounds_opened_at;
  end if;
end $$;
-- Rounds lie in the order in which they were opened, but for the few that had to leave their page when they changed: these may go to any page that has
-- room, and one interval of a range of pages would be as wide as they are old. A change of a round changes no opened_at, and enters nothing here.
-- Rounds are kept forever, and vacuums of them are rare: ranges are summarized as they become full.
create index if not exists rounds_opened_at on promo_store.rounds using brin (opened_at timestamptz_minmax_multi_ops (values_per_range = 16))
  with (pages_per_range = 256, autosummarize = on);

comment on column promo.rounds.opened_at is 'When the first event of the round was decided.';
comment on column promo.anomalies.opened_at is 'When the first event of the round was decided.';
