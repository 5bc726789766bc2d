/**
 * Builds record batches byte by byte, valid and invalid ones, and sends them.
 * https://kafka.apache.org/documentation/#recordbatch
 */
import { connect } from 'node:net';
import type { Encode } from '../../src/kafka/partition-batches';
import { makeCodecs } from '../../src/kafka/protocol/compression';
import type { StreamRecord } from '../../src/kafka/protocol/record';
import { type Decompress, Fetched } from '../../src/kafka/protocol/record-batch-reader';
import { RecordBatch } from '../../src/kafka/protocol/record-batch-writer';

export interface TestRecord {
  key?: Buffer | null;
  value?: Buffer | null;
  headers?: [string, Buffer | null][];
  offsetDelta?: number;
  timestampDelta?: bigint;
}

export interface TestBatch {
  firstOffset?: number;
  attributes?: number;
  lastOffsetDelta?: number;
  firstTimestamp?: bigint;
  maxTimestamp?: bigint;
  producerId?: bigint;
  magic?: number;
  count?: number;
  /** Bytes in the place of the encoded records. */
  body?: Buffer;
  records?: TestRecord[];
}

export function varint(value: bigint | number): Buffer {
  let rest = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n));
  const bytes: number[] = [];
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

function sized(bytes: Buffer | null): Buffer[] {
  return bytes === null ? [varint(-1)] : [varint(bytes.length), bytes];
}

/** Copies each content once: some have 60 MiB. */
export function encodeRecords(records: readonly TestRecord[]): Buffer {
  return Buffer.concat(
    records.flatMap(({ key = null, value = null, headers = [], offsetDelta, timestampDelta = 0n }, index) => {
      const body = [
        Buffer.from([0]),
        varint(timestampDelta),
        varint(offsetDelta ?? index),
        ...sized(key),
        ...sized(value),
        varint(headers.length),
        ...headers.flatMap(([name, bytes]) => [...sized(Buffer.from(name)), ...sized(bytes)]),
      ];
      return [varint(body.reduce((sum, { length }) => sum + length, 0)), ...body];
    }),
  );
}

export interface OldTestMessage {
  magic: 0 | 1;
  offset: number;
  /** The codec is in the lowest bits. */
  attributes?: number;
  /** Format 0 has none. */
  timestamp?: bigint;
  key?: Buffer | null;
  value: Buffer | null;
}

/**
 * A message of format 0 or 1. Its checksum is wrong, because no reader here checks it.
 * https://kafka.apache.org/documentation/#messageset
 */
export function encodeOldMessage({
  magic,
  offset,
  attributes = 0,
  timestamp = -1n,
  key = null,
  value,
}: OldTestMessage): Buffer {
  const int = (bits: 32 | 64, number: bigint) => {
    const bytes = Buffer.alloc(bits / 8);
    if (bits === 32) bytes.writeInt32BE(Number(number));
    else bytes.writeBigInt64BE(number);
    return bytes;
  };
  const sized = (bytes: Buffer | null) =>
    bytes === null ? int(32, -1n) : Buffer.concat([int(32, BigInt(bytes.length)), bytes]);
  const message = Buffer.concat([
    int(32, 0n),
    Buffer.from([magic, attributes]),
    magic === 0 ? Buffer.alloc(0) : int(64, timestamp),
    sized(key),
    sized(value),
  ]);
  return Buffer.concat([int(64, BigInt(offset)), int(32, BigInt(message.length)), message]);
}

const CRC32C_TABLE = Array.from({ length: 256 }, (_, index) => {
  let crc = index;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

/** The batch with a correct checksum, after its bytes were changed: brokers accept no other. */
export function sealed(batch: Buffer): Buffer {
  let crc = 0xffffffff;
  for (const byte of batch.subarray(21)) crc = ((CRC32C_TABLE[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8)) >>> 0;
  const copy = Buffer.from(batch);
  copy.writeUInt32BE((crc ^ 0xffffffff) >>> 0, 17);
  return copy;
}

/** With a correct checksum. */
export function encodeBatch(batch: TestBatch): Buffer {
  const records = batch.records ?? [];
  const body = batch.body ?? encodeRecords(records);
  const header = Buffer.alloc(61);
  header.writeBigInt64BE(BigInt(batch.firstOffset ?? 0), 0);
  header.writeInt32BE(49 + body.length, 8);
  header[16] = batch.magic ?? 2;
  header.writeInt16BE(batch.attributes ?? 0, 21);
  header.writeInt32BE(batch.lastOffsetDelta ?? Math.max(0, records.length - 1), 23);
  header.writeBigInt64BE(batch.firstTimestamp ?? 1_000n, 27);
  header.writeBigInt64BE(batch.maxTimestamp ?? 2_000n, 35);
  header.writeBigInt64BE(batch.producerId ?? -1n, 43);
  header.writeInt32BE(batch.count ?? records.length, 57);
  return sealed(Buffer.concat([header, body]));
}

// --- reading what was built

/** They decompress up to a mebibyte. */
export const codecs = makeCodecs({ maxDecompressedBytes: 1024 * 1024 });
const byNumber = [undefined, codecs.gzip, codecs.snappy, codecs.lz4, codecs.zstd];

async function decompress(codec: number, bytes: Buffer): Promise<Buffer> {
  const found = byNumber[codec];
  if (found === undefined) throw new RangeError(`no codec ${codec}`);
  return found.decompress(bytes);
}

/** The visible records of a fetch. */
export async function readFetch(
  bytes: Buffer,
  aborted: { producerId: bigint; firstOffset: number }[] = [],
  fromOffset = 0,
  decompressing: Decompress = decompress,
) {
  const fetched = new Fetched(bytes, aborted, decompressing);
  const records: StreamRecord[] = [];
  for (const chunk of fetched.chunksFrom(fromOffset)) {
    const cursor = await chunk.open();
    for (let record = cursor.next(); record !== null; record = cursor.next()) records.push(record);
  }
  return { records, lastOffset: fetched.lastOffset };
}

export type SentMessage = Pick<StreamRecord, 'key' | 'value' | 'headers'>;

/** The messages that a reader gets when these items are sent. */
export async function messagesOf<T>(items: readonly T[], encode: Encode<T>): Promise<SentMessage[]> {
  const batch = new RecordBatch(0);
  const messages = items.filter((item) => {
    const message = encode(item);
    if (message !== null) batch.add(message);
    return message !== null;
  });
  return messages.length === 0 ? [] : (await readFetch(await batch.take(0, null))).records;
}

/** A record with the fields that are computed on access. */
export const plainRecord = ({ offset, timestamp, key, value, headers }: StreamRecord) => ({
  offset,
  timestamp,
  key,
  value,
  headers: plainHeaders({ headers }),
});

/** Headers as a list, with their names as text. */
export const plainHeaders = ({ headers }: Pick<StreamRecord, 'headers'>) =>
  [...headers].map(([name, value]) => [name.toString(), value]);

// --- sending it

const PRODUCE_DEADLINE_MS = 60_000;
const NO_ERROR = 0;

/**
 * Sends a batch to a partition of a topic unchanged (Produce request, version 7), for batches that no client
 * would make.
 * @throws where the broker refuses it. https://kafka.apache.org/protocol#The_Messages_Produce
 */
export async function produceRaw(broker: string, topic: string, batch: Buffer, number = 0): Promise<void> {
  const [host = '', port] = broker.split(':');
  const int16 = (value: number) => Buffer.from([(value >> 8) & 0xff, value & 0xff]);
  const int32 = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32BE(value);
    return bytes;
  };
  const string = (value: string) => Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)]);
  const header = Buffer.concat([int16(0), int16(7), int32(1), string('promo-intake-test')]);
  const partition = Buffer.concat([int32(number), int32(batch.length), batch]);
  const body = Buffer.concat([
    int16(-1),
    int16(-1),
    int32(PRODUCE_DEADLINE_MS),
    int32(1),
    string(topic),
    int32(1),
    partition,
  ]);
  const answer = await exchange(
    host,
    Number(port),
    Buffer.concat([int32(header.length + body.length), header, body]),
  );
  // Size, correlation id, one topic with its name, one partition with its number, then the error.
  const error = answer.readInt16BE(4 + 4 + 4 + 2 + Buffer.byteLength(topic) + 4 + 4);
  if (error !== NO_ERROR) throw new Error(`the broker refused the batch with error ${error}`);
}

function exchange(host: string, port: number, request: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: PRODUCE_DEADLINE_MS });
    let received = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('timeout', () => socket.destroy(new Error('the broker did not answer')));
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      socket.destroy();
      resolve(received);
    });
    socket.write(request);
  });
}
