/** The reference data that batches are judged with, and the tries with newer data. */
import type { Reference } from '../domain/reference';
import { StaleReference } from '../ledger/failures';
import { MAY_BE_ADDED, NoReference } from './undecided';

/**
 * The reference data in force. It is kept in memory, and reloaded when the store reports that it is stale.
 */
export interface References {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
}

/** The most tries with newer reference data, each immediately after its load. */
const MAX_TRIES = 5;
/** Of these, the tries after missing data: a load in progress may have begun before the change. */
const MAX_TRIES_AFTER_MISSING = 2;

/**
 * Does work with the reference data in force. Does it again with newer data where the data is stale, and
 * where missing data may have been added since it was loaded. The store reports stale data only where the
 * batch has events to decide.
 *
 * @param reloadFirst reloads the data before the first try
 * @throws NoReference where none was applied, and the error of the last try
 */
export async function withReference<T>(
  references: References,
  reloadFirst: boolean,
  work: (reference: Reference) => Promise<T>,
): Promise<T> {
  let reference = await (reloadFirst ? references.reload() : references.current());
  for (let tries = 1; ; tries++) {
    try {
      if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
      return await work(reference);
    } catch (error) {
      const isMissing = MAY_BE_ADDED.some((type) => error instanceof type);
      const mayBeStale = error instanceof StaleReference || (isMissing && tries <= MAX_TRIES_AFTER_MISSING);
      if (!mayBeStale || tries >= MAX_TRIES) throw error;
      reference = await references.reload();
    }
  }
}
