/** `promo-intake promotions apply`, `diff` and `rollback`: put documents of promotions into force. */
import { DONE, FAILED } from '../../cli/exit-codes';
import { integerOf, type Options, requestedBy } from '../../cli/option-values';
import { printLines } from '../../cli/output';
import { readConfig } from '../../config/config';
import type { ReferenceDocument } from '../../domain/reference';
import { readReferenceVersion } from '../../ledger/reference-store';
import { counted } from '../../lib/printable';
import type { PostgresPool } from '../../postgres/pool';
import { type ParsedPromotions, parsePromotions } from '../../promotion-file/promotion-file';
import { UnreadablePromotions } from '../../promotion-file/stored';
import { applyPromotions, type PromotionPlan, readPromotionDocument } from '../../promotion-store/documents';
import { objectionsTo, printPromotionChanges } from '../../promotions/changes';
import { UnreadableDocument } from '../../reference-file/stored';
import { explainNewer, withPool } from '../shared/command-pool';
import { printFaults, readPromotionFile } from './check';

type Read = (reference: ReferenceDocument) => ParsedPromotions | Promise<ParsedPromotions>;

/** @returns the exit code: 1 if the file is not applied */
export async function applyPromotionsFile(file: string, options: Options, dryRun: boolean): Promise<number> {
  const expected = integerOf(options, 'expect');
  return withPromotions((pool) =>
    putIntoForce(pool, (reference) => readPromotionFile(file, reference), {
      file,
      options,
      dryRun,
      expected,
      reason: options.get('reason') ?? null,
    }),
  );
}

/**
 * Applies an earlier document as a new one: a window that was counted keeps its version.
 *
 * @returns the exit code
 */
export async function rollbackPromotions(options: Options): Promise<number> {
  const to = integerOf(options, 'to', 1) ?? 0;
  const expected = integerOf(options, 'expect');
  return withPromotions(async (pool) => {
    const found = await readPromotionDocument(pool, to);
    if (found === undefined) return missingDocument(to);
    const file = `document ${to}`;
    return putIntoForce(pool, (reference) => parsePromotions(found.text, file, reference), {
      file,
      options,
      dryRun: options.has('dry-run'),
      expected,
      reason: options.get('reason') ?? `rollback to document ${to}`,
    });
  });
}

export function missingDocument(version: number | undefined): number {
  console.error(
    version === undefined ? 'there are no promotions yet' : `there is no document ${version} of promotions`,
  );
  return FAILED;
}

interface Choice {
  /** Names the document in messages. */
  readonly file: string;
  readonly options: Options;
  readonly dryRun: boolean;
  /** The document that has to be in force; undefined: any. */
  readonly expected: number | undefined;
  readonly reason: string | null;
}

async function putIntoForce(
  pool: PostgresPool,
  read: Read,
  { file, options, dryRun, expected, reason }: Choice,
): Promise<number> {
  const reference = await readReferenceVersion(pool, undefined);
  if (reference === undefined) {
    console.error('there is no reference data yet: apply that first, since promotions name its operators');
    return FAILED;
  }
  const parsed = await read(reference.document);
  if ('faults' in parsed) return refused(file, parsed);
  printFaults(file, parsed.warnings, 'warning: ');
  const application = {
    by: requestedBy(options),
    reason,
    takeover: options.has('recompute') ? ('recompute' as const) : ('next_window' as const),
  };
  let refusal: string | undefined;
  const { version, changes } = await applyPromotions(pool, parsed.document, application, (plan) => {
    refusal = refusalOf(plan, expected, options.has('allow-removal'));
    return !dryRun && refusal === undefined && objectionsTo(plan.changes).length === 0;
  });
  await printLines(printPromotionChanges(changes));
  const objections = objectionsTo(changes);
  if (objections.length > 0) return refused(file, { faults: parsed.faultsOf(objections) });
  if (refusal !== undefined) {
    console.error(refusal);
    return FAILED;
  }
  console.log(closingLine(version, changes.length > 0, dryRun));
  if (!dryRun && changes.some(({ effect }) => effect.from === 'recompute'))
    console.log('the windows are computed again from history, and shown once all of them are');
  return DONE;
}

function refused(
  file: string,
  { faults }: Pick<Extract<ParsedPromotions, { faults: unknown }>, 'faults'>,
): number {
  printFaults(file, faults);
  console.error(`${file}: ${counted(faults.length, 'fault')}, nothing was applied`);
  return FAILED;
}

function refusalOf(
  { version, changes }: PromotionPlan,
  expected: number | undefined,
  allowsRemoval: boolean,
): string | undefined {
  if (expected !== undefined && expected !== version)
    return `${inForce(version)}, and --expect names ${expected}: see the changes again; nothing was applied`;
  const removed = changes.filter(({ change }) => change === 'removed').length;
  if (removed === 0 || allowsRemoval) return undefined;
  return `${counted(removed, 'promotion')} would be removed; add --allow-removal if you intend that`;
}

function closingLine(version: number, hasChanges: boolean, dryRun: boolean): string {
  if (!hasChanges) return `no changes; ${stays(version)}`;
  return dryRun ? `dry run: nothing was applied; ${stays(version)}` : inForce(version);
}

function stays(version: number): string {
  return version === 0 ? 'no document is in force' : `document ${version} stays in force`;
}

function inForce(version: number): string {
  return version === 0 ? 'no document is in force' : `document ${version} is in force`;
}

/** Runs a command over one connection to the store. */
export async function withPromotions<T>(work: (pool: PostgresPool) => Promise<T>): Promise<T> {
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  try {
    return await withPool(DATABASE, 'promotions-apply', work);
  } catch (error) {
    throw explainNewer(error, [UnreadablePromotions, UnreadableDocument]);
  }
}
