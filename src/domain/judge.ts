/**
 * From a payload to a candidate or a refusal, by contract and reference data alone: no stored state (docs/rules.md, F, M, V, G).
 *
 * Pure and total: any bytes get an answer. Cost is linear in the payload's size.
 */
import { isUtf8 } from 'node:buffer';
import Ajv2020, { type ErrorObject } from 'ajv/dist/2020';
import { EVENT_SCHEMA } from './contract';
import { hash64 } from './digest';
import {
  type Fault,
  type Fields,
  isKind,
  isRoundKind,
  type Judged,
  type Kind,
  MAX_NAME_BYTES,
  SPEC,
} from './event';
import { parseInstant } from './instant';
import { AMOUNT_PATTERN, currencyOf, decimalsOf, toMinor } from './money';
import type { Brand, Connection } from './reference';
import { type Outcome, outcomeOf, type Reason, rankOf } from './verdict';

/** What a transport hands over: the bytes of a JSON text, a value decoded from another format, or something that could not be decoded. */
export type Payload =
  | { readonly type: 'json'; readonly bytes: Buffer | null }
  | { readonly type: 'value'; readonly value: unknown }
  | { readonly type: 'not_json' };

type Json = Readonly<Record<string, unknown>>;

/**
 * Judges one payload for the connection it came by.
 *
 * @param connection undefined judges by the contract alone: brand and game rules are left out. For checking files.
 */
export function judge(payload: Payload, connection: Connection | undefined): Judged {
  const event = readEventId(payload);
  if ('reason' in event) return { type: 'unkeyed', faults: [event] };
  const { eventId } = event;

  const faults = [...contractFaults(event.json), ...textFaults(event.json)];
  const fields = readFields(event.json, connection);
  faults.push(...amountFaults(event.json, fields));
  const brand = connection && brandOf(event.json.brand, connection);
  if (brand?.fault) faults.push(brand.fault);

  const skip = skipFault(event.json, fields, connection, brand?.brand);
  if (skip) faults.push(skip);
  faults.sort((a, b) => rankOf(a.reason) - rankOf(b.reason));

  const deciding = faults[0];
  return {
    type: 'keyed',
    eventId,
    fields,
    brandNo: (fields.brand !== null && connection?.operator.brands.get(fields.brand)?.no) || null,
    contentHash: hash64(contentOf(event.json, fields)),
    refusal: deciding === undefined ? null : outcomeOf(deciding.reason),
    faults,
  };
}

/** The outcome of an event whose processing failed (V9): nothing but its id is kept, since any field may be what failed. */
export const PANIC: Outcome = outcomeOf('panic');

function fault(reason: Reason, field: string, detail: string): Fault {
  return { reason, field, detail };
}

// --- bytes to an object with an id

/** The object and its event_id, or why there is no usable one. */
export function readEventId(payload: Payload): { json: Json; eventId: string } | Fault {
  const event = readObject(payload);
  if ('reason' in event) return event;
  const eventId = event.json.event_id;
  if (typeof eventId === 'string' && eventId !== '' && isStorable(eventId))
    return { json: event.json, eventId };
  return fault('no_idempotency_key', '/event_id', describeEventId(eventId));
}

function readObject(payload: Payload): { json: Json } | Fault {
  const parsed = parse(payload);
  if (typeof parsed !== 'object' || 'reason' in parsed) return parsed;
  const { value } = parsed;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return fault('no_idempotency_key', '', 'the payload is not a JSON object');
  }
  return { json: value as Json };
}

function parse(payload: Payload): { value: unknown } | Fault {
  if (payload.type === 'value') return { value: payload.value };
  if (payload.type === 'not_json') return fault('no_idempotency_key', '', 'the payload cannot be decoded');
  const { bytes } = payload;
  if (bytes === null) return fault('no_idempotency_key', '', 'the record has no value (a tombstone)');
  if (!isUtf8(bytes)) return fault('no_idempotency_key', '', 'the payload is not valid UTF-8');
  try {
    return { value: JSON.parse(bytes.toString('utf8')) };
  } catch {
    return fault('no_idempotency_key', '', 'the payload is not JSON');
  }
}

function describeEventId(value: unknown): string {
  if (value === undefined) return 'event_id is missing';
  if (typeof value !== 'string') return 'event_id is not a string';
  return value === '' ? 'event_id is empty' : 'event_id holds U+0000 or half of a surrogate pair';
}

/** Whether Postgres can hold the text: no U+0000, and UTF-16 that has a UTF-8 form. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

// --- the contract, by ajv

/** The contract's only pattern, matched by the scan that conversion uses: one grammar, and a cost that is the text's length. */
const patterns = Object.assign(
  (pattern: string) => {
    if (pattern !== AMOUNT_PATTERN) throw new Error(`no matcher for the pattern ${pattern}`);
    return { test: (text: string) => decimalsOf(text) >= 0 };
  },
  { code: 'new RegExp' },
);

// The schema itself is checked against its meta-schema by a test, whose patterns are not ours to match.
const ajv = new Ajv2020({
  allErrors: true,
  strictRequired: false,
  validateSchema: false,
  code: { regExp: patterns },
});
ajv.addFormat('date-time', { type: 'string', validate: (text: string) => parseInstant(text) !== undefined });
const matchesContract = ajv.compile(EVENT_SCHEMA);

/** `if` repeats the fault of its `then`; lengths are measured in bytes below, which is stricter. */
const COVERED_KEYWORDS = new Set(['if', 'maxLength']);

function contractFaults(json: Json): Fault[] {
  if (matchesContract(json)) return [];
  return (matchesContract.errors ?? []).filter((error) => !COVERED_KEYWORDS.has(error.keyword)).map(toFault);
}

function toFault(error: ErrorObject): Fault {
  const missing: unknown = error.keyword === 'required' ? error.params.missingProperty : undefined;
  const field = typeof missing === 'string' ? `/${missing}` : error.instancePath;
  return fault(
    reasonOf(field, error.keyword),
    error.keyword === 'not' ? '/events' : field,
    describeError(error, field),
  );
}

/** Which reason a broken rule of the contract has (V4). */
function reasonOf(field: string, keyword: string): Reason {
  if (field === '/amount') return 'bad_amount';
  if (field === '/player_ref' && (keyword === 'required' || keyword === 'minLength')) return 'no_player';
  if (field === '/kind' && keyword === 'enum') return 'op_unknown';
  if (field === '/currency' && keyword === 'required') return 'currency_unknown';
  return 'malformed';
}

function describeError(error: ErrorObject, field: string): string {
  const name = field.slice(1).replaceAll('/', '.');
  switch (error.keyword) {
    case 'required':
      return `${name} is missing`;
    case 'not':
      return 'the object has a key "events": only the webhook takes batches';
    case 'const':
      return `${name} is not "${SPEC}"`;
    case 'enum':
      return `${name} is none of the seven kinds`;
    case 'minLength':
      return `${name} is empty`;
    case 'pattern':
      return `${name} is not a plain decimal such as "10.50"`;
    case 'format':
      return `${name} is not an RFC 3339 date-time with a zone`;
    default:
      return `${name} ${error.message ?? 'is not valid'}`;
  }
}

// --- what JSON Schema cannot say

/** The text fields that every kind reads. event_id has its own reason, spec and occurred_at cannot hold such text. */
const COMMON_TEXTS = ['brand', 'player_ref', 'kind'] as const;

function textFaults(json: Json): Fault[] {
  const faults: Fault[] = [];
  const check = (field: string, value: unknown) => {
    if (typeof value === 'string' && !isStorable(value)) {
      faults.push(fault('malformed', field, `${field.slice(1)} holds U+0000 or half of a surrogate pair`));
    }
  };
  for (const name of COMMON_TEXTS) check(`/${name}`, json[name]);
  for (const name of ['brand', 'player_ref'] as const) {
    const value = json[name];
    if (typeof value === 'string' && isTooLong(value)) {
      faults.push(fault('malformed', `/${name}`, `${name} is longer than ${MAX_NAME_BYTES} bytes of UTF-8`));
    }
  }
  const kind = kindOf(json);
  if (kind !== null && isRoundKind(kind)) {
    check('/round_id', json.round_id);
    check('/game/id', gameIdOf(json.game));
  }
  if (kind !== null && kind !== 'login') check('/currency', json.currency);
  return faults;
}

function kindOf(json: Json): Kind | null {
  return typeof json.kind === 'string' && isKind(json.kind) ? json.kind : null;
}

function gameIdOf(game: unknown): unknown {
  return typeof game === 'object' && game !== null && 'id' in game ? game.id : undefined;
}

function amountFaults(json: Json, fields: Fields): Fault[] {
  const { kind, currency } = fields;
  if (kind === null || kind === 'login') return [];
  if (typeof json.currency === 'string' && currency === null) {
    return [fault('currency_unknown', '/currency', 'currency is not in the table')];
  }
  if (typeof json.amount !== 'string' || currency === null || fields.amountMinor !== null) return [];
  const decimals = decimalsOf(json.amount);
  if (decimals < 0) return [];
  const detail =
    decimals > currency.scale
      ? `amount has ${decimals} decimals, ${currency.code} has ${currency.scale}`
      : `amount does not fit 64 bits in minor units of ${currency.code}`;
  return [fault('bad_amount', '/amount', detail)];
}

/** Each field that is valid by itself (V6). A connection with one brand supplies it where the event names none. */
function readFields(json: Json, connection: Connection | undefined): Fields {
  const kind = kindOf(json);
  const isRound = kind !== null && isRoundKind(kind);
  const hasMoney = kind !== null && kind !== 'login';
  const currency = hasMoney && typeof json.currency === 'string' ? (currencyOf(json.currency) ?? null) : null;
  const amountMinor =
    currency !== null && typeof json.amount === 'string'
      ? (toMinor(json.amount, currency.scale) ?? null)
      : null;
  const occurredAt = typeof json.occurred_at === 'string' ? parseInstant(json.occurred_at) : undefined;
  return {
    kind,
    brand: json.brand === undefined ? (connection?.onlyBrand?.id ?? null) : nameOrNull(json.brand),
    playerRef: json.player_ref === '' ? null : nameOrNull(json.player_ref),
    roundId: isRound && json.round_id !== '' ? textOrNull(json.round_id) : null,
    gameId: isRound ? textOrNull(gameIdOf(json.game)) : null,
    amountMinor,
    currency,
    occurredAtMicros: occurredAt ?? null,
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && isStorable(value) ? value : null;
}

function nameOrNull(value: unknown): string | null {
  const text = textOrNull(value);
  return text === null || isTooLong(text) ? null : text;
}

function isTooLong(text: string): boolean {
  return text.length > MAX_NAME_BYTES || Buffer.byteLength(text) > MAX_NAME_BYTES;
}

// --- brand and promotion rules

function brandOf(value: unknown, connection: Connection): { brand?: Brand; fault?: Fault } {
  const brand =
    connection.onlyBrand ?? (typeof value === 'string' ? connection.operator.brands.get(value) : undefined);
  const reason = brandReason(value, connection, brand);
  const found = brand === undefined ? {} : { brand };
  return reason === undefined ? found : { ...found, fault: fault(reason, '/brand', BRAND_DETAILS[reason]) };
}

const BRAND_DETAILS = {
  no_brand: 'the connection carries several brands, and brand is missing',
  brand_unexpected: 'the connection carries one brand, and brand is present',
  brand_unmapped: 'the brand is not registered for the operator',
  operator_inactive: 'the brand or its operator is not active',
} as const;

function brandReason(
  value: unknown,
  connection: Connection,
  brand: Brand | undefined,
): keyof typeof BRAND_DETAILS | undefined {
  if (connection.onlyBrand === undefined && value === undefined) return 'no_brand';
  if (connection.onlyBrand !== undefined && value !== undefined) return 'brand_unexpected';
  if (brand === undefined) return 'brand_unmapped';
  if (!brand.active || !connection.operator.active) return 'operator_inactive';
  return undefined;
}

function skipFault(
  json: Json,
  fields: Fields,
  connection: Connection | undefined,
  brand: Brand | undefined,
): Fault | undefined {
  if (fields.kind === null) return undefined;
  const reason = skipReason({ ...fields, kind: fields.kind }, connection, brand);
  if (reason === undefined) return undefined;
  const field =
    reason === 'zero_amount' || reason === 'below_min_bet'
      ? '/amount'
      : json.game === undefined
        ? '/game'
        : '/game/id';
  return fault(reason, field, SKIP_DETAILS[reason]);
}

const SKIP_DETAILS = {
  zero_amount: 'an amount of zero counts nothing',
  game_denied: 'the brand excludes the game',
  game_not_allowed: 'the game is not among those that the brand allows',
  below_min_bet: "the bet is below the brand's minimum",
  game_unknown: 'the catalogue has no such active game',
} as const;

/** The column of guards for events that are set aside, in order of precedence (V2, G1-G5). round_refunded needs state: round.ts. */
function skipReason(
  event: Fields & { kind: Kind },
  connection: Connection | undefined,
  brand: Brand | undefined,
): keyof typeof SKIP_DETAILS | undefined {
  const { kind, gameId, amountMinor, currency } = event;
  const isBetOrSettled = kind === 'bet' || kind === 'settled';
  if (isBetOrSettled && amountMinor === 0n) return 'zero_amount';
  if (connection === undefined || brand === undefined) return undefined;

  const hasGameRules = isBetOrSettled || kind === 'win';
  if (hasGameRules && gameId !== null && brand.deny.has(gameId)) return 'game_denied';
  if (hasGameRules && brand.allow !== undefined && (gameId === null || !brand.allow.has(gameId)))
    return 'game_not_allowed';

  const minBet = currency === null ? undefined : brand.minBet.get(currency);
  if (kind === 'bet' && amountMinor !== null && minBet !== undefined && amountMinor < minBet)
    return 'below_min_bet';

  const { catalogue } = connection.operator;
  if (isBetOrSettled && catalogue.size > 0 && (gameId === null || catalogue.get(gameId) !== true))
    return 'game_unknown';
  return undefined;
}

// --- content

/**
 * What was read of an event as one text, by which a true resend is told from another event under the same id (K4).
 * Valid values are normalized, so that "10.5" and "10.50", or one instant written in two zones, are the same content.
 */
function contentOf(json: Json, fields: Fields): string {
  const { kind, currency } = fields;
  const isRound = kind !== null && isRoundKind(kind);
  const hasMoney = kind !== null && kind !== 'login';
  return JSON.stringify([
    json.spec === SPEC ? 1 : raw(json.spec),
    fields.kind ?? raw(json.kind),
    fields.brand ?? raw(json.brand),
    fields.playerRef ?? raw(json.player_ref),
    fields.occurredAtMicros?.toString() ?? raw(json.occurred_at),
    isRound ? (fields.roundId ?? raw(json.round_id)) : 0,
    isRound ? (fields.gameId ?? raw(gameContent(json.game))) : 0,
    hasMoney ? (fields.amountMinor?.toString() ?? raw(json.amount)) : 0,
    hasMoney ? (currency?.code ?? raw(json.currency)) : 0,
  ]);
}

function gameContent(game: unknown): unknown {
  return typeof game === 'object' && game !== null && !Array.isArray(game) ? gameIdOf(game) : game;
}

/** A value that is not valid: a scalar as it is, a structure by its type alone, since it may be nested deeper than a stack. */
function raw(value: unknown): unknown[] {
  if (value === undefined) return [];
  if (typeof value === 'object' && value !== null) return [Array.isArray(value) ? 'array' : 'object', 0];
  return [typeof value === 'bigint' ? value.toString() : value];
}
