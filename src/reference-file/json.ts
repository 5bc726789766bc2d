/**
 * Reads JSON text into a tree, with a tenth of the memory that the YAML parser takes.
 *
 * It accepts strict JSON only and reports no faults. A text that it refuses goes to the YAML parser, which
 * reports them.
 */
import { MAX_DEPTH, type Tree, type TreeEntry } from './tree';

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const PLAIN = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** @returns undefined where the text is no JSON, or is nested too deeply */
export function readJsonTree(text: string): Tree | undefined {
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  const skipSpace = () => match(SPACE);
  const take = (character: string): boolean => {
    skipSpace();
    if (text[at] !== character) return false;
    at++;
    return true;
  };
  /** Reads items up to the closing bracket. */
  const items = <T>(closing: string, item: () => T | undefined): T[] | undefined => {
    const read: T[] = [];
    if (take(closing)) return read;
    do {
      const next = item();
      if (next === undefined) return undefined;
      read.push(next);
    } while (take(','));
    return take(closing) ? read : undefined;
  };
  const value = (depth: number): Tree | undefined => {
    if (depth > MAX_DEPTH) return undefined;
    skipSpace();
    const start = at;
    if (take('{')) {
      const entries = items('}', (): TreeEntry | undefined => {
        skipSpace();
        const keyAt = at;
        const key = match(STRING);
        if (key === undefined || !take(':')) return undefined;
        const found = value(depth + 1);
        return found && { key: textOf(key), keyAt, value: found };
      });
      return entries && { kind: 'mapping', at: start, entries };
    }
    if (take('[')) {
      const found = items(']', () => value(depth + 1));
      return found && { kind: 'list', at: start, items: found };
    }
    const string = match(STRING);
    if (string !== undefined) {
      const read = textOf(string);
      return { kind: 'leaf', at: start, value: read, source: read };
    }
    const plain = match(PLAIN);
    return plain === undefined
      ? undefined
      : { kind: 'leaf', at: start, value: JSON.parse(plain), source: plain };
  };
  const tree = value(0);
  skipSpace();
  return at === text.length ? tree : undefined;
}

/** Decodes a string into a text of its own. A slice of the file would keep the whole file in memory. */
function textOf(quoted: string): string {
  const read: unknown = JSON.parse(quoted);
  return typeof read === 'string' ? read : '';
}
