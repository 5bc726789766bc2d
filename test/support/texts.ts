import fc from 'fast-check';

const code = (min: number, max: number) => fc.integer({ min, max });

/**
 * Any character except half of a surrogate pair, of one to four bytes of UTF-8. The unit `binary` of
 * fast-check is the same, but takes a second to set up in each file.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .oneof(
    code(0x20, 0x7e),
    code(0, 0x7f),
    code(0x80, 0x7ff),
    code(0x800, 0xd7ff),
    code(0xe000, 0xffff),
    code(0x10000, 0x10ffff),
  )
  .map((point) => String.fromCodePoint(point));
