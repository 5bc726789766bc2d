/**
 * HTML by construction: the values of a template are escaped, unless they are HTML already. A template that
 * has a value in an unsafe context throws, whatever the value is. Pure.
 */

/** Text that was made by `html`, and needs no further escape. */
class Markup {
  constructor(readonly text: string) {}
  toString(): string {
    return this.text;
  }
}
export type Html = Markup;

type Value = string | number | Html | null | undefined | false | readonly Value[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (found) => ESCAPES[found] ?? found);
}

/** Null, undefined and false give nothing. @throws where a value is in an unsafe context */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  const contexts = contextsOf(parts);
  let text = parts[0] ?? '';
  values.forEach((value, index) => {
    text += written(value, contexts[index] ?? 'text') + (parts[index + 1] ?? '');
  });
  return new Markup(text);
}

/** The context of a value: between tags, in a quoted attribute, or among the attributes of a tag. */
type ValueContext = 'text' | 'attribute' | 'tag';

function written(value: Value, context: ValueContext): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'number' || typeof value === 'string') {
    // Without quotation marks, a space in the value would begin another attribute.
    if (context === 'tag') throw new Error('a value of an attribute needs quotation marks');
    return escapeHtml(String(value));
  }
  return value.map((each) => written(each, context)).join('');
}

const known = new WeakMap<TemplateStringsArray, readonly ValueContext[]>();

/** The context of each value of a template. */
function contextsOf(parts: TemplateStringsArray): readonly ValueContext[] {
  const found = known.get(parts);
  if (found !== undefined) return found;
  const contexts: ValueContext[] = [];
  let context: ValueContext = 'text';
  for (const part of parts) {
    for (const character of part) {
      if (context === 'text' && character === '<') context = 'tag';
      else if (context === 'tag' && character === '>') context = 'text';
      else if (context === 'tag' && character === '"') context = 'attribute';
      else if (context === 'attribute' && character === '"') context = 'tag';
    }
    contexts.push(context);
  }
  known.set(parts, contexts);
  return contexts;
}

/**
 * The content of a style element, which browsers do not unescape.
 *
 * @throws where it would end the element
 */
export function styleSheet(text: string): Html {
  if (text.includes('<')) throw new Error('a style sheet has no angle bracket');
  return new Markup(text);
}
