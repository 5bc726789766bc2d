/**
 * Digests: the key that stands for an id, and the hashes that tell content and players apart (docs/rules.md, K1-K5).
 */
import { createHash, hash } from 'node:crypto';

const DIGEST_BYTES = 20;
const UUID_BYTES = 16;
const UUID_CHARS = 36;

/**
 * The key of an event_id or round_id: bytes as a Latin-1 string, one character a byte, so that it can be a Map's key and keeps the
 * order of its bytes. However long the id, the key has at most 20 bytes, so it fits any index.
 *
 * - an id of fewer than 16 bytes of UTF-8 is its own key;
 * - a UUID in its usual lower-case text is its 16 bytes, which keep the order of time-ordered UUIDs;
 * - every other id is the first 160 bits of its SHA-256.
 *
 * The three cannot be taken for one another, since their lengths differ. `promo_store.id_key` is the same function in SQL.
 */
export function idKey(id: string): string {
  if (id.length === UUID_CHARS && isLowerCaseUuid(id))
    return Buffer.from(id.replaceAll('-', ''), 'hex').toString('latin1');
  if (id.length < UUID_BYTES) {
    const bytes = Buffer.from(id, 'utf8');
    if (bytes.length < UUID_BYTES) return bytes.toString('latin1');
  }
  return sha256(id).toString('latin1', 0, DIGEST_BYTES);
}

/** The key of an id in its feed as one text: the number of the feed, a slash, the bytes of the id's key. */
export function feedKey(feedNo: number, id: string): string {
  return `${feedNo}/${idKey(id)}`;
}

const DASH = 0x2d;

function isLowerCaseUuid(text: string): boolean {
  for (let i = 0; i < UUID_CHARS; i++) {
    const code = text.charCodeAt(i);
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (code !== DASH) return false;
    } else if (!((code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x66))) return false;
  }
  return true;
}

/** First 64 bits of the SHA-256 of a text, as the signed number that the store keeps. For comparing content, never for identity. */
export function hash64(text: string): bigint {
  return sha256(text).readBigInt64BE(0);
}

/** First 64 bits of the SHA-256 of bytes, as `hash64`. */
export function hash64OfBytes(bytes: Uint8Array): bigint {
  return createHash('sha256').update(bytes).digest().readBigInt64BE(0);
}

function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
