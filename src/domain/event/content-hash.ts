/**
 * The content of an event as one number (docs/rules.md, K4), and as the store keeps it with the event's key
 * (K6).
 */

import { type Fields, gameIdOf, hasMoney, isRoundKind, type Json, kindCode, SPEC } from './event';
import { ContentHash } from './id-key';
import { plainDecimal } from './money';
import type { PlayerTags, Tagged } from './player-tag';

/** One object for all events; `begin` resets it. */
const hash = new ContentHash();

/**
 * Hash of the fields that were read of an event. It distinguishes a true resend from another event with the
 * same id (K4).
 *
 * Valid values are normalized: "10.5" and "10.50" are the same content, and so is one instant written in two
 * zones.
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
  /**
   * `hashContent` of the event. Null where every field is valid, since `fields` is then enough to compute it.
   */
  readonly contentHash: number | null;
}

/** The content hash, computed on demand, since few events need it. */
export function contentHashOf({ contentHash, fields }: Hashed): number {
  return contentHash ?? hashContent(SPEC_ONLY, fields);
}

/** The content beside the fields, for an event whose fields are all valid. */
export const SPEC_ONLY: Json = { spec: SPEC };

/**
 * Hash of all content except the player, in 30 bits. It remains after the player is erased (K6). It reveals
 * only whether the player is valid, which history also shows.
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

/**
 * The type of a player_ref that is not valid. The value is left out, since erasure could not find it in
 * history.
 */
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

/**
 * An invalid value: a scalar as it is, a structure by its type alone, since recursion into deep nesting would
 * overflow the stack.
 */
function rawContent(value: unknown): string {
  if (value === undefined) return 'missing';
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'array' : 'object';
  return JSON.stringify(typeof value === 'bigint' ? { integer: value.toString() } : value);
}

// --- the stored content

/** The parts of a delivery that are compared to find whether two deliveries have the same content. */
export interface Content extends Tagged, Hashed {
  readonly fields: Fields;
  /** A hash of everything but the player, from 0 to 2^30 - 1. */
  readonly restHash: number;
}

/**
 * Nothing is known of the content. It is the lowest number; no event's content has it, since its month would
 * be January 2020.
 */
export const FORGOTTEN = -(2n ** 63n);

const TAG_RANGE = 2 ** 24;
/** The number of values of `restHash`'s lowest bits, which share a half with the tag. */
const REST_LOW_RANGE = 2 ** 8;

/**
 * The stored content has 64 bits, in one of two formats:
 *
 * - Zero or more: the 53 bits of `contentHash`, which cover the player. It is the format of events decided
 * before the first month with a key for tags.
 * - Negative: 9 bits of month, 30 bits over everything but the player, 24 bits of the player's tag. A tag of
 * 0 means that there is no player, or that the player is erased.
 *
 * `promo.erase_player` removes the tag from the second format, and replaces the first format by FORGOTTEN.
 *
 * It is made in two halves of 32 bits: a bigint for each event costs more.
 */
export interface Halves {
  high: number;
  low: number;
}

/** Writes the stored form of an event's content into `halves`. */
export function packContent(content: Content, tags: PlayerTags, halves: Halves): void {
  const { month } = tags;
  if (month === null) {
    const contentHash = contentHashOf(content);
    halves.high = Math.floor(contentHash / 2 ** 32);
    halves.low = contentHash >>> 0;
    return;
  }
  const { restHash } = content;
  halves.high = 0x80000000 | (month << 22) | (restHash >>> 8);
  halves.low = ((restHash % REST_LOW_RANGE) * TAG_RANGE + shortTag(tags.of(content))) >>> 0;
}

/** The lowest bits of a tag, never 0. 0 means no tag. */
function shortTag(tag: number | null): number {
  return tag === null ? 0 : tag % TAG_RANGE || 1;
}

/**
 * Whether a delivery certainly differs from a stored content. Erased parts, and parts dropped with their
 * month, are not compared.
 */
export function differsFromStored(stored: bigint, content: Content, tags: PlayerTags): boolean {
  if (stored >= 0n) return Number(stored) !== contentHashOf(content);
  if (stored === FORGOTTEN) return false;
  if (Number(BigInt.asUintN(30, stored >> 24n)) !== content.restHash) return true;
  const stored24 = Number(BigInt.asUintN(24, stored));
  const month = Number(BigInt.asUintN(9, stored >> 54n));
  if (stored24 === 0) return false;
  const tag = tags.ofMonth(month, content);
  return tag !== null && shortTag(tag) !== stored24;
}
