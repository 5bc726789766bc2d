/**
 * The content of an event, as one number (docs/rules.md, K4).
 */
import { ContentHash } from './digest';
import { type Fields, gameIdOf, hasMoney, isRoundKind, type Json, kindCode, SPEC } from './event';
import { plainDecimal } from './money';

/**
 * Hash of what was read of an event, by which a true resend is told from another event under the same id (K4).
 * Valid values are normalized, so that "10.5" and "10.50", or one instant written in two zones, are the same content.
 */
export function hashContent(json: Json, fields: Fields): number {
  const { kind, currency } = fields;
  const hash = new ContentHash();
  addInteger(hash, json.spec === SPEC ? 0 : null, json.spec);
  addInteger(hash, kind === null ? null : kindCode(kind), json.kind);
  addText(hash, fields.brand, json.brand);
  addText(hash, fields.playerRef, json.player_ref);
  addInteger(hash, fields.occurredAtMicros, json.occurred_at);
  if (kind !== null && isRoundKind(kind)) {
    addText(hash, fields.roundId, json.round_id);
    addText(hash, fields.gameId, gameContent(json.game));
  }
  if (kind !== null && hasMoney(kind)) {
    if (fields.amountMinor !== null) addInteger(hash, fields.amountMinor, undefined);
    else addText(hash, typeof json.amount === 'string' ? plainDecimal(json.amount) : null, json.amount);
    addInteger(hash, currency === null ? null : currency.no, json.currency);
  }
  return hash.value();
}

function addText(hash: ContentHash, valid: string | null, value: unknown): void {
  if (valid === null) addNotValid(hash, value);
  else hash.text(valid);
}

function addInteger(hash: ContentHash, valid: bigint | number | null, value: unknown): void {
  if (valid === null) {
    addNotValid(hash, value);
    return;
  }
  const integer = Number(valid);
  if (Number.isSafeInteger(integer)) hash.integer(integer);
  else hash.text(valid.toString());
}

const NOT_VALID = -1;

function addNotValid(hash: ContentHash, value: unknown): void {
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
