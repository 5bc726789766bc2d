/**
 * Reference data as the store keeps it. Apart from the reading of files, whose parser the worker need not load.
 */
import type { ReferenceDocument } from '../domain/reference';
import { Report } from './report';
import { DocumentReader, SEVERAL } from './rules';
import { treeOf } from './tree';

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
