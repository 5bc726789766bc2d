/** Bytes that are no plain UTF-8 text, as their first bytes show: of another encoding, or compressed. */

export type ForeignFormat =
  | 'utf-8 with a mark'
  | 'utf-16'
  | 'utf-16le'
  | 'utf-16be'
  | 'gzip'
  | 'zstd'
  | 'zip';

const BEGINNINGS: readonly (readonly [bytes: readonly number[], format: ForeignFormat])[] = [
  [[0xef, 0xbb, 0xbf], 'utf-8 with a mark'],
  [[0xff, 0xfe], 'utf-16'],
  [[0xfe, 0xff], 'utf-16'],
  // Without a byte order mark. JSON and CSV begin with a character of ASCII.
  [[0x7b, 0x00], 'utf-16le'],
  [[0x5b, 0x00], 'utf-16le'],
  [[0x00, 0x7b], 'utf-16be'],
  [[0x00, 0x5b], 'utf-16be'],
  [[0x1f, 0x8b], 'gzip'],
  [[0x28, 0xb5, 0x2f, 0xfd], 'zstd'],
  [[0x50, 0x4b, 0x03, 0x04], 'zip'],
];

/** @param first the first bytes of a text or of a file */
export function foreignFormatOf(first: Uint8Array): ForeignFormat | undefined {
  return BEGINNINGS.find(([bytes]) => bytes.every((byte, at) => first[at] === byte))?.[1];
}

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

/** Readers of files accept a byte order mark. */
const TEXTS: Readonly<Partial<Record<ForeignFormat, ForeignText>>> = {
  'utf-16': utf16('UTF-16'),
  'utf-16le': utf16('UTF-16LE'),
  'utf-16be': utf16('UTF-16BE'),
  gzip: { problem: 'is compressed', convert: 'gunzip -c FILE' },
  zstd: { problem: 'is compressed', convert: 'zstd -dc FILE' },
};

/** The format of a file, where each line of the file would be a fault. @param first its first bytes */
export function foreignTextOf(first: Uint8Array): ForeignText | undefined {
  const format = foreignFormatOf(first);
  return format && TEXTS[format];
}
