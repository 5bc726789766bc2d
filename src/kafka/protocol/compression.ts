/**
 * The codecs of Kafka's batches. kafkajs has gzip alone, and without a limit.
 *
 * A batch of a few kilobytes can claim gigabytes. Every decoder here stops at `maxDecompressedBytes`, a limit
 * for one batch, with a DecompressionLimitError. Any other fault of the bytes is a DecompressionError. Any
 * further error, such as a lack of memory, is no fault of the bytes: a retry may decompress them.
 *
 * - gzip: node:zlib decodes and encodes.
 * - snappy: snappy.ts decodes, raw and in the framing of snappy-java. snappyjs encodes, raw; Java consumers
 *   read that too.
 * - lz4: lz4.ts decodes, and lz4-writer.ts encodes.
 * - zstd: node:zlib decodes and encodes.
 */

import { constants } from 'node:buffer';
import { promisify, types } from 'node:util';
import * as zlib from 'node:zlib';
import { compress as compressSnappy } from 'snappyjs';
import { Semaphore } from '../../lib/semaphore';
import { DecompressionError, DecompressionLimitError, decodeLz4 } from './lz4';
import { encodeLz4 } from './lz4-writer';
import { decodeSnappy } from './snappy';

export { DecompressionError, DecompressionLimitError };

/** The shape that kafkajs expects of a codec (its src/protocol/message/compression/gzip.js). */
export interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(bytes: Buffer): Promise<Buffer>;
}

export interface CodecLimits {
  /** The most bytes that one batch may decompress to; a whole number from 1 on. */
  maxDecompressedBytes: number;
}

/**
 * The codecs by name.
 *
 * @throws RangeError for an invalid limit
 */
export function makeCodecs({
  maxDecompressedBytes,
}: CodecLimits): Record<'gzip' | 'snappy' | 'lz4' | 'zstd', Codec> {
  if (
    !Number.isInteger(maxDecompressedBytes) ||
    maxDecompressedBytes < 1 ||
    maxDecompressedBytes > constants.MAX_LENGTH
  ) {
    throw new RangeError(`maxDecompressedBytes must be a whole number from 1 to ${constants.MAX_LENGTH}`);
  }
  return {
    gzip: {
      compress: async ({ buffer }) => gzip(buffer),
      decompress: (bytes) => inflate('gzip', gunzip, bytes, maxDecompressedBytes, gzipLength(bytes)),
    },
    snappy: {
      compress: async ({ buffer }) => compressSnappy(buffer),
      decompress: (bytes) => decodeSnappy(bytes, maxDecompressedBytes),
    },
    lz4: {
      compress: async ({ buffer }) => encodeLz4(buffer),
      decompress: (bytes) => decodeLz4(bytes, maxDecompressedBytes),
    },
    zstd: {
      compress: async ({ buffer }) => zstdCompress(buffer),
      decompress: (bytes) => decodeZstd(bytes, maxDecompressedBytes),
    },
  };
}

// gzip

const gzip = promisify(zlib.gzip);
const gunzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/**
 * Codes of errors by which the libraries behind node:zlib refuse bytes. Node's own codes begin with other
 * letters.
 */
const LIBRARY_ERROR = /^(Z_|ZSTD_error_)/;
const LACK_OF_MEMORY: ReadonlySet<unknown> = new Set(['Z_MEM_ERROR', 'ZSTD_error_memory_allocation']);

/**
 * The decompressed length of the last gzip member, as its trailer gives it: the low 32 bits.
 * https://datatracker.ietf.org/doc/html/rfc1952#page-5
 */
function gzipLength(bytes: Buffer): number {
  return bytes.length < GZIP_LENGTH_BYTES ? 0 : bytes.readUInt32LE(bytes.length - GZIP_LENGTH_BYTES);
}

const GZIP_LENGTH_BYTES = 4;

/**
 * A batch that becomes larger is decompressed alone, one of such a size at a time. It is held twice when its
 * bytes claim too small a length.
 */
const LARGE_BYTES = 8 * 1024 * 1024;
const large = new Semaphore(1);
/** The size of Node's pieces when no other size is given. */
const LEAST_PIECE_BYTES = zlib.constants.Z_DEFAULT_CHUNK;

/**
 * Decompresses as node:zlib does: into pieces of `chunkSize` bytes, which it joins at the end if there are
 * several.
 */
type Decode = (
  bytes: Buffer,
  options: { readonly chunkSize: number; readonly maxOutputLength: number },
) => Promise<Buffer>;

/**
 * Runs one of node:zlib's decoders in its thread pool. Turns its errors about the bytes into ours.
 *
 * @param likelyBytes the length that the bytes claim. If it is right, one piece takes all of it. Several
 *   pieces cost twice their memory for a moment, and one more turn of the thread pool each
 */
export async function inflate(
  codec: string,
  decode: Decode,
  bytes: Buffer,
  limitBytes: number,
  likelyBytes: number,
): Promise<Buffer> {
  // One spare byte: Node allocates another piece after one that is full.
  const chunkSize = Math.max(LEAST_PIECE_BYTES, Math.min(likelyBytes, limitBytes) + 1);
  const within = (maxOutputLength: number) =>
    named(codec, maxOutputLength, decode(bytes, { chunkSize, maxOutputLength }));
  if (limitBytes <= LARGE_BYTES) return within(limitBytes);
  try {
    if (chunkSize <= LARGE_BYTES) return await within(LARGE_BYTES);
  } catch (error) {
    if (!(error instanceof DecompressionLimitError)) throw error;
  }
  await large.acquire();
  try {
    return await within(limitBytes);
  } finally {
    large.release();
  }
}

async function named(codec: string, limitBytes: number, decoding: Promise<Buffer>): Promise<Buffer> {
  try {
    const decoded = await decoding;
    // A short view would keep its whole piece in memory.
    return decoded.length < decoded.buffer.byteLength / 2 ? Buffer.from(decoded) : decoded;
  } catch (error) {
    if (!types.isNativeError(error) || !('code' in error)) throw error;
    const { code } = error;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw new DecompressionLimitError(codec, limitBytes);
    if (typeof code === 'string' && LIBRARY_ERROR.test(code) && !LACK_OF_MEMORY.has(code))
      throw new DecompressionError(codec, error.message);
    throw error;
  }
}

// zstd: https://datatracker.ietf.org/doc/html/rfc8878

// node:zlib skips all frames after the first without an error, so it gets one frame at a time.

const zstdCompress = promisify<Buffer, Buffer>(zlib.zstdCompress);
const zstdDecompress = promisify<Buffer, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress);

const ZSTD_MAGIC = 0xfd2fb528;
/** The first of sixteen magic numbers of frames that hold no data. */
const ZSTD_SKIPPABLE_MAGIC = 0x184d2a50;
const ZSTD_MAX_BLOCK_BYTES = 128 * 1024;
/** Lengths of the dictionary's id and of the content size, by their codes in the frame's descriptor. */
const ZSTD_DICTIONARY_BYTES = [0, 1, 2, 4];
const ZSTD_CONTENT_SIZE_BYTES = [0, 2, 4, 8];

/** The headers of a frame, read before any of it is decoded. */
interface ZstdFrame {
  bytes: Buffer;
  /** The content size in the frame's header; undefined if it has none. */
  contentBytes: number | undefined;
  /** The most bytes that its blocks can become, whatever size the header gives. */
  mostBytes: number;
}

async function decodeZstd(input: Buffer, limitBytes: number): Promise<Buffer> {
  const decoded: Buffer[] = [];
  let left = limitBytes;
  for (const frame of zstdFrames(input)) {
    if ((frame.contentBytes ?? 0) > left) throw new DecompressionLimitError('zstd', limitBytes);
    const content = await decodeZstdFrame(frame, left, limitBytes);
    if (content.length !== (frame.contentBytes ?? content.length))
      throw damagedZstd('not as long as its frame says');
    left -= content.length;
    decoded.push(content);
  }
  return decoded.length === 1 ? decoded[0]! : Buffer.concat(decoded);
}

async function decodeZstdFrame(frame: ZstdFrame, left: number, limitBytes: number): Promise<Buffer> {
  // node:zlib refuses a limit of 0, and an empty frame may follow when the limit is used up.
  if (frame.mostBytes === 0) return Buffer.alloc(0);
  if (left === 0) throw new DecompressionLimitError('zstd', limitBytes);
  return inflate('zstd', zstdDecompress, frame.bytes, left, frame.contentBytes ?? frame.mostBytes);
}

/**
 * Splits the input into its frames by their headers alone. All numbers are little endian.
 *
 * - 4 bytes       magic number; a skippable frame has 4 bytes with its size next, then its bytes
 * - 1 byte        descriptor: bits 7-6 code of the content size, 5 single segment, 2 checksum, 1-0 code of
 *   the dictionary
 * - 1 byte        window, without a single segment: exponent less 10 in bits 7 to 3, eighths in bits 2 to 0
 * - 0 to 4 bytes  dictionary's id
 * - 0 to 8 bytes  content size; in the form of 2 bytes less 256
 * - blocks: 3 bytes (bit 0 last block, bits 2-1 type: 0 stored, 1 one repeated byte, 2 compressed; then
 *   size), the data
 * - 4 bytes       checksum, only if the descriptor says so
 *
 * @throws DecompressionError when the frames do not fill the input exactly
 */
function zstdFrames(input: Buffer): ZstdFrame[] {
  const frames: ZstdFrame[] = [];
  let at = 0;
  const number = (bytes: number): number => {
    if (at + bytes > input.length) throw damagedZstd('cut off');
    const value =
      bytes === 0 ? 0 : bytes === 8 ? Number(input.readBigUInt64LE(at)) : input.readUIntLE(at, bytes);
    at += bytes;
    return value;
  };
  do {
    const start = at;
    const magic = number(4);
    if (magic - (magic % 16) === ZSTD_SKIPPABLE_MAGIC) {
      const size = number(4);
      at += size;
      if (at > input.length) throw damagedZstd('cut off');
      continue;
    }
    if (magic !== ZSTD_MAGIC) throw damagedZstd('not a zstd frame');
    const descriptor = number(1);
    const singleSegment = (descriptor & 0x20) !== 0;
    // The window: node:zlib checks it.
    if (!singleSegment) number(1);
    if (number(ZSTD_DICTIONARY_BYTES[descriptor & 3]!) !== 0)
      throw damagedZstd('dictionaries are not supported');
    const sizeCode = descriptor >> 6;
    const sizeBytes = sizeCode === 0 && singleSegment ? 1 : ZSTD_CONTENT_SIZE_BYTES[sizeCode]!;
    const contentBytes = sizeBytes === 0 ? undefined : number(sizeBytes) + (sizeBytes === 2 ? 256 : 0);

    let mostBytes = 0;
    for (let last = false; !last; ) {
      const header = number(3);
      const size = header >> 3;
      const type = (header >> 1) & 3;
      last = (header & 1) === 1;
      mostBytes += type === 2 ? ZSTD_MAX_BLOCK_BYTES : size;
      at += type === 1 ? 1 : size;
    }
    at += (descriptor & 0x04) !== 0 ? 4 : 0;
    if (at > input.length) throw damagedZstd('cut off');
    frames.push({ bytes: input.subarray(start, at), contentBytes, mostBytes });
  } while (at < input.length);
  return frames;
}

function damagedZstd(what: string): DecompressionError {
  return new DecompressionError('zstd', what);
}
