/**
 * Postgres' binary formats: rows for COPY, and arrays as parameters. Both spare the store the parsing of text.
 * https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4 and array_recv in src/backend/utils/adt/arrayfuncs.c
 */

const OID = { bool: 16, bytea: 17, int8: 20, int2: 21, int4: 23, text: 25 } as const;
const FIRST_CAPACITY = 16 * 1024;

/** A buffer that grows while values are appended. */
class Writer {
  private bytes = Buffer.allocUnsafe(FIRST_CAPACITY);
  private length = 0;

  private reserve(size: number): number {
    const start = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(this.length, this.bytes.length * 2));
      this.bytes.copy(grown, 0, 0, start);
      this.bytes = grown;
    }
    return start;
  }

  raw(bytes: Buffer): void {
    const start = this.reserve(bytes.length);
    bytes.copy(this.bytes, start);
  }
  int16(value: number): void {
    const start = this.reserve(2);
    this.bytes.writeInt16BE(value, start);
  }
  int32(value: number): void {
    const start = this.reserve(4);
    this.bytes.writeInt32BE(value, start);
  }

  // A value with its length in front, as both COPY and arrays have it. A length of -1 is null.
  nil(): void {
    this.int32(-1);
  }
  boolValue(value: boolean | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(5);
    this.bytes.writeInt32BE(1, start);
    this.bytes[start + 4] = value ? 1 : 0;
  }
  int2Value(value: number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(6);
    this.bytes.writeInt32BE(2, start);
    this.bytes.writeInt16BE(value, start + 4);
  }
  int4Value(value: number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(8);
    this.bytes.writeInt32BE(4, start);
    this.bytes.writeInt32BE(value, start + 4);
  }
  int8Value(value: bigint | number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(12);
    this.bytes.writeInt32BE(8, start);
    if (typeof value === 'bigint') {
      this.bytes.writeBigInt64BE(value, start + 4);
    } else {
      this.bytes.writeInt32BE(Math.floor(value / 2 ** 32), start + 4);
      this.bytes.writeUInt32BE(value >>> 0, start + 8);
    }
  }
  textValue(value: string | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    this.encoded(value, 'utf8');
  }
  /** Bytes held as a Latin-1 string, one character a byte. */
  byteaValue(value: string | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    this.encoded(value, 'latin1');
  }
  private encoded(value: string, encoding: 'utf8' | 'latin1'): void {
    const size = encoding === 'latin1' ? value.length : Buffer.byteLength(value);
    const start = this.reserve(4 + size);
    this.bytes.writeInt32BE(size, start);
    this.bytes.write(value, start + 4, size, encoding);
  }

  take(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

const COPY_SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');

/** Rows in the binary format of COPY: `row(n)` begins a row of n columns, then exactly n values follow. */
export class CopyRows extends Writer {
  constructor() {
    super();
    this.raw(COPY_SIGNATURE);
    this.int32(0); // flags
    this.int32(0); // no header extension
  }
  row(columns: number): void {
    this.int16(columns);
  }
  end(): Buffer {
    this.int16(-1);
    return this.take();
  }
}

/** Each function makes a one-dimensional array, as a Buffer that pg sends as a binary parameter. */
export const arrays = {
  bool: (values: readonly (boolean | null)[]) =>
    array(OID.bool, values, (writer, value) => writer.boolValue(value)),
  int2: (values: readonly (number | null)[]) =>
    array(OID.int2, values, (writer, value) => writer.int2Value(value)),
  int4: (values: readonly (number | null)[]) =>
    array(OID.int4, values, (writer, value) => writer.int4Value(value)),
  int8: (values: readonly (bigint | number | null)[]) =>
    array(OID.int8, values, (writer, value) => writer.int8Value(value)),
  text: (values: readonly (string | null)[]) =>
    array(OID.text, values, (writer, value) => writer.textValue(value)),
  bytea: (values: readonly string[]) => array(OID.bytea, values, (writer, value) => writer.byteaValue(value)),
};

function array<T>(
  elementOid: number,
  values: readonly T[],
  append: (writer: Writer, value: T) => void,
): Buffer {
  const writer = new Writer();
  writer.int32(values.length === 0 ? 0 : 1);
  writer.int32(1); // nulls are possible
  writer.int32(elementOid);
  if (values.length > 0) {
    writer.int32(values.length);
    writer.int32(1); // the first subscript
  }
  for (const value of values) append(writer, value);
  return writer.take();
}
