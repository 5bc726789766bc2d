/** Remembers the ids of a file, to find the events that share one. */
import { hash } from 'node:crypto';

export interface Sighting {
  readonly line: number;
  readonly contentHash: number;
}

export interface SeenIds {
  /** @returns the first sighting of the id; undefined if this is the first */
  add(id: string, sighting: Sighting): Sighting | undefined;
}

const FIRST_SLOTS = 2 ** 12;
const FULLEST = 0.7;
/**
 * Words of a slot: four of the digest (K5), two of the content hash, two of the line. A free slot has line 0.
 */
const WORDS = 8;

/**
 * A hash table with open addressing and 32 bytes a slot. A Map needs five times as much, and holds at most
 * 16.7 million entries.
 *
 * @param mostSlots bounds the memory: an id that finds the table full is not remembered
 */
export function makeSeenIds(mostSlots = Number.POSITIVE_INFINITY): SeenIds {
  let slots = FIRST_SLOTS;
  let words = new Uint32Array(slots * WORDS);
  let used = 0;

  const isFree = (at: number) => words[at + 6] === 0 && words[at + 7] === 0;
  const hasKey = (at: number, key: Uint32Array) =>
    words[at] === key[0] && words[at + 1] === key[1] && words[at + 2] === key[2] && words[at + 3] === key[3];

  /** The position of the key, or of the free slot for it. */
  function find(key: Uint32Array): number {
    let slot = (key[0] ?? 0) % slots;
    while (!isFree(slot * WORDS) && !hasKey(slot * WORDS, key)) slot = (slot + 1) % slots;
    return slot * WORDS;
  }

  const isFull = () => slots * 2 > mostSlots && used + 1 > slots * FULLEST;

  function grow(): void {
    const old = words;
    slots *= 2;
    words = new Uint32Array(slots * WORDS);
    for (let at = 0; at < old.length; at += WORDS) {
      const entry = old.subarray(at, at + WORDS);
      if (entry[6] !== 0 || entry[7] !== 0) words.set(entry, find(entry));
    }
  }

  return {
    add(id, { line, contentHash }) {
      const digest = hash('sha256', id, 'buffer');
      const entry = new Uint32Array(WORDS);
      for (let word = 0; word < 4; word++) entry[word] = digest.readUInt32LE(word * 4);
      const at = find(entry);
      if (!isFree(at)) return sightingOf(words.subarray(at, at + WORDS));
      if (isFull()) return undefined;
      entry.set(wordsOf(contentHash), 4);
      entry.set(wordsOf(line), 6);
      words.set(entry, at);
      if (++used > slots * FULLEST) grow();
      return undefined;
    },
  };
}

function wordsOf(value: number): [low: number, high: number] {
  return [value >>> 0, Math.floor(value / 2 ** 32)];
}

function sightingOf([, , , , hashLow = 0, hashHigh = 0, lineLow = 0, lineHigh = 0]: Uint32Array): Sighting {
  return { line: lineHigh * 2 ** 32 + lineLow, contentHash: hashHigh * 2 ** 32 + hashLow };
}
