/** Duplicates whose content differs: one event_id for two events. Pure. */
import { duplicateRemedy, outcomeOf, REASONS } from '../../domain/verdict/reasons';
import { type Html, html } from '../html';
import { eventLink, rangeChoice, shownText, shownTime, TOO_SLOW, table, verdictTag } from '../layout';
import { type Parameters, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import { recordOf } from './event';

export async function duplicatesPage(reader: PageReader, { range }: Parameters): Promise<Html> {
  const found = await reader.read(QUERIES.differing, {
    since: timeText(range.since),
    until: timeText(range.until),
  });
  return html`<p>The event_id was decided before with other content. The first verdict stays, and this delivery counts nothing.</p>
${rangeChoice('/duplicates', range)}
${found.isTooSlow && TOO_SLOW}
${!found.isTooSlow && found.rows.length === 0 && html`<p>None.</p>`}
${
  found.rows.length > 0 &&
  table(
    'Deliveries with an event_id of before and other content, newest first',
    [
      { head: 'Received at', cell: ({ received_at }) => shownTime(received_at) },
      { head: 'Event', cell: (row) => eventLink(reader.scope, row) },
      { head: 'First verdict', cell: ({ first_verdict }) => verdictTag(first_verdict) },
      { head: 'Connection', cell: ({ connection_id }) => shownText(connection_id) },
      { head: 'Record', cell: recordOf },
      { head: 'Your remedy', cell: remedyOf },
    ],
    found.rows,
  )
}
${found.hasMore && html`<p class="note">There are more. Choose a shorter or an earlier range.</p>`}`;
}

function remedyOf({ first_reason }: { readonly first_reason: string | null }): string | null {
  const about = REASONS.find(({ name }) => name === first_reason);
  const first =
    about === undefined ? { verdict: 'accepted' as const, reason: null, code: 0 } : outcomeOf(about.name);
  return duplicateRemedy(first, true);
}
