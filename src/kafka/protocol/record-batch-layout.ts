/**
 * The layout of a record batch (format 2), as topics hold it since Kafka 0.11. All numbers are big endian.
 * https://kafka.apache.org/documentation/#recordbatch
 *
 * -  0  int64   base offset: the offset of the first record, set by the broker
 * -  8  int32   length: the bytes that follow this field
 * - 12  int32   epoch of the partition's leader, set by the broker
 * - 16  int8    format ("magic"): 2
 * - 17  uint32  CRC-32C of all bytes from 21 on
 * - 21  int16   attributes: the ATTRIBUTE constants below
 * - 23  int32   offset of the last record, less the base offset
 * - 27  int64   timestamp of the first record, in milliseconds since 1970
 * - 35  int64   largest timestamp; the time of the append where LOG_APPEND_TIME is set
 * - 43  int64   producer id: -1 without an idempotent producer
 * - 51  int16   epoch of the producer
 * - 53  int32   sequence number of the first record
 * - 57  int32   number of records
 * - 61  records (records-reader.ts), all of them compressed together where the attributes name a codec
 */

export const BASE_OFFSET_AT = 0;
export const LENGTH_AT = 8;
/** The bytes in front of the first byte that the length counts. */
export const PREFIX_BYTES = 12;
export const LEADER_EPOCH_AT = 12;
/** Messages of the formats 0 and 1 name their format at the same place. */
export const FORMAT_AT = 16;
export const CHECKSUM_AT = 17;
/** The checksum leaves out the base offset, the length and the leader's epoch: the broker sets these. */
export const CHECKED_FROM = 21;
export const ATTRIBUTES_AT = 21;
export const LAST_OFFSET_DELTA_AT = 23;
export const FIRST_TIMESTAMP_AT = 27;
export const MAX_TIMESTAMP_AT = 35;
export const PRODUCER_ID_AT = 43;
export const PRODUCER_EPOCH_AT = 51;
export const FIRST_SEQUENCE_AT = 53;
export const COUNT_AT = 57;
export const HEADER_BYTES = 61;

export const FORMAT = 2;

/** Attributes: the codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), then one bit each. */
export const CODEC_MASK = 0x07;
export const LOG_APPEND_TIME = 0x08;
export const TRANSACTIONAL = 0x10;
export const CONTROL = 0x20;

// --- the checksum

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
