/**
 * Payloads as a profile writes them: JSON with places such as `{{amount}}`. The documents show no payload, so
 * callers know the values, and the profile knows their fields.
 */
import type { WalletAction } from '../contract/actions';

export const PLACES = [
  'op_id',
  'player',
  'token',
  'amount',
  'win',
  'currency',
  'exponent',
  'round',
  'game',
  'original',
] as const;
/** A place of a template. `original` is the op_id of an earlier call, `win` the credit of an atomic call. */
export type PayloadPlace = (typeof PLACES)[number];

/** The places without which a call of the action says nothing. */
export const NEEDED_PLACES: { readonly [action in WalletAction]?: readonly PayloadPlace[] } = {
  balance: ['player'],
  debit: ['op_id', 'player', 'amount'],
  credit: ['op_id', 'player', 'amount'],
  debit_and_credit: ['op_id', 'player', 'amount', 'win'],
  rollback: ['original'],
  reconcile: ['original'],
};

/** A value of JSON whose texts may hold places. */
export type Template =
  | string
  | number
  | boolean
  | null
  | readonly Template[]
  | { readonly [field: string]: Template };

/** The values of a call by the names of their places. A number is written as its digits. */
export type CallValues = Readonly<Record<string, string>>;

/** The name of the value by which an erasure finds the calls of a player. */
export const PLAYER_VALUE = 'player';

const PLACE = /\{\{\s*([^{}]*?)\s*\}\}/g;
/** One place alone may be written as a number: `{{amount|number}}`. */
const NUMBER = /^\{\{\s*([a-z_]+)\s*\|\s*number\s*\}\}$/;
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

export function isPlace(text: string): text is PayloadPlace {
  return PLACES.some((place) => place === text);
}

/** The names between the braces of a text, as they are written. */
export function placesIn(text: string): string[] {
  const number = NUMBER.exec(text)?.[1];
  return number === undefined ? [...text.matchAll(PLACE)].map(([, name = '']) => name) : [number];
}

/** Writes values in the places of a text. */
export function fillText(text: string, values: CallValues): string {
  return text.replace(PLACE, (_, name: string) => givenValue(values, name) ?? '');
}

/** All places of a template. */
export function placesOf(template: Template): ReadonlySet<string> {
  if (typeof template === 'string') return new Set(placesIn(template));
  if (typeof template !== 'object' || template === null) return new Set();
  return new Set(Object.values(template).flatMap((value: Template) => [...placesOf(value)]));
}

export type RenderedPayload =
  | { readonly type: 'payload'; readonly json: string }
  /** All faults at once. */
  | { readonly type: 'malformed'; readonly faults: readonly string[] };

/**
 * The payload of a call, as the text that all of its attempts send. A field whose place has no value is left
 * out. A text that is only `{{name|number}}` becomes a number of any length.
 */
export function renderPayload(payload: Template, values: CallValues): RenderedPayload {
  const faults = new Set<string>();
  /** Undefined where a place has no value. */
  const render = (template: Template): string | undefined => {
    if (typeof template === 'string') return renderText(template);
    if (typeof template !== 'object' || template === null) return JSON.stringify(template);
    if (isList(template))
      return `[${template
        .map(render)
        .filter((item) => item !== undefined)
        .join(',')}]`;
    const fields = Object.entries(template).flatMap(([name, value]) => {
      const json = render(value);
      return json === undefined ? [] : [`${JSON.stringify(name)}:${json}`];
    });
    return `{${fields.join(',')}}`;
  };
  const renderText = (text: string): string | undefined => {
    if (placesIn(text).some((name) => givenValue(values, name) === undefined)) return undefined;
    const number = NUMBER.exec(text)?.[1];
    if (number === undefined) return JSON.stringify(fillText(text, values));
    const value = givenValue(values, number) ?? '';
    if (!JSON_NUMBER.test(value)) faults.add(`the value ${number} is not a number`);
    return value;
  };
  const json = render(payload) ?? '{}';
  return faults.size === 0 ? { type: 'payload', json } : { type: 'malformed', faults: [...faults] };
}

function givenValue(values: CallValues, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

/** `Array.isArray` does not narrow a readonly array. */
export function isList(template: Template): template is readonly Template[] {
  return Array.isArray(template);
}

export type AmountForm = 'minor' | 'major';

/** Minor units as a profile writes amounts. */
export function writeAmount(minor: bigint, form: AmountForm, exponent: number): string {
  if (form === 'minor' || exponent === 0) return String(minor);
  const digits = String(minor < 0n ? -minor : minor).padStart(exponent + 1, '0');
  return `${minor < 0n ? '-' : ''}${digits.slice(0, -exponent)}.${digits.slice(-exponent)}`;
}

/** The minor units of a text or number of an answer; undefined where it is no amount. */
export function readAmount(value: unknown, form: AmountForm, exponent: number): bigint | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return undefined;
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  const parts = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(value));
  if (parts === null) return undefined;
  const [, sign = '', whole = '', decimals = ''] = parts;
  const scale = form === 'minor' ? 0 : exponent;
  if (/[1-9]/.test(decimals.slice(scale))) return undefined;
  return BigInt(`${sign}${whole}${decimals.slice(0, scale).padEnd(scale, '0')}`);
}
