/** The rules that a test cites: `[V4]`, `[C5 S4]` end its title. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../src/lib/json';
import { filesBelow } from './language';
import { parseSource, textOf } from './syntax';

/** Any bracket that holds something else is text. */
const TRAILING_BRACKET = /\s*\[([^[\]]*)\]\s*$/;
/** The number of a rule. */
export const RULE = /^[A-Z]\d+$/;

/** The title without its tags, and the tags. */
export function splitTitle(title: string): { text: string; tags: string[] } {
  const tags: string[] = [];
  let text = title;
  for (;;) {
    const inside = TRAILING_BRACKET.exec(text)?.[1];
    const found = inside === undefined ? undefined : tagsIn(inside);
    if (found === undefined) return { text: text.trim(), tags };
    tags.unshift(...found);
    text = text.replace(TRAILING_BRACKET, '');
  }
}

function tagsIn(inside: string): string[] | undefined {
  const words = inside.split(/,?\s+/);
  return words.every((word) => RULE.test(word)) ? words : undefined;
}

/** A title in a source that cites a tag. */
export interface Citation {
  /** `path:line` from the project's root. */
  readonly place: string;
  /** A pattern of `test.each` stays as it is. */
  readonly title: string;
}

/** The titles below `test/` that cite a tag, of tests and of the groups around them. */
export function citationsOf(tag: string, root: string): Citation[] {
  return filesBelow(root, 'test').flatMap((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    // Most files do not cite it, and parsing takes longer than this.
    if (!path.endsWith('.test.ts') || !text.includes(tag)) return [];
    const { nodes, lineOf } = parseSource(text);
    return nodes.flatMap((node) => {
      const title = splitTitle(textOf(node) ?? textOfPattern(node));
      return title.tags.includes(tag) ? [{ place: `${path}:${lineOf(node)}`, title: title.text }] : [];
    });
  });
}

/** The text of a template, with a mark for each value. */
function textOfPattern({ type, quasis }: Readonly<Record<string, unknown>>): string {
  if (type !== 'TemplateLiteral' || !Array.isArray(quasis)) return '';
  return quasis.map((quasi) => (isObject(quasi) ? String(quasi.cooked) : '')).join('...');
}
