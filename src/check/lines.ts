/**
 * Divides a file of events into lines, or a single JSON document into its events.
 * The bytes are never decoded here: an event that is not UTF-8 gets a verdict too.
 */
import { isUtf8 } from 'node:buffer';
import {
  endOfString,
  isClosing,
  isOpening,
  lastArrayOf,
  membersOf,
  QUOTE,
  type Span,
} from '../domain/event/json-spans';
import { withoutMark } from '../lib/byte-order-mark';
import { isObject } from '../lib/json';

const NEWLINE = 0x0a;
/**
 * As large as the largest record that the worker reads (MAX_DECOMPRESSED_BYTES in kafka/client/client.ts).
 */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;
/** A file whose first bytes, this many, can be one document is not a file of lines. */
const MAX_HELD_BYTES = 8 * 1024 * 1024;
/** The largest JSON document that is read as a whole. A larger file must hold an event on each line. */
const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;
/** The least size of a line whose bytes are not kept. */
const TOO_LONG_BYTES = MAX_LINE_BYTES + 1;

export interface Line {
  /** The number of the line where the text begins, from 1. */
  readonly number: number;
  /** The bytes without the line feed. Null if there are more than MAX_LINE_BYTES. */
  readonly bytes: Buffer | null;
}

/**
 * Divides bytes into lines, and yields the lines of each chunk. Blank lines are left out, but are counted.
 */
export async function* readLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<readonly Line[]> {
  let lineNumber = 1;
  let parts: Buffer[] = [];
  let length = 0;
  const extend = (part: Buffer) => {
    length += part.length;
    if (length > MAX_LINE_BYTES) parts = [];
    else parts.push(part);
  };
  const end = (): Line => {
    const line = { number: lineNumber++, bytes: length > MAX_LINE_BYTES ? null : whole(parts) };
    parts = [];
    length = 0;
    return line;
  };

  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      extend(chunk.subarray(from, to));
      lines.push(end());
      from = to + 1;
    }
    extend(chunk.subarray(from));
    yield lines.filter(isNotBlank);
  }
  yield [end()].filter(isNotBlank);
}

function whole(parts: readonly Buffer[]): Buffer {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}

function isNotBlank({ bytes }: Line): boolean {
  return bytes === null || firstToken(bytes) !== undefined;
}

/**
 * The first character that is not JSON white space. A byte order mark, which some programs write, is skipped.
 */
function firstToken(bytes: Buffer): string | undefined {
  const byte = withoutMark(bytes).find(
    (code) => code !== 0x20 && code !== 0x09 && code !== 0x0d && code !== NEWLINE,
  );
  return byte === undefined ? undefined : String.fromCharCode(byte);
}

/**
 * The events of a file. The whole file may be one array, one batch or one event. Otherwise each line is an
 * event.
 *
 * A file is held in memory, up to MAX_DOCUMENT_BYTES, only if its first line is not an event by itself.
 */
export async function* readEvents(
  blocks: AsyncIterable<readonly Line[]>,
  notice: (text: string, isDocument: boolean) => void,
): AsyncGenerator<readonly Line[]> {
  let held: Line[] | null = [];
  let heldBytes = 0;
  for await (const lines of blocks) {
    if (held === null) {
      yield lines;
      continue;
    }
    for (const line of lines) {
      held.push(line);
      heldBytes += line.bytes?.length ?? TOO_LONG_BYTES;
    }
    const isPossible = mayBeDocument(held);
    if (isPossible && heldBytes > MAX_DOCUMENT_BYTES)
      notice('is too long to be read as one JSON document, so each line is taken for an event', false);
    if (held.length > 0 && (!isPossible || heldBytes > MAX_DOCUMENT_BYTES)) {
      yield held;
      held = null;
    }
  }
  if (held === null || held.length === 0) return;
  const events = eventsOfDocument(held);
  notice(
    events === undefined
      ? 'is not one JSON document as a whole, so each line is taken for an event'
      : 'is one JSON document, of which each event is judged; publish sends lines: write an event a line for it',
    events !== undefined,
  );
  yield events ?? held;
}

/**
 * Passes lines on, unless they are one JSON document over several lines, whose lines are no events. Lines are
 * held until that is known.
 *
 * @param refuse creates the error from the document's first and last line number
 * @throws that error before any line is passed on
 */
export async function* withoutDocument(
  blocks: AsyncIterable<readonly Line[]>,
  refuse: (from: number, to: number) => Error,
): AsyncGenerator<readonly Line[]> {
  const document = makeDocumentWatch();
  let held: Line[] | null = [];
  let heldBytes = 0;
  for await (const lines of blocks) {
    if (held === null) {
      yield lines;
      continue;
    }
    for (const [index, line] of lines.entries()) {
      held.push(line);
      heldBytes += line.bytes?.length ?? TOO_LONG_BYTES;
      const state = document.add(line);
      const isOne = state === 'ended' ? parse(joined(held)) !== undefined : heldBytes > MAX_HELD_BYTES;
      if (state !== 'none' && held.length > 1 && isOne) throw refuse(held[0]?.number ?? 1, line.number);
      if (state === 'open') continue;
      yield [...held, ...lines.slice(index + 1)];
      held = null;
      break;
    }
  }
  if (held !== null && held.length > 0) yield held;
}

/**
 * Follows the brackets of a document over its lines, to distinguish a document from an event on each line.
 */
function makeDocumentWatch() {
  let depth = 0;
  let last = '';
  return {
    /** Whether the document of the first line is still open, has ended with this line, or is no document. */
    add({ bytes }: Line): 'open' | 'ended' | 'none' {
      const isFirst = last === '';
      // The line alone is longer than any document that is recognised.
      if (bytes === null) return isFirst ? 'none' : 'open';
      const first = firstToken(bytes);
      if (first === undefined) return 'none';
      if (isFirst ? !'[{'.includes(first) : !mayFollow(last, first)) return 'none';
      for (let at = 0; at < bytes.length; at++) {
        const byte = bytes[at] ?? 0;
        if (byte === QUOTE) at = endOfString(bytes, at);
        else if (isOpening(byte)) depth++;
        else if (isClosing(byte)) depth--;
        // JSON allows no line feed in a string, so this is no document.
        if (at >= bytes.length || depth < 0) return 'none';
        if (byte > 0x20) last = String.fromCharCode(byte);
      }
      return depth > 0 ? 'open' : 'ended';
    },
  };
}

/** Whether a line of a document may begin with `first` after `last`: a comma must separate two values. */
function mayFollow(last: string, first: string): boolean {
  return '[{,:'.includes(last) || ']},:'.includes(first);
}

/**
 * Whether the value is an array of events, or an object with events and no id of its own. It is not an event.
 */
export function isBatchOfEvents(json: unknown): boolean {
  return Array.isArray(json) ? json.some(isObject) : isBatch(json);
}

/** Whether the lines can be the beginning of a document that is not an event on each line. */
function mayBeDocument([first, second]: readonly Line[]): boolean {
  if (first === undefined || first.bytes === null) return false;
  const token = firstToken(first.bytes);
  if (token !== '[' && token !== '{') return false;
  const value = parse(first.bytes);
  return value === undefined || (second === undefined && (Array.isArray(value.json) || isBatch(value.json)));
}

function eventsOfDocument(lines: readonly Line[]): Line[] | undefined {
  const bytes = joined(lines);
  const value = parse(bytes);
  if (value === undefined) return undefined;
  const firstLine = lines[0]?.number ?? 1;
  const start = bytes.findIndex((code) => code === 0x5b || code === 0x7b);
  if (Array.isArray(value.json)) return numbered(bytes, firstLine, membersOf(bytes, start));
  if (!isBatch(value.json)) return [{ number: firstLine, bytes: bytes.subarray(start) }];
  return numbered(bytes, firstLine, membersOf(bytes, lastArrayOf(bytes, start, 'events')));
}

function isBatch(json: unknown): boolean {
  if (!isObject(json) || !Array.isArray(json.events)) return false;
  return typeof json.event_id !== 'string' || json.event_id === '';
}

function parse(bytes: Buffer): { json: unknown } | undefined {
  if (!isUtf8(bytes)) return undefined;
  try {
    return { json: JSON.parse(withoutMark(bytes).toString('utf8')) };
  } catch {
    return undefined;
  }
}

/** The text of the lines with the original line feeds. Blank lines are white space to JSON. */
function joined(lines: readonly Line[]): Buffer {
  const parts = lines.flatMap(({ number, bytes }, index) => [
    Buffer.alloc(number - (lines[index - 1]?.number ?? number), NEWLINE),
    bytes ?? Buffer.alloc(0),
  ]);
  return Buffer.concat(parts);
}

function numbered(bytes: Buffer, firstLine: number, spans: readonly Span[]): Line[] {
  let line = firstLine;
  let at = 0;
  return spans.map(({ start, end }) => {
    for (; at < start; at++) if (bytes[at] === NEWLINE) line++;
    return { number: line, bytes: bytes.subarray(start, end) };
  });
}
