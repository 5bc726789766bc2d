/** Changes of payloads and answers, for calls that are malformed or come from a later version. Pure. */
import { isObject } from '../lib/json';
import { isList, type Template } from '../wallet/template';

/** Replaces or adds the field at a path such as `meta.kind`. */
export function withField(value: Template, path: string, field: Template): Template {
  const [first = '', ...rest] = path.split('.');
  const before: Readonly<Record<string, Template>> = isTemplateObject(value) ? value : {};
  return {
    ...before,
    [first]: rest.length === 0 ? field : withField(before[first] ?? {}, rest.join('.'), field),
  };
}

function isTemplateObject(value: Template): value is { readonly [field: string]: Template } {
  return isObject(value);
}

/** A field that no contract knows. */
export const UNKNOWN_FIELD = { x_wallet_check: { since: 'a later version' } } as const;

/** Adds it to each object. */
export function withUnknownFields(value: Template): Template {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(withUnknownFields);
  return {
    ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withUnknownFields(inner)])),
    ...UNKNOWN_FIELD,
  };
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
