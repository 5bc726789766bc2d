-- A function that reads rows of an operator, a promotion or a feed answered a misspelt name by no rows.
-- Readers took that for a promotion without players. It raises an error now, and the hint has the nearest
-- names. The functions that explain still answer by a row, with the same names. A known name without rows
-- stays empty.
--
-- Locks: creates six functions and replaces ten; waits for nothing. Time: instant. Safe while older workers
-- run: they need nothing of this.

-- ---------------------------------------------------------------- which names there are

create function promo_store.nearest_names(wanted text, names text[], place text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select case
    -- Else a role that may call one function for one operator would learn the names of the others. In a
    -- function of the owner, only these settings have the caller.
    when not has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'promo.promotion_versions', 'select') then place || ' has the names.'
    else 'Use one of: ' || string_agg(quote_literal(n.name), ', ' order by n.nth) filter (where n.nth <= 10)
      || case when count(*) > 10 then ', and others of ' || place else '' end || '.' end
  from (
    -- The names that share most pairs of letters with the given one come first.
    select name, row_number() over (order by (
      select count(*) from generate_series(1, least(length(name), 100) - 1) i where position(substr(lower(name), i, 2) in lower(wanted)) > 0
    ) desc, name) as nth
    from unnest(names) name
  ) n
$$;
comment on function promo_store.nearest_names is 'Names in place of one that is unknown, the nearest first; null where there are none. Where the caller may not read the names of all operators: only the place that has them.';

create function promo_store.nearest_operators(operator text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select coalesce(promo_store.nearest_names($1, (select array_agg(o.operator_id::text) from promo_store.operators o), 'promo.connections'), 'Apply reference data first.')
$$;
comment on function promo_store.nearest_operators is 'Operators in place of one that is unknown.';

create function promo_store.unknown_promotion(operator text, promotion text) returns table (problem text, place text, remedy text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select case when o.operator_no is null then format('there is no operator %s', quote_nullable($1)) else format('the operator %s has no promotion %s', quote_literal($1), quote_nullable($2)) end,
    'promo.promotions shows the promotions of each operator.',
    case when o.operator_no is null then promo_store.nearest_operators($1)
      else coalesce(promo_store.nearest_names($2, (select array_agg(p.promotion_id::text) from promo_store.promotions p where p.operator_no = o.operator_no), 'promo.promotions'), 'Apply a file of promotions first.') end
  from (select 1) one left join promo_store.operators o on o.operator_id = $1
  where not exists (select from promo_store.promotions p where p.operator_no = o.operator_no and p.promotion_id = $2)
$$;
comment on function promo_store.unknown_promotion is 'Why there is no such promotion, and the next step; no row where there is one.';

create function promo_store.need_operator(operator text, prefix text default '') returns int
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  number constant int := (select o.operator_no from promo_store.operators o where o.operator_id = $1);
begin
  if number is null then
    raise exception '%there is no operator %', prefix, quote_nullable($1) using errcode = 'invalid_parameter_value', hint = promo_store.nearest_operators($1);
  end if;
  return number;
end
$$;
comment on function promo_store.need_operator is 'The number of an operator; an error with a prefix where there is none of this name.';

create function promo_store.need_promotion(operator text, promotion text) returns int
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  number constant int := promo_store.promotion_no_of($1, $2);
  unknown record;
begin
  if number is null then
    select u.* into unknown from promo_store.unknown_promotion($1, $2) u;
    raise exception '%', unknown.problem using errcode = 'invalid_parameter_value', hint = unknown.remedy;
  end if;
  return number;
end
$$;
comment on function promo_store.need_promotion is 'The number of a promotion; an error where there is none of this name.';

create or replace function promo_store.unknown_feed(feed text) returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select 1, null::timestamptz,
    case when f.feed_no is null then format('There is no feed %s.', quote_nullable(feed)) else format('The feed %s is for tests.', quote_literal(feed)) end,
    case when f.feed_no is null then 'A feed has the name of its operator, or operator/feed where the reference data names one.' else 'Events of tests count nowhere.' end,
    case when f.feed_no is not null then 'Read promo.test_verdicts and promo.test_deliveries.'
      else coalesce(promo_store.nearest_names(feed, (select array_agg(g.feed_id::text) from promo_store.feeds g where g.test_mark <> 1), 'promo.connections'), 'Apply reference data first.') end
  from (select 1) one left join promo_store.feeds f on f.feed_id = feed
  where f.feed_no is null or f.test_mark = 1
$$;

create function promo_store.need_feed(feed text) returns int
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  unknown record;
begin
  select u.* into unknown from promo_store.unknown_feed($1) u;
  if found then
    raise exception '%', lower(left(unknown.what_happened, 1)) || rtrim(substr(unknown.what_happened, 2), '.')
      using errcode = 'invalid_parameter_value', hint = unknown.what_next;
  end if;
  return (select f.feed_no from promo_store.feeds f where f.feed_id = $1);
end
$$;
comment on function promo_store.need_feed is 'The number of a feed; an error where there is none of this name, or it is for tests.';

-- ---------------------------------------------------------------- the functions that need a name

comment on function promo.why_not is 'Why an event counts in each promotion of its operator, or why not, by feed_id and event_id. No row where the operator has no promotion.';

create or replace function promo.explain_progress(operator text, promotion text, player_id text, window_key text default null)
returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  found_player text;
begin
  select s.player_ref into found_player from promo_store.pseudonyms s
  where s.operator_id = $1 and s.player_id = $3 and s.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown') limit 1;
  if found_player is null and promo_store.promotion_no_of($1, $2) is not null then
    return query select 1, null::timestamptz, format('The operator %s has no player with the pseudonym %s.', quote_literal($1), quote_nullable($3)),
      'It is misspelt, is of a former key, is not computed yet, or its player was erased.',
      'Correct it by promo.player_ids, or by promo.former_player_ids for one of a former key.';
    return;
  end if;
  return query select * from promo.explain_progress_with_player($1, $2, found_player, $4);
end
$$;

do $do$
declare
  definition text;
  change record;
begin
  for change in
    select * from (values
      (1, 'promo.leaderboard_with_players(text, text, text, int)'::regprocedure, $old$declare
$old$, $new$declare
  number constant int := promo_store.need_promotion($1, $2);
$new$),
      (2, 'promo.leaderboard_with_players(text, text, text, int)', $old$
  join promo_store.promotions n using (promotion_no)
  join promo_store.operators o using (operator_no)
  where o.operator_id = $1 and n.promotion_id = $2 and ($old$, $new$
  where w.promotion_no = number and ($new$),
      (3, 'promo.promotion_entries_with_players(text, text, timestamptz, timestamptz)', 'promo_store.promotion_no_of($1, $2)', 'promo_store.need_promotion($1, $2)'),
      (4, 'promo.promotion_misses(text, text, timestamptz, timestamptz)', 'promo_store.promotion_no_of($1, $2)', 'promo_store.need_promotion($1, $2)'),
      (5, 'promo.why_not(text, text)', $old$  own constant int := (select o.operator_no from promo_store.feeds f join promo_store.operators o on o.operator_id = f.operator_id where f.feed_id = $1 and f.test_mark <> 1);
$old$, $new$  feed_number constant int := promo_store.need_feed($1);
  own constant int := (select o.operator_no from promo_store.feeds f join promo_store.operators o on o.operator_id = f.operator_id where f.feed_no = feed_number);
$new$),
      (6, 'promo.why_not(text, text)', $old$k.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and$old$, $new$k.feed_no = feed_number and$new$),
      (7, 'promo.explain_progress_with_player(text, text, text, text)',
        $old$    return query select 1, null::timestamptz, format('The operator %s has no promotion %s.', quote_nullable($1), quote_nullable($2)),
      'promo.promotions shows the promotions of each operator.'::text,
      coalesce('Use one of: ' || (select string_agg(quote_literal(p.promotion_id), ', ' order by p.promotion_id) from (select * from promo.promotions where operator_id = $1 order by promotion_id limit 10) p) || '.', 'Apply a file of promotions first.');
$old$, $new$    return query select 1, null::timestamptz, upper(left(u.problem, 1)) || substr(u.problem, 2) || '.', u.place, u.remedy from promo_store.unknown_promotion($1, $2) u;
$new$),
      (8, 'promo.attribute_rounds(text, text[], text[], text[], text[])',
        $old$  if operator_no is null then
    raise exception 'InvalidArgument: there is no operator %', coalesce(quote_literal(operator), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name an operator of the reference data.';
  end if;
$old$, $new$  perform promo_store.need_operator(operator, 'InvalidArgument: ');
$new$),
      (9, 'promo.correct_attribution(text, text, text, text, text, text)', $old$
begin
$old$, $new$
begin
  perform promo_store.need_operator(operator, 'InvalidArgument: ');
$new$),
      (10, 'promo.erase_player(text, text, int, bigint)', $old$  if not exists (select from promo_store.operators o where o.operator_id = operator) then
    raise exception 'there is no operator %', coalesce(quote_literal(operator), 'null') using errcode = 'invalid_parameter_value';
  end if;
$old$, $new$  perform promo_store.need_operator(operator);
$new$)
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
