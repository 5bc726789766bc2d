/**
 * `promo-intake promotions verify`, and the part of `verify` about promotions: counts the ledger again, and
 * compares.
 */
import { DONE, FAILED } from '../../cli/exit-codes';
import { integerOf, type Options } from '../../cli/option-values';
import { printLines } from '../../cli/output';
import { readConfig } from '../../config/config';
import { CHECK_TIMEOUT_MS } from '../../ledger/in-store';
import { counted } from '../../lib/printable';
import type { StoreAccess } from '../../postgres/pool';
import { inSnapshot } from '../../postgres/snapshot';
import type { Reader } from '../../postgres/transaction';
import { UnreadablePromotions } from '../../promotion-file/stored';
import { type Recount, recountPromotions } from '../../promotion-store/recount';

/** The name of this check beside I1 to I7, which SQL checks. */
const INVARIANT = 'I8';

/** @returns the exit code: 1 if there is a problem */
export async function verifyPromotions(options: Options): Promise<number> {
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const oneOf = integerOf(options, 'sample', 1) ?? 1;
  const { line, problems } = await check(DATABASE, async (reader) =>
    partOf(await recountPromotions(reader, oneOf), oneOf),
  );
  await printLines([line]);
  await printLines(problems, process.stderr);
  console.log(verdictOf(problems));
  return problems.length === 0 ? DONE : FAILED;
}

export const verdictOf = (problems: readonly string[]): string =>
  problems.length === 0
    ? 'sound'
    : `not sound: ${counted(problems.length, 'problem is', 'problems are')} listed above`;

const MAY_COUNT = `select to_regclass('promo_store.promotion_progress') is not null and has_schema_privilege('promo_store', 'usage')
  and has_table_privilege('promo_store.promotion_progress', 'select') and has_column_privilege('promo_store.history', 'player_ref', 'select')
  and has_table_privilege('promo_store.attribution_changes', 'select') and has_table_privilege('promo_store.erased_credits', 'select')
  and has_table_privilege('promo_store.promotion_joins', 'select') and has_table_privilege('promo_store.promotion_round_sums', 'select')`;
const ARE_COUNTED = 'select exists (select from promo.promotion_coverage)';

export interface PromotionsPart {
  readonly line: string;
  readonly problems: readonly string[];
}

/** The part of `verify`; null where promotions were never counted. */
export function verifyPromotionsPart(database: string | StoreAccess): Promise<PromotionsPart | null> {
  return check(database, async (reader) => {
    const [[areCounted] = []] = await reader.query({ name: 'promotions_are_counted', text: ARE_COUNTED });
    if (areCounted !== 't') return null;
    const [[mayCount] = []] = await reader.query({ name: 'promotions_may_count', text: MAY_COUNT });
    return mayCount === 't'
      ? partOf(await recountPromotions(reader, 1), 1)
      : { line: NOT_COUNTED_AGAIN, problems: [] };
  });
}

const NOT_COUNTED_AGAIN =
  'promotions: not counted again, since the role may not see players: run promo-intake promotions verify by the role of promotions';
const SNAPSHOT = { applicationName: 'promo-intake-verify', timeoutMs: CHECK_TIMEOUT_MS };

async function check<T>(
  database: string | StoreAccess,
  work: (reader: Reader) => Promise<T>,
): Promise<T | PromotionsPart> {
  try {
    return await inSnapshot(database, SNAPSHOT, work);
  } catch (error) {
    if (!(error instanceof UnreadablePromotions)) throw error;
    return {
      line: 'promotions: not compared, a definition cannot be read',
      problems: [`${INVARIANT} promotions: ${error.message}`],
    };
  }
}

function partOf(result: Recount, oneOf: number): PromotionsPart {
  if (result.type === 'not now') return { line: `promotions: not compared, ${result.reason}`, problems: [] };
  const { upTo, verdicts, compared, skipped, damages, inAll } = result.recounted;
  const parts = [
    `promotions: ${counted(verdicts, 'verdict')} counted again, up to ${upTo}`,
    `${counted(compared, 'row of progress was', 'rows of progress were')} compared${oneOf === 1 ? '' : `, of one of ${oneOf} players`}`,
  ];
  if (skipped > 0) parts.push(`${skipped} were not: history no longer has all of their events`);
  const problems = damages.map(({ source, what }) => `${INVARIANT} ${source}: ${what}`);
  if (inAll > damages.length) problems.push(`${INVARIANT} ${inAll - damages.length} more`);
  return { line: parts.join('; '), problems };
}
