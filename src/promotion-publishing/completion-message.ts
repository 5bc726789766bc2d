/** A message about an entry of the ledger of completions. */
import type { OutgoingMessage } from '../kafka/protocol/record-batch-writer';
import type { CompletionChange } from '../promotions/completion';
import { COMPLETION_SPEC } from './completion-schema';

/** An entry of the ledger of completions, with the names that its numbers stand for. */
export interface OutboxEntry {
  readonly entryNo: number;
  /** Number of the operator in storage. */
  readonly operatorNo: number;
  readonly operatorId: string;
  readonly completionId: string;
  readonly change: CompletionChange;
  readonly promotionId: string;
  readonly version: number;
  readonly type: string;
  readonly window: string;
  /** Times are RFC 3339 in UTC with microseconds. */
  readonly startsAt: string | null;
  readonly endsAt: string | null;
  readonly playerRef: string;
  readonly ordinal: number;
  readonly attempt: number;
  readonly changeNo: number | null;
  readonly changedAt: string;
}

const NO_HEADERS: OutgoingMessage['headers'] = [];

/**
 * The key is the id of the completion, so all changes of a completion are in one partition, in their order.
 * The player is no key: it is renamed by an erasure, and one busy player would fill one partition.
 */
export function completionMessage(entry: OutboxEntry): OutgoingMessage {
  const value = {
    spec: COMPLETION_SPEC,
    completion_id: entry.completionId,
    change: entry.change,
    operator_id: entry.operatorId,
    promotion_id: entry.promotionId,
    version: entry.version,
    type: entry.type,
    window: { key: entry.window, starts_at: entry.startsAt, ends_at: entry.endsAt },
    player_ref: entry.playerRef,
    ordinal: entry.ordinal,
    attempt: entry.attempt,
    rank: entry.type === 'leaderboard' ? entry.ordinal : null,
    decided_by: entry.changeNo,
    at: entry.changedAt,
    entry_no: entry.entryNo,
  };
  return { key: entry.completionId, value: JSON.stringify(value), headers: NO_HEADERS };
}
