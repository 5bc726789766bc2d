/** `promo-intake promotions check FILE`: prints the faults of definitions, and needs no database. */
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { openInput } from '../../cli/open-input';
import { type Options, readTime } from '../../cli/option-values';
import { printLines } from '../../cli/output';
import type { ReferenceDocument } from '../../domain/reference';
import { NEVER } from '../../lib/clock';
import { counted } from '../../lib/printable';
import { readUpTo } from '../../lib/read-limited';
import { type ParsedPromotions, readPromotions } from '../../promotion-file/promotion-file';
import { describePromotionChanges, objectionsTo, printPromotionChanges } from '../../promotions/changes';
import type { PromotionDocument } from '../../promotions/definition';
import { describeFileFault, type FileFault, MAX_REFERENCE_BYTES } from '../../reference-file/reference-file';
import { readReferenceInput } from '../shared/reference-input';

export const FAULTS_SHOWN = 100;

/** @returns the exit code: 1 where the file has faults */
export async function checkPromotions(file: string, options: Options): Promise<number> {
  const at = BigInt(readTime(options, 'at') ?? Date.now()) * 1000n;
  const reference = await referenceOf(options.get('reference'));
  if (reference === null) return USAGE;
  const before = await earlierOf(options.get('against'));
  if (before === null) return USAGE;
  const parsed = await readPromotionFile(file, reference);
  if ('faults' in parsed) {
    printFaults(file, parsed.faults);
    return FAILED;
  }
  const { document } = parsed;
  const changes = before === undefined ? undefined : describePromotionChanges(before, document, at);
  // A store would refuse the file for them.
  const objections = parsed.faultsOf(objectionsTo(changes ?? []));
  const warnings = [...parsed.warnings, ...objections];
  printFaults(file, warnings, 'warning: ');
  const looked = reference === undefined ? '; operators, brands and games need --reference' : '';
  const found = `${counted(document.promotions.length, 'promotion')}, no faults, ${counted(warnings.length, 'warning')}`;
  await printLines([
    `${file}: ${found}${looked}`,
    ...(changes === undefined ? [] : changes.length === 0 ? ['no changes'] : printPromotionChanges(changes)),
  ]);
  return DONE;
}

/** The earlier file. Undefined where none is named; null after its faults were printed. */
async function earlierOf(file: string | undefined): Promise<PromotionDocument | undefined | null> {
  if (file === undefined) return undefined;
  const parsed = await readPromotionFile(file, undefined);
  if (!('faults' in parsed)) return parsed.document;
  printFaults(file, parsed.faults);
  return null;
}

export async function readPromotionFile(
  file: string,
  reference: ReferenceDocument | undefined,
): Promise<ParsedPromotions> {
  return readPromotions(await readUpTo(openInput(file, NEVER), MAX_REFERENCE_BYTES), file, reference);
}

/** Undefined where no file is named; null after its faults were printed. */
export async function referenceOf(file: string | undefined): Promise<ReferenceDocument | undefined | null> {
  if (file === undefined) return undefined;
  const parsed = await readReferenceInput(file);
  if (!('faults' in parsed)) return parsed.document;
  printFaults(file, parsed.faults);
  return null;
}

export function printFaults(file: string, faults: readonly FileFault[], kind = ''): void {
  for (const fault of faults.slice(0, FAULTS_SHOWN)) console.error(kind + describeFileFault(file, fault));
  if (faults.length > FAULTS_SHOWN) console.error(`${file}: ${faults.length - FAULTS_SHOWN} more`);
}
