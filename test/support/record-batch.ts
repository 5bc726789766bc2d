/** Builds record batches byte by byte, valid ones and others. https://kafka.apache.org/documentation/#recordbatch */

export interface TestRecord {
  key?: Buffer | null;
  value?: Buffer | null;
  headers?: [string, Buffer][];
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
  /** What stands where the records stand, instead of the encoded records. */
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

function sized(bytes: Buffer | null): Buffer {
  return bytes === null ? varint(-1) : Buffer.concat([varint(bytes.length), bytes]);
}

export function encodeRecords(records: readonly TestRecord[]): Buffer {
  return Buffer.concat(
    records.map(({ key = null, value = null, headers = [], offsetDelta, timestampDelta = 0n }, index) => {
      const body = Buffer.concat([
        Buffer.from([0]),
        varint(timestampDelta),
        varint(offsetDelta ?? index),
        sized(key),
        sized(value),
        varint(headers.length),
        ...headers.flatMap(([name, bytes]) => [sized(Buffer.from(name)), sized(bytes)]),
      ]);
      return sized(body);
    }),
  );
}

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
  return Buffer.concat([header, body]);
}
