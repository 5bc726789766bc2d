/**
 * Reads a list of ids as CSV: one entry a line, with columns that the first line names. A first line without
 * a delimiter that is no name of a column is an id already. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { type Fault, isKind } from '../domain/event/event';
import { isStorable } from '../domain/event/payload';
import { parseInstant } from '../domain/event/timestamp';
import { anId, placeOf, type ReconcileEntry, type RecordPlace, unidentified } from './entry';

/** The columns that are read. Others are allowed, and are ignored. */
const COLUMNS = ['event_id', 'kind', 'occurred_at', 'topic', 'partition', 'offset'] as const;
type Column = (typeof COLUMNS)[number];
const DELIMITERS = [',', ';', '\t'];

export interface CsvHead {
  readonly delimiter: string;
  readonly places: ReadonlyMap<Column, number>;
  /** Whether the first line has names. */
  readonly isNamed: boolean;
}

/** @returns undefined where the first line has several columns, and neither event_id nor offset is one */
export function readCsvHead(first: Buffer): CsvHead | undefined {
  const text = textOf(first);
  const delimiter = DELIMITERS.find((each) => text.includes(each)) ?? ',';
  const cells = (cellsOf(text, delimiter) ?? []).map((cell) => cell.trim().toLowerCase());
  const places = new Map<Column, number>();
  for (const name of COLUMNS) if (cells.includes(name)) places.set(name, cells.indexOf(name));
  if (places.has('event_id') || (places.has('topic') && places.has('offset')))
    return { delimiter, places, isNamed: true };
  return cells.length > 1 ? undefined : { delimiter, places: new Map([['event_id', 0]]), isNamed: false };
}

/** Reads a line after the head. */
export function readCsvLine(bytes: Buffer, { delimiter, places }: CsvHead): ReconcileEntry {
  if (!isUtf8(bytes)) return unidentified(null, [noId('the line is not valid UTF-8')]);
  const cells = cellsOf(textOf(bytes), delimiter);
  if (cells === undefined) return unidentified(null, [noId('a quotation mark of the line is not closed')]);
  const cell = (name: Column) => cells[places.get(name) ?? -1]?.trim() ?? '';
  const place = readPlace(cell);
  const eventId = cells[places.get('event_id') ?? -1] ?? '';
  const kind = cell('kind');
  const about = {
    kind: isKind(kind) ? kind : null,
    occurredAtMicros: parseInstant(cell('occurred_at')) ?? null,
  };
  if (eventId === '') return { ...unidentified(place, [noId('the line has no event_id')]), ...about };
  if (!isStorable(eventId, 'any'))
    return { ...unidentified(place, [noId('event_id has a character that no id may have')]), ...about };
  return { ...anId(eventId, place), ...about };
}

function readPlace(cell: (name: Column) => string): RecordPlace | null {
  return placeOf(cell('topic'), cell('partition') || '0', cell('offset'));
}

function noId(detail: string): Fault {
  return { reason: 'no_idempotency_key', field: '/event_id', detail };
}

/** The text without a byte order mark, and without the CR of its end. */
function textOf(bytes: Buffer): string {
  return bytes
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .replace(/\r$/, '');
}

/** The cells of a line, by RFC 4180. @returns undefined where a quotation mark is not closed */
function cellsOf(text: string, delimiter: string): string[] | undefined {
  if (!text.includes('"')) return text.split(delimiter);
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] === '"') {
      let cell = '';
      for (;;) {
        const end = text.indexOf('"', at + 1);
        if (end < 0) return undefined;
        cell += text.slice(at + 1, end);
        at = end + 1;
        if (text[at] !== '"') break;
        // Two quotation marks in a quoted cell are one.
        cell += '"';
      }
      const end = text.indexOf(delimiter, at);
      cells.push(cell + text.slice(at, end < 0 ? text.length : end));
      at = end < 0 ? text.length : end;
    } else {
      const end = text.indexOf(delimiter, at);
      cells.push(text.slice(at, end < 0 ? text.length : end));
      at = end < 0 ? text.length : end;
    }
    if (at >= text.length) return cells;
    at += delimiter.length;
    if (at >= text.length) return [...cells, ''];
  }
}
