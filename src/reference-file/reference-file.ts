/**
 * The reference data file: turns its text into a document, or into all faults of the text.
 *
 * changes.ts describes the effect of applying a changed file. stored.ts has the stored form of a document.
 */
import type { ReferenceDocument } from '../domain/reference';
import { FaultReport, type FileFault } from './report';
import { DocumentReader } from './rules';
import { decodeFile, parseText } from './text';

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

/** Reads reference data from YAML or JSON, as `parseText` does. */
export function parseReference(text: string, fileName: string): ParsedReference {
  const whenEmpty = 'Write at least: "operators: []".';
  return parseText(text, { fileName, whenEmpty }, (tree, faults, content) => {
    const warnings = new FaultReport(content);
    const document = new DocumentReader(faults, warnings).read(tree);
    return { document, warnings: warnings.inOrder() };
  });
}
