/** Promotions in the form that a store keeps and exports: the structure of a file, with its defaults. */
import type { PromotionDocument } from '../promotions/definition';
import { keyInFile } from '../promotions/fields';
import { FaultReport } from '../reference-file/report';
import { treeOf } from '../reference-file/tree';
import { ENTRY_KEYS, keysOf } from './keys';
import { PromotionReader } from './promotion-reader';

/** The stored form of a document. As JSON it is a file that `promotions check` takes. */
export function toPromotionsJson(document: PromotionDocument): { promotions: object[] } {
  return { promotions: document.promotions.map((each) => inOrder(each, keysOf(each.type))) };
}

/** The values of keys by their names in the file. */
function inOrder(value: object, keys: readonly string[]): object {
  const values = new Map<string, unknown>(
    Object.entries(value).map(([key, child]: [string, unknown]) => [keyInFile(key), child]),
  );
  return Object.fromEntries(keys.map((key) => [key, inOrderOf(key, values.get(key))]));
}

function inOrderOf(key: string, value: unknown): unknown {
  if (!Array.isArray(value) || (key !== 'items' && key !== 'points')) return value;
  const entries: readonly object[] = value;
  return entries.map((entry) => inOrder(entry, ENTRY_KEYS[key]));
}

/** Stored promotions that break a rule of this version: a newer version wrote them, or they were edited. */
export class UnreadablePromotions extends RangeError {
  override readonly name = 'UnreadablePromotions';
}

/**
 * Reads a stored document, by all the rules of a file.
 *
 * @throws UnreadablePromotions
 */
export function fromPromotionsJson(json: unknown): PromotionDocument {
  const report = new FaultReport('');
  const document = new PromotionReader(report, new FaultReport(''), undefined).read(treeOf(json));
  if (report.isEmpty()) return document;
  throw new UnreadablePromotions(`the stored promotions are not valid: ${report.summary()}`);
}
