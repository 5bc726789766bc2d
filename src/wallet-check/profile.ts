/**
 * The profile of a wallet: all that the documents do not show. schemas/wallet-profile.schema.json describes
 * the same structure for editors.
 */
import type { WalletAction } from '../contract/actions';
import type { HmacSigning } from '../wallet/profile';
import type { AmountForm, PayloadJson } from './template';

/** A player of the test wallet that a scenario needs. The wallet has them before the check begins. */
export const PLAYER_KINDS = ['usual', 'poor', 'blocked', 'expired', 'limited', 'unknown'] as const;
export type PlayerKind = (typeof PLAYER_KINDS)[number];

export interface TestPlayer {
  readonly id: string;
  readonly token: string;
  readonly currency: string;
  readonly exponent: number;
  /** The op_id of a bet that the wallet took before, for wallets whose wins must name one. */
  readonly earlierBet: string | null;
}

export interface ActionProfile {
  readonly path: string;
  readonly payload: PayloadJson;
  /** The path of a field of the payload that takes only certain words. */
  readonly enumField: string | null;
}

export interface Signing extends Omit<HmacSigning, 'type'> {
  readonly secretFile: string;
}

export const SIGNING_SCHEMES = ['hmac-sha256', 'hmac-sha512'] as const;

export const TIMESTAMP_FORMS = ['rfc3339', 'unix_s', 'unix_ms'] as const;
export type TimestampForm = (typeof TIMESTAMP_FORMS)[number];

export interface WalletProfile {
  readonly baseUrl: string;
  readonly operatorId: string;
  readonly keyId: string;
  readonly idempotencyHeader: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly ts: TimestampForm;
  readonly amounts: AmountForm;
  readonly game: string;
  readonly signing: Signing | null;
  readonly actions: ReadonlyMap<WalletAction, ActionProfile>;
  /** Optional actions that the wallet does not implement. They are sent to this path. */
  readonly unsupported: ReadonlyMap<WalletAction, string>;
  readonly answers: AnswerProfile;
  readonly players: ReadonlyMap<PlayerKind, TestPlayer>;
  readonly limits: CheckLimits;
  readonly catalogue: CatalogueProfile | null;
  readonly tokenEndpoint: TokenProfile | null;
}

/** A request of one of the operator's other endpoints. */
export interface EndpointRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: ReadonlyMap<string, string>;
  /** Sent with POST. Null: nothing. */
  readonly body: PayloadJson | null;
}

export interface CatalogueProfile extends EndpointRequest {
  /** The header with the time of the request, in seconds since 1970. */
  readonly timestampHeader: string;
  /** The query parameter with the limit of a diff. */
  readonly limitParameter: string;
  /** The path of the list of games in an answer. */
  readonly items: string;
}

export interface TokenProfile extends EndpointRequest {
  /** The path of a JSON Web Token, whose claims are read. Null: the answer itself has the two fields. */
  readonly jwt: string | null;
  /** The path of the expiry: seconds or milliseconds since 1970, or RFC 3339. */
  readonly expiry: string;
  /** The path of the player's id. */
  readonly playerId: string;
}

export interface AnswerProfile {
  /** The path of the balance in the answer to `balance`. */
  readonly balance: string;
  /** How a success is recognized. Null: `status` is a text other than `error`. */
  readonly success: { readonly field: string; readonly values: readonly string[] } | null;
  /** Paths of fields that may differ between an answer and its repetition. */
  readonly changing: readonly string[];
}

export interface CheckLimits {
  readonly requests: number;
  readonly seconds: number;
}

export const DEFAULT_CHECK_LIMITS: CheckLimits = { requests: 2_000, seconds: 300 };
/** The most that a profile may set. */
export const LARGEST_CHECK_LIMITS: CheckLimits = { requests: 20_000, seconds: 3_600 };
