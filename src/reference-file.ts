/**
 * The reference data file: its text turned into a document, or into everything that is wrong with it.
 *
 * What applying a changed file would do is in src/reference-file/changes.ts, what the store keeps of a document in stored.ts.
 */
import type { ReferenceDocument } from './domain/reference';
import { type FileFault, Report } from './reference-file/report';
import { DocumentReader } from './reference-file/rules';
import { readTree } from './reference-file/yaml';

export { type Change, describeChanges, printChanges, removals } from './reference-file/changes';
export { describeFileFault, type FileFault } from './reference-file/report';

export type ParsedReference =
  | { readonly document: ReferenceDocument; readonly warnings: readonly FileFault[] }
  | { readonly faults: readonly FileFault[] };

/**
 * Reads reference data from YAML or JSON. Never throws: whatever the text is, the answer is a document or its faults.
 *
 * All faults are reported at once, in the order of the text. A text that is not even YAML gets its syntax errors alone.
 * @param fileName for the messages
 */
export function parseReference(text: string, fileName: string): ParsedReference {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const report = new Report(content);
  const tree = readTree(content, fileName, report);
  if (tree === undefined) return { faults: report.inOrder() };
  const warnings = new Report(content);
  const document = new DocumentReader(report, warnings).read(tree);
  return report.isEmpty() ? { document, warnings: warnings.inOrder() } : { faults: report.inOrder() };
}
