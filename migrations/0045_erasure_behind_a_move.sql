-- Erasure of players in a cell that their operator has left: it keeps completions, which name players.
--
-- Locks: replaces promo.erase_player. Waits for nothing. Time: instant. Safe while older workers run: they
-- need nothing of this.

do $$
declare
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
  feeds constant text := '(select array_agg(f.feed_no) from promo_store.feeds f where f.operator_id = operator)';
  test constant text := 'if feeds is null then';
begin
  if position(feeds in source) = 0 or position(test in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0042_player_counts';
  end if;
  -- An operator that has left has no feeds, and stays among the operators.
  execute replace(
    replace(source, feeds, format('coalesce(%s, %L)', feeds, '{}')),
    test, 'if not exists (select from promo_store.operators o where o.operator_id = operator) then');
end
$$;
