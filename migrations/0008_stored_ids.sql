-- Rounds and duplicates store an id of more than 65,536 bytes as its beginning and its digest. Their indexes
-- are going to keep the order of ids, and such an index cannot hold an id of megabytes.
--
-- Where nobody has sent such ids: no locks, and one read of rounds and duplicates, 1 s for 4 million rounds
-- (762 MB). Otherwise the tables that hold such ids are rewritten twice, with all their indexes. Meanwhile
-- workers and readers wait for rounds and duplicates, and the disk holds three times as much. Take rounds and
-- resends out of publications before. Start no dump, no verify and no other long snapshot meanwhile: a
-- rewritten table is empty to an older snapshot. Safe while older workers run: they store longer ids whole.

create function promo.stored_id(id text) returns text language sql immutable parallel safe as $$
  select case when octet_length(id) <= 65536 then id else left(id, 1000) || '... sha256:' || encode(sha256(convert_to(id, 'UTF8')), 'hex') end
$$;
comment on function promo.stored_id is 'An id as rounds and duplicates have it: itself, or in place of one of more than 65,536 bytes its first 1,000 characters and its SHA-256.';

do $$
declare
  tables regclass[];
  long regclass;
begin
  if not exists (select from promo_store.rounds where octet_length(round_id) > 65536)
    and not exists (select from promo_store.resends where octet_length(event_id) > 65536) then
    return;
  end if;
  -- Lock both tables at once, as 0009 does: a batch that locked a round may wait to write a duplicate.
  lock table promo_store.rounds, promo_store.resends in access exclusive mode;
  tables := array(
    select 'promo_store.rounds'::regclass where exists (select from promo_store.rounds where octet_length(round_id) > 65536)
    union all select distinct tableoid::regclass from promo_store.resends where octet_length(event_id) > 65536);
  update promo_store.rounds set round_id = promo.stored_id(round_id) where octet_length(round_id) > 65536;
  update promo_store.resends set event_id = promo.stored_id(event_id) where octet_length(event_id) > 65536;
  -- Rewrite twice, the second time without the rows from before. An index takes old rows, too, as long as any
  -- transaction of the server is older than the change. So long ids would still be indexed, and an id of 8 MB
  -- takes Postgres all memory of a machine.
  foreach long in array tables loop
    execute format('alter table %s set unlogged', long);
    execute format('alter table %s set logged', long);
  end loop;
end $$;

comment on column promo_store.rounds.round_id is 'The round''s id, as promo.stored_id has it.';
comment on column promo_store.resends.event_id is 'The event''s id, as promo.stored_id has it.';
comment on column promo.rounds.round_id is 'The round''s id, unique forever in its feed. One of more than 65,536 bytes as promo.stored_id has it.';
comment on column promo.verdicts.round_id is 'Round of a bet, win, settled or refund, as in promo.rounds.';
comment on column promo.deliveries.event_id is 'The event''s id. One of more than 65,536 bytes as promo.stored_id has it.';
