-- Pseudonyms of players, which `promo-intake pseudonyms` computes by a key outside the database. The schema
-- promo_reader has each view of promo with pseudonyms in place of players.
--
-- Locks: replaces promo.erase_player, and creates the rest. Waits for nothing. Time: instant. Safe while
-- older workers run: they need nothing of this.

-- ---------------------------------------------------------------- pseudonyms

create table promo_store.pseudonym_keys (
  key_no smallint generated always as identity primary key,
  key_id text not null unique,
  state text not null check (state in ('filling', 'shown', 'former', 'retired')),
  began_at timestamptz not null default clock_timestamp(),
  shown_at timestamptz
);
comment on table promo_store.pseudonym_keys is 'The keys of pseudonyms, by their ids. The keys themselves are never in the database.';
comment on column promo_store.pseudonym_keys.key_no is 'Number of the key in storage.';
comment on column promo_store.pseudonym_keys.key_id is 'Id of the key: eight hex digits that are computed from it, and that lead nowhere.';
comment on column promo_store.pseudonym_keys.state is 'filling: its pseudonyms are being computed. shown: readers see them. former: readers see them beside the new ones. retired: they are being deleted.';
comment on column promo_store.pseudonym_keys.began_at is 'When a process first had the key.';
comment on column promo_store.pseudonym_keys.shown_at is 'Since when readers see its pseudonyms.';
create unique index pseudonym_keys_state on promo_store.pseudonym_keys (state) where state in ('filling', 'shown');

create table promo_store.pseudonyms (
  key_no smallint not null,
  operator_id text collate "C" not null,
  player_ref text collate "C" not null,
  player_id text collate "C" not null,
  -- No foreign key: a slice would lock the row of the key.
  primary key (key_no, operator_id, player_ref)
);
comment on table promo_store.pseudonyms is 'The pseudonym of each player with a kept event or attribution. Readers have no right on it.';
comment on column promo_store.pseudonyms.key_no is 'The key by which it is computed.';
comment on column promo_store.pseudonyms.operator_id is 'Operator of the player. The same player_ref at another operator has another pseudonym.';
comment on column promo_store.pseudonyms.player_ref is 'The player, as in history.';
comment on column promo_store.pseudonyms.player_id is 'The pseudonym: 32 hex digits; erased:N for an erased player.';
create index pseudonyms_player_id on promo_store.pseudonyms (player_id, key_no);

-- Here, so that no erasure has to insert the row, and wait for another erasure that does.
insert into promo_store.folds (fold, generation) values ('pseudonyms', 0) on conflict do nothing;

-- ---------------------------------------------------------------- what people read

create view promo.pseudonym_coverage as
select
  k.key_id,
  k.shown_at as since,
  (select o.key_id from promo_store.pseudonym_keys o where o.state = 'former') as former_key_id,
  (select o.key_id from promo_store.pseudonym_keys o where o.state = 'filling') as next_key_id,
  g.after as up_to_verdict_id,
  g.caught_up_at - interval '1 minute' as complete_until,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() as is_running
from promo_store.pseudonym_keys k
join promo_store.folds f on f.fold = 'pseudonyms'
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
where k.state = 'shown';
comment on view promo.pseudonym_coverage is 'Up to where each verdict has the pseudonym of its player: one row, or none where promo-intake pseudonyms never ran. A count of different players is exact up to there.';
comment on column promo.pseudonym_coverage.key_id is 'Id of the key of the pseudonyms. Keep it with each copy: pseudonyms of different keys cannot be compared.';
comment on column promo.pseudonym_coverage.since is 'Since when this key is the one that readers see.';
comment on column promo.pseudonym_coverage.former_key_id is 'Id of the former key, as long as promo.former_player_ids leads from its pseudonyms to the new ones; null otherwise.';
comment on column promo.pseudonym_coverage.next_key_id is 'Id of the key whose pseudonyms are being computed; null where none are.';
comment on column promo.pseudonym_coverage.up_to_verdict_id is 'Each verdict up to this number has the pseudonym of its player. For exact counts: where verdict_id <= (select up_to_verdict_id from promo.pseudonym_coverage).';
comment on column promo.pseudonym_coverage.complete_until is 'The same as a time: where decided_at < (select complete_until from promo.pseudonym_coverage).';
comment on column promo.pseudonym_coverage.lag_seconds is 'Seconds since every committed verdict had its pseudonym.';
comment on column promo.pseudonym_coverage.holder is 'The process that computes pseudonyms, or did so last.';
comment on column promo.pseudonym_coverage.is_running is 'Whether it does so now.';

create view promo.player_ids as
select p.operator_id, p.player_id
from promo_store.pseudonyms p
where p.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown');
comment on view promo.player_ids is 'All pseudonyms in use. A copy elsewhere forgets each player_id that is missing here: its player was erased, or has no kept event.';
comment on column promo.player_ids.operator_id is 'Operator of the player.';
comment on column promo.player_ids.player_id is 'The pseudonym; erased:N for an erased player.';

create view promo.former_player_ids as
select n.operator_id, o.player_id as former_player_id, n.player_id
from promo_store.pseudonyms o
join promo_store.pseudonyms n on n.operator_id = o.operator_id and n.player_ref = o.player_ref
  and n.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'shown')
where o.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = 'former');
comment on view promo.former_player_ids is 'The pseudonyms of the former key with those of the present one, as long as the process has both keys. A copy elsewhere is changed by it. Empty otherwise.';
comment on column promo.former_player_ids.operator_id is 'Operator of the player.';
comment on column promo.former_player_ids.former_player_id is 'The pseudonym by the former key.';
comment on column promo.former_player_ids.player_id is 'The pseudonym by the present key.';

-- ---------------------------------------------------------------- the views of readers

create schema promo_reader;
comment on schema promo_reader is 'The views of promo with pseudonyms in place of players, for the role of readers. Each view has all its columns, so that `select *` works.';

create function promo_store.show_to_readers(view text) returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  source constant regclass := format('promo.%I', view)::regclass;
  -- The planner leaves a join out where a query reads no pseudonym, since the primary key makes it unique.
  joined constant text := ' left join promo_store.pseudonyms %1$s_of on %1$s_of.key_no = (select k.key_no from promo_store.pseudonym_keys k where k.state = ''shown'')
    and %1$s_of.operator_id = %2$s.operator_id and %1$s_of.player_ref = %3$s';
  player_columns text[];
  shown text;
begin
  select coalesce(array_agg(a.attname::text) filter (where a.attname in ('player_ref', 'credited_player')), '{}'),
    'select ' || string_agg(case a.attname
      when 'player_ref' then 'player_ref_of.player_id'
      when 'credited_player' then 'credited_player_of.player_id as credited_player_id'
      else format('v.%I', a.attname) end, ', ' order by a.attnum) || format(' from promo.%I v', view)
  into player_columns, shown
  from pg_attribute a where a.attrelid = source and a.attnum > 0 and not a.attisdropped;

  if pg_get_viewdef(source) !~ 'UNION ALL' then
    shown := shown || coalesce((select string_agg(format(joined, c, 'v', 'v.' || c), '') from unnest(player_columns) c), '');
  elsif player_columns <> '{}' then
    -- The index on players is found in each part of a union, and not through a join with all of it.
    shown := replace(replace(replace(rtrim(pg_get_viewdef(source), ';'),
      '    h.player_ref,', '    player_ref_of.player_id,'),
      'COALESCE(a.player_ref, h.player_ref) AS credited_player', 'credited_player_of.player_id as credited_player_id'),
      E'\n  WHERE ', format(joined, 'player_ref', 'f', 'h.player_ref')
        || format(joined, 'credited_player', 'f', 'coalesce(a.player_ref, h.player_ref)') || E'\n  WHERE ');
    if shown ~* '(player_ref,|credited_player)\s*(,|\n)' then
      raise exception 'promo.% is a union of other parts than those of 0020_attributions', view;
    end if;
  end if;
  execute format('create or replace view promo_reader.%I as %s', view, shown);

  execute format('comment on view promo_reader.%I is %L', view,
    case when player_columns = '{}' then 'The same as promo.' || view || '.' else 'As promo.' || view || ', with pseudonyms in place of players.' end);
  execute (
    select string_agg(format('comment on column promo_reader.%I.%I is %L', view,
      case a.attname when 'player_ref' then 'player_id' when 'credited_player' then 'credited_player_id' else a.attname end,
      case when a.attname in ('player_ref', 'credited_player')
        then 'Pseudonym in place of ' || a.attname || '; erased:N for an erased player. Null where there is no player, and for verdicts behind promo.pseudonym_coverage. '
          || case a.attname when 'player_ref' then 'An index finds it.' else 'No index finds it.' end
        else col_description(source, a.attnum) end), ';')
    from pg_attribute a where a.attrelid = source and a.attnum > 0 and not a.attisdropped
  );
end
$$;
comment on function promo_store.show_to_readers is 'Creates or replaces the view of promo_reader for a view of promo. A migration calls it for each view that it creates or changes.';
revoke execute on function promo_store.show_to_readers from public;

select promo_store.show_to_readers(relname) from (
  select c.relname from pg_class c where c.relnamespace = 'promo'::regnamespace and c.relkind = 'v' order by 1
) views;

-- ---------------------------------------------------------------- erasure and retention

create function promo_store.wait_for_pseudonyms() returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into promo_store.folds (fold, generation) values ('pseudonyms', 0) on conflict do nothing;
  perform from promo_store.folds f where f.fold = 'pseudonyms' for share;
end
$$;
comment on function promo_store.wait_for_pseudonyms is 'Waits for the end of the slice of the pseudonyms that runs, and lets no other begin before the end of this transaction.';
revoke execute on function promo_store.wait_for_pseudonyms from public;

create function promo_store.forget_pseudonym(operator text, player text, replacement text) returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- A slice may have read the player before this transaction. Wait for its end, and delete what it wrote.
  -- The next slice waits for this transaction, and reads no such player any more.
  perform promo_store.wait_for_pseudonyms();
  with gone as (
    delete from promo_store.pseudonyms p where p.operator_id = operator and p.player_ref = player returning p.key_no
  )
  insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id) select g.key_no, operator, replacement, replacement from gone g
  on conflict do nothing;
end
$$;
comment on function promo_store.forget_pseudonym is 'Removes the pseudonyms of an erased player: the last step of each call of promo.erase_player.';
revoke execute on function promo_store.forget_pseudonym from public;

do $$
declare
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
  place constant text := '  update promo_store.operations o set
    ended_at =';
begin
  if position(place in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0024_wallet_operations';
  end if;
  execute replace(source, place, '  perform promo_store.forget_pseudonym(operator, player, replacement);
' || place);
end
$$;

create function promo.forget_dropped_pseudonyms(page bigint, pages int default 500, out next_page bigint, out forgotten bigint)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each player to be looked up by the index on players.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '5s'
as $$
begin
  if coalesce(page, -1) < 0 or coalesce(pages, 0) < 1 then
    raise exception 'name the first page, and how many pages to read at most' using errcode = 'invalid_parameter_value';
  end if;
  -- A player may come back in a slice that runs now, which takes the pseudonym for one that stays.
  perform promo_store.wait_for_pseudonyms();
  delete from promo_store.pseudonyms p
  where p.ctid >= format('(%s,0)', page)::tid and p.ctid < format('(%s,0)', page + pages)::tid
    and not exists (select from promo_store.history h join promo_store.feeds f on f.feed_no = h.feed_no
      where h.player_ref = p.player_ref and f.operator_id = p.operator_id)
    and not exists (select from promo_store.attributions a join promo_store.feeds f on f.feed_no = a.feed_no
      where a.player_ref = p.player_ref and f.operator_id = p.operator_id);
  get diagnostics forgotten = row_count;
  if (page + pages) * current_setting('block_size')::bigint < pg_relation_size('promo_store.pseudonyms') then
    next_page := page + pages;
  end if;
end
$$;
comment on function promo.forget_dropped_pseudonyms is 'Deletes the pseudonyms of players who have no kept event and no attribution, in the given pages of the table. Call it again with next_page until that is null. The first page is 0.';
revoke execute on function promo.forget_dropped_pseudonyms from public;
