-- Support read that an event counts, and not that it counts for another player. The story of a player named
-- no attribution, and no time of a confirmation that a reward may wait for.
--
-- Locks: replaces two functions, and waits for nothing. Time: instant. Safe while older workers run: they
-- need nothing of this.

do $do$
declare
  definition text;
  change record;
begin
  for change in
    select * from (values
      (1, 'promo.why_not(text, text)'::regprocedure, $old$  was_counted boolean;
$old$, $new$  was_counted boolean;
  event_player text;
$new$),
      (2, 'promo.why_not(text, text)', $old$  was_counted := (select h.counted from promo_store.history h where h.verdict_id = found_verdict);
$old$, $new$  select h.counted, h.player_ref into was_counted, event_player from promo_store.history h where h.verdict_id = found_verdict;
$new$),
      (3, 'promo.why_not(text, text)', $old$      when m.reason is null then 'It counts.'
$old$, $new$      when m.reason is null and m.credited_player <> event_player then 'It counts for another player: its round is attributed.'
      when m.reason is null then 'It counts.'
$new$),
      (4, 'promo.explain_progress_with_player(text, text, text, text)', $old$        else 'A refund or a correction took values back.' end,
      case when e.change = 'completed' and e.holds then 'Credit its reward once: ' || e.completion_id || '.'
$old$, $new$        else 'A refund, an attribution or a correction took values back.' end,
      case when e.change = 'completed' and e.holds then 'Credit its reward once: ' || e.completion_id || '.' || coalesce((
          select format(' Or wait until it is confirmed: at %s.', to_char(a.confirms_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
          from promo_store.promotion_windows w join promo_store.promotion_attempts a using (window_no)
          where w.promotion_no = number and w.version = e.version and w.window_key = e.window_key
            and a.generation = (select f.generation from promo_store.folds f where f.fold = 'promotions')
            and a.player_ref = player and a.ordinal = e.ordinal and a.attempt = e.attempt and a.is_held and a.confirms_at is not null), '')
        when e.change = 'confirmed' and e.holds then 'Credit its reward once, if you waited for this: ' || e.completion_id || '.'
$new$),
      (5, 'promo.explain_progress_with_player(text, text, text, text)', $old$were not accepted, or their months were dropped.$old$,
        $new$were not accepted, are attributed to another player, or their months were dropped.$new$)
    ) as changes (place, function, before, after) order by place
  loop
    definition := pg_get_functiondef(change.function);
    if position(change.before in definition) = 0 then
      raise exception '% is not that of migration 0053_answers_for_support', change.function;
    end if;
    execute replace(definition, change.before, change.after);
  end loop;
end
$do$;
