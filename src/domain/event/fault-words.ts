/**
 * Describes faults in words: the value that came, the values that are allowed, and the probable intention.
 * Only an event with a fault costs this.
 *
 * The texts repeat no value of player_ref and no payload. Topics keep these texts, and erasure does not reach
 * topics.
 */
import type { ErrorObject } from 'ajv/dist/2020';
import { counted, described, quoted, typeOf } from '../../lib/printable';
import type { Brand, Connection } from '../reference';
import { type Fields, gameIdOf, type Json, KINDS, MAX_NAME_BYTES, SPEC } from './event';
import { didYouMean, misspeltField, misspeltGame } from './misspelt';
import { CURRENCIES, type Currency, toMajor } from './money';

const PLAYER = 'player_ref';
/** The most brands of an operator that a text lists. */
const MAX_LISTED = 10;
const CURRENCY_CODES = CURRENCIES.map(({ code }) => code).join(', ');

/**
 * Describes a fault that the schema found.
 * @param field JSON pointer
 */
export function describeError(error: ErrorObject, field: string, json: Json): string {
  const name = nameOf(field);
  const value = valueAt(json, field);
  switch (error.keyword) {
    case 'required':
      return `${name} is missing${misspeltField(json, name)}`;
    case 'not':
      return describeBatch(json);
    case 'const':
      return `${name} is ${described(value)}, and must be "${SPEC}"`;
    case 'enum':
      return describeKind(value);
    case 'minLength':
      return `${name} is empty`;
    case 'pattern':
      return String(value).startsWith('-')
        ? `${name} ${quoted(String(value))} has a sign, and must be a plain decimal such as "10.50"`
        : `${name} ${quoted(String(value))} is not a plain decimal such as "10.50"`;
    case 'format':
      return `${name} ${quoted(String(value))} is not an RFC 3339 date-time with a zone, such as "2026-11-21T12:00:00Z"`;
    case 'type':
      return wrongType(name, value, String(error.params.type));
    default:
      return `${name} ${error.message ?? 'is not valid'}`;
  }
}

function nameOf(field: string): string {
  return field.slice(1).replaceAll('/', '.');
}

function valueAt(json: Json, field: string): unknown {
  if (field === '/game/id') return gameIdOf(json.game);
  const name = field.slice(1);
  return Object.hasOwn(json, name) ? json[name] : undefined;
}

/** @param type a type of JSON Schema */
function wrongType(name: string, value: unknown, type = 'string'): string {
  const came = name === PLAYER ? typeOf(value) : described(value);
  return `${name} is ${came}, and must be ${type === 'object' ? 'an object' : 'a text'}`;
}

function describeKind(value: unknown): string {
  if (typeof value !== 'string') return wrongType('kind', value);
  return `kind ${quoted(value)} is none of ${KINDS.join(', ')}${didYouMean(value, KINDS)}`;
}

/** Describes an object with a key `events`. */
function describeBatch({ events }: Json): string {
  const batch = Array.isArray(events) ? `a batch of ${counted(events.length, 'event')}` : 'a batch';
  return `the object has a key "events", so it is ${batch}. A record holds one event, and only the webhook accepts batches`;
}

/** Explains why an object has no usable event_id. */
export function describeEventId(json: Json): string {
  const { event_id: value } = json;
  if (typeof value === 'string') {
    return value === '' ? 'event_id is empty' : notStorable('event_id', value);
  }
  if (value !== undefined) return wrongType('event_id', value);
  if (Object.hasOwn(json, 'events')) return `event_id is missing: ${describeBatch(json)}`;
  return `event_id is missing${misspeltField(json, 'event_id') || describeWrapping(json)}`;
}

/** The most keys that are searched for an event. */
const MAX_WRAPPINGS = 10;

/** `; the object at "data" has one: send that object by itself`, or nothing. */
function describeWrapping(json: Json): string {
  let looked = 0;
  for (const key in json) {
    if (++looked > MAX_WRAPPINGS) break;
    const value: unknown = json[key];
    if (typeof value === 'object' && value !== null && 'event_id' in value)
      return `; the object at ${quoted(key)} has one: send that object by itself`;
  }
  return '';
}

/** Describes the value that came in place of an event. */
export function describeNoObject(value: unknown): string {
  if (Array.isArray(value))
    return `the payload is ${typeOf(value)}, and must be an object: send each event by itself`;
  if (typeof value === 'string' && /^\s*[[{]/.test(value))
    return 'the payload is a JSON text that holds JSON: it was encoded twice';
  return `the payload is ${typeOf(value)}, and must be an object`;
}

export function tooLong(name: string, value: string): string {
  const came = name === PLAYER ? '' : `: ${quoted(value)}`;
  return `${name} is longer than ${MAX_NAME_BYTES} bytes of UTF-8: it has ${Buffer.byteLength(value)}${came}`;
}

export function notStorable(name: string, value: string): string {
  const came = name === PLAYER ? '' : `: ${quoted(value)}`;
  return `${name} holds ${value.includes('\0') ? 'U+0000' : 'half of a surrogate pair'}${came}`;
}

export function unknownCurrency(value: string): string {
  return `currency ${quoted(value)} is not in the table: ${CURRENCY_CODES}${didYouMean(
    value,
    CURRENCIES.map(({ code }) => code),
  )}`;
}

/** Describes a well-formed amount that its currency does not allow. */
export function wrongAmount(amount: string, decimals: number, { code, scale }: Currency): string {
  return decimals > scale
    ? `amount ${quoted(amount)} has ${counted(decimals, 'decimal')}, ${code} has ${scale}`
    : `amount ${quoted(amount)} does not fit 64 bits in minor units of ${code}`;
}

// --- brand and promotion rules

export type BrandReason = 'no_brand' | 'brand_unexpected' | 'brand_unmapped' | 'operator_inactive';

/**
 * @param json the event. `SPEC_ONLY` is enough for an event in its usual form, which has no misspelt field.
 */
export function describeBrand(
  reason: BrandReason,
  value: unknown,
  connection: Connection,
  json: Json,
): string {
  const { onlyBrand, operator } = connection;
  switch (reason) {
    case 'no_brand':
      return `the connection carries several brands, but brand is missing${misspeltField(json, 'brand')}`;
    case 'brand_unexpected':
      return `the connection carries one brand, ${quoted(onlyBrand?.id ?? '')}, so brand must be absent, but it is ${described(value)}`;
    case 'brand_unmapped': {
      const written = typeof value === 'string' ? value : '';
      const ids = [...operator.brands.keys()];
      const more = ids.length > MAX_LISTED ? ` and ${ids.length - MAX_LISTED} more` : '';
      const known = ids.slice(0, MAX_LISTED).map(quoted).join(', ') || 'none';
      return `the brand ${quoted(written)} is not registered for the operator; registered: ${known}${more}${didYouMean(written, ids)}`;
    }
    case 'operator_inactive': {
      if (!operator.active) return 'the operator is not active';
      const id = onlyBrand?.id ?? value;
      return `the brand ${typeof id === 'string' ? quoted(id) : ''} is not active`;
    }
  }
}

export type SkipReason =
  | 'zero_amount'
  | 'game_denied'
  | 'game_not_allowed'
  | 'below_min_bet'
  | 'game_unknown';

/** @param json the event. `SPEC_ONLY` is enough for an event in its usual form. */
export function describeSkip(
  reason: SkipReason,
  { amountMinor, currency, gameId }: Fields,
  brand: Brand | undefined,
  connection: Connection | undefined,
  json: Json,
): string {
  switch (reason) {
    case 'zero_amount':
      return 'an amount of zero has no effect';
    case 'game_denied':
      return `the brand excludes the game ${quoted(gameId ?? '')}`;
    case 'game_not_allowed':
      return gameId === null
        ? `the event names no game, but the brand lists the games that it allows${misspeltGame(json)}`
        : `the game ${quoted(gameId)} is not on the list of games that the brand allows`;
    case 'below_min_bet': {
      const least = currency === null ? undefined : brand?.minBet.get(currency);
      if (currency === null || least === undefined || amountMinor === null)
        return "the bet is below the brand's minimum";
      const [amount, minimum] = [amountMinor, least].map((minor) => toMajor(minor, currency.scale));
      return `the bet of ${amount} ${currency.code} is below the brand's minimum of ${minimum} ${currency.code}`;
    }
    case 'game_unknown': {
      if (gameId === null)
        return `the event names no game, but the catalogue holds games${misspeltGame(json)}`;
      const isListed = connection?.operator.catalogue.has(gameId) === true;
      return `the catalogue has no active game ${quoted(gameId)}${isListed ? ': it lists the game as inactive' : ''}`;
    }
  }
}
