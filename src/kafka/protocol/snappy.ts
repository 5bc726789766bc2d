/**
 * Snappy, raw and in the framing of snappy-java. https://github.com/google/snappy/blob/main/format_description.txt
 * Decoded here, since snappyjs 0.7.0 gives zeros for bytes that were cut off, and never ends on a literal of 2 GiB or more.
 */
import { setImmediate } from 'node:timers/promises';
import { copyMatch, DECODED_AT_ONCE_BYTES, DecompressionError, DecompressionLimitError } from './lz4';

/** How each value of a Java producer begins (snappy-java's SnappyCodec): this, two versions of 4 bytes, then sized chunks. */
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const XERIAL_HEADER_BYTES = XERIAL_MAGIC.length + 8;
/** The most that snappy can shrink: an element of 3 bytes stands for at most 64. A length above that is a lie. */
const SNAPPY_MAX_RATIO = 22;

/** One run of raw snappy: where its elements are, and how long it says that it becomes. */
interface SnappyChunk {
  start: number;
  end: number;
  length: number;
}

/** All lengths are read and added up before the output is taken. */
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
  // No raw snappy begins like this: its first element would reach back to before the beginning.
  if (!input.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC))
    return [snappyChunk(input, 0, input.length)];
  if (input.length < XERIAL_HEADER_BYTES) throw damagedSnappy('cut off');
  const chunks: SnappyChunk[] = [];
  for (let at = XERIAL_HEADER_BYTES; at < input.length; ) {
    if (at + 4 > input.length) throw damagedSnappy('cut off');
    const start = at + 4;
    at = start + input.readUInt32BE(at);
    if (at > input.length) throw damagedSnappy('cut off');
    chunks.push(snappyChunk(input, start, at));
  }
  return chunks;
}

/** Reads the length a chunk gives itself: up to 32 bits, 7 to a byte, the low ones first. */
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

/** Fills the output, which is just as long as the chunk said: more and less are both errors. */
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

  /** Decodes a part. @returns whether that was the last */
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
      if (kind === 0) {
        const short = tag >> 2;
        const length = (short < 60 ? short : number(short - 59)) + 1;
        if (at + length > end) throw damagedSnappy('cut off');
        if (out + length > output.length) throw damagedSnappy('longer than it says');
        input.copy(output, out, at, at + length);
        at += length;
        out += length;
      } else {
        const length = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
        const offset = kind === 1 ? (tag >> 5) * 256 + number(1) : number(kind === 2 ? 2 : 4);
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
