/** One round: its events in the order of their verdicts, and its sums. Pure. */
import { durationText, facts, shownText, table, verdictTag } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { millisecondsOf } from '../../postgres/texts';
import { eventLink, INCOMPLETE, idForm, shownTime } from '../layout';
import { linkTo, type Parameters } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import { anomalyText } from './anomalies';

export async function roundPage(reader: PageReader, { feed, id }: Parameters): Promise<Html> {
  if (id === null) return idForm('/round', 'round_id', feed);
  const named = { feed, round: id };
  const events = await reader.read(QUERIES.roundEvents, named);
  const sums = await reader.read(QUERIES.round, named);
  const anomalies = await reader.read(QUERIES.roundAnomalies, named);
  const isIncomplete = events.isTooSlow || sums.isTooSlow || anomalies.isTooSlow;
  const [first] = sums.rows;
  if (first === undefined && events.rows.length === 0)
    return isIncomplete ? html`<p class="id">${shownText(id)}</p>${INCOMPLETE}` : unknown(id, feed);
  const feedId = feed === '' ? reader.scope.operator : `${reader.scope.operator}/${feed}`;
  return html`<p class="id">${shownText(id)}</p>
${isIncomplete && INCOMPLETE}
${first !== undefined && stateOf(first, feedId, reader)}
${anomalies.rows.map(({ anomaly }) => html`<p class="warning"><code>${anomaly}</code>: ${anomalyText(anomaly)}</p>`)}
<h2>Timeline</h2>
${
  events.rows.length === 0
    ? !events.isTooSlow &&
      html`<p class="note">The months of its events were dropped. The sums below are kept forever.</p>`
    : table(
        'The events of the round, in the order in which they were decided',
        [
          { head: 'Decided at', cell: ({ decided_at }) => shownTime(decided_at) },
          {
            head: 'After the first',
            isNumber: true,
            cell: ({ decided_at }) => secondsBetween(events.rows[0]?.decided_at ?? null, decided_at),
          },
          { head: 'Occurred at', cell: ({ occurred_at }) => shownTime(occurred_at) },
          { head: 'Kind', cell: ({ kind }) => kind },
          {
            head: 'Amount',
            isNumber: true,
            cell: ({ amount, currency }) => (amount === null ? null : `${amount} ${currency ?? ''}`),
          },
          { head: 'Verdict', cell: ({ verdict }) => verdictTag(verdict) },
          { head: 'Reason', cell: ({ reason }) => (reason === null ? null : html`<code>${reason}</code>`) },
          { head: 'Counts now', cell: ({ counts_now }) => (counts_now === 't' ? 'yes' : 'no') },
          { head: 'Event', cell: ({ event_id }) => eventLink(reader.scope, { feed_id: feedId, event_id }) },
        ],
        events.rows,
      )
}
${events.hasMore && html`<p class="note">There are more than ${events.rows.length} events.</p>`}
${
  !sums.isTooSlow &&
  html`<h2>Sums</h2>${table(
    'Counted amounts by currency, before any refund',
    [
      { head: 'Currency', cell: ({ currency }) => currency ?? '-' },
      { head: 'Bets', isNumber: true, cell: (row) => row.counted_bet },
      { head: 'Wins', isNumber: true, cell: (row) => row.counted_win },
      { head: 'Settled', isNumber: true, cell: (row) => row.counted_settled },
      { head: 'Bets below the minimum', isNumber: true, cell: (row) => row.below_min_bet },
    ],
    sums.rows,
  )}`
}`;
}

function secondsBetween(first: string | null, at: string | null): string {
  return durationText((millisecondsOf(at) - millisecondsOf(first)) / 1_000);
}

interface State {
  readonly refunded: string | null;
  readonly refunded_by: string | null;
  readonly refunded_at: string | null;
  readonly settled: string | null;
  readonly brand: string | null;
  readonly opened_at: string | null;
}

function stateOf(row: State, feedId: string, { scope }: PageReader): Html {
  const refund = eventLink(scope, { feed_id: feedId, event_id: row.refunded_by });
  return facts([
    [
      'State',
      row.refunded === 't'
        ? html`<span class="tag skipped">refunded: nothing of it counts</span>`
        : row.settled === 't'
          ? 'settled'
          : 'open',
    ],
    ['Opened at', shownTime(row.opened_at)],
    ['Refunded by', refund],
    ['Refunded at', shownTime(row.refunded_at)],
    ['Brand', shownText(row.brand)],
    ['Feed', shownText(feedId)],
  ]);
}

function unknown(id: string, feed: string): Html {
  return html`<p class="id">${shownText(id)}</p>
<p class="warning">No decided event of yours names this round${feed !== '' && html` in the feed <code>${shownText(feed)}</code>`}.</p>
<p><a href="${linkTo('/round', { feed })}">Look for another round</a></p>`;
}
