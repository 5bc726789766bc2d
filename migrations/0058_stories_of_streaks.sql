-- The story of a streak read `Window once: 2026-11-01 30 of 3.` Support could not see that the day is the
-- first one of the streak. The last rows of several windows were not in the order of the windows.
--
-- Locks: replaces one function, and waits for nothing. Time: instant. Safe while older workers run: they
-- need nothing of this.

do $do$
declare
  definition text := pg_get_functiondef('promo.explain_progress_with_player(text, text, text, text)'::regprocedure);
  change record;
begin
  for change in
    select * from (values
      (1, $old$  item_format constant text :=$old$, $new$  is_streak constant boolean := exists (select from promo_store.promotion_versions v where v.promotion_no = number and v.definition ->> 'type' = 'login_streak');
  item_format constant text :=$new$),
      (2, $old$then format('It counts in the window %s: %s.', m.window_key, string_agg($old$,
        $new$then format('It counts in the window %s: %s.', m.window_key, case when is_streak then 'the day ' || min(m.item) else string_agg($new$),
      (3, $old$ c.code), ', ' order by m.item))
$old$, $new$ c.code), ', ' order by m.item) end)
$new$),
      (4, $old$row_number() over (order by p.item, p.currency), format('Window %s: %s%s.', p.window_key, concat_ws($old$,
        $new$row_number() over (order by p.starts_at nulls first, p.version, p.item, p.currency), format('Window %s: %s%s.', p.window_key, case
        when is_streak then format('%s %s in a row from %s', p.value, case when p.value = 1 then 'day' else 'days' end, p.item) else concat_ws($new$),
      (5, $old$p.value, p.currency), ' of ' || p.target),
$old$, $new$p.value, p.currency) end, case when is_streak then ', of ' else ' of ' end || p.target),
$new$),
      (6, $old$order by s.part, s.happened_at, s.place)$old$, $new$order by s.part, case when s.part < 3 then s.happened_at end, s.place)$new$)
    ) as changes (place, before, after) order by place
  loop
    if position(change.before in definition) = 0 then
      raise exception 'promo.explain_progress_with_player is not that of migration 0056_answers_about_attributions';
    end if;
    definition := replace(definition, change.before, change.after);
  end loop;
  execute definition;
end
$do$;
