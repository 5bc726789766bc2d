-- Views for analysts: facts, faults, records without a verdict, rounds with player and last event, months,
-- erasures and reasons. Functions explain one event and one round. History keeps the time of Kafka's record,
-- and a table by month the faults that a verdict does not name.
--
-- Locks: takes the months of promo_store.history and two views for a moment, and waits for running batches
-- and for readers of them. Workers wait with writing records without a verdict until an index is created.
-- Time: one read of promo_store.unstored, instant otherwise. Safe while older workers run: they write neither
-- the column nor the table.

-- Readers lock a view before its tables, and another order is a deadlock.
alter view promo.verdicts reset (security_barrier);
alter view promo.test_verdicts reset (security_barrier);

-- ---------------------------------------------------------------- what history did not keep

-- Four bytes less than a timestamp for each event. Kafka's time is exact to the millisecond.
alter table promo_store.history add column source_delay int;
comment on column promo_store.history.source_delay is 'Milliseconds from the timestamp of the Kafka record to decided_at, both cut to the millisecond. Null for a webhook, for a record without a timestamp, for 24 days or more, and for verdicts of older workers.';
select promo_store.sample_little(relname) from pg_class join pg_inherits on inhrelid = oid where inhparent = 'promo_store.history'::regclass;

create table promo_store.faults (
  decided_at timestamptz not null,
  verdict_id bigint not null,
  feed_no int not null,
  connection_no int not null,
  outcome smallint not null,
  place smallint not null,
  fault smallint not null,
  event_id text collate "C" not null,
  field text not null
) partition by range (decided_at);
comment on table promo_store.faults is 'The faults that history does not show: the field of an event that is malformed, and each fault behind the first one. An accepted event has none.';
comment on column promo_store.faults.decided_at is 'When the event was decided, as in history.';
comment on column promo_store.faults.verdict_id is 'The verdict.';
comment on column promo_store.faults.feed_no is 'Feed of the event.';
comment on column promo_store.faults.connection_no is 'Connection that delivered it first.';
comment on column promo_store.faults.outcome is 'Verdict and reason.';
comment on column promo_store.faults.place is 'Place of the fault among those of the event. The fault in place 1 gave the reason.';
comment on column promo_store.faults.fault is 'The reason that the fault alone would give, as a number.';
comment on column promo_store.faults.event_id is 'The event''s id.';
comment on column promo_store.faults.field is 'The field at fault, as a JSON pointer. Never its value.';
create index faults_verdict on promo_store.faults (verdict_id, place);
create index faults_order on promo_store.faults using brin (decided_at) with (pages_per_range = 32);

-- Rows lie in the order in which they were received.
create index unstored_order on promo_store.unstored using brin (received_at) with (pages_per_range = 32);

create or replace function promo_store.month_tables() returns table (parent text, month date, name text) language sql stable set search_path = pg_catalog, pg_temp as $$
  select p.relname::text, to_date(right(c.relname, 7), 'YYYY_MM'), c.relname::text
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  join pg_catalog.pg_class p on p.oid = i.inhparent
  where p.relnamespace = 'promo_store'::regnamespace and p.relname in ('history', 'resends', 'unstored', 'faults')
    and c.relname ~ '_[0-9]{4}_[0-9]{2}$'
$$;

-- One list of the function changes: so the stored text is changed in place.
do $$
declare
  before constant text := $list$array['history', 'resends', 'unstored']$list$;
  source constant text := pg_get_functiondef('promo_store.ensure_months(int)'::regprocedure);
begin
  if position(before in source) = 0 then
    raise exception 'promo_store.ensure_months is not the function of 0021_cells';
  end if;
  execute replace(source, before, $list$array['history', 'resends', 'unstored', 'faults']$list$);
end
$$;
select promo_store.ensure_months();

-- ---------------------------------------------------------------- verdicts

do $$
declare
  name text;
  mark text;
begin
  for name, mark in values ('verdicts', '<> 1'), ('test_verdicts', '= 1') loop
    execute format($view$
create or replace view promo.%I as
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
  h.source_offset,
  h.counted and r.refunded_by is null as counts_now,
  date_trunc('milliseconds', h.decided_at) - h.source_delay * interval '1 millisecond' as source_timestamp
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark %s
join promo_store.connections c on c.connection_no = h.connection_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
left join promo_store.partitions p on p.partition_no = h.partition_no$view$, name, mark);
    execute format('comment on column promo.%I.source_timestamp is %L', name, 'Timestamp of the Kafka record. decided_at less it is the time to decide, without the time that the sender needed. Null for a webhook, where it is 24 days before decided_at or more, and for verdicts from before the version that keeps it.');
  end loop;
end
$$;

-- ---------------------------------------------------------------- facts

create view promo.facts as
select
  h.verdict_id,
  f.operator_id,
  f.feed_id,
  h.event_id,
  b.brand_id as brand,
  h.player_ref,
  coalesce(a.player_ref, h.player_ref) as credited_player,
  promo_store.kind_name(h.kind) as kind,
  promo.stored_id(r.round_id) as round_id,
  h.game_id,
  u.code as currency,
  u.scale,
  coalesce(h.amount_minor, 0) as amount_minor,
  coalesce(h.amount_minor * u.unit, 0) as amount,
  case when x.round_no is null then coalesce(h.amount_minor, 0) else 0 end as net_amount_minor,
  case when x.round_no is null then coalesce(h.amount_minor * u.unit, 0) else 0 end as net_amount,
  x.round_no is not null as refunded,
  x.refunded_at,
  promo.stored_id(x.refunded_by collate "default") collate "C" as refunded_by,
  c.connection_id,
  h.occurred_at,
  date_trunc('milliseconds', h.decided_at) - h.source_delay * interval '1 millisecond' as source_timestamp,
  h.decided_at
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
left join promo_store.refunds x on x.round_no = h.round_no
left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = h.brand_no)
join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
-- Left joins: Postgres leaves out those that a query does not need.
left join promo_store.connections c on c.connection_no = h.connection_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted;
comment on view promo.facts is 'One row for each counted event, with what a refund left of it. Sum net_amount, or count where not refunded: then a refunded round is worth nothing. A row changes when its round is refunded. Kept by month; dropped months are not shown.';
comment on column promo.facts.verdict_id is 'Number of the verdict. Its entry in promo.ledger has the entry_id verdict_id times 2.';
comment on column promo.facts.operator_id is 'Operator of the event.';
comment on column promo.facts.feed_id is 'Feed of the event.';
comment on column promo.facts.event_id is 'The event''s id. No index finds it: look up by verdict_id = (select promo.verdict_id_of(feed, event)).';
comment on column promo.facts.brand is 'Brand of the event.';
comment on column promo.facts.player_ref is 'The operator''s player. An index finds it.';
comment on column promo.facts.credited_player is 'The player to whom promotions credit the event: see promo.ledger.';
comment on column promo.facts.kind is 'bet, win, settled, deposit, withdrawal or login. A settled repeats the sum of the bets of its round.';
comment on column promo.facts.round_id is 'Round of the event; null for account kinds.';
comment on column promo.facts.game_id is 'Game of the event, where it names one.';
comment on column promo.facts.currency is 'Currency code; null for login.';
comment on column promo.facts.scale is 'Decimals of the currency.';
comment on column promo.facts.amount_minor is 'Amount of the event in minor units, refunded or not; 0 for login.';
comment on column promo.facts.amount is 'The same in major units, exact.';
comment on column promo.facts.net_amount_minor is 'Amount that counts now, in minor units: 0 where the round is refunded.';
comment on column promo.facts.net_amount is 'The same in major units, exact.';
comment on column promo.facts.refunded is 'Whether the round is refunded: the event counts no longer.';
comment on column promo.facts.refunded_at is 'When the refund was decided; null where there is none.';
comment on column promo.facts.refunded_by is 'event_id of the refund, as promo.stored_id returns it.';
comment on column promo.facts.connection_id is 'Connection that delivered the event first.';
comment on column promo.facts.occurred_at is 'Time of the event, as the event states it.';
comment on column promo.facts.source_timestamp is 'Timestamp of the Kafka record: see promo.verdicts.';
comment on column promo.facts.decided_at is 'When the event was decided. An index finds ranges of it.';

-- ---------------------------------------------------------------- faults

create function promo_store.field_of(fault smallint, game_id text) returns text language sql immutable parallel safe as $$
  select case
    when fault = 3 then '/kind' when fault = 4 then '/player_ref' when fault in (5, 21, 24) then '/amount' when fault between 6 and 9 then '/brand'
    when fault = 10 then '' when fault = 20 then '/currency' when fault in (22, 23, 25) then case when game_id is null then '/game' else '/game/id' end
    when fault = 26 then '/round_id' end
$$;
comment on function promo_store.field_of is 'The field that follows from the reason of an event; null for malformed.';

create function promo_store.first_field(verdict_id bigint, outcome smallint, game_id text) returns text language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case when outcome = 2 or outcome in (23, 25) and game_id is null
    then coalesce((select x.field from promo_store.faults x where x.verdict_id = $1 and x.place = 1 limit 1), promo_store.field_of(outcome, game_id))
    else promo_store.field_of(outcome, game_id) end
$$;
comment on function promo_store.first_field is 'The field of the fault that gave an event its reason, as in promo.faults; null where it was not kept.';

create view promo.faults as
select
  h.verdict_id,
  f.operator_id,
  f.feed_id,
  promo.stored_id(h.event_id) as event_id,
  c.connection_id,
  promo_store.verdict_name(h.outcome) as verdict,
  1::smallint as place,
  promo_store.reason_name(h.outcome) as reason,
  -- The function promo_store.first_field would read the table with the rights of the reader.
  case when h.outcome = 2 or h.outcome in (23, 25) and h.game_id is null
    then coalesce((select x.field from promo_store.faults x where x.verdict_id = h.verdict_id and x.place = 1 limit 1), promo_store.field_of(h.outcome, h.game_id))
    else promo_store.field_of(h.outcome, h.game_id) end as field,
  h.decided_at
from promo_store.history h
join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
join promo_store.connections c on c.connection_no = h.connection_no
where h.outcome > 0
union all
select
  x.verdict_id,
  f.operator_id,
  f.feed_id,
  promo.stored_id(x.event_id),
  c.connection_id,
  promo_store.verdict_name(x.outcome),
  x.place,
  promo_store.reason_name(x.fault),
  x.field,
  x.decided_at
from promo_store.faults x
join promo_store.feeds f on f.feed_no = x.feed_no and f.test_mark <> 1
join promo_store.connections c on c.connection_no = x.connection_no
where x.place > 1;
comment on view promo.faults is 'One row for each fault of an event that was rejected or skipped. The fault in place 1 gave the reason; an event may have more. Kept by month; dropped months are not shown. Further faults, and the field of malformed, exist since the version that keeps them.';
comment on column promo.faults.verdict_id is 'Number of the verdict, for a join with promo.verdicts.';
comment on column promo.faults.operator_id is 'Operator of the event.';
comment on column promo.faults.feed_id is 'Feed of the event.';
comment on column promo.faults.event_id is 'The event''s id. An id of more than 1,000 bytes is shown as promo.stored_id returns it.';
comment on column promo.faults.connection_id is 'Connection that delivered it first.';
comment on column promo.faults.verdict is 'rejected or skipped.';
comment on column promo.faults.place is 'Place of the fault among those of the event, from 1. To count events, count rows of place 1.';
comment on column promo.faults.reason is 'The reason that this fault alone would give: see promo.reasons.';
comment on column promo.faults.field is 'The field at fault, as a JSON pointer such as /game/id; empty for the whole payload. Null for an event that was decided before its field was kept.';
comment on column promo.faults.decided_at is 'When the event was decided. An index finds ranges of it.';

-- ---------------------------------------------------------------- records without a verdict

create view promo.records_without_verdict as
select
  u.received_at,
  o.operator_id,
  c.connection_id,
  case when u.dead_letter is null then 'without_key' else 'dead_letter' end as result,
  case u.dead_letter when 1 then 'unclaimed' when 2 then 'schema_unknown' when 3 then 'undecodable' else 'no_idempotency_key' end as reason,
  o.is_test,
  p.topic as source_topic,
  p.partition as source_partition,
  u.source_offset
from promo_store.unstored u
join promo_store.partitions p on p.partition_no = u.partition_no
left join promo_store.connections c on c.connection_no = u.connection_no
left join promo.connections o on o.connection_id = c.connection_id;
comment on view promo.records_without_verdict is 'One row for each Kafka record that has no verdict: a dead letter, or an event without a usable event_id. It has the position of the record, never its content. Such an event of a webhook is in no table, since its sender has the answer. Kept by month; dropped months are not shown.';
comment on column promo.records_without_verdict.received_at is 'When the record was answered. An index finds ranges of it.';
comment on column promo.records_without_verdict.operator_id is 'Operator of the connection; null where no connection claimed the record, or its connection is no longer in the reference data.';
comment on column promo.records_without_verdict.connection_id is 'Connection of the record; null where none claimed it.';
comment on column promo.records_without_verdict.result is 'dead_letter: the record is in the dead-letter topic. without_key: the event has no usable event_id.';
comment on column promo.records_without_verdict.reason is 'unclaimed, schema_unknown or undecodable for a dead letter, else no_idempotency_key: see promo.reasons.';
comment on column promo.records_without_verdict.is_test is 'Whether it came by a connection for tests; null where operator_id is null.';
comment on column promo.records_without_verdict.source_topic is 'Kafka topic of the record.';
comment on column promo.records_without_verdict.source_partition is 'Kafka partition of the record.';
comment on column promo.records_without_verdict.source_offset is 'Kafka offset of the record.';

-- ---------------------------------------------------------------- rounds

create view promo.round_details as
select
  f.operator_id,
  f.feed_id,
  promo.stored_id(r.round_id) as round_id,
  case when r.refunded_by is not null then 'refunded' when r.settled then 'settled' else 'open' end as state,
  b.brand_id as brand,
  e.player_ref,
  coalesce(a.player_ref, e.player_ref) as credited_player,
  e.game_id,
  e.events,
  e.last_event_id,
  e.last_kind,
  e.last_verdict,
  e.last_decided_at,
  r.opened_at,
  r.refunded_at
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = r.brand_no
left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = r.brand_no)
left join lateral (
  select
    -- Rejected events do not belong to the round, and are shown only where there are no others.
    (array_agg(h.player_ref order by is_rejected, h.verdict_id) filter (where h.player_ref is not null))[1] as player_ref,
    (array_agg(h.game_id order by is_rejected, h.verdict_id) filter (where h.game_id is not null))[1] as game_id,
    count(*) as events,
    (array_agg(h.event_id order by h.verdict_id desc))[1] as last_event_id,
    promo_store.kind_name((array_agg(h.kind order by h.verdict_id desc))[1]) as last_kind,
    promo_store.verdict_name((array_agg(h.outcome order by h.verdict_id desc))[1]) as last_verdict,
    max(h.decided_at) as last_decided_at
  from (
    select x.*, x.outcome between 1 and 19 as is_rejected from promo_store.history x
    -- Clocks that were set: as in promo.ledger.
    where x.round_no = r.round_no and x.decided_at >= r.opened_at - interval '1 day'
    offset 0
  ) h
) e on true;
comment on view promo.round_details is 'One row for each round, with its player, game and last event. Postgres searches the events of each round by an index: ask for one round, or with a limit of a hundred. For all rounds of a time range: promo.rounds_opened.';
comment on column promo.round_details.operator_id is 'Operator of the round.';
comment on column promo.round_details.feed_id is 'Feed of the round.';
comment on column promo.round_details.round_id is 'The round''s id. An index finds it.';
comment on column promo.round_details.state is 'open: neither settled nor refunded. settled: a settled was accepted. refunded: nothing of the round counts.';
comment on column promo.round_details.brand is 'Brand of the first event of the round that was not rejected; null where there is none.';
comment on column promo.round_details.player_ref is 'Player of that event. promo.anomalies shows rounds whose events name different players. Null where the month of the events was dropped.';
comment on column promo.round_details.credited_player is 'The player to whom promotions credit the round.';
comment on column promo.round_details.game_id is 'Game of the first event that names one.';
comment on column promo.round_details.events is 'Number of verdicts on events of the round, rejected and skipped ones included, in months that are kept.';
comment on column promo.round_details.last_event_id is 'The event of the round that was decided last.';
comment on column promo.round_details.last_kind is 'Its kind.';
comment on column promo.round_details.last_verdict is 'Its verdict.';
comment on column promo.round_details.last_decided_at is 'When it was decided.';
comment on column promo.round_details.opened_at is 'When the first event of the round was decided. An index finds ranges of it.';
comment on column promo.round_details.refunded_at is 'When the round was refunded; null where it is not.';

create function promo.rounds_opened_with_players(since timestamptz, until timestamptz default 'infinity') returns setof promo.round_details
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  with chosen as materialized (
    select r.* from promo_store.rounds r where r.opened_at >= $1 and r.opened_at < $2
  ),
  of_round as (
    select
      h.round_no,
      (array_agg(h.player_ref order by h.outcome between 1 and 19, h.verdict_id) filter (where h.player_ref is not null))[1] as player_ref,
      (array_agg(h.game_id order by h.outcome between 1 and 19, h.verdict_id) filter (where h.game_id is not null))[1] as game_id,
      count(*) as events,
      (array_agg(h.event_id order by h.verdict_id desc))[1] as last_event_id,
      (array_agg(h.kind order by h.verdict_id desc))[1] as last_kind,
      (array_agg(h.outcome order by h.verdict_id desc))[1] as last_outcome,
      max(h.decided_at) as last_decided_at
    from chosen r join promo_store.history h on h.round_no = r.round_no
    where h.decided_at >= $1 - interval '1 day'
    group by h.round_no
  )
  select f.operator_id, f.feed_id, promo.stored_id(r.round_id),
    case when r.refunded_by is not null then 'refunded' when r.settled then 'settled' else 'open' end,
    b.brand_id, e.player_ref, coalesce(a.player_ref, e.player_ref), e.game_id, e.events, e.last_event_id, promo_store.kind_name(e.last_kind),
    promo_store.verdict_name(e.last_outcome), e.last_decided_at, r.opened_at, r.refunded_at
  from chosen r
  join promo_store.feeds f on f.feed_no = r.feed_no and f.test_mark <> 1
  left join promo_store.brands b on b.brand_no = r.brand_no
  left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = r.brand_no)
  left join of_round e on e.round_no = r.round_no
$$;
comment on function promo.rounds_opened_with_players is 'The rows of promo.round_details that were opened in a range of time. Reads the history since the begin of the range once. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.rounds_opened_with_players from public;

create function promo.rounds_opened(since timestamptz, until timestamptz default 'infinity')
returns table (operator_id text, feed_id text, round_id text, state text, brand text, game_id text, events bigint, last_event_id text, last_kind text, last_verdict text,
  last_decided_at timestamptz, opened_at timestamptz, refunded_at timestamptz)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select r.operator_id, r.feed_id, r.round_id, r.state, r.brand, r.game_id, r.events, r.last_event_id, r.last_kind, r.last_verdict,
    r.last_decided_at, r.opened_at, r.refunded_at
  from promo.rounds_opened_with_players($1, $2) r
$$;
comment on function promo.rounds_opened is 'The rows of promo.round_details that were opened in a range of time, without players. Reads the history since the begin of the range once.';
revoke execute on function promo.rounds_opened from public;

-- ---------------------------------------------------------------- what a copy follows

create view promo.months as
select
  case coalesce(t.parent, m.parent) when 'history' then 'verdicts' when 'resends' then 'deliveries' when 'unstored' then 'records_without_verdict' else 'faults' end as view_name,
  coalesce(t.month, m.month) as month,
  t.name is not null as is_kept,
  case when t.name is null then m.dropped_at end as dropped_at
from promo_store.month_tables() t
full join promo_store.months m on m.parent = t.parent and m.month = t.month;
comment on view promo.months is 'One row for each month of each view that is kept by month. A copy that keeps the same months deletes those that are no longer kept. The ledger and the facts have the months of the verdicts. The view is small: read all of it each time.';
comment on column promo.months.view_name is 'verdicts, deliveries, faults or records_without_verdict.';
comment on column promo.months.month is 'First day of the month, in UTC, of decided_at or received_at.';
comment on column promo.months.is_kept is 'Whether the rows of the month are kept. False: they were dropped.';
comment on column promo.months.dropped_at is 'When retention dropped the month; null where it is kept, and where it was dropped without promo.drop_months_before.';

create view promo.erasures as
select
  o.operation_no as erasure_no,
  o.request ->> 'operator' as operator_id,
  'erased:' || o.operation_no as erased_player,
  o.began_at,
  o.ended_at,
  o.ended_at is not null as is_done,
  (o.outcome ->> 'verdicts')::bigint as verdicts
from promo_store.operations o
where o.operation = 'erasure';
comment on view promo.erasures is 'One row for each erasure of a player. A copy with players replaces the player in the rows of promo.erased_verdicts(erasure_no), once the erasure is done. The view is small: read all of it each time, and note the numbers that the copy has followed.';
comment on column promo.erasures.erasure_no is 'Number of the erasure, as in promo.operations.';
comment on column promo.erasures.operator_id is 'Operator of the player.';
comment on column promo.erasures.erased_player is 'The name that the views have in place of the player.';
comment on column promo.erasures.began_at is 'When it began.';
comment on column promo.erasures.ended_at is 'When it was done; null before.';
comment on column promo.erasures.is_done is 'Whether all rows of the player are replaced. A later erasure of the same player has a number of its own.';
comment on column promo.erasures.verdicts is 'Number of verdicts in which the player was replaced. promo.erased_verdicts has fewer where retention has dropped months since.';

create function promo.erased_verdicts(erasure bigint)
returns table (verdict_id bigint, operator_id text, feed_id text, event_id text, decided_at timestamptz)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select h.verdict_id, f.operator_id, f.feed_id, h.event_id, h.decided_at
  from promo_store.history h join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
  where h.player_ref = 'erased:' || $1
$$;
comment on function promo.erased_verdicts is 'The verdicts in which an erasure replaced the player. A brand that is not registered is replaced with it. Reads the index of players.';
revoke execute on function promo.erased_verdicts from public;

-- ---------------------------------------------------------------- reasons

create view promo.reasons as
select r.precedence, r.reason, r.verdict, r.charge, r.needs_new_event_id, r.meaning, r.remedy
from (values
  (1, 'no_idempotency_key', 'rejected', 'operator', false,
    'the payload has no usable event_id. It is not valid UTF-8, not JSON or not an object, or event_id is missing, empty, not a string or not storable as text. Such an event is counted and reported, never stored.',
    'Fix the payload and send the event again.'),
  (2, 'malformed', 'rejected', 'operator', true,
    'a field has the wrong type or form, or the object is a batch. Examples: spec is not promo.event.v1, kind or occurred_at is missing, occurred_at is no RFC 3339 time with a zone. Or a round event has no round_id, or brand or player_ref is longer than 255 bytes.',
    'Fix the field and send the event with a new event_id.'),
  (3, 'op_unknown', 'rejected', 'operator', true,
    'kind is none of bet, win, settled, refund, deposit, withdrawal, login.',
    'Use one of the seven kinds and send the event with a new event_id.'),
  (4, 'no_player', 'rejected', 'operator', true,
    'player_ref is missing or empty.',
    'Name the player and send the event with a new event_id.'),
  (5, 'bad_amount', 'rejected', 'operator', true,
    'amount is missing although the kind needs it, or is no plain decimal string. Or it has more decimals than the currency, or does not fit a signed 64-bit number of minor units.',
    'Send the exact amount as a decimal string, with a new event_id.'),
  (6, 'no_brand', 'rejected', 'operator', true,
    'the connection carries several brands, but the event names no brand.',
    'Add the brand and send the event with a new event_id.'),
  (7, 'brand_unexpected', 'rejected', 'operator', true,
    'the connection carries one brand, but the event names a brand as well.',
    'Remove the brand and send the event with a new event_id.'),
  (8, 'brand_unmapped', 'rejected', 'operator', true,
    'the brand is not registered for the operator.',
    'Ask support to register the brand, then send the events with new event_ids.'),
  (9, 'operator_inactive', 'rejected', 'operator', true,
    'the brand, or its operator, is not active.',
    'Ask support to activate the brand, then send the event with a new event_id.'),
  (10, 'panic', 'rejected', 'service', true,
    'the service failed twice while it processed this event alone.',
    'Send the event_id to support. After the repair, send the event with a new event_id.'),
  (11, 'currency_unknown', 'skipped', 'operator', true,
    'currency is missing or not in the table of currencies.',
    'Use a code of the table, or ask support to add the currency. Then send the event with a new event_id.'),
  (12, 'zero_amount', 'skipped', 'nobody', true,
    'a bet or a settled of zero counts nothing.',
    'Nothing to do. A corrected event needs a new event_id.'),
  (13, 'game_denied', 'skipped', 'nobody', true,
    'the brand excludes the game from promotions.',
    'Nothing to do. A corrected event needs a new event_id.'),
  (14, 'game_not_allowed', 'skipped', 'nobody', true,
    'the brand lists the games of its promotions, but the event names none of them.',
    'Nothing to do. A corrected event needs a new event_id.'),
  (15, 'below_min_bet', 'skipped', 'nobody', true,
    'the bet is below the brand''s minimum in its currency.',
    'Nothing to do. A corrected event needs a new event_id.'),
  (16, 'game_unknown', 'skipped', 'operator', true,
    'the operator''s catalogue holds games, but the bet or settled names no active game.',
    'Add the game to the catalogue: later events of the game count then. Send this event again with a new event_id if it should count.'),
  (17, 'round_refunded', 'skipped', 'nobody', true,
    'the round was already refunded.',
    'Nothing to do. A corrected event needs a new event_id.'),
  (18, 'unclaimed', 'dead_letter', 'service', false,
    'no connection claims the record, so its verdict has no owner.',
    'Bind the topic to a connection, or have the sender set the header `connection-id`. Then send the record again to its topic.'),
  (19, 'schema_unknown', 'dead_letter', 'service', false,
    'the schema registry does not know the schema id of the record.',
    'Register the schema, or have the sender use a registered one. Then send the record again to its topic.'),
  (20, 'undecodable', 'dead_letter', 'service', false,
    'the record batch cannot be read. It is damaged, has an unknown codec or a format before Kafka 0.11, or decompresses to more than the limit. The dead letter holds the whole batch.',
    'Check the sender''s compression and the size of its batches. Then have the sender send the records of the batch again.')
) as r (precedence, reason, verdict, charge, needs_new_event_id, meaning, remedy);
comment on view promo.reasons is 'The reasons of verdicts and of dead letters, with meaning and remedy. A test compares it with the list that the service decides by.';
comment on column promo.reasons.precedence is 'Of several reasons of a verdict, the one with the lowest number is given.';
comment on column promo.reasons.reason is 'The reason, as in promo.verdicts, promo.faults and promo.records_without_verdict.';
comment on column promo.reasons.verdict is 'rejected or skipped; dead_letter for a record that gets no verdict.';
comment on column promo.reasons.charge is 'Who has to act: the operator who sent the event, the service, or nobody.';
comment on column promo.reasons.needs_new_event_id is 'Whether a corrected event needs a new event_id.';
comment on column promo.reasons.meaning is 'When the reason applies, as a clause behind "the event does not count because".';
comment on column promo.reasons.remedy is 'What to do, in the imperative.';

-- ---------------------------------------------------------------- one event, one round

create function promo_store.unknown_feed(feed text) returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select 1, null::timestamptz,
    case when f.feed_no is null then format('There is no feed %s.', quote_nullable(feed)) else format('The feed %s is for tests.', quote_literal(feed)) end,
    case when f.feed_no is null then 'A feed has the name of its operator, or operator/feed where the reference data names one.' else 'Events of tests count nowhere.' end,
    case when f.feed_no is not null then 'Read promo.test_verdicts and promo.test_deliveries.' else coalesce((
      select 'Use one of: ' || string_agg(quote_literal(n.feed_id), ', ' order by n.place) || case when max(n.feeds) > 10 then ', and others of promo.connections' else '' end || '.'
      -- Names that contain the given one, or are contained in it, come first.
      from (
        select g.feed_id, count(*) over () as feeds,
          row_number() over (order by coalesce(position(lower(g.feed_id) in lower(feed)) = 0 and position(lower(feed) in lower(g.feed_id)) = 0, true), g.feed_id) as place
        from promo_store.feeds g where g.test_mark <> 1
      ) n where n.place <= 10), 'Apply reference data first.') end
  from (select 1) one left join promo_store.feeds f on f.feed_id = feed
  where f.feed_no is null or f.test_mark = 1
$$;
comment on function promo_store.unknown_feed is 'The row of promo.explain about a feed that cannot be explained; none for any other feed.';

create function promo_store.describe_event(kind smallint, amount numeric, currency text, round_id text, game_id text, connection_id text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
  select concat_ws(' ', coalesce(promo_store.kind_name(kind), 'event'), case when amount is not null then 'of ' || amount end, currency,
    case when round_id is not null then 'in round ' || quote_literal(round_id) end, case when game_id is not null then 'on game ' || quote_literal(game_id) end,
    case when connection_id is not null then 'by connection ' || quote_literal(connection_id) end)
$$;
comment on function promo_store.describe_event is 'An event in words.';

create function promo_store.explain_outcome(outcome smallint, kind smallint, counted boolean, is_the_refund boolean, field text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select case
    when outcome <> 0 then (
      select case when field <> '' then 'At ' || field || ': ' else '' end || r.meaning from promo.reasons r where r.reason = promo_store.reason_name(outcome))
    when counted then 'It is valid, and an entry of the ledger.'
    when is_the_refund then 'A refund reverses everything that its round counted, and counts nothing itself.'
    when kind = 4 then 'The round had been refunded before. A further refund changes nothing.'
    when kind = 2 then 'The round had been refunded before. A win counts nothing then.'
    when kind = 3 then 'The round had a settled before. A second one counts nothing.'
  end
$$;
comment on function promo_store.explain_outcome is 'Why an event has its verdict, and whether it is an entry of the ledger.';

create function promo.explain(feed text, event text) returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  key promo_store.event_keys;
  h promo_store.history;
  round promo_store.rounds;
  reason promo.reasons;
  shown text;
  amount numeric;
  currency text;
  others text;
begin
  return query select * from promo_store.unknown_feed($1);
  if found then
    return;
  end if;

  select k.* into key from promo_store.event_keys k
  where k.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and k.event_key = promo_store.id_key($2);
  if not found then
    others := (
      select string_agg(quote_literal(f.feed_id), ', ' order by f.feed_id)
      from promo_store.feeds f
      cross join lateral (select from promo_store.event_keys k where k.feed_no = f.feed_no and k.event_key = promo_store.id_key($2) offset 0) k
      where f.test_mark <> 1);
    return query select 1, null::timestamptz, format('No event %s is decided in the feed %s.', quote_nullable($2), quote_literal($1)),
      case when others is null then 'It has not arrived, or its record waits, or its record got no verdict.'
        else format('The id was decided in another feed: %s. Each feed has ids of its own.', others) end,
      case when others is null then 'Ask the sender for topic, partition and offset. Compare them with promo.partitions and promo.records_without_verdict. To send the event again is safe: it counts once.'
        else 'Explain the event of that feed.' end;
    return;
  end if;

  -- Compare with a value: Postgres then finds the row by an index.
  select x.* into h from promo_store.history x where x.verdict_id = key.verdict_id;
  select r.* into round from promo_store.rounds r where r.round_no = h.round_no;
  select r.* into reason from promo.reasons r where r.reason = promo_store.reason_name(key.outcome);
  shown := promo_store.verdict_name(key.outcome) || coalesce(', ' || reason.reason, '');
  select h.amount_minor * u.unit, u.code into amount, currency from promo_store.currencies u where u.currency_no = h.currency_no;

  return query
  select row_number() over (order by s.part, s.happened_at, s.place)::int, s.happened_at, s.what_happened, s.why, s.what_next
  from (
    -- The decision.
    select 1 as part, h.decided_at as happened_at, 0 as place,
      case when h.verdict_id is null then format('Decided: %s.', shown)
        else format('Decided: %s. A %s%s.', shown, promo_store.describe_event(h.kind, amount, currency, promo.stored_id(round.round_id), h.game_id,
            (select c.connection_id from promo_store.connections c where c.connection_no = h.connection_no)),
          case when h.decided_at - h.occurred_at > interval '1 hour' then format(', decided %s after its time', date_trunc('second', h.decided_at - h.occurred_at)) else '' end) end as what_happened,
      case when h.verdict_id is null and key.outcome = 0 then 'The month of the event was dropped. Only its verdict is kept.'
        else promo_store.explain_outcome(key.outcome, h.kind, h.counted, coalesce(round.refunded_by = h.event_id, false),
          promo_store.first_field(key.verdict_id, key.outcome, h.game_id)) end as why,
      reason.remedy as what_next
    union all
    select 2, h.decided_at, x.place, format('Further fault: %s.', promo_store.reason_name(x.fault)),
      case when x.field <> '' then 'At ' || x.field || ': ' else '' end || m.meaning, 'Correct it in the same new event.'
    from promo_store.faults x left join promo.reasons m on m.reason = promo_store.reason_name(x.fault)
    where x.verdict_id = key.verdict_id and x.place > 1
    union all
    -- Later changes and deliveries.
    select 3, round.refunded_at, 0, format('Round %s was refunded by the event %s.', quote_literal(promo.stored_id(round.round_id)), quote_literal(promo.stored_id(round.refunded_by))),
      'A refund reverses everything that its round counted.', 'Nothing to do.'
    where h.counted and round.refunded_by is not null
    union all
    (select 3, d.received_at, d.place::int,
      format('Delivered again by connection %s%s.', quote_literal(d.connection_id),
        case when d.source_topic is null then '' else format(', at %s/%s offset %s', d.source_topic, d.source_partition, d.source_offset) end),
      case when d.content_differs then 'A duplicate whose content differs: two events share one event_id. The second one counts nothing.' else 'A duplicate: an event counts once.' end,
      case when d.content_differs and key.outcome = 0 then 'Give each event its own event_id.'
        when d.content_differs then format('It was %s under this id: send it under a new id.', promo_store.verdict_name(key.outcome)) else 'Nothing to do.' end
    from (
      select v.*, row_number() over (order by v.received_at) as place from promo.deliveries v
      where v.feed_id = $1 and v.event_id = promo.stored_id($2) order by v.received_at limit 20
    ) d)
    union all
    select 3, o.ended_at, 0, 'The player was erased.', 'The event names ' || h.player_ref || ' in place of the player.', 'Nothing to do.'
    from promo_store.operations o where h.player_ref ~ '^erased:[0-9]{1,18}$' and o.operation_no = substr(h.player_ref, 8)::bigint
    union all
    -- The result.
    select 4, null, 0,
      case when h.verdict_id is null then 'Whether it counts now is not known.' when h.counted and round.refunded_by is null then 'It counts' || coalesce(': ' || amount || ' ' || currency, '') || '.' else 'It counts nothing.' end,
      case when h.verdict_id is null then 'promo.rounds shows which rounds are refunded, also in months that were dropped.' when h.counted and round.refunded_by is null then 'Nothing has reversed it.'
        when h.counted then 'Its round is refunded.' else 'It is no entry of the ledger.' end,
      'Nothing to do.'
    where key.outcome = 0
  ) s
  order by 1;
end
$$;
comment on function promo.explain is 'What happened to one event, by feed_id and event_id, in order, with the cause and the next step. It explains also ids and feeds that do not exist. It shows the first 20 duplicates.';
revoke execute on function promo.explain from public;

create function promo.explain_round(feed text, round text) returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  most constant int := 200;
  r promo_store.rounds;
  kept_since constant timestamptz := (select k.since from promo_store.kept_from('history') k);
  credited promo_store.attributions;
  others text;
begin
  return query select * from promo_store.unknown_feed($1);
  if found then
    return;
  end if;

  select x.* into r from promo_store.rounds x
  where x.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and x.round_key = promo_store.id_key($2);
  select a.* into credited from promo_store.attributions a
  where a.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and a.round_key = promo_store.id_key($2);
  if r.round_no is null then
    others := (
      select string_agg(quote_literal(f.feed_id), ', ' order by f.feed_id)
      from promo_store.feeds f
      cross join lateral (select from promo_store.rounds x where x.feed_no = f.feed_no and x.round_key = promo_store.id_key($2) offset 0) x
      where f.test_mark <> 1);
    return query select 1, credited.attributed_at, format('No event of round %s is decided in the feed %s.', quote_nullable($2), quote_literal($1)),
      case when credited.feed_no is not null then 'The round has an attribution, which was set before its first event.'
        when others is null then 'None has arrived, or their records wait, or their round_id is not valid.'
        else format('The id is a round of another feed: %s. Each feed has rounds of its own.', others) end,
      case when credited.feed_no is not null then 'Wait for its events.' when others is null then 'Explain one of its events: promo.explain(feed, event).' else 'Explain the round of that feed.' end;
    return;
  end if;

  return query
  select row_number() over (order by s.part, s.happened_at, s.place)::int, s.happened_at, s.what_happened, s.why, s.what_next
  from (
    select 1 as part, r.opened_at as happened_at, 0::bigint as place, 'The months in which its first events were decided were dropped.' as what_happened,
      'Retention drops months. The sums of a round are kept forever.' as why, 'Nothing to do.' as what_next
    where r.opened_at < kept_since
    union all
    select 2, credited.attributed_at, 0::bigint, 'The round is credited to another player.', 'A launch attributed it: see promo.attributions.', 'Nothing to do.'
    where credited.feed_no is not null
    union all
    (select 2, e.decided_at, e.verdict_id,
      format('%s: %s%s.', e.event_id, promo_store.verdict_name(e.outcome) || coalesce(', ' || promo_store.reason_name(e.outcome), '') || '. A ',
        promo_store.describe_event(e.kind, e.amount_minor * u.unit, u.code, null, e.game_id, c.connection_id)),
      promo_store.explain_outcome(e.outcome, e.kind, e.counted, coalesce(r.refunded_by = e.event_id, false), promo_store.first_field(e.verdict_id, e.outcome, e.game_id)),
      coalesce(m.remedy, 'Nothing to do.')
    from (
      select h.* from promo_store.history h where h.round_no = r.round_no and h.decided_at >= r.opened_at - interval '1 day'
      order by h.verdict_id limit most
    ) e
    join promo_store.connections c on c.connection_no = e.connection_no
    left join promo_store.currencies u on u.currency_no = e.currency_no
    left join promo.reasons m on m.reason = promo_store.reason_name(e.outcome))
    union all
    select 3, r.refunded_at, 0, format('The round was refunded by the event %s.', quote_literal(promo.stored_id(r.refunded_by))), 'Everything that it counted is reversed.', 'Nothing to do.'
    where r.refunded_by is not null
    union all
    select 4, null, 0, 'It contradicts itself: ' || a.anomaly || '.',
      case a.anomaly when 'second_settled' then 'A second settled was accepted, and counts nothing.' when 'settled_mismatch' then 'The settled is not the sum of the bets.'
        when 'player_mismatch' then 'Its events name different players.' when 'brand_mismatch' then 'Its events name different brands.' else 'Its events have different currencies.' end,
      'The operator should check the events. No event was refused for it.'
    from promo.anomalies a where a.feed_id = $1 and a.round_id = promo.stored_id($2)
    union all
    select 5, null, 0,
      format('The round is %s. Counted: bets %s, wins %s, settled %s%s.', case when r.refunded_by is not null then 'refunded' when r.settled then 'settled' else 'open' end,
        s.counted_bet, s.counted_win, s.counted_settled, coalesce(' ' || s.currency, '')),
      case when r.refunded_by is not null then 'Nothing of it counts now.' else 'All of it counts now.' end,
      case when r.refunded_by is null and not r.settled then 'Wait for its settled, where the operator sends one.' else 'Nothing to do.' end
    from promo.rounds s where s.feed_id = $1 and s.round_id = promo.stored_id($2)
  ) s
  order by 1;
end
$$;
comment on function promo.explain_round is 'What happened to one round, by feed_id and round_id, in order, with the cause and the next step. It explains also ids and feeds that do not exist. It shows the first 200 events.';
revoke execute on function promo.explain_round from public;
