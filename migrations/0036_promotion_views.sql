-- Views of promotions: definitions, progress and completions. Functions: leaderboards, which events count,
-- why others do not, and the story of one player.
--
-- The functions of single events read history by the terms of 0030_promotion_definitions. They have the rules
-- of src/promotions/matching.ts, and a test compares both on random feeds.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this.

-- ---------------------------------------------------------------- windows

create function promo_store.bound_of(bound text, zone text) returns timestamptz language sql stable set search_path = pg_catalog, pg_temp
as $$
  -- Local times that do not exist, or exist twice, are in no definition.
  select case when bound ~ 'T.*(Z|[+-]\d\d:\d\d)$' then bound::timestamptz else bound::timestamp at time zone zone end
$$;
comment on function promo_store.bound_of is 'The instant of from or to in a definition: a time with its offset, or a local time of the zone.';

create function promo_store.first_instant(day date, zone text) returns timestamptz language sql stable set search_path = pg_catalog, pg_temp
as $$
  -- Of two instants that show midnight, Postgres chooses the later one.
  select case when (s.at - interval '1 hour') at time zone zone >= day::timestamp then s.at - interval '1 hour' else s.at end
  from (select day::timestamp at time zone zone as at) s
$$;
comment on function promo_store.first_instant is 'The first instant of a local day.';

create function promo_store.local_day(at timestamptz, zone text) returns text language sql stable set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
as $$
  -- Where clocks go back over midnight, the new day has begun already.
  select case when promo_store.first_instant((at at time zone zone)::date + 1, zone) <= at then (at at time zone zone)::date + 1
    else (at at time zone zone)::date end::text
$$;
comment on function promo_store.local_day is 'The local day of an instant.';

create function promo_store.seconds_of(duration text) returns interval language sql immutable set search_path = pg_catalog, pg_temp
as $$
  select make_interval(secs => extract(epoch from duration::interval)::double precision)
$$;
comment on function promo_store.seconds_of is 'A duration of a definition, such as P7D. A day has 24 hours, also where the clocks change.';

create function promo_store.windows_between(definition jsonb, since timestamptz, until timestamptz, lowest timestamptz, highest timestamptz)
returns table (window_key text, starts_at timestamptz, ends_at timestamptz)
language plpgsql stable set search_path = pg_catalog, pg_temp
-- Dates have to read alike in every session.
set datestyle = 'ISO'
as $$
declare
  zone constant text := definition ->> 'time_zone';
  from_at constant timestamptz := promo_store.bound_of(definition ->> 'from', zone);
  to_at constant timestamptz := promo_store.bound_of(definition ->> 'to', zone);
  every constant text := definition -> 'window' ->> 'every';
  low constant timestamptz := greatest(lowest, from_at);
  first_day date;
  length interval;
begin
  if lowest is null or highest is null then
    return;
  end if;
  if every is null then
    return query select 'once'::text, from_at, to_at
    where (from_at is null or from_at <= highest) and (to_at is null or to_at > lowest)
      and (since is null or coalesce(from_at, '-infinity') >= since) and (until is null or coalesce(from_at, '-infinity') < until);
    return;
  end if;
  first_day := (low at time zone zone)::date - 1;
  if every = 'day' then
    length := interval '1 day';
  elsif every = 'week' then
    length := interval '7 days';
    first_day := first_day - (extract(isodow from first_day)::int + 7 - array_position(
      array['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'], coalesce(definition -> 'window' ->> 'starts', 'monday'))) % 7;
  else
    length := interval '1 month';
    first_day := date_trunc('month', first_day)::date + coalesce((definition -> 'window' ->> 'starts')::int, 1) - 1;
    if first_day > (low at time zone zone)::date - 1 then
      first_day := first_day - interval '1 month';
    end if;
  end if;
  return query
  select w.day::date::text, w.starts_at, w.ends_at
  from (
    select d.day, greatest(promo_store.first_instant(d.day::date, zone), from_at) as starts_at,
      least(promo_store.first_instant((d.day + length)::date, zone), to_at) as ends_at
    from generate_series(first_day::timestamp, (least(highest, to_at) at time zone zone) + interval '1 day', length) d (day)
  ) w
  where w.starts_at < w.ends_at and w.starts_at <= highest and w.ends_at > lowest
    and (since is null or w.starts_at >= since) and (until is null or w.starts_at < until);
end
$$;
comment on function promo_store.windows_between is 'The windows of a version of a promotion that contain an instant of a range, both ends included. It reads no table.';

-- ---------------------------------------------------------------- views

create view promo.promotions as
select
  o.operator_id,
  p.promotion_id,
  v.definition ->> 'type' as type,
  v.version,
  case when v.removed_at <= now() then 'was removed'
    when w.window_key is not null then 'counts'
    when promo_store.bound_of(v.definition ->> 'from', v.definition ->> 'time_zone') > now() or v.since > now() then 'begins later'
    else 'is over' end as state,
  w.window_key,
  w.starts_at as window_starts_at,
  w.ends_at as window_ends_at,
  v.definition,
  v.since,
  v.until,
  v.removed_at
from promo_store.promotions p
join promo_store.operators o using (operator_no)
cross join lateral (
  select x.* from promo_store.promotion_versions x where x.promotion_no = p.promotion_no
  -- The version of the window in progress, or else the last one.
  order by exists (select from promo_store.windows_between(x.definition, x.since, x.until, now(), now())) desc, x.version desc limit 1
) v
left join lateral (
  select * from promo_store.windows_between(v.definition, v.since, v.until, now(), now()) x
  where v.removed_at is null or v.removed_at > now() limit 1
) w on true;
comment on view promo.promotions is 'One row for each promotion, with the version that counts now, or counted last. All versions: promo.promotion_versions.';
comment on column promo.promotions.operator_id is 'Operator of the promotion.';
comment on column promo.promotions.promotion_id is 'The promotion''s id, unique within the operator.';
comment on column promo.promotions.type is 'Its type, such as deposit_target.';
comment on column promo.promotions.version is 'The version of the window in progress; the last version where there is none.';
comment on column promo.promotions.state is 'counts, begins later, is over or was removed.';
comment on column promo.promotions.window_key is 'The window in progress: the local day on which it begins, or once. Null: there is none.';
comment on column promo.promotions.window_starts_at is 'Its first instant; null: no bound.';
comment on column promo.promotions.window_ends_at is 'The first instant behind it; null: no bound.';
comment on column promo.promotions.definition is 'The definition, as an entry of the document.';
comment on column promo.promotions.since is 'The version counts windows that begin at this time or later; null: all.';
comment on column promo.promotions.until is 'The version counts windows that begin before this time; null: all.';
comment on column promo.promotions.removed_at is 'When the promotion was removed; null: it is not.';

create view promo.promotion_progress as
-- Both are small, and computed once: a million players need no look-up each.
with windows as materialized (
  select w.*, o.operator_id, n.promotion_id, v.definition ->> 'type' as type, (v.definition ->> 'days')::numeric as days
  from promo_store.promotion_windows w
  join promo_store.promotion_versions v on v.promotion_no = w.promotion_no and v.version = w.version
  join promo_store.promotions n on n.promotion_no = w.promotion_no
  join promo_store.operators o on o.operator_no = n.operator_no
),
targets as materialized (
  select t.promotion_no, t.version, t.item, coalesce(k.code, '') as currency, c.unit_minor * coalesce((
    select (i ->> 'need')::numeric from jsonb_array_elements(v.definition -> 'items') i where i ->> 'id' = t.item), 1) as target
  from promo_store.promotion_terms t
  join promo_store.promotion_versions v on v.promotion_no = t.promotion_no and v.version = t.version
  join promo_store.promotion_term_currencies c on c.promotion_no = t.promotion_no and c.version = t.version and c.term_no = t.term_no
  left join promo_store.currencies k on k.currency_no = c.currency_no
  where v.definition ->> 'type' <> 'leaderboard'
)
select
  w.operator_id,
  w.promotion_id,
  w.type,
  w.version,
  w.window_key,
  w.starts_at,
  w.ends_at,
  p.player_ref,
  x.item,
  u.code as currency,
  x.amount as value_minor,
  x.amount * coalesce(u.unit, 1) as value,
  coalesce(w.days, g.target) * coalesce(u.unit, 1) as target,
  trim_scale(round(x.amount / nullif(coalesce(w.days, g.target), 0), 4)) as share,
  p.attained as completions,
  case when w.type = 'leaderboard' then p.score end as points,
  p.changed_at
from promo_store.promotion_progress p
join windows w on w.window_no = p.window_no
-- A streak has a value for each day. It shows the longest run of days. A subquery within case is not run for
-- other types. Postgres may pair a row with all windows first: their items are no days.
cross join lateral (
  select case when w.type = 'login_streak' and w.window_no = p.window_no then (
    select array[min(g.day)::text, count(*)::text]
    from (
      select d.day, d.day - row_number() over (order by d.day)::int as run
      from (select a.item::date as day from unnest(p.items, p.amounts) a (item, amount) where a.amount > 0) d
    ) g group by g.run order by count(*) desc, min(g.day) limit 1
  ) end as longest
) r
cross join lateral unnest(
  case w.type when 'login_streak' then r.longest[1:1] else p.items end,
  case w.type when 'login_streak' then array['']::text[] else p.currencies end,
  case w.type when 'login_streak' then r.longest[2:2]::numeric[] else p.amounts end) x (item, currency, amount)
left join targets g on g.promotion_no = w.promotion_no and g.version = w.version and g.item = x.item and g.currency = x.currency
left join promo_store.currencies u on u.code = x.currency
where p.generation = (select f.generation from promo_store.folds f where f.fold = 'promotions') and x.amount <> 0;
comment on view promo.promotion_progress is 'One row for each value of a player in a window. A target in two currencies has two rows, and so have two items. A login streak has one row, of its longest run.';
comment on column promo.promotion_progress.operator_id is 'Operator of the promotion.';
comment on column promo.promotion_progress.promotion_id is 'The promotion.';
comment on column promo.promotion_progress.type is 'Its type.';
comment on column promo.promotion_progress.version is 'The version that counts the window.';
comment on column promo.promotion_progress.window_key is 'The local day on which the window begins, or once.';
comment on column promo.promotion_progress.starts_at is 'The first instant of the window; null: no bound.';
comment on column promo.promotion_progress.ends_at is 'The first instant behind the window; null: no bound.';
comment on column promo.promotion_progress.player_ref is 'The player that is credited.';
comment on column promo.promotion_progress.item is 'The item, the number of a leaderboard''s points, or the first day of a streak; else empty.';
comment on column promo.promotion_progress.currency is 'Currency code; null for a number.';
comment on column promo.promotion_progress.value_minor is 'The value: minor units, or a number of events or days.';
comment on column promo.promotion_progress.value is 'The same in major units, exact.';
comment on column promo.promotion_progress.target is 'The value that completes once, or that the item needs; null for a leaderboard.';
comment on column promo.promotion_progress.share is 'value divided by target. It may be above 1. Null for a leaderboard.';
comment on column promo.promotion_progress.completions is 'How many completions the values of the player are worth, in each row of the player; 0 for a leaderboard.';
comment on column promo.promotion_progress.points is 'The points of the player in a leaderboard; null for other types.';
comment on column promo.promotion_progress.changed_at is 'When the verdict was decided that last changed a value.';

create view promo.completions as
select
  e.entry_no,
  encode(e.completion_id, 'hex') as completion_id,
  case e.change when 0 then 'completed' when 1 then 'revoked' else 'confirmed' end as change,
  o.operator_id,
  n.promotion_id,
  w.version,
  w.window_key,
  w.starts_at,
  w.ends_at,
  e.player_ref,
  e.ordinal,
  e.attempt,
  e.change_no,
  e.changed_at,
  e.entered_at,
  not exists (select from promo_store.promotion_completions r where r.completion_id = e.completion_id and r.change = 1) as holds
from promo_store.promotion_completions e
join promo_store.promotion_windows w on w.window_no = e.window_no
join promo_store.promotions n on n.promotion_no = w.promotion_no
join promo_store.operators o on o.operator_no = n.operator_no;
comment on view promo.completions is 'The ledger of completions. Count the rewards that are due: where change = ''completed'' and holds.';
comment on column promo.completions.entry_no is 'Number of the entry. It appears in the order of the commits.';
comment on column promo.completions.completion_id is 'Id of the completion, as in its messages: 32 hex digits.';
comment on column promo.completions.change is 'completed, revoked or confirmed.';
comment on column promo.completions.operator_id is 'Operator of the promotion.';
comment on column promo.completions.promotion_id is 'The promotion.';
comment on column promo.completions.version is 'The version that counts the window.';
comment on column promo.completions.window_key is 'The local day on which the window begins, or once.';
comment on column promo.completions.starts_at is 'The first instant of the window; null: no bound.';
comment on column promo.completions.ends_at is 'The first instant behind the window; null: no bound.';
comment on column promo.completions.player_ref is 'The player. An index finds it.';
comment on column promo.completions.ordinal is 'Number of the completion in the window, from 1. The rank, for a leaderboard.';
comment on column promo.completions.attempt is 'Which attempt of the ordinal it is.';
comment on column promo.completions.change_no is 'The verdict, or the change of an attribution, that decided the change; null where the time alone did.';
comment on column promo.completions.changed_at is 'When it became so.';
comment on column promo.completions.entered_at is 'When the entry was written.';
comment on column promo.completions.holds is 'Whether the completion holds: no entry has revoked it.';

select promo_store.show_to_readers(view) from unnest(array['promotions', 'promotion_progress', 'completions']) view;

create view promo.miss_reasons as
select r.precedence, r.reason, r.meaning from (values
  (1, 'removed', 'the promotion had been removed'),
  (2, 'other_brand', 'the event is of a brand that the promotion does not list'),
  (3, 'outside_window', 'the time of the event is in no window of the promotion'),
  (4, 'late', 'the event was decided too long after its window'),
  (5, 'no_game', 'the promotion lists games, and the event names none'),
  (6, 'game_not_listed', 'the promotion lists games, and not the game of the event'),
  (7, 'below_minimum', 'the amount is below min_amount of its currency'),
  (8, 'currency_without_target', 'the promotion has no amount for the currency of the event'),
  (9, 'round_refunded', 'the event counted, and its round was refunded later')
) r (precedence, reason, meaning);
comment on view promo.miss_reasons is 'The reasons why an event does not count in a promotion, in the order of precedence.';
comment on column promo.miss_reasons.precedence is 'Place in the order: an event has the first reason that applies. Of several terms, the one that comes nearest to counting gives the reason.';
comment on column promo.miss_reasons.reason is 'The reason.';
comment on column promo.miss_reasons.meaning is 'Its meaning.';
select promo_store.show_to_readers('miss_reasons');

-- ---------------------------------------------------------------- leaderboards

create function promo.leaderboard_with_players(operator text, promotion text, window_key text default null, top int default 100)
returns table (rank bigint, operator_id text, player_ref text, points numeric, scored_at_change bigint, is_tied boolean, is_final boolean, window_starts_at timestamptz, window_ends_at timestamptz)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  shown constant int := (select f.generation from promo_store.folds f where f.fold = 'promotions');
  board promo_store.promotion_windows;
  kept int;
begin
  select w.* into board
  from promo_store.promotion_windows w
  join promo_store.promotions n using (promotion_no)
  join promo_store.operators o using (operator_no)
  where o.operator_id = $1 and n.promotion_id = $2 and ($3 is null or w.window_key = $3)
    and exists (select from promo_store.promotion_progress p where p.generation = shown and p.window_no = w.window_no)
  order by w.starts_at desc nulls last, w.version desc limit 1;
  select (v.definition ->> 'keep_ranks')::int into kept from promo_store.promotion_versions v
  where v.promotion_no = board.promotion_no and v.version = board.version and v.definition ->> 'type' = 'leaderboard';
  return query
  select row_number() over (order by p.score desc, p.scored_no, p.player_ref), $1, p.player_ref, p.score, p.scored_no,
    (p.score in (lag(p.score) over (order by p.score desc, p.scored_no, p.player_ref), lead(p.score) over (order by p.score desc, p.scored_no, p.player_ref))) is true,
    exists (select from promo_store.promotion_boards b where b.generation = shown and b.window_no = board.window_no),
    board.starts_at, board.ends_at
  from (
    select x.player_ref, x.score, x.scored_no from promo_store.promotion_progress x
    where x.generation = shown and x.window_no = board.window_no and x.score > 0 and kept is not null
    order by x.score desc, x.scored_no, x.player_ref limit least($4, kept) + 1
  ) p
  order by 1 limit least($4, kept);
end
$$;
comment on function promo.leaderboard_with_players is 'As promo.leaderboard, with player_ref. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.leaderboard_with_players from public;

create function promo.leaderboard(operator text, promotion text, window_key text default null, top int default 100)
returns table (rank bigint, player_id text, points numeric, is_tied boolean, is_final boolean, window_starts_at timestamptz, window_ends_at timestamptz)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select b.rank, s.player_id, b.points, b.is_tied, b.is_final, b.window_starts_at, b.window_ends_at
  from promo.leaderboard_with_players($1, $2, $3, $4) b
  left join promo_store.pseudonyms s on s.operator_id = b.operator_id and s.player_ref = b.player_ref
    and s.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown')
  order by b.rank
$$;
comment on function promo.leaderboard is 'The first players of a leaderboard with their points and pseudonyms: of one window, or of the newest one. Of equal points (is_tied), the player goes first who had them first. is_final: the board is closed, and its ranks are completions.';
revoke execute on function promo.leaderboard from public;

-- ---------------------------------------------------------------- single events

create function promo_store.match_events(promotion int, decided_since timestamptz, decided_until timestamptz, counted_since timestamptz, counted_until timestamptz,
  player text, verdict bigint)
returns table (verdict_id bigint, feed_id text, event_id text, brand_no int, kind smallint, round_id text, game_id text, currency_no smallint, amount_minor numeric,
  occurred_at timestamptz, decided_at timestamptz, counted_at timestamptz, version int, window_key text, reason text, counts_now boolean, item text,
  adds numeric, adds_currency_no smallint, credited_player text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- A condition whose parameter is null is left out of the plan.
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  own_operator constant int := (select p.operator_no from promo_store.promotions p where p.promotion_no = promotion);
  last constant int := (select max(v.version) from promo_store.promotion_versions v where v.promotion_no = promotion);
  kinds constant smallint[] := (select array_agg(distinct t.kind) from promo_store.promotion_terms t where t.promotion_no = promotion);
  credited_rounds constant bigint[] := (select array_agg(r.round_no) from promo_store.attributions a
    join promo_store.rounds r on r.feed_no = a.feed_no and r.round_key = a.round_key where a.player_ref = player);
begin
  return query
  with events as materialized (
    select h.verdict_id, f.feed_id, h.event_id, h.brand_no, h.kind, r.round_id, h.game_id, h.currency_no, coalesce(h.amount_minor, 0) as amount_minor, h.occurred_at, h.decided_at,
      least(h.occurred_at, h.decided_at) as at, coalesce(a.player_ref, h.player_ref) as credited,
      case when x.round_no is not null then coalesce(x.refunded_at, '-infinity') end as refunded_at
    from promo_store.history h
    join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
    join promo_store.operators o on o.operator_id = f.operator_id and o.operator_no = own_operator
    left join promo_store.rounds r on r.round_no = h.round_no
    left join promo_store.refunds x on x.round_no = h.round_no
    left join promo_store.attributions a on a.feed_no = r.feed_no and a.round_key = r.round_key and (a.brand_no is null or a.brand_no = h.brand_no)
    where h.counted and h.kind = any(kinds)
      and (decided_since is null or h.decided_at >= decided_since)
      and (decided_until is null or h.decided_at < decided_until)
      and (counted_since is null or (h.decided_at >= counted_since and h.occurred_at >= counted_since))
      and (counted_until is null or h.decided_at < counted_until or h.occurred_at < counted_until)
      and (player is null or h.player_ref = player or h.round_no = any(credited_rounds))
      and (verdict is null or h.verdict_id = verdict)
  ),
  versions as materialized (
    select v.*, promo_store.seconds_of(v.definition ->> 'accepts_late') as accepts_late, v.definition ->> 'time_zone' as zone,
      (select array_agg(b.brand_no) from promo_store.promotion_brands b where b.promotion_no = v.promotion_no and b.version = v.version) as brands
    from promo_store.promotion_versions v where v.promotion_no = promotion
  ),
  windows as materialized (
    select v.version, w.* from versions v
    cross join lateral promo_store.windows_between(v.definition, v.since, v.until, (select min(e.at) from events e), (select max(e.at) from events e)) w
  ),
  of_version as (
    select e.*, v.version, v.promotion_no, v.removed_at, v.zone, w.window_key, w.starts_at, w.ends_at,
      case when e.decided_at >= v.removed_at then 1
        when v.brands is not null and (e.brand_no = any(v.brands)) is not true then 2
        when w.window_key is null then 3
        when e.decided_at >= w.ends_at + v.accepts_late then 4 end as fault
    from events e
    left join windows w on e.at >= coalesce(w.starts_at, '-infinity') and e.at < coalesce(w.ends_at, 'infinity')
    join versions v on v.version = coalesce(w.version, last)
    where player is null or e.credited = player
  ),
  of_term as (
    select m.*, t.term_no, t.item as term_item, t.adds_amount,
      case when m.fault is not null then m.fault
        when t.games is not null and m.game_id is null then 5
        when t.games is not null and m.game_id <> all(t.games) then 6
        when m.amount_minor < c.min_minor then 7
        when t.adds_amount and c.unit_minor is null then 8
        else 10 end as place
    from of_version m
    join promo_store.promotion_terms t on t.promotion_no = m.promotion_no and t.version = m.version and t.kind = m.kind
    left join promo_store.promotion_term_currencies c on c.promotion_no = t.promotion_no and c.version = t.version and c.term_no = t.term_no
      and c.currency_no = m.currency_no
  ),
  chosen as (
    select t.*, max(t.place) over (partition by t.verdict_id) as best, row_number() over (partition by t.verdict_id, t.place order by t.term_no) as nth from of_term t
  )
  select s.verdict_id, s.feed_id, s.event_id::text, s.brand_no, s.kind, s.round_id::text, s.game_id, s.currency_no, s.amount_minor::numeric,
    s.occurred_at, s.decided_at, s.at, s.version, s.window_key,
    case when s.place < 10 then (select r.reason from promo.miss_reasons r where r.precedence = s.place)
      when s.refunded_at < coalesce(s.removed_at, 'infinity') then 'round_refunded' end,
    s.place = 10 and (s.refunded_at < coalesce(s.removed_at, 'infinity')) is not true,
    case when s.place = 10 then coalesce(s.term_item, promo_store.local_day(s.at, s.zone)) end,
    case when s.place < 10 then 0 when s.adds_amount then s.amount_minor else 1 end::numeric,
    case when s.place = 10 and s.adds_amount then s.currency_no end,
    s.credited::text
  from chosen s
  where s.place = s.best and (s.place = 10 or s.nth = 1);
end
$$;
comment on function promo_store.match_events is 'How the events of one promotion count: by time of decision, by the time that counts, by player or by verdict. Events that no term of the promotion counts are left out. One row for each value that an event adds to, or one with the reason.';
revoke execute on function promo_store.match_events from public;

create function promo_store.promotion_no_of(operator text, promotion text) returns int language sql stable set search_path = pg_catalog, pg_temp
as $$
  select p.promotion_no from promo_store.promotions p join promo_store.operators o using (operator_no) where o.operator_id = $1 and p.promotion_id = $2
$$;
comment on function promo_store.promotion_no_of is 'The number of a promotion; null where there is none of this name.';

create function promo.promotion_entries_with_players(operator text, promotion text, since timestamptz, until timestamptz default 'infinity')
returns table (verdict_id bigint, operator_id text, feed_id text, event_id text, brand text, kind text, round_id text, game_id text, occurred_at timestamptz,
  decided_at timestamptz, counted_at timestamptz, version int, window_key text, item text, currency text, adds numeric, credited_player text)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select m.verdict_id, $1, m.feed_id, promo.stored_id(m.event_id), b.brand_id, promo_store.kind_name(m.kind), promo.stored_id(m.round_id), m.game_id, m.occurred_at,
    m.decided_at, m.counted_at, m.version, m.window_key, m.item, u.code, m.adds * coalesce(u.unit, 1), m.credited_player
  from promo_store.match_events(promo_store.promotion_no_of($1, $2), null, null, $3, $4, null, null) m
  left join promo_store.brands b on b.brand_no = m.brand_no
  left join promo_store.currencies u on u.currency_no = m.adds_currency_no
  where m.counts_now
$$;
comment on function promo.promotion_entries_with_players is 'As promo.promotion_entries, with the credited player. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.promotion_entries_with_players from public;

create function promo.promotion_entries(operator text, promotion text, since timestamptz, until timestamptz default 'infinity')
returns table (verdict_id bigint, feed_id text, event_id text, brand text, kind text, round_id text, game_id text, occurred_at timestamptz,
  decided_at timestamptz, counted_at timestamptz, version int, window_key text, item text, currency text, adds numeric, player_id text)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select e.verdict_id, e.feed_id, e.event_id, e.brand, e.kind, e.round_id, e.game_id, e.occurred_at, e.decided_at, e.counted_at, e.version, e.window_key,
    e.item, e.currency, e.adds, s.player_id
  from promo.promotion_entries_with_players($1, $2, $3, $4) e
  left join promo_store.pseudonyms s on s.operator_id = e.operator_id and s.player_ref = e.credited_player
    and s.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown')
$$;
comment on function promo.promotion_entries is 'The events that count in a promotion now, by the time at which they count: since is within, until is not. One row for each value that an event adds to. The sums of adds are the values of promo.promotion_progress, also where the fold is behind. Reads the history since the begin of the range; dropped months are not shown.';
revoke execute on function promo.promotion_entries from public;

create function promo.promotion_misses(operator text, promotion text, since timestamptz, until timestamptz default 'infinity')
returns table (verdict_id bigint, feed_id text, event_id text, brand text, kind text, round_id text, game_id text, currency text, amount numeric,
  occurred_at timestamptz, decided_at timestamptz, counted_at timestamptz, version int, window_key text, reason text)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select distinct on (m.verdict_id) m.verdict_id, m.feed_id, promo.stored_id(m.event_id), b.brand_id, promo_store.kind_name(m.kind), promo.stored_id(m.round_id), m.game_id,
    u.code, m.amount_minor * coalesce(u.unit, 1), m.occurred_at, m.decided_at, m.counted_at, m.version, m.window_key, m.reason
  from promo_store.match_events(promo_store.promotion_no_of($1, $2), $3, $4, null, null, null, null) m
  left join promo_store.brands b on b.brand_no = m.brand_no
  left join promo_store.currencies u on u.currency_no = m.currency_no
  where not m.counts_now
$$;
comment on function promo.promotion_misses is 'The events of a range of decided_at that do not count in a promotion of their kind, each with its reason: see promo.miss_reasons. Reads the history of the range.';
revoke execute on function promo.promotion_misses from public;

create function promo.why_not(feed text, event text)
returns table (promotion_id text, type text, counts_now boolean, reason text, why text, window_key text, item text, currency text, adds numeric)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  own constant int := (select o.operator_no from promo_store.feeds f join promo_store.operators o on o.operator_id = f.operator_id where f.feed_id = $1 and f.test_mark <> 1);
  found_verdict bigint;
  was_counted boolean;
begin
  select k.verdict_id into found_verdict from promo_store.event_keys k
  where k.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and k.event_key = promo_store.id_key($2);
  was_counted := (select h.counted from promo_store.history h where h.verdict_id = found_verdict);
  return query
  select p.promotion_id, v.definition ->> 'type', coalesce(m.counts_now, false),
    case when was_counted is not true then 'no_entry' when m.verdict_id is null then 'other_kind' else m.reason end,
    case when found_verdict is null then 'No such event is decided in this feed.'
      when was_counted is null then 'The month of the event was dropped.'
      when not was_counted then 'The event is no entry of the ledger: promo.explain(feed, event) says why.'
      when m.verdict_id is null then 'The promotion counts no events of this kind.'
      when m.reason is null then 'It counts.'
      else (select upper(left(r.meaning, 1)) || substr(r.meaning, 2) || '.' from promo.miss_reasons r where r.reason = m.reason) end,
    m.window_key, m.item, u.code, case when m.counts_now then m.adds * coalesce(u.unit, 1) end
  from promo_store.promotions p
  cross join lateral (select x.definition from promo_store.promotion_versions x where x.promotion_no = p.promotion_no order by x.version desc limit 1) v
  left join lateral (
    select * from promo_store.match_events(p.promotion_no, null, null, null, null, null, coalesce(found_verdict, -1))
  ) m on true
  left join promo_store.currencies u on u.currency_no = m.adds_currency_no
  where p.operator_no = own
  order by p.promotion_id, m.item;
end
$$;
comment on function promo.why_not is 'Why an event counts in each promotion of its operator, or why not, by feed_id and event_id. No row where the feed is not known, or the operator has no promotion.';
revoke execute on function promo.why_not from public;

create function promo.explain_progress_with_player(operator text, promotion text, player text, window_key text default null)
returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  most constant int := 200;
  number constant int := promo_store.promotion_no_of($1, $2);
begin
  -- Null would mean all players.
  player := coalesce(player, '');
  if number is null then
    return query select 1, null::timestamptz, format('The operator %s has no promotion %s.', quote_nullable($1), quote_nullable($2)),
      'promo.promotions shows the promotions of each operator.'::text,
      coalesce('Use one of: ' || (select string_agg(quote_literal(p.promotion_id), ', ' order by p.promotion_id) from (select * from promo.promotions where operator_id = $1 order by promotion_id limit 10) p) || '.', 'Apply a file of promotions first.');
    return;
  end if;
  return query
  select row_number() over (order by s.part, s.happened_at, s.place)::int, s.happened_at, s.what_happened, s.why, s.what_next
  from (
    (select 1 as part, m.decided_at as happened_at, m.verdict_id as place,
      format('%s: a %s.', promo.stored_id(m.event_id), promo_store.describe_event(m.kind, case when m.kind <> 7 then m.amount_minor * u.unit end, u.code, promo.stored_id(m.round_id), m.game_id, null)) as what_happened,
      case when m.counts_now then format('It counts in the window %s: %s.', m.window_key, string_agg(concat_ws(' ', nullif(m.item, ''), m.adds * coalesce(c.unit, 1), c.code), ', ' order by m.item))
        else 'It does not count: ' || (select r.meaning from promo.miss_reasons r where r.reason = m.reason) || '.' end as why,
      case m.reason when 'round_refunded' then 'Explain the round: promo.explain_round(feed, round).' else 'Nothing to do.' end as what_next
    from promo_store.match_events(number, null, null, null, null, player, null) m
    left join promo_store.currencies u on u.currency_no = m.currency_no
    left join promo_store.currencies c on c.currency_no = m.adds_currency_no
    where $4 is null or m.window_key = $4 or m.window_key is null
    group by m.verdict_id, m.decided_at, m.event_id, m.kind, m.amount_minor, u.unit, u.code, m.round_id, m.game_id, m.counts_now, m.window_key, m.reason
    order by m.verdict_id desc limit most)
    union all
    select 2, e.changed_at, e.entry_no, format('Completion %s of the window %s: %s.', e.ordinal, e.window_key, e.change),
      case e.change when 'completed' then 'The values reached the target, or the leaderboard closed.' when 'revoked' then 'A refund or a correction took values back.' else 'It held for the time of confirm_after.' end,
      case when e.change = 'completed' and e.holds then 'Credit its reward once: ' || e.completion_id || '.' else 'Nothing to do.' end
    from promo.completions e where e.operator_id = $1 and e.promotion_id = $2 and e.player_ref = player and ($4 is null or e.window_key = $4)
    union all
    select 3, p.changed_at, row_number() over (order by p.item, p.currency), format('Window %s: %s%s.', p.window_key, concat_ws(' ', nullif(p.item, ''), p.value, p.currency), ' of ' || p.target),
      case when p.points is not null then p.points || ' points.' when p.completions > 0 then 'It is completed ' || p.completions || ' times.' else 'It is not completed.' end, 'Nothing to do.'
    from promo.promotion_progress p where p.operator_id = $1 and p.promotion_id = $2 and p.player_ref = player and ($4 is null or p.window_key = $4)
  ) s
  order by 1;
  if not found then
    return query select 1, null::timestamptz, 'The player has no event that the promotion could count.'::text,
      'The events have not arrived, are of other kinds, were not accepted, or their months were dropped.'::text, 'Explain one of the events: promo.explain(feed, event).'::text;
  end if;
end
$$;
comment on function promo.explain_progress_with_player is 'The story of one player in a promotion, in order: the events that count or do not, with the reason, completions, and the values now. It shows the newest 200 events. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.explain_progress_with_player from public;

create function promo.explain_progress(operator text, promotion text, player_id text, window_key text default null)
returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select e.* from promo.explain_progress_with_player($1, $2, (
    select s.player_ref from promo_store.pseudonyms s
    where s.operator_id = $1 and s.player_id = $3 and s.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown') limit 1), $4) e
$$;
comment on function promo.explain_progress is 'As promo.explain_progress_with_player, for the pseudonym of a player.';
revoke execute on function promo.explain_progress from public;
