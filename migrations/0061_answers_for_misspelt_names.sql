-- promo.explain named no remedy for a resend of a rejected event. It names that of the console now. Four
-- functions answered a misspelt name by nothing: verdict_id_of, verdict_of, credited_entries, and leaderboard
-- for a window. They raise an error now, as those of 0060. An event that never came is still no error, nor is
-- a player without events, or a window that has not begun.
--
-- Locks: creates two functions and replaces four; waits for nothing. Time: instant. Safe while older workers
-- run: they need nothing of this. An older console shows an error page for a misspelt feed.

create function promo_store.refuse_unknown_feed(feed text) returns bigint
language plpgsql stable parallel safe
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  unknown record;
begin
  -- A null comes from a join, not from a person.
  if $1 is not null and not exists (select from promo_store.feeds f where f.feed_id = $1) then
    select u.* into unknown from promo_store.unknown_feed($1) u;
    raise exception 'there is no feed %', quote_literal($1) using errcode = 'invalid_parameter_value', hint = unknown.what_next;
  end if;
  return null;
end
$$;
comment on function promo_store.refuse_unknown_feed is 'Null for a feed of the reference data, also for one for tests; an error where there is none of this name.';

revoke execute on function promo_store.refuse_unknown_feed from public;

create or replace function promo.verdict_id_of(feed text, event text) returns bigint language plpgsql stable parallel safe as $$
declare
  number constant bigint := (select e.verdict_id from promo.events e where e.feed_id = $1 and e.event_key = promo_store.id_key($2));
begin
  -- Every role may call this function, and only some may know which feeds there are.
  if number is null and has_function_privilege('promo_store.refuse_unknown_feed(text)', 'execute') then
    perform promo_store.refuse_unknown_feed($1);
  end if;
  return number;
end
$$;
comment on function promo.verdict_id_of is 'Number of the verdict on one event, by feed_id and event_id; null where it was never decided. A feed that there is not is an error. Its row: where verdict_id = (select promo.verdict_id_of(feed, event)).';
comment on function promo.verdict_of is 'The verdict on one event, by feed_id and event_id. Nothing where the event was never decided, or its month was dropped (see promo.events). A feed that there is not is an error.';

create function promo_store.refuse_unknown_operator(operator text) returns boolean
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp
as $$
begin
  if has_table_privilege('promo_store.operators', 'select') then
    perform promo_store.need_operator($1);
  end if;
  return false;
end
$$;
comment on function promo_store.refuse_unknown_operator is 'False for an operator of the reference data; an error where there is none of this name, and the caller may read all names.';

create or replace function promo.credited_entries(operator text, player text) returns setof promo.ledger language sql stable parallel safe as $$
  select l.* from promo.ledger l where l.operator_id = operator and l.player_ref = player and l.credited_player = player
  union all
  -- Find the rounds one by one: a join of both views reads all of history.
  select l.* from promo.attributions a
  cross join lateral (select v.* from promo.ledger v where v.feed_id = a.feed_id and v.round_id = a.round_id offset 0) l
  where a.operator_id = operator and a.credited_player = player and l.credited_player = player and l.player_ref <> player
  union all
  -- Adds no row: it is here for its error.
  select (null::promo.ledger).* where promo_store.refuse_unknown_operator(operator)
$$;
comment on function promo.credited_entries is 'The entries of promo.ledger that promotions credit to a player: those of the player without an attribution, and those of rounds attributed to the player. An operator that there is not is an error.';

do $do$
declare
  definition text;
  change record;
begin
  for change in
    select * from (values
      (1, 'promo.leaderboard_with_players(text, text, text, int)'::regprocedure, $old$  kept int;
$old$, $new$  kept int;
  windows text[];
$new$),
      (2, 'promo.leaderboard_with_players(text, text, text, int)', $old$  select (v.definition ->> 'keep_ranks')::int into kept$old$, $new$  if board.window_no is null and $3 is not null then
    select array_agg(distinct w.window_key::text order by w.window_key::text desc) into windows from promo_store.promotion_windows w where w.promotion_no = number;
    -- A window without a counted event has no row: a day behind the newest one may come.
    if windows is not null and not $3 = any (windows) and ($3 !~ '^\d{4}-\d\d-\d\d$' or $3 < windows[1]) then
      raise exception 'no event counts in a window % of the promotion %', quote_literal($3), quote_literal($2)
        using errcode = 'invalid_parameter_value',
          hint = format('Use one of: %s. Without a window, the newest one is shown.',
            (select string_agg(quote_literal(w), ', ' order by w desc) from unnest(windows[:10]) w)
            || case when cardinality(windows) > 10 then ', and others of promo.promotion_progress' else '' end);
    end if;
  end if;
  select (v.definition ->> 'keep_ranks')::int into kept$new$),
      (3, 'promo.explain(text, text)', $old$under this id: send it under a new id.', promo_store.verdict_name(key.outcome)) else 'Nothing to do.' end$old$,
        $new$under this id: send it under a new id.', promo_store.verdict_name(key.outcome))
        when key.outcome <> 0 and reason.charge <> 'nobody' then format('It was %s under this id. %s', promo_store.verdict_name(key.outcome), reason.remedy)
        else 'Nothing to do.' end$new$)
    ) as changes (place, changed, before, after) order by place
  loop
    definition := pg_get_functiondef(change.changed);
    if position(change.before in definition) = 0 then
      raise exception '% is not that of an earlier migration', change.changed;
    end if;
    execute replace(definition, change.before, change.after);
  end loop;
end
$do$;
comment on function promo.leaderboard is 'The first players of a leaderboard with their points and pseudonyms: of one window, or of the newest one. A window in which no event counts is an error that names the others; one behind the newest has no row. Of equal points (is_tied), the player goes first who had them first. is_final: the board is closed, and its ranks are completions.';
