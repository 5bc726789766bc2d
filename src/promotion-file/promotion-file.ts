/**
 * The file of promotions: turns its text into definitions, or into all faults of the text (docs/rules.md,
 * P19).
 */
import type { ReferenceDocument } from '../domain/reference';
import type { PromotionDocument } from '../promotions/definition';
import { FaultReport, type FileFault } from '../reference-file/report';
import { decodeFile } from '../reference-file/text';
import { readTree } from '../reference-file/yaml';
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
 * Reads promotions from YAML or JSON. Never throws: every text gives a document or its faults.
 *
 * @param fileName for the messages
 * @param reference operators, brands and games are looked up in it; undefined: they are not checked
 */
export function parsePromotions(
  text: string,
  fileName: string,
  reference?: ReferenceDocument,
): ParsedPromotions {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const report = new FaultReport(content);
  const tree = readTree(content, fileName, report, 'Write at least: "promotions: []".');
  if (tree === undefined) return { faults: report.inOrder() };
  const warnings = new FaultReport(content);
  const reader = new PromotionReader(report, warnings, reference);
  const document = reader.read(tree);
  if (!report.isEmpty()) return { faults: report.inOrder() };
  const faultsOf = (found: readonly FoundFault[]) => {
    const placed = new FaultReport(content);
    for (const { key, message, remedy } of found) placed.add(reader.placeOf(key), message, remedy);
    return placed.inOrder();
  };
  return { document, warnings: warnings.inOrder(), faultsOf };
}
