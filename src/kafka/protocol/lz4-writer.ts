/**
 * Writes LZ4 frames; lz4.ts has the layout of frames and blocks.
 *
 * The search for matches is the plain one of LZ4: a table remembers where each hash of four bytes was seen
 * last. Blocks are independent and of 64 KiB, so that an offset always fits its two bytes.
 */
import { BLOCK_SIZE_BYTES, LENGTH_CONTINUES, MIN_MATCH_BYTES, STORED } from './lz4';

/**
 * Magic number, FLG (version 01, independent blocks, no checksums, no sizes), BD (blocks of 64 KiB), and
 * 0x82, the header checksum of FLG and BD.
 */
const HEADER = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
const BLOCK_BYTES = 64 * 1024;
const END = Buffer.alloc(BLOCK_SIZE_BYTES);

/** The format reserves the last bytes of a block for literals, and the last match begins before this many. */
const LAST_LITERALS = 5;
const LAST_MATCH_BYTES = 12;

const HASH_BITS = 13;
/** Knuth's multiplicative hash: 2^32 divided by the golden ratio. */
const HASH_FACTOR = 2_654_435_761;

/** Writes the bytes as one LZ4 frame. A block that does not become smaller is stored. */
export function encodeLz4(bytes: Buffer): Buffer {
  const parts: Buffer[] = [HEADER];
  /** Where in the block each hash was seen last, plus one: 0 is never. */
  const seen = new Int32Array(2 ** HASH_BITS);
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    const block = bytes.subarray(at, at + BLOCK_BYTES);
    const compressed = encodeBlock(block, seen.fill(0));
    const size = Buffer.alloc(BLOCK_SIZE_BYTES);
    size.writeUInt32LE(compressed === null ? (STORED | block.length) >>> 0 : compressed.length);
    parts.push(size, compressed ?? block);
  }
  return Buffer.concat([...parts, END]);
}

/** The block as sequences; null if they are not smaller than the block. */
function encodeBlock(block: Buffer, seen: Int32Array): Buffer | null {
  const out = Buffer.allocUnsafe(block.length);
  let length = 0;
  /** The first byte that no sequence has yet. */
  let start = 0;

  /** Appends literals from `start` to `end`, and a match unless it is the last sequence. False if full. */
  const append = (end: number, offset: number, matchBytes: number): boolean => {
    const literals = end - start;
    const more = matchBytes - MIN_MATCH_BYTES;
    // The token, the offset and the bytes that continue both lengths.
    if (length + literals + 5 + literals / 255 + matchBytes / 255 > out.length) return false;
    const ofMatch = matchBytes === 0 ? 0 : Math.min(more, LENGTH_CONTINUES);
    out[length++] = (Math.min(literals, LENGTH_CONTINUES) << 4) | ofMatch;
    appendLength(literals);
    length += block.copy(out, length, start, end);
    if (matchBytes === 0) return true;
    length = out.writeUInt16LE(offset, length);
    appendLength(more);
    start = end + matchBytes;
    return true;
  };
  const appendLength = (value: number): void => {
    let rest = value - LENGTH_CONTINUES;
    if (rest < 0) return;
    for (; rest >= 255; rest -= 255) out[length++] = 255;
    out[length++] = rest;
  };

  const lastMatch = block.length - LAST_MATCH_BYTES;
  const lastByte = block.length - LAST_LITERALS;
  for (let at = 0; at <= lastMatch; ) {
    const word = block.readUInt32LE(at);
    const hash = Math.imul(word, HASH_FACTOR) >>> (32 - HASH_BITS);
    const candidate = seen[hash]! - 1;
    seen[hash] = at + 1;
    if (candidate < 0 || block.readUInt32LE(candidate) !== word) {
      at++;
      continue;
    }
    let end = at + MIN_MATCH_BYTES;
    while (end < lastByte && block[end] === block[candidate + end - at]) end++;
    if (!append(at, at - candidate, end - at)) return null;
    at = end;
  }
  return append(block.length, 0, 0) ? out.subarray(0, length) : null;
}
