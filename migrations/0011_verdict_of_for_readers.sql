-- promo.verdict_of answers whoever may read promo.verdicts: it looked the event up in a table that is nobody's but the worker's.
--
-- Locks: replaces only, nothing waits. Time: instant. Safe while older workers run: they do not call it.

create or replace function promo.verdict_of(feed text, event text) returns setof promo.verdicts language sql stable parallel safe as $$
  -- By a value, not by a join: the planner carries a value, and no join, into what this is joined with.
  select v.* from promo.verdicts v where v.verdict_id = (select promo.verdict_id_of(feed, event))
$$;
