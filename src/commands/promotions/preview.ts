/**
 * `promo-intake promotions preview FILE --events FILE`: computes promotions of a file of events, and needs no
 * database.
 */

import { connectionsOf } from '../../check/finding';
import { type Line, readEvents, readLines } from '../../check/lines';
import { makeTally } from '../../check/tally';
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { openInput } from '../../cli/open-input';
import { type Options, readTime, wrongOption } from '../../cli/option-values';
import { printLines } from '../../cli/output';
import { nameInstead } from '../../cli/unknown-name';
import { parseInstant } from '../../domain/event/timestamp';
import type { Connection, ReferenceDocument } from '../../domain/reference';
import { judge } from '../../domain/verdict/judge';
import { isObject } from '../../lib/json';
import { described, grouped } from '../../lib/printable';
import type { FileSource } from '../../promotions/file-ledger';
import type { RoundCredit } from '../../promotions/ledger-entry';
import { Preview } from '../../promotions/preview';
import { describeAttributionFault, readAttributionLine } from './attribution-lines';
import { FAULTS_SHOWN, printFaults, readPromotionFile, referenceOf } from './check';
import { previewObjects, previewText } from './preview-report';

/** The preview keeps its events and progress in memory: these limits take less than 1 GiB. */
const MOST_PREVIEW_EVENTS = 500_000;
const MOST_PROGRESS = 1_000_000;

/** @returns the exit code */
export async function previewPromotions(file: string, options: Options, stop: AbortSignal): Promise<number> {
  const asOfMs = readTime(options, 'as-of');
  const eventFile = options.get('events') ?? '';
  if (file === '-' && eventFile === '-')
    throw wrongOption('events', 'names standard input as FILE does', 'Name a file');
  const reference = await referenceOf(options.get('reference'));
  if (reference === null) return USAGE;
  const parsed = await readPromotionFile(file, reference);
  if ('faults' in parsed) {
    printFaults(file, parsed.faults);
    return USAGE;
  }
  printFaults(file, parsed.warnings, 'warning: ');
  const { promotions } = parsed.document;
  const connection = connectionOf(options, reference);
  const source = sourceOf(options, connection, [...new Set(promotions.map(({ operator }) => operator))]);
  const credits = await creditsOf(options.get('attributions'), source, stop);
  if (credits === null) return USAGE;
  const preview = new Preview(promotions, source, credits);
  const tally = makeTally();
  try {
    await readInto(preview, tally, { file: eventFile, connection, stop });
  } catch (error) {
    if (!stop.aborted) throw error;
    console.error(`${eventFile}: interrupted after ${tally.summary()}; nothing was computed`);
    return FAILED;
  }
  const asOf = asOfMs === undefined ? preview.latest : BigInt(asOfMs) * 1000n;
  preview.fold.endSlice(asOf ?? 0n);
  const report = { preview, asOf, file, eventFile, summary: tally.summary() };
  await printLines(options.has('json') ? previewObjects(report) : previewText(report));
  return DONE;
}

/** The credited rounds of the file's feed; null after the faults of the file were printed. */
async function creditsOf(
  file: string | undefined,
  { operatorId, feedId }: FileSource,
  stop: AbortSignal,
): Promise<readonly RoundCredit[] | null> {
  const credits: RoundCredit[] = [];
  if (file === undefined) return credits;
  let faults = 0;
  for await (const lines of readLines(openInput(file, stop)))
    for (const line of lines) {
      const read = readAttributionLine(line, operatorId);
      if ('faults' in read) {
        faults++;
        for (const fault of read.faults)
          console.error(`${file}:${line.number}: ${describeAttributionFault(fault)}`);
      } else if ((read.feedId ?? operatorId) === feedId)
        credits.push({ feedId, roundId: read.roundId, brand: read.brand, playerRef: read.promoPlayerRef });
    }
  return faults === 0 ? credits : null;
}

interface EventInput {
  readonly file: string;
  readonly connection: Connection | undefined;
  readonly stop: AbortSignal;
}

async function readInto(
  preview: Preview,
  tally: ReturnType<typeof makeTally>,
  { file, connection, stop }: EventInput,
): Promise<void> {
  const ignoreNotice = () => undefined;
  let wrongTimes = 0;
  const onWrongTime = (line: number, value: unknown) => {
    if (++wrongTimes <= FAULTS_SHOWN) console.error(`warning: ${file}:${line}: ${wrongTimeText(value)}`);
  };
  for await (const lines of readEvents(readLines(openInput(file, stop)), ignoreNotice)) {
    for (const line of lines) takeLine(preview, tally, line, { connection, onWrongTime });
    const excess = excessOf(preview);
    if (excess !== undefined)
      throw new Unable(
        `${file} has more than ${excess}, the limit of a preview, which keeps all in memory. Divide the file by player, and preview each part.`,
      );
  }
  if (wrongTimes > FAULTS_SHOWN) console.error(`warning: ${file}: ${wrongTimes - FAULTS_SHOWN} more`);
}

function excessOf({ size, fold }: Preview): string | undefined {
  if (size > MOST_PREVIEW_EVENTS) return `${grouped(MOST_PREVIEW_EVENTS)} events`;
  if (fold.size <= MOST_PROGRESS) return undefined;
  return `${grouped(MOST_PROGRESS)} players with progress, each promotion and window counted`;
}

interface LineOptions {
  readonly connection: Connection | undefined;
  /** Called with a value that is no time of decision. */
  readonly onWrongTime: (line: number, value: unknown) => void;
}

function takeLine(
  preview: Preview,
  tally: ReturnType<typeof makeTally>,
  { number, bytes }: Line,
  { connection, onWrongTime }: LineOptions,
): void {
  const judged = bytes === null ? undefined : judge({ type: 'json', bytes }, connection);
  if (bytes === null || judged?.type !== 'keyed') {
    tally.add({ verdict: 'rejected', reason: 'no_idempotency_key' });
    return;
  }
  const exported = exportedTimeOf(bytes);
  const decidedAt = typeof exported === 'string' ? parseInstant(exported) : null;
  if (exported !== null && decidedAt == null) onWrongTime(number, exported);
  const decision = preview.take(judged, number, decidedAt ?? null);
  if (decision.type === 'duplicate') tally.add({ verdict: 'duplicate', reason: null });
  else if (decision.type === 'decided') tally.add(decision.outcome);
}

const DECIDED_AT = 'decided_at';

/** The time of decision that an exported event has, as it is written; null where it has none. */
function exportedTimeOf(bytes: Buffer): unknown {
  if (!bytes.includes(DECIDED_AT)) return null;
  const json: unknown = JSON.parse(bytes.toString('utf8'));
  return isObject(json) ? (json[DECIDED_AT] ?? null) : null;
}

function wrongTimeText(value: unknown): string {
  const found = `${DECIDED_AT} is ${described(value)}, which is no time with a zone`;
  return `${found}: the event counts as decided when it occurred. Write a time such as 2026-12-04T09:00:00Z.`;
}

function connectionOf(options: Options, reference: ReferenceDocument | undefined): Connection | undefined {
  const id = options.get('connection');
  if (id === undefined || reference === undefined) return undefined;
  const connections = connectionsOf(reference);
  const connection = connections.get(id);
  if (connection === undefined) {
    throw wrongOption(
      'connection',
      `names ${id}, which the reference data does not have`,
      nameInstead(id, [...connections.keys()]),
    );
  }
  if (connection.isTest === true)
    throw wrongOption(
      'connection',
      `names ${id}, a connection for tests`,
      'Its events count nowhere: name another',
    );
  return connection;
}

/** The operator whose promotions count the events. */
function sourceOf(
  options: Options,
  connection: Connection | undefined,
  operators: readonly string[],
): FileSource {
  const given = options.get('operator');
  if (connection !== undefined) {
    const { operator, feedId } = connection;
    if (given !== undefined && given !== operator.id)
      throw wrongOption(
        'operator',
        `names ${given}`,
        `The connection is of ${operator.id}: leave --operator out`,
      );
    return { operatorId: operator.id, feedId };
  }
  if (given !== undefined && operators.length > 0 && !operators.includes(given))
    throw wrongOption(
      'operator',
      `names ${given}, which has no promotion in FILE`,
      nameInstead(given, operators),
    );
  const [first, ...others] = operators;
  const operatorId = given ?? (others.length === 0 ? first : undefined);
  if (operatorId === undefined)
    throw wrongOption(
      'operator',
      'is missing',
      operators.length === 0
        ? 'FILE has no promotions: add one'
        : `The promotions are of several operators: name the one of the events, of ${operators.join(', ')}`,
    );
  return { operatorId, feedId: operatorId };
}
