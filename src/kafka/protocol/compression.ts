/**
 * The compressions a Kafka batch may come in. Those of kafkajs are gzip only, and have no bound.
 *
 * A batch of a few kilobytes can claim gigabytes, so that every decoder here stops at `maxDecompressedBytes` with a
 * DecompressionLimitError, and whatever else is wrong with the bytes is a DecompressionError. The limit holds for one batch.
 * Any other error, such as a lack of memory, says nothing of the bytes: the same may be decompressed later.
 *
 * | codec  | decoder                                   | encoder                                    |
 * | gzip   | node:zlib                                 | node:zlib                                  |
 * | snappy | snappy.ts, raw and in the framing of snappy-java | snappyjs, raw (which Java consumers read, too) |
 * | lz4    | lz4.ts                                    | lz4.ts: a frame of stored blocks            |
 * | zstd   | node:zlib from Node 22.15 on, else fzstd  | node:zlib from Node 22.15 on, else refused  |
 */

import { constants } from 'node:buffer';
import { promisify, types } from 'node:util';
import * as zlib from 'node:zlib';
import * as fzstd from 'fzstd';
import { compress as compressSnappy } from 'snappyjs';
import { Semaphore } from '../../lib/semaphore';
import { DecompressionError, DecompressionLimitError, decodeLz4, encodeLz4Stored } from './lz4';
import { decodeSnappy } from './snappy';

export { DecompressionError, DecompressionLimitError };

/** What kafkajs expects of a codec (its src/protocol/message/compression/gzip.js). */
export interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(bytes: Buffer): Promise<Buffer>;
}

export interface CodecLimits {
  /** The most bytes one batch may decompress to; a whole number from 1 on. */
  maxDecompressedBytes: number;
}

/** Which zstd decodes: node:zlib's own, or fzstd on a Node that has none. */
export type ZstdEngine = 'native' | 'portable';

const NATIVE_ZSTD: ZstdEngine = typeof zlib.zstdDecompress === 'function' ? 'native' : 'portable';

/** The codecs by name; the engine is a parameter so that both can be tested on one Node. Throws RangeError for a limit that is none. */
export function makeCodecs(
  { maxDecompressedBytes }: CodecLimits,
  engine: ZstdEngine = NATIVE_ZSTD,
): Record<'gzip' | 'snappy' | 'lz4' | 'zstd', Codec> {
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
      compress: async ({ buffer }) => encodeLz4Stored(buffer),
      decompress: (bytes) => decodeLz4(bytes, maxDecompressedBytes),
    },
    zstd: {
      compress: async ({ buffer }) => {
        if (engine === 'portable') throw new Error('zstd: compressing needs Node 22.15 or newer');
        return zstdCompress(buffer);
      },
      decompress: (bytes) => decodeZstd(bytes, maxDecompressedBytes, engine),
    },
  };
}

// gzip

const gzip = promisify(zlib.gzip);
const gunzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/** What the libraries behind node:zlib say of bytes. Node's own errors begin otherwise. */
const LIBRARY_ERROR = /^(Z_|ZSTD_error_)/;
const LACK_OF_MEMORY: ReadonlySet<unknown> = new Set(['Z_MEM_ERROR', 'ZSTD_error_memory_allocation']);

/** What gzip's last member says that it became, of which it has the low 32 bits. https://datatracker.ietf.org/doc/html/rfc1952#page-5 */
function gzipLength(bytes: Buffer): number {
  return bytes.length < GZIP_LENGTH_BYTES ? 0 : bytes.readUInt32LE(bytes.length - GZIP_LENGTH_BYTES);
}

const GZIP_LENGTH_BYTES = 4;

/** What comes to more than this is decompressed while nothing else of such a size is: where the bytes say too little, it is held twice. */
const LARGE_BYTES = 8 * 1024 * 1024;
const large = new Semaphore(1);
/** Node's own, where nobody says how long a piece is to be. */
const LEAST_PIECE_BYTES = zlib.constants.Z_DEFAULT_CHUNK;

/** As node:zlib does: into pieces of `chunkSize` bytes, which it puts together in the end where they are more than one. */
type Decode = (
  bytes: Buffer,
  options: { readonly chunkSize: number; readonly maxOutputLength: number },
) => Promise<Buffer>;

/**
 * Runs one of node:zlib's decoders in its thread pool and gives its errors our names, where they are of the bytes.
 *
 * @param likelyBytes what the bytes say that they become. Where it is true, all goes into one piece: of pieces Node holds twice as much for a
 *   moment as they come to, and each is one more turn of the thread pool
 */
export async function inflate(
  codec: string,
  decode: Decode,
  bytes: Buffer,
  limitBytes: number,
  likelyBytes: number,
): Promise<Buffer> {
  // With a byte to spare: a piece that is filled is followed by another one.
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
    // Whoever keeps it keeps its whole piece.
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
// Both engines are given one frame at a time: node:zlib passes over what follows the first in silence, and fzstd believes
// whatever window a frame asks for.

const zstdCompress = promisify<Buffer, Buffer>(zlib.zstdCompress ?? refuseZstd);
const zstdDecompress = promisify<Buffer, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress ?? refuseZstd);

function refuseZstd(): never {
  throw new Error('zstd: this Node has none');
}

const ZSTD_MAGIC = 0xfd2fb528;
/** The first of sixteen magic numbers of frames that hold no data. */
const ZSTD_SKIPPABLE_MAGIC = 0x184d2a50;
const ZSTD_MAX_BLOCK_BYTES = 128 * 1024;
/** Bytes of a dictionary's id and of the content's size, by their codes in the frame's descriptor. */
const ZSTD_DICTIONARY_BYTES = [0, 1, 2, 4];
const ZSTD_CONTENT_SIZE_BYTES = [0, 2, 4, 8];
/**
 * The most bytes of work that fzstd may do for one frame: it moves its whole window after each block, be the block empty.
 * Some 3 s at 10 GiB/s; 64 MiB in blocks of 128 KiB under a window of 64 MiB is just that.
 */
const FZSTD_MAX_MOVED_BYTES = 32 * 1024 ** 3;

/** What the headers of a frame say, before any of it is decoded. */
interface ZstdFrame {
  bytes: Buffer;
  /** The size the frame gives for its content; undefined where it gives none. */
  contentBytes: number | undefined;
  /** The most its blocks can become, whatever the frame says. */
  mostBytes: number;
  /** Undefined where the window is the content. */
  windowBytes: number | undefined;
  blocks: number;
}

async function decodeZstd(input: Buffer, limitBytes: number, engine: ZstdEngine): Promise<Buffer> {
  const decoded: Buffer[] = [];
  let left = limitBytes;
  for (const frame of zstdFrames(input)) {
    if ((frame.contentBytes ?? 0) > left) throw new DecompressionLimitError('zstd', limitBytes);
    const content = await decodeZstdFrame(frame, left, limitBytes, engine);
    if (content.length !== (frame.contentBytes ?? content.length))
      throw damagedZstd('not as long as its frame says');
    left -= content.length;
    decoded.push(content);
  }
  return decoded.length === 1 ? decoded[0]! : Buffer.concat(decoded);
}

async function decodeZstdFrame(
  frame: ZstdFrame,
  left: number,
  limitBytes: number,
  engine: ZstdEngine,
): Promise<Buffer> {
  // node:zlib takes no limit of 0; an empty frame may follow a batch that has used its limit up.
  if (frame.mostBytes === 0) return Buffer.alloc(0);
  if (left === 0) throw new DecompressionLimitError('zstd', limitBytes);
  if (engine === 'portable') return decodeZstdPortable(frame, left, limitBytes);
  return inflate('zstd', zstdDecompress, frame.bytes, left, frame.contentBytes ?? frame.mostBytes);
}

/** Decodes a frame by fzstd's streaming interface, which hands out each block before it reads the next. */
function decodeZstdPortable(frame: ZstdFrame, left: number, limitBytes: number): Buffer {
  const bytes = Buffer.from(frame.bytes);
  let windowBytes = frame.contentBytes ?? 0;
  if (frame.windowBytes !== undefined) {
    // No match reaches further back than the frame is long. A window of 128 MiB (level 22) for 1 MiB would be all cost.
    const useful = Math.max(ZSTD_MAX_BLOCK_BYTES, Math.min(frame.mostBytes, left));
    const exponent = Math.ceil(Math.log2(useful));
    windowBytes = Math.min(frame.windowBytes, 2 ** exponent);
    if (windowBytes < frame.windowBytes) bytes.writeUInt8((exponent - 10) << 3, 5);
  }
  if (windowBytes * frame.blocks > FZSTD_MAX_MOVED_BYTES) {
    throw damagedZstd('too many blocks for its window; Node 22.15 or newer decodes it');
  }
  const blocks: Uint8Array[] = [];
  let length = 0;
  const stream = new fzstd.Decompress((block) => {
    length += block.length;
    if (length > left) throw new DecompressionLimitError('zstd', limitBytes);
    if (block.length > 0) blocks.push(block);
  });
  try {
    stream.push(bytes, true);
  } catch (error) {
    if (error instanceof DecompressionError || !types.isNativeError(error)) throw error;
    // What no memory was left for is told by V8, in words alone.
    if (/allocation failed|allocate memory/i.test(error.message)) throw error;
    throw damagedZstd(error.message);
  }
  return Buffer.concat(blocks);
}

/** Splits the input into its frames by their headers alone. Throws DecompressionError where they do not fill it just so. */
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
    let windowBytes: number | undefined;
    if (!singleSegment) {
      const window = number(1);
      windowBytes = 2 ** (10 + (window >> 3)) * (1 + (window & 7) / 8);
    }
    if (number(ZSTD_DICTIONARY_BYTES[descriptor & 3]!) !== 0)
      throw damagedZstd('dictionaries are not supported');
    const sizeCode = descriptor >> 6;
    const sizeBytes = sizeCode === 0 && singleSegment ? 1 : ZSTD_CONTENT_SIZE_BYTES[sizeCode]!;
    const contentBytes = sizeBytes === 0 ? undefined : number(sizeBytes) + (sizeBytes === 2 ? 256 : 0);

    let mostBytes = 0;
    let blocks = 0;
    for (let last = false; !last; blocks++) {
      const header = number(3);
      const size = header >> 3;
      const type = (header >> 1) & 3;
      last = (header & 1) === 1;
      mostBytes += type === 2 ? ZSTD_MAX_BLOCK_BYTES : size;
      at += type === 1 ? 1 : size;
    }
    at += (descriptor & 0x04) !== 0 ? 4 : 0;
    if (at > input.length) throw damagedZstd('cut off');
    frames.push({ bytes: input.subarray(start, at), contentBytes, mostBytes, windowBytes, blocks });
  } while (at < input.length);
  return frames;
}

function damagedZstd(what: string): DecompressionError {
  return new DecompressionError('zstd', what);
}
