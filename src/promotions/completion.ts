/**
 * Completions are a ledger: entries are added and never changed (docs/rules.md, P12-P15).
 */
import { hash } from 'node:crypto';

export const COMPLETION_CHANGES = ['completed', 'revoked', 'confirmed'] as const;
export type CompletionChange = (typeof COMPLETION_CHANGES)[number];

/** Names one completion: its promotion, player, window, and number within the window. */
export interface CompletionKey {
  readonly operatorId: string;
  readonly promotionId: string;
  /** The version of the definition. */
  readonly version: number;
  readonly playerRef: string;
  /** The key of the window. */
  readonly window: string;
  /** The number of the completion in the window, from 1. The rank, for a leaderboard. */
  readonly ordinal: number;
  /** The number of times that this ordinal was completed, from 1. A refund may revoke it in between. */
  readonly attempt: number;
}

export interface CompletionEntry extends CompletionKey {
  readonly completionId: string;
  readonly change: CompletionChange;
  /** The verdict that decided the change; null where the time alone did. */
  readonly changeNo: number | null;
  /** The time of the change, in microseconds since 1970. */
  readonly at: bigint;
}

/** An id has 16 bytes. */
const ID_DIGITS = 32;

/**
 * The id of a completion: equal after a replay, a restore and a failover. A reward is credited once for each
 * id.
 *
 * SHA-256 of the texts, each followed by a zero byte, which no text holds. A store can compute it too.
 */
export function completionIdOf(key: CompletionKey): string {
  const { operatorId, promotionId, version, playerRef, window, ordinal, attempt } = key;
  const parts = [operatorId, promotionId, version, playerRef, window, ordinal, attempt];
  return hash('sha256', `${parts.join('\0')}\0`, 'hex').slice(0, ID_DIGITS);
}
