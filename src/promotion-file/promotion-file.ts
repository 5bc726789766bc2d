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
  | { readonly document: PromotionDocument; readonly warnings: readonly FileFault[] }
  | { readonly faults: readonly FileFault[] };

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
  const document = new PromotionReader(report, warnings, reference).read(tree);
  return report.isEmpty() ? { document, warnings: warnings.inOrder() } : { faults: report.inOrder() };
}
