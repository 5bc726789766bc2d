/** The queries of the pages. Each reads sources that hold the operator's own rows alone: see scope.ts. */
import { PROMOTION_QUERIES } from './promotion-queries';
import { defineQuery } from './scope';

const RANGE = { since: 'time', until: 'time' } as const;
const EVENT = { feed: 'feed', event: 'text' } as const;
/** The number of an event's verdict; null for an event, or a feed, that the operator does not have. */
const OWN_VERDICT_ID =
  '(select verdict_id from keys where feed_id = :feed and event_key = promo_store.id_key(:event))';
const ROUND = { feed: 'feed', round: 'text' } as const;

export const QUERIES = {
  ...PROMOTION_QUERIES,
  /** One pass over the range gives the totals, the reasons and the chart. */
  outcomes: defineQuery({
    title: 'Verdicts by time and reason, with one sample of each reason',
    from: ['verdicts'],
    params: { ...RANGE, step: 'interval' },
    columns: ['bucket', 'verdict', 'reason', 'events', 'newest', 'feed_id', 'event_id'],
    limit: 2_000,
    text: `
select date_bin(:step, decided_at, :since) as bucket, verdict, reason,
  count(*) as events, max(decided_at) as newest,
  (max(array[feed_id, event_id]) filter (where reason is not null))[1] as feed_id,
  (max(array[feed_id, event_id]) filter (where reason is not null))[2] as event_id
from verdicts
where decided_at >= :since and decided_at < :until
group by 1, 2, 3
order by 1, 2, 3`,
  }),

  delays: defineQuery({
    title: 'Seconds from occurred_at to decided_at, by time',
    from: ['verdicts'],
    params: { ...RANGE, step: 'interval' },
    columns: ['bucket', 'events', 'median', 'p95', 'most'],
    limit: 200,
    text: `
select date_bin(:step, decided_at, :since) as bucket, count(*) as events,
  percentile_disc(0.5) within group (order by extract(epoch from decided_at - occurred_at)) as median,
  percentile_disc(0.95) within group (order by extract(epoch from decided_at - occurred_at)) as p95,
  max(extract(epoch from decided_at - occurred_at)) as most
from verdicts
where decided_at >= :since and decided_at < :until and occurred_at is not null
group by 1
order by 1`,
  }),

  connections: defineQuery({
    title: 'Verdicts and delay by connection',
    from: ['verdicts'],
    params: RANGE,
    columns: ['connection_id', 'accepted', 'rejected', 'skipped', 'newest', 'p95'],
    limit: 200,
    text: `
select connection_id, count(*) filter (where verdict = 'accepted') as accepted,
  count(*) filter (where verdict = 'rejected') as rejected, count(*) filter (where verdict = 'skipped') as skipped,
  max(decided_at) as newest,
  percentile_disc(0.95) within group (order by extract(epoch from decided_at - occurred_at)) as p95
from verdicts
where decided_at >= :since and decided_at < :until
group by 1
order by 1`,
  }),

  registered: defineQuery({
    title: 'The connections of the reference data in force, without those for tests',
    from: ['registered'],
    params: {},
    columns: ['connection_id', 'transport', 'topic', 'feed_id'],
    limit: 500,
    text: `
from registered
where not is_test
order by connection_id`,
  }),

  duplicates: defineQuery({
    title: 'Duplicates by connection',
    from: ['deliveries'],
    params: RANGE,
    columns: ['connection_id', 'same', 'other_content', 'newest'],
    limit: 200,
    text: `
select connection_id, count(*) filter (where not content_differs) as same,
  count(*) filter (where content_differs) as other_content, max(received_at) as newest
from deliveries
where received_at >= :since and received_at < :until
group by 1
order by 1`,
  }),

  differing: defineQuery({
    title: 'Deliveries whose event_id was used before with other content',
    from: ['deliveries'],
    params: RANGE,
    columns: [
      ...(['feed_id', 'event_id', 'connection_id', 'received_at', 'first_verdict', 'first_reason'] as const),
      ...(['source_topic', 'source_partition', 'source_offset'] as const),
    ],
    limit: 100,
    text: `
from deliveries
where content_differs and received_at >= :since and received_at < :until
order by received_at desc`,
  }),

  event: defineQuery({
    title: 'The verdict of the event',
    from: ['verdicts', 'keys'],
    params: EVENT,
    columns: [
      ...([
        'feed_id',
        'event_id',
        'verdict',
        'reason',
        'connection_id',
        'brand',
        'kind',
        'round_id',
      ] as const),
      ...(['game_id', 'amount', 'currency', 'occurred_at', 'decided_at', 'counted', 'counts_now'] as const),
      ...(['verdict_id', 'reference_version', 'source_topic', 'source_partition', 'source_offset'] as const),
    ],
    limit: 1,
    text: `
from verdicts
where verdict_id = ${OWN_VERDICT_ID}`,
  }),

  /** Also where the month of the verdict was dropped. */
  eventKey: defineQuery({
    title: 'The key of the event, which is kept forever',
    from: ['keys'],
    params: EVENT,
    columns: ['verdict', 'reason', 'verdict_id'],
    limit: 1,
    text: `
from keys
where feed_id = :feed and event_key = promo_store.id_key(:event)`,
  }),

  faultsOfEvent: defineQuery({
    title: 'The faults of the event, the deciding one first',
    from: ['faults', 'keys'],
    params: EVENT,
    columns: ['reason', 'field'],
    limit: 20,
    text: `
from faults
where verdict_id = ${OWN_VERDICT_ID}
order by place`,
  }),

  deliveriesOfEvent: defineQuery({
    title: 'Further deliveries of the event',
    from: ['deliveries'],
    params: EVENT,
    columns: [
      ...(['connection_id', 'received_at', 'content_differs'] as const),
      ...(['source_topic', 'source_partition', 'source_offset'] as const),
    ],
    limit: 50,
    text: `
from deliveries
where feed_id = :feed and event_id = promo.stored_id(:event)
order by received_at`,
  }),

  reversals: defineQuery({
    title: 'The entries that the refund reversed',
    from: ['entries'],
    params: EVENT,
    columns: ['round_id', 'kind', 'amount', 'currency', 'entered_at'],
    limit: 100,
    text: `
from entries
where feed_id = :feed and event_id = promo.stored_id(:event) and reverses_entry_id is not null
order by entry_id`,
  }),

  round: defineQuery({
    title: 'The sums of the round, one row a currency',
    from: ['rounds'],
    params: ROUND,
    columns: [
      ...(['brand', 'currency', 'counted_bet', 'counted_win', 'counted_settled', 'below_min_bet'] as const),
      ...(['refunded', 'refunded_by', 'refunded_at', 'settled', 'opened_at'] as const),
    ],
    limit: 20,
    text: `
from rounds
where feed_id = :feed and round_id = promo.stored_id(:round)
order by currency`,
  }),

  roundEvents: defineQuery({
    title: 'The events of the round, in the order in which they were decided',
    from: ['verdicts'],
    params: ROUND,
    columns: [
      ...(['event_id', 'kind', 'amount', 'currency', 'verdict', 'reason', 'counts_now'] as const),
      ...(['occurred_at', 'decided_at', 'connection_id'] as const),
    ],
    limit: 500,
    text: `
from verdicts
where feed_id = :feed and round_id = promo.stored_id(:round)
order by verdict_id`,
  }),

  roundAnomalies: defineQuery({
    title: 'How the round contradicts itself',
    from: ['anomalies'],
    params: ROUND,
    columns: ['anomaly'],
    limit: 10,
    text: `
from anomalies
where feed_id = :feed and round_id = promo.stored_id(:round)
order by anomaly`,
  }),

  anomalies: defineQuery({
    title: 'Rounds that contradict themselves, newest first',
    from: ['anomalies'],
    params: RANGE,
    columns: ['feed_id', 'round_id', 'anomaly', 'opened_at'],
    limit: 100,
    text: `
from anomalies
where opened_at >= :since and opened_at < :until
order by opened_at desc`,
  }),
} as const;
