/**
 * The name that a sender probably meant: of a field, a kind or a brand. Each search has a limit, since
 * senders choose its input.
 */

import { nearest } from '../../lib/did-you-mean';
import { isObject } from '../../lib/json';
import { quoted } from '../../lib/printable';
import type { Json } from './event';

/** The most keys of an event that are compared, and the most characters of a name. */
const MAX_KEYS = 50;
const MAX_NAME_LENGTH = 24;
/** The most known names that a word is compared with. */
const MAX_CANDIDATES = 200;

/** Names of the fields in other systems, in the form of `formOf`. */
const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  spec: ['version', 'specversion', 'schema', 'format'],
  event_id: ['id', 'uuid', 'eventuuid', 'transactionid', 'idempotencykey'],
  brand: ['brandid', 'brandname'],
  player_ref: ['player', 'playerid', 'externalplayerid', 'userid', 'customerid'],
  kind: ['type', 'eventtype', 'eventkind', 'action'],
  round_id: ['round', 'gameroundid'],
  amount: ['value', 'stake', 'sum'],
  currency: ['currencycode', 'ccy'],
  occurred_at: ['timestamp', 'ts', 'time', 'date', 'datetime', 'eventtime', 'createdat', 'occurred'],
};

/**
 * The names of all fields. A key with such a name means that field, so it is never a slip for another one.
 */
const FIELDS: ReadonlySet<string> = new Set([...Object.keys(OTHER_NAMES), 'game']);

/**
 * Returns `; there is "eventId": did you mean event_id?`, or an empty text.
 * @param field the missing field
 */
export function misspeltField(json: Json, field: string): string {
  const key = keyMeant(json, field);
  return key === undefined ? '' : `; there is ${quoted(key)}: did you mean ${field}?`;
}

/** The first keys of an object, without those that are too long for a name, and those of other fields. */
function shortKeys(json: Json): string[] {
  const keys: string[] = [];
  let looked = 0;
  for (const key in json) {
    if (++looked > MAX_KEYS) break;
    if (key.length <= MAX_NAME_LENGTH && !FIELDS.has(key)) keys.push(key);
  }
  return keys;
}

function keyMeant(json: Json, field: string): string | undefined {
  const keys = shortKeys(json);
  const others = OTHER_NAMES[field] ?? [];
  const near = keys.filter((key) => Math.abs(formOf(key).length - formOf(field).length) <= MOST_SLIPS);
  return nearest(field, near, slipsOf, formOf) ?? keys.find((key) => others.includes(formOf(key)));
}

/** Names of `game` at the top of an event, and of `id` inside `game`, in the form of `formOf`. */
const GAME_NAMES = ['game', 'games', 'gameid', 'gamecode', 'gameref', 'gamekey', 'gameuuid', 'gameslug'];
const GAME_ID_NAMES = [...GAME_NAMES, 'uuid', 'code', 'key', 'ref', 'slug', 'identifier', 'name', 'gamename'];

/**
 * The same for an event without a game, or with a game that has no `id`: `; game has "game_id": did you mean
 * id?`.
 */
export function misspeltGame(json: Json): string {
  const { game } = json;
  if (game === undefined) {
    const key = shortKeys(json).find((each) => GAME_NAMES.includes(formOf(each)));
    return key === undefined ? '' : `; there is ${quoted(key)}: did you mean "game": {"id": ...}?`;
  }
  if (!isObject(game)) return '';
  const keys = shortKeys(game);
  const key =
    nearest('id', keys, () => 1, formOf) ?? keys.find((each) => GAME_ID_NAMES.includes(formOf(each)));
  return key === undefined ? '' : `; game has ${quoted(key)}: did you mean id?`;
}

/** Returns `; did you mean "bet"?`, or an empty text. */
export function didYouMean(word: string, known: Iterable<string>): string {
  if (word.length > MAX_NAME_LENGTH) return '';
  const candidates: string[] = [];
  let looked = 0;
  for (const candidate of known) {
    if (++looked > MAX_CANDIDATES) break;
    if (Math.abs(candidate.length - word.length) <= MOST_SLIPS) candidates.push(candidate);
  }
  const near = nearest(word, candidates, slipsOf, formOf);
  return near === undefined ? '' : `; did you mean ${quoted(near)}?`;
}

const MOST_SLIPS = 2;

/** The most slips that can explain a difference. A short word with two slips is another word. */
function slipsOf(candidate: string): number {
  return candidate.length < 4 ? 1 : MOST_SLIPS;
}

/** The form in which names are compared, without case and without separators of words. */
function formOf(text: string): string {
  return text.toLowerCase().replace(/[-_. ]/g, '');
}
