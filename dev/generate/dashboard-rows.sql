-- A week of invented rows for the picture of the dashboard, always the same. Two connections of one operator.
-- On Wednesday a release of the operator breaks its amounts, and on Friday evening events come late.

insert into promo_store.operators (operator_id) values ('acme');
insert into promo_store.feeds (operator_no, operator_id, feed_id) select operator_no, 'acme', 'acme' from promo_store.operators;
insert into promo_store.brands (operator_no, brand_id) select operator_no, unnest('{main,north}'::text[]) from promo_store.operators;
insert into promo_store.connections (connection_id) values ('acme-events'), ('acme-live');
update promo_store.folds set generation = 1 where fold = 'rollups';
insert into promo_store.fold_generations (fold, generation, state, after, lineage, newest_at, caught_up_at, complete_since, reason)
values ('rollups', 1, 'shown', 0, '', '2026-11-23 00:00Z', clock_timestamp(), '2026-10-01 00:00Z', 'first');

create temporary table hours as
select hour, round(3000 * (1 + 0.5 * sin((extract(hour from hour at time zone 'UTC') - 13) * pi() / 12)) * case when extract(isodow from hour at time zone 'UTC') > 5 then 1.4 else 1 end)::bigint as events,
  hour >= '2026-11-18 10:00Z' and hour < '2026-11-18 15:00Z' as is_broken, hour >= '2026-11-20 18:00Z' and hour < '2026-11-20 22:00Z' as is_late
from generate_series('2026-11-16 00:00Z'::timestamptz, '2026-11-22 23:00Z', '1 hour') hour;

insert into promo_store.rollup_verdicts
select 1, h.hour, 1, 1, c.connection_no, 1, o.outcome, u.currency_no, n.n, n.n * 180, n.n, 0,
  n.n * 6 / 10, n.n * f.fast / 1000, n.n * (f.fast + 990) / 2000, n.n * 999 / 1000, n.n, n.n, n.n
from hours h
cross join (values (1, 0.7), (2, 0.3)) c (connection_no, part)
cross join lateral (values (0, 0.965), (24, 0.018), (22, 0.008), (5, case when h.is_broken then 0.09 else 0.002 end), (8, 0.004)) o (outcome, share)
cross join lateral (select greatest(1, round(h.events * c.part * o.share))::bigint as n) n
cross join lateral (select case when h.is_late then 610 else 975 end as fast) f
join promo_store.currencies u on u.code = 'EUR';

insert into promo_store.rollup_ledger
select 1, d::date, 1, 1, 1, u.currency_no, g.game, g.bets, g.bets * 180, 0, 0, g.refunded, g.refunded * 180
from generate_series('2026-11-16'::date, '2026-11-22', '1 day') d
cross join (values ('aurora', 21000, 40), ('book-of-tides', 17400, 31), ('crash-royale', 15200, 318), ('dice-duel', 9100, 12), ('golden-fjord', 6200, 9), ('hot-lanes', 2800, 2)) g (game, bets, refunded)
join promo_store.currencies u on u.code = 'EUR';

select promo_store.create_month('resends', '2026-11-01');
insert into promo_store.resends (received_at, source_offset, feed_no, connection_no, first_outcome, content_differs, event_id)
select h.hour + n * interval '20 seconds', n, 1, 1, 0, h.is_broken and n % 9 = 0, 'e-' || n
from hours h cross join lateral generate_series(1, (h.events / case when h.is_late then 40 else 120 end)::int) n;

insert into promo_store.rounds (round_no, opened_at, feed_no, brand_no, currency_no, round_key, round_id, bet_minor)
select n, '2026-11-16 06:00Z'::timestamptz + n * interval '71 minutes', 1, 1 + n % 2, u.currency_no, promo_store.id_key('r-' || n), 'r-' || n, 150 + n * 7 % 400
from generate_series(1, 130) n join promo_store.currencies u on u.code = 'EUR';
