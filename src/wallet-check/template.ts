/**
 * Payloads as a profile writes them: JSON with places such as `{{amount}}`. The documents show no payload, so
 * the kit knows the values, and the profile knows their fields.
 */
import { isObject } from '../lib/json';
import { fieldAt } from '../wallet/profile';

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

export type PayloadJson =
  | string
  | number
  | boolean
  | null
  | readonly PayloadJson[]
  | { readonly [key: string]: PayloadJson };

/** The value of each place. A field whose place has no value is left out. */
export type PlaceValues = Readonly<Partial<Record<PayloadPlace, string>>>;

const PLACE = /\{\{\s*([^{}]*?)\s*\}\}/g;
/** One place alone may be written as a number: `{{amount|number}}`. */
const NUMBER = /^\{\{\s*([a-z_]+)\s*\|\s*number\s*\}\}$/;

export function isPlace(text: string): text is PayloadPlace {
  return PLACES.some((place) => place === text);
}

/** The names between the braces of a text, as they are written. */
export function placesIn(text: string): string[] {
  const number = NUMBER.exec(text)?.[1];
  return number === undefined ? [...text.matchAll(PLACE)].map(([, name = '']) => name) : [number];
}

/** All places of a template. */
export function placesOf(template: PayloadJson): ReadonlySet<string> {
  if (typeof template === 'string') return new Set(placesIn(template));
  if (typeof template !== 'object' || template === null) return new Set();
  return new Set(Object.values(template).flatMap((value: PayloadJson) => [...placesOf(value)]));
}

/** Fills a template. @returns undefined where the whole template is a place without a value */
export function fill(template: PayloadJson, values: PlaceValues): PayloadJson | undefined {
  if (typeof template === 'string') return fillText(template, values);
  if (typeof template !== 'object' || template === null) return template;
  if (isList(template))
    return template.map((item) => fill(item, values)).filter((item) => item !== undefined);
  return Object.fromEntries(
    Object.entries(template).flatMap(([key, value]) => {
      const filled = fill(value, values);
      return filled === undefined ? [] : [[key, filled]];
    }),
  );
}

/** `Array.isArray` does not narrow a readonly array. */
function isList(value: PayloadJson): value is readonly PayloadJson[] {
  return Array.isArray(value);
}

function fillText(text: string, values: PlaceValues): PayloadJson | undefined {
  const names = placesIn(text).filter(isPlace);
  if (names.some((name) => values[name] === undefined)) return undefined;
  const number = NUMBER.exec(text)?.[1];
  if (number !== undefined && isPlace(number)) return Number(values[number]);
  return text.replace(PLACE, (_, name: string) => (isPlace(name) ? (values[name] ?? '') : ''));
}

/** Replaces or adds the field at a path such as `meta.kind`. */
export function withField(value: PayloadJson, path: string, field: PayloadJson): PayloadJson {
  const [first = '', ...rest] = path.split('.');
  const before: Readonly<Record<string, PayloadJson>> = isJsonObject(value) ? value : {};
  return {
    ...before,
    [first]: rest.length === 0 ? field : withField(before[first] ?? {}, rest.join('.'), field),
  };
}

function isJsonObject(value: PayloadJson): value is { readonly [key: string]: PayloadJson } {
  return isObject(value);
}

/** A field that no contract knows. */
export const UNKNOWN_FIELD = { x_wallet_check: { since: 'a later version' } } as const;

/** Adds it to each object. */
export function withUnknownFields(value: PayloadJson): PayloadJson {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(withUnknownFields);
  return {
    ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withUnknownFields(inner)])),
    ...UNKNOWN_FIELD,
  };
}

/** The value at a path such as `data.balance`. */
export function valueAt(value: unknown, path: string): unknown {
  return fieldAt(value, path.split('.'));
}

/** A copy without the fields at the paths. */
export function withoutFields(value: unknown, paths: readonly string[]): unknown {
  return paths.reduce((rest, path) => withoutField(rest, path.split('.')), value);
}

function withoutField(value: unknown, [first = '', ...rest]: readonly string[]): unknown {
  if (!isObject(value) || !Object.hasOwn(value, first)) return value;
  const { [first]: inner, ...others } = value;
  return rest.length === 0 ? others : { ...others, [first]: withoutField(inner, rest) };
}

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

export type AmountForm = 'minor' | 'major';
