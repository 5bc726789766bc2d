-- When a month begins, the newest pages of the month before had no summary until a vacuum came. So folds read
-- all of them for each refund of a round from before.
--
-- Locks: replaces one function, and waits for nothing. Time: instant. Safe while older workers run.

create or replace function promo_store.summarize_history(most int default 64) returns int language plpgsql
-- Only the owner of an index may summarize it.
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  pages_per_range constant int := 128;
  this_month timestamp := date_trunc('month', now() at time zone 'utc');
  month regclass;
  index regclass;
  page bigint;
  usual_lock_timeout text := current_setting('lock_timeout');
  summarized int := 0;
begin
  -- A vacuum summarizes, too: then there is nothing to wait for.
  perform set_config('lock_timeout', '20ms', true);
  begin
    for month, index, page in
      -- Batches still fill the last pages of this month. In a summarized range, a row costs more.
      select m.month, x.indexrelid,
        ((pg_relation_size(m.month) - 1) / current_setting('block_size')::int / pages_per_range - case when m.is_filled then 2 else 0 end) * pages_per_range
      from (
        select to_regclass('promo_store.history_' || to_char(this_month, 'YYYY_MM')) as month, true as is_filled
        union all
        select to_regclass('promo_store.history_' || to_char(this_month - interval '1 day', 'YYYY_MM')), false
      ) m
      join pg_index x on x.indrelid = m.month
      join pg_class c on c.oid = x.indexrelid
      join pg_am a on a.oid = c.relam and a.amname = 'brin'
      join pg_attribute t on t.attrelid = x.indrelid and t.attnum = x.indkey[0] and t.attname = 'verdict_id'
      order by m.is_filled desc
    loop
      while page >= 0 and summarized < most loop
        exit when brin_summarize_range(index, page) = 0;
        summarized := summarized + 1;
        page := page - pages_per_range;
      end loop;
    end loop;
  exception when lock_not_available then
    null;
  end;
  perform set_config('lock_timeout', usual_lock_timeout, true);
  return summarized;
end
$$;
comment on function promo_store.summarize_history is 'Summarizes full pages of this month of history, and all pages of the month before, in the index by which folds find new verdicts. It goes back from the newest ones to those that are summarized. Returns how many ranges of pages it has summarized.';
