/** Statements on events: they find the decided events, and write the others. */
import { type Halves, packContent } from '../../domain/event/content-hash';
import { kindCode } from '../../domain/event/event';
import { ID_KEY, idFinder, storedId } from '../../domain/event/id-key';
import type { PlayerTags } from '../../domain/event/player-tag';
import {
  type Coordinates,
  compareIds,
  deliveryKey,
  type FeedIds,
  type Item,
  type KeyedItem,
  type KnownEvent,
  unstoredKey,
} from '../../domain/verdict/decide';
import {
  DEAD_LETTER_REASONS,
  type DeadLetterReason,
  type Outcome,
  outcomeOfCode,
  type Reason,
  reasonInfo,
} from '../../domain/verdict/reasons';
import { arrays, CopyRows, sinceEpoch } from '../../postgres/binary-format';
import { unreadable } from '../../postgres/errors';
import { copies, type Write } from '../../postgres/pipeline';
import type { Session } from '../../postgres/transaction';

const FOUND = `select event_key, outcome, content_hash, partition_no, source_offset, verdict_id from promo_store.event_keys where feed_no = $1`;

const FIND_EVENTS = {
  name: 'find_events',
  text: `${FOUND} and event_key = any($2)`,
  // The limit keeps the planner from turning the lookup into a join.
  before17: `select e.* from unnest($2::bytea[]) key cross join lateral (${FOUND} and event_key = key limit 1) e`,
};

/**
 * Passes the decided events of one feed to `found`. A decided key never changes, so it needs no lock. Where
 * another writer decides an event after this statement, `copyKeys` fails with a lost race.
 */
export async function findEvents(
  session: Session,
  { feedNo, ids }: FeedIds,
  found: (eventId: string, event: KnownEvent) => void,
): Promise<void> {
  const rows = await session.query(FIND_EVENTS, [feedNo, arrays.formatted(ids, ID_KEY)]);
  const idOf = idFinder(ids);
  for (const [key, code, content, partitionNo, offset, verdictId] of rows) {
    const id = idOf(key ?? '');
    const outcome = outcomeOfCode(Number(code));
    if (id === undefined || outcome === undefined) throw unreadable(FIND_EVENTS.name, `outcome ${code}`);
    found(id, {
      outcome,
      content: BigInt(content ?? 0),
      source: partitionNo == null ? null : { partitionNo: Number(partitionNo), offset: Number(offset) },
      verdictId: Number(verdictId),
    });
  }
}

const RECEIVED = '(extract(epoch from received_at) * 1000000)::bigint';

const FIND_RESENDS = {
  name: 'find_resends',
  text: `select source_offset, feed_no, event_id, content_differs, ${RECEIVED} from promo_store.resends
where partition_no = $1 and source_offset between $2 and $3`,
};

const FIND_UNSTORED = {
  name: 'find_unstored',
  text: `select source_offset, value_hash, ${RECEIVED} from promo_store.unstored
where partition_no = $1 and source_offset between $2 and $3`,
};

/**
 * Finds the duplicates and unstored records of a range of offsets that were answered before, and when. They
 * exist only where the range was read before.
 */
export async function findRedelivered(
  session: Session,
  first: Coordinates,
  last: Coordinates,
): Promise<{ resends: Map<string, boolean>; unstored: Set<string>; answeredAt: Map<string, bigint> }> {
  const range = [first.partitionNo, first.offset, last.offset];
  const [resendRows, unstoredRows] = await Promise.all([
    session.query(FIND_RESENDS, range),
    session.query(FIND_UNSTORED, range),
  ]);
  const answeredAt = new Map<string, bigint>();
  const resends = new Map<string, boolean>();
  for (const [offset, feedNo, eventId, differs, micros] of resendRows) {
    const source = { partitionNo: first.partitionNo, offset: Number(offset) };
    const key = deliveryKey(Number(feedNo), eventId ?? '', source);
    resends.set(key, differs === 't');
    answeredAt.set(key, BigInt(micros ?? 0));
  }
  const unstored = new Set<string>();
  for (const [offset, valueHash, micros] of unstoredRows) {
    const source = { partitionNo: first.partitionNo, offset: Number(offset) };
    const key = unstoredKey(source, BigInt(valueHash ?? 0));
    unstored.add(key);
    answeredAt.set(key, BigInt(micros ?? 0));
  }
  return { resends, unstored, answeredAt };
}

/**
 * Verdict ids of a batch are its number times this, plus the position in the batch. New rounds are numbered
 * likewise.
 */
export const MAX_BATCH_EVENTS = 8_192;

/** The number of the batch that gave a verdict. */
export function batchOf(verdictId: number): number {
  return Math.floor(verdictId / MAX_BATCH_EVENTS);
}

const FIND_TIMES = {
  name: 'find_times',
  // The offset keeps the planner from turning the look-ups into a join, which reads all of history.
  text: `select h.* from unnest($1::bigint[]) id cross join lateral
(select verdict_id, (extract(epoch from decided_at) * 1000000)::bigint from promo_store.history where verdict_id = id offset 0) h`,
};

/** When verdicts were given, in microseconds since 1970. Those of dropped months are left out. */
export async function findTimes(
  session: Session,
  verdictIds: readonly number[],
): Promise<ReadonlyMap<number, bigint>> {
  if (verdictIds.length === 0) return new Map();
  const rows = await session.query(FIND_TIMES, [arrays.int8(verdictIds)]);
  return new Map(rows.map(([verdictId, micros]) => [Number(verdictId), BigInt(micros ?? 0)]));
}

const NEXT_BATCH = {
  name: 'next_batch',
  text: `select nextval('promo_store.batch_numbers'), (extract(epoch from clock_timestamp()) * 1000000)::bigint`,
};

/**
 * The number and the time of the batch. It must run under the locks: of two batches that share a round, the
 * one decided later then has the higher number.
 */
export async function nextBatch(session: Session): Promise<{ firstNo: number; nowMicros: bigint }> {
  const [row] = await session.query(NEXT_BATCH);
  return { firstNo: Number(row?.[0]) * MAX_BATCH_EVENTS, nowMicros: BigInt(row?.[1] ?? 0) };
}

const NOW = {
  name: 'now_micros',
  text: 'select (extract(epoch from clock_timestamp()) * 1000000)::bigint',
};

/** The time of the store, in microseconds since 1970. */
export async function nowMicros(session: Session): Promise<bigint> {
  const [row] = await session.query(NOW);
  return BigInt(row?.[0] ?? 0);
}

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
