/**
 * LZ4 as Kafka uses it since message format 1: the standard frame, https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md,
 * around the standard block, https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. In plain JavaScript, because the native
 * bindings break from one Node to the next.
 *
 * Understood: linked and independent blocks, stored blocks, content size, several frames in a row. Checksums are skipped, not
 * verified: the broker has verified the batch, TCP the way here. Refused: dictionaries, the legacy frame, skippable frames.
 */

import { setImmediate } from 'node:timers/promises';

/** Bytes that are not what their codec says: cut off, damaged, or of a kind that is not supported. Trying again does not help. */
export class DecompressionError extends Error {
  override name = 'DecompressionError';

  constructor(
    readonly codec: string,
    what: string,
  ) {
    super(`${codec}: ${what}`);
  }
}

/** Bytes that would decompress to more than the limit. Raised before the memory is taken. */
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
/** Sizes a frame may give for its largest block, by the code in the BD byte. */
const BLOCK_MAX_BYTES: ReadonlyMap<number, number> = new Map([
  [4, 64 * 1024],
  [5, 256 * 1024],
  [6, 1024 * 1024],
  [7, 4 * 1024 * 1024],
]);
/** Set in a block's size where the block is stored as it is. */
const STORED = 0x8000_0000;
const MIN_MATCH_BYTES = 4;
/** A length of this value goes on in the bytes that follow. */
const LENGTH_CONTINUES = 15;
/** What is taken before the first byte is known to be good; the output doubles from here. */
const FIRST_OUTPUT_BYTES = 64 * 1024;

/** Up to here a loop is faster than a call out of JavaScript. */
const LOOP_BYTES = 64;

/** Version 01, independent blocks, no checksums, no sizes; blocks of 64 KiB; 0x82 is the header checksum of just these two bytes. */
const ENCODED_HEADER = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
const ENCODED_BLOCK_BYTES = 64 * 1024;
const ENCODED_END = Buffer.alloc(4);

/** The event loop goes on after so many bytes of output: decoding 60 MiB at once would hold it up for a second. */
export const DECODED_AT_ONCE_BYTES = 1024 * 1024;

/** Decompresses one or more LZ4 frames, to at most limitBytes in all. Throws DecompressionError or DecompressionLimitError. */
export async function decodeLz4(input: Buffer, limitBytes: number): Promise<Buffer> {
  const output = new Output(limitBytes);
  let at = 0;
  do {
    at = await decodeFrame(input, at, output);
  } while (at < input.length);
  return output.taken();
}

/** Puts the bytes into one LZ4 frame of stored blocks: valid for every reader, and not smaller than what went in. */
export function encodeLz4Stored(bytes: Buffer): Buffer {
  const parts: Buffer[] = [ENCODED_HEADER];
  for (let at = 0; at < bytes.length; at += ENCODED_BLOCK_BYTES) {
    const block = bytes.subarray(at, at + ENCODED_BLOCK_BYTES);
    const size = Buffer.alloc(4);
    size.writeUInt32LE((STORED | block.length) >>> 0);
    parts.push(size, block);
  }
  return Buffer.concat([...parts, ENCODED_END]);
}

/**
 * Repeats what stands offset bytes before `at`, as LZ4 and snappy both do: a length above the offset repeats a pattern.
 * The caller has checked that 0 < offset <= at and that at + length fits.
 */
export function copyMatch(bytes: Buffer, at: number, offset: number, length: number): void {
  if (length <= LOOP_BYTES) {
    for (let i = 0; i < length; i++) bytes[at + i] = bytes[at - offset + i]!;
    return;
  }
  // The pattern doubles with each copy, so that a long run of one byte is not copied byte by byte.
  for (let done = 0; done < length; ) {
    const size = Math.min(offset + done, length - done);
    bytes.copyWithin(at + done, at - offset, at - offset + size);
    done += size;
  }
}

/** Output that doubles up to its limit, so that what a frame claims takes no memory before its bytes have come. */
class Output {
  bytes = Buffer.allocUnsafe(0);
  length = 0;

  constructor(private readonly limitBytes: number) {}

  /** Makes room for so many more bytes, or throws DecompressionLimitError. */
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

  /** Throws DecompressionLimitError at once where a frame says itself that it will not fit. */
  refuseAbove(bytes: bigint): void {
    if (bytes > BigInt(this.limitBytes - this.length))
      throw new DecompressionLimitError('lz4', this.limitBytes);
  }

  taken(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

/** Decodes the frame that begins at `start` and returns where it ends. */
async function decodeFrame(input: Buffer, start: number, output: Output): Promise<number> {
  need(input, start, 7, input.length);
  if (input.readUInt32LE(start) !== FRAME_MAGIC) throw damaged('not an LZ4 frame');
  const flags = input.readUInt8(start + 4);
  const blockMaxBytes = BLOCK_MAX_BYTES.get((input.readUInt8(start + 5) >> 4) & 7);
  if (flags >> 6 !== 1) throw damaged('unknown version of the frame');
  if ((flags & 1) !== 0) throw damaged('dictionaries are not supported');
  if (blockMaxBytes === undefined) throw damaged('unknown block size');
  const independent = (flags & 0x20) !== 0;
  const blockChecksumBytes = (flags & 0x10) !== 0 ? 4 : 0;
  const contentChecksumBytes = (flags & 0x04) !== 0 ? 4 : 0;

  const frameStart = output.length;
  let at = start + 6;
  let contentBytes: bigint | undefined;
  if ((flags & 0x08) !== 0) {
    need(input, at, 8, input.length);
    contentBytes = input.readBigUInt64LE(at);
    output.refuseAbove(contentBytes);
    at += 8;
  }
  at += 1; // The header's checksum: older Kafka clients compute it wrongly, which is one more reason to skip it.

  let pauseAt = output.length + DECODED_AT_ONCE_BYTES;
  for (;;) {
    if (output.length >= pauseAt) {
      await setImmediate();
      pauseAt = output.length + DECODED_AT_ONCE_BYTES;
    }
    need(input, at, 4, input.length);
    const word = input.readUInt32LE(at);
    at += 4;
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

/** Decodes one compressed block; its matches may reach back to `floor` in the output, not further. */
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
