/**
 * The content of an event, as one number (docs/rules.md, K4).
 */
import { ContentHash } from './digest';
import { type Fields, gameIdOf, hasMoney, isRoundKind, type Json, kindCode, SPEC } from './event';
import { plainDecimal } from './money';

/** One for all, begun anew for each event. */
const hash = new ContentHash();

/**
 * Hash of what was read of an event, by which a true resend is told from another event under the same id (K4).
 * Valid values are normalized, so that "10.5" and "10.50", or one instant written in two zones, are the same content.
 */
export function hashContent(json: Json, fields: Fields): number {
  const { kind, currency } = fields;
  hash.begin();
  addInteger(json.spec === SPEC ? 0 : null, json.spec);
  addInteger(kind === null ? null : kindCode(kind), json.kind);
  addText(fields.brand, json.brand);
  addText(fields.playerRef, json.player_ref);
  addInteger(fields.occurredAtMicros, json.occurred_at);
  if (kind !== null && isRoundKind(kind)) {
    addText(fields.roundId, json.round_id);
    addText(fields.gameId, gameContent(json.game));
  }
  if (kind !== null && hasMoney(kind)) {
    if (fields.amountMinor !== null) addInteger(fields.amountMinor, undefined);
    else addText(typeof json.amount === 'string' ? plainDecimal(json.amount) : null, json.amount);
    addInteger(currency === null ? null : currency.no, json.currency);
  }
  return hash.value();
}

function addText(valid: string | null, value: unknown): void {
  if (valid === null) addNotValid(value);
  else hash.text(valid);
}

function addInteger(valid: bigint | number | null, value: unknown): void {
  if (valid === null) {
    addNotValid(value);
    return;
  }
  const integer = Number(valid);
  if (Number.isSafeInteger(integer)) hash.integer(integer);
  else hash.text(valid.toString());
}

const NOT_VALID = -1;

function addNotValid(value: unknown): void {
  hash.integer(NOT_VALID).text(rawContent(value));
}

function gameContent(game: unknown): unknown {
  return typeof game === 'object' && game !== null && !Array.isArray(game) ? gameIdOf(game) : game;
}

/** A value that is not valid: a scalar as it is, a structure by its type alone, since it may be nested deeper than a stack. */
function rawContent(value: unknown): string {
  if (value === undefined) return 'missing';
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'array' : 'object';
  return JSON.stringify(typeof value === 'bigint' ? { integer: value.toString() } : value);
}
