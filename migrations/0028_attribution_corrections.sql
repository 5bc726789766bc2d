-- Corrections of attributions that were made by mistake, and the feed of a connection for those who
-- attribute.
--
-- Locks: takes promo_store.attributions for a moment, and waits for attributions and readers of them. Time:
-- instant. Safe while older workers run: they neither read nor write attributions.

alter table promo_store.attributions add column corrections int not null default 0;
comment on column promo_store.attributions.corrections is 'How often a person corrected the player. promo.operations has each correction.';
comment on column promo_store.attributions.attributed_at is 'When it was set, or corrected last.';
comment on column promo_store.attributions.attributed_by is 'The role of the database that set it, or corrected it last.';

create or replace view promo.attributions as
select
  f.operator_id,
  f.feed_id,
  a.round_id,
  a.round_key,
  a.player_ref as credited_player,
  b.brand_id as brand,
  a.attributed_at,
  a.attributed_by,
  a.corrections
from promo_store.attributions a
join promo_store.feeds f on f.feed_no = a.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = a.brand_no;
comment on column promo.attributions.attributed_at is 'When it was set, or corrected last.';
comment on column promo.attributions.attributed_by is 'The role of the database that set it, or corrected it last.';
comment on column promo.attributions.corrections is 'How often a person corrected the player. promo.operations has each correction.';

create function promo.correct_attribution(operator text, round text, was text, player text, words text, feed text default null) returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  feed_no constant int := (select f.feed_no from promo_store.feeds f where f.feed_id = coalesce(feed, operator) and f.operator_id = operator);
  problem constant text := promo_store.attribution_problem(round, player, coalesce(feed, operator), feed_no, null, null, operator);
  old promo_store.attributions;
begin
  if coalesce(words, '') = '' then
    raise exception 'no words are given: write why the attribution was wrong, without data of players' using errcode = 'invalid_parameter_value';
  end if;
  if problem is not null then
    raise exception 'InvalidArgument: %', problem using errcode = 'invalid_parameter_value';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'attributions cannot be corrected in a transaction that is %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Use the isolation level read committed. An older snapshot does not see an erasure that has just ended.';
  end if;
  -- As promo.attribute_rounds does, so that an erasure and this function wait for each other.
  lock table promo_store.attribution_guard in row exclusive mode;
  select a.* into old from promo_store.attributions a where a.feed_no = feed_no and a.round_key = promo_store.id_key(round) for update;
  if old.feed_no is null then
    raise exception 'the round has no attribution: set one by promo.attribute_round' using errcode = 'no_data_found';
  end if;
  if old.player_ref ~ '^erased:[0-9]+$'
    or exists (select from promo_store.erased_rounds e where e.feed_no = feed_no and e.round_key = old.round_key) then
    return 'erased';
  end if;
  if old.player_ref = player then
    return 'unchanged';
  end if;
  if old.player_ref is distinct from was then
    raise exception 'the round is not credited to the player that is to be replaced: read credited_player of promo.attributions, and name this player'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  update promo_store.attributions a set player_ref = player, attributed_at = now(), attributed_by = session_user, corrections = a.corrections + 1
  where a.feed_no = feed_no and a.round_key = old.round_key;
  -- Never a player: the log is kept for good.
  insert into promo_store.operations (operation, ended_at, request, outcome)
  values ('attribution_correction', clock_timestamp(),
    jsonb_build_object('operator', operator, 'feed', coalesce(feed, operator), 'round', old.round_id, 'words', words),
    jsonb_build_object('corrections', old.corrections + 1));
  return 'corrected';
end
$$;
comment on function promo.correct_attribution is 'Replaces the player of an attribution that was made by mistake, and adds the correction to promo.operations. Returns corrected; unchanged, since the round is credited to the player; or erased, since a player of the round was erased. Fails where the round has no attribution (P0002), or another player than the one to replace (55000).';
revoke execute on function promo.correct_attribution from public;

comment on view promo.operations is 'The log of operations: retention, erasures of players, replays, corrections of attributions, moves, and reference data that was rolled back.';
comment on column promo.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay, reference_rollback, attribution_correction or move.';
comment on column promo_store.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay, reference_rollback, attribution_correction or move.';

create function promo.feed_of_connection(operator text, connection text) returns text
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select operator || case when (c ->> 'test')::boolean then '//test' else '' end || coalesce('/' || (c ->> 'feed'), '')
  from (select v.document from promo_store.reference_versions v order by v.version desc limit 1) newest
  cross join jsonb_array_elements(newest.document -> 'operators') o
  cross join jsonb_array_elements(o -> 'connections') c
  where o ->> 'id' = operator and c ->> 'id' = connection
$$;
comment on function promo.feed_of_connection is 'The feed into which a connection decides, as feed_id in promo. Null where the operator has no such connection.';
revoke execute on function promo.feed_of_connection from public;
