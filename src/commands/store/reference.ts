/**
 * `promo-intake reference`: puts reference data into force from a file or an earlier version, and lists the
 * versions.
 */

import { DONE, FAILED } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { integerOf, type Options, requestedBy } from '../../cli/option-values';
import { printLines, printText } from '../../cli/output';
import { readConfig } from '../../config/config';
import type { ReferenceDocument } from '../../domain/reference';
import { beginOperation } from '../../ledger/operation-log';
import {
  applyReference,
  readReferenceHistory,
  readReferenceVersion,
  TestMarkChanged,
} from '../../ledger/reference-store';
import { counted } from '../../lib/printable';
import type { PostgresPool } from '../../postgres/pool';
import { type Change, describeFileFault, printChanges, removals } from '../../reference-file/reference-file';
import { toDocumentJson, UnreadableDocument } from '../../reference-file/stored';
import { explainNewer, withPool } from '../shared/command-pool';
import { noteEnd } from '../shared/operation-log';
import { readReferenceInput } from '../shared/reference-input';

export interface ApplyOptions {
  readonly file: string;
  readonly dryRun: boolean;
  readonly allowRemoval: boolean;
}

type Database = ReturnType<typeof readDatabase>;

const readDatabase = () => readConfig(process.env, ['DATABASE']).DATABASE;

/** @returns the exit code: 1 if the file is not applied */
export async function applyReferenceFile({ file, ...options }: ApplyOptions): Promise<number> {
  const database = readDatabase();
  const parsed = await readReferenceInput(file);
  if ('faults' in parsed) {
    await printLines(
      parsed.faults.map((fault) => describeFileFault(file, fault)),
      process.stderr,
    );
    console.error(`${file}: ${counted(parsed.faults.length, 'fault')}, nothing was applied`);
    return FAILED;
  }
  await printLines(
    parsed.warnings.map((warning) => `warning: ${describeFileFault(file, warning)}`),
    process.stderr,
  );
  return withReference(database, async (pool) => (await putIntoForce(pool, parsed.document, options)).code);
}

/** Prints a version as a file for `reference apply`. @returns the exit code */
export async function exportReference(options: Options): Promise<number> {
  const wanted = integerOf(options, 'version', 1);
  return withReference(readDatabase(), async (pool) => {
    const found = await readReferenceVersion(pool, wanted);
    if (found === undefined) return missing(wanted);
    await printText(`${JSON.stringify(toDocumentJson(found.document), null, 2)}\n`);
    return DONE;
  });
}

/** @returns the exit code */
export async function referenceHistory(): Promise<number> {
  return withReference(readDatabase(), async (pool) => {
    const versions = await readReferenceHistory(pool);
    await printLines(
      versions.map(
        ({ version, appliedAt, operators }, index) =>
          `${version} ${appliedAt} ${counted(operators, 'operator')}${index === 0 ? ', in force' : ''}`,
      ),
    );
    if (versions.length === 0) console.log('no version was ever applied');
    return DONE;
  });
}

/**
 * Applies an earlier version as a new one: versions that gave verdicts never change.
 *
 * @returns the exit code
 */
export async function rollbackReference(options: Options): Promise<number> {
  const to = integerOf(options, 'to', 1) ?? 0;
  const database = readDatabase();
  return withReference(database, async (pool) => {
    const found = await readReferenceVersion(pool, to);
    if (found === undefined) return missing(to);
    const choice = { dryRun: options.has('dry-run'), allowRemoval: options.has('allow-removal') };
    if (choice.dryRun) return (await putIntoForce(pool, found.document, choice)).code;
    const by = { requestedBy: requestedBy(options) };
    const operation = await beginOperation(database, by, 'reference_rollback', { to });
    const { code, version } = await putIntoForce(pool, found.document, choice);
    const isNoted = await noteEnd(database, operation, { version, applied: code === DONE });
    return isNoted ? code : FAILED;
  });
}

function missing(version: number | undefined): number {
  console.error(
    version === undefined
      ? 'there is no reference data yet'
      : `there is no version ${version} of the reference data`,
  );
  return FAILED;
}

/**
 * @returns the version in force afterwards, and the exit code: 1 if it would remove an entry without
 * permission
 */
async function putIntoForce(
  pool: PostgresPool,
  document: ReferenceDocument,
  { dryRun, allowRemoval }: Omit<ApplyOptions, 'file'>,
): Promise<{ code: number; version: number }> {
  let refused: readonly Change[] = [];
  const { version, changes } = await applyReference(pool, document, (found) => {
    refused = allowRemoval ? [] : removals([...found]);
    return !dryRun && refused.length === 0;
  });
  await printLines(printChanges([...changes]));
  if (refused.length > 0) {
    console.error(
      `${counted(refused.length, 'operator or connection', 'operators or connections')} would be removed; add --allow-removal if you intend that`,
    );
    return { code: FAILED, version };
  }
  if (changes.length === 0) console.log(`no changes; version ${version} stays in force`);
  else if (dryRun) console.log(`dry run: nothing was applied; version ${version} stays in force`);
  else console.log(`version ${version} is in force`);
  return { code: DONE, version };
}

async function withReference(
  database: Database,
  work: (pool: PostgresPool) => Promise<number>,
): Promise<number> {
  try {
    return await withPool(database, 'reference', work);
  } catch (error) {
    if (error instanceof TestMarkChanged) throw new Unable(`${error.message}; nothing was applied`);
    throw explainNewer(error, [UnreadableDocument]);
  }
}
