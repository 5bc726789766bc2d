/**
 * Keys on their way between a batch and the store. A key in a batch is one text (see feedKey); the store has the feed's number and the
 * bytes in columns of their own.
 */
import { arrays } from './binary';
import { StoreError } from './failures';

/** The text of a key from what the store has of it; the bytes as Latin-1. */
export function joinFeedKey(feedNo: number, idKey: string): string {
  return `${feedNo}/${idKey}`;
}

export function splitFeedKey(key: string): { feedNo: number; idKey: string } {
  const slash = key.indexOf('/');
  return { feedNo: Number(key.slice(0, slash)), idKey: key.slice(slash + 1) };
}

export function feedKeyColumns(keys: readonly string[]): [feedNos: Buffer, idKeys: Buffer] {
  const parts = keys.map(splitFeedKey);
  return [arrays.int4(parts.map((part) => part.feedNo)), arrays.bytea(parts.map((part) => part.idKey))];
}

/** The store holds something that this version cannot read, as after a newer one wrote it: the batch stays undecided. */
export function unreadable(statement: string, what: string): StoreError {
  return new StoreError(statement, new Error(`unreadable answer: ${what}`));
}
