/** Keyed hashes by HMAC-SHA256. */
import { createHmac, createSecretKey, type Hmac, type KeyObject } from 'node:crypto';

/**
 * Node makes a key of a Buffer each time, which takes longer than the hash of a request
 * (docs/tuning.md, The key of a signature).
 */
const keys = new WeakMap<Buffer, KeyObject>();

/** Begins a hash. @param secret its bytes must not change */
export function hmacSha256(secret: Buffer): Hmac {
  let key = keys.get(secret);
  if (key === undefined) {
    key = createSecretKey(secret);
    keys.set(secret, key);
  }
  return createHmac('sha256', key);
}
