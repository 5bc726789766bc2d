/** Duplicates whose content differs: one event_id for two events. Pure. */
import { shownText, verdictTag } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { eventLink, rangeChoice, rangeTable, shownTime } from '../layout';
import { type Parameters, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import { recordOf, remedyOfDuplicate } from './event';

export async function duplicatesPage(reader: PageReader, { range }: Parameters): Promise<Html> {
  const found = await reader.read(QUERIES.differing, {
    since: timeText(range.since),
    until: timeText(range.until),
  });
  return html`<p>The event_id was decided before with other content. The first verdict stays, and this delivery counts nothing.</p>
${rangeChoice('/duplicates', range)}
${rangeTable(found, 'Deliveries with an event_id of before and other content, newest first', [
  { head: 'Received at', cell: ({ received_at }) => shownTime(received_at) },
  { head: 'Event', cell: (row) => eventLink(reader.scope, row) },
  { head: 'First verdict', cell: ({ first_verdict }) => verdictTag(first_verdict) },
  { head: 'Connection', cell: ({ connection_id }) => shownText(connection_id) },
  { head: 'Record', cell: recordOf },
  { head: 'Your remedy', isProse: true, cell: ({ first_reason }) => remedyOfDuplicate(first_reason, true) },
])}`;
}
