/**
 * The reference data file: turns its text into a document, or into all faults of the text.
 *
 * changes.ts describes the effect of applying a changed file. stored.ts has the stored form of a document.
 */
import type { ReferenceDocument } from '../domain/reference';
import { FaultReport, type FileFault } from './report';
import { DocumentReader } from './rules';
import { decodeFile } from './text';
import { readTree } from './yaml';

export { type Change, describeChanges, printChanges, removals } from './changes';
export { describeFileFault, type FileFault } from './report';
export { MAX_REFERENCE_BYTES } from './text';

export type ParsedReference =
  | { readonly document: ReferenceDocument; readonly warnings: readonly FileFault[] }
  | { readonly faults: readonly FileFault[] };

/**
 * Reads the bytes of a file, which have to be UTF-8. Never throws, as `parseReference`.
 *
 * @param bytes null for a file of more than MAX_REFERENCE_BYTES
 */
export function readReference(bytes: Buffer | null, fileName: string): ParsedReference {
  const text = decodeFile(bytes, fileName);
  return typeof text === 'string' ? parseReference(text, fileName) : { faults: [text] };
}

/**
 * Reads reference data from YAML or JSON. Never throws: every text gives a document or its faults.
 *
 * All faults are reported at once, in the order of the text. For a text that is not YAML, only its syntax
 * errors are reported.
 * @param fileName for the messages
 */
export function parseReference(text: string, fileName: string): ParsedReference {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const report = new FaultReport(content);
  const tree = readTree(content, fileName, report);
  if (tree === undefined) return { faults: report.inOrder() };
  const warnings = new FaultReport(content);
  const document = new DocumentReader(report, warnings).read(tree);
  return report.isEmpty() ? { document, warnings: warnings.inOrder() } : { faults: report.inOrder() };
}
