/** The fields of a definition as people read them, by the names of the file: target.EUR, items.ruby.need. */
import { plain } from '../lib/printable';
import type { PromotionDefinition } from './definition';
import { compareBytes } from './ranking';

/** Texts by name. Operator and id are not among them. */
export function fieldsOf({ operator: _, id: _1, ...fields }: PromotionDefinition): Map<string, string> {
  return new Map(Object.entries(fields).flatMap(([key, value]) => printed(keyInFile(key), value)));
}

/** `field: old -> new` for each field that differs. The order of lists is none, except for points. */
export function differencesOf(old: PromotionDefinition, now: PromotionDefinition): string[] {
  const [before, after] = [fieldsOf(old), fieldsOf(now)];
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name) => {
    const [was, is] = [before.get(name), after.get(name)];
    return was === is ? [] : [`${name}: ${was ?? 'not given'} -> ${is ?? 'not given'}`];
  });
}

function printed(name: string, value: unknown): [string, string][] {
  if (Array.isArray(value)) {
    const members: unknown[] = value;
    const texts = members.filter((member) => typeof member === 'string');
    if (texts.length === members.length)
      return [[name, `[${[...new Set(texts)].sort(compareBytes).map(plain).join(', ')}]`]];
    return members.flatMap((member, index) => {
      const { id, rest } = withoutId(member);
      return printed(`${name}.${id ?? index + 1}`, rest);
    });
  }
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([key, child]) => printed(`${name}.${keyInFile(key)}`, child));
  return value === undefined ? [] : [[name, String(value)]];
}

function withoutId(member: unknown): { id: string | undefined; rest: unknown } {
  if (typeof member !== 'object' || member === null || !('id' in member))
    return { id: undefined, rest: member };
  const { id, ...rest } = member;
  return { id: String(id), rest };
}

/** minAmount is min_amount in the file. A code of a currency stays as it is. */
export function keyInFile(key: string): string {
  return /^[A-Z]/.test(key) ? key : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
