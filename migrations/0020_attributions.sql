-- A launch may name the player to whom promotions credit its rounds. The events of a round have the player
-- of the bonus session. promo.attribute_rounds() stores such attributions by round. Views join them when
-- they are read.
--
-- Locks: replaces two views and functions, and creates the rest. Readers of the ledger and of rounds wait
-- for a moment. Workers wait for nothing: they neither read nor lock attributions. Time: instant, and some
-- seconds for a million verdicts of erased players. Safe while older workers run, and for an older
-- erase-player, which calls the same function.

create table promo_store.attributions (
  attributed_at timestamptz not null default now(),
  feed_no int not null,
  brand_no int,
  round_key bytea not null,
  round_id text not null,
  player_ref text collate "C" not null,
  attributed_by text not null default session_user,
  -- No foreign key: it would lock rows of feeds, which workers lock, too.
  primary key (feed_no, round_key)
);
comment on table promo_store.attributions is 'The player to whom promotions credit a round, in place of the player of its events. A round may have one before its first event.';
comment on column promo_store.attributions.attributed_at is 'When it was set.';
comment on column promo_store.attributions.feed_no is 'Feed of the round.';
comment on column promo_store.attributions.brand_no is 'Events of this brand alone are credited; null: events of any brand.';
comment on column promo_store.attributions.round_key is 'Key of the round_id (see id_key).';
comment on column promo_store.attributions.round_id is 'The round''s id, as promo.stored_id returns it.';
comment on column promo_store.attributions.player_ref is 'The credited player.';
comment on column promo_store.attributions.attributed_by is 'The role of the database that set it.';
create index attributions_player on promo_store.attributions (player_ref);
create index attributions_time on promo_store.attributions (attributed_at);

create table promo_store.erased_rounds (
  feed_no int not null,
  round_key bytea not null,
  primary key (feed_no, round_key)
);
comment on table promo_store.erased_rounds is 'The rounds of erased players. They take no attribution, which would name the person behind an erased player.';
comment on column promo_store.erased_rounds.feed_no is 'Feed of the round.';
comment on column promo_store.erased_rounds.round_key is 'Key of the round_id (see id_key).';
insert into promo_store.erased_rounds (feed_no, round_key)
select distinct r.feed_no, r.round_key from promo_store.history h join promo_store.rounds r on r.round_no = h.round_no
where h.player_ref > 'erased:' and h.player_ref < 'erased;' and h.player_ref ~ '^erased:[0-9]+$';

create table promo_store.attribution_guard ();
comment on table promo_store.attribution_guard is 'Empty. Attributions and erasures lock it against each other. Several attributions go on at once, and several erasures.';

-- ---------------------------------------------------------------- setting

create function promo_store.attribution_problem(round text, player text, feed text, feed_no int, brand text, brand_no int, operator text)
returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when coalesce(player, '') = '' then 'promo_player_ref is missing or empty: name the normal player'
    when char_length(player) > 255 then format('promo_player_ref has %s characters: it may have 255', char_length(player))
    -- The characters with the Unicode property White_Space.
    when player ~ '[\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' then 'promo_player_ref has white space: remove it'
    when coalesce(round, '') = '' then 'round_id is missing or empty: name the round'
    when feed_no is null then format('the feed %s is not one of the operator %s: name a feed of the operator', feed, operator)
    when brand is not null and brand_no is null then format('the brand %s is not one of the operator %s: name a brand of the operator', brand, operator)
  end
$$;
comment on function promo_store.attribution_problem is 'Why an attribution is an InvalidArgument; null where it is valid.';

create type promo_store.wanted_attribution as (place int, feed_no int, brand_no int, round_key bytea, round_id text, player_ref text, problem text, is_erased boolean);
comment on type promo_store.wanted_attribution is 'An attribution to set: its place in the call, and why it cannot be set.';

create function promo.attribute_rounds(operator text, rounds text[], players text[], feeds text[] default null, brands text[] default null)
returns table (place int, outcome text, problem text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each statement to use its index: the planner's statistics of a growing table may be old.
set enable_seqscan = off
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  operator_no constant int := (select o.operator_no from promo_store.operators o where o.operator_id = operator);
  wanted promo_store.wanted_attribution[];
  new_keys text[];
begin
  if operator_no is null then
    raise exception 'InvalidArgument: there is no operator %', coalesce(quote_literal(operator), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name an operator of the reference data.';
  end if;
  if cardinality(rounds) is distinct from cardinality(players) or cardinality(feeds) <> cardinality(rounds) or cardinality(brands) <> cardinality(rounds) then
    raise exception 'InvalidArgument: the arrays have different lengths' using errcode = 'invalid_parameter_value', hint = 'Pass one element a round in each array, or null in place of feeds or brands.';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'attributions cannot be set in a transaction that is %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Use the isolation level read committed. An older snapshot does not see an erasure that has just ended.';
  end if;
  -- An erasure waits for this transaction, and this function for the erasure. The statements below then see
  -- all that the erasure changed.
  lock table promo_store.attribution_guard in row exclusive mode;

  wanted := (
    select array_agg(row(g.place, f.feed_no, b.brand_no, promo_store.id_key(g.round), promo.stored_id(g.round), g.player,
        promo_store.attribution_problem(g.round, g.player, coalesce(g.feed, operator), f.feed_no, g.brand, b.brand_no, operator),
        exists (select from promo_store.erased_rounds e where e.feed_no = f.feed_no and e.round_key = promo_store.id_key(g.round)
        ))::promo_store.wanted_attribution order by g.place)
    from unnest(rounds, players, feeds, brands) with ordinality g (round, player, feed, brand, place)
    left join promo_store.feeds f on f.feed_id = coalesce(g.feed, operator) and f.operator_no = operator_no
    left join promo_store.brands b on b.brand_id = g.brand and b.operator_no = operator_no
  );
  -- Concurrent calls insert in one order, so that they wait for each other without a deadlock.
  with new as (
    insert into promo_store.attributions (feed_no, brand_no, round_key, round_id, player_ref)
    select distinct on (w.feed_no, w.round_key) w.feed_no, w.brand_no, w.round_key, w.round_id, w.player_ref
    from unnest(wanted) w where w.problem is null and not w.is_erased order by w.feed_no, w.round_key, w.place
    on conflict on constraint attributions_pkey do nothing
    returning feed_no, round_key
  )
  select array_agg(n.feed_no || ':' || encode(n.round_key, 'hex')) into new_keys from new n;

  return query
  select w.place,
    case
      when w.problem is not null then 'invalid'
      when w.is_erased then 'erased'
      when a.feed_no is null then 'lost'
      when a.player_ref = w.player_ref and a.brand_no is not distinct from w.brand_no then
        case when w.turn = 1 and w.feed_no || ':' || encode(w.round_key, 'hex') = any(new_keys) then 'set' else 'unchanged' end
      when a.player_ref ~ '^erased:[0-9]+$' then 'erased'
      else 'conflict'
    end,
    case
      when w.problem is not null then w.problem
      when not w.is_erased and a.feed_no is null then 'the attribution was dropped at this moment: set it again'
      when a.player_ref <> w.player_ref and a.player_ref !~ '^erased:[0-9]+$' then 'the round is attributed to another player, which stays: correct promo_player_ref or round_id'
      when a.player_ref = w.player_ref and a.brand_no is distinct from w.brand_no then 'the round is attributed with another brand, which stays: correct the brand'
    end
  from (select *, row_number() over (partition by u.feed_no, u.round_key, u.problem is null order by u.place) as turn from unnest(wanted) u) w
  left join promo_store.attributions a on a.feed_no = w.feed_no and a.round_key = w.round_key and w.problem is null and not w.is_erased
  order by w.place;
end
$$;
comment on function promo.attribute_rounds is 'Sets the player to whom promotions credit each round, in place of the player of its events. The first one of a round stays. Outcomes: set; unchanged, since it is the same; conflict, since another one stays; invalid, an InvalidArgument. And erased: a player of the round was erased, and nothing is stored. And lost: retention dropped it at this moment.';
revoke execute on function promo.attribute_rounds from public;

create function promo.attribute_round(operator text, round text, player text, feed text default null, brand text default null) returns text
language plpgsql security invoker set search_path = pg_catalog, pg_temp
as $$
declare
  result record;
begin
  select * into result from promo.attribute_rounds(operator, array[round], array[player], array[feed], array[brand]);
  case result.outcome
    when 'invalid' then raise exception 'InvalidArgument: %', result.problem using errcode = 'invalid_parameter_value';
    when 'conflict' then raise exception '%', result.problem using errcode = 'unique_violation';
    when 'lost' then raise exception '%', result.problem using errcode = 'serialization_failure';
    else return result.outcome;
  end case;
end
$$;
comment on function promo.attribute_round is 'Sets the player to whom promotions credit one round. Returns set, unchanged or erased, as promo.attribute_rounds does. Fails with InvalidArgument (SQLSTATE 22023), or with SQLSTATE 23505 where the round has another one.';
revoke execute on function promo.attribute_round from public;

-- ---------------------------------------------------------------- erasure

create or replace function promo.erase_player(operator text, player text, most int default 10000, erasure bigint default null,
  out erasure_no bigint, out verdicts bigint, out rounds bigint, out payloads bigint, out is_done boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each statement to use its index: the planner's statistics of a growing table may be old.
set enable_seqscan = off
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  feeds constant int[] := (select array_agg(f.feed_no) from promo_store.feeds f where f.operator_id = operator);
  replacement text;
  month record;
  round_nos bigint[];
  found_rounds bigint[];
  found_verdicts bigint;
  found_keys promo_store.forgotten_key[];
  forgotten promo_store.forgotten_key[];
  found_attributions bigint;
  attributions bigint := 0;
  up_to bigint;
  last_looked bigint;
  looked bigint;
begin
  if feeds is null then
    raise exception 'there is no operator %', coalesce(quote_literal(operator), 'null') using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(player, '') = '' or coalesce(most, 0) < 1 then
    raise exception 'name a player, and how many rows to change at most' using errcode = 'invalid_parameter_value';
  end if;
  if erasure is null then
    -- The player's name is stored nowhere: it would undo the erasure.
    insert into promo_store.operations (operation, request, outcome)
    values ('erasure', jsonb_build_object('operator', operator), '{"verdicts": 0, "rounds": 0, "payloads": 0}')
    returning operation_no into erasure_no;
  else
    select o.operation_no into erasure_no from promo_store.operations o
    where o.operation_no = erasure and o.operation = 'erasure' and o.request ->> 'operator' = operator and o.role = session_user and o.ended_at is null
    for update;
    if not found then
      raise exception 'no erasure % of a player of % is under way', erasure, operator using errcode = 'invalid_parameter_value';
    end if;
  end if;
  replacement := 'erased:' || erasure_no;
  verdicts := 0;
  rounds := 0;
  payloads := 0;
  lock table promo_store.months in share mode; -- no month is made or dropped meanwhile; other erasures go on

  for month in select t.name from promo_store.month_tables() t where t.parent = 'history' order by t.month loop
    exit when verdicts >= most;
    execute format(
      'with mine as (
         update promo_store.%1$I set player_ref = $4,
           -- The sender wrote an unregistered brand, so it may contain the name of the player.
           unmapped_brand = case when brand_no is null and unmapped_brand <> %2$L then $4 else unmapped_brand end
         where ctid = any(array(select ctid from promo_store.%1$I where player_ref = $1 and feed_no = any($2) limit $3 for update))
         returning round_no, row(feed_no, promo_store.id_key(event_id), brand_no is null)::promo_store.forgotten_key as key)
       select count(*), array_agg(distinct round_no) filter (where round_no is not null), array_agg(key) from mine', month.name, '')
    into found_verdicts, found_rounds, found_keys using player, feeds, most - verdicts, replacement;
    verdicts := verdicts + found_verdicts;
    round_nos := round_nos || found_rounds;
    forgotten := forgotten || found_keys;
  end loop;
  is_done := false;

  -- An attribution names the person behind the erased player, so it is erased with the player's rounds. Wait
  -- for attributions in flight, which the next statement then sees. New ones wait for this transaction.
  lock table promo_store.attribution_guard in share mode;
  -- Other erasures go on, so write in order.
  insert into promo_store.erased_rounds (feed_no, round_key)
  select r.feed_no, r.round_key from promo_store.rounds r where r.round_no = any(round_nos) order by r.feed_no, r.round_key
  on conflict on constraint erased_rounds_pkey do nothing;
  with mine as materialized (
    select a.feed_no, a.round_key from promo_store.rounds r join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key
    where r.round_no = any(round_nos) order by a.feed_no, a.round_key for update of a
  )
  update promo_store.attributions a set player_ref = replacement from mine where a.feed_no = mine.feed_no and a.round_key = mine.round_key and a.player_ref !~ '^erased:[0-9]+$';
  get diagnostics attributions = row_count;

  -- Tags and hashes name nobody, but they confirm a guess of the player. Lock rounds first and then keys,
  -- each in order, as workers do.
  with mine as materialized (
    select r.feed_no, r.round_key from promo_store.rounds r
    where r.round_no = any(round_nos) and (r.player_tag is not null or r.player_hash is not null)
    order by r.feed_no, r.round_key for update
  )
  update promo_store.rounds r set player_tag = null, player_hash = null from mine where r.feed_no = mine.feed_no and r.round_key = mine.round_key;
  get diagnostics rounds = row_count;
  perform promo_store.forget_content(forgotten);

  if verdicts = 0 then
    with mine as materialized (
      select a.feed_no, a.round_key from promo_store.attributions a where a.player_ref = player and a.feed_no = any(feeds)
      order by a.feed_no, a.round_key limit most for update
    )
    update promo_store.attributions a set player_ref = replacement from mine where a.feed_no = mine.feed_no and a.round_key = mine.round_key;
    get diagnostics found_attributions = row_count;
    attributions := attributions + found_attributions;
  end if;

  -- Each panic is looked up in history. So a transaction takes a limited number of them, and holds no round.
  if verdicts = 0 then
    select coalesce((o.outcome ->> 'panics_up_to')::bigint, 0) into up_to from promo_store.operations o where o.operation_no = erasure_no;
    select max(p.verdict_id), count(*) into last_looked, looked from (
      select n.verdict_id from promo_store.panics n where n.verdict_id > up_to and n.payload is not null order by n.verdict_id limit least(most, 1000)
    ) p;
    -- A failed payload is stored byte for byte. It may contain the name in any form, escaped or in Avro, so
    -- all payloads of the operator are deleted.
    with mine as materialized (
      select p.verdict_id, h.feed_no, h.event_id from promo_store.panics p
      -- Both rows have the time of one transaction. The time selects the month; without it, Postgres searches
      -- all months.
      cross join lateral (select h.feed_no, h.event_id from promo_store.history h where h.verdict_id = p.verdict_id
        and h.decided_at between p.decided_at - interval '1 hour' and p.decided_at + interval '1 hour' limit 1) h
      where p.verdict_id > up_to and p.verdict_id <= last_looked and p.payload is not null and h.feed_no = any(feeds)
    ), changed as (
      update promo_store.panics p set payload = null, error = replacement from mine where p.verdict_id = mine.verdict_id
    )
    -- The hash of such an event covers a player that history does not name.
    select count(*), array_agg(row(feed_no, promo_store.id_key(event_id), true)::promo_store.forgotten_key) into payloads, found_keys from mine;
    perform promo_store.forget_content(found_keys);
    is_done := looked < least(most, 1000) and found_attributions < most;
  end if;

  update promo_store.operations o set
    ended_at = case when is_done then clock_timestamp() end,
    outcome = jsonb_build_object('verdicts', (o.outcome ->> 'verdicts')::bigint + verdicts, 'rounds', (o.outcome ->> 'rounds')::bigint + rounds,
      'payloads', (o.outcome ->> 'payloads')::bigint + payloads)
      || case when attributions > 0 or o.outcome -> 'attributions' is not null
        then jsonb_build_object('attributions', coalesce((o.outcome ->> 'attributions')::bigint, 0) + attributions) else '{}' end
      || case when is_done or last_looked is null then '{}' else jsonb_build_object('panics_up_to', last_looked) end
  where o.operation_no = erasure_no;
end
$$;
comment on function promo.erase_player is 'Replaces the player of an operator by erased:N in history and in attributions, and removes all else by which the player could be found. A call changes at most the given number of rows. N is the number of the erasure: pass it again until is_done.';

-- ---------------------------------------------------------------- retention

create function promo.forget_dropped_attributions() returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
  kept constant timestamptz := (select k.since from promo_store.kept_from('history') k);
  old_rounds bigint[];
  forgotten bigint;
begin
  -- Each round of an old attribution that was opened before the kept months, and may have later events.
  old_rounds := (
    select array_agg(r.round_no) from promo_store.attributions a join promo_store.rounds r on r.feed_no = a.feed_no and r.round_key = a.round_key
    where a.attributed_at < kept and r.opened_at < kept
  );
  -- An index finds the events of a few rounds. For many rounds, one reading of history is faster.
  perform set_config(case when cardinality(old_rounds) > 200 then 'enable_nestloop' else 'enable_seqscan' end, 'off', true);
  old_rounds := (
    select coalesce(array_agg(o.round_no), '{}') from unnest(old_rounds) o (round_no)
    where not exists (select from promo_store.history h where h.round_no = o.round_no)
  );
  perform set_config('enable_nestloop', 'on', true), set_config('enable_seqscan', 'on', true);
  with mine as materialized (
    select a.feed_no, a.round_key from promo_store.attributions a
    where a.attributed_at < kept and not exists (
      select from promo_store.rounds r
      where r.feed_no = a.feed_no and r.round_key = a.round_key and r.round_no <> all(old_rounds))
    order by a.feed_no, a.round_key for update
  )
  delete from promo_store.attributions a using mine where a.feed_no = mine.feed_no and a.round_key = mine.round_key;
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
comment on function promo.forget_dropped_attributions is 'Deletes the attributions that were set in dropped months and credit no kept event, and returns their number.';
revoke execute on function promo.forget_dropped_attributions from public;

-- ---------------------------------------------------------------- invariants

create function promo_store.find_attribution_damages()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  with damages as (
    select a.feed_no, a.round_id, unnest(array_remove(array[
      case when f.feed_no is null then format('the attribution is of the feed number %s, and there is no such feed', a.feed_no) end,
      case when a.round_key <> promo_store.id_key(a.round_id)
        and (a.round_id !~ '[.]{3} sha256:[0-9a-f]{64}$' or encode(a.round_key, 'hex') <> left(right(a.round_id, 64), 40))
        then 'key and round_id of the attribution disagree' end,
      case when r.round_id is not null and promo.stored_id(r.round_id) <> a.round_id then 'the attribution has another round_id than its round' end,
      case when a.brand_no is not null and b.operator_no is distinct from f.operator_no then 'the brand of the attribution is not one of its operator' end,
      promo_store.attribution_problem(a.round_id, a.player_ref, '', 0, null, null, '')
    ], null)) as what
    from promo_store.attributions a
    left join promo_store.feeds f on f.feed_no = a.feed_no
    left join promo_store.brands b on b.brand_no = a.brand_no
    left join promo_store.rounds r on r.feed_no = a.feed_no and r.round_key = a.round_key
  )
  select 'I6', d.what, f.feed_id, null::text, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by d.feed_no, d.round_id, d.what limit 100
$$;
comment on function promo_store.find_attribution_damages is 'The damages of attributions, at most 100: I6 of promo.check_invariants.';
revoke execute on function promo_store.find_attribution_damages from public;

create or replace function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return query select * from promo_store.find_damages(null);
  return query select * from promo_store.find_attribution_damages();
end
$$;

-- ---------------------------------------------------------------- views

create view promo.attributions as
select
  f.operator_id,
  f.feed_id,
  a.round_id,
  a.round_key,
  a.player_ref as credited_player,
  b.brand_id as brand,
  a.attributed_at,
  a.attributed_by
from promo_store.attributions a
join promo_store.feeds f on f.feed_no = a.feed_no
left join promo_store.brands b on b.brand_no = a.brand_no;
comment on view promo.attributions is 'One row for each round that promotions credit to another player than the one of its events. A round may have one before its first event. Indexes find round_key with feed_id, credited_player, and ranges of attributed_at.';
comment on column promo.attributions.operator_id is 'Operator of the round, and of the credited player.';
comment on column promo.attributions.feed_id is 'Feed of the round.';
comment on column promo.attributions.round_id is 'The round''s id, as in promo.rounds. No index finds it: look up by feed_id and round_key.';
comment on column promo.attributions.round_key is 'Key of the round_id: promo_store.id_key(round_id). Look up by feed_id and round_key.';
comment on column promo.attributions.credited_player is 'The player to whom promotions credit the round.';
comment on column promo.attributions.brand is 'Events of this brand alone are credited; null: events of any brand.';
comment on column promo.attributions.attributed_at is 'When it was set.';
comment on column promo.attributions.attributed_by is 'The role of the database that set it.';

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
  h.decided_at,
  coalesce(a.player_ref, h.player_ref) as credited_player
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = h.brand_no)
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  -- The same collations as in the body of the function and in this column: otherwise the planner does not
  -- find the index.
  promo.stored_id(x.refunded_by collate "default") collate "C",
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
  h.decided_at,
  coalesce(a.player_ref, h.player_ref)
from promo_store.refunds x
join promo_store.history h on h.round_no = x.round_no
left join promo_store.rounds r on r.round_no = x.round_no
left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = h.brand_no)
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
  -- Counted events of a round are decided between its opening and its refund. One day on each side allows for
  -- clocks that were set. So Postgres skips other months.
  and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day';

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
  u.scale,
  a.feed_no is not null as attributed
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
left join promo_store.brands b on b.brand_no = r.brand_no
left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = r.brand_no)
left join lateral (
  select (select code from promo_store.currencies c where c.currency_no = r.currency_no) as currency,
    r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor
  union all
  select key, (value ->> 'bet')::numeric, (value ->> 'win')::numeric, (value ->> 'settled')::numeric, (value ->> 'belowMinBet')::numeric
  from jsonb_each(r.other_sums)
) s on true
left join promo_store.currencies u on u.code = s.currency;
comment on column promo.ledger.credited_player is 'The player to whom promotions credit the entry: that of promo.attributions where the round has one, and player_ref otherwise. No index finds it. The entries credited to a player: promo.credited_entries(operator, player).';
comment on column promo.rounds.attributed is 'Whether promotions credit the round to another player than the one of its events, whom promo.attributions names.';

create function promo.credited_entries(operator text, player text) returns setof promo.ledger language sql stable parallel safe as $$
  select l.* from promo.ledger l where l.operator_id = operator and l.player_ref = player and l.credited_player = player
  union all
  -- Find the rounds one by one: a join of both views reads all of history.
  select l.* from promo.attributions a
  cross join lateral (select v.* from promo.ledger v where v.feed_id = a.feed_id and v.round_id = a.round_id offset 0) l
  where a.operator_id = operator and a.credited_player = player and l.credited_player = player and l.player_ref <> player
$$;
comment on function promo.credited_entries is 'The entries of promo.ledger that promotions credit to a player: those of the player without an attribution, and those of rounds attributed to the player.';
