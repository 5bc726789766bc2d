/**
 * The story of one round: its events in the order of arrival, their verdicts, and its ledger entries in the
 * end.
 */
import type { Client } from 'pg';
import { type Screen, table } from './screen';

/** The refunded round with the most events. */
const EVENTFUL_ROUND = `
select v.feed_id, v.round_id, min(v.player_ref) as player, min(v.brand) as brand, min(v.game_id) as game
from promo.verdicts v
join promo.rounds r on r.feed_id = v.feed_id and r.round_id = v.round_id and r.refunded
group by 1, 2 order by count(*) desc, 2 limit 1`;

const ARRIVALS = `
with verdicts as (select * from promo.verdicts where feed_id = $1 and round_id = $2)
select event_id, connection_id, kind, amount::text, currency, verdict, reason, counted, null as content_differs,
  source_topic, source_partition, source_offset
from verdicts
union all
select d.event_id, d.connection_id, v.kind, null, null, 'duplicate', null, false, d.content_differs,
  d.source_topic, d.source_partition, d.source_offset
from promo.deliveries d join verdicts v on v.feed_id = d.feed_id and v.event_id = d.event_id
order by source_topic, source_partition, source_offset`;

interface Arrived {
  readonly event_id: string;
  readonly connection_id: string;
  readonly kind: string;
  readonly amount: string | null;
  readonly currency: string | null;
  readonly verdict: string;
  readonly reason: string | null;
  readonly counted: boolean;
  readonly content_differs: boolean | null;
}

const ENTRIES = `
select entry_id::text, event_id, kind, amount::text, currency, reverses_entry_id::text
from promo.ledger where feed_id = $1 and round_id = $2 order by reverses_entry_id nulls first, entry_id`;

interface Entry {
  readonly entry_id: string;
  readonly event_id: string;
  readonly kind: string;
  readonly amount: string;
  readonly currency: string;
  readonly reverses_entry_id: string | null;
}

const SUMS = `
select kind, currency, sum(amount)::text as sum from promo.ledger where feed_id = $1 and round_id = $2 group by 1, 2 order by 1, 2`;

/** @returns the round's id, or null if no round was refunded */
export async function printStory(client: Client, screen: Screen): Promise<string | null> {
  const { rows: rounds } = await client.query<{
    feed_id: string;
    round_id: string;
    player: string;
    brand: string;
    game: string;
  }>(EVENTFUL_ROUND);
  const [round] = rounds;
  if (round === undefined) return null;
  const key = [round.feed_id, round.round_id];
  const { rows: arrivals } = await client.query<Arrived>(ARRIVALS, key);
  const { rows: entries } = await client.query<Entry>(ENTRIES, key);
  const { rows: sums } = await client.query<{ kind: string; currency: string; sum: string }>(SUMS, key);

  screen.heading(`The story of round ${round.round_id}: a refund reverses everything`);
  screen.line(`  Player ${round.player} of ${round.brand} plays ${round.game}. This arrived, in this order:`);
  const firsts = new Map<string, number>();
  const lines = arrivals.map((arrived, index) => {
    const first = firsts.get(arrived.event_id) ?? index + 1;
    firsts.set(arrived.event_id, first);
    return [
      ...[`  #${index + 1}`, arrived.kind, amountOf(arrived), arrived.connection_id],
      ...[arrived.verdict, effectOf(arrived, first)],
    ];
  });
  for (const text of table([['  ', 'kind', 'amount', 'connection', 'verdict', ''], ...lines], [2]))
    screen.line(text);

  screen.line();
  screen.line('  What the ledger holds of it:');
  const entryLines = entries.map((entry) => [
    ...[`  ${entry.entry_id}`, entry.kind, `${entry.amount} ${entry.currency}`],
    entry.reverses_entry_id === null
      ? `by #${firsts.get(entry.event_id)}`
      : `by #${firsts.get(entry.event_id)}, reverses ${entry.reverses_entry_id}`,
  ]);
  for (const text of table([['  entry', 'kind', 'amount', ''], ...entryLines], [2])) screen.line(text);
  screen.line(`  Net: ${sums.map(({ kind, currency, sum }) => `${kind} ${sum} ${currency}`).join(', ')}.`);
  return round.round_id;
}

function amountOf({ amount, currency }: Arrived): string {
  return amount === null ? '' : `${amount} ${currency ?? ''}`;
}

function effectOf({ verdict, reason, counted, content_differs, kind }: Arrived, first: number): string {
  if (verdict === 'duplicate') {
    return content_differs
      ? `of #${first}, other content: the first one counts`
      : `of #${first}, equal content`;
  }
  if (reason !== null) return reason;
  if (counted) return 'counted';
  return kind === 'refund' ? 'reverses the round' : 'counts nothing now';
}
