-- Adds how far the current log of a partition is decided, where its topic was recreated or its log was
-- truncated. Offsets restart low there, and the store's offsets of the old log are higher. Without the
-- column, a store that lost decided records of the new log goes unnoticed.
--
-- Locks: takes promo_store.partitions for a moment. It waits for running batches, and for readers of the
-- table: a long query on promo.verdicts, verify, pg_dump. Time: instant. Safe while older workers run: they
-- leave the new column null.

alter table promo_store.partitions add column decided_up_to bigint;
comment on column promo_store.partitions.next_offset is 'One past the highest offset ever decided. A record beyond it cannot have been seen before.';
comment on column promo_store.partitions.decided_up_to is 'One past the last offset decided of the log as it is now, where that is less than next_offset: the topic was made anew, or its log was cut off. Null elsewhere.';

create or replace view promo.partitions as
select
  topic,
  partition,
  next_offset,
  records_read,
  accepted + rejected + skipped as verdicts,
  accepted,
  rejected,
  skipped,
  duplicates as duplicate_deliveries,
  redeliveries,
  dead_letters,
  without_key as events_without_key,
  updated_at,
  coalesce(decided_up_to, next_offset) as decided_up_to
from promo_store.partitions;
comment on column promo.partitions.decided_up_to is 'One past the last offset decided of the log as it is now: next_offset, but where the topic was made anew or its log was cut off.';

drop function promo_store.decided_offsets;
create function promo_store.decided_offsets(topics text[], partitions int[], lows bigint[], most_gaps int)
returns table (topic text, partition int, decided_up_to bigint, is_anew boolean, records bigint, offsets bigint, gaps_from bigint[], gaps_to bigint[])
language sql stable
security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
  with wanted as (
    select p.partition_no, p.topic, p.partition, coalesce(p.decided_up_to, p.next_offset) as decided_up_to, p.decided_up_to is not null as is_anew,
      p.records_read - p.redeliveries as records, coalesce(r.low, 0) as low
    from promo_store.partitions p left join unnest(topics, partitions, lows) r (topic, partition, low) using (topic, partition)
  ),
  rows_of as (
    select partition_no, source_offset from promo_store.event_keys
    union all select partition_no, source_offset from promo_store.resends
    union all select partition_no, source_offset from promo_store.unstored
  ),
  -- Add one past the last offset, so that missing offsets at the end are a gap, too.
  decided as (
    select distinct w.partition_no, o.source_offset from wanted w join rows_of o on o.partition_no = w.partition_no
      and o.source_offset >= w.low and o.source_offset < w.decided_up_to
    union all select partition_no, decided_up_to from wanted where decided_up_to > low
  ),
  followed as (
    select w.partition_no, d.source_offset, w.decided_up_to,
      coalesce(lag(d.source_offset) over (partition by w.partition_no order by d.source_offset) + 1, w.low) as expected
    from decided d join wanted w on w.partition_no = d.partition_no
  ),
  gaps as (
    select partition_no, array_agg(expected order by expected) as gaps_from, array_agg(source_offset order by expected) as gaps_to
    from (
      select partition_no, expected, source_offset, row_number() over (partition by partition_no order by expected desc) as place
      from followed where expected < source_offset
    ) newest where place <= most_gaps group by partition_no
  ),
  counted as (
    select partition_no, count(*) filter (where source_offset < decided_up_to) as offsets from followed group by partition_no
  )
  select w.topic, w.partition, w.decided_up_to, w.is_anew, w.records, coalesce(c.offsets, 0), coalesce(g.gaps_from, '{}'), coalesce(g.gaps_to, '{}')
  from wanted w left join counted c on c.partition_no = w.partition_no left join gaps g on g.partition_no = w.partition_no
$$;
comment on function promo_store.decided_offsets is 'How far the log of each partition is decided, whether it was made anew, the records read for the first time, the offsets from a low one on that rows stand for, and the last of those in between that none stands for.';
revoke execute on function promo_store.decided_offsets from public;
