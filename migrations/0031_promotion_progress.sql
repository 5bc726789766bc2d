-- The progress of players in promotions, and their completions, kept by `promo-intake promotions`. A fold
-- computes them in TypeScript, by the code of src/promotions, and stores them with its cursor.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this.

create table promo_store.promotion_generations (
  generation int not null,
  promotion_no int not null,
  version int not null,
  removed_at timestamptz,
  primary key (generation, promotion_no, version),
  foreign key (promotion_no, version) references promo_store.promotion_versions
);
comment on table promo_store.promotion_generations is 'The versions that a generation of the fold counts. A version whose windows began before the cursor needs a new generation.';
comment on column promo_store.promotion_generations.generation is 'Generation of the fold.';
comment on column promo_store.promotion_generations.promotion_no is 'The promotion.';
comment on column promo_store.promotion_generations.version is 'The version.';
comment on column promo_store.promotion_generations.removed_at is 'When the promotion was removed, as the generation counts it; null: it is not removed.';

create table promo_store.promotion_windows (
  window_no int generated always as identity primary key,
  promotion_no int not null,
  version int not null,
  window_key text collate "C" not null,
  starts_at timestamptz,
  ends_at timestamptz,
  closes_at timestamptz,
  unique (promotion_no, version, window_key),
  foreign key (promotion_no, version) references promo_store.promotion_versions
);
comment on table promo_store.promotion_windows is 'The windows in which a player has progress. All generations share their numbers.';
comment on column promo_store.promotion_windows.window_no is 'Number of the window in storage.';
comment on column promo_store.promotion_windows.promotion_no is 'The promotion.';
comment on column promo_store.promotion_windows.version is 'The version that counts the window.';
comment on column promo_store.promotion_windows.window_key is 'The local day on which the window begins, or once.';
comment on column promo_store.promotion_windows.starts_at is 'The first instant of the window; null: no bound.';
comment on column promo_store.promotion_windows.ends_at is 'The first instant behind the window; null: no bound.';
comment on column promo_store.promotion_windows.closes_at is 'When a leaderboard has its ranks: the end and accepts_late. Null: never, and for other types.';

create table promo_store.promotion_progress (
  generation int not null,
  window_no int not null,
  player_ref text collate "C" not null,
  items text[] collate "C" not null,
  currencies text[] collate "C" not null,
  amounts numeric[] not null,
  attained int not null,
  has_attempts boolean not null default false,
  score numeric not null,
  scored_no bigint,
  changed_no bigint not null,
  changed_at timestamptz not null,
  primary key (generation, window_no, player_ref)
) with (fillfactor = 70);
comment on table promo_store.promotion_progress is 'The progress of each player in each window. One row has all values of the player, so an event changes one row a promotion.';
comment on column promo_store.promotion_progress.generation is 'Generation of the fold.';
comment on column promo_store.promotion_progress.window_no is 'The window.';
comment on column promo_store.promotion_progress.player_ref is 'The player that is credited.';
comment on column promo_store.promotion_progress.items is 'The item of each value: an item, the number of a leaderboard''s points, a local day, or empty.';
comment on column promo_store.promotion_progress.currencies is 'The currency code of each value; empty for a number of events.';
comment on column promo_store.promotion_progress.amounts is 'Each value: minor units, or a number of events.';
comment on column promo_store.promotion_progress.attained is 'How many completions the values are worth.';
comment on column promo_store.promotion_progress.has_attempts is 'Whether promotion_attempts may have rows of the player. Always looked up for leaderboards.';
comment on column promo_store.promotion_progress.score is 'The points of a leaderboard; 0 for other types.';
comment on column promo_store.promotion_progress.scored_no is 'The verdict that last changed the points; null: none has.';
comment on column promo_store.promotion_progress.changed_no is 'The verdict, or the change of an attribution, that last changed the row.';
comment on column promo_store.promotion_progress.changed_at is 'When it was decided.';

create table promo_store.promotion_boards (
  generation int not null,
  window_no int not null,
  closed_at timestamptz not null,
  primary key (generation, window_no)
);
comment on table promo_store.promotion_boards is 'The leaderboards that are closed: their ranks are completions.';
comment on column promo_store.promotion_boards.generation is 'Generation of the fold.';
comment on column promo_store.promotion_boards.window_no is 'The window of the leaderboard.';
comment on column promo_store.promotion_boards.closed_at is 'The time of the close.';

create table promo_store.promotion_attempts (
  generation int not null,
  window_no int not null,
  player_ref text collate "C" not null,
  ordinal int not null,
  attempt int not null,
  is_held boolean not null,
  decided_no bigint,
  decided_at timestamptz not null,
  confirms_at timestamptz,
  primary key (generation, window_no, player_ref, ordinal)
) with (fillfactor = 80);
create index promotion_attempts_confirms on promo_store.promotion_attempts (generation, confirms_at) where confirms_at is not null;
comment on table promo_store.promotion_attempts is 'The last attempt of each completion: whether it holds, and since which verdict.';
comment on column promo_store.promotion_attempts.generation is 'Generation of the fold.';
comment on column promo_store.promotion_attempts.window_no is 'The window.';
comment on column promo_store.promotion_attempts.player_ref is 'The player.';
comment on column promo_store.promotion_attempts.ordinal is 'Number of the completion in the window, from 1. The rank, for a leaderboard.';
comment on column promo_store.promotion_attempts.attempt is 'How often the ordinal was attained.';
comment on column promo_store.promotion_attempts.is_held is 'Whether the completion holds.';
comment on column promo_store.promotion_attempts.decided_no is 'The verdict, or the change of an attribution, that attained the ordinal last or took it back; null where the time alone did.';
comment on column promo_store.promotion_attempts.decided_at is 'When it was attained, or taken back.';
comment on column promo_store.promotion_attempts.confirms_at is 'When it will be confirmed, where it still holds; null: it is confirmed, or never will be.';

create table promo_store.promotion_completions (
  entry_no bigint generated always as identity primary key,
  completion_id bytea not null,
  change smallint not null check (change between 0 and 2),
  window_no int not null references promo_store.promotion_windows,
  player_ref text collate "C" not null,
  ordinal int not null,
  attempt int not null,
  change_no bigint,
  changed_at timestamptz not null,
  entered_at timestamptz not null default clock_timestamp()
);
create unique index promotion_completions_changes on promo_store.promotion_completions (completion_id, change);
create index promotion_completions_players on promo_store.promotion_completions (player_ref);
create index promotion_completions_windows on promo_store.promotion_completions (window_no, entry_no);
comment on table promo_store.promotion_completions is 'The ledger of completions: entries are added and never changed, except for erasure. The fold writes them in the transaction of its slice, and one process folds at a time: so numbers appear in their order.';
comment on column promo_store.promotion_completions.entry_no is 'Number of the entry. It appears in the order of the commits.';
comment on column promo_store.promotion_completions.completion_id is 'The id of the completion: 16 bytes, equal after a replay, a restore and a rebuild.';
comment on column promo_store.promotion_completions.change is '0: completed. 1: revoked. 2: confirmed.';
comment on column promo_store.promotion_completions.window_no is 'The window.';
comment on column promo_store.promotion_completions.player_ref is 'The player.';
comment on column promo_store.promotion_completions.ordinal is 'Number of the completion in the window, from 1. The rank, for a leaderboard.';
comment on column promo_store.promotion_completions.attempt is 'Which attempt of the ordinal it is.';
comment on column promo_store.promotion_completions.change_no is 'The verdict, or the change of an attribution, that decided the change; null where the time alone did.';
comment on column promo_store.promotion_completions.changed_at is 'When it became so: a time of the store''s decisions.';
comment on column promo_store.promotion_completions.entered_at is 'When the fold wrote the entry.';

create function promo_store.completion_id(window_no int, player_ref text, ordinal int, attempt int) returns bytea
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select substr(sha256(string_agg(convert_to(part, 'UTF8') || '\x00'::bytea, ''::bytea order by place)), 1, 16)
  from promo_store.promotion_windows w
  join promo_store.promotions p using (promotion_no)
  join promo_store.operators o using (operator_no)
  cross join lateral unnest(array[o.operator_id, p.promotion_id, w.version::text, $2, w.window_key, $3::text, $4::text]) with ordinality parts (part, place)
  where w.window_no = $1
$$;
comment on function promo_store.completion_id is 'The id of a completion, as src/promotions/completion.ts computes it.';
revoke execute on function promo_store.completion_id from public;
