/**
 * Reads data sent to the store as Postgres reads it: rows of COPY, arrays, and single values. Each value
 * becomes the text that a select would show.
 */

export type Text = string | null;
export type Values = Readonly<Record<string, Text>>;

const EPOCH_MICROS = 946_684_800_000_000n;
const COPY_DATA_HEADER_BYTES = 5;
const COPY_HEADER_BYTES = 11 + 4 + 4;

type Type = 'bool' | 'int2' | 'int4' | 'int8' | 'numeric' | 'text' | 'bytea' | 'jsonb' | 'timestamptz';
const TYPE_OF_OID: Readonly<Record<number, Type>> = {
  16: 'bool',
  17: 'bytea',
  20: 'int8',
  21: 'int2',
  23: 'int4',
  25: 'text',
  1184: 'timestamptz',
  1700: 'numeric',
};

/** The columns that are copied, with their types in the migrations. */
const TYPE_OF_COLUMN: Readonly<Record<string, Type>> = {
  ...columns(
    'int8',
    'verdict_id content_hash source_offset amount_minor round_no value_hash player_hash player_tag batch_no',
  ),
  ...columns('int4', 'feed_no partition_no connection_no brand_no reference_version source_delay'),
  ...columns('int2', 'outcome kind currency_no first_outcome dead_letter place fault'),
  ...columns('bool', 'counted content_differs settled second_settled player_mismatch brand_mismatch'),
  ...columns('bytea', 'event_key round_key'),
  ...columns('text', 'event_id player_ref game_id unmapped_brand round_id refunded_by field'),
  ...columns('numeric', 'bet_minor win_minor settled_minor below_min_bet_minor'),
  ...columns('timestamptz', 'decided_at occurred_at received_at opened_at refunded_at'),
  ...columns('jsonb', 'other_sums'),
};

function columns(type: Type, names: string): Record<string, Type> {
  return Object.fromEntries(names.split(' ').map((name) => [name, type]));
}

/** The table and columns that a COPY statement names. */
export function copyTarget(text: string): { table: string; columns: readonly string[] } {
  const [, table, list] = /^copy promo_store\.(\w+) \(([^)]*)\)\s+from stdin binary$/.exec(text) ?? [];
  if (table === undefined || list === undefined) throw new Error(`unknown COPY: ${text}`);
  return { table, columns: list.split(/,\s*/) };
}

/** The rows of a COPY, from the messages of the protocol. */
export function readCopy(messages: Buffer, columns: readonly string[]): Values[] {
  const types = columns.map((column) => {
    const type = TYPE_OF_COLUMN[column];
    if (type === undefined) throw new Error(`unknown column: ${column}`);
    return type;
  });
  const rows: Values[] = [];
  let at = COPY_DATA_HEADER_BYTES + COPY_HEADER_BYTES;
  for (;;) {
    const count = messages.readInt16BE(at);
    at += 2;
    if (count === -1) return rows;
    if (count !== columns.length) throw new Error(`a row of ${count} values for ${columns.length} columns`);
    const row: Record<string, Text> = {};
    for (const [index, column] of columns.entries()) {
      const size = messages.readInt32BE(at);
      at += 4;
      row[column] = size < 0 ? null : textOf(messages.subarray(at, at + size), types[index] ?? 'text');
      at += Math.max(0, size);
    }
    rows.push(row);
  }
}

/** The elements of a one-dimensional array that is sent as a binary parameter. */
export function readArray(value: unknown): Text[] {
  if (!Buffer.isBuffer(value)) throw new Error('the parameter is no binary array');
  if (value.readInt32BE(0) === 0) return [];
  const type = TYPE_OF_OID[value.readInt32BE(8)];
  if (type === undefined) throw new Error(`unknown element type: ${value.readInt32BE(8)}`);
  const elements: Text[] = [];
  let at = 20;
  for (let left = value.readInt32BE(12); left > 0; left--) {
    const size = value.readInt32BE(at);
    at += 4;
    elements.push(size < 0 ? null : textOf(value.subarray(at, at + size), type));
    at += Math.max(0, size);
  }
  return elements;
}

function textOf(bytes: Buffer, type: Type): string {
  switch (type) {
    case 'bool':
      return bytes[0] === 0 ? 'f' : 't';
    case 'int2':
      return String(bytes.readInt16BE(0));
    case 'int4':
      return String(bytes.readInt32BE(0));
    case 'int8':
      return String(bytes.readBigInt64BE(0));
    case 'numeric':
      return numericOf(bytes);
    case 'text':
      return bytes.toString('utf8');
    case 'bytea':
      return `\\x${bytes.toString('hex')}`;
    case 'jsonb':
      return bytes.toString('utf8', 1);
    case 'timestamptz':
      return String(bytes.readBigInt64BE(0) + EPOCH_MICROS);
  }
}

const NUMERIC_NEGATIVE = 0x4000;

function numericOf(bytes: Buffer): string {
  const digits = bytes.readInt16BE(0);
  const weight = bytes.readInt16BE(2);
  let value = 0n;
  for (let digit = 0; digit <= weight; digit++)
    value = value * 10_000n + BigInt(digit < digits ? bytes.readInt16BE(8 + 2 * digit) : 0);
  return String(bytes.readInt16BE(4) === NUMERIC_NEGATIVE ? -value : value);
}
