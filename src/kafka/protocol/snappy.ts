/**
 * Snappy, raw and in the framing of snappy-java.
 * https://github.com/google/snappy/blob/main/format_description.txt
 *
 * Decoded here, because snappyjs 0.7.0 returns zeros for bytes that were cut off, and loops forever on a
 * literal of 2 GiB or more.
 *
 * The framing of snappy-java (its class SnappyCodec), which each Java producer writes:
 *
 * -  0  8 bytes  XERIAL_MAGIC
 * -  8  int32    version, not read
 * - 12  int32    oldest version that can read it, not read
 * - 16  chunks: uint32 size in big endian, then raw snappy of that size
 *
 * Raw snappy is its length after decompression as a varint, then elements. Bits 1 and 0 of the first byte,
 * the tag, give the kind. All numbers are little endian.
 *
 * - 0  literal: length less 1 in the other bits of the tag (60 to 63: in the next 1 to 4 bytes), then the
 *   bytes
 * - 1  copy: length less 4 in bits 4 to 2 of the tag, offset in bits 7 to 5 and the next byte
 * - 2  copy: length less 1 in the other bits of the tag, offset in the next 2 bytes
 * - 3  copy: length less 1 in the other bits of the tag, offset in the next 4 bytes
 */
import { setImmediate } from 'node:timers/promises';
import { copyMatch, DECODED_AT_ONCE_BYTES, DecompressionError, DecompressionLimitError } from './lz4';

const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const XERIAL_HEADER_BYTES = XERIAL_MAGIC.length + 8;
const CHUNK_SIZE_BYTES = 4;
const LITERAL = 0;
const SHORT_COPY = 1;
const MEDIUM_COPY = 2;
/**
 * The best ratio of snappy: an element of 3 bytes becomes at most 64. A chunk that claims more is damaged.
 */
const SNAPPY_MAX_RATIO = 22;

/** One run of raw snappy: the place of its elements, and the length that it claims after decompression. */
interface SnappyChunk {
  start: number;
  end: number;
  length: number;
}

/** All lengths are read and added up before the output is allocated. */
export async function decodeSnappy(input: Buffer, limitBytes: number): Promise<Buffer> {
  const chunks = snappyChunks(input);
  const total = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  if (total > limitBytes) throw new DecompressionLimitError('snappy', limitBytes);
  if (total > input.length * SNAPPY_MAX_RATIO) throw damagedSnappy('longer than it can be');
  const output = Buffer.allocUnsafe(total);
  let at = 0;
  let sincePause = 0;
  for (const chunk of chunks) {
    const decoder = new ChunkDecoder(input, chunk, output.subarray(at, at + chunk.length));
    at += chunk.length;
    sincePause += chunk.length;
    while (!decoder.run()) await setImmediate();
    if (sincePause < DECODED_AT_ONCE_BYTES) continue;
    sincePause = 0;
    await setImmediate();
  }
  return output;
}

function snappyChunks(input: Buffer): SnappyChunk[] {
  // Raw snappy cannot begin with these bytes: its first element would reach back to before the beginning.
  if (!input.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC))
    return [snappyChunk(input, 0, input.length)];
  if (input.length < XERIAL_HEADER_BYTES) throw damagedSnappy('cut off');
  const chunks: SnappyChunk[] = [];
  for (let at = XERIAL_HEADER_BYTES; at < input.length; ) {
    if (at + CHUNK_SIZE_BYTES > input.length) throw damagedSnappy('cut off');
    const start = at + CHUNK_SIZE_BYTES;
    at = start + input.readUInt32BE(at);
    if (at > input.length) throw damagedSnappy('cut off');
    chunks.push(snappyChunk(input, start, at));
  }
  return chunks;
}

/** Reads the length that a chunk claims: up to 32 bits, 7 to a byte, the low bits first. */
function snappyChunk(input: Buffer, start: number, end: number): SnappyChunk {
  let length = 0;
  for (let at = start; at < end && at < start + 5; at++) {
    const byte = input[at]!;
    length += (byte & 0x7f) * 2 ** (7 * (at - start));
    if (byte < 0x80) {
      if (length >= 2 ** 32) break;
      return { start: at + 1, end, length };
    }
  }
  throw damagedSnappy('no length');
}

/** Fills the output, which is as long as the chunk claims: more and less are both errors. */
class ChunkDecoder {
  private at: number;
  private readonly end: number;
  private out = 0;

  constructor(
    private readonly input: Buffer,
    { start, end }: SnappyChunk,
    private readonly output: Buffer,
  ) {
    this.at = start;
    this.end = end;
  }

  /** Decodes a part. @returns whether it was the last one */
  run(): boolean {
    const { input, output, end } = this;
    const pauseAt = this.out + DECODED_AT_ONCE_BYTES;
    let { at, out } = this;
    const number = (bytes: number): number => {
      if (at + bytes > end) throw damagedSnappy('cut off');
      const value = input.readUIntLE(at, bytes);
      at += bytes;
      return value;
    };
    while (at < end && out < pauseAt) {
      const tag = input[at++]!;
      const kind = tag & 3;
      if (kind === LITERAL) {
        const short = tag >> 2;
        const length = (short < 60 ? short : number(short - 59)) + 1;
        if (at + length > end) throw damagedSnappy('cut off');
        if (out + length > output.length) throw damagedSnappy('longer than it says');
        input.copy(output, out, at, at + length);
        at += length;
        out += length;
      } else {
        const length = kind === SHORT_COPY ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
        const offset =
          kind === SHORT_COPY ? (tag >> 5) * 256 + number(1) : number(kind === MEDIUM_COPY ? 2 : 4);
        if (offset === 0 || offset > out) throw damagedSnappy('a copy that reaches too far back');
        if (out + length > output.length) throw damagedSnappy('longer than it says');
        copyMatch(output, out, offset, length);
        out += length;
      }
    }
    this.at = at;
    this.out = out;
    if (at < end) return false;
    if (out !== output.length) throw damagedSnappy('shorter than it says');
    return true;
  }
}

function damagedSnappy(what: string): DecompressionError {
  return new DecompressionError('snappy', what);
}
