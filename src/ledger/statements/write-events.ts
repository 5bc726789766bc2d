/** Step `write` of the deciding transaction, second part: the rows of deliveries, which never change. */
import { type Halves, packContent } from '../../domain/event/content-hash';
import { kindCode } from '../../domain/event/event';
import { ID_KEY, storedId } from '../../domain/event/id-key';
import type { PlayerTags } from '../../domain/event/player-tag';
import { compareIds, type Item, type KeyedItem } from '../../domain/verdict/decide';
import {
  DEAD_LETTER_REASONS,
  type DeadLetterReason,
  type Outcome,
  type Reason,
  reasonInfo,
} from '../../domain/verdict/reasons';
import { CopyRows, sinceEpoch } from '../../postgres/binary-format';
import { copies, type Write } from '../../postgres/pipeline';
import type { Session } from '../../postgres/transaction';
import { batchOf } from './lock';

/** A fresh verdict, not yet written. */
export interface Fresh {
  readonly item: KeyedItem;
  readonly outcome: Outcome;
  readonly counted: boolean;
  readonly verdictId: number;
}

const COPY_KEYS = {
  name: 'copy_keys',
  text: 'copy promo_store.event_keys (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key) from stdin binary',
};

/** One object, used again for each key. */
const content: Halves = { high: 0, low: 0 };

/**
 * Writes the keys of fresh events, ascending by feed and id: two writers of the same keys then wait in one
 * order. A unique violation is a lost race: another writer decided one of the events since `findEvents`.
 */
export function copyKeys(fresh: readonly Fresh[], tags: PlayerTags): Write[] {
  const sorted = fresh.toSorted(({ item: a }, { item: b }) =>
    compareIds(a.feedNo, a.eventId, b.feedNo, b.eventId),
  );
  return copies(COPY_KEYS, sorted, (rows, { item, outcome, verdictId }) => {
    rows.row(7);
    rows.int8Value(verdictId);
    packContent(item, tags, content);
    rows.int8Halves(content);
    rows.int8Value(item.source?.offset ?? null);
    rows.int4Value(item.feedNo);
    rows.int4Value(item.source?.partitionNo ?? null);
    rows.int2Value(outcome.code);
    rows.formatted(item.eventId, ID_KEY);
  });
}

const COPY_HISTORY = {
  name: 'copy_history',
  text: `copy promo_store.history (verdict_id, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no, connection_no,
  partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id, player_ref, game_id, unmapped_brand, source_delay)
from stdin binary`,
};

/** Appends the verdicts to history. */
export function copyHistory(
  fresh: readonly Fresh[],
  batch: { nowMicros: bigint; referenceVersion: number; roundNumberOf: (item: KeyedItem) => number | null },
): Write[] {
  const decidedAt = Number(sinceEpoch(batch.nowMicros));
  const nowMs = Number(batch.nowMicros / 1_000n);
  return copies(COPY_HISTORY, byPlayer(fresh), (rows, { item, outcome, counted, verdictId }) => {
    const { fields } = item;
    rows.row(20);
    rows.int8Value(verdictId);
    rows.int8Value(decidedAt);
    rows.int8Value(fields.occurredAtMicros === null ? null : sinceEpoch(fields.occurredAtMicros));
    rows.int8Value(fields.amountMinor);
    rows.int8Value(batch.roundNumberOf(item));
    rows.int8Value(item.source?.offset ?? null);
    rows.int4Value(item.feedNo);
    rows.int4Value(item.connectionNo);
    rows.int4Value(item.source?.partitionNo ?? null);
    rows.int4Value(item.brandNo);
    rows.int4Value(batch.referenceVersion);
    rows.int2Value(outcome.code);
    rows.int2Value(fields.kind === null ? null : kindCode(fields.kind));
    rows.int2Value(fields.currency?.no ?? null);
    rows.boolValue(counted);
    rows.textValue(item.eventId);
    rows.textValue(fields.playerRef);
    rows.textValue(fields.gameId);
    // A row without nulls needs no null bitmap, which takes eight bytes.
    rows.textValue(item.brandNo === null ? fields.brand : '');
    rows.int4Value(delayOf(item, nowMs));
  });
}

const MAX_DELAY_MS = 2 ** 31 - 1;

/** Milliseconds from the record's timestamp to the decision; null where the store cannot keep it. */
function delayOf({ source, sent }: KeyedItem, nowMs: number): number | null {
  const sentAtMs = sent?.sentAtMs;
  // Kafka has -1 for a record without a timestamp.
  if (source === null || sentAtMs === undefined || sentAtMs < 0) return null;
  const delay = nowMs - sentAtMs;
  return Math.abs(delay) > MAX_DELAY_MS ? null : delay;
}

const COPY_FAULTS = {
  name: 'copy_faults',
  text: `copy promo_store.faults (decided_at, verdict_id, feed_no, connection_no, outcome, place, fault, event_id, field) from stdin binary`,
};

/**
 * Records the faults that history does not show. Most refused events have one fault, whose field follows from
 * the reason: they cost no row.
 */
export function copyFaults(fresh: readonly Fresh[], nowMicros: bigint): Write[] {
  let rows: CopyRows | null = null;
  for (const { item, outcome, verdictId } of fresh) {
    // Nearly no event has faults, and each iterator would be garbage.
    if (!item.faults?.length) continue;
    for (const [index, { reason, field }] of item.faults.entries()) {
      if (index === 0 && followsFrom(reason, field, item.fields.gameId)) continue;
      rows ??= new CopyRows();
      rows.row(9);
      rows.int8Value(sinceEpoch(nowMicros));
      rows.int8Value(verdictId);
      rows.int4Value(item.feedNo);
      rows.int4Value(item.connectionNo);
      rows.int2Value(outcome.code);
      rows.int2Value(index + 1);
      rows.int2Value(reasonInfo(reason).code);
      rows.textValue(storedId(item.eventId));
      rows.textValue(field);
    }
  }
  return rows === null ? [] : [{ ...COPY_FAULTS, rows }];
}

/** Whether promo_store.field_of returns the field of an event's first fault. */
function followsFrom(reason: Reason, field: string, gameId: string | null): boolean {
  return reason !== 'malformed' && !(gameId === null && field === '/game/id');
}

/**
 * Groups the events by player. The index then finds each player's place once and has it at hand afterwards.
 */
function byPlayer(fresh: readonly Fresh[]): Fresh[] {
  return [...Map.groupBy(fresh, ({ item }) => item.fields.playerRef).values()].flat();
}

const COPY_RESENDS = {
  name: 'copy_resends',
  text: `copy promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs,
  event_id, batch_no) from stdin binary`,
};

/** Records each duplicate as a delivery. */
export function copyResends(
  resends: readonly { item: KeyedItem; first: Outcome; contentDiffers: boolean }[],
  batch: { firstNo: number; nowMicros: bigint },
): Write[] {
  const receivedAt = Number(sinceEpoch(batch.nowMicros));
  const batchNo = batchOf(batch.firstNo);
  return copies(COPY_RESENDS, resends, (rows, { item, first, contentDiffers }) => {
    rows.row(9);
    rows.int8Value(receivedAt);
    rows.int8Value(item.source?.offset ?? null);
    rows.int4Value(item.feedNo);
    rows.int4Value(item.connectionNo);
    rows.int4Value(item.source?.partitionNo ?? null);
    rows.int2Value(first.code);
    rows.boolValue(contentDiffers);
    rows.textValue(storedId(item.eventId));
    rows.int8Value(batchNo);
  });
}

const COPY_UNSTORED = {
  name: 'copy_unstored',
  text: 'copy promo_store.unstored (received_at, source_offset, value_hash, partition_no, connection_no, dead_letter) from stdin binary',
};

const deadLetterCodes = new Map<DeadLetterReason, number>(
  DEAD_LETTER_REASONS.map(({ name, code }) => [name, code]),
);

/**
 * Records each item that got no verdict row. A webhook's delivery has no offset to record; its answer is the
 * only trace.
 */
export function copyUnstored(items: readonly Item[], nowMicros: bigint): Write[] {
  const noted = items.flatMap((item) =>
    item.type === 'unstored' && item.source !== null ? [{ item, source: item.source }] : [],
  );
  return copies(COPY_UNSTORED, noted, (rows, { item, source }) => {
    rows.row(6);
    rows.int8Value(sinceEpoch(nowMicros));
    rows.int8Value(source.offset);
    rows.int8Value(item.valueHash);
    rows.int4Value(source.partitionNo);
    rows.int4Value(item.connectionNo);
    rows.int2Value(item.deadLetter === null ? null : (deadLetterCodes.get(item.deadLetter) ?? null));
  });
}

const RECORD_PANIC = {
  name: 'record_panic',
  text: 'insert into promo_store.panics (verdict_id, error, payload) values ($1, $2, $3)',
};

/** The error of an event that failed twice, and its payload. */
export interface Panic {
  readonly verdictId: number;
  readonly error: string;
  readonly payload: Buffer | null;
}

export async function recordPanic(session: Session, panic: Panic): Promise<void> {
  await session.query(RECORD_PANIC, [panic.verdictId, panic.error, panic.payload]);
}
