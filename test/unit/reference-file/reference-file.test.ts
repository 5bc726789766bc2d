/** Files of reference data as bytes. */
import { parseReference, readReference } from '../../../src/reference-file/reference-file';

const read = (...parts: (string | number[])[]) =>
  readReference(Buffer.concat(parts.map((part) => Buffer.from(part))), 'reference.yaml');

test('bytes that are UTF-8 are read as their text', () => {
  for (const text of ['operators: []', '\uFEFFoperators: []', '# \uFFFD\noperators: []', '', '{'])
    expect(read(text)).toEqual(parseReference(text, 'reference.yaml'));
});

test.each<[string, (string | number[])[], number, number, number, string]>([
  ['Latin-1', ['operators: []\n# caf', [0xe9], '\n'], 2, 6, 20, '0xe9'],
  ['behind characters of several bytes', ['# \u00e9\u{1f3b0}', [0xff]], 1, 6, 9, '0xff'],
  ['behind replacement characters', ['\uFFFD\n\uFFFD', [0x80], '\uFFFD'], 2, 2, 8, '0x80'],
  ['cut in the middle of a character', ['a', [0xe2, 0x82]], 1, 2, 2, '0xe2'],
  ['UTF-16', [[0xff, 0xfe], 'o\0p\0'], 1, 1, 1, '0xff'],
])('the first byte of a file that is not UTF-8 is named: %s', (_, parts, line, column, byte, value) => {
  expect(read(...parts)).toEqual({
    faults: [
      {
        line,
        column,
        path: '',
        message: `The file is not UTF-8: byte ${byte}, ${value}, belongs to no character.`,
        remedy: 'Save it as UTF-8.',
      },
    ],
  });
});
