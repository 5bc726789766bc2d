/**
 * `promo-intake reconcile FILE`: compares the events of a file with the verdicts of the intake, and changes
 * nothing. It names the events to send again, and those to correct.
 */
import { resolve } from 'node:path';
import { DONE, FAILED, USAGE } from '../cli/exit-codes';
import { Unable } from '../cli/explain-error';
import { type Line, MAX_LINE_BYTES, openInput, readEvents, readLines } from '../cli/input-lines';
import { wrong } from '../cli/option-values';
import { print } from '../cli/output';
import { openWholeFile, type WholeFile } from '../cli/whole-file';
import { ConfigError, readConfig } from '../config/config';
import type { Reference } from '../domain/reference';
import { UnreadableReference } from '../ledger/failures';
import { makeReferences } from '../ledger/reference-store';
import { makePool, type PostgresPool } from '../postgres/pool';
import { type Asked, contentOf, contentsDiffer, readAsked, unidentified } from '../reconciliation/asked';
import { type CsvHead, readCsvHead, readCsvLine } from '../reconciliation/csv';
import { makeReconciler, type Scope, scopeOf } from '../reconciliation/reconciler';
import { repeated, type Standing } from '../reconciliation/standing';
import { Totals } from '../reconciliation/totals';
import { makeLogger } from '../telemetry/logger';
import {
  asCorrection,
  asObject,
  asText,
  type Entry,
  makeProgress,
  summaryJson,
  summaryText,
} from './reconcile-report';
import { makeSeenIds, type SeenIds } from './seen-ids';
import { RECONCILE_SETTINGS } from './settings';

export interface ReconcileOptions {
  /** `-` is standard input. */
  readonly file: string;
  readonly connection: string;
  /** Print a JSON object for each entry instead of text for people. */
  readonly json: boolean;
  /** FILE is CSV. A name that ends with .csv has the same effect. */
  readonly csv: boolean;
  /** Files to write: the events to send again, and those to correct. */
  readonly resend: string | undefined;
  readonly mend: string | undefined;
}

/** Entries of one look-up. While the store answers, the next entries are judged. */
const AT_ONCE = 4_000;
/** Bounds the memory for ids to 128 MiB: 2.9 million ids. A later repeat is looked up by itself. */
const MOST_SLOTS = 2 ** 22;

/** @returns the exit code: 1 where something has to be sent again, corrected or asked again */
export async function reconcile(options: ReconcileOptions, stop: AbortSignal): Promise<number> {
  const database = readConfig(process.env, RECONCILE_SETTINGS).DATABASE;
  refuseSameFile(options);
  const pool = makePool(
    { ...database, maxConnections: 1, applicationName: 'promo-intake-reconcile' },
    makeLogger('warn', 'stderr'),
  );
  const files: WholeFile[] = [];
  try {
    const reference = await readReference(pool);
    const scope = scopeOf(reference, options.connection);
    if (scope === undefined) {
      console.error(unknownConnection(options.connection, reference));
      return USAGE;
    }
    const open = async (name: 'resend' | 'mend') => {
      const path = options[name];
      if (path === undefined) return null;
      const file = await openWholeFile(name, path);
      files.push(file);
      return file;
    };
    const out = { resend: await open('resend'), mend: await open('mend') };
    const isEnded = await reconcileFile(options, { pool, scope, out }, stop);
    if (isEnded === null) return FAILED;
    for (const file of files) await file.finish();
    return isEnded ? DONE : FAILED;
  } finally {
    for (const file of files) await file.discard();
    await pool.end();
  }
}

interface Work {
  readonly pool: PostgresPool;
  readonly scope: Scope;
  readonly out: { readonly resend: WholeFile | null; readonly mend: WholeFile | null };
}

/** @returns whether all is accounted for; null where it was interrupted */
async function reconcileFile(
  { file, json, csv }: ReconcileOptions,
  { pool, scope, out }: Work,
  stop: AbortSignal,
): Promise<boolean | null> {
  const reconciler = makeReconciler(pool, Date.now);
  const totals = new Totals();
  const seen = makeSeenIds(MOST_SLOTS);
  const progress = makeProgress(file, () => totals.summary());
  const notice = (text: string) => progress.report(`: ${text}`);

  async function handle(entries: readonly Entry[], standings: readonly Standing[]): Promise<void> {
    const text: string[] = [];
    for (const [index, entry] of entries.entries()) {
      const found = standings[index];
      if (found === undefined) throw new Error('an entry has no standing');
      const standing = withRepeat(entry, found, seen);
      totals.add(entry.asked, standing);
      if (standing.action === 'resend' && entry.bytes !== null)
        await out.resend?.write(inOneLine(entry.bytes), '\n');
      if (standing.action === 'correct') await out.mend?.write(asCorrection(entry, standing));
      text.push(json ? asObject(entry.line, standing) : asText(file, entry.line, standing));
    }
    await print(text.join(''));
  }

  try {
    // The look-up of a slice, in flight while the next slice is judged.
    let before: { entries: readonly Entry[]; standings: Promise<Standing[]> } | null = null;
    const handleBefore = async () => {
      if (before !== null) await handle(before.entries, await before.standings);
    };
    const chunks = progress.counted(withoutGzip(openInput(file, stop)));
    const isCsv = csv || /\.csv$/i.test(file);
    let head: CsvHead | undefined;
    const readEntry = (bytes: Buffer) =>
      head === undefined ? readAsked(bytes, scope.connection) : readCsvLine(bytes, head);
    const all = isCsv ? readLines(chunks) : readEvents(readLines(chunks), notice);
    for await (const block of all) {
      const [first] = block;
      const isHead = isCsv && head === undefined && first !== undefined;
      if (isHead) head = needHead(first);
      const isNamed = isHead && head?.isNamed === true;
      if (isNamed && first.bytes !== null) await out.resend?.write(first.bytes, '\n');
      const lines = isNamed ? block.slice(1) : block;
      for (let from = 0; from < lines.length; from += AT_ONCE) {
        const entries = lines.slice(from, from + AT_ONCE).map(({ number, bytes }) => ({
          line: number,
          bytes,
          asked: bytes === null ? TOO_LONG : readEntry(bytes),
        }));
        const asked = entries.map((entry) => entry.asked);
        const standings = reconciler.reconcile(scope, asked);
        // It is awaited one slice later.
        standings.catch(() => undefined);
        await handleBefore();
        before = { entries, standings };
      }
    }
    await handleBefore();
  } catch (error) {
    if (!stop.aborted) throw error;
  } finally {
    progress.close();
  }
  const report = totals.report();
  const state = stop.aborted ? 'interrupted, and no file was written; so far ' : '';
  if (json) {
    if (!stop.aborted) await print(summaryJson(report));
    process.stderr.write(`${file}: ${state}${totals.summary()}\n`);
  } else await print(`${file}: ${state}${totals.summary()}\n${stop.aborted ? '' : summaryText(report)}`);
  return stop.aborted ? null : totals.isClean();
}

/** Compares an entry with an earlier one of the same id. */
function withRepeat({ line, asked }: Entry, standing: Standing, seen: SeenIds): Standing {
  if (asked.eventId === null) return standing;
  const content = contentOf(asked);
  const first = seen.add(asked.eventId, { line, contentHash: content });
  if (first === undefined) return standing;
  return repeated(standing, first.line, contentsDiffer(first.contentHash, content));
}

const TOO_LONG: Asked = unidentified(null, [
  {
    reason: 'no_idempotency_key',
    field: '',
    detail: `the line is longer than ${MAX_LINE_BYTES} bytes, the limit of a record`,
  },
]);

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

/** @throws ConfigError where the first line names no column to look up */
function needHead({ bytes }: Line): CsvHead {
  const head = bytes === null ? undefined : readCsvHead(bytes);
  if (head !== undefined) return head;
  throw new ConfigError([
    {
      setting: 'FILE',
      problem: 'has no column event_id',
      remedy:
        'Name the columns in its first line, such as event_id,kind,occurred_at, or topic,partition,offset',
    },
  ]);
}

/** @throws ConfigError if FILE is compressed */
async function* withoutGzip(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const chunk of chunks) {
    if (isFirst && chunk[0] === 0x1f && chunk[1] === 0x8b)
      throw new ConfigError([
        {
          setting: 'FILE',
          problem: 'is compressed',
          remedy: 'Run: gunzip -c FILE | promo-intake reconcile -',
        },
      ]);
    isFirst = false;
    yield chunk;
  }
}

/** @throws ConfigError where an output would replace FILE or the other output */
function refuseSameFile({ file, resend, mend }: ReconcileOptions): void {
  const paths = [file === '-' ? undefined : file, resend, mend].map((path) => path && resolve(path));
  const [input, ...outputs] = paths;
  for (const [index, name] of (['resend', 'mend'] as const).entries())
    if (outputs[index] !== undefined && outputs[index] === input)
      throw wrong(name, 'names FILE itself', 'Name another file');
  if (outputs[0] !== undefined && outputs[0] === outputs[1])
    throw wrong('mend', 'names the same file as --resend', 'Name another file');
}

async function readReference(pool: PostgresPool): Promise<Reference> {
  try {
    return await makeReferences(pool).current();
  } catch (error) {
    if (!(error instanceof UnreadableReference)) throw error;
    throw new Unable(
      `${error.message}. A newer version of promo-intake may have applied it: use the command of that version.`,
      { cause: error },
    );
  }
}

function unknownConnection(id: string, { connections }: Reference): string {
  const known = [...connections.keys()].join(', ') || 'none';
  return `--connection: the reference data has no connection ${id}. Its connections: ${known}`;
}
