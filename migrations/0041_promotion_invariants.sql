-- The completions and the progress of promotions in promo.check_invariants(): I7.
--
-- Locks: replaces one function, and creates one. Waits for nothing. Time: instant. Safe while older workers
-- run: they need nothing of this.

create function promo_store.find_promotion_damages()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  -- Each table is read once, and joined as a whole. No damage names a player: readers may not see players.
  with given as (
    select (promo_store.last_batch() + 1) * 8192 - 1 as last
  ), shown as (
    -- Slices of another generation are not in the ledger of completions.
    select f.generation from promo_store.folds f where f.fold = 'promotions'
  ), windows as materialized (
    select w.window_no, o.operator_id, p.promotion_id, w.version, w.window_key, v.definition ->> 'type' = 'leaderboard' as is_board,
      v.definition -> 'confirm_after' is not null as is_confirmed_later, format('%s/%s/%s', o.operator_id, p.promotion_id, w.window_key) as source,
      exists (select from promo_store.promotion_boards b where b.generation = (select s.generation from shown s) and b.window_no = w.window_no) as is_closed
    from promo_store.promotion_windows w
    join promo_store.promotion_versions v on v.promotion_no = w.promotion_no and v.version = w.version
    join promo_store.promotions p on p.promotion_no = w.promotion_no
    join promo_store.operators o on o.operator_no = p.operator_no
  ), completions as materialized (
    select min(c.entry_no) as entry_no, min(c.window_no) as window_no, min(c.player_ref) as player_ref, min(c.ordinal) as ordinal, min(c.attempt) as attempt,
      min(c.entry_no) filter (where c.change = 0) as completed, min(c.entry_no) filter (where c.change = 1) as revoked,
      min(c.entry_no) filter (where c.change = 2) as confirmed, max(c.change_no) as change_no,
      -- promo_store.completion_id is the same hash. It looks up each window, which takes long for a million.
      bool_or(c.completion_id <> substr(sha256(
        convert_to(w.operator_id, 'UTF8') || '\x00'::bytea || convert_to(w.promotion_id, 'UTF8') || '\x00'::bytea || convert_to(w.version::text, 'UTF8') || '\x00'::bytea
        || convert_to(c.player_ref, 'UTF8') || '\x00'::bytea || convert_to(w.window_key, 'UTF8') || '\x00'::bytea || convert_to(c.ordinal::text, 'UTF8') || '\x00'::bytea
        || convert_to(c.attempt::text, 'UTF8') || '\x00'::bytea), 1, 16)) as has_other_id
    from promo_store.promotion_completions c join windows w on w.window_no = c.window_no
    group by c.completion_id
  ), held as materialized (
    select a.* from promo_store.promotion_attempts a join shown s on s.generation = a.generation where a.is_held
  ), players as (
    select h.window_no, h.player_ref, count(*) as held, min(h.ordinal) as ordinal from held h group by 1, 2
  ), damages as (
    select c.window_no, unnest(array_remove(array[
      case when c.completed is null then 'was revoked or confirmed, but never completed' end,
      case when c.revoked < c.completed then 'was revoked before it was completed' end,
      case when c.confirmed < c.completed then 'was confirmed before it was completed' end,
      case when c.confirmed > c.revoked then 'was confirmed after it was revoked' end,
      case when c.has_other_id then 'has an id that is not the one of its player, window and attempt' end,
      case when c.change_no > g.last then 'has a number of a change that was not given' end
    ], null)) as damage, format('the completion of the entry %s ', c.entry_no) as subject
    from completions c cross join given g
    union all
    select coalesce(c.window_no, h.window_no), unnest(array_remove(array[
      case when h.window_no is null then 'was completed and not revoked, but no attempt holds it' end,
      case when c.window_no is null then 'holds, but no entry completed it, or one revoked it' end,
      case when w.is_confirmed_later and c.confirmed is null and h.confirms_at is null and c.window_no is not null then 'is confirmed, but no entry says so' end,
      case when w.is_confirmed_later and c.confirmed is not null and h.confirms_at is not null then 'was confirmed, and waits for it again' end
    ], null)),
      case when c.window_no is null then format('the attempt %s of the completion %s, decided by the change %s, ', h.attempt, h.ordinal, coalesce(h.decided_no::text, 'of time'))
        else format('the completion of the entry %s ', c.entry_no) end
    from (select * from completions where completed is not null and revoked is null) c
    full join held h on h.window_no = c.window_no and h.player_ref = c.player_ref and h.ordinal = c.ordinal and h.attempt = c.attempt
    left join windows w on w.window_no = h.window_no
    union all
    select p.window_no, unnest(array_remove(array[
      case when w.window_no is null then format('is of the window number %s, and there is no such window', p.window_no) end,
      -- The progress of an erased player may be the sum of two names, and is judged by its next event.
      case when not w.is_board and p.attained <> coalesce(n.held, 0) and p.player_ref !~ '^erased:[0-9]+$'
        then format('is worth %s completions, but %s hold', p.attained, coalesce(n.held, 0)) end,
      case when not w.is_board and not p.has_attempts and n.held > 0 then format('says that no completion was ever attained, but %s hold', n.held) end,
      case when cardinality(p.items) <> cardinality(p.currencies) or cardinality(p.items) <> cardinality(p.amounts) then 'has values without an item or a currency' end,
      case when p.changed_no > g.last then 'has a number of a change that was not given' end
    ], null)), format('the progress that the change %s changed last ', p.changed_no)
    from promo_store.promotion_progress p
    join shown s on s.generation = p.generation
    cross join given g
    left join windows w on w.window_no = p.window_no
    left join players n on n.window_no = p.window_no and n.player_ref = p.player_ref
    union all
    select n.window_no, 'has no progress', format('the player of the completion %s ', n.ordinal)
    from players n join shown s on true
    where not exists (
      select from promo_store.promotion_progress p where p.generation = s.generation and p.window_no = n.window_no and p.player_ref = n.player_ref
    )
    union all
    select h.window_no, unnest(array_remove(array[
      case when not bool_or(w.is_closed) then 'is given, but the leaderboard is not closed' end,
      case when count(*) > 1 then format('is given to %s players', count(*)) end
    ], null)), format('the rank %s ', h.ordinal)
    from held h join windows w on w.window_no = h.window_no and w.is_board group by h.window_no, h.ordinal
  )
  select 'I7', d.subject || d.damage, null::text, null::text, null::text, w.source, count(*) over ()
  from damages d left join windows w on w.window_no = d.window_no
  order by w.source, 2 limit 100
$$;
comment on function promo_store.find_promotion_damages is 'The damages of promotions, at most 100: I7 of promo.check_invariants.';
revoke execute on function promo_store.find_promotion_damages from public;

create or replace function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform promo_store.refuse_check_during_move();
  return query select * from promo_store.find_damages(null);
  return query select * from promo_store.find_attribution_damages();
  return query select * from promo_store.find_promotion_damages();
end
$$;
