-- The outbox of completions: how far the messages of promo_store.promotion_completions are published. The
-- ledger of completions itself has the messages, so none is lost, and none is stored twice.
--
-- Entries get their numbers in the order of their commits, also where two processes write. A publisher that
-- passed a number which appears later would lose its message.
--
-- Locks: creates, and waits for a slice of promotions that runs. Time: instant. Safe while older workers run:
-- they need nothing of this.

create table promo_store.completion_outbox (
  is_only boolean primary key default true check (is_only),
  after bigint not null default 0,
  moved_at timestamptz,
  holder text,
  held_until timestamptz
) with (fillfactor = 10);
comment on table promo_store.completion_outbox is 'How far completions are published: one row. A writer of completions locks the table, so that one writes at a time.';
comment on column promo_store.completion_outbox.is_only is 'Keeps the table to one row.';
comment on column promo_store.completion_outbox.after is 'Each entry up to this number is published, but for those of operators that are held back.';
comment on column promo_store.completion_outbox.moved_at is 'When an entry was last published; null: none was.';
comment on column promo_store.completion_outbox.holder is 'The process that publishes, or did so last.';
comment on column promo_store.completion_outbox.held_until is 'Until when no other process publishes; null: another one may begin.';

create table promo_store.completion_backlogs (
  operator_no int primary key references promo_store.operators,
  after bigint not null,
  since timestamptz not null default clock_timestamp(),
  reason text
) with (fillfactor = 10);
comment on table promo_store.completion_backlogs is 'The operators whose topic refuses completions. The entries of all others are published meanwhile.';
comment on column promo_store.completion_backlogs.operator_no is 'The operator.';
comment on column promo_store.completion_backlogs.after is 'Each entry of the operator up to this number is published.';
comment on column promo_store.completion_backlogs.since is 'When its topic began to refuse.';
comment on column promo_store.completion_backlogs.reason is 'Why its topic refused last, as Kafka says.';

-- ---------------------------------------------------------------- the order of the entries

create function promo_store.order_completions() returns trigger language plpgsql
-- The writer of completions has no right on the outbox.
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Conflicts with itself alone: a publisher reads and updates the table meanwhile.
  lock table promo_store.completion_outbox in share update exclusive mode;
  return null;
end
$$;
comment on function promo_store.order_completions is 'Waits until no other transaction writes completions, before the first entry of a statement takes its number.';
revoke execute on function promo_store.order_completions from public;
create trigger order_completions before insert on promo_store.promotion_completions
for each statement execute function promo_store.order_completions();

-- ---------------------------------------------------------------- what people read

create view promo.completion_publishing as
select
  o.after as published_up_to,
  o.moved_at as last_published_at,
  extract(epoch from clock_timestamp() - least(
    (select e.entered_at from promo_store.promotion_completions e where e.entry_no > o.after order by e.entry_no limit 1),
    (select min(b.since) from promo_store.completion_backlogs b))) as lag_seconds,
  o.holder,
  coalesce(o.held_until > clock_timestamp(), false) as is_running
from promo_store.completion_outbox o;
comment on view promo.completion_publishing is 'How far completions are published on COMPLETION_TOPIC: one row, or none where none ever were.';
comment on column promo.completion_publishing.published_up_to is 'Each entry up to this number is published, but for those of promo.held_back_completions.';
comment on column promo.completion_publishing.last_published_at is 'When an entry was last published; null: none was.';
comment on column promo.completion_publishing.lag_seconds is 'For how long the oldest unpublished entry has waited, or the operator that is held back for longest; null where everything is published.';
comment on column promo.completion_publishing.holder is 'The process that publishes, or did so last.';
comment on column promo.completion_publishing.is_running is 'Whether it does so now.';

create view promo.held_back_completions as
select o.operator_id, b.after as published_up_to, b.since, b.reason
from promo_store.completion_backlogs b join promo_store.operators o using (operator_no);
comment on view promo.held_back_completions is 'The operators whose topic refuses completions.';
comment on column promo.held_back_completions.operator_id is 'The operator.';
comment on column promo.held_back_completions.published_up_to is 'Each entry of the operator up to this number is published.';
comment on column promo.held_back_completions.since is 'When its topic began to refuse.';
comment on column promo.held_back_completions.reason is 'Why its topic refused last, as Kafka says.';

select promo_store.show_to_readers(view) from unnest(array['completion_publishing', 'held_back_completions']) view;
