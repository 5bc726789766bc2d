/**
 * The file of promotions: turns its text into definitions, or into all faults of the text (docs/rules.md,
 * P19).
 */
import type { ReferenceDocument } from '../domain/reference';
import type { PromotionDocument } from '../promotions/definition';
import { FaultReport, type FileFault } from '../reference-file/report';
import { decodeFile, parseText } from '../reference-file/text';
import { PromotionReader } from './promotion-reader';

export type ParsedPromotions =
  | {
      readonly document: PromotionDocument;
      readonly warnings: readonly FileFault[];
      /** The faults that a store finds, at the places of their promotions. */
      readonly faultsOf: (found: readonly FoundFault[]) => readonly FileFault[];
    }
  | { readonly faults: readonly FileFault[] };

/** A fault of a promotion, by its `promotionKey`. */
export interface FoundFault {
  readonly key: string;
  readonly message: string;
  readonly remedy: string;
}

/** Reads the bytes of a file. @param bytes null for a file of more than MAX_REFERENCE_BYTES */
export function readPromotions(
  bytes: Buffer | null,
  fileName: string,
  reference?: ReferenceDocument,
): ParsedPromotions {
  const text = decodeFile(bytes, fileName);
  return typeof text === 'string' ? parsePromotions(text, fileName, reference) : { faults: [text] };
}

/**
 * Reads promotions from YAML or JSON, as `parseText` does.
 *
 * @param reference operators, brands and games are looked up in it; undefined: they are not checked
 */
export function parsePromotions(
  text: string,
  fileName: string,
  reference?: ReferenceDocument,
): ParsedPromotions {
  const whenEmpty = 'Write at least: "promotions: []".';
  return parseText(text, { fileName, whenEmpty }, (tree, faults, content) => {
    const warnings = new FaultReport(content);
    const reader = new PromotionReader(faults, warnings, reference);
    const document = reader.read(tree);
    const faultsOf = (found: readonly FoundFault[]) => {
      const placed = new FaultReport(content);
      for (const { key, message, remedy } of found) placed.add(reader.placeOf(key), message, remedy);
      return placed.inOrder();
    };
    return { document, warnings: warnings.inOrder(), faultsOf };
  });
}
