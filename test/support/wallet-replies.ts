/** Replies of wallets for tests, and generators of any reply. */
import fc from 'fast-check';
import { WALLET_ACTION_NAMES } from '../../src/contract/actions';
import { ERROR_CODES } from '../../src/contract/error-codes';
import type { WalletReply } from '../../src/wallet/answer';
import {
  addAttempt,
  type CallHistory,
  type PolicyCall,
  type PolicyTerms,
  stepAfter,
  type WalletAttempt,
  type WalletStep,
} from '../../src/wallet/policy';

export type HttpReply = Extract<WalletReply, { type: 'http' }>;

export function aReply(body: unknown, more: Partial<HttpReply> = {}): HttpReply {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return { type: 'http', status: 200, headers: {}, body: bytes, ms: 20, ...more };
}

export const failureBody = (code: string) => ({ status: 'error', error: { code } });

export const anyAction = fc.constantFrom(...WALLET_ACTION_NAMES);
export const anyCode = fc.constantFrom(...ERROR_CODES);
export const anyStatus = fc.oneof(
  fc.integer({ min: 100, max: 599 }),
  fc.constantFrom(200, 401, 403, 404, 429, 500, 502, 503, 504),
);

const anyBody = fc.oneof(
  fc.constantFrom<'too_large' | 'cut_off'>('too_large', 'cut_off'),
  fc.uint8Array({ maxLength: 50 }),
  fc.json({ maxDepth: 3 }).map((text) => Buffer.from(text)),
  fc
    .record(
      {
        status: fc.oneof(fc.constantFrom('error', 'ok', 'OK', ''), fc.jsonValue()),
        error: fc.oneof(fc.record({ code: fc.oneof(anyCode, fc.string()) }), fc.jsonValue()),
      },
      { requiredKeys: [] },
    )
    .map((body) => Buffer.from(JSON.stringify(body))),
);

export const anyReply: fc.Arbitrary<WalletReply> = fc.oneof(
  fc.record({
    type: fc.constant('nothing' as const),
    cause: fc.constantFrom('timeout' as const, 'unreachable' as const, 'interrupted' as const),
  }),
  fc.record({
    type: fc.constant('http' as const),
    status: anyStatus,
    headers: fc.record(
      {
        'retry-after': fc.oneof(fc.nat().map(String), fc.string()),
        date: fc.string(),
      },
      { requiredKeys: [] },
    ),
    body: anyBody,
    ms: fc.oneof(fc.integer({ min: 0, max: 10_000 }), fc.double()),
  }),
);

/** The step after all attempts of a call, in the order in which they were sent. */
export function nextStep(
  call: PolicyCall,
  attempts: readonly WalletAttempt[],
  now: number,
  terms?: PolicyTerms,
): WalletStep {
  return stepAfter(call, attempts.reduce<CallHistory | null>(addAttempt, null), now, terms);
}
