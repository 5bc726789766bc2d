/** Pieces that several sections of a report use. Pure. */

import { TimeZone } from '../../lib/time-zone';
import type { TimeAxis } from '../../markup/chart';
import { type Column, shownText } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import type { VerdictReport } from '../data';
import { type Buckets, bucketText, stepOf, ticksOf } from '../window';

/** The axis of the charts whose buckets begin at these times, and end at the last one. */
export function axisOf(times: readonly string[], timeZone: string, step: string): TimeAxis {
  const zone = new TimeZone(timeZone);
  const edges = times.map((time) => Date.parse(time));
  const buckets: Buckets = { step: stepOf(step), edges, zone };
  return {
    edges,
    ticks: ticksOf(buckets),
    head: `From (${timeZone})`,
    textOf: (at) => bucketText(buckets, at),
  };
}

export function verdictAxis({ buckets, to, time_zone, step }: VerdictReport): TimeAxis {
  return axisOf([...buckets.map(({ from }) => from), to], time_zone, step);
}

/** The first column of a table with rows of several operators; none in a report of one operator. */
export function operatorColumn({ operator: of }: VerdictReport): Column<{ readonly operator: string }>[] {
  return of === null ? [{ head: 'Operator', cell: ({ operator }) => shownText(operator) }] : [];
}

/** In place of a section whose query was too slow; null where there was none. */
export function tooSlow({ coverage }: VerdictReport, part: string): Html | null {
  if (!coverage.too_slow.includes(part)) return null;
  return html`<p class="warning">The database did not answer within ${coverage.query_seconds} s, and the query was ended. Choose a shorter range, or allow more time by --within.</p>`;
}

/** Rows of a table, and a note where some are left out. */
export function shortened<R>(
  rows: readonly R[],
  most: number,
): { readonly rows: readonly R[]; readonly note: Html | null } {
  const left = rows.length - most;
  return {
    rows: rows.slice(0, most),
    note:
      left > 0
        ? html`<p class="note">${left} further rows are left out. The JSON of this report has them.</p>`
        : null,
  };
}
