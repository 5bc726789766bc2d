/**
 * Tokens and sessions. A session is an operator, an end, and a HMAC of both with the token as key. So only a
 * holder of the token can make it, and the browser does not keep the token. Every pod knows every session,
 * and a replaced token ends the sessions that it made.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { OperatorScope } from './scope';

export type Tokens = ReadonlyMap<string, readonly string[]>;

export const SESSION_SECONDS = 12 * 3_600;

/** The operator of a token. Compares with every token, and each in constant time. */
export function scopeOfToken(given: string, tokens: Tokens): OperatorScope | undefined {
  const digest = digestOf(given);
  let operator: string | undefined;
  for (const [id, own] of tokens)
    for (const token of own) if (timingSafeEqual(digest, digestOf(token))) operator = id;
  return operator === undefined ? undefined : new OperatorScope(operator);
}

/** Equal lengths, whatever the texts are. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** @param nowSeconds seconds since 1970 */
export function makeSession({ operator }: OperatorScope, token: string, nowSeconds: number): string {
  const signed = `${Buffer.from(operator).toString('base64url')}.${nowSeconds + SESSION_SECONDS}`;
  return `${signed}.${signatureOf(signed, token).toString('base64url')}`;
}

const SESSION = /^(([\w-]{1,400})\.(\d{1,12}))\.([\w-]{43})$/;

/** Undefined where the session is over, or no token of its operator made it. */
export function scopeOfSession(
  session: string,
  tokens: Tokens,
  nowSeconds: number,
): OperatorScope | undefined {
  const [, signed = '', id = '', end = '', signature = ''] = SESSION.exec(session) ?? [];
  if (signed === '' || Number(end) <= nowSeconds) return undefined;
  const operator = Buffer.from(id, 'base64url').toString('utf8');
  const given = Buffer.from(signature, 'base64url');
  let isMade = false;
  for (const token of tokens.get(operator) ?? []) {
    const expected = signatureOf(signed, token);
    if (given.length === expected.length && timingSafeEqual(given, expected)) isMade = true;
  }
  return isMade ? new OperatorScope(operator) : undefined;
}

function signatureOf(signed: string, token: string): Buffer {
  return createHmac('sha256', token).update(`promo-intake console session ${signed}`).digest();
}

/** Wrong tokens of one address: so many at once, and then one in each interval. */
const WRONG_AT_ONCE = 10;
const WRONG_EVERY_MS = 6_000;
/** Addresses that are counted. The one that came first makes room. */
const MAX_ADDRESSES = 10_000;

export interface WrongTokens {
  /** Seconds until the address may try again; 0 where it may now. */
  waitOf(address: string): number;
  note(address: string): void;
}

/** @param now milliseconds of a monotonic clock */
export function limitWrongTokens(now: () => number): WrongTokens {
  /** The time at which all wrong tokens of the address are forgotten. */
  const forgottenAt = new Map<string, number>();
  return {
    waitOf(address) {
      const aheadMs = (forgottenAt.get(address) ?? 0) - now();
      const lateMs = aheadMs - (WRONG_AT_ONCE - 1) * WRONG_EVERY_MS;
      return Math.max(0, Math.ceil(lateMs / 1_000));
    },
    note(address) {
      const until = Math.max(forgottenAt.get(address) ?? 0, now()) + WRONG_EVERY_MS;
      forgottenAt.delete(address);
      forgottenAt.set(address, until);
      const [first] = forgottenAt.keys();
      if (forgottenAt.size > MAX_ADDRESSES && first !== undefined) forgottenAt.delete(first);
    },
  };
}
