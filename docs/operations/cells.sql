-- One set of views over all cells, for analysts: see docs/operations/cells.md.
--
-- Run it once in a database of its own, then call promo.add_cell for each cell and promo.make_views. The
-- owner needs the right to create the extension postgres_fdw, or usage on its foreign data wrapper. A second
-- run replaces the procedures alone.

create extension if not exists postgres_fdw;
create schema if not exists promo;
create schema if not exists promo_reader;
create schema if not exists promo_store;

-- Adds a cell, or replaces its address and its tables. The role is a reader of that cell. The options are
-- further ones of the server, such as '{"sslmode": "verify-full", "sslrootcert": "/etc/ssl/cell-b.crt"}'.
create or replace procedure promo.add_cell(cell text, host text, port int, database text, role text, password text, options jsonb default '{}')
language plpgsql set client_min_messages = warning as $$
declare
  server constant text := 'cell_' || cell;
  further text;
begin
  select coalesce(string_agg(format(', %I %L', o.key, o.value), ''), '') into further from jsonb_each_text(options) o;
  execute format('drop server if exists %I cascade', server);
  -- The cells are asked at the same time, and each plans by the statistics of its own tables.
  execute format('create server %I foreign data wrapper postgres_fdw options (host %L, port %L, dbname %L,
    use_remote_estimate %L, async_capable %L, fetch_size %L%s)', server, host, port, database, 'true', 'true', '10000', further);
  execute format('create user mapping for current_user server %I options (user %L, password %L)', server, role, password);
  execute format('drop schema if exists %I cascade', server);
  execute format('create schema %I', server);
  execute format('import foreign schema promo limit to (verdicts, ledger, rounds, deliveries, anomalies, events, attributions, partitions,
    operations, moves, verdicts_hourly, ledger_daily, players_daily, player_ledger_daily, rollup_coverage, pseudonym_coverage, facts, faults,
    records_without_verdict, round_details, months, erasures, reasons, connections, promotions, promotion_progress, completions,
    promotion_coverage) from server %I into %I', server, server);
  -- The views that have pseudonyms of players.
  execute format('drop schema if exists %I cascade', 'reader_' || cell);
  execute format('create schema %I', 'reader_' || cell);
  execute format('import foreign schema promo_reader limit to (verdicts, ledger, attributions, facts, round_details, player_ledger_daily,
    promotion_progress, completions) from server %I into %I', server, 'reader_' || cell);
end
$$;
comment on procedure promo.add_cell is 'Adds a cell to the views, or replaces its address. Call promo.make_views afterwards.';

-- Makes each view over all cells that were added, and lets the roles in `readers` read it.
create or replace procedure promo.make_views(variadic readers text[] default '{}')
language plpgsql set client_min_messages = warning as $$
declare
  view record;
  reader text;
begin
  if not exists (select from information_schema.foreign_tables t where t.foreign_table_schema like 'cell\_%') then
    raise exception 'there is no cell yet' using hint = 'Call promo.add_cell for each cell first.';
  end if;
  for view in
    -- Columns that all cells have: one of them may be of an older version. A reader of a cell may not read
    -- players in promo. The views of promo_reader have their pseudonyms.
    with tables as (
      select k.target, t.foreign_table_schema as place, substr(t.foreign_table_schema, length(k.prefix) + 1) as cell, t.foreign_table_name as name
      from (values ('promo', 'cell_'), ('promo_reader', 'reader_')) k (target, prefix)
      join information_schema.foreign_tables t on starts_with(t.foreign_table_schema, k.prefix)
    ),
    columns as (
      select t.target, t.name, c.column_name as "column", min(c.ordinal_position) as ordinal
      from tables t join information_schema.columns c on c.table_schema = t.place and c.table_name = t.name
      where c.column_name not in ('player_ref', 'credited_player')
      group by 1, 2, 3 having count(*) = (select count(*) from tables x where x.target = t.target and x.name = t.name)
    ),
    lists as (
      select c.target, c.name, string_agg(quote_ident(c."column"), ', ' order by c.ordinal) as columns from columns c group by 1, 2
    )
    select l.target, l.name, string_agg(format('select %L::text as cell, %s from %I.%I', t.cell, l.columns, t.place, t.name), ' union all ' order by t.cell) as query
    from lists l join tables t using (target, name) group by 1, 2
  loop
    execute format('drop view if exists %I.%I cascade', view.target, view.name);
    execute format('create view %I.%I as %s', view.target, view.name, view.query);
    foreach reader in array readers loop
      execute format('grant select on %I.%I to %I', view.target, view.name, reader);
    end loop;
  end loop;
  foreach reader in array readers loop
    execute format('grant usage on schema promo, promo_reader, promo_store to %I', reader);
  end loop;
end
$$;
comment on procedure promo.make_views is 'Makes the views over all cells, and grants select on them to the named roles.';

-- The same as in each cell, so that the condition is a constant that goes to the cells.
create or replace function promo_store.id_key(id text) returns bytea language sql immutable parallel safe as $$
  select case
    when id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then decode(replace(id, '-', ''), 'hex')
    when octet_length(id) < 16 then convert_to(id, 'UTF8')
    else substr(sha256(convert_to(id, 'UTF8')), 1, 20)
  end
$$;
comment on function promo_store.id_key is 'The key of an event id or round id, for promo.events.';
