/** The name that a sender probably meant: of a field, a kind or a brand. Each look has a limit, since senders choose what it looks at. */

import { nearest } from '../../lib/did-you-mean';
import { quoted } from '../../lib/printable';
import type { Json } from './event';

/** Keys of an event that are compared, and characters of a name. */
const MAX_KEYS = 50;
const MAX_NAME_LENGTH = 24;
/** Known names that a word is compared with. */
const MAX_CANDIDATES = 200;

/** What other systems call the fields, in the form of `formOf`. */
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

/** Names of fields, of which each stands for itself: none of them is a slip for another one. */
const FIELDS: ReadonlySet<string> = new Set([...Object.keys(OTHER_NAMES), 'game']);

/** `; the event has "eventId": did you mean event_id?`, or nothing. @param field that is missing */
export function misspeltField(json: Json, field: string): string {
  const key = keyMeant(json, field);
  return key === undefined ? '' : `; there is ${quoted(key)}: did you mean ${field}?`;
}

function keyMeant(json: Json, field: string): string | undefined {
  const keys: string[] = [];
  let looked = 0;
  for (const key in json) {
    if (++looked > MAX_KEYS) break;
    if (key.length <= MAX_NAME_LENGTH && !FIELDS.has(key)) keys.push(key);
  }
  const others = OTHER_NAMES[field] ?? [];
  const near = keys.filter((key) => Math.abs(formOf(key).length - formOf(field).length) <= MOST_SLIPS);
  return nearest(field, near, slipsOf, formOf) ?? keys.find((key) => others.includes(formOf(key)));
}

/** `; did you mean "bet"?`, or nothing. */
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

/** Slips that explain the difference: a short word with two of them is another word. */
function slipsOf(candidate: string): number {
  return candidate.length < 4 ? 1 : MOST_SLIPS;
}

/** What is compared: neither case nor what parts words counts. */
function formOf(text: string): string {
  return text.toLowerCase().replace(/[-_. ]/g, '');
}
