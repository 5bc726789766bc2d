-- promo_store.refunds: one narrow row for each refunded round, written by a trigger in the transaction of the refund. Migration 0015 has promo.ledger read it.
--
-- Why: the planner learns from 900 rows of rounds, of which few are refunded. It expected 1 refund where there were 1,986, and then searched history once for each of
-- them. A table of refunds alone has statistics of its own, and they are small to take.
--
-- Locks: takes promo_store.rounds so that nobody writes it, which waits for the batches under way; workers wait with writing rounds until the migration has ended, and
-- readers go on. Time: instant, since no row is read. Safe while older workers run: the trigger runs for their refunds, too, with the rights of the owner.

create table promo_store.refunds (
  round_no bigint primary key,
  opened_at timestamptz not null,
  refunded_at timestamptz,
  refunded_by text collate "C" not null
-- An analyze is due after 1,000 refunds or 2 % more of them: the last days are what people ask for, and a plan for them needs to know of them.
) with (autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
comment on table promo_store.refunds is 'One row for each refunded round, kept forever. A trigger on rounds keeps it equal to the refunded rows there.';
comment on column promo_store.refunds.round_no is 'Number of the refunded round.';
comment on column promo_store.refunds.opened_at is 'When the first event of the round was decided.';
comment on column promo_store.refunds.refunded_at is 'When the round was refunded, as rounds has it.';
comment on column promo_store.refunds.refunded_by is 'event_id of the refund.';
-- 6,000 rows are sampled, a fifth of what Postgres would sample by default, and 20 intervals of time tell the planner how many refunds a range has.
alter table promo_store.refunds alter column round_no set statistics 3, alter column opened_at set statistics 3,
  alter column refunded_at set statistics 20, alter column refunded_by set statistics 3;
create index refunds_refunded_at on promo_store.refunds (refunded_at);
create index refunds_refunded_by on promo_store.refunds using hash (refunded_by);

create function promo_store.note_refund() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- A worker only ever adds a refund. Whoever removes or changes one by hand has the ledger follow.
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

-- A trigger each, since the condition of one for an insert may not name the row before.
create trigger note_refund_of_new_round after insert on promo_store.rounds
for each row when (new.refunded_by is not null) execute function promo_store.note_refund();
create trigger note_refund after update on promo_store.rounds
for each row when (new.refunded_by is distinct from old.refunded_by or new.refunded_at is distinct from old.refunded_at
  or new.refunded_by is not null and new.opened_at <> old.opened_at)
execute function promo_store.note_refund();
create trigger note_refund_of_deleted_round after delete on promo_store.rounds
for each row when (old.refunded_by is not null) execute function promo_store.note_refund();
