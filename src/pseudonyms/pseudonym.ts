/** The pseudonym of a player: a keyed hash. Without its key nobody computes one, or tests a guess. */
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

export interface PseudonymKey {
  /** Names the key in the database, where the key itself never is. */
  readonly id: string;
  readonly key: KeyObject;
}

/** Separates the uses of one key, so that no id equals a part of a pseudonym. */
const OF_KEY = 'promo-intake key id';
const OF_PLAYER = 'promo-intake player';
const ID_DIGITS = 8;
const PSEUDONYM_DIGITS = 32;
/** No text of Postgres has it, so different players never form the same message. */
const END = '\0';

const hmac = (key: KeyObject, text: string, digits: number): string =>
  createHmac('sha256', key).update(text, 'utf8').digest('hex').slice(0, digits);

export function asPseudonymKey(secret: Buffer): PseudonymKey {
  const key = createSecretKey(secret);
  return { id: hmac(key, OF_KEY, ID_DIGITS), key };
}

const ERASED = /^erased:\d+$/;

/** An erased player keeps the name that the erasure gave, which leads to nobody. */
export function pseudonymOf({ key }: PseudonymKey, operatorId: string, playerRef: string): string {
  if (ERASED.test(playerRef)) return playerRef;
  return hmac(key, [OF_PLAYER, operatorId, playerRef].join(END), PSEUDONYM_DIGITS);
}
