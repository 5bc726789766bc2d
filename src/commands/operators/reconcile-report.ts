/** The output of `reconcile`: a line for each entry, and the totals. */

import { isUtf8 } from 'node:buffer';
import type { Fault } from '../../domain/event/event';
import { isObject, parseJson } from '../../lib/json';
import { asSentence, grouped, plain } from '../../lib/printable';
import { endOfName } from '../../publishing/sentence';
import type { ReconcileEntry } from '../../reconciliation/entry';
import { STATES, type Standing, standingFields } from '../../reconciliation/standing';
import type { StateCounts, TotalsReport } from '../../reconciliation/totals';

/** An entry of the file. */
export interface Entry {
  readonly line: number;
  /** Null where the line is too long to be kept. */
  readonly bytes: Buffer | null;
  readonly parsed: ReconcileEntry;
}

/** A table of more hours is given by day. */
const MAX_HOURS_SHOWN = 48;

/** An object for programs. */
export function asObject(line: number, standing: Standing): string {
  return `${JSON.stringify(fieldsOf(line, standing))}\n`;
}

function fieldsOf(line: number, standing: Standing): Record<string, unknown> {
  const { repeatOf } = standing;
  return { line, ...standingFields(standing), ...(repeatOf !== undefined && { first_line: repeatOf }) };
}

/** A line of the file of events to correct: the standing, with the event as it was read. */
export function asCorrection({ line, bytes }: Entry, standing: Standing): string {
  const fields = JSON.stringify(fieldsOf(line, standing)).slice(0, -1);
  if (bytes === null) return `${fields}}\n`;
  const text = isUtf8(bytes) ? bytes.toString('utf8').replace(/[\r\n]/g, ' ') : undefined;
  const isJson = text !== undefined && isObject(parseJson(text));
  if (isJson) return `${fields},"event":${text.trim()}}\n`;
  return `${fields},"text":${JSON.stringify(bytes.toString('utf8'))}}\n`;
}

/** A line for each fault. Empty for an entry that needs nothing, except a skipped one. */
export function asText(file: string, line: number, standing: Standing): string {
  const { eventId, state, reason, action, remedy, contentDiffers, details, repeatOf } = standing;
  if (action === 'none' && state !== 'skipped') return '';
  const [detail, ...further] = details;
  const name = `${state.replaceAll('_', ' ')}${reason === null ? '' : `/${reason}`}`;
  const parts = [
    eventId === null ? '' : `${plain(eventId)} `,
    name,
    contentDiffers ? ', with other content' : '',
    repeatOf === undefined ? '' : ` (line ${repeatOf} has the same event_id)`,
    detail === undefined ? endOfName(reason) : `  ${describe(detail)}`,
    remedy === null ? '' : ` ${remedy}`,
  ];
  const more = further.map((each) => `${file}:${line}: also  ${describe(each)}\n`).join('');
  return `${file}:${line}: ${parts.join('')}\n${more}`;
}

function describe({ field, detail }: Fault): string {
  return `${field === '' ? 'payload' : field}: ${asSentence(detail)}`;
}

// --- totals

export function summaryJson(report: TotalsReport): string {
  return `${JSON.stringify({ totals: report })}\n`;
}

/** Tables beside the sender's own totals. */
export function summaryText({ kinds, reasons, hours, money, actions }: TotalsReport): string {
  const hourCount = Object.keys(hours).length;
  const [times, heading] = hourCount > MAX_HOURS_SHOWN ? [byDay(hours), 'day (UTC)'] : [hours, 'hour (UTC)'];
  const sums = money.map(
    ({ kind, currency, sent, accepted }) => `${kind} ${currency}: sent ${sent}, accepted ${accepted}\n`,
  );
  return [
    table('kind', kinds),
    reasonTable(reasons),
    table(heading, times),
    ...sums,
    `to send again: ${grouped(actions.resend)}; to correct: ${grouped(actions.correct)}; to ask again later: ${grouped(actions.wait)}\n`,
  ].join('');
}

const COLUMNS = ['sent', ...STATES, 'content_differs'] as const;

function table(heading: string, groups: Readonly<Record<string, StateCounts>>): string {
  const used = COLUMNS.filter(
    (column) => COLUMNS.indexOf(column) <= 3 || Object.values(groups).some((counts) => counts[column] > 0),
  );
  return aligned([
    [heading, ...used.map((column) => column.replaceAll('_', ' '))],
    ...Object.entries(groups).map(([name, counts]) => [
      name,
      ...used.map((column) => grouped(counts[column])),
    ]),
  ]);
}

/** The most frequent reason first. Empty where no event has a reason. */
function reasonTable(reasons: TotalsReport['reasons']): string {
  const rows = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  if (rows.length === 0) return '';
  return aligned([['reason', 'events'], ...rows.map(([reason, events]) => [reason, grouped(events)])]);
}

/** Lines of columns: names to the left, numbers to the right. */
function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row.map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      ),
    )
    .map((row) => `${row.join('  ')}\n`)
    .join('');
}

function byDay(hours: Readonly<Record<string, StateCounts>>): Record<string, StateCounts> {
  const days: Record<string, Record<keyof StateCounts, number>> = {};
  for (const [hour, counts] of Object.entries(hours)) {
    const day = hour.replace(/T\d\dZ$/, '');
    const sum = days[day];
    if (sum === undefined) days[day] = { ...counts };
    else for (const column of COLUMNS) sum[column] += counts[column];
  }
  return days;
}
