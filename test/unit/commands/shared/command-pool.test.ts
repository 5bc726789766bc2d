/** Errors of documents that a newer version has stored. */
import { Unable } from '../../../../src/cli/explain-error';
import { explainNewer } from '../../../../src/commands/shared/command-pool';
import { UnreadableReference } from '../../../../src/ledger/failures';
import { UnreadableDocument } from '../../../../src/reference-file/stored';

const TYPES = [UnreadableReference, UnreadableDocument];

test.each([
  new UnreadableReference('version 7 cannot be read'),
  new UnreadableDocument('version 7 cannot be read.'),
])('a document of a newer version has its remedy: $message', (error) => {
  const explained = explainNewer(error, TYPES);
  expect(explained).toBeInstanceOf(Unable);
  expect(explained).toMatchObject({
    message:
      'version 7 cannot be read. A newer version of promo-intake may have applied it: use the command of that version.',
    cause: error,
  });
});

test('every other error stays as it is', () => {
  const error = new RangeError('a defect');
  expect(explainNewer(error, TYPES)).toBe(error);
  expect(explainNewer('no error', TYPES)).toBe('no error');
});
