-- promo_store.refunds has one narrow row for each refunded round. A trigger writes it in the transaction of
-- the refund. Migration 0015 makes promo.ledger read it.
--
-- Why: the planner learns from 900 rows of rounds, of which few are refunded. It expected 1 refund where
-- there were 1,986, and then searched history once for each of them. A table of refunds alone has its own
-- statistics, and a sample of it is cheap.
--
-- Locks: blocks writers of promo_store.rounds, and waits for running batches. Workers wait to write rounds
-- until the migration has ended; readers go on. Time: instant, since no row is read. Safe while older workers
-- run: the trigger runs for their refunds, too, with the rights of the owner.

create table promo_store.refunds (
  round_no bigint primary key,
  opened_at timestamptz not null,
  refunded_at timestamptz,
  refunded_by text collate "C" not null
-- An analyze is due after 1,000 refunds, or 2 % more of them. Most queries ask for the last days, and the
-- planner has to know their refunds.
) with (autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
comment on table promo_store.refunds is 'One row for each refunded round, kept forever. A trigger on rounds keeps it equal to the refunded rows there.';
comment on column promo_store.refunds.round_no is 'Number of the refunded round.';
comment on column promo_store.refunds.opened_at is 'When the first event of the round was decided.';
comment on column promo_store.refunds.refunded_at is 'When the round was refunded, as in rounds.';
comment on column promo_store.refunds.refunded_by is 'event_id of the refund.';
-- Postgres samples 6,000 rows, a fifth of the default. From 20 intervals of time the planner learns how many
-- refunds a range has.
alter table promo_store.refunds alter column round_no set statistics 3, alter column opened_at set statistics 3,
  alter column refunded_at set statistics 20, alter column refunded_by set statistics 3;
create index refunds_refunded_at on promo_store.refunds (refunded_at);
create index refunds_refunded_by on promo_store.refunds using hash (refunded_by);

create function promo_store.note_refund() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- A worker only ever adds a refund. When an operator changes or removes one by hand, the ledger follows.
  if tg_op <> 'INSERT' then
    delete from promo_store.refunds where round_no = old.round_no;
  end if;
  if tg_op <> 'DELETE' and new.refunded_by is not null then
    insert into promo_store.refunds (round_no, opened_at, refunded_at, refunded_by)
    values (new.round_no, new.opened_at, new.refunded_at, new.refunded_by);
  end if;
  return null;
end
$$;
comment on function promo_store.note_refund is 'Keeps promo_store.refunds equal to the refunded rounds.';
revoke execute on function promo_store.note_refund from public;

-- Separate triggers, since the condition of an insert trigger may not name the old row.
create trigger note_refund_of_new_round after insert on promo_store.rounds
for each row when (new.refunded_by is not null) execute function promo_store.note_refund();
create trigger note_refund after update on promo_store.rounds
for each row when (new.refunded_by is distinct from old.refunded_by or new.refunded_at is distinct from old.refunded_at
  or new.refunded_by is not null and new.opened_at <> old.opened_at)
execute function promo_store.note_refund();
create trigger note_refund_of_deleted_round after delete on promo_store.rounds
for each row when (old.refunded_by is not null) execute function promo_store.note_refund();
