/**
 * Postgres' binary formats: rows for COPY, and arrays as parameters. Both spare the store the parsing of
 * text.
 * https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4 and the functions *_recv in
 * src/backend/utils/adt
 */

const OID = {
  bool: 16,
  bytea: 17,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  timestamptz: 1184,
  numeric: 1700,
} as const;
const FIRST_CAPACITY = 16 * 1024;
/** Texts up to this length are written character by character: it is faster than a call into Node. */
const SHORT_TEXT = 64;
const NUMERIC_BASE = 10_000;
const NUMERIC_NEGATIVE = 0x4000;
/** Digits of the current number, the lowest first. */
const digits: number[] = [];

/** The largest buffer, and the largest number of buffers, that are kept for later rows. */
const MAX_SPARE_BYTES = 4 * 1024 * 1024;
const MAX_SPARES = 8;
const spares: Buffer[] = [];

/** The format of a value as bytes. */
export interface ByteFormat<T> {
  /** The largest number of bytes of any value. */
  readonly maxBytes: number;
  /** Writes a value at a place. @returns the number of bytes */
  readonly write: (value: T, target: Buffer, at: number) => number;
}

/** A buffer that grows while values are appended. */
class Writer {
  protected bytes: Buffer;
  private view: DataView;
  private length = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }

  /** Allocates `size` bytes. @returns their index */
  private reserve(size: number): number {
    const start = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(this.length, this.bytes.length * 2));
      this.bytes.copy(grown, 0, 0, start);
      this.bytes = grown;
      this.view = new DataView(grown.buffer);
    }
    return start;
  }

  raw(bytes: Buffer): void {
    const start = this.reserve(bytes.length);
    bytes.copy(this.bytes, start);
  }
  int16(value: number): void {
    const start = this.reserve(2);
    this.view.setInt16(start, value);
  }
  int32(value: number): void {
    const start = this.reserve(4);
    this.view.setInt32(start, value);
  }

  // A value behind its length, as in both COPY and arrays. A length of -1 is null.
  nil(): void {
    this.int32(-1);
  }
  boolValue(value: boolean | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(5);
    this.view.setInt32(start, 1);
    this.view.setInt8(start + 4, value ? 1 : 0);
  }
  int2Value(value: number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(6);
    this.view.setInt32(start, 2);
    this.view.setInt16(start + 4, value);
  }
  int4Value(value: number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(8);
    this.view.setInt32(start, 4);
    this.view.setInt32(start + 4, value);
  }
  int8Value(value: bigint | number | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    const start = this.reserve(12);
    this.view.setInt32(start, 8);
    if (typeof value === 'bigint') {
      this.view.setBigInt64(start + 4, value);
    } else {
      this.view.setInt32(start + 4, Math.floor(value / 2 ** 32));
      this.view.setUint32(start + 8, value >>> 0);
    }
  }
  /** An int8 from two halves. Each may be signed or unsigned. */
  int8Halves({ high, low }: { readonly high: number; readonly low: number }): void {
    const start = this.reserve(12);
    this.view.setInt32(start, 8);
    this.view.setInt32(start + 4, high);
    this.view.setInt32(start + 8, low);
  }
  numericValue(value: bigint | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    let count = 0;
    let rest = value < 0n ? -value : value;
    for (; rest > Number.MAX_SAFE_INTEGER; rest /= BigInt(NUMERIC_BASE))
      digits[count++] = Number(rest % BigInt(NUMERIC_BASE));
    for (let exact = Number(rest); exact > 0; exact = Math.floor(exact / NUMERIC_BASE))
      digits[count++] = exact % NUMERIC_BASE;
    this.int32(8 + 2 * count);
    this.int16(count);
    this.int16(count - 1); // weight of the first digit
    this.int16(value < 0n ? NUMERIC_NEGATIVE : 0);
    this.int16(0); // no decimals
    while (count > 0) this.int16(digits[--count] ?? 0);
  }
  textValue(value: string | null): void {
    if (value === null) {
      this.nil();
      return;
    }
    if (value.length <= SHORT_TEXT && this.asciiValue(value)) return;
    const size = Buffer.byteLength(value);
    const start = this.reserve(4 + size);
    this.view.setInt32(start, size);
    this.bytes.write(value, start + 4);
  }
  /**
   * Writes a text of ASCII characters. Appends nothing and returns false where the text has any other
   * character.
   */
  private asciiValue(value: string): boolean {
    const { length } = value;
    const start = this.reserve(4 + length);
    this.view.setInt32(start, length);
    for (let i = 0, at = start + 4; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) {
        this.length = start;
        return false;
      }
      this.bytes[at + i] = code;
    }
    return true;
  }
  jsonbValue(json: string | null): void {
    if (json === null) {
      this.nil();
      return;
    }
    const size = Buffer.byteLength(json);
    const start = this.reserve(5 + size);
    this.view.setInt32(start, 1 + size);
    this.bytes[start + 4] = 1; // version of the format
    this.bytes.write(json, start + 5);
  }
  /** A bytea, in the given format. */
  formatted<T>(value: T, { maxBytes, write }: ByteFormat<T>): void {
    const start = this.reserve(4 + maxBytes);
    const size = write(value, this.bytes, start + 4);
    this.view.setInt32(start, size);
    this.length = start + 4 + size;
  }

  take(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

/** Postgres' epoch, 2000-01-01, in microseconds since 1970. */
export const POSTGRES_EPOCH_MICROS = 946_684_800_000_000n;

/** The value of a timestamptz, from microseconds since 1970. */
export function sinceEpoch(micros: bigint): bigint {
  return micros - POSTGRES_EPOCH_MICROS;
}

const COPY_SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');

/** Messages of the protocol: a letter, and the length of everything behind the letter. */
const COPY_DATA = Buffer.from([0x64, 0, 0, 0, 0]);
const COPY_DONE = Buffer.from([0x63, 0, 0, 0, 4]);

/** Rows in the binary format of COPY. `row(n)` begins a row of n columns; exactly n values must follow. */
export class CopyRows extends Writer {
  constructor() {
    super(spares.pop() ?? Buffer.allocUnsafeSlow(FIRST_CAPACITY));
    this.raw(COPY_DATA);
    this.raw(COPY_SIGNATURE);
    this.int32(0); // flags
    this.int32(0); // no header extension
  }
  row(columns: number): void {
    this.int16(columns);
  }
  /** The messages of the rows: all rows in one, and the end. */
  end(): Buffer {
    this.int16(-1);
    this.raw(COPY_DONE);
    const messages = this.take();
    messages.writeInt32BE(messages.length - COPY_DONE.length - 1, 1);
    return messages;
  }
  /**
   * Releases the buffer for other rows, once the result of `end` is no longer in use. Allocating megabytes
   * for each batch costs more than using them.
   */
  recycle(): void {
    if (this.bytes.length <= MAX_SPARE_BYTES && spares.length < MAX_SPARES) spares.push(this.bytes);
  }
}

/**
 * Each function returns a one-dimensional array, as a Buffer that pg sends as a binary parameter. Each has a
 * loop of its own: calls through a parameter of a common loop take longer.
 */
export const arrays = {
  bool(values: readonly (boolean | null)[]): Buffer {
    const writer = arrayWriter(OID.bool, values.length);
    for (const value of values) writer.boolValue(value);
    return writer.take();
  },
  int2(values: readonly (number | null)[]): Buffer {
    const writer = arrayWriter(OID.int2, values.length);
    for (const value of values) writer.int2Value(value);
    return writer.take();
  },
  int4(values: readonly (number | null)[]): Buffer {
    const writer = arrayWriter(OID.int4, values.length);
    for (const value of values) writer.int4Value(value);
    return writer.take();
  },
  int8(values: readonly (bigint | number | null)[]): Buffer {
    const writer = arrayWriter(OID.int8, values.length);
    for (const value of values) writer.int8Value(value);
    return writer.take();
  },
  numeric(values: readonly (bigint | null)[]): Buffer {
    const writer = arrayWriter(OID.numeric, values.length);
    for (const value of values) writer.numericValue(value);
    return writer.take();
  },
  /** From microseconds since 1970. */
  timestamptz(values: readonly (bigint | null)[]): Buffer {
    const writer = arrayWriter(OID.timestamptz, values.length);
    for (const value of values) writer.int8Value(value === null ? null : sinceEpoch(value));
    return writer.take();
  },
  text(values: readonly (string | null)[]): Buffer {
    const writer = arrayWriter(OID.text, values.length);
    for (const value of values) writer.textValue(value);
    return writer.take();
  },
  /** An array of bytea in the given format. */
  formatted<T>(values: readonly T[], format: ByteFormat<T>): Buffer {
    const writer = arrayWriter(OID.bytea, values.length);
    for (const value of values) writer.formatted(value, format);
    return writer.take();
  },
};

/** A writer at the first element of an array. */
function arrayWriter(elementOid: number, length: number): Writer {
  const writer = new Writer(Buffer.allocUnsafeSlow(ARRAY_HEADER_BYTES + length * ELEMENT_BYTES));
  writer.int32(length === 0 ? 0 : 1);
  writer.int32(1); // nulls are possible
  writer.int32(elementOid);
  if (length > 0) {
    writer.int32(length);
    writer.int32(1); // the first subscript
  }
  return writer;
}

const ARRAY_HEADER_BYTES = 20;
/** The usual size of an element; the writer grows where elements are larger. */
const ELEMENT_BYTES = 24;
