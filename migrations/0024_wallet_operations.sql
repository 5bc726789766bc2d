-- The calls of wallets for operations: their backlog as a view, and the erasure of a player's calls.
--
-- Locks: those of an empty or small table of wallet calls, for a moment. Time: instant. Safe while older
-- workers run: they need nothing of this.

-- ---------------------------------------------------------------- backlog

create index wallet_calls_not_over on promo_store.wallet_calls (operator_id, call_no) where state in ('open', 'unresolved');

create view promo.wallet_backlog as
select count(*) filter (where c.state = 'open') as open, count(*) filter (where c.state = 'unresolved') as unresolved,
  coalesce(greatest(extract(epoch from clock_timestamp() - min(c.due_at) filter (where c.state = 'open')), 0), 0)::float8 as oldest_due_seconds
from promo_store.wallet_calls c where c.state in ('open', 'unresolved');
comment on view promo.wallet_backlog is 'The calls of operators'' wallets that are not over, in numbers. One row.';
comment on column promo.wallet_backlog.open is 'Calls whose next attempt is due, in flight, or planned.';
comment on column promo.wallet_backlog.unresolved is 'Calls that people have to resolve.';
comment on column promo.wallet_backlog.oldest_due_seconds is 'For how long the oldest due call has waited; 0 where none is due.';

-- ---------------------------------------------------------------- erasure

alter table promo_store.wallet_calls add column erasure_no bigint;
comment on column promo_store.wallet_calls.erasure_no is 'The erasure that removed the payload of an unresolved call; null in all other calls.';
create or replace view promo.wallet_calls as
select c.call_no, c.operator_id, c.op_id, c.action, o.op_id as follows, c.state, f.op_id as followed_by, f.state as followed_state,
  c.attempts, c.sending_since is not null as in_flight, c.due_at, c.first_sent_at, c.last_ended_at, c.last_answer ->> 'type' as last_answer,
  coalesce(c.last_answer ->> 'code', c.last_answer ->> 'cause') as last_cause, (c.last_answer ->> 'status')::int as last_status,
  c.is_uncertain, c.created_at, c.ended_at, c.note, c.erasure_no
from promo_store.wallet_calls c
left join promo_store.wallet_calls o on o.call_no = c.follows
left join promo_store.wallet_calls f on f.follows = c.call_no;
comment on column promo.wallet_calls.erasure_no is 'The erasure that stopped the call; null in all other calls.';
alter table promo_store.wallet_calls drop constraint wallet_calls_check;
alter table promo_store.wallet_calls add constraint wallet_calls_payload
  check ((payload is not null and call_values is not null) = (state = 'open' or (state = 'unresolved' and erasure_no is null)));

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
  found_calls bigint;
  calls bigint := 0;
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

  -- Calls are few beside verdicts. A call that ends meanwhile may leave its rollback or reconcile, which only
  -- a later statement sees.
  if verdicts = 0 then
    loop
      with mine as materialized (
        select c.call_no from promo_store.wallet_calls c
        where c.operator_id = operator and c.state in ('open', 'unresolved') and c.call_values ->> 'player' = player
        order by c.call_no for update
      )
      update promo_store.wallet_calls c set state = 'unresolved', payload = null, call_values = null, sending_since = null,
        lease_no = c.lease_no + 1, erasure_no = erase_player.erasure_no
      from mine where c.call_no = mine.call_no;
      get diagnostics found_calls = row_count;
      calls := calls + found_calls;
      exit when not exists (select from promo_store.wallet_calls c
        where c.operator_id = operator and c.state in ('open', 'unresolved') and c.call_values ->> 'player' = player);
    end loop;
  end if;

  update promo_store.operations o set
    ended_at = case when is_done then clock_timestamp() end,
    outcome = jsonb_build_object('verdicts', (o.outcome ->> 'verdicts')::bigint + verdicts, 'rounds', (o.outcome ->> 'rounds')::bigint + rounds,
      'payloads', (o.outcome ->> 'payloads')::bigint + payloads)
      || case when attributions > 0 or o.outcome -> 'attributions' is not null
        then jsonb_build_object('attributions', coalesce((o.outcome ->> 'attributions')::bigint, 0) + attributions) else '{}' end
      || case when calls > 0 or o.outcome -> 'wallet_calls' is not null
        then jsonb_build_object('wallet_calls', coalesce((o.outcome ->> 'wallet_calls')::bigint, 0) + calls) else '{}' end
      || case when is_done or last_looked is null then '{}' else jsonb_build_object('panics_up_to', last_looked) end
  where o.operation_no = erasure_no;
end
$$;
comment on function promo.erase_player is 'Replaces the player of an operator by erased:N in history and in attributions, and removes all else by which the player could be found. Stops open wallet calls of the player, which are unresolved from then on. A call changes at most the given number of rows. N is the number of the erasure: pass it again until is_done.';

