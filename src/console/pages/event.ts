/** One event: its verdict, and every further delivery of it. Pure. */
import { ACCEPTED, duplicateRemedy, outcomeOf, REASONS, type ReasonInfo } from '../../domain/verdict/reasons';
import { facts, shownText, table, verdictTag } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { INCOMPLETE, idForm, roundLink, shownTime } from '../layout';
import { linkTo, type Parameters } from '../parameters';
import { QUERIES } from '../queries';
import type { FoundRows, PageReader } from '../reader';
import type { Columns } from '../scope';

export async function eventPage(reader: PageReader, { feed, id }: Parameters): Promise<Html> {
  if (id === null) return idForm('/event', 'event_id', feed);
  const named = { feed, event: id };
  const events = await reader.read(QUERIES.event, named);
  const keys = await reader.read(QUERIES.eventKey, named);
  const deliveries = await reader.read(QUERIES.deliveriesOfEvent, named);
  const [[found], [key]] = [events.rows, keys.rows];
  const faults =
    found === undefined || found.verdict === 'accepted'
      ? undefined
      : await reader.read(QUERIES.faultsOfEvent, named);
  const reversals = found?.kind === 'refund' ? await reader.read(QUERIES.reversals, named) : undefined;
  const about = reasonNamed(key?.reason ?? found?.reason ?? null);
  if (key === undefined && found === undefined)
    return events.isTooSlow || keys.isTooSlow
      ? html`<p class="id">${shownText(id)}</p>${INCOMPLETE}`
      : neverDecided(id, feed);
  return html`<p class="id">${shownText(id)}</p>
${(events.isTooSlow || deliveries.isTooSlow || faults?.isTooSlow || reversals?.isTooSlow) && INCOMPLETE}
<p>${verdictTag(key?.verdict ?? found?.verdict ?? null)} ${about === undefined ? 'The event counts, unless its round is refunded.' : html`<code>${about.name}</code>: ${about.meaning}`}</p>
${about !== undefined && html`<p><strong>Your remedy:</strong> ${about.remedy}</p>`}
${
  found === undefined
    ? !events.isTooSlow &&
      html`<p class="note">The month of the verdict was dropped. Its verdict and reason are kept forever.</p>`
    : facts([
        ['Kind', found.kind],
        ['Amount', found.amount === null ? null : `${found.amount} ${found.currency ?? ''}`],
        [
          'Counts now',
          found.counts_now === 't' ? 'yes' : found.counted === 't' ? 'no: its round was refunded' : 'no',
        ],
        ['Occurred at', shownTime(found.occurred_at)],
        ['Decided at', shownTime(found.decided_at)],
        ['Round', roundLink(reader.scope, found)],
        ['Brand', shownText(found.brand)],
        ['Game', shownText(found.game_id)],
        ['Connection', shownText(found.connection_id)],
        ['Feed', shownText(found.feed_id)],
        ['Record', recordOf(found)],
        ['Reference data', `version ${found.reference_version}`],
      ])
}
${faults !== undefined && !faults.isTooSlow && faultsTable(faults.rows)}
${reversals !== undefined && !reversals.isTooSlow && reversalsTable(reversals.rows)}
${!deliveries.isTooSlow && html`<h2>Further deliveries</h2>${deliveriesOf(deliveries, about?.name ?? null)}`}`;
}

function neverDecided(id: string, feed: string): Html {
  return html`<p class="id">${shownText(id)}</p>
<p class="warning">No event of yours with this event_id was decided${feed !== '' && html` in the feed <code>${shownText(feed)}</code>`}. It was never received, or its record waits in a topic, or it had no usable event_id.</p>
<p><strong>Your remedy:</strong> look for the answer that your client got. Where there is none, send the event again as it is: an event counts once. For many events use <code>promo-intake reconcile</code>.</p>
<p><a href="${linkTo('/event', { feed })}">Look for another event</a></p>`;
}

function reasonNamed(name: string | null): ReasonInfo | undefined {
  return REASONS.find((each) => each.name === name);
}

/** The remedy for a further delivery of an event. @param reason of its first verdict; null for accepted */
export function remedyOfDuplicate(reason: string | null, contentDiffers: boolean): string | null {
  const about = reasonNamed(reason);
  return duplicateRemedy(about === undefined ? ACCEPTED : outcomeOf(about.name), contentDiffers);
}

interface Sourced {
  readonly source_topic: string | null;
  readonly source_partition: string | null;
  readonly source_offset: string | null;
}

export function recordOf({ source_topic, source_partition, source_offset }: Sourced): string {
  if (source_topic === null) return 'by webhook';
  return `${shownText(source_topic)}, partition ${source_partition}, offset ${source_offset}`;
}

/** The store keeps no values of fields, so the table has the place of each fault. */
function faultsTable(rows: readonly Columns<'reason' | 'field'>[]): Html | false {
  if (rows.length === 0) return false;
  return html`<h2>Faults</h2>${table(
    'The faults of the event, the deciding one first',
    [
      { head: 'Field', cell: ({ field }) => fieldText(field) },
      { head: 'Reason', cell: ({ reason }) => reason },
      { head: 'Your remedy', cell: ({ reason }) => reasonNamed(reason)?.remedy ?? null },
    ],
    rows,
  )}`;
}

function fieldText(field: string | null): string {
  if (field === null) return 'not kept';
  return field === '' ? 'the whole event' : field;
}

function reversalsTable(
  rows: readonly Columns<'round_id' | 'kind' | 'amount' | 'currency' | 'entered_at'>[],
): Html {
  if (rows.length === 0) return html`<h2>Reversed</h2><p>The refund reversed no entry.</p>`;
  return html`<h2>Reversed</h2>${table(
    'The entries that this refund reversed',
    [
      { head: 'Kind', cell: ({ kind }) => kind },
      { head: 'Amount', isNumber: true, cell: ({ amount, currency }) => `${amount} ${currency}` },
      { head: 'At', cell: ({ entered_at }) => shownTime(entered_at) },
    ],
    rows,
  )}`;
}

function deliveriesOf(
  { rows, hasMore }: FoundRows<'connection_id' | 'received_at' | 'content_differs' | keyof Sourced>,
  reason: string | null,
): Html {
  if (rows.length === 0) return html`<p>None: the event came once.</p>`;
  return html`${table(
    'Deliveries of this event_id after the decided one',
    [
      { head: 'Received at', cell: ({ received_at }) => shownTime(received_at) },
      { head: 'Connection', cell: ({ connection_id }) => shownText(connection_id) },
      { head: 'Content', cell: ({ content_differs }) => (content_differs === 't' ? 'differs' : 'the same') },
      { head: 'Record', cell: recordOf },
      {
        head: 'Your remedy',
        cell: ({ content_differs }) => remedyOfDuplicate(reason, content_differs === 't') ?? 'Nothing to do.',
      },
    ],
    rows,
  )}${hasMore && html`<p class="note">There are more.</p>`}`;
}
