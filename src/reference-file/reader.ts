/** Reads values of expected types from a tree, and reports values of another type. */
import { CURRENCIES, currencyOf, toMinor } from '../domain/event/money';
import { nearest } from '../lib/did-you-mean';
import { quoted } from '../lib/printable';
import { type Check, checkAmount } from './checks';
import { childPath, type FaultReport, type FilePlace } from './report';
import type { Tree } from './tree';

/** A value and its place. An absent value has the place of the mapping that lacks it. */
export interface Slot extends FilePlace {
  readonly tree: Tree | undefined;
}

/** A mapping whose keys are all known. */
export interface Mapping extends FilePlace {
  get(key: string): Slot;
}

const CURRENCY_CODES = CURRENCIES.map(({ code }) => code);

interface Entry {
  readonly key: string;
  readonly keyPlace: FilePlace;
  readonly value: Slot;
}

/**
 * Each method reads the value of a slot. It returns undefined or an empty value where the slot is absent or
 * was reported.
 */
export class TreeReader {
  constructor(protected readonly faults: FaultReport) {}

  /** The entries of a mapping. Of equal keys, the first one. */
  entries(slot: Slot): Entry[] {
    const { tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return [];
    if (tree.kind !== 'mapping') {
      this.wrongType(slot, 'keys with values', 'Write "key: value" lines.');
      return [];
    }
    const first = new Map<string, number>();
    const entries: Entry[] = [];
    for (const { key, keyAt, value } of tree.entries) {
      const path = childPath(slot.path, key);
      const earlier = first.get(key);
      if (earlier === undefined) {
        first.set(key, keyAt);
        entries.push({ key, keyPlace: { path, at: keyAt }, value: { path, at: value.at, tree: value } });
      } else {
        const message = `The key ${quoted(key)} is already on line ${this.faults.lineOf(earlier)}.`;
        this.faults.add({ path, at: keyAt }, message, 'Keep one of the two.');
      }
    }
    return entries;
  }

  mapping(slot: Slot, known: readonly string[]): Mapping | undefined {
    const { path, at, tree } = slot;
    const values = new Map<string, Slot>();
    for (const { key, keyPlace, value } of this.entries(slot)) {
      if (known.includes(key)) values.set(key, value);
      else this.unknownKey(key, keyPlace, known);
    }
    if (tree?.kind !== 'mapping') return undefined;
    return { path, at, get: (key) => values.get(key) ?? { path: childPath(path, key), at, tree: undefined } };
  }

  /** The value of a key. Its absence is a fault. */
  required(node: Mapping, key: string, remedy: string): Slot {
    const slot = node.get(key);
    if (slot.tree === undefined) this.faults.add(node, `The key "${key}" is missing.`, remedy);
    return slot;
  }

  /** The items that could be read; the others are reported. */
  list<T>(slot: Slot, read: (item: Slot) => T | undefined): T[] {
    const { path, tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return [];
    if (tree.kind !== 'list') {
      this.wrongType(slot, 'a list', 'Write one "- " line for each entry, or [] for none.');
      return [];
    }
    return tree.items
      .map((item, i) => read({ path: childPath(path, i), at: item.at, tree: item }))
      .filter((item) => item !== undefined);
  }

  text(slot: Slot, check: Check): string | undefined {
    const { tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return undefined;
    if (tree.kind !== 'leaf' || typeof tree.value !== 'string') {
      this.wrongType(slot, 'a text', remedyForText(tree));
      return undefined;
    }
    const complaint = check(tree.value);
    if (complaint === undefined) return tree.value;
    this.faults.add(slot, complaint.message, complaint.remedy);
    return undefined;
  }

  /** The text of a key that has to be there; empty where it was reported. */
  requiredText(node: Mapping, key: string, check: Check, remedy: string): string {
    return this.text(this.required(node, key, remedy), check) ?? '';
  }

  wholeNumber(slot: Slot, least: number, most: number): number | undefined {
    const { tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return undefined;
    const value = tree.kind === 'leaf' ? tree.value : undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
    const remedy = `Write a whole number from ${least} to ${most}.`;
    this.faults.add(slot, 'This is no number of the allowed range.', remedy);
    return undefined;
  }

  /** Reads one of a few words. */
  word<W extends string>(slot: Slot, words: readonly W[]): W | undefined {
    const text = this.text(slot, () => undefined);
    const found = words.find((word) => word === text);
    if (text !== undefined && found === undefined) {
      const remedy = suggestion(text, words) ?? `Write ${words.join(' or ')}.`;
      this.faults.add(slot, `The value ${quoted(text)} is unknown here.`, remedy);
    }
    return found;
  }

  /** Reads a flag. @param absent its value where it is absent */
  flag(slot: Slot, absent = true): boolean {
    const { tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return absent;
    if (tree.kind === 'leaf' && typeof tree.value === 'boolean') return tree.value;
    this.wrongType(slot, 'true or false', 'Write true or false, without quotes.');
    return absent;
  }

  /** Amounts by their currencies. @param onZero receives the place of an amount of zero */
  currencyAmounts(slot: Slot, onZero: (value: Slot) => void): Record<string, string> {
    const amounts = new Map<string, string>();
    const keys = new Map<string, string>();
    for (const { key, keyPlace, value } of this.entries(slot)) {
      const currency = currencyOf(key);
      if (currency === undefined) {
        const remedy = suggestion(key, CURRENCY_CODES) ?? `Use one of: ${CURRENCY_CODES.join(', ')}.`;
        this.faults.add(keyPlace, `There is no currency ${quoted(key)}.`, remedy);
        continue;
      }
      const { code, scale } = currency;
      const other = keys.get(code);
      if (other !== undefined)
        this.faults.add(keyPlace, `${key} and ${other} are the same currency.`, 'Keep one of the two.');
      keys.set(code, key);
      const amount = this.text(value, (text) => checkAmount(text, code, scale));
      if (amount === undefined) continue;
      amounts.set(code, amount);
      if (toMinor(amount, scale) === 0n) onZero(value);
    }
    return Object.fromEntries(amounts);
  }

  private unknownKey(key: string, place: FilePlace, known: readonly string[]): void {
    const merge = key === '<<' ? 'Write the values out: merging keys is not supported.' : undefined;
    const remedy = merge ?? suggestion(key, known) ?? `Remove it; the keys here are ${known.join(', ')}.`;
    this.faults.add(place, `The key ${quoted(key)} is unknown here.`, remedy);
  }

  private wrongType(slot: Slot, expected: string, remedy: string): void {
    this.faults.add(slot, `Expected ${expected}, found ${describe(slot.tree)}.`, remedy);
  }
}

function remedyForText(tree: Tree): string {
  if (tree.kind !== 'leaf') return 'Write one text.';
  return tree.value === null ? 'Write the value, or remove the key.' : `Put it in quotes: "${tree.source}".`;
}

function describe(tree: Tree | undefined): string {
  if (tree === undefined) return 'nothing';
  if (tree.kind !== 'leaf') return tree.kind === 'list' ? 'a list' : 'keys with values';
  if (tree.value === null) return 'nothing (null)';
  const { source } = tree;
  const shown = source.length > 40 ? `${source.slice(0, 40)}…` : source;
  return typeof tree.value === 'string' ? `the text ${quoted(source)}` : `the ${typeof tree.value} ${shown}`;
}

/** Two edits count as a slip; in a short word, one. */
const MOST_EDITS = 2;

/** A remedy that names the candidate that the writer probably meant; undefined where none is near. */
export function suggestion(word: string, candidates: readonly string[]): string | undefined {
  if (normalized(word).length > 100) return undefined;
  const mostEdits = (candidate: string) => Math.min(MOST_EDITS, Math.floor(candidate.length / 3));
  const near = nearest(word, candidates, mostEdits, normalized);
  return near === undefined ? undefined : `Did you mean ${quoted(near)}?`;
}

/** Makes minBet, min-bet and Min_Bet one word. */
function normalized(word: string): string {
  return word.toLowerCase().replace(/[\s_-]/g, '');
}
