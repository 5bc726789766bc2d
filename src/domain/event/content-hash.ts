/**
 * The content of an event, as one number (docs/rules.md, K4).
 */

import { type Fields, gameIdOf, hasMoney, isRoundKind, type Json, kindCode, SPEC } from './event';
import { ContentHash } from './id-key';
import { plainDecimal } from './money';

/** One for all, begun anew for each event. */
const hash = new ContentHash();

/**
 * Hash of what was read of an event, by which a true resend is told from another event under the same id (K4).
 * Valid values are normalized, so that "10.5" and "10.50", or one instant written in two zones, are the same content.
 */
export function hashContent(json: Json, fields: Fields): number {
  hash.begin();
  addHead(json, fields);
  addText(fields.playerRef, json.player_ref);
  addTail(json, fields);
  return hash.value();
}

export interface Hashed {
  readonly fields: Fields;
  /** `hashContent` of the event; null where all of it is valid, and its fields are enough to make the hash of. */
  readonly contentHash: number | null;
}

/** Few events need it: it is made when it is asked for. */
export function contentHashOf({ contentHash, fields }: Hashed): number {
  return contentHash ?? hashContent(SPEC_ONLY, fields);
}

/** All that content is made of beside the fields, where each of them is valid. */
export const SPEC_ONLY: Json = { spec: SPEC };

/**
 * The same of everything but the player, in 30 bits: what stays of an event whose player is erased (K6). Says nothing of the player but
 * whether there is a valid one, which history says too.
 */
export function hashRest(json: Json, fields: Fields): number {
  hash.begin();
  addHead(json, fields);
  if (fields.playerRef !== null) hash.integer(VALID);
  else hash.integer(NOT_VALID).text(typeOf(json.player_ref));
  addTail(json, fields);
  return hash.value30();
}

const VALID = 1;

function addHead(json: Json, { kind, brand }: Fields): void {
  addInteger(json.spec === SPEC ? 0 : null, json.spec);
  addInteger(kind === null ? null : kindCode(kind), json.kind);
  addText(brand, json.brand);
}

function addTail(json: Json, fields: Fields): void {
  const { kind, currency } = fields;
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

/** The type of a player_ref that is not valid. Its value is left out: history keeps none by which erasure would find it. */
function typeOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'number';
  return value === '' ? 'empty' : typeof value;
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
