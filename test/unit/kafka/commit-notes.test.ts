/** The notes beside committed offsets: of older versions, of other clusters, and of other programs. */

import { commitNote, mirroredFrom, readCommitNote } from '../../../src/kafka/commit-notes';

it('of the first cluster has the form that older versions write and read [U9]', () => {
  expect(commitNote({ upTo: 7, cluster: '' })).toBe('promo-intake 7');
  expect(commitNote({ upTo: 7, cluster: '' })).toMatch(/^promo-intake(?: (\d+))?$/);
});

it.each([
  ['promo-intake 7', { upTo: 7, cluster: '' }],
  ['promo-intake', { upTo: 0, cluster: '' }],
  ['promo-intake 7 jDLSak8Fv73zFSru_koRAQ', { upTo: 7, cluster: 'jDLSak8Fv73zFSru_koRAQ' }],
  ['', null],
  [null, null],
  ['promo-intake seven', null],
  ['promo-intake 7 B and more', null],
  ['of another program promo-intake 7', null],
])('%j is read as %j', (note, read) => {
  expect(readCommitNote(note)).toEqual(read);
});

it('is read as it was written, and is empty where the position is unknown', () => {
  const note = { upTo: 2 ** 52, cluster: 'B' };
  expect(readCommitNote(commitNote(note))).toEqual(note);
  expect(commitNote(null)).toBe('');
});

it('a mirror may put up to eight cluster names before the name of a topic [U9]', () => {
  expect(mirroredFrom('promo')).toEqual(['promo']);
  expect(mirroredFrom('B.A.promo.v1')).toEqual(['B.A.promo.v1', 'A.promo.v1', 'promo.v1', 'v1']);
  expect(mirroredFrom('x.'.repeat(100))).toHaveLength(8);
});
