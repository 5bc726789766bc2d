-- Games of the rollups, bounded: an operator may send a game of its own with each event. And the time of
-- Kafka in promo.new_verdicts.
--
-- Locks: the index makes a slice of the rollups wait. Replaces a function, which keeps its grants. Time: one
-- reading of the ledger by day. Safe while older workers run: they need nothing of this.

create index rollup_ledger_games on promo_store.rollup_ledger (generation, day, operator_no, game_id);

comment on column promo_store.rollup_ledger.game_id is 'The game; (other games) for games beyond the limit.';
comment on column promo.ledger_daily.game_id is 'Game of the entries; null where the events name none. The first 10,000 games of an operator on a day have rows of their own. Later ones, and ids of more than 255 bytes, are counted together as (other games).';
comment on column promo_reader.ledger_daily.game_id is 'Game of the entries; null where the events name none. The first 10,000 games of an operator on a day have rows of their own. Later ones, and ids of more than 255 bytes, are counted together as (other games).';

-- The columns of a function cannot be changed: the new one gets the grants of the old one.
do $do$
declare
  grants constant text := (
    select string_agg(format('grant execute on function promo.new_verdicts(bigint, bigint, text) to %s', x.grantee::regrole), ';')
    from pg_proc p cross join lateral aclexplode(p.proacl) x
    where p.oid = 'promo.new_verdicts(bigint, bigint, text)'::regprocedure and x.grantee not in (0, p.proowner)
  );
begin
  drop function promo.new_verdicts(bigint, bigint, text);
  execute $create$
create function promo.new_verdicts(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, verdict_id bigint, operator_id text, feed_id text, event_id text, verdict text, reason text, connection_id text, brand text,
  kind text, round_id text, game_id text, amount_minor bigint, currency text, scale int, amount numeric, occurred_at timestamptz, decided_at timestamptz,
  counted boolean, reference_version int, source_topic text, source_partition int, source_offset bigint, source_timestamp timestamptz)
language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  horizon constant bigint := promo_store.horizon_of($1, $2, $3);
begin
  return query
  select v.verdict_id, v.verdict_id, v.operator_id, v.feed_id, v.event_id, v.verdict, v.reason, v.connection_id, v.brand,
    v.kind, v.round_id, v.game_id, v.amount_minor, v.currency, v.scale, v.amount, v.occurred_at, v.decided_at,
    v.counted, v.reference_version, v.source_topic, v.source_partition, v.source_offset, v.source_timestamp
  from promo.verdicts v where v.verdict_id > $1 and v.verdict_id <= horizon order by v.verdict_id;
end
$$
  $create$;
  revoke execute on function promo.new_verdicts from public;
  if grants is not null then
    execute grants;
  end if;
end
$do$;
comment on function promo.new_verdicts is 'The rows of promo.verdicts with numbers above after, in the way of promo.changes. A verdict never changes. Whether it counts now does: see promo.changes.';
