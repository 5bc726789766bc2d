/** The log of operations, as commands write it. */

import { explainShortly } from '../cli/explain-error';
import { endOperation } from '../ledger/operations';
import type { StoreAccess } from '../postgres/pool';

/**
 * Notes what came of an operation. What went wrong before is the error to tell: that the log does not have the end is told beside it.
 *
 * @returns whether it is noted
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
    console.error(`the end of operation ${operation} could not be noted: ${explainShortly(error)}`);
    return false;
  }
}
