-- Positions belong to a Kafka cluster. After a move to another cluster, the same topic, partition and offset
-- are another record. With one row for both clusters, a worker reported lost records of a store that was
-- whole, and missed records that a store had lost.
--
-- Locks: takes promo_store.partitions for a moment. It waits for running batches, and for readers of the
-- table: a long query on promo.verdicts, verify, pg_dump. Time: instant, since the table has one row for each
-- Kafka partition. Safe while older workers run: their rows, and all rows before this migration, belong to
-- the first cluster. Move to another cluster only after every worker runs this version.

alter table promo_store.partitions
  add column cluster_id text not null default '',
  add column begins_at bigint,
  drop constraint partitions_topic_partition_key,
  add constraint partitions_topic_partition_cluster_id_key unique (topic, partition, cluster_id);
comment on table promo_store.partitions is 'One row for each partition of a Kafka cluster, with counters of the results of its records. The transaction that decides records also counts them.';
comment on column promo_store.partitions.partition_no is 'Number of topic and partition of a Kafka cluster in storage.';
comment on column promo_store.partitions.cluster_id is 'Id of the Kafka cluster; empty for the first cluster of this store (see first_cluster).';
comment on column promo_store.partitions.begins_at is 'The offset from which the partition was last read after a move from another cluster. Records before it were decided on that cluster. Null where there was no move.';

create table promo_store.first_cluster (
  is_first boolean primary key default true check (is_first),
  cluster_id text not null
);
comment on table promo_store.first_cluster is 'The first Kafka cluster of this store: one row, or none before the first worker of this version.';
comment on column promo_store.first_cluster.is_first is 'Always true: there is at most one row.';
comment on column promo_store.first_cluster.cluster_id is 'Id of the cluster, as its brokers give it.';

create function promo_store.claim_cluster(cluster text) returns text language plpgsql
-- A writer has no right on the table, so an existing row never changes.
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- A store that has partitions under this id began with another cluster.
  insert into promo_store.first_cluster (cluster_id) select cluster
  where not exists (select from promo_store.partitions p where p.cluster_id = cluster)
  on conflict do nothing;
  return (select f.cluster_id from promo_store.first_cluster f);
end
$$;
comment on function promo_store.claim_cluster is 'Returns the first cluster of this store, and stores the given one where there is none yet.';
revoke execute on function promo_store.claim_cluster from public;

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
  coalesce(decided_up_to, next_offset) as decided_up_to,
  case cluster_id when '' then (select f.cluster_id from promo_store.first_cluster f) else cluster_id end as kafka_cluster,
  begins_at,
  cluster_id = '' as is_first_cluster
from promo_store.partitions;
comment on view promo.partitions is 'The balance of each partition of a Kafka cluster: records_read = verdicts + duplicate_deliveries + redeliveries + dead_letters + events_without_key. After a move to another cluster a partition has a row for each of the clusters.';
comment on column promo.partitions.kafka_cluster is 'Id of the Kafka cluster. Null until a worker of this version has started.';
comment on column promo.partitions.is_first_cluster is 'Whether the partition belongs to the store''s first cluster.';
comment on column promo.partitions.begins_at is 'The offset from which the partition was last read after a move from another cluster. Records before it were decided on that cluster. Null where there was no move.';

create function promo_store.decided_offsets(topics text[], partitions int[], lows bigint[], most_gaps int, cluster text default null)
returns table (topic text, partition int, decided_up_to bigint, is_anew boolean, records bigint, offsets bigint, gaps_from bigint[], gaps_to bigint[], begins_at bigint)
language sql stable
security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
  with lines as (
    select p.*, coalesce(p.decided_up_to, p.next_offset) as up_to,
      -- After the topic was recreated, this offset belongs to the old log.
      case when p.decided_up_to is null or p.begins_at <= p.decided_up_to then p.begins_at end as begins
    from promo_store.partitions p
    where cluster is null or p.cluster_id = cluster
      or (p.cluster_id = '' and not exists (select from promo_store.first_cluster f where f.cluster_id <> cluster))
  ),
  wanted as (
    select p.partition_no, p.topic, p.partition, p.up_to as decided_up_to, p.decided_up_to is not null as is_anew,
      p.records_read - p.redeliveries as records, greatest(r.low, p.begins, 0) as low, p.begins
    from lines p left join unnest(topics, partitions, lows) r (topic, partition, low) using (topic, partition)
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
  select w.topic, w.partition, w.decided_up_to, w.is_anew, w.records, coalesce(c.offsets, 0), coalesce(g.gaps_from, '{}'), coalesce(g.gaps_to, '{}'), w.begins
  from wanted w left join counted c on c.partition_no = w.partition_no left join gaps g on g.partition_no = w.partition_no
$$;
comment on function promo_store.decided_offsets(text[], int[], bigint[], int, text) is 'How far the log of each partition of a Kafka cluster is decided, and whether the log was recreated. Also the records read for the first time, and the first offset after a move. From the low offset on: the number of offsets with a row, and the last offset without one. Without a cluster, the partitions of all clusters.';
revoke execute on function promo_store.decided_offsets(text[], int[], bigint[], int, text) from public;

-- Roles that an older `grant` made writers and readers keep their rights until `grant` runs again.
do $$
declare
  role_of_before record;
begin
  for role_of_before in
    select p.proname, case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
    from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.oid in ('promo_store.ensure_months(int)'::regprocedure, 'promo_store.decided_offsets(text[], int[], bigint[], int)'::regprocedure)
      and a.privilege_type = 'EXECUTE' and a.grantee <> p.proowner
  loop
    if role_of_before.proname = 'ensure_months' then
      execute format('grant insert (cluster_id), update (begins_at) on promo_store.partitions to %s', role_of_before.name);
      execute format('grant execute on function promo_store.claim_cluster(text) to %s', role_of_before.name);
    else
      execute format('grant execute on function promo_store.decided_offsets(text[], int[], bigint[], int, text) to %s', role_of_before.name);
    end if;
  end loop;
end
$$;
drop function promo_store.decided_offsets(text[], int[], bigint[], int);
