/**
 * Queries beside the views in docs/tables.md: the fast form of each condition that no index of a view serves.
 * Each begins with a comment line. test/stores/time-ranges.test.ts limits the blocks that each query reads.
 */

/** By the name of the view. */
export const VIEW_QUERIES: Readonly<Record<string, readonly string[]>> = {
  deliveries: [
    `-- The duplicates of one event. An index of event_id finds them.
select connection_id, received_at, content_differs, first_verdict, first_reason
from promo.deliveries
where feed_id = 'acme' and event_id = promo.stored_id('e-1');`,
  ],
  events: [
    `-- Verdict and reason of one event, also after its month was dropped.
select verdict, reason, verdict_id
from promo.events
where feed_id = 'acme' and event_key = promo_store.id_key('e-1');`,
  ],
  ledger: [
    `-- The newest entries. Without both conditions the query reads and sorts all of history.
select entry_id, event_id, kind, amount, currency, reverses_entry_id, entered_at
from promo.ledger
where entered_at >= (select promo.newest_since(50))
  and decided_at >= (select promo.entries_since(promo.newest_since(50)))
order by entered_at desc
limit 50;`,
    `-- The entry of one event, and its reversal. With event_id = 'e-1' instead the query reads all of history.
select entry_id, kind, amount, currency, reverses_entry_id, entered_at
from promo.ledger
where verdict_id = (select promo.verdict_id_of('acme', 'e-1'));`,
    `-- The reversals of one refund. Without the condition on reverses_entry_id the query reads all of history.
select entry_id, round_id, kind, amount, currency, reverses_entry_id, entered_at
from promo.ledger
where feed_id = 'acme' and event_id = promo.stored_id('e-5') and reverses_entry_id is not null;`,
    `-- The entries of up to a hundred rounds of another query. The condition round_id in (select ...) would read all of history.
select v.*
from (
  select feed_id, round_id from promo.rounds
  where refunded_at >= now() - interval '1 hour' order by refunded_at desc limit 20
) s
cross join lateral (
  select v.round_id, v.entry_id, v.kind, v.amount, v.currency, v.entered_at
  from promo.ledger v
  where v.feed_id = s.feed_id and v.round_id = s.round_id
  offset 0
) v;`,
    `-- The entries of a day, with the reversals of older events. The second condition on time excludes older months.
select entry_id, event_id, kind, amount, currency, reverses_entry_id, entered_at
from promo.ledger
where entered_at >= now() - interval '1 day'
  and decided_at >= (select promo.entries_since(now() - interval '1 day'));`,
  ],
  rounds: [
    `-- One round. An index of round_id finds it.
select currency, counted_bet, counted_win, counted_settled, refunded, settled
from promo.rounds
where feed_id = 'acme' and round_id = promo.stored_id('r-2');`,
    `-- The round of one refund. With refunded_by = 'e-5' instead the query reads all rounds.
select round_id, verdict, decided_at
from promo.verdicts
where verdict_id = (select promo.verdict_id_of('acme', 'e-5'));`,
  ],
  verdicts: [
    `-- The newest verdicts. Without the condition on decided_at the query reads and sorts all of history.
select event_id, kind, verdict, reason, decided_at
from promo.verdicts
where decided_at >= (select promo.newest_since(50))
order by decided_at desc
limit 50;`,
    `-- The time of the newest verdict. max(decided_at) reads all of history.
select promo.newest_since(1);`,
    `-- One event. With event_id = 'e-1' instead the query reads all of history.
select verdict, reason, kind, amount, currency, decided_at
from promo.verdicts
where verdict_id = (select promo.verdict_id_of('acme', 'e-1'));`,
    `-- Some rounds, by a list of up to a hundred.
select round_id, event_id, kind, amount, currency, verdict, counts_now
from promo.verdicts
where feed_id = 'acme' and round_id in (promo.stored_id('r-1'), promo.stored_id('r-2'))
order by verdict_id;`,
    `-- Up to a hundred rounds of another query. The condition round_id in (select ...) would read all of history.
select v.*
from (
  select feed_id, round_id from promo.rounds
  where refunded_at >= now() - interval '1 hour' order by refunded_at desc limit 20
) s
cross join lateral (
  select v.round_id, v.event_id, v.kind, v.amount, v.currency, v.verdict, v.counts_now
  from promo.verdicts v
  where v.feed_id = s.feed_id and v.round_id = s.round_id
  offset 0
) v;`,
  ],
};
