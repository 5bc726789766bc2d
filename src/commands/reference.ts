/** `promo-intake reference apply FILE`: puts a reference data file into force. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { readConfig } from '../config';
import { makePool } from '../ledger/connection';
import { applyReference } from '../ledger/reference-store';
import { type Change, describeFileFault, parseReference, printChanges, removals } from '../reference-file';
import { makeLogger } from '../telemetry';

export interface ApplyOptions {
  readonly file: string;
  readonly dryRun: boolean;
  readonly allowRemoval: boolean;
}

/** @returns the exit code: 1 where the file is not applied */
export async function applyReferenceFile({ file, dryRun, allowRemoval }: ApplyOptions): Promise<number> {
  const config = readConfig(process.env, ['DATABASE']);
  const parsed = parseReference(await readText(file), file);
  if ('faults' in parsed) {
    for (const fault of parsed.faults) console.error(describeFileFault(file, fault));
    console.error(`${file}: ${parsed.faults.length} faults, nothing was applied`);
    return 1;
  }
  for (const warning of parsed.warnings) console.error(`warning: ${describeFileFault(file, warning)}`);

  const pool = makePool(
    { ...config.DATABASE, maxConnections: 1, applicationName: 'promo-intake-reference' },
    makeLogger('warn'),
  );
  try {
    let refused: readonly Change[] = [];
    const { version, changes } = await applyReference(pool, parsed.document, (found) => {
      refused = allowRemoval ? [] : removals([...found]);
      return !dryRun && refused.length === 0;
    });
    for (const line of printChanges([...changes])) console.log(line);
    if (refused.length > 0) {
      console.error(
        `${refused.length} operators or connections would be removed; pass --allow-removal if that is meant`,
      );
      return 1;
    }
    if (changes.length === 0) console.log(`nothing changes; version ${version} stays in force`);
    else if (dryRun) console.log(`dry run: nothing was applied; version ${version} stays in force`);
    else console.log(`version ${version} is in force`);
    return 0;
  } finally {
    await pool.end();
  }
}

/** The text of a file, `-` for standard input. @throws TypeError where it is not UTF-8 */
async function readText(file: string): Promise<string> {
  const bytes = file === '-' ? await buffer(process.stdin) : await readFile(file);
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
}
