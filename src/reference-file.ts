/**
 * The reference data file: its text turned into a document, or into everything that is wrong with it (docs/operations.md).
 *
 * schemas/reference.schema.json says the same of the structure for editors; test/unit/reference-file.test.ts holds the two
 * together. What a change of the file would do is in src/reference-changes.ts.
 */
