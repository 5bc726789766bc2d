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
