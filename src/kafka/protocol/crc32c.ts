/** The checksum of record batches; record-batch-layout.ts has its place and the bytes that it covers. */
import { CHECKED_FROM, CHECKSUM_AT } from './record-batch-layout';

export function writeChecksum(batch: Buffer): void {
  batch.writeUInt32BE(crc32c(batch, CHECKED_FROM), CHECKSUM_AT);
}

/** Whether a batch has the bytes that its producer wrote, or a broker that wrote it again. */
export function hasChecksum(batch: Buffer): boolean {
  return batch.readUInt32BE(CHECKSUM_AT) === crc32c(batch, CHECKED_FROM);
}

const WORD_BYTES = 4;
/** The byte order of the machines that we run on: the other order takes a third more time. */
const LITTLE_ENDIAN = true;

/**
 * Eight tables of 256 words: one step takes eight bytes. A DataView is twice as fast as an array, where the
 * compiler must allow for an index without a value.
 */
const CRC32C_TABLES = crc32cTables();
const TABLE_BYTES = 1_024;

function crc32cTables(): DataView {
  const words = new Uint32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    words[byte] = crc;
  }
  for (let index = 256; index < words.length; index++) {
    const before = words[index - 256] ?? 0;
    words[index] = (words[before & 0xff] ?? 0) ^ (before >>> 8);
  }
  const tables = new DataView(new ArrayBuffer(words.byteLength));
  for (const [index, word] of words.entries()) tables.setUint32(index * WORD_BYTES, word, LITTLE_ENDIAN);
  return tables;
}

/** CRC-32C (Castagnoli) of the bytes from `start` on. https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4 */
export function crc32c(bytes: Buffer, start: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let crc = -1;
  let at = start;
  for (; at + 8 <= bytes.length; at += 8) {
    const low = crc ^ view.getInt32(at, LITTLE_ENDIAN);
    const high = view.getInt32(at + 4, LITTLE_ENDIAN);
    crc =
      fromTable(7, low) ^
      fromTable(6, low >>> 8) ^
      fromTable(5, low >>> 16) ^
      fromTable(4, low >>> 24) ^
      fromTable(3, high) ^
      fromTable(2, high >>> 8) ^
      fromTable(1, high >>> 16) ^
      fromTable(0, high >>> 24);
  }
  for (; at < bytes.length; at++) crc = fromTable(0, crc ^ view.getUint8(at)) ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** The word of a table for the lowest byte of `byte`. */
function fromTable(number: number, byte: number): number {
  return CRC32C_TABLES.getInt32(number * TABLE_BYTES + (byte & 0xff) * WORD_BYTES, LITTLE_ENDIAN);
}
