/** The log of operations: each operation by a person has an entry, with its begin and its end. */
import type { StoreAccess } from '../postgres/pool';
import { inStore, READ_TIMEOUT_MS, type Requester } from './in-store';

/** Logs the beginning of an operation. @returns its number @throws StoreError */
export async function beginOperation(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  operation: 'replay' | 'dead_letter_replay' | 'reference_rollback',
  request: Readonly<Record<string, unknown>>,
): Promise<number> {
  const [[number] = []] = await inStore(database, { timeoutMs: READ_TIMEOUT_MS, requestedBy }, (query) =>
    query('select promo.begin_operation($1, $2)', [operation, JSON.stringify(request)]),
  );
  return Number(number);
}

/** Logs the end of an operation with its outcome. @throws StoreError */
export async function endOperation(
  database: string | StoreAccess,
  operation: number,
  outcome: Readonly<Record<string, unknown>>,
): Promise<void> {
  await inStore(database, { timeoutMs: READ_TIMEOUT_MS }, (query) =>
    query('select promo.end_operation($1, $2)', [operation, JSON.stringify(outcome)]),
  );
}
