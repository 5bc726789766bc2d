import { MAX_ID_KEY_BYTES, writeIdKey } from '../../src/domain/event/id-key';

const GUARD = 0xee;
const START = 5;

/**
 * The key of an id.
 * @throws where the function writes before the key's place, or beyond the longest key
 */
export function idKey(id: string): Buffer {
  const bytes = Buffer.alloc(START + MAX_ID_KEY_BYTES + START, GUARD);
  const length = writeIdKey(id, bytes, START);
  const outside = [...bytes.subarray(0, START), ...bytes.subarray(START + MAX_ID_KEY_BYTES)];
  if (outside.some((byte) => byte !== GUARD)) throw new Error('a key was written beyond its place');
  return bytes.subarray(START, START + length);
}
