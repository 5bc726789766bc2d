/**
 * Keys on their way between a batch and the store: there an id in its feed is one text, here it is the feed's number and the bytes
 * that stand for the id.
 */
import { MAX_ID_KEY_BYTES, writeIdKey } from '../../domain/event/id-key';
import { StoreError } from '../../postgres/errors';

/**
 * Finds the id behind a key that the store answers with, among the ids that it was asked for. Most keys tell their id by themselves;
 * digests do not, and are made of the long ids once the first of them is met.
 *
 * @returns undefined for a key that was not asked for
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

/** The key of an id as the store writes it in text. */
function keyText(id: string): string {
  const bytes = Buffer.allocUnsafe(MAX_ID_KEY_BYTES);
  return HEX_PREFIX + bytes.toString('hex', 0, writeIdKey(id, bytes, 0));
}

/** The store holds something that this version cannot read, as after a newer one wrote it: the batch stays undecided. */
export function unreadable(statement: string, what: string): StoreError {
  return new StoreError(statement, new Error(`unreadable answer: ${what}`));
}

/** The key that stands for an id, as the store has it. */
export const ID_KEY = { maxBytes: MAX_ID_KEY_BYTES, write: writeIdKey };
