/** The queries of the pages of promotions. */
import { defineQuery } from './scope';

const PROMOTION = { promotion: 'text' } as const;
const RANGE = { since: 'time', until: 'time' } as const;

export const PROMOTION_QUERIES = {
  promotions: defineQuery({
    title: 'The promotions, with the window in progress',
    from: ['promotions'],
    params: {},
    columns: [
      ...(['promotion_id', 'type', 'state', 'version'] as const),
      ...(['window_key', 'window_starts_at', 'window_ends_at'] as const),
    ],
    limit: 500,
    text: `
from promotions
order by promotion_id`,
  }),

  promotionWindows: defineQuery({
    title: 'Players by their share of the target, for each window and value',
    from: ['progress'],
    params: PROMOTION,
    columns: [
      ...(['window_key', 'starts_at', 'ends_at', 'item', 'currency', 'players'] as const),
      ...(['below_half', 'below_target', 'reached'] as const),
    ],
    limit: 100,
    text: `
select window_key, starts_at, ends_at, item, currency, count(*) as players,
  count(*) filter (where share < 0.5) as below_half,
  count(*) filter (where share >= 0.5 and share < 1) as below_target,
  count(*) filter (where share >= 1) as reached
from progress
where promotion_id = :promotion
group by 1, 2, 3, 4, 5
order by starts_at desc nulls last, item, currency`,
  }),

  promotionPlayers: defineQuery({
    title: 'Players by points, or by their share of the target, the first of the newest window first',
    from: ['progress'],
    params: PROMOTION,
    columns: [
      ...(['player_id', 'window_key', 'item', 'currency', 'value', 'target', 'share'] as const),
      ...(['completions', 'points', 'changed_at'] as const),
    ],
    limit: 50,
    text: `
from progress
where promotion_id = :promotion
order by starts_at desc nulls last, points desc nulls last, share desc nulls last, changed_at`,
  }),

  promotionCompletions: defineQuery({
    title: 'Completions by day, in UTC',
    from: ['completions'],
    params: { ...PROMOTION, ...RANGE },
    columns: ['day', 'completed', 'held', 'revoked', 'confirmed'],
    limit: 100,
    text: `
select date_trunc('day', changed_at) as day, count(*) filter (where change = 'completed') as completed,
  count(*) filter (where change = 'completed' and holds) as held,
  count(*) filter (where change = 'revoked') as revoked, count(*) filter (where change = 'confirmed') as confirmed
from completions
where promotion_id = :promotion and changed_at >= :since and changed_at < :until
group by 1
order by 1 desc`,
  }),

  promotionMisses: defineQuery({
    title: 'Events that do not count, by reason, with one sample',
    from: ['misses'],
    params: { ...PROMOTION, ...RANGE },
    columns: ['reason', 'events', 'newest', 'feed_id', 'event_id'],
    limit: 20,
    text: `
select reason, count(*) as events, max(decided_at) as newest,
  (max(array[feed_id, event_id]))[1] as feed_id, (max(array[feed_id, event_id]))[2] as event_id
from misses
group by 1
order by 2 desc, 1`,
  }),

  promotionStory: defineQuery({
    title: 'The story of one player in the promotion',
    from: ['story'],
    params: { ...PROMOTION, player: 'text' },
    columns: ['step', 'happened_at', 'what_happened', 'why', 'what_next'],
    limit: 300,
    text: `
from story
order by step`,
  }),
} as const;
