-- Estimates of conditions on kind, verdict and reason. Views show these as names, and history has numbers.
-- Postgres took one row in 200 for a bet, and looked up a refund for each bet one by one.
--
-- Locks: waits for an analyze or a vacuum of each month of promo_store.history, and writers go on. Time: an
-- analyze of each month, some 0.7 s for 5 million verdicts. Safe while older workers run.

create function promo_store.estimate_names(table_name text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format('create statistics if not exists promo_store.%I on promo_store.kind_name(kind), promo_store.verdict_name(outcome), promo_store.reason_name(outcome) from promo_store.%I',
    table_name || '_names', table_name);
end
$$;
comment on function promo_store.estimate_names is 'Lets an analyze of a month of history sample the names of kinds, verdicts and reasons.';
revoke execute on function promo_store.estimate_names from public;

do $$
declare
  before constant text := '  perform promo_store.sample_little(name);
';
  source constant text := pg_get_functiondef('promo_store.create_month(text, date)'::regprocedure);
begin
  if position(before in source) = 0 then
    raise exception 'promo_store.create_month is not the function of 0021_cells';
  end if;
  execute replace(source, before, before || '  if parent = ''history'' then
    perform promo_store.estimate_names(name);
  end if;
');
end
$$;

do $$
declare
  name text;
begin
  for name in select t.name from promo_store.month_tables() t where t.parent = 'history' loop
    perform promo_store.estimate_names(name);
    execute format('analyze promo_store.%I', name);
  end loop;
end
$$;
