-- Answers for support that need no second question. promo.why_not names the reason of a rejected or skipped
-- event. The story of a player names ranks, and says that the reward of a revoked completion is taken back.
--
-- Locks: replaces two functions, and waits for nothing. Time: instant. Safe while older workers run: they
-- need nothing of this.

create or replace function promo.why_not(feed text, event text)
returns table (promotion_id text, type text, counts_now boolean, reason text, why text, window_key text, item text, currency text, adds numeric)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  own constant int := (select o.operator_no from promo_store.feeds f join promo_store.operators o on o.operator_id = f.operator_id where f.feed_id = $1 and f.test_mark <> 1);
  found_verdict bigint;
  event_outcome smallint;
  was_counted boolean;
begin
  select k.verdict_id, k.outcome into found_verdict, event_outcome from promo_store.event_keys k
  where k.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = $1) and k.event_key = promo_store.id_key($2);
  was_counted := (select h.counted from promo_store.history h where h.verdict_id = found_verdict);
  return query
  select p.promotion_id, v.definition ->> 'type', coalesce(m.counts_now, false),
    case when was_counted is not true then 'no_entry' when m.verdict_id is null then 'other_kind' else m.reason end,
    case when found_verdict is null then 'No such event is decided in this feed.'
      when was_counted is null then 'The month of the event was dropped.'
      when event_outcome <> 0 then format('The event was %s as %s: promo.explain(feed, event) has the remedy.', promo_store.verdict_name(event_outcome), promo_store.reason_name(event_outcome))
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

create or replace function promo.explain_progress_with_player(operator text, promotion text, player text, window_key text default null)
returns table (step int, happened_at timestamptz, what_happened text, why text, what_next text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  most constant int := 200;
  number constant int := promo_store.promotion_no_of($1, $2);
  is_board constant boolean := exists (select from promo_store.promotion_versions v where v.promotion_no = number and v.definition ->> 'type' = 'leaderboard');
  -- Each value of a leaderboard belongs to a line of `points`.
  item_format constant text := case when is_board then 'line %s of the points:' else '%s' end;
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
      case when m.counts_now then format('It counts in the window %s: %s.', m.window_key, string_agg(concat_ws(' ', case when m.item <> '' then format(item_format, m.item) end, m.adds * coalesce(c.unit, 1), c.code), ', ' order by m.item))
        else 'It does not count: ' || (select r.meaning from promo.miss_reasons r where r.reason = m.reason) || '.' end as why,
      case m.reason when 'round_refunded' then 'Explain the round: promo.explain_round(feed, round).' else 'Nothing to do.' end as what_next
    from promo_store.match_events(number, null, null, null, null, player, null) m
    left join promo_store.currencies u on u.currency_no = m.currency_no
    left join promo_store.currencies c on c.currency_no = m.adds_currency_no
    where $4 is null or m.window_key = $4 or m.window_key is null
    group by m.verdict_id, m.decided_at, m.event_id, m.kind, m.amount_minor, u.unit, u.code, m.round_id, m.game_id, m.counts_now, m.window_key, m.reason
    order by m.verdict_id desc limit most)
    union all
    select 2, e.changed_at, e.entry_no, format('%s %s of the window %s: %s.', case when is_board then 'Rank' else 'Completion' end, e.ordinal, e.window_key, e.change),
      case when e.change = 'confirmed' then 'It held for the time of confirm_after.'
        when is_board and e.change = 'completed' then 'The leaderboard is closed.'
        when is_board then 'A refund, a late event or a correction changed the ranks.'
        when e.change = 'completed' then 'The values reached the target.'
        else 'A refund or a correction took values back.' end,
      case when e.change = 'completed' and e.holds then 'Credit its reward once: ' || e.completion_id || '.'
        when e.change = 'revoked' then 'Take its reward back: ' || e.completion_id || '.'
        else 'Nothing to do.' end
    from promo.completions e where e.operator_id = $1 and e.promotion_id = $2 and e.player_ref = player and ($4 is null or e.window_key = $4)
    union all
    select 3, p.changed_at, row_number() over (order by p.item, p.currency), format('Window %s: %s%s.', p.window_key, concat_ws(' ', case when p.item <> '' then format(item_format, p.item) end, p.value, p.currency), ' of ' || p.target),
      case when p.points is not null then p.points || ' points.' when p.completions = 1 then 'It is completed.' when p.completions > 1 then 'It is completed ' || p.completions || ' times.' else 'It is not completed.' end, 'Nothing to do.'
    from promo.promotion_progress p where p.operator_id = $1 and p.promotion_id = $2 and p.player_ref = player and ($4 is null or p.window_key = $4)
  ) s
  order by 1;
  if not found then
    return query select 1, null::timestamptz, 'The player has no event that the promotion could count.'::text,
      'The events have not arrived, are of other kinds, were not accepted, or their months were dropped.'::text, 'Explain one of the events: promo.explain(feed, event).'::text;
  end if;
end
$$;
