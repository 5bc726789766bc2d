/**
 * A document as a tree. Each node knows its place in the text, so that a fault can name the place. yaml.ts
 * reads a tree from text.
 */

/** `at` is the node's offset in the text. An aliased node has the place of its anchor. */
export type Tree =
  | { readonly kind: 'leaf'; readonly at: number; readonly value: unknown; readonly source: string }
  | { readonly kind: 'list'; readonly at: number; readonly items: readonly Tree[] }
  | { readonly kind: 'mapping'; readonly at: number; readonly entries: readonly TreeEntry[] }
  /** A node whose fault was already reported. Its readers report nothing more. */
  | { readonly kind: 'broken'; readonly at: number };

export interface TreeEntry {
  readonly key: string;
  readonly keyAt: number;
  readonly value: Tree;
}

/** Far deeper than reference data, and far less than the stack allows for recursion. */
export const MAX_DEPTH = 20;

/**
 * The tree of a parsed JSON value, which has no places.
 * @throws RangeError where it is nested too deeply
 */
export function treeOf(json: unknown, depth = 0): Tree {
  if (depth > MAX_DEPTH) throw new RangeError('the data is nested too deeply');
  if (Array.isArray(json)) return { kind: 'list', at: 0, items: json.map((item) => treeOf(item, depth + 1)) };
  if (typeof json !== 'object' || json === null) {
    return { kind: 'leaf', at: 0, value: json, source: String(json) };
  }
  const entries = Object.entries(json).map(([key, value]) => ({
    key,
    keyAt: 0,
    value: treeOf(value, depth + 1),
  }));
  return { kind: 'mapping', at: 0, entries };
}
