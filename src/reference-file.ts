/**
 * The reference data file: its text turned into a document, or into everything that is wrong with it.
 *
 * What applying a changed file would do is in src/reference-file/changes.ts.
 */
import type { ReferenceDocument } from './domain/reference';
import { type FileFault, Report } from './reference-file/report';
import { DocumentReader, SEVERAL } from './reference-file/rules';
import { readTree, treeOf } from './reference-file/tree';

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

/** What the store keeps of a document: the structure of a file, with everything that has a default written out. */
export function toDocumentJson(document: ReferenceDocument): unknown {
  return {
    operators: document.operators.map((operator) => ({
      ...operator,
      connections: operator.connections.map((connection) => ({
        ...connection,
        ...(connection.brand === undefined && { brands: SEVERAL }),
      })),
      brands: operator.brands.map(({ minBet, ...brand }) => ({ ...brand, min_bet: minBet })),
    })),
  };
}

/**
 * The document behind what toDocumentJson returned, read with all the rules of a file.
 * @throws RangeError where the data breaks a rule: another version wrote it, or somebody edited it
 */
export function fromDocumentJson(json: unknown): ReferenceDocument {
  const report = new Report('');
  const document = new DocumentReader(report, new Report('')).read(treeOf(json));
  if (report.isEmpty()) return document;
  const [first, ...others] = report.inOrder();
  const more = others.length > 0 ? ` (and ${others.length} more faults)` : '';
  throw new RangeError(`the stored reference data is not valid: ${first?.path}: ${first?.message}${more}`);
}
