/**
 * Reads Avro's binary encoding by a schema.
 * https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
 *
 * The client's own reader (avsc) is not used: it looks for the end of the bytes only when it is done. Six
 * bytes that claim an array of 2^31 items end the process for lack of memory. It also accepts invalid UTF-8,
 * and refuses a long above 2^53.
 */
import { isUtf8 } from 'node:buffer';
import { MAX_PARTS } from '../domain/event/payload';
import { isObject } from '../lib/json';

/** Reads bytes that are exactly one value of the schema; undefined if they are not. */
export type ReadAvro = (bytes: Buffer) => { readonly value: unknown } | undefined;

/** @throws Error if the schema is not valid Avro */
export function makeAvroReader(schema: unknown): ReadAvro {
  const read = makeReader(schema, new Map());
  return (bytes) => {
    const cursor = new Cursor(bytes);
    try {
      const value = read(cursor);
      return cursor.position === bytes.length ? { value } : undefined;
    } catch (error) {
      if (error instanceof Misfit) return undefined;
      throw error;
    }
  };
}

type Read = (cursor: Cursor) => unknown;

/** A number has 64 bits, 7 to a byte. */
const LONG_MAX_BYTES = 10;
/** The deepest nesting of records, arrays and maps: a recursive schema could otherwise overflow the stack. */
const MAX_NESTING = 256;

/**
 * A value may have this many records, arrays and maps beside one for each 16 of its bytes. Each takes some 60
 * bytes of memory, and an empty record none of the value's bytes. In a small schema each record can hold the
 * next record twice: the number of records doubles with each name.
 */
const MAX_FREE_CONTAINERS = 64;
const BYTES_A_CONTAINER = 16;

/** Replaces bytes, which JSON does not have, by a type that no field of an event has. */
const NO_JSON = true;

/** The bytes are not a value of the schema. */
class Misfit extends Error {}

/** Reads the parts of a value, never past the end of the bytes. */
class Cursor {
  position = 0;
  private depth = 0;
  private items = 0;
  private fields = 0;
  private containers = 0;

  constructor(private readonly bytes: Buffer) {}

  take(count: number): Buffer {
    const end = this.position + count;
    if (!(end <= this.bytes.length)) throw new Misfit('cut off');
    const taken = this.bytes.subarray(this.position, end);
    this.position = end;
    return taken;
  }

  /** A zigzag number of up to 64 bits, rounded above 2^53. */
  long(): number {
    let magnitude = 0;
    const odd = ((this.bytes[this.position] ?? 0) & 1) === 1;
    for (let digit = 0; digit < LONG_MAX_BYTES; digit++) {
      const byte = this.bytes[this.position++];
      if (byte === undefined) throw new Misfit('cut off');
      magnitude += (byte & 0x7f) * 128 ** digit;
      if (byte < 0x80) return odd ? -(magnitude - 1) / 2 - 1 : magnitude / 2;
    }
    throw new Misfit('a number of more than 64 bits');
  }

  /** Reads a length, and the bytes after it. */
  sized(): Buffer {
    const length = this.long();
    if (length < 0) throw new Misfit('a negative length');
    return this.take(length);
  }

  /**
   * Begins a record, an array or a map.
   *
   * @throws Misfit if there are too many or they are nested too deeply
   */
  enter(): void {
    if (++this.depth > MAX_NESTING) throw new Misfit('nested too deeply');
    if (++this.containers > Math.min(MAX_PARTS, MAX_FREE_CONTAINERS + this.bytes.length / BYTES_A_CONTAINER))
      throw new Misfit('more records, arrays and maps than the bytes can hold');
  }

  /**
   * Counts the fields of a record: null fields take no bytes.
   *
   * @throws Misfit if a value has more fields than an event may have parts
   */
  spend(fields: number): void {
    this.fields += fields;
    if (this.fields > MAX_PARTS) throw new Misfit('more fields than an event has');
  }

  leave(): void {
    this.depth--;
  }

  text(): string {
    const bytes = this.sized();
    if (!isUtf8(bytes)) throw new Misfit('not UTF-8');
    return bytes.toString('utf8');
  }

  /**
   * Reads the blocks of an array or a map. All blocks of a value together may hold one item for each byte.
   * Null items take no bytes, so a block can claim any number of them, and no event has them.
   */
  blocks(readItem: () => void): void {
    for (;;) {
      let count = this.long();
      if (count === 0) return;
      if (count < 0) {
        count = -count;
        this.long(); // the block's size in bytes, for readers that skip it
      }
      this.items += count;
      if (this.items > Math.min(MAX_PARTS, this.bytes.length))
        throw new Misfit('more items than bytes, or than an event has');
      for (; count > 0; count--) readItem();
    }
  }
}

const PRIMITIVES: ReadonlyMap<string, Read> = new Map<string, Read>([
  ['null', () => null],
  ['boolean', (cursor) => booleanOf(cursor.take(1)[0])],
  ['int', (cursor) => cursor.long()],
  ['long', (cursor) => cursor.long()],
  ['float', (cursor) => cursor.take(4).readFloatLE()],
  ['double', (cursor) => cursor.take(8).readDoubleLE()],
  ['bytes', (cursor) => cursor.sized() && NO_JSON],
  ['string', (cursor) => cursor.text()],
]);

function booleanOf(byte: number | undefined): boolean {
  if (byte !== 0 && byte !== 1) throw new Misfit('not a boolean');
  return byte === 1;
}

/**
 * Makes the reader of a schema with all names in full.
 * https://avro.apache.org/docs/1.12.0/specification/#schema-declaration
 */
function makeReader(schema: unknown, named: Map<string, Read>): Read {
  if (typeof schema === 'string') {
    const read = PRIMITIVES.get(schema) ?? named.get(schema);
    if (read === undefined) throw new Error(`unknown Avro type ${schema}`);
    return read;
  }
  if (Array.isArray(schema)) {
    const branches = schema.map((branch) => makeReader(branch, named));
    return (cursor) => {
      const read = branches[cursor.long()];
      if (read === undefined) throw new Misfit('no such branch');
      return read(cursor);
    };
  }
  if (!isObject(schema)) throw new Error('an Avro schema that is no object');
  switch (schema.type) {
    case 'record':
    case 'error':
      return makeRecordReader(schema, named);
    case 'enum': {
      const symbols = listOf(schema.symbols);
      return define(schema, named, (cursor) => {
        const symbol = symbols[cursor.long()];
        if (symbol === undefined) throw new Misfit('no such symbol');
        return symbol;
      });
    }
    case 'fixed': {
      const size = Number(schema.size);
      return define(schema, named, (cursor) => cursor.take(size) && NO_JSON);
    }
    case 'array': {
      const item = makeReader(schema.items, named);
      return nested((cursor) => {
        const items: unknown[] = [];
        cursor.blocks(() => items.push(item(cursor)));
        return items;
      });
    }
    case 'map': {
      const item = makeReader(schema.values, named);
      return nested((cursor) => {
        const entries: [string, unknown][] = [];
        cursor.blocks(() => entries.push([cursor.text(), item(cursor)]));
        return Object.fromEntries(entries);
      });
    }
    default:
      return makeReader(schema.type, named);
  }
}

function makeRecordReader(schema: Record<string, unknown>, named: Map<string, Read>): Read {
  const fields: { name: string; optional: boolean; read: Read }[] = [];
  // Its name is defined before its fields are read: a record may hold records of its own type.
  const read = define(
    schema,
    named,
    nested((cursor) => {
      cursor.spend(fields.length);
      const entries: [string, unknown][] = [];
      for (const field of fields) {
        const value = field.read(cursor);
        if (value !== null || !field.optional) entries.push([field.name, value]);
      }
      // Makes an own property for every name, as JSON.parse does. An assignment to __proto__ would not.
      return Object.fromEntries(entries);
    }),
  );
  for (const field of listOf(schema.fields)) {
    if (!isObject(field) || typeof field.name !== 'string')
      throw new Error('an Avro record with an invalid field');
    const optional = Array.isArray(field.type) && field.type.includes('null');
    fields.push({ name: field.name, optional, read: makeReader(field.type, named) });
  }
  return read;
}

function define(schema: Record<string, unknown>, named: Map<string, Read>, read: Read): Read {
  if (typeof schema.name === 'string') named.set(schema.name, read);
  return read;
}

function nested(read: Read): Read {
  return (cursor) => {
    cursor.enter();
    const value = read(cursor);
    cursor.leave();
    return value;
  };
}

function listOf(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Error('an Avro schema without a required list');
  return value;
}
