/**
 * A wallet as its developer describes it, for `wallet-check`, the sandbox, and every caller of wallets. The
 * documents show one path and no payload. schemas/wallet-profile.schema.json describes the same file for
 * editors. Pure: no secret is part of a profile.
 */
import type { WalletAction } from '../contract/actions';
import { isObject } from '../lib/json';
import { hasOtherStatus, type SuccessRule } from './answer';
import type { AmountForm, Template } from './template';

/** A call of the wallet. */
export interface ActionProfile {
  /** Behind the path of the base URL. It begins with a slash. */
  readonly path: string;
  readonly payload: Template;
  /** The path of a field of the payload that takes only certain words. */
  readonly enumField: string | null;
}

export const SIGNING_SCHEMES = ['hmac-sha256', 'hmac-sha512'] as const;

/** The keyed hash over a text of the request. */
export interface Signing {
  readonly scheme: (typeof SIGNING_SCHEMES)[number];
  readonly encoding: 'hex' | 'base64';
  /** The header of the signature. */
  readonly header: string;
  /** The text before the signature in its header, such as `sha256=`. */
  readonly prefix: string;
  /** The header of the signed time in seconds. Null: no such header. */
  readonly timestampHeader: string | null;
  /** The signed text, with its places. */
  readonly content: string;
  /** Beside the profile. */
  readonly secretFile: string;
}

/** The forms of `ts`. */
export const TIMESTAMP_FORMS = ['rfc3339', 'unix_s', 'unix_ms'] as const;

export interface AnswerProfile {
  /** The path of the balance in the answer to `balance`. */
  readonly balance: string;
  /** The field of a success, and its values. Null: `status` is a text other than `error`. */
  readonly success: { readonly field: string; readonly values: readonly string[] } | null;
  /** Paths of fields that may differ between an answer and its repetition. */
  readonly changing: readonly string[];
}

/** All that a caller of the wallet needs. */
export interface CallProfile {
  /** Without credentials, query and fragment. */
  readonly baseUrl: string;
  readonly operatorId: string;
  /** The value of the header X-API-Key-Id. */
  readonly keyId: string;
  /** The name of the idempotency header. Its value is the op_id. */
  readonly idempotencyHeader: string;
  /** More headers of each call. */
  readonly headers: ReadonlyMap<string, string>;
  readonly ts: (typeof TIMESTAMP_FORMS)[number];
  readonly amounts: AmountForm;
  readonly signing: Signing | null;
  /** An action that is not listed is not supported by the wallet. */
  readonly actions: ReadonlyMap<WalletAction, ActionProfile>;
  readonly answers: AnswerProfile;
  /**
   * The calls that one process sends at a time, 2 or more. Half of them are for resent calls. No limit holds
   * over all processes: choose the number that the wallet takes, divided by the most processes that will run.
   */
  readonly connections: number;
}

export const CONNECTIONS = { least: 2, most: 1_000, usual: 8 } as const;

/** A whole file: the calls of a test wallet, its players, and the operator's other endpoints. */
export interface WalletProfile extends CallProfile {
  /** The value of the place `game` in a check. */
  readonly game: string;
  /** Optional actions that the wallet does not implement. They are sent to this path. */
  readonly unsupported: ReadonlyMap<WalletAction, string>;
  readonly players: ReadonlyMap<PlayerKind, TestPlayer>;
  readonly limits: CheckLimits;
  readonly catalogue: CatalogueProfile | null;
  readonly tokenEndpoint: TokenProfile | null;
}

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

export interface CheckLimits {
  readonly requests: number;
  readonly seconds: number;
}

export const DEFAULT_CHECK_LIMITS: CheckLimits = { requests: 2_000, seconds: 300 };
/** The most that a profile may set. */
export const LARGEST_CHECK_LIMITS: CheckLimits = { requests: 20_000, seconds: 3_600 };

/** A request of one of the operator's other endpoints. */
export interface EndpointRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: ReadonlyMap<string, string>;
  /** Sent with POST. Null: nothing. */
  readonly body: Template | null;
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

/** The value of a field at a path such as `data.balance`. Undefined where the object does not have it. */
export function fieldAt(body: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
      body,
    );
}

/** The rule by which a reply without an error is a success. */
export function successRuleOf({ answers: { success } }: Pick<CallProfile, 'answers'>): SuccessRule {
  if (success === null) return hasOtherStatus;
  return (body) => success.values.includes(String(fieldAt(body, success.field)));
}
