/**
 * LZ4 as Kafka uses it since message format 1: blocks within frames. Written here, because packages do not
 * refuse what exceeds a limit: docs/adr/0002-record-batches-and-codecs-in-typescript.md.
 *
 * The reader takes linked, independent and stored blocks, a content size, and several frames in a row. It
 * refuses dictionaries, the legacy frame and skippable frames. It skips the checksums: the broker has
 * verified the batch, TCP the transfer.
 *
 * A frame, in little endian: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
 *
 * - 4 bytes  magic number: 0x184d2204
 * - 1 byte   flags (FLG): version in bits 7 and 6, then the FLAG constants below
 * - 1 byte   block descriptor (BD): code of the largest block's size in bits 6 to 4
 * - 8 bytes  content size, only with FLAG_CONTENT_SIZE
 * - 1 byte   header checksum
 * - blocks: 4 bytes size (highest bit: the block is stored), the data, 4 bytes checksum with
 *   FLAG_BLOCK_CHECKSUM
 * - 4 bytes  end mark: a block size of 0
 * - 4 bytes  content checksum, only with FLAG_CONTENT_CHECKSUM
 *
 * A compressed block is a row of sequences: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
 *
 * - 1 byte   token: number of literals in bits 7 to 4, length of the match less 4 in bits 3 to 0
 * - 0 or more bytes that continue the number of literals if it is 15: each is added, another follows a 255
 * - the literals; the last sequence ends here
 * - 2 bytes  offset: how far back the match begins
 * - 0 or more bytes that continue the length of the match if it is 15, in the same way
 */

import { setImmediate } from 'node:timers/promises';

/**
 * The codec cannot decompress the bytes: they are cut off, damaged, or of a kind that is not supported. A
 * retry does not help.
 */
export class DecompressionError extends Error {
  override name = 'DecompressionError';

  constructor(
    readonly codec: string,
    what: string,
  ) {
    super(`${codec}: ${what}`);
  }
}

/** The bytes would decompress to more than the limit. Thrown before the memory is allocated. */
export class DecompressionLimitError extends DecompressionError {
  override name = 'DecompressionLimitError';

  constructor(
    codec: string,
    readonly limitBytes: number,
  ) {
    super(codec, `decompresses to more than the limit of ${limitBytes} bytes`);
  }
}

const FRAME_MAGIC = 0x184d2204;
const FLAGS_AT = 4;
const BLOCK_DESCRIPTOR_AT = 5;
/** Without the content size. */
const FRAME_HEADER_BYTES = 7;
const CONTENT_SIZE_AT = 6;
const CONTENT_SIZE_BYTES = 8;
const HEADER_CHECKSUM_BYTES = 1;
export const BLOCK_SIZE_BYTES = 4;
const CHECKSUM_BYTES = 4;
const FLAG_INDEPENDENT = 0x20;
const FLAG_BLOCK_CHECKSUM = 0x10;
const FLAG_CONTENT_SIZE = 0x08;
const FLAG_CONTENT_CHECKSUM = 0x04;
const FLAG_DICTIONARY = 0x01;
/** Sizes that a frame may give for its largest block, by the code in the BD byte. */
const BLOCK_MAX_BYTES: ReadonlyMap<number, number> = new Map([
  [4, 64 * 1024],
  [5, 256 * 1024],
  [6, 1024 * 1024],
  [7, 4 * 1024 * 1024],
]);
/** Set in a block's size: the block is stored, not compressed. */
export const STORED = 0x8000_0000;
export const MIN_MATCH_BYTES = 4;
/** A length of this value continues in the next bytes. */
export const LENGTH_CONTINUES = 15;
/** Allocated before the first byte is checked; the output doubles from here. */
const FIRST_OUTPUT_BYTES = 64 * 1024;

/** Up to this length a loop is faster than a call out of JavaScript. */
const LOOP_BYTES = 64;

/** The event loop runs after this much output: decoding 60 MiB at once would block it for a second. */
export const DECODED_AT_ONCE_BYTES = 1024 * 1024;

/**
 * Decompresses one or more LZ4 frames, to at most `limitBytes` in all.
 *
 * @throws DecompressionError or DecompressionLimitError
 */
export async function decodeLz4(input: Buffer, limitBytes: number): Promise<Buffer> {
  const output = new Output(limitBytes);
  let at = 0;
  do {
    at = await decodeFrame(input, at, output);
  } while (at < input.length);
  return output.taken();
}

/**
 * Copies `length` bytes from `offset` bytes before `at` to `at`, as LZ4 and snappy both do: a length above
 * the offset repeats a pattern. The caller has checked that 0 < offset <= at and that at + length fits.
 */
export function copyMatch(bytes: Buffer, at: number, offset: number, length: number): void {
  if (length <= LOOP_BYTES) {
    for (let i = 0; i < length; i++) bytes[at + i] = bytes[at - offset + i]!;
    return;
  }
  // The copied part doubles each time: a long run of one byte would otherwise be copied byte by byte.
  for (let done = 0; done < length; ) {
    const size = Math.min(offset + done, length - done);
    bytes.copyWithin(at + done, at - offset, at - offset + size);
    done += size;
  }
}

/**
 * Output that doubles up to its limit. A size that a frame claims allocates nothing before its bytes are
 * read.
 */
class Output {
  bytes = Buffer.allocUnsafe(0);
  length = 0;

  constructor(private readonly limitBytes: number) {}

  /** Makes room for `count` more bytes. @throws DecompressionLimitError */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) return;
    if (needed > this.limitBytes) throw new DecompressionLimitError('lz4', this.limitBytes);
    const size = Math.min(this.limitBytes, Math.max(needed, this.bytes.length * 2, FIRST_OUTPUT_BYTES));
    const grown = Buffer.allocUnsafe(size);
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
  }

  append(source: Buffer, start: number, end: number): void {
    this.reserve(end - start);
    source.copy(this.bytes, this.length, start, end);
    this.length += end - start;
  }

  /** Checks the content size of a frame before it is decoded. @throws DecompressionLimitError */
  refuseAbove(bytes: bigint): void {
    if (bytes > BigInt(this.limitBytes - this.length))
      throw new DecompressionLimitError('lz4', this.limitBytes);
  }

  taken(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

/** Decodes the frame that begins at `start`. @returns where it ends */
async function decodeFrame(input: Buffer, start: number, output: Output): Promise<number> {
  need(input, start, FRAME_HEADER_BYTES, input.length);
  if (input.readUInt32LE(start) !== FRAME_MAGIC) throw damaged('not an LZ4 frame');
  const flags = input.readUInt8(start + FLAGS_AT);
  const blockMaxBytes = BLOCK_MAX_BYTES.get((input.readUInt8(start + BLOCK_DESCRIPTOR_AT) >> 4) & 7);
  if (flags >> 6 !== 1) throw damaged('unknown version of the frame');
  if ((flags & FLAG_DICTIONARY) !== 0) throw damaged('dictionaries are not supported');
  if (blockMaxBytes === undefined) throw damaged('unknown block size');
  const independent = (flags & FLAG_INDEPENDENT) !== 0;
  const blockChecksumBytes = (flags & FLAG_BLOCK_CHECKSUM) !== 0 ? CHECKSUM_BYTES : 0;
  const contentChecksumBytes = (flags & FLAG_CONTENT_CHECKSUM) !== 0 ? CHECKSUM_BYTES : 0;

  const frameStart = output.length;
  let at = start + CONTENT_SIZE_AT;
  let contentBytes: bigint | undefined;
  if ((flags & FLAG_CONTENT_SIZE) !== 0) {
    need(input, at, CONTENT_SIZE_BYTES, input.length);
    contentBytes = input.readBigUInt64LE(at);
    output.refuseAbove(contentBytes);
    at += CONTENT_SIZE_BYTES;
  }
  // Skipped, as all checksums are; older Kafka clients also compute this one wrongly.
  at += HEADER_CHECKSUM_BYTES;

  let pauseAt = output.length + DECODED_AT_ONCE_BYTES;
  for (;;) {
    if (output.length >= pauseAt) {
      await setImmediate();
      pauseAt = output.length + DECODED_AT_ONCE_BYTES;
    }
    need(input, at, BLOCK_SIZE_BYTES, input.length);
    const word = input.readUInt32LE(at);
    at += BLOCK_SIZE_BYTES;
    if (word === 0) break;
    const size = word % STORED;
    if (size > blockMaxBytes) throw damaged('a block above the size of its frame');
    need(input, at, size + blockChecksumBytes, input.length);
    const blockStart = output.length;
    if (word >= STORED) output.append(input, at, at + size);
    else decodeBlock(input, at, at + size, output, independent ? blockStart : frameStart);
    if (output.length - blockStart > blockMaxBytes) throw damaged('a block above the size of its frame');
    at += size + blockChecksumBytes;
  }
  need(input, at, contentChecksumBytes, input.length);
  if (contentBytes !== undefined && contentBytes !== BigInt(output.length - frameStart)) {
    throw damaged('not as long as its frame says');
  }
  return at + contentChecksumBytes;
}

/** Decodes one compressed block. Its matches may reach back to `floor` in the output, not further. */
function decodeBlock(input: Buffer, start: number, end: number, output: Output, floor: number): void {
  let at = start;
  const lengthFrom = (nibble: number): number => {
    let length = nibble;
    if (nibble !== LENGTH_CONTINUES) return length;
    for (;;) {
      need(input, at, 1, end);
      const more = input[at++]!;
      length += more;
      if (more !== 255) return length;
    }
  };
  while (at < end) {
    const token = input[at++]!;
    const literals = lengthFrom(token >> 4);
    need(input, at, literals, end);
    output.append(input, at, at + literals);
    at += literals;
    if (at === end) return; // The last sequence has no match.
    need(input, at, 2, end);
    const offset = input[at]! | (input[at + 1]! << 8);
    at += 2;
    if (offset === 0 || offset > output.length - floor) throw damaged('a match that reaches too far back');
    const length = lengthFrom(token & 0x0f) + MIN_MATCH_BYTES;
    output.reserve(length);
    copyMatch(output.bytes, output.length, offset, length);
    output.length += length;
  }
}

function need(input: Buffer, at: number, count: number, end: number): void {
  if (at + count > end || end > input.length) throw damaged('cut off');
}

function damaged(what: string): DecompressionError {
  return new DecompressionError('lz4', what);
}
