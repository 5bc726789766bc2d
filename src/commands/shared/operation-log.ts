/** The log of operations, as commands write it. */

import { explainShortly } from '../../cli/explain-error';
import { endOperation } from '../../ledger/operation-log';
import type { StoreAccess } from '../../postgres/pool';

/**
 * Records the outcome of an operation in the log. It never throws, because an earlier error of the operation
 * is more important. A failure to record is printed.
 *
 * @returns whether the outcome is recorded
 */
export async function noteEnd(
  database: StoreAccess,
  operation: number,
  outcome: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  try {
    await endOperation(database, operation, outcome);
    return true;
  } catch (error) {
    console.error(
      `the end of operation ${operation} could not be written to promo.operations: ${explainShortly(error)}`,
    );
    return false;
  }
}
