/** The remedy for a name that is unknown: every command gives it in these words. */
import { nearest } from '../lib/did-you-mean';

/** The most names that are listed. */
const LISTED = 20;

/** @param known the names that there are, in the order of the list */
export function nameInstead(name: string, known: readonly string[]): string {
  const near = nearest(name, known, (candidate) => Math.max(2, candidate.length / 3));
  if (near !== undefined) return `Did you mean ${near}?`;
  if (known.length === 0) return 'There is none';
  const others = known.length > LISTED ? ` and ${known.length - LISTED} others` : '';
  return `Use one of ${known.slice(0, LISTED).join(', ')}${others}`;
}
