/** The event of `promo.event.v1` as judging and deciding use it (docs/rules.md, F1-F9). */

import type { Outcome, Reason } from '../verdict/reasons';
import type { Currency } from './money';

export const SPEC = 'promo.event.v1';

export const ROUND_KINDS = ['bet', 'win', 'settled', 'refund'] as const;
export const ACCOUNT_KINDS = ['deposit', 'withdrawal', 'login'] as const;
/** The kinds in the order of their stored codes: 1 is bet. */
export const KINDS = [...ROUND_KINDS, ...ACCOUNT_KINDS] as const;
export type Kind = (typeof KINDS)[number];

const codes = new Map<string, number>(KINDS.map((kind, index) => [kind, index + 1]));

export function isKind(text: string): text is Kind {
  return codes.has(text);
}

export function isRoundKind(kind: Kind): kind is (typeof ROUND_KINDS)[number] {
  return kindCode(kind) <= ROUND_KINDS.length;
}

/** Whether the kind reads amount and currency (F8). */
export function hasMoney(kind: Kind): boolean {
  return kind !== 'login';
}

/** The stored code of a kind. */
export function kindCode(kind: Kind): number {
  return codes.get(kind)!;
}

/** Bytes of UTF-8 that `brand` and `player_ref` may have (F3, F4). */
export const MAX_NAME_BYTES = 255;

/**
 * The fields of an event that are valid by themselves. A field is null where it is missing, wrong, or not
 * read for the kind (V6). A candidate has every field that its kind requires.
 */
export interface Fields {
  readonly kind: Kind | null;
  readonly brand: string | null;
  readonly playerRef: string | null;
  readonly roundId: string | null;
  readonly gameId: string | null;
  readonly amountMinor: bigint | null;
  readonly currency: Currency | null;
  /** Microseconds since 1970 in UTC. */
  readonly occurredAtMicros: bigint | null;
}

/** A parsed JSON object, its fields not checked. */
export type Json = Readonly<Record<string, unknown>>;

export function gameIdOf(game: unknown): unknown {
  return typeof game === 'object' && game !== null && 'id' in game ? game.id : undefined;
}

export const NO_FIELDS: Fields = {
  kind: null,
  brand: null,
  playerRef: null,
  roundId: null,
  gameId: null,
  amountMinor: null,
  currency: null,
  occurredAtMicros: null,
};

/** A fault of an event, described for the person who has to correct it. */
export interface Fault {
  readonly reason: Reason;
  /** The field at fault, as a JSON pointer ("/game/id"); "" is the whole payload. */
  readonly field: string;
  readonly detail: string;
}

/** The result of judging an event without stored state. */
export type Judged =
  | { readonly type: 'unkeyed'; readonly faults: readonly Fault[] }
  | {
      readonly type: 'keyed';
      readonly eventId: string;
      readonly fields: Fields;
      /** The number of the event's brand; null where the event names no registered brand. */
      readonly brandNo: number | null;
      /**
       * Hash of the fields that were read, from 0 to 2^53 - 1: equal for a true resend (K4). Null where
       * `contentHashOf` can compute it from `fields` alone.
       */
      readonly contentHash: number | null;
      /** The same hash without the player, from 0 to 2^30 - 1 (K6). */
      readonly restHash: number;
      /** A verdict that needs no state. Null for a candidate, which its round decides. */
      readonly refusal: Outcome | null;
      /** Every fault, the deciding one first. Empty for a candidate. */
      readonly faults: readonly Fault[];
    };
