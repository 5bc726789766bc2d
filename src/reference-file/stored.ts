/**
 * Reference data in the form that the store keeps. It is separate from the reading of files, so that the
 * worker need not load the YAML parser.
 */
import type { ReferenceDocument } from '../domain/reference';
import { FaultReport } from './report';
import { DocumentReader, SEVERAL } from './rules';
import { treeOf } from './tree';

/** The stored form of a document: the structure of a file, with every default written out. */
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

/** Stored data that breaks a rule of this version: a newer version wrote it, or somebody edited it. */
export class UnreadableDocument extends RangeError {
  override readonly name = 'UnreadableDocument';
}

/**
 * Reads a stored document, by all the rules of a file.
 *
 * @throws UnreadableDocument
 */
export function fromDocumentJson(json: unknown): ReferenceDocument {
  const report = new FaultReport('');
  const document = new DocumentReader(report, new FaultReport('')).read(treeOf(json));
  if (report.isEmpty()) return document;
  throw new UnreadableDocument(`the stored reference data is not valid: ${report.summary()}`);
}
