/** Compares the entries of a file, slice by slice, and writes the outputs of `reconcile`. */
import { print } from '../../cli/output';
import { makeProgress } from '../../cli/progress';
import type { WholeFile } from '../../cli/whole-file';
import type { Connection } from '../../domain/reference';
import { grouped } from '../../lib/printable';
import { contentOf, contentsDiffer } from '../../reconciliation/entry';
import { repeated, type Standing } from '../../reconciliation/standing';
import { Totals } from '../../reconciliation/totals';
import { readEntries } from './reconcile-input';
import { asCorrection, asObject, asText, type Entry, summaryJson, summaryText } from './reconcile-report';
import { makeSeenIds, type SeenIds } from './seen-ids';

/** The verdicts that entries are compared with. */
export interface Verdicts {
  /** The connection whose rules judge the events. Undefined: the other side judges them. */
  readonly connection: Connection | undefined;
  /** The most entries of one look-up. */
  readonly atOnce: number;
  /** @returns a standing for each entry; null where the command has to stop */
  lookUp(entries: readonly Entry[]): Promise<readonly Standing[] | null>;
}

export interface Comparison {
  readonly file: string;
  readonly isCsv: boolean;
  readonly isJson: boolean;
  readonly verdicts: Verdicts;
  /** The files of the events to send again, and of those to correct. */
  readonly out: { readonly resend: WholeFile | null; readonly mend: WholeFile | null };
}

/** Their memory is 64 MiB. Later repeats are looked up by themselves. */
const MOST_IDS = 1_900_000;

/** @returns whether all is accounted for; null where it was stopped */
export async function compareFile(
  { file, isCsv, isJson, verdicts, out }: Comparison,
  stop: AbortSignal,
): Promise<boolean | null> {
  const totals = new Totals();
  const seen = makeSeenIds(MOST_IDS);
  const progress = makeProgress(file, () => totals.summary());
  const { connection, atOnce } = verdicts;
  const slices = readEntries({
    file,
    isCsv,
    connection,
    atOnce,
    stop,
    counted: progress.counted,
    notice: (text) => progress.report(`: ${text}`),
    onHead: async (bytes) => out.resend?.write(bytes, '\n'),
  });
  let isStopped = false;
  try {
    for await (const { entries, standings } of lookAhead(slices, (entries) => verdicts.lookUp(entries))) {
      isStopped = standings === null;
      if (standings === null) break;
      const text: string[] = [];
      for (const [index, entry] of entries.entries()) {
        const found = standings[index];
        if (found === undefined) throw new Error('an entry has no standing');
        const standing = withRepeat(entry, found, seen);
        totals.add(entry.parsed, standing);
        if (standing.action === 'resend' && entry.bytes !== null)
          await out.resend?.write(inOneLine(entry.bytes), '\n');
        if (standing.action === 'correct') await out.mend?.write(asCorrection(entry, standing));
        text.push(isJson ? asObject(entry.line, standing) : asText(file, entry.line, standing));
      }
      await print(text.join(''));
    }
  } catch (error) {
    if (!stop.aborted) throw error;
  } finally {
    progress.close();
  }
  isStopped ||= stop.aborted;
  if (seen.hasForgotten) progress.report(`: ${FORGOTTEN}`);
  const report = totals.report();
  const how = stop.aborted ? 'interrupted' : 'stopped';
  const state = isStopped ? `${how}, and no file was written; so far ` : '';
  if (isJson) {
    if (!isStopped) await print(summaryJson(report));
    process.stderr.write(`${file}: ${state}${totals.summary()}\n`);
  } else await print(`${file}: ${state}${totals.summary()}\n${isStopped ? '' : summaryText(report)}`);
  return isStopped ? null : totals.isClean();
}

const FORGOTTEN = `repeats were found among the first ${grouped(MOST_IDS)} ids only: a later repeat counts again`;

/** Yields each slice with its answer. While one answer is awaited, the next slice is read. */
async function* lookAhead<Slice, Answer>(
  slices: AsyncIterable<Slice>,
  lookUp: (entries: Slice) => Promise<Answer>,
): AsyncGenerator<{ readonly entries: Slice; readonly standings: Answer }> {
  let before: { entries: Slice; answer: Promise<Answer> } | null = null;
  for await (const entries of slices) {
    const answer = lookUp(entries);
    // It is awaited one slice later.
    answer.catch(() => undefined);
    if (before !== null) yield { entries: before.entries, standings: await before.answer };
    before = { entries, answer };
  }
  if (before !== null) yield { entries: before.entries, standings: await before.answer };
}

/** Compares an entry with an earlier one of the same id. */
function withRepeat({ line, parsed }: Entry, standing: Standing, seen: SeenIds): Standing {
  if (parsed.eventId === null) return standing;
  const content = contentOf(parsed);
  const first = seen.add(parsed.eventId, { line, contentHash: content });
  if (first === undefined) return standing;
  return repeated(standing, first.line, contentsDiffer(first.contentHash, content));
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

/**
 * The bytes as they are, except that an event of a JSON document may extend over lines. A line feed between
 * its values becomes a blank: no JSON text has one inside a value.
 */
function inOneLine(bytes: Buffer): Buffer {
  if (!bytes.includes(NEWLINE)) return bytes;
  return Buffer.from(bytes.map((byte) => (byte === NEWLINE || byte === RETURN ? SPACE : byte)));
}
