-- Folds find new verdicts by a BRIN index, which knows summarized pages alone. Only a vacuum summarized them,
-- once a minute at most: until then each slice read all verdicts of the last minute, several times.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this. Run promo-intake grant before the new folds start: they call the function.

create function promo_store.summarize_history(most int default 64) returns int language plpgsql
-- Only the owner of an index may summarize it.
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  pages_per_range constant int := 128;
  month regclass := to_regclass('promo_store.history_' || to_char(now() at time zone 'utc', 'YYYY_MM'));
  index regclass;
  page bigint;
  usual_lock_timeout text := current_setting('lock_timeout');
  summarized int := 0;
begin
  select x.indexrelid into index from pg_index x
  join pg_class c on c.oid = x.indexrelid
  join pg_am a on a.oid = c.relam and a.amname = 'brin'
  join pg_attribute t on t.attrelid = x.indrelid and t.attnum = x.indkey[0] and t.attname = 'verdict_id'
  where x.indrelid = month;
  -- Batches still fill the last pages. A row costs more in a range that is summarized already.
  page := (pg_relation_size(month) / current_setting('block_size')::int / pages_per_range - 2) * pages_per_range;
  -- A vacuum summarizes, too: then there is nothing to wait for.
  perform set_config('lock_timeout', '20ms', true);
  begin
    while page >= 0 and summarized < most loop
      exit when brin_summarize_range(index, page) = 0;
      summarized := summarized + 1;
      page := page - pages_per_range;
    end loop;
  exception when lock_not_available then
    null;
  end;
  perform set_config('lock_timeout', usual_lock_timeout, true);
  return summarized;
end
$$;
comment on function promo_store.summarize_history is 'Summarizes full pages of this month of history in the index by which folds find new verdicts. It goes back from the newest ones to those that are summarized. Returns how many ranges of pages it has summarized.';
revoke execute on function promo_store.summarize_history from public;
