-- promo.ledger finds time ranges by the table of refunds (0014). promo.verdicts shows which verdicts count
-- now. An entry has game and time, and promo.newest_since() finds the newest verdicts. The check of stored
-- data needs a fifth of the disk that it needed.
--
-- Locks: takes promo.ledger, promo.verdicts and, for one setting, promo_store.rounds for a moment at the end.
-- Readers of the views wait meanwhile; workers wait for nothing. Time: one read of each refund, 1 s for
-- 20,000 of them, during which nobody waits. Safe while older workers run: they do not use the views, and the
-- trigger of 0014 records their refunds.

-- ---------------------------------------------------------------- refunds from before 0014

-- The trigger exists since 0014, which waited for all writers. So a refund that the trigger did not record is
-- committed, and visible here.
insert into promo_store.refunds (round_no, opened_at, refunded_at, refunded_by)
select round_no, opened_at, refunded_at, refunded_by from promo_store.rounds where refunded_by is not null
on conflict do nothing;
analyze promo_store.refunds;

-- ---------------------------------------------------------------- ranges of time

create function promo.entries_since(since timestamptz, until timestamptz default 'infinity') returns timestamptz language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  -- One day earlier, as in the view.
  select least(since, (select min(opened_at) from promo_store.refunds where refunded_at >= since and refunded_at < until) - interval '1 day')
$$;
comment on function promo.entries_since is 'A lower bound of decided_at for the entries and reversals that were entered in a time range. Where many months are kept, add it to a query of promo.ledger: where entered_at >= X and decided_at >= promo.entries_since(X). Then Postgres reads no older history.';
revoke execute on function promo.entries_since from public;


create function promo.newest_since(newest int default 1) returns timestamptz language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  looked_back interval := '1 second';
  since timestamptz;
  found_rows int;
begin
  loop
    since := now() - looked_back;
    select count(*), min(t.decided_at) into found_rows, since
    from (select h.decided_at from promo_store.history h where h.decided_at >= since order by h.decided_at desc limit greatest(newest, 1)) t;
    if found_rows >= greatest(newest, 1) or looked_back > interval '100 years' then
      return since;
    end if;
    looked_back := looked_back * 16;
  end loop;
end
$$;
comment on function promo.newest_since is 'The time since which the given number of verdicts was decided; by default the time of the newest verdict. Null where nothing is stored. The newest 50: where decided_at >= (select promo.newest_since(50)) order by decided_at desc limit 50.';
revoke execute on function promo.newest_since from public;

-- ---------------------------------------------------------------- invariants

create type promo_store.damaged_round as (round_no bigint, what text, feed_no int, round_id text);
comment on type promo_store.damaged_round is 'A damage of a round, as promo.check_invariants() collects them over its passes.';

create or replace function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
-- Stable: every statement in it sees the snapshot of the calling statement, so workers may go on meanwhile.
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
-- Read everything once and join by hashes. Statistics of a growing table may be old, and a nested loop over
-- millions of rows would not end.
set enable_nestloop = off
set jit = off
set max_parallel_workers_per_gather = 0
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  most constant int := 100;
  kept_history constant timestamptz := (select since from promo_store.kept_from('history'));
  all_duplicates constant boolean := (select all_counted from promo_store.kept_from('resends'));
  all_unstored constant boolean := (select all_counted from promo_store.kept_from('unstored'));
  last_dropped bigint := 0;
  -- A hash of the number divides rows into 256 buckets. Only buckets whose contents differ are joined.
  bad int[];
  doubled int[];
  -- The sums of rounds take memory or disk. One pass for each 2 GB of history limits both.
  passes constant int := 1 + (select coalesce(sum(pg_relation_size(i.inhrelid)), 0) / 2147483648
    from pg_inherits i where i.inhparent = 'promo_store.history'::regclass);
  found promo_store.damaged_round[] := '{}';
  found_now promo_store.damaged_round[];
  found_in_all bigint := 0;
  damages_now bigint;
begin
  -- The highest verdict_id whose month may have been dropped. Keys have no time. A number and its time are
  -- taken at nearly the same moment, so they agree to the minute.
  if kept_history > '-infinity' then
    select coalesce(max(verdict_id) filter (where decided_at < kept_history + interval '1 minute'), min(verdict_id) - 1, 9223372036854775807)
    into last_dropped from promo_store.history;
  end if;

  -- Where two events share a number in all tables, no comparison of tables finds it.
  select coalesce(array_agg(distinct hashint8(verdict_id) & 255), '{}') into doubled
  from (select verdict_id from promo_store.history group by verdict_id having count(*) > 1) d;

  -- I1. Two buckets have equal contents where their counts and sums of hashes are equal.
  select coalesce(array_agg(bucket), '{}') into bad from (
    select bucket from (
      select hashint8(verdict_id) & 255 as bucket, count(*) as rows, sum(hash_record_extended(row(verdict_id, feed_no, outcome, partition_no, source_offset,
        -- The same as promo_store.id_key without matching the pattern of a UUID, which takes longer than all
        -- the rest. An id that only looks like a UUID makes its bucket differ, and the bucket is joined.
        case
          when octet_length(event_id) < 16 then convert_to(event_id, 'UTF8')
          when event_id like '________-____-____-____-____________' and event_id = lower(event_id) then convert_to(replace(event_id, '-', ''), 'UTF8')
          else substr(sha256(convert_to(event_id, 'UTF8')), 1, 20)
        end), 0)) as hashes
      from promo_store.history where verdict_id > last_dropped group by 1
      union all
      select hashint8(verdict_id) & 255, -count(*), -sum(hash_record_extended(row(verdict_id, feed_no, outcome, partition_no, source_offset,
        case when octet_length(event_key) = 16 then convert_to(encode(event_key, 'hex'), 'UTF8') else event_key end), 0))
      from promo_store.event_keys where verdict_id > last_dropped group by 1
    ) as sides group by bucket having sum(rows) <> 0 or sum(hashes) <> 0
  ) as different;
  bad := bad || doubled;

  return query
  with kept as (
    select coalesce(min(verdict_id), 0) as first from promo_store.history
  ),
  damages as (
    select *, count(*) over () as in_all
    from (
      select verdict_id, coalesce(h.feed_no, k.feed_no) as feed_no, h.event_id, k.event_key, 1 as verdicts
      from (select * from promo_store.history where hashint8(verdict_id) & 255 = any(bad) or verdict_id <= last_dropped) h
      full join (
        select * from promo_store.event_keys
        where case when verdict_id > last_dropped then hashint8(verdict_id) & 255 = any(bad) else verdict_id >= (select first from kept) end
      ) k using (verdict_id)
      where case
        when h.verdict_id is null then verdict_id > last_dropped
        when k.verdict_id is null then true
        else h.feed_no <> k.feed_no or h.outcome <> k.outcome
          or h.partition_no is distinct from k.partition_no or h.source_offset is distinct from k.source_offset
          -- The same as promo_store.id_key, computed from the key: matching the pattern of a UUID takes
          -- longer than all the rest.
          or not case octet_length(k.event_key)
            when 16 then h.event_id = encode(k.event_key, 'hex')::uuid::text
            when 20 then k.event_key = substr(sha256(convert_to(h.event_id, 'UTF8')), 1, 20)
            else k.event_key = convert_to(h.event_id, 'UTF8')
          end
      end
      union all
      select verdict_id, min(feed_no), min(event_id), null, count(*) from promo_store.history
      where hashint8(verdict_id) & 255 = any(doubled) group by verdict_id having count(*) > 1
    ) as d
    order by verdict_id limit most
  )
  select 'I1',
    case
      when verdicts > 1 then format('%s verdicts have the verdict_id %s', verdicts, verdict_id)
      when event_id is null then format('the event is decided (verdict_id %s) and has no verdict, though its month was not dropped', verdict_id)
      when event_key is not null then format('key and verdict (verdict_id %s) of the event disagree on id, outcome or source', verdict_id)
      when exists (select from promo_store.event_keys k where k.feed_no = d.feed_no and k.event_key = promo_store.id_key(d.event_id))
        then format('the event has another verdict (verdict_id %s) than that of its key', verdict_id)
      else format('the event has a verdict (verdict_id %s) and no key: it could be decided again', verdict_id)
    end,
    f.feed_id, coalesce(event_id, promo_store.key_text(event_key)), null::text, null::text, in_all
  from damages d left join promo_store.feeds f using (feed_no);

  return query
  with counted_rows as materialized (
    select partition_no, sum(accepted) as accepted, sum(rejected) as rejected, sum(skipped) as skipped, sum(duplicates) as duplicates,
      sum(dead_letters) as dead_letters, sum(without_key) as without_key, max(last_offset) as last_offset
    from (
      select partition_no, count(*) filter (where outcome = 0), count(*) filter (where outcome between 1 and 19),
        count(*) filter (where outcome >= 20), 0, 0, 0, max(source_offset)
      from promo_store.event_keys where partition_no is not null group by partition_no
      union all
      select partition_no, 0, 0, 0, count(*), 0, 0, max(source_offset) from promo_store.resends where partition_no is not null group by partition_no
      union all
      select partition_no, 0, 0, 0, 0, count(dead_letter), count(*) - count(dead_letter), max(source_offset) from promo_store.unstored group by partition_no
      union all
      select partition_no, 0, 0, 0, duplicates, dead_letters, without_key, null from promo_store.dropped_rows
    ) as seen (partition_no, accepted, rejected, skipped, duplicates, dead_letters, without_key, last_offset)
    group by partition_no
  ),
  compared as (
    select p.topic || '/' || p.partition as source, p.partition_no, p.records_read, p.next_offset, coalesce(c.last_offset, -1) as last_offset,
      p.accepted + p.rejected + p.skipped + p.duplicates + p.redeliveries + p.dead_letters + p.without_key as became,
      n.name, n.counter, coalesce(n.found, 0) as found, n.all_there
    from promo_store.partitions p
    left join counted_rows c using (partition_no)
    cross join lateral (values
      ('accepted events', p.accepted, c.accepted, true),
      ('rejected events', p.rejected, c.rejected, true),
      ('skipped events', p.skipped, c.skipped, true),
      ('duplicate deliveries', p.duplicates, c.duplicates, all_duplicates),
      ('dead letters', p.dead_letters, c.dead_letters, all_unstored),
      ('events without key', p.without_key, c.without_key, all_unstored)
    ) as n (name, counter, found, all_there)
  ),
  damages as (
    select distinct 'I2' as invariant, format('next_offset is %s, and the record at offset %s is decided', next_offset, last_offset) as what, source
    from compared where last_offset >= next_offset
    union all
    select distinct 'I5', format('%s records were read, and %s are counted as what became of them', records_read, became), source
    from compared where records_read <> became
    union all
    select 'I5', format('%s %s are counted, and there are rows of %s%s', counter, name, found, case when all_there then '' else ' and of dropped months' end), source
    from compared where counter <> found and (all_there or counter < found)
    union all
    select 'I5', format('%s rows are of the partition number %s, which stands for no partition',
      accepted + rejected + skipped + duplicates + dead_letters + without_key, partition_no), null
    from counted_rows where partition_no not in (select partition_no from promo_store.partitions)
  )
  select invariant, what, null::text, null::text, null::text, source, count(*) over (partition by invariant)
  from damages order by invariant, source, what limit most;

  for pass in 0 .. passes - 1 loop
  with history as (
    select round_no, coalesce(currency_no, 0::smallint) as currency_no,
      coalesce(sum(amount_minor) filter (where kind = 1 and counted), 0) as bet,
      coalesce(sum(amount_minor) filter (where kind = 2 and counted), 0) as win,
      coalesce(sum(amount_minor) filter (where kind = 3 and counted), 0) as settled,
      coalesce(sum(amount_minor) filter (where outcome = 24), 0) as below_min_bet,
      count(*) filter (where kind = 3 and counted) as counted_settled,
      count(*) filter (where kind = 4 and outcome = 0) as refunds,
      min(feed_no) as first_feed, max(feed_no) as last_feed
    from promo_store.history where round_no is not null and (hashint8(round_no) & 2147483647) % passes = pass
    group by round_no, currency_no
  ),
  states as (
    select round_no, currency_no, bet_minor, win_minor, settled_minor, below_min_bet_minor from promo_store.rounds
    where currency_no is not null and (hashint8(round_no) & 2147483647) % passes = pass
    union all
    select r.round_no, u.currency_no, (o.value ->> 'bet')::numeric, (o.value ->> 'win')::numeric, (o.value ->> 'settled')::numeric,
      (o.value ->> 'belowMinBet')::numeric
    from promo_store.rounds r cross join lateral jsonb_each(r.other_sums) o join promo_store.currencies u on u.code = o.key
    where r.other_sums is not null and (hashint8(r.round_no) & 2147483647) % passes = pass
  ),
  sums as (
    select round_no, currency_no,
      sum(bet * sign) as bet, sum(win * sign) as win, sum(settled * sign) as settled, sum(below_min_bet * sign) as below_min_bet,
      sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed
    from (
      select 1 as sign, h.* from history h
      union all
      select -1, s.*, 0, 0, null, null from states s
    ) as both_sides
    group by round_no, currency_no
  ),
  rounds as (
    -- A round may be older than the kept history. Then events may be missing, and the round's sums may only
    -- be higher than those of its events.
    select round_no,
      sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed,
      bool_or(bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as differs,
      bool_or(bet > 0 or win > 0 or settled > 0 or below_min_bet > 0) as exceeds,
      min(format('bet %s, win %s, settled %s, below the minimum %s', bet, win, settled, below_min_bet))
        filter (where bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as difference
    from sums group by round_no
  ),
  refunds as (
    select r.round_no, k.event_key is not null as is_accepted
    from promo_store.rounds r
    left join promo_store.event_keys k on k.feed_no = r.feed_no and k.event_key = promo_store.id_key(r.refunded_by) and k.outcome = 0
    where r.refunded_by is not null and (hashint8(r.round_no) & 2147483647) % passes = pass
  ),
  damages as (
    select round_no, r.feed_no, r.round_id, unnest(array_remove(array[
      case when r.round_no is null then format('events of the round number %s are stored, and no such round', round_no) end,
      case when e.first_feed <> r.feed_no or e.last_feed <> r.feed_no then 'events of another feed are stored with the round' end,
      case when e.counted_settled > 1 then format('%s settled of the round are counted', e.counted_settled) end,
      case when e.counted_settled > 0 and not r.settled then 'a settled is counted, and the round does not know of it' end,
      case when e.refunds > 0 and r.refunded_by is null then 'a refund of the round is accepted, and the round is not refunded: its sum is not 0' end,
      case when not a.is_accepted or r.refunded_by is not null and r.opened_at >= kept_history and coalesce(e.refunds, 0) = 0
        then format('the round is refunded by %s, which is no accepted refund of it: its sum is 0', r.refunded_by) end,
      case when (r.refunded_by is null) <> (r.refunded_at is null) then 'the round has one of refunded_by and refunded_at' end,
      case when r.round_no is not null and case when r.opened_at >= kept_history then e.differs else e.exceeds end
        then format('its counted events are not what the round holds; they differ, in minor units of a currency, by %s', e.difference) end
    ], null)) as what
    from rounds e full join (select * from promo_store.rounds where (hashint8(round_no) & 2147483647) % passes = pass) r using (round_no) left join refunds a using (round_no)
  )
  select coalesce(array_agg(row(round_no, what, feed_no, round_id)::promo_store.damaged_round order by round_no, what) filter (where place <= most), '{}'), count(*)
  into found_now, damages_now
  from (select *, row_number() over (order by round_no, what) as place from damages) d;
  found := found || found_now;
  found_in_all := found_in_all + damages_now;
  end loop;
  return query select 'I3', d.what, f.feed_id, null::text, d.round_id, null::text, found_in_all
  from unnest(found) d left join promo_store.feeds f using (feed_no)
  order by d.round_no, d.what limit most;

  -- I4. The expected entries and the entries of the view, with the events that should have none.
  select coalesce(array_agg(bucket), '{}') into bad from (
    select bucket from (
      select hashint8(verdict_id) & 255 as bucket, count(*) as rows, sum(hash_record_extended(row(verdict_id, reverses_entry_id, amount_minor), 0)) as hashes
      from promo.ledger group by 1
      union all
      select hashint8(verdict_id) & 255, -count(*), -sum(hash_record_extended(row(verdict_id, null::bigint, coalesce(amount_minor, 0)), 0))
      from promo_store.history where counted group by 1
      union all
      select hashint8(h.verdict_id) & 255, -count(*), -sum(hash_record_extended(row(h.verdict_id, h.verdict_id * 2, -h.amount_minor), 0))
      from promo_store.history h join promo_store.rounds r using (round_no) where h.counted and r.refunded_by is not null group by 1
    ) as sides group by bucket having sum(rows) <> 0 or sum(hashes) <> 0
    union
    select hashint8(h.verdict_id) & 255 from promo_store.history h
    where h.counted and (h.outcome <> 0 or h.kind is null or h.kind = 4 or (h.kind <= 4) <> (h.round_no is not null) or (h.kind = 7) <> (h.amount_minor is null))
    union
    select hashint8(h.verdict_id) & 255 from promo_store.history h
    where h.counted and h.round_no is not null and not exists (select from promo_store.rounds r where r.round_no = h.round_no)
  ) as different;
  bad := bad || doubled;

  return query
  with entries as (
    select verdict_id, count(*) filter (where reverses_entry_id is null) as entries, count(reverses_entry_id) as reversals,
      count(*) filter (where reverses_entry_id <> verdict_id * 2) as misnamed, sum(amount_minor) as amount_minor
    from promo.ledger where hashint8(verdict_id) & 255 = any(bad) group by verdict_id
  ),
  verdicts as (
    select h.verdict_id, h.feed_no, h.event_id, h.counted, h.outcome, h.kind, h.amount_minor, r.round_id, r.refunded_by is not null as refunded
    from promo_store.history h left join promo_store.rounds r using (round_no)
    where hashint8(h.verdict_id) & 255 = any(bad)
  ),
  damages as (
    select distinct verdict_id, v.feed_no, v.event_id, v.round_id, unnest(array_remove(array[
      case when v.verdict_id is null then format('an entry belongs to no verdict (verdict_id %s)', verdict_id) end,
      case when v.counted and v.outcome <> 0 then 'an entry belongs to the event, which is not accepted' end,
      case when v.counted and (v.kind is null or v.kind = 4) then 'an entry belongs to the event, which is a refund or of no known kind' end,
      case when v.counted and (v.kind <= 4) <> (v.round_id is not null) then 'the entry has no round, or one though it is of an account kind' end,
      case when v.counted and (v.kind = 7) <> (v.amount_minor is null) then 'the entry has no amount, or one though it is a login' end,
      case when coalesce(e.entries, 0) <> v.counted::int then format('the event has %s entries', coalesce(e.entries, 0)) end,
      case when coalesce(e.reversals, 0) <> (v.counted and v.refunded)::int or e.misnamed > 0
        then format('%s reversals belong to the entry, where %s should', coalesce(e.reversals, 0), (v.counted and v.refunded)::int) end,
      case when v.refunded and e.reversals = 1 and e.amount_minor <> 0 then format('entry and reversal are not 0 together, but %s', e.amount_minor) end
    ], null)) as what
    from verdicts v full join entries e using (verdict_id)
  )
  select 'I4', what, f.feed_id, d.event_id, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by verdict_id, what limit most;
end
$$;

comment on function promo.check_invariants is 'What of the stored contradicts itself: a row for each damage found, at most 100 of an invariant, and none where everything is sound. Reads everything, some of it several times; may run beside workers, and on a replica.';

-- ---------------------------------------------------------------- what people read

-- Last, since readers of these views wait from here on.
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
  h.source_offset,
  h.counted and r.refunded_by is null as counts_now
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
  h.verdict_id,
  h.game_id,
  h.occurred_at,
  h.decided_at
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
  x.refunded_by,
  promo.stored_id(r.round_id),
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  -h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  x.refunded_at,
  h.verdict_id,
  h.game_id,
  h.occurred_at,
  h.decided_at
from promo_store.refunds x
join promo_store.history h on h.round_no = x.round_no
left join promo_store.rounds r on r.round_no = x.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
  -- Counted events of a round are decided between its opening and its refund. One day on each side allows for
  -- clocks that were set. So Postgres skips other months.
  and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day';

-- In a parallel hash join of history with rounds, all events without a round have the same hash. Postgres
-- splits their batch in vain: it wrote 17 GB for a week.
alter table promo_store.rounds set (parallel_workers = 0);
comment on column promo.ledger.game_id is 'Game of the event, where it names one.';
comment on column promo.ledger.occurred_at is 'Time of the event, as the event states it; for a reversal, the time of the reversed event.';
comment on column promo.ledger.decided_at is 'When the event was decided; for a reversal, when the reversed event was decided. With promo.entries_since it keeps a query from reading older history.';
comment on column promo.ledger.event_id is 'The counted event; for a reversal, the refund that caused it. No index finds entries by event_id alone. The entries of a counted event: see verdict_id. The reversals of a refund: where event_id = the refund and reverses_entry_id is not null.';
comment on column promo.ledger.round_id is 'Round of the entry; null for account kinds. round_id in (select ...) reads all of history; some hundred rounds are found one by one by: from (select ...) s cross join lateral (select * from promo.ledger v where v.feed_id = s.feed_id and v.round_id = s.round_id offset 0) v.';
comment on column promo.ledger.entered_at is 'When the event, or the refund, was decided. What is decided later may be seen earlier: see docs/operations.md before you copy by it. The time of the newest verdict: promo.newest_since(1). The newest entries: where entered_at >= (select promo.newest_since(50)) order by entered_at desc limit 50. Where many months are kept: see promo.entries_since.';
comment on column promo.verdicts.counts_now is 'Whether it counts now: it was counted, and its round is not refunded. Sum amounts of verdicts by this column, not by counted.';
comment on column promo.verdicts.counted is 'Whether it is an entry of promo.ledger. It stays true after a refund, since the ledger then has a reversal beside the entry. A sum of amounts by this column is too high by the refunded amounts. See counts_now.';
comment on column promo.verdicts.decided_at is 'When it was decided. Ranges of it are found by an index; max(decided_at) and order by decided_at read all of history. The time of the newest: promo.newest_since(1). The newest 50: where decided_at >= (select promo.newest_since(50)) order by decided_at desc limit 50.';
comment on column promo.verdicts.event_id is 'The event''s id, unique forever in its feed. No index leads from here, and event_id = ... reads all of history. Look one up by where verdict_id = (select promo.verdict_id_of(feed, event)), or by promo.verdict_of(feed, event).';
comment on column promo.verdicts.round_id is 'Round of a bet, win, settled or refund, as in promo.rounds. round_id in (select ...) reads all of history; some hundred rounds are found one by one by: from (select ...) s cross join lateral (select * from promo.verdicts v where v.feed_id = s.feed_id and v.round_id = s.round_id offset 0) v.';
