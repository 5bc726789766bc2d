/** The page's stand-in for Node's Buffer does as Node's own. */
import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import * as page from '../../../src/check-page/node-in-browser';
import { anyCharacter } from '../../support/texts';

/** Bytes that are often near a rule of UTF-8: parts of characters, surrogates, a byte order mark. */
const someBytes = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.string({ unit: anyCharacter, maxLength: 4 }).map((text) => Buffer.from(text)),
      fc.constantFrom(
        ...[
          [0xef, 0xbb, 0xbf],
          [0xed, 0xa0, 0x80],
          [0xc0, 0x80],
          [0xf4, 0x90, 0x80, 0x80],
          [0xf0, 0x9f, 0x98],
        ].map((bytes) => Uint8Array.from(bytes)),
      ),
    ),
    { maxLength: 6 },
  )
  .map((parts) => Buffer.concat(parts));
const someText = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
});
const equal = (ours: Uint8Array, theirs: Uint8Array) => expect(Array.from(ours)).toEqual(Array.from(theirs));

test('texts become the same bytes, and have the same length', () => {
  fc.assert(
    fc.property(someText, (text) => {
      equal(page.Buffer.from(text), Buffer.from(text));
      expect(page.Buffer.byteLength(text)).toBe(Buffer.byteLength(text));
    }),
  );
});

test('bytes become the same texts, and are valid or not', () => {
  fc.assert(
    fc.property(someBytes, fc.nat(8), fc.nat(8), (bytes, start, end) => {
      const ours = page.Buffer.from(bytes);
      expect(page.isUtf8(ours)).toBe(isUtf8(bytes));
      for (const encoding of ['utf8', 'latin1'] as const) {
        expect(ours.toString(encoding)).toBe(bytes.toString(encoding));
        expect(ours.toString(encoding, start, end)).toBe(bytes.toString(encoding, start, end));
      }
    }),
  );
});

test('a long text in Latin-1 is whole', () => {
  const bytes = Buffer.alloc(100_000, 'aé', 'latin1');
  expect(page.Buffer.from(bytes).latin1Slice(1, 99_999)).toBe(bytes.toString('latin1', 1, 99_999));
});

test('bytes are joined, cut, filled and compared alike', () => {
  fc.assert(
    fc.property(fc.array(someBytes, { maxLength: 4 }), fc.nat(8), fc.nat(8), (parts, start, end) => {
      const [ours, theirs] = [page.Buffer.concat(parts), Buffer.concat(parts)];
      equal(ours, theirs);
      equal(ours.subarray(start, end), theirs.subarray(start, end));
      const part = ours.subarray(start, end);
      expect(part).toHaveProperty('latin1Slice');
      expect(page.Buffer.from(part).equals(ours)).toBe(theirs.subarray(start, end).equals(theirs));
    }),
  );
  equal(page.Buffer.alloc(3, 7), Buffer.alloc(3, 7));
  expect(() => page.Buffer.from('a').toString('hex')).toThrow('the page has no encoding hex');
});
