/**
 * A document as a tree whose nodes know their place in its text, so that whatever is wrong with them can be pointed at. From text: yaml.ts.
 */

/** `at` is the node's offset in the text. An aliased node has the place of its anchor. */
export type Tree =
  | { readonly kind: 'leaf'; readonly at: number; readonly value: unknown; readonly source: string }
  | { readonly kind: 'list'; readonly at: number; readonly items: readonly Tree[] }
  | { readonly kind: 'mapping'; readonly at: number; readonly entries: readonly TreeEntry[] }
  /** Already reported: whoever reads it stays silent. */
  | { readonly kind: 'broken'; readonly at: number };

export interface TreeEntry {
  readonly key: string;
  readonly keyAt: number;
  readonly value: Tree;
}

/** Far deeper than reference data, far from what recursion can take. */
export const MAX_DEPTH = 20;

/** The tree of a value that came out of JSON, which has no places. @throws RangeError where it is nested too deeply */
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
