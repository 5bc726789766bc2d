/**
 * Turns a payload into a candidate or a refusal, by the event's schema and the reference data alone
 * (docs/rules.md, F, M, V, G). It reads no stored state.
 *
 * Pure and total: every sequence of bytes gets an answer. The cost is linear in the payload's size.
 */
import type { ErrorObject } from 'ajv/dist/2020';
import { hashContent, hashRest, SPEC_ONLY } from '../event/content-hash';
import {
  type Fault,
  type Fields,
  gameIdOf,
  hasMoney,
  isKind,
  isRoundKind,
  type Json,
  type Judged,
  type Kind,
  MAX_NAME_BYTES,
} from '../event/event';
import { type Scanned, scan } from '../event/fast-scan';
import {
  type BrandReason,
  describeBrand,
  describeError,
  describeSkip,
  notStorable,
  type SkipReason,
  tooLong,
  unknownCurrency,
  wrongAmount,
} from '../event/fault-words';
import { currencyOf, decimalsOf, toMinor } from '../event/money';
import { isStorable, type Payload, readEventId, type Texts } from '../event/payload';
import { schemaErrors } from '../event/schema-check';
import { parseInstant } from '../event/timestamp';
import type { Brand, Connection } from '../reference';
import { type Outcome, outcomeOf, type Reason, rankOf } from './reasons';

/**
 * Judges one payload of a connection.
 *
 * @param connection undefined checks the schema alone and skips the brand and game rules: for checking files.
 */
export function judge(payload: Payload, connection: Connection | undefined): Judged {
  if (payload.type === 'json' && payload.bytes !== null) {
    const scanned = scan(payload.bytes, connection?.onlyBrand?.id, payload.from, payload.to);
    if (scanned !== undefined) return conclude(scanned, SPEC_ONLY, NO_FAULTS, connection);
  }
  return judgeBySchema(payload, connection);
}

const NO_FAULTS: readonly Fault[] = [];

function judgeBySchema(payload: Payload, connection: Connection | undefined): Judged {
  const event = readEventId(payload);
  if ('reason' in event) return { type: 'unkeyed', faults: [event] };
  const { eventId, json, texts } = event;
  const fields = readFields(json, connection, texts);
  const faults: Fault[] = [];
  addSchemaFaults(json, faults);
  addTextFaults(json, texts, faults);
  addAmountFault(json, fields, faults);
  const read = { eventId, brand: json.brand, hasGame: json.game !== undefined, fields };
  return conclude(read, json, faults, connection);
}

interface Read extends Omit<Scanned, 'brand'> {
  /** The field as the sender wrote it, of any type. */
  readonly brand: unknown;
}

/**
 * Adds the faults that the reference data finds to those of the schema. The first fault by precedence
 * decides.
 */
function conclude(
  read: Read,
  json: Json,
  schemaFaults: readonly Fault[],
  connection: Connection | undefined,
): Judged {
  const { eventId, fields } = read;
  const brand = connection && brandFor(read.brand, connection);
  const brandFault = connection && brandFaultOf(read.brand, connection, brand, json);
  const skip = skipFault(read, json, schemaFaults, connection, brand);
  let faults = schemaFaults;
  if (brandFault) faults = [...faults, brandFault];
  if (skip) faults = [...faults, skip];
  if (faults.length > 1) faults = [...faults].sort((a, b) => rankOf(a.reason) - rankOf(b.reason));
  const deciding = faults[0];
  return {
    type: 'keyed',
    eventId,
    fields,
    brandNo: (fields.brand !== null && connection?.operator.brands.get(fields.brand)?.no) || null,
    contentHash: json === SPEC_ONLY ? null : hashContent(json, fields),
    restHash: hashRest(json, fields),
    refusal: deciding === undefined ? null : outcomeOf(deciding.reason),
    faults,
  };
}

/**
 * The outcome of an event whose processing failed (V9). Of its fields only the id is stored, since any other
 * field may have caused the failure.
 */
export const PANIC: Outcome = outcomeOf('panic');

function fault(reason: Reason, field: string, detail: string): Fault {
  return { reason, field, detail };
}

// --- the schema

/**
 * Keywords whose faults are found elsewhere. `if` repeats the fault of its `then`. Lengths are measured in
 * bytes below, which is stricter than `maxLength`.
 */
const COVERED_KEYWORDS = new Set(['if', 'maxLength']);

function addSchemaFaults(json: Json, faults: Fault[]): void {
  for (const error of schemaErrors(json)) {
    if (!COVERED_KEYWORDS.has(error.keyword)) faults.push(toFault(error, json));
  }
}

function toFault(error: ErrorObject, json: Json): Fault {
  const missing: unknown = error.keyword === 'required' ? error.params.missingProperty : undefined;
  const field = typeof missing === 'string' ? `/${missing}` : error.instancePath;
  return fault(
    reasonOf(field, error.keyword),
    error.keyword === 'not' ? '/events' : field,
    describeError(error, field, json),
  );
}

/** The reason for a broken rule of the schema (V4). */
function reasonOf(field: string, keyword: string): Reason {
  if (field === '/amount') return 'bad_amount';
  if (field === '/player_ref' && (keyword === 'required' || keyword === 'minLength')) return 'no_player';
  if (field === '/kind' && keyword === 'enum') return 'op_unknown';
  if (field === '/currency' && keyword === 'required') return 'currency_unknown';
  return 'malformed';
}

// --- rules that JSON Schema cannot express

/**
 * The text fields that every kind reads. `event_id` has a reason of its own. `spec` and `occurred_at` cannot
 * hold a text that is not storable.
 */
const COMMON_TEXTS = ['brand', 'player_ref', 'kind'] as const;

function addTextFaults(json: Json, texts: Texts, faults: Fault[]): void {
  for (const name of ['brand', 'player_ref'] as const) {
    const value = json[name];
    if (typeof value === 'string' && isTooLong(value)) {
      faults.push(fault('malformed', `/${name}`, tooLong(name, value)));
    }
  }
  if (texts === 'storable') return;
  const check = (field: string, value: unknown) => {
    if (typeof value === 'string' && !isStorable(value, texts)) {
      faults.push(fault('malformed', field, notStorable(field.slice(1).replaceAll('/', '.'), value)));
    }
  };
  for (const name of COMMON_TEXTS) check(`/${name}`, json[name]);
  const kind = kindOf(json);
  if (kind !== null && isRoundKind(kind)) {
    check('/round_id', json.round_id);
    check('/game/id', gameIdOf(json.game));
  }
  if (kind !== null && hasMoney(kind)) check('/currency', json.currency);
}

function kindOf(json: Json): Kind | null {
  return typeof json.kind === 'string' && isKind(json.kind) ? json.kind : null;
}

function addAmountFault(json: Json, fields: Fields, faults: Fault[]): void {
  const { kind, currency } = fields;
  if (kind === null || !hasMoney(kind) || fields.amountMinor !== null) return;
  if (typeof json.currency === 'string' && currency === null) {
    faults.push(fault('currency_unknown', '/currency', unknownCurrency(json.currency)));
    return;
  }
  if (typeof json.amount !== 'string' || currency === null) return;
  const decimals = decimalsOf(json.amount);
  if (decimals < 0) return;
  faults.push(fault('bad_amount', '/amount', wrongAmount(json.amount, decimals, currency)));
}

/**
 * Reads each field that is valid by itself (V6). A connection with one brand supplies the brand of an event
 * that names none.
 */
function readFields(json: Json, connection: Connection | undefined, texts: Texts): Fields {
  const kind = kindOf(json);
  const isRound = kind !== null && isRoundKind(kind);
  const readsMoney = kind !== null && hasMoney(kind);
  const currency =
    readsMoney && typeof json.currency === 'string' ? (currencyOf(json.currency) ?? null) : null;
  const amountMinor =
    currency !== null && typeof json.amount === 'string'
      ? (toMinor(json.amount, currency.scale) ?? null)
      : null;
  const occurredAt = typeof json.occurred_at === 'string' ? parseInstant(json.occurred_at) : undefined;
  return {
    kind,
    brand: json.brand === undefined ? (connection?.onlyBrand?.id ?? null) : nameOrNull(json.brand, texts),
    playerRef: json.player_ref === '' ? null : nameOrNull(json.player_ref, texts),
    roundId: isRound && json.round_id !== '' ? textOrNull(json.round_id, texts) : null,
    gameId: isRound ? textOrNull(gameIdOf(json.game), texts) : null,
    amountMinor,
    currency,
    occurredAtMicros: occurredAt ?? null,
  };
}

function textOrNull(value: unknown, texts: Texts): string | null {
  return typeof value === 'string' && isStorable(value, texts) ? value : null;
}

function nameOrNull(value: unknown, texts: Texts): string | null {
  const text = textOrNull(value, texts);
  return text === null || isTooLong(text) ? null : text;
}

/** One UTF-16 unit takes at most three bytes of UTF-8. */
const MAX_UNIT_BYTES = 3;

function isTooLong(text: string): boolean {
  if (text.length * MAX_UNIT_BYTES <= MAX_NAME_BYTES) return false;
  return text.length > MAX_NAME_BYTES || Buffer.byteLength(text) > MAX_NAME_BYTES;
}

// --- brand and promotion rules

function brandFor(value: unknown, { onlyBrand, operator }: Connection): Brand | undefined {
  return onlyBrand ?? (typeof value === 'string' ? operator.brands.get(value) : undefined);
}

function brandFaultOf(
  value: unknown,
  connection: Connection,
  brand: Brand | undefined,
  json: Json,
): Fault | undefined {
  const reason = brandReason(value, connection, brand);
  if (reason === undefined) return undefined;
  return fault(reason, '/brand', describeBrand(reason, value, connection, json));
}

function brandReason(
  value: unknown,
  connection: Connection,
  brand: Brand | undefined,
): BrandReason | undefined {
  if (connection.onlyBrand === undefined && value === undefined) return 'no_brand';
  if (connection.onlyBrand !== undefined && value !== undefined) return 'brand_unexpected';
  // The schema has found that the brand is no text.
  if (brand === undefined) return typeof value === 'string' ? 'brand_unmapped' : undefined;
  if (!brand.active || !connection.operator.active) return 'operator_inactive';
  return undefined;
}

function skipFault(
  { fields, hasGame }: Read,
  json: Json,
  schemaFaults: readonly Fault[],
  connection: Connection | undefined,
  brand: Brand | undefined,
): Fault | undefined {
  // A game with a fault of its own is no missing game.
  const lacksGame =
    fields.gameId === null && !schemaFaults.some(({ field }) => field === '/game' || field === '/game/id');
  const reason = skipReason(fields, lacksGame, connection, brand);
  if (reason === undefined) return undefined;
  const field =
    reason === 'zero_amount' || reason === 'below_min_bet' ? '/amount' : hasGame ? '/game/id' : '/game';
  return fault(reason, field, describeSkip(reason, fields, brand, connection, json));
}

/**
 * The rules that skip an event, in order of precedence (V2, G1-G5). `round_refunded` needs state and is in
 * round.ts.
 */
function skipReason(
  event: Fields,
  lacksGame: boolean,
  connection: Connection | undefined,
  brand: Brand | undefined,
): SkipReason | undefined {
  const { kind, gameId, amountMinor, currency } = event;
  const isBetOrSettled = kind === 'bet' || kind === 'settled';
  if (isBetOrSettled && amountMinor === 0n) return 'zero_amount';
  if (connection === undefined || brand === undefined) return undefined;

  const hasGameRules = isBetOrSettled || kind === 'win';
  if (hasGameRules && gameId !== null && brand.deny.has(gameId)) return 'game_denied';
  if (hasGameRules && brand.allow !== undefined && (gameId === null ? lacksGame : !brand.allow.has(gameId)))
    return 'game_not_allowed';

  const minBet = currency === null ? undefined : brand.minBet.get(currency);
  if (kind === 'bet' && amountMinor !== null && minBet !== undefined && amountMinor < minBet)
    return 'below_min_bet';

  const { catalogue } = connection.operator;
  if (isBetOrSettled && catalogue.size > 0 && (gameId === null ? lacksGame : catalogue.get(gameId) !== true))
    return 'game_unknown';
  return undefined;
}
