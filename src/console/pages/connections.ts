/** The health of each of the operator's connections. Pure. */
import { durationText, numberText, shareText, shownText, table } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { rangeChoice, shownTime, TOO_SLOW } from '../layout';
import { type Parameters, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import type { Columns } from '../scope';

/** From these on, a connection is not fine. */
const REJECTED_SHARE = 0.01;
const LATE_SECONDS = 300;

export interface ConnectionCounts {
  readonly id: string;
  readonly accepted: number;
  readonly rejected: number;
  readonly skipped: number;
  readonly same: number;
  readonly differing: number;
  readonly newest: string | null;
  /** Null where no event names when it occurred. */
  readonly p95: number | null;
}

export async function connectionsPage(reader: PageReader, { range }: Parameters): Promise<Html> {
  const times = { since: timeText(range.since), until: timeText(range.until) };
  const verdicts = await reader.read(QUERIES.connections, times);
  const duplicates = await reader.read(QUERIES.duplicates, times);
  const registered = await reader.read(QUERIES.registered, {});
  const again = new Map(duplicates.rows.map((row) => [row.connection_id, row]));
  const ids = [
    ...new Set(
      [...registered.rows, ...verdicts.rows, ...duplicates.rows].map(
        ({ connection_id }) => connection_id ?? '',
      ),
    ),
  ];
  const rows = ids.sort().map((id): ConnectionCounts => {
    const [decided, resent] = [verdicts.rows.find((row) => row.connection_id === id), again.get(id)];
    return {
      id,
      accepted: Number(decided?.accepted ?? 0),
      rejected: Number(decided?.rejected ?? 0),
      skipped: Number(decided?.skipped ?? 0),
      same: Number(resent?.same ?? 0),
      differing: Number(resent?.other_content ?? 0),
      newest: [decided?.newest ?? '', resent?.newest ?? ''].sort().at(-1) || null,
      p95: decided?.p95 == null ? null : Math.max(0, Number(decided.p95)),
    };
  });
  const isTooSlow = verdicts.isTooSlow || duplicates.isTooSlow || registered.isTooSlow;
  const sources = new Map(registered.rows.map((row) => [row.connection_id, row]));
  return html`<p>Your connections of today, and earlier ones that sent in this time. Connections for tests are left out.</p>
${rangeChoice('/connections', range)}
${isTooSlow && TOO_SLOW}
${!isTooSlow && rows.length === 0 && html`<p class="warning">You have no connection.</p>`}
${
  !isTooSlow &&
  rows.length > 0 &&
  table(
    'Your connections in this range of time',
    [
      { head: 'Connection', cell: ({ id }) => html`<code>${shownText(id)}</code>` },
      {
        head: 'Health',
        cell: (row) => html`<span class="tag ${healthOf(row).style}">${healthOf(row).text}</span>`,
      },
      { head: 'Sends by', cell: ({ id }) => sourceOf(sources.get(id)) },
      { head: 'Events', isNumber: true, cell: (row) => numberText(decidedOf(row)) },
      { head: 'Accepted', isNumber: true, cell: (row) => shareText(row.accepted, decidedOf(row)) },
      { head: 'Rejected', isNumber: true, cell: ({ rejected }) => numberText(rejected) },
      { head: 'Skipped', isNumber: true, cell: ({ skipped }) => numberText(skipped) },
      { head: 'Duplicates', isNumber: true, cell: ({ same, differing }) => numberText(same + differing) },
      { head: 'Other content', isNumber: true, cell: ({ differing }) => numberText(differing) },
      {
        head: '95 % within',
        isNumber: true,
        cell: ({ p95 }) => (p95 === null ? null : durationText(p95)),
      },
      { head: 'Newest', cell: ({ newest }) => shownTime(newest) },
    ],
    rows,
  )
}
<p class="note">Health has the first that applies. Silent: nothing came. Rejected events: more than ${REJECTED_SHARE * 100} % of them. Ids used twice: two events share one event_id. Late: more than 5 % of the events have their verdict after ${durationText(LATE_SECONDS)}.</p>`;
}

function sourceOf(row: Columns<'transport' | 'topic'> | undefined): string {
  if (row === undefined) return 'no longer registered';
  return row.topic === null ? (row.transport ?? '') : `topic ${shownText(row.topic)}`;
}

function decidedOf({ accepted, rejected, skipped }: ConnectionCounts): number {
  return accepted + rejected + skipped;
}

/** The worst of a connection, in words. */
export function healthOf(counts: ConnectionCounts): {
  readonly text: string;
  readonly style: 'fine' | 'look' | 'act';
} {
  if (decidedOf(counts) + counts.same + counts.differing === 0) return { text: 'silent', style: 'look' };
  if (counts.rejected > decidedOf(counts) * REJECTED_SHARE) return { text: 'rejected events', style: 'act' };
  if (counts.differing > 0) return { text: 'ids used twice', style: 'act' };
  if (counts.p95 !== null && counts.p95 > LATE_SECONDS) return { text: 'late', style: 'look' };
  return { text: 'fine', style: 'fine' };
}
