/**
 * Attributions: a launch may name the player to whom promotions credit its rounds, in place of the player of
 * the bonus session (docs/rules.md, B1-B3).
 */
import { nearest } from '../lib/did-you-mean';
import { isObject } from '../lib/json';
import { typeOf } from '../lib/printable';

/** Characters are code points of Unicode. One has up to 4 bytes of UTF-8. */
export const MAX_PROMO_PLAYER_CHARACTERS = 255;
export const MAX_PROMO_PLAYER_BYTES = 4 * MAX_PROMO_PLAYER_CHARACTERS;

/** The launch attribute's name of the credited player. */
export const PROMO_PLAYER_REF = 'promo_player_ref';

/** One round with the player to whom it is credited. */
export interface Attribution {
  readonly roundId: string;
  /** The normal player of the operator. */
  readonly promoPlayerRef: string;
  /** The public name of the round's feed; null for the operator's own feed. */
  readonly feedId: string | null;
  /** Events of this brand alone are credited; null: events of any brand. */
  readonly brand: string | null;
}

/** A fault of an attribution. The launch fails with InvalidArgument. */
export interface AttributionFault {
  readonly field: string;
  /** Follows the name of the field: "has white space". Never the value, which may name a player. */
  readonly problem: string;
  readonly remedy: string;
}

/** @returns undefined where the value is a valid promo_player_ref (B1) */
export function promoPlayerFault(value: unknown): AttributionFault | undefined {
  const fault = textFault(PROMO_PLAYER_REF, value, 'Name the normal player');
  if (fault !== undefined || typeof value !== 'string') return fault;
  const characters = Array.from(value).length;
  if (characters > MAX_PROMO_PLAYER_CHARACTERS)
    return faultOf(
      PROMO_PLAYER_REF,
      `has ${characters} characters`,
      `It may have ${MAX_PROMO_PLAYER_CHARACTERS}`,
    );
  if (/\p{White_Space}/u.test(value))
    return faultOf(PROMO_PLAYER_REF, 'has white space', 'Remove the white space');
  return undefined;
}

const FIELDS = ['round_id', PROMO_PLAYER_REF, 'feed_id', 'brand', 'operator_id'] as const;

/**
 * Reads an attribution with the names of its JSON fields.
 *
 * @param operator the operator that every attribution has to belong to
 * @returns all faults at once, or the attribution
 */
export function readAttribution(
  json: unknown,
  operator: string,
): Attribution | { readonly faults: readonly AttributionFault[] } {
  if (!isObject(json))
    return { faults: [faultOf('', `is ${typeOf(json)}, not an object`, 'Write one JSON object')] };
  const { round_id: roundId, promo_player_ref: player, feed_id: feed, brand, operator_id: owner } = json;
  const faults = [
    textFault('round_id', roundId, 'Name the round'),
    promoPlayerFault(player),
    feed === undefined
      ? undefined
      : textFault('feed_id', feed, 'Name a feed of the operator, or leave it out'),
    brand === undefined
      ? undefined
      : textFault('brand', brand, 'Name a brand of the operator, or leave it out'),
    owner === undefined || owner === operator
      ? undefined
      : faultOf(
          'operator_id',
          'is another operator',
          'The player has to belong to the operator of the session',
        ),
    ...Object.keys(json).map(unknownField),
  ].filter((fault) => fault !== undefined);
  if (faults.length > 0 || typeof roundId !== 'string' || typeof player !== 'string') return { faults };
  return {
    roundId,
    promoPlayerRef: player,
    feedId: typeof feed === 'string' ? feed : null,
    brand: typeof brand === 'string' ? brand : null,
  };
}

function textFault(field: string, value: unknown, remedy: string): AttributionFault | undefined {
  if (value === undefined) return faultOf(field, 'is missing', remedy);
  if (typeof value !== 'string') return faultOf(field, `is ${typeOf(value)}, not a text`, remedy);
  if (value === '') return faultOf(field, 'is empty', remedy);
  if (!value.isWellFormed() || value.includes('\0'))
    return faultOf(field, 'has U+0000 or half of a surrogate pair', 'Remove this character');
  return undefined;
}

/** An ignored misspelling of feed_id or brand would credit other events than intended. */
function unknownField(name: string): AttributionFault | undefined {
  if (FIELDS.some((known) => known === name)) return undefined;
  const meant = nearest(name, FIELDS, () => MOST_TYPING_ERRORS);
  return faultOf(
    name,
    'is no field of an attribution',
    meant === undefined ? `The fields are ${FIELDS.join(', ')}` : `Did you mean ${meant}?`,
  );
}

const MOST_TYPING_ERRORS = 3;

function faultOf(field: string, problem: string, remedy: string): AttributionFault {
  return { field, problem, remedy };
}
