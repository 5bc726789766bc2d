/** Remembers the ids of a file, to find the events that share one. */
import type { Sighting, Sightings } from '../../check/finding';
import { MAX_ID_KEY_BYTES, writeIdKey } from '../../domain/event/id-key';

export interface SeenIds extends Sightings {
  /** Whether an id found the table full, and was not remembered. */
  readonly hasForgotten: boolean;
}

const FIRST_SLOTS = 2 ** 12;
const FULLEST = 0.8;
/**
 * Words of a slot: four of the id's key (K5), three of the content hash, the line and the form of the key. A
 * free slot has no form.
 */
const WORDS = 7;
/** The forms of a key, as in id-key.ts. They keep a digest from being equal to a UUID. */
const SHORT_ID = 1;
const UUID = 2;
const DIGEST = 3;
const UUID_BYTES = 16;

/**
 * A hash table with open addressing and 28 bytes a slot. A Map needs five times as much, and holds at most
 * 16.7 million entries.
 *
 * @param most bounds the memory, which is then reserved at once: further ids are not remembered
 */
export function makeSeenIds(most = Number.POSITIVE_INFINITY): SeenIds {
  let slots = Number.isFinite(most) ? Math.ceil(most / FULLEST) : FIRST_SLOTS;
  let words = new Uint32Array(slots * WORDS);
  let used = 0;
  let hasForgotten = false;
  const entry = new Uint32Array(WORDS);
  const key = new Uint32Array(Math.ceil(MAX_ID_KEY_BYTES / 4));
  const keyBytes = Buffer.from(key.buffer);

  /** The position of the entry's key in the table, or of the free slot for it. */
  function find({ 0: a = 0, 1: b = 0, 2: c = 0, 3: d = 0, 6: last = 0 }: Uint32Array): number {
    let slot = slotOf(a, b, c, d, slots);
    for (;;) {
      const at = slot * WORDS;
      const found = words[at + 6] ?? 0;
      if (found === 0) return at;
      if (words[at] === a && words[at + 1] === b && words[at + 2] === c && words[at + 3] === d)
        if (formOf(found) === formOf(last)) return at;
      slot = (slot + 1) % slots;
    }
  }

  function grow(): void {
    const old = words;
    slots *= 2;
    words = new Uint32Array(slots * WORDS);
    for (let at = 0; at < old.length; at += WORDS) {
      const entry = old.subarray(at, at + WORDS);
      if (entry[6] !== 0) words.set(entry, find(entry));
    }
  }

  return {
    get hasForgotten() {
      return hasForgotten;
    },
    add(id, { line, contentHash }) {
      key.fill(0);
      const bytes = writeIdKey(id, keyBytes, 0);
      const form = bytes < UUID_BYTES ? SHORT_ID : bytes === UUID_BYTES ? UUID : DIGEST;
      for (let word = 0; word < 4; word++) entry[word] = key[word] ?? 0;
      entry[4] = contentHash;
      entry[5] = line;
      entry[6] = form * FORM + highOf(line) * HIGH_LINE + highOf(contentHash);
      const at = find(entry);
      if (words[at + 6] !== 0) return sightingOf(words, at);
      if (used >= most) {
        hasForgotten = true;
        return undefined;
      }
      words.set(entry, at);
      if (++used > slots * FULLEST && used < most) grow();
      return undefined;
    },
  };
}

/** The last word: 21 bits of the content hash, 9 bits of the line, 2 bits of the form. */
const HIGH_LINE = 2 ** 21;
const FORM = 2 ** 30;

function formOf(last: number): number {
  return last >>> 30;
}

function highOf(value: number): number {
  return Math.floor(value / 2 ** 32);
}

function sightingOf(words: Uint32Array, at: number): Sighting {
  const [hashLow = 0, lineLow = 0, last = 0] = words.subarray(at + 4, at + WORDS);
  const [hashHigh, lineHigh] = [last % HIGH_LINE, Math.floor((last % FORM) / HIGH_LINE)];
  return { line: lineHigh * 2 ** 32 + lineLow, contentHash: hashHigh * 2 ** 32 + hashLow };
}

/** Time-ordered UUIDs share their first words, and counters all but one: each word decides. */
function slotOf(a: number, b: number, c: number, d: number, slots: number): number {
  let mixed = Math.imul(a ^ (a >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ b ^ (mixed >>> 13), 0xc2b2ae35);
  mixed = Math.imul(mixed ^ c ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ d ^ (mixed >>> 13), 0xc2b2ae35);
  return Math.floor(((mixed ^ (mixed >>> 16)) >>> 0) * (slots / 2 ** 32));
}
