-- One set of views over all cells, for analysts: see docs/operations/cells.md.
--
-- Run it once in a database of its own, then call promo.add_cell for each cell and promo.make_views. The
-- owner needs the right to create the extension postgres_fdw, or usage on its foreign data wrapper. A second
-- run replaces the procedures alone.

create extension if not exists postgres_fdw;
create schema if not exists promo;
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
    operations, moves, verdicts_hourly, ledger_daily, players_daily, player_ledger_daily, rollup_coverage, facts, faults, records_without_verdict,
    round_details, months, erasures, reasons, connections, promotions, promotion_progress, completions, promotion_coverage) from server %I into %I', server, server);
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
    -- players.
    with tables as (
      select t.foreign_table_schema as cell, t.foreign_table_name as name from information_schema.foreign_tables t where t.foreign_table_schema like 'cell\_%'
    ),
    columns as (
      select c.table_name as name, c.column_name as "column", min(c.ordinal_position) as place
      from tables t join information_schema.columns c on c.table_schema = t.cell and c.table_name = t.name
      where c.column_name not in ('player_ref', 'credited_player')
      group by 1, 2 having count(*) = (select count(distinct t.cell) from tables t where t.name = c.table_name)
    ),
    lists as (
      select c.name, string_agg(quote_ident(c."column"), ', ' order by c.place) as columns from columns c group by 1
    )
    select l.name, string_agg(format('select %L::text as cell, %s from %I.%I', substr(t.cell, 6), l.columns, t.cell, t.name), ' union all ' order by t.cell) as query
    from lists l join tables t using (name) group by 1
  loop
    execute format('drop view if exists promo.%I cascade', view.name);
    execute format('create view promo.%I as %s', view.name, view.query);
    foreach reader in array readers loop
      execute format('grant select on promo.%I to %I', view.name, reader);
    end loop;
  end loop;
  foreach reader in array readers loop
    execute format('grant usage on schema promo, promo_store to %I', reader);
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
