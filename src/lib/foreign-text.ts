/** Text files that are compressed or UTF-16: each of their lines would be a fault of its own. */

export interface ForeignText {
  /** In words that follow "the file". */
  readonly problem: string;
  /** The command that converts a file FILE. */
  readonly convert: string;
}

const utf16 = (encoding: string): ForeignText => ({
  problem: 'is UTF-16, and must be UTF-8',
  convert: `iconv -f ${encoding} -t UTF-8 FILE`,
});

const BEGINNINGS: readonly (readonly [bytes: readonly number[], text: ForeignText])[] = [
  [[0x1f, 0x8b], { problem: 'is compressed', convert: 'gunzip -c FILE' }],
  [[0x28, 0xb5, 0x2f, 0xfd], { problem: 'is compressed', convert: 'zstd -dc FILE' }],
  [[0xff, 0xfe], utf16('UTF-16')],
  [[0xfe, 0xff], utf16('UTF-16')],
  // Without a byte order mark. JSON and CSV begin with a character of ASCII.
  [[0x7b, 0x00], utf16('UTF-16LE')],
  [[0x5b, 0x00], utf16('UTF-16LE')],
  [[0x00, 0x7b], utf16('UTF-16BE')],
  [[0x00, 0x5b], utf16('UTF-16BE')],
];

/** @param first the first bytes of a file */
export function foreignTextOf(first: Uint8Array): ForeignText | undefined {
  return BEGINNINGS.find(([bytes]) => bytes.every((byte, at) => first[at] === byte))?.[1];
}
