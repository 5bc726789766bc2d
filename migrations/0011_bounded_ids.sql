-- Look-ups by round_id and by the event_id of a duplicate use B-trees of bounded keys. An id of more than
-- 1,000 bytes is indexed, and shown by the views, as its first 200 characters and its SHA-256. Before, ids
-- such as a, aa, aaa ... turned the index of ids into a chain, and each longer id walked along it. So a
-- sender could stop the writers of a store.
--
-- Locks: readers of rounds, verdicts, the ledger and duplicates wait, and workers wait, until two indexes are
-- built; workers are undecided after 5 s. Time: 5 s for 2 million rounds (340 MB) and half a million
-- duplicates, in proportion to their number, whatever their ids are. With many millions, build the indexes
-- before, which blocks nobody. Build those of duplicates for each month:
--   create index concurrently rounds_id_bounded on promo_store.rounds (("varchar"(round_id::varchar,
--     case when octet_length(round_id) <= 1000 then 1004 else 204 end, true)::text
--     || case when octet_length(round_id) <= 1000 then ''
--     when length(round_id) = 1075 and substr(round_id, 1001, 11) = '... sha256:' then right(round_id, 75)
--     else '... sha256:' || encode(sha256(decode(replace(round_id, '\', '\\'), 'escape')), 'hex') end)
--     text_pattern_ops)
--   create index concurrently on promo_store.resends_2026_11 (("varchar"(event_id::varchar,
--     case when octet_length(event_id) <= 1000 then 1004 else 204 end, true)::text
--     || case when octet_length(event_id) <= 1000 then ''
--     when length(event_id) = 1075 and substr(event_id, 1001, 11) = '... sha256:' then right(event_id, 75)
--     else '... sha256:' || encode(sha256(decode(replace(event_id, '\', '\\'), 'escape')), 'hex') end)
--     text_pattern_ops)
-- The migration uses existing indexes as they are, and builds the others. Safe while older workers run: they
-- store ids as before, and the indexes shorten them.

-- The planner puts the body of the function in place of a call, and so finds the indexes, which have the same
-- expression. For that each function in it has to be immutable, which convert_to is not. The whole has to be
-- strict, too, which a case alone is not. Otherwise Postgres joins verdicts with all rounds before it filters
-- them. The function varchar returns an id of up to 1,000 bytes unchanged, and the first 200 characters of a
-- longer one.
create or replace function promo.stored_id(id text) returns text language sql immutable parallel safe return
  "varchar"(id::varchar, case when octet_length(id) <= 1000 then 1004 else 204 end, true)::text
  || case when octet_length(id) <= 1000 then ''
  -- Rounds and duplicates already store an id of more than 65,536 bytes with its digest.
  when length(id) = 1075 and substr(id, 1001, 11) = '... sha256:' then right(id, 75)
  else '... sha256:' || encode(sha256(decode(replace(id, '\', '\\'), 'escape')), 'hex') end;
comment on function promo.stored_id is 'An id as views of rounds and duplicates show it. In place of an id of more than 1,000 bytes, its first 200 characters and its SHA-256.';

-- ---------------------------------------------------------------- what people read

-- Replace the views before the tables are locked: readers lock a view before its tables, and another order is
-- a deadlock.
create or replace view promo.verdicts as
select
  f.operator_id,
  f.feed_id,
  h.event_id,
  promo_store.verdict_name(h.outcome) as verdict,
  promo_store.reason_name(h.outcome) as reason,
  c.connection_id,
  coalesce(b.brand_id, h.unmapped_brand) as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  promo.stored_id(r.round_id) as round_id,
  h.game_id,
  h.amount_minor,
  u.code as currency,
  u.scale,
  h.amount_minor * u.unit as amount,
  h.occurred_at,
  h.decided_at,
  h.counted,
  h.verdict_id,
  h.reference_version,
  p.topic as source_topic,
  p.partition as source_partition,
  h.source_offset
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
join promo_store.connections c on c.connection_no = h.connection_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
left join promo_store.partitions p on p.partition_no = h.partition_no;

create or replace view promo.ledger as
select
  h.verdict_id * 2 as entry_id,
  f.operator_id,
  f.feed_id,
  h.event_id,
  promo.stored_id(r.round_id) as round_id,
  b.brand_id as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  u.code as currency,
  u.scale,
  coalesce(h.amount_minor, 0) as amount_minor,
  coalesce(h.amount_minor * u.unit, 0) as amount,
  null::bigint as reverses_entry_id,
  h.decided_at as entered_at,
  h.verdict_id
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  r.refunded_by,
  promo.stored_id(r.round_id),
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  -h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  r.refunded_at,
  h.verdict_id
from promo_store.history h
join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted and r.refunded_by is not null
  -- Counted events of a round are decided between its opening and its refund. One day on each side allows for
  -- clocks that were set. So Postgres skips other months.
  and h.decided_at >= r.opened_at - interval '1 day' and h.decided_at <= coalesce(r.refunded_at, 'infinity') + interval '1 day';

create or replace view promo.deliveries as
select
  f.operator_id,
  f.feed_id,
  promo.stored_id(d.event_id) as event_id,
  c.connection_id,
  d.received_at,
  d.content_differs,
  promo_store.verdict_name(d.first_outcome) as first_verdict,
  promo_store.reason_name(d.first_outcome) as first_reason,
  p.topic as source_topic,
  p.partition as source_partition,
  d.source_offset
from promo_store.resends d
join promo_store.feeds f on f.feed_no = d.feed_no
join promo_store.connections c on c.connection_no = d.connection_no
left join promo_store.partitions p on p.partition_no = d.partition_no;

create or replace view promo.rounds as
select
  f.operator_id,
  f.feed_id,
  promo.stored_id(r.round_id) as round_id,
  r.refunded_by is not null as refunded,
  r.refunded_by,
  r.refunded_at,
  r.settled,
  b.brand_id as brand,
  s.currency,
  s.bet_minor * u.unit as counted_bet,
  s.win_minor * u.unit as counted_win,
  s.settled_minor * u.unit as counted_settled,
  s.below_min_bet_minor * u.unit as below_min_bet,
  case when r.refunded_by is null then s.bet_minor else 0 end as net_bet_minor,
  case when r.refunded_by is null then s.win_minor else 0 end as net_win_minor,
  case when r.refunded_by is null then s.settled_minor else 0 end as net_settled_minor,
  r.opened_at,
  u.scale
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
left join promo_store.brands b on b.brand_no = r.brand_no
left join lateral (
  select (select code from promo_store.currencies c where c.currency_no = r.currency_no) as currency,
    r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor
  union all
  select key, (value ->> 'bet')::numeric, (value ->> 'win')::numeric, (value ->> 'settled')::numeric, (value ->> 'belowMinBet')::numeric
  from jsonb_each(r.other_sums)
) s on true
left join promo_store.currencies u on u.code = s.currency;

create or replace view promo.anomalies as
select f.feed_id, promo.stored_id(r.round_id) as round_id, a.anomaly, f.operator_id, r.opened_at
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
cross join lateral (values
  ('second_settled', r.second_settled),
  ('settled_mismatch', r.settled and r.refunded_by is null and (
    r.settled_minor <> r.bet_minor + r.below_min_bet_minor
    or exists (
      select from jsonb_each(r.other_sums) o
      where (o.value ->> 'settled')::numeric <> (o.value ->> 'bet')::numeric + (o.value ->> 'belowMinBet')::numeric))),
  ('player_mismatch', r.player_mismatch),
  ('brand_mismatch', r.brand_mismatch),
  ('currency_mismatch', r.other_sums is not null)
) as a (anomaly, present)
where a.present;

comment on column promo.rounds.round_id is 'The round''s id, unique forever in its feed. An id of more than 1,000 bytes is shown as promo.stored_id returns it.';
comment on column promo.deliveries.event_id is 'The event''s id. An id of more than 1,000 bytes is shown as promo.stored_id returns it.';
comment on column promo_store.rounds.round_id is 'The round''s id. Of an id of more than 65,536 bytes the first 1,000 characters and its SHA-256.';
comment on column promo_store.resends.event_id is 'The event''s id. Of an id of more than 65,536 bytes the first 1,000 characters and its SHA-256.';

-- ---------------------------------------------------------------- indexes

-- Lock both tables before any change. A batch that locked a round and waits to write a duplicate would wait
-- for this migration, and the migration for the batch.
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
-- text_pattern_ops compares bytes, whatever the collation of the database. Ids that follow one another lie
-- beside one another, as in the indexes of 0009. A look-up or an insert takes some 20 comparisons of at most
-- 1,000 bytes each, whatever ids a sender chooses.
create index if not exists rounds_id_bounded on promo_store.rounds (("varchar"(round_id::varchar, case when octet_length(round_id) <= 1000 then 1004 else 204 end, true)::text
  || case when octet_length(round_id) <= 1000 then ''
  when length(round_id) = 1075 and substr(round_id, 1001, 11) = '... sha256:' then right(round_id, 75)
  else '... sha256:' || encode(sha256(decode(replace(round_id, '\', '\\'), 'escape')), 'hex') end) text_pattern_ops);
create index resends_event_bounded on promo_store.resends (("varchar"(event_id::varchar, case when octet_length(event_id) <= 1000 then 1004 else 204 end, true)::text
  || case when octet_length(event_id) <= 1000 then ''
  when length(event_id) = 1075 and substr(event_id, 1001, 11) = '... sha256:' then right(event_id, 75)
  else '... sha256:' || encode(sha256(decode(replace(event_id, '\', '\\'), 'escape')), 'hex') end) text_pattern_ops);
drop index promo_store.rounds_id, promo_store.resends_event;
alter index promo_store.rounds_id_bounded rename to rounds_id;
alter index promo_store.resends_event_bounded rename to resends_event;

-- Postgres keeps separate statistics of an indexed expression, from a separate sample.
create or replace function promo_store.sample_little(table_name text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  of_index text;
begin
  execute (
    select format('alter table promo_store.%I %s', table_name, string_agg(format('alter column %I set statistics 3', attname), ', '))
    from pg_attribute
    where attrelid = format('promo_store.%I', table_name)::regclass and attnum > 0 and not attisdropped
  );
  for of_index in
    select format('alter index %s alter column %s set statistics 3', x.indexrelid::regclass, a.attnum)
    from pg_index x join pg_attribute a on a.attrelid = x.indexrelid
    where x.indrelid = format('promo_store.%I', table_name)::regclass and x.indexprs is not null and x.indkey[a.attnum - 1] = 0
  loop
    execute of_index;
  end loop;
end
$$;
select promo_store.sample_little(relname) from pg_class
where relnamespace = 'promo_store'::regnamespace and relkind = 'r' and (relname = 'rounds' or relispartition);
-- Until a table is analyzed, the planner assumes 200 different values of an expression, and reads all of
-- history for the verdicts of one round.
analyze promo_store.rounds, promo_store.resends;
