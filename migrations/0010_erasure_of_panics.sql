-- An erasure searches the panics in transactions of their own, a thousand at a time, after it has changed all
-- verdicts. A single search of all panics grew with the kept data of all operators, and held the rounds of
-- the last verdicts meanwhile. Beyond a minute it always failed.
--
-- Locks: none that anybody waits for. Time: none. Safe while older workers run, and for an older
-- erase-player, which repeats the call until is_done.

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
  perform pg_catalog.pg_advisory_xact_lock_shared(4915023772); -- months are not dropped meanwhile

  for month in select t.name from promo_store.month_tables() t where t.parent = 'history' order by t.month loop
    exit when verdicts >= most;
    execute format(
      'with mine as (
         update promo_store.%1$I set player_ref = $4
         where ctid = any(array(select ctid from promo_store.%1$I where player_ref = $1 and feed_no = any($2) limit $3 for update))
         returning round_no)
       select count(*), array_agg(distinct round_no) filter (where round_no is not null) from mine', month.name)
    into found_verdicts, found_rounds using player, feeds, most - verdicts, replacement;
    verdicts := verdicts + found_verdicts;
    round_nos := round_nos || found_rounds;
  end loop;
  is_done := false;

  -- The hash of round and player names nobody, but it confirms a guess of the player. Lock in the order in
  -- which workers lock rounds.
  with mine as materialized (
    select r.feed_no, r.round_key from promo_store.rounds r where r.round_no = any(round_nos) and r.player_hash is not null
    order by r.feed_no, r.round_key for update
  )
  update promo_store.rounds r set player_hash = null from mine where r.feed_no = mine.feed_no and r.round_key = mine.round_key;
  get diagnostics rounds = row_count;

  -- Each panic is looked up in history. So a transaction takes a limited number of them, and holds no round.
  if verdicts = 0 then
    select coalesce((o.outcome ->> 'panics_up_to')::bigint, 0) into up_to from promo_store.operations o where o.operation_no = erasure_no;
    select max(p.verdict_id), count(*) into last_looked, looked from (
      select n.verdict_id from promo_store.panics n where n.verdict_id > up_to and n.payload is not null order by n.verdict_id limit least(most, 1000)
    ) p;
    -- A failed payload is stored byte for byte. It may contain the name in any form, escaped or in Avro, so
    -- all payloads of the operator are deleted.
    update promo_store.panics p set payload = null, error = replacement
    where p.verdict_id > up_to and p.verdict_id <= last_looked and p.payload is not null
      -- Compare with a value: a join would read all of history. Both rows have the time of one transaction.
      -- The time selects the month; without it, Postgres searches all months.
      and (select h.feed_no from promo_store.history h where h.verdict_id = p.verdict_id
        and h.decided_at between p.decided_at - interval '1 hour' and p.decided_at + interval '1 hour' limit 1) = any(feeds);
    get diagnostics payloads = row_count;
    is_done := looked < least(most, 1000);
  end if;

  update promo_store.operations o set
    ended_at = case when is_done then clock_timestamp() end,
    outcome = jsonb_build_object('verdicts', (o.outcome ->> 'verdicts')::bigint + verdicts, 'rounds', (o.outcome ->> 'rounds')::bigint + rounds,
      'payloads', (o.outcome ->> 'payloads')::bigint + payloads)
      || case when is_done or last_looked is null then '{}' else jsonb_build_object('panics_up_to', last_looked) end
  where o.operation_no = erasure_no;
end
$$;
