/**
 * Converts keys between a batch and the store. In a batch, an id in its feed is one text. In the store, it is
 * the feed's number and the bytes of the id.
 */
import { MAX_ID_KEY_BYTES, writeIdKey } from '../../domain/event/id-key';
import { StoreError } from '../../postgres/errors';

/**
 * Returns a function that finds the id of a key, among the ids that the query had. Most keys contain their
 * id. Digests do not: the long ids are digested once the first digest occurs.
 *
 * @returns undefined for a key that the query did not have
 */
export function idFinder(ids: readonly string[]): (key: string) => string | undefined {
  let digested: Map<string, string> | undefined;
  return (key) => {
    const digits = key.slice(HEX_PREFIX.length);
    if (digits.length < UUID_DIGITS) return Buffer.from(digits, 'hex').toString();
    if (digits.length === UUID_DIGITS) return uuidOf(digits);
    digested ??= new Map(ids.map((id) => [keyText(id), id]));
    return digested.get(key);
  };
}

const HEX_PREFIX = '\\x';
const UUID_DIGITS = 32;

function uuidOf(hex: string): string {
  const part = (from: number, to: number) => hex.slice(from, to);
  return `${part(0, 8)}-${part(8, 12)}-${part(12, 16)}-${part(16, 20)}-${part(20, 32)}`;
}

/** The key of an id in Postgres' text format. */
function keyText(id: string): string {
  const bytes = Buffer.allocUnsafe(MAX_ID_KEY_BYTES);
  return HEX_PREFIX + bytes.toString('hex', 0, writeIdKey(id, bytes, 0));
}

/**
 * The store has a value that this version cannot read, for example from a newer version. The batch stays
 * undecided.
 */
export function unreadable(statement: string, what: string): StoreError {
  return new StoreError(statement, new Error(`unreadable answer: ${what}`));
}

/** The format of an id's key in the store. */
export const ID_KEY = { maxBytes: MAX_ID_KEY_BYTES, write: writeIdKey };
