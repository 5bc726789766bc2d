/**
 * A wallet as its operator describes it: address, paths, header names, signature, payload of each action. The
 * documents do not show these. Pure: the secret is no part of the profile.
 */
import type { WalletAction } from '../contract/actions';
import { isObject } from '../lib/json';
import type { SuccessRule } from './answer';

/** A value of JSON in which texts may hold places, such as `{{player}}`. */
export type Template =
  | string
  | number
  | boolean
  | null
  | readonly Template[]
  | { readonly [field: string]: Template };

export interface WalletActionProfile {
  /** Behind the path of the base URL. It begins with a slash. */
  readonly path: string;
  /** An object. `meta.op_id` is added where the template has none. */
  readonly payload: { readonly [field: string]: Template };
}

/** The keyed hash over a text of the request. */
export interface HmacSigning {
  readonly type: 'hmac';
  readonly hash: 'sha256' | 'sha512';
  readonly encoding: 'hex' | 'base64';
  /** The header of the signature. */
  readonly header: string;
  /** The text before the signature in its header, such as `sha256=`. */
  readonly prefix: string;
  /** The header of the signed time in seconds. Null: no such header. */
  readonly timestampHeader: string | null;
  /** The signed text. Its places are timestamp, method, path, request_id and body. */
  readonly content: string;
}

export interface CallProfile {
  readonly operatorId: string;
  /** `test` or `production`. The conformance kit refuses any but `test`. Only a test may use http. */
  readonly environment: 'test' | 'production';
  /** Without credentials, query and fragment. */
  readonly baseUrl: string;
  /** The value of the header X-API-Key-Id. */
  readonly keyId: string;
  /** The name of the idempotency header. Its value is the op_id. */
  readonly idempotencyHeader: string;
  /** More headers of each call. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The form of `ts`. */
  readonly ts: 'iso' | 'milliseconds' | 'seconds';
  readonly signing: { readonly type: 'none' } | HmacSigning;
  /** An action that is not listed is not supported by the wallet. */
  readonly actions: { readonly [action in WalletAction]?: WalletActionProfile };
  /** The field of a success, and its value. Null: `status` is a text other than `error`. */
  readonly success: { readonly field: FieldPath; readonly is: string | number | boolean } | null;
  /** The place of the balance in a success. Null: the wallet returns none. */
  readonly balance: FieldPath | null;
  /**
   * The calls that one process sends at a time, 2 or more. Half of them are for resent calls. No limit holds
   * over all processes: choose the number that the wallet takes, divided by the most processes that will run.
   */
  readonly connections: number;
}

/** The names of nested fields, from the outside in. */
export type FieldPath = readonly string[];

/** The value of a field. Undefined where the object does not have it. */
export function fieldAt(body: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(
    (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    body,
  );
}

/** The rule by which a reply without an error is a success. Undefined: the default rule. */
export function successRuleOf({ success }: CallProfile): SuccessRule | undefined {
  if (success === null) return undefined;
  return (body) => fieldAt(body, success.field) === success.is;
}

/** The balance in a success, as the wallet wrote it. Null where there is none. */
export function balanceIn({ balance }: CallProfile, body: unknown): string | number | null {
  const value = balance === null ? undefined : fieldAt(body, balance);
  return typeof value === 'string' || typeof value === 'number' ? value : null;
}

/** The values of a call by the names of their places. A number is written as its digits. */
export type CallValues = Readonly<Record<string, string>>;

/** The name of the value by which an erasure finds the calls of a player. */
export const PLAYER_VALUE = 'player';

export type RenderedPayload =
  | { readonly type: 'payload'; readonly json: string }
  /** All faults at once. */
  | { readonly type: 'malformed'; readonly faults: readonly string[] };

const PLACE = /\{\{(number:)?([a-z_]+)\}\}/g;
const ONLY_NUMBER = /^\{\{number:([a-z_]+)\}\}$/;
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/**
 * The payload of a call, as the text that all of its attempts send. A text that is only `{{number:name}}`
 * becomes a number of any length. Any other place is replaced by text.
 */
export function renderPayload(
  { payload }: WalletActionProfile,
  opId: string,
  values: CallValues,
): RenderedPayload {
  const faults: string[] = [];
  const all: CallValues = { ...values, op_id: opId };
  const placeValue = (name: string): string => {
    if (Object.hasOwn(all, name)) return all[name] ?? '';
    faults.push(`the payload needs the value ${name}, which the call does not have`);
    return '';
  };
  const render = (template: Template): string => {
    if (typeof template === 'string') return renderText(template);
    if (typeof template !== 'object' || template === null) return JSON.stringify(template);
    if (isList(template)) return `[${template.map(render).join(',')}]`;
    const fields = Object.entries(template).map(
      ([name, value]) => `${JSON.stringify(name)}:${render(value)}`,
    );
    return `{${fields.join(',')}}`;
  };
  const renderText = (text: string): string => {
    const number = ONLY_NUMBER.exec(text)?.[1];
    if (number === undefined)
      return JSON.stringify(text.replace(PLACE, (_, __, name: string) => placeValue(name)));
    const value = placeValue(number);
    if (JSON_NUMBER.test(value)) return value;
    faults.push(`the value ${number} is not a number`);
    return '0';
  };
  const { meta } = payload;
  const ids = typeof meta === 'object' && meta !== null && !isList(meta) ? meta : {};
  const json = render({ ...payload, meta: { ...ids, op_id: '{{op_id}}' } });
  return faults.length === 0
    ? { type: 'payload', json }
    : { type: 'malformed', faults: [...new Set(faults)] };
}

function isList(template: Template): template is readonly Template[] {
  return Array.isArray(template);
}
