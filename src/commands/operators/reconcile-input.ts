/** Reads the entries of a reconciliation: of a file of events, or of ids as CSV. */
import { type Line, MAX_LINE_BYTES, readEvents, readLines } from '../../check/lines';
import { openText } from '../../cli/open-text';
import { ConfigError } from '../../config/config';
import type { Connection } from '../../domain/reference';
import { withoutMark } from '../../lib/byte-order-mark';
import { quoted } from '../../lib/printable';
import { readCsvHead, readCsvLine } from '../../reconciliation/csv';
import { type ReconcileEntry, readEntry, unidentified } from '../../reconciliation/entry';
import type { Entry } from './reconcile-report';

export interface EntriesInput {
  readonly file: string;
  readonly isCsv: boolean;
  /** The connection whose rules judge the events. Undefined: no such rules apply. */
  readonly connection: Connection | undefined;
  /** The most entries of one slice. */
  readonly atOnce: number;
  readonly stop: AbortSignal;
  /** Receives the chunks of the file as they are read. */
  readonly counted: (chunks: AsyncIterable<Buffer>) => AsyncIterable<Buffer>;
  readonly notice: (text: string) => void;
  /** Receives the first line of CSV where it names columns. */
  readonly onHead: (bytes: Buffer) => Promise<void>;
}

/** Yields the entries in slices. @throws ConfigError where FILE can have none */
export async function* readEntries(input: EntriesInput): AsyncGenerator<readonly Entry[]> {
  const { file, isCsv, connection, atOnce, stop, counted, notice, onHead } = input;
  const lines = readLines(counted(openText(file, 'reconcile', stop)));
  let parse = (bytes: Buffer): ReconcileEntry => readEntry(bytes, connection);
  function toEntry(line: number, read: Buffer | null): Entry {
    if (read === null) return { line, bytes: null, parsed: TOO_LONG };
    // An event of --resend has to be one that can be sent. Some spreadsheets need the mark of CSV.
    const bytes = isCsv ? read : withoutMark(read);
    return { line, bytes, parsed: parse(bytes) };
  }
  let isFirst = true;
  for await (const block of isCsv ? lines : readEvents(lines, notice)) {
    let from = 0;
    const [first] = block;
    if (isFirst && first !== undefined) {
      isFirst = false;
      if (isCsv) {
        const { bytes } = first;
        const head = bytes === null ? undefined : readCsvHead(bytes);
        if (bytes === null || head === undefined) throw new ConfigError([noColumn(bytes)]);
        parse = (line) => readCsvLine(line, head);
        if (head.isNamed) {
          await onHead(bytes);
          from = 1;
        }
      } else if (isListOfIds(first))
        notice('its first line is no JSON. --csv reads CSV, or an id on each line');
    }
    for (; from < block.length; from += atOnce)
      yield block.slice(from, from + atOnce).map(({ number, bytes }) => toEntry(number, bytes));
  }
}

/** Whether the line begins as an id or a column does. Bytes of another encoding have a fault of their own. */
function isListOfIds({ bytes }: Line): boolean {
  return bytes !== null && /^[\w"'-]/.test(bytes.toString('latin1', 0, 1));
}

const TOO_LONG: ReconcileEntry = unidentified(null, [
  {
    reason: 'no_idempotency_key',
    field: '',
    detail: `the line is longer than ${MAX_LINE_BYTES} bytes, the limit of a record`,
  },
]);

/** @param first the first line; null where it is too long to be kept */
function noColumn(first: Buffer | null) {
  const shown = first === null ? '' : `: its first line is ${quoted(String(first).trim())}`;
  return {
    setting: 'FILE',
    problem: `has no column event_id${shown}`,
    remedy: 'Name the columns there, such as event_id,kind,occurred_at, or topic,partition,offset',
  };
}
