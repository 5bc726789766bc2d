-- Adds indexes for time ranges of promo.ledger and promo.deliveries, and the scale of promo.rounds. Comments
-- say what a query has to take into account.
--
-- Locks: workers wait to write rounds and resends until both indexes are built, and are undecided after 5 s.
-- Time: one read of rounds and one of resends, 1.3 s and 2.4 s for 4 million of each. With many more rounds,
-- build their index before, which blocks nobody:
--   create index concurrently rounds_refunded_at on promo_store.rounds (refunded_at)
--     where refunded_at is not null
-- An interrupted build leaves an invalid index. The migration drops it first, which waits for running
-- readers, and others wait behind it. Safe while older workers run: they do not use the index.

-- ---------------------------------------------------------------- ranges of time

-- An interrupted concurrent build leaves an invalid index behind.
do $$
begin
  if exists (select from pg_index where indexrelid = to_regclass('promo_store.rounds_refunded_at') and not indisvalid) then
    drop index promo_store.rounds_refunded_at;
  end if;
end $$;
-- The index has an entry for each refund and none for other rounds, so the usual round costs nothing. A
-- refund changes refunded_by, so Postgres writes new index entries for its row in any case.
create index if not exists rounds_refunded_at on promo_store.rounds (refunded_at) where refunded_at is not null;
-- Rows lie in the order in which they were received, like those of history.
create index resends_order on promo_store.resends using brin (received_at) with (pages_per_range = 32);

-- ---------------------------------------------------------------- what people read

-- Last, since readers of promo.rounds wait from here on.
create or replace view promo.rounds as
select
  f.operator_id,
  f.feed_id,
  r.round_id,
  r.refunded_by is not null as refunded,
  r.refunded_by,
  r.refunded_at,
  r.settled,
  b.brand_id as brand,
  s.currency,
  s.bet_minor * u.unit as counted_bet,
  s.win_minor * u.unit as counted_win,
  s.settled_minor * u.unit as counted_settled,
  s.below_min_bet_minor * u.unit as below_min_bet,
  case when r.refunded_by is null then s.bet_minor else 0 end as net_bet_minor,
  case when r.refunded_by is null then s.win_minor else 0 end as net_win_minor,
  case when r.refunded_by is null then s.settled_minor else 0 end as net_settled_minor,
  r.opened_at,
  u.scale
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
left join promo_store.brands b on b.brand_no = r.brand_no
left join lateral (
  select (select code from promo_store.currencies c where c.currency_no = r.currency_no) as currency,
    r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor
  union all
  select key, (value ->> 'bet')::numeric, (value ->> 'win')::numeric, (value ->> 'settled')::numeric, (value ->> 'belowMinBet')::numeric
  from jsonb_each(r.other_sums)
) s on true
left join promo_store.currencies u on u.code = s.currency;
comment on view promo.rounds is 'One row for each round and currency: what was counted of it, and what stands after a refund. Kept forever. A round that only rejected events named has a row, too, without a brand and with nothing counted.';
comment on column promo.rounds.settled is 'Whether a settled was accepted. It stays false where settled was skipped, as one of zero is.';
comment on column promo.rounds.brand is 'Brand of the first event of the round that was not rejected; null where there is none.';
comment on column promo.rounds.currency is 'Currency of the sums beside; null where no event had one. A round of several currencies has a row for each: count (feed_id, round_id), each once.';
comment on column promo.rounds.opened_at is 'When the first event of the round was decided. No index leads from here.';
comment on column promo.rounds.scale is 'Decimals of the currency: minor units are major units times 10 to the power of it.';

create or replace view promo.ledger as
select
  h.verdict_id * 2 as entry_id,
  f.operator_id,
  f.feed_id,
  h.event_id,
  r.round_id,
  b.brand_id as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  u.code as currency,
  u.scale,
  coalesce(h.amount_minor, 0) as amount_minor,
  coalesce(h.amount_minor * u.unit, 0) as amount,
  null::bigint as reverses_entry_id,
  h.decided_at as entered_at,
  h.verdict_id
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  r.refunded_by,
  r.round_id,
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  -h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  r.refunded_at,
  h.verdict_id
from promo_store.history h
join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted and r.refunded_by is not null
  -- Counted events of a round are decided between its opening and its refund. One day on each side allows for
  -- clocks that were set. So Postgres skips other months.
  and h.decided_at >= r.opened_at - interval '1 day' and h.decided_at <= coalesce(r.refunded_at, 'infinity') + interval '1 day';
comment on view promo.ledger is 'What counts: one entry for each counted event, and for each entry of a refunded round one reversal that names it. Derived, so that a refund costs the same whatever the round holds. History is kept by month: dropped months are not shown, and a reversal lives as long as the entry that it reverses, whatever month it was entered in. Which rounds were refunded is in promo.rounds forever.';
comment on column promo.ledger.event_id is 'The counted event; for a reversal, the refund that caused it. No index leads from here alone. The entries of a counted event: see verdict_id. Those that a refund caused: where event_id = the refund collate "default" and reverses_entry_id is not null.';
comment on column promo.ledger.entered_at is 'When the event, or the refund, was decided. What is decided later may be seen earlier: see docs/operations.md before you copy by it.';
comment on view promo.deliveries is 'One row for each duplicate: a further delivery of an event that was decided already. Kept by month; dropped months are not shown.';
comment on column promo.anomalies.anomaly is 'second_settled: a second settled was accepted and counted nothing. settled_mismatch: settled is not the sum of the bets of a round that stands; where settled came before a bet, until that bet comes. player_mismatch, brand_mismatch, currency_mismatch: its events disagree.';
comment on column promo.anomalies.opened_at is 'When the first event of the round was decided. No index leads from here.';
