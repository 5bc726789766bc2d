-- Rollups: verdicts by hour and the ledger by day, kept up to date by `promo-intake rollups`. They outlive
-- the months of history. A fold reads history in slices, in the order of its numbers, with a cursor.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this.

-- ---------------------------------------------------------------- folds

create table promo_store.folds (
  fold text primary key,
  generation int not null,
  holder text,
  held_until timestamptz
) with (fillfactor = 20);
comment on table promo_store.folds is 'One row for each fold: a process that reads history in slices, and keeps results of them. Each slice locks the row, so one process folds at a time.';
comment on column promo_store.folds.fold is 'Name of the fold.';
comment on column promo_store.folds.generation is 'The generation that readers see.';
comment on column promo_store.folds.holder is 'The process that folds.';
comment on column promo_store.folds.held_until is 'Until then no other process folds. The holder moves it forward.';

create table promo_store.fold_generations (
  fold text not null references promo_store.folds on delete cascade,
  generation int not null,
  state text not null check (state in ('filling', 'shown', 'retired')),
  after bigint not null,
  lineage text not null,
  newest_at timestamptz,
  caught_up_at timestamptz,
  complete_since timestamptz not null,
  began_at timestamptz not null default clock_timestamp(),
  reason text not null,
  primary key (fold, generation)
) with (fillfactor = 20);
comment on table promo_store.fold_generations is 'The generations of each fold, with their cursors. A cursor moves in the transaction that writes the results of its slice.';
comment on column promo_store.fold_generations.fold is 'Name of the fold.';
comment on column promo_store.fold_generations.generation is 'Number of the generation. Its results carry it.';
comment on column promo_store.fold_generations.state is 'filling: it is built beside the one that is shown. shown: readers see it. retired: another has replaced it, and its results are being deleted.';
comment on column promo_store.fold_generations.after is 'The cursor: results have all verdicts up to this verdict_id, and none of a higher one.';
comment on column promo_store.fold_generations.lineage is 'promo.lineage() at the last slice.';
comment on column promo_store.fold_generations.newest_at is 'The latest decided_at of all slices.';
comment on column promo_store.fold_generations.caught_up_at is 'When a slice last reached the horizon.';
comment on column promo_store.fold_generations.complete_since is 'From then on, results have all verdicts. Earlier months had been dropped before they were read.';
comment on column promo_store.fold_generations.began_at is 'When it began.';
comment on column promo_store.fold_generations.reason is 'Why it began.';

-- ---------------------------------------------------------------- results

create table promo_store.rollup_verdicts (
  generation int not null,
  hour timestamptz not null,
  operator_no int not null,
  brand_no int not null,
  connection_no int not null,
  kind smallint not null,
  outcome smallint not null,
  currency_no smallint not null,
  verdicts bigint not null,
  amount_minor numeric not null,
  timed bigint not null,
  early bigint not null,
  within_100ms bigint not null,
  within_1s bigint not null,
  within_10s bigint not null,
  within_1m bigint not null,
  within_10m bigint not null,
  within_1h bigint not null,
  within_1d bigint not null,
  primary key (generation, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no)
) with (fillfactor = 50);
comment on table promo_store.rollup_verdicts is 'Verdicts by hour: see promo.verdicts_hourly. A number is 0 where a verdict has none.';
comment on column promo_store.rollup_verdicts.generation is 'Generation of the fold.';
comment on column promo_store.rollup_verdicts.hour is 'Begin of the hour of decided_at.';
comment on column promo_store.rollup_verdicts.operator_no is 'The operator.';
comment on column promo_store.rollup_verdicts.brand_no is 'The registered brand.';
comment on column promo_store.rollup_verdicts.connection_no is 'The connection of the deciding delivery.';
comment on column promo_store.rollup_verdicts.kind is 'Kind of the events.';
comment on column promo_store.rollup_verdicts.outcome is 'Verdict and reason.';
comment on column promo_store.rollup_verdicts.currency_no is 'The currency.';
comment on column promo_store.rollup_verdicts.verdicts is 'Number of verdicts.';
comment on column promo_store.rollup_verdicts.amount_minor is 'Sum of the amounts in minor units.';
comment on column promo_store.rollup_verdicts.timed is 'Verdicts on events with a valid time.';
comment on column promo_store.rollup_verdicts.early is 'Of these, events whose time is later than the decision.';
comment on column promo_store.rollup_verdicts.within_100ms is 'Of these, decided at most 100 ms after their time, the early ones included.';
comment on column promo_store.rollup_verdicts.within_1s is 'At most 1 s.';
comment on column promo_store.rollup_verdicts.within_10s is 'At most 10 s.';
comment on column promo_store.rollup_verdicts.within_1m is 'At most one minute.';
comment on column promo_store.rollup_verdicts.within_10m is 'At most 10 minutes.';
comment on column promo_store.rollup_verdicts.within_1h is 'At most one hour.';
comment on column promo_store.rollup_verdicts.within_1d is 'At most one day.';

create table promo_store.rollup_ledger (
  generation int not null,
  day date not null,
  operator_no int not null,
  brand_no int not null,
  kind smallint not null,
  currency_no smallint not null,
  game_id text collate "C" not null,
  entries bigint not null,
  entered_minor numeric not null,
  reversals bigint not null,
  reversed_minor numeric not null,
  refunded bigint not null,
  refunded_minor numeric not null,
  primary key (generation, day, operator_no, brand_no, kind, currency_no, game_id)
) with (fillfactor = 50);
comment on table promo_store.rollup_ledger is 'The ledger by day: see promo.ledger_daily. A number is 0, and a game empty, where an entry has none.';
comment on column promo_store.rollup_ledger.generation is 'Generation of the fold.';
comment on column promo_store.rollup_ledger.day is 'Day in UTC.';
comment on column promo_store.rollup_ledger.operator_no is 'The operator.';
comment on column promo_store.rollup_ledger.brand_no is 'The brand.';
comment on column promo_store.rollup_ledger.kind is 'Kind of the entries.';
comment on column promo_store.rollup_ledger.currency_no is 'The currency.';
comment on column promo_store.rollup_ledger.game_id is 'The game.';
comment on column promo_store.rollup_ledger.entries is 'Entries of events that were decided on the day.';
comment on column promo_store.rollup_ledger.entered_minor is 'Sum of their amounts.';
comment on column promo_store.rollup_ledger.reversals is 'Reversals by refunds that were decided on the day.';
comment on column promo_store.rollup_ledger.reversed_minor is 'Sum of the amounts that they reverse.';
comment on column promo_store.rollup_ledger.refunded is 'Of the entries of the day, those that were refunded until now.';
comment on column promo_store.rollup_ledger.refunded_minor is 'Sum of the amounts of these.';

-- ---------------------------------------------------------------- what people read

create view promo.rollup_coverage as
select
  g.generation,
  nullif(g.complete_since, '-infinity') as complete_since,
  g.after as up_to_verdict_id,
  g.newest_at as newest_decided_at,
  g.caught_up_at,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() as is_running,
  n.reason as rebuilt_because,
  n.after as rebuilt_up_to
from promo_store.folds f
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
left join promo_store.fold_generations n on n.fold = f.fold and n.state = 'filling'
where f.fold = 'rollups';
comment on view promo.rollup_coverage is 'Since when and up to where promo.verdicts_hourly and promo.ledger_daily are complete: one row, or none where promo-intake rollups never ran.';
comment on column promo.rollup_coverage.generation is 'Number of the generation that is shown. A rebuild shows the next one.';
comment on column promo.rollup_coverage.complete_since is 'The rollups have all verdicts that were decided from this time on; null: all that were ever decided.';
comment on column promo.rollup_coverage.up_to_verdict_id is 'The rollups have all verdicts up to this number, and no higher one.';
comment on column promo.rollup_coverage.newest_decided_at is 'The latest decided_at among them.';
comment on column promo.rollup_coverage.caught_up_at is 'When the rollups last had everything that was committed.';
comment on column promo.rollup_coverage.lag_seconds is 'Seconds since then. A process that is idle notes the time every few seconds.';
comment on column promo.rollup_coverage.holder is 'The process that keeps the rollups, or kept them last.';
comment on column promo.rollup_coverage.is_running is 'Whether it does so now.';
comment on column promo.rollup_coverage.rebuilt_because is 'Why the rollups are being built again; null where they are not.';
comment on column promo.rollup_coverage.rebuilt_up_to is 'The verdict_id that the rebuild has reached.';

create view promo.verdicts_hourly as
select
  r.hour,
  o.operator_id,
  b.brand_id as brand,
  c.connection_id,
  promo_store.kind_name(r.kind) as kind,
  promo_store.verdict_name(r.outcome) as verdict,
  promo_store.reason_name(r.outcome) as reason,
  u.code as currency,
  u.scale,
  r.verdicts,
  r.amount_minor,
  r.amount_minor * u.unit as amount,
  r.timed,
  r.early,
  r.within_100ms,
  r.within_1s,
  r.within_10s,
  r.within_1m,
  r.within_10m,
  r.within_1h,
  r.within_1d
from promo_store.rollup_verdicts r
join promo_store.operators o using (operator_no)
join promo_store.connections c using (connection_no)
left join promo_store.brands b on b.brand_no = r.brand_no
left join promo_store.currencies u on u.currency_no = r.currency_no
where r.generation = (select f.generation from promo_store.folds f where f.fold = 'rollups');
comment on view promo.verdicts_hourly is 'The verdicts of each hour, counted. Kept when months of history are dropped. See promo.rollup_coverage for since when and up to where.';
comment on column promo.verdicts_hourly.hour is 'Begin of the hour in which the verdicts were decided. Hours are those of UTC.';
comment on column promo.verdicts_hourly.operator_id is 'Operator of the events.';
comment on column promo.verdicts_hourly.brand is 'Registered brand of the events; null where there is none, and where the event names a brand that is not registered.';
comment on column promo.verdicts_hourly.connection_id is 'Connection that delivered the events first.';
comment on column promo.verdicts_hourly.kind is 'Kind of the events; null where it was none of the seven.';
comment on column promo.verdicts_hourly.verdict is 'accepted, rejected or skipped.';
comment on column promo.verdicts_hourly.reason is 'Why they were rejected or skipped; null for accepted.';
comment on column promo.verdicts_hourly.currency is 'Currency code; null where missing, not read or not in the table.';
comment on column promo.verdicts_hourly.scale is 'Decimals of the currency.';
comment on column promo.verdicts_hourly.verdicts is 'Number of verdicts.';
comment on column promo.verdicts_hourly.amount_minor is 'Sum of the amounts in minor units, refunded ones included. For sums net of refunds see promo.ledger_daily.';
comment on column promo.verdicts_hourly.amount is 'The same in major units, exact; null without a currency.';
comment on column promo.verdicts_hourly.timed is 'Verdicts on events with a valid occurred_at. Time to decide is decided_at less occurred_at.';
comment on column promo.verdicts_hourly.early is 'Of these, events whose occurred_at is later than decided_at: the clock of their sender is ahead.';
comment on column promo.verdicts_hourly.within_100ms is 'Of the timed ones, those with a time to decide of at most 100 ms, the early ones included. The columns behind it include it, as the buckets of a Prometheus histogram do.';
comment on column promo.verdicts_hourly.within_1s is 'At most 1 s.';
comment on column promo.verdicts_hourly.within_10s is 'At most 10 s.';
comment on column promo.verdicts_hourly.within_1m is 'At most one minute.';
comment on column promo.verdicts_hourly.within_10m is 'At most 10 minutes.';
comment on column promo.verdicts_hourly.within_1h is 'At most one hour.';
comment on column promo.verdicts_hourly.within_1d is 'At most one day.';

create view promo.ledger_daily as
select
  r.day,
  o.operator_id,
  b.brand_id as brand,
  nullif(r.game_id, '') as game_id,
  promo_store.kind_name(r.kind) as kind,
  u.code as currency,
  u.scale,
  r.entries,
  r.entered_minor as amount_minor,
  r.entered_minor * u.unit as amount,
  r.refunded,
  r.refunded_minor,
  (r.entered_minor - r.refunded_minor) * u.unit as net_amount,
  r.reversals,
  r.reversed_minor,
  -r.reversed_minor * u.unit as reversal_amount
from promo_store.rollup_ledger r
join promo_store.operators o using (operator_no)
left join promo_store.brands b on b.brand_no = r.brand_no
left join promo_store.currencies u on u.currency_no = r.currency_no
where r.generation = (select f.generation from promo_store.folds f where f.fold = 'rollups');
comment on view promo.ledger_daily is 'The entries of promo.ledger of each day, counted. The columns refunded have the refunds of these entries, whenever they were decided. The columns of reversals have the refunds that were decided on the day. Kept when months of history are dropped. See promo.rollup_coverage for since when and up to where.';
comment on column promo.ledger_daily.day is 'Day in UTC.';
comment on column promo.ledger_daily.operator_id is 'Operator of the entries.';
comment on column promo.ledger_daily.brand is 'Brand of the entries.';
comment on column promo.ledger_daily.game_id is 'Game of the entries; null where the events name none.';
comment on column promo.ledger_daily.kind is 'Kind of the entries.';
comment on column promo.ledger_daily.currency is 'Currency code; null for login.';
comment on column promo.ledger_daily.scale is 'Decimals of the currency.';
comment on column promo.ledger_daily.entries is 'Events that were decided on the day and counted, before refunds.';
comment on column promo.ledger_daily.amount_minor is 'Sum of their amounts in minor units.';
comment on column promo.ledger_daily.amount is 'The same in major units, exact; null for login.';
comment on column promo.ledger_daily.refunded is 'Of these entries, those whose round is refunded, whenever the refund was decided. It grows later.';
comment on column promo.ledger_daily.refunded_minor is 'Sum of the amounts of these in minor units.';
comment on column promo.ledger_daily.net_amount is 'Sum of the entries that still count, in major units: amount less refunded ones.';
comment on column promo.ledger_daily.reversals is 'Reversals in the ledger by refunds that were decided on the day, of entries of any day.';
comment on column promo.ledger_daily.reversed_minor is 'Sum of the amounts that they reverse, in minor units.';
comment on column promo.ledger_daily.reversal_amount is 'The same as in promo.ledger: negative, in major units. amount plus reversal_amount is the sum of promo.ledger by the day of entered_at.';

create function promo_store.complete_history_since() returns timestamptz language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select k.since from promo_store.kept_from('history') k
$$;
comment on function promo_store.complete_history_since is 'The time since which history has all its rows; -infinity: always.';
revoke execute on function promo_store.complete_history_since from public;
