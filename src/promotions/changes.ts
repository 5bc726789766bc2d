/**
 * The difference of two documents, and when it takes effect (docs/rules.md, P17). It is printed before a
 * document is applied.
 */
import { quoted } from '../lib/printable';
import { ONLY_WINDOW, type PromotionWindow } from './calendar';
import type { PromotionDefinition, PromotionDocument } from './definition';
import { compareBytes } from './ranking';
import { compilePromotion } from './terms';

/** The windows that a change concerns. */
export type Effect =
  /** All windows of an added promotion, with the events that are stored already. */
  | { readonly from: 'first_window' }
  /** The windows that begin at this time or later. Microseconds since 1970. */
  | { readonly from: 'time'; readonly at: bigint }
  /** The only window has begun, and it never ends. */
  | { readonly from: 'never' }
  /** A removed promotion counts nothing from now on. */
  | { readonly from: 'now' };

export interface PromotionChange {
  readonly operator: string;
  readonly id: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** `field: old -> new` for a change, `field: new` for an addition, and nothing for a removal. */
  readonly details: readonly string[];
  readonly effect: Effect;
}

/**
 * Returns every promotion that differs, by operator and id. The order of lists is no difference, except for
 * the points of a leaderboard.
 *
 * @param at the time of the change, in microseconds since 1970
 */
export function describePromotionChanges(
  before: PromotionDocument,
  after: PromotionDocument,
  at: bigint,
): PromotionChange[] {
  const old = byKey(before);
  const now = byKey(after);
  const changes: PromotionChange[] = [];
  for (const [key, definition] of now) {
    const previous = old.get(key);
    const { operator, id } = definition;
    const fields = fieldsOf(definition);
    if (previous === undefined) {
      const details = [...fields].map(([name, value]) => `${name}: ${value}`);
      changes.push({ operator, id, change: 'added', details, effect: { from: 'first_window' } });
      continue;
    }
    const details = differencesOf(fieldsOf(previous), fields);
    if (details.length === 0) continue;
    changes.push({ operator, id, change: 'changed', details, effect: effectOf(previous, at) });
  }
  for (const [key, { operator, id }] of old)
    if (!now.has(key))
      changes.push({ operator, id, change: 'removed', details: [], effect: { from: 'now' } });
  return changes.sort((a, b) => compareBytes(a.operator, b.operator) || compareBytes(a.id, b.id));
}

/** One line for each change. */
export function printPromotionChanges(changes: readonly PromotionChange[]): string[] {
  return changes.map(({ operator, id, change, details, effect }) => {
    const shown = details.length === 0 ? '' : `: ${details.join('; ')}`;
    return `${change} promotion ${plain(operator)}/${plain(id)}${shown} (${effectText(effect)})`;
  });
}

/**
 * The window in progress ends by the old definition. So no player sees the target move.
 *
 * @returns from when the new definition counts
 */
function effectOf(previous: PromotionDefinition, at: bigint): Effect {
  const window = windowIn(previous, at);
  if (window === undefined) return { from: 'time', at };
  return window.endsAt === null ? { from: 'never' } : { from: 'time', at: window.endsAt };
}

function windowIn(definition: PromotionDefinition, at: bigint): PromotionWindow | undefined {
  return compilePromotion(definition).calendar.at(at);
}

function effectText(effect: Effect): string {
  switch (effect.from) {
    case 'first_window':
      return 'counts from its first window on, with the events that came before';
    case 'now':
      return 'counts nothing from now on; its completions stay';
    case 'never':
      return `without effect until it is recomputed: its window "${ONLY_WINDOW}" has begun and never ends`;
    case 'time':
      return `for windows that begin at ${new Date(Number(effect.at / 1000n)).toISOString().replace('.000Z', 'Z')} or later`;
  }
}

function byKey({ promotions }: PromotionDocument): Map<string, PromotionDefinition> {
  return new Map(promotions.map((each) => [`${each.operator}/${each.id}`, each]));
}

function differencesOf(old: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string[] {
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((name) => {
    const [before, after] = [old.get(name), now.get(name)];
    return before === after ? [] : [`${name}: ${before ?? 'not given'} -> ${after ?? 'not given'}`];
  });
}

/** The fields of a definition as they are printed, by the names of the file: target.EUR, items.ruby.need. */
function fieldsOf({ operator: _, id: _1, ...fields }: PromotionDefinition): Map<string, string> {
  return new Map(Object.entries(fields).flatMap(([key, value]) => printed(inFile(key), value)));
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
    return Object.entries(value).flatMap(([key, child]) => printed(`${name}.${inFile(key)}`, child));
  return value === undefined ? [] : [[name, String(value)]];
}

function withoutId(member: unknown): { id: string | undefined; rest: unknown } {
  if (typeof member !== 'object' || member === null || !('id' in member))
    return { id: undefined, rest: member };
  const { id, ...rest } = member;
  return { id: String(id), rest };
}

/** minAmount is min_amount in the file. A code of a currency stays as it is. */
function inFile(key: string): string {
  return /^[A-Z]/.test(key) ? key : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** An id without quotes where nobody can misread it, else in quotes. */
function plain(text: string): string {
  return /^[\p{L}\p{N}._:@/+-]{1,80}$/u.test(text) ? text : quoted(text);
}
