/**
 * The statements of a deciding transaction, in the order in which it runs them.
 *
 * All of them work on sets. Keys and rounds are always handed over in ascending order, since two batches that lock in different
 * orders deadlock; rounds come before keys in every transaction.
 */
import {
  type Coordinates,
  deliveryKey,
  type Item,
  type KeyedItem,
  type KnownEvent,
  unstoredKey,
} from '../domain/decide';
import { kindCode } from '../domain/event';
import { type Currency, currencyOf, currencyOfNo } from '../domain/money';
import type { Round, Sums } from '../domain/round';
import { DEAD_LETTER_REASONS, type DeadLetterReason, type Outcome, outcomeOfCode } from '../domain/verdict';
import { arrays, CopyRows } from './binary';
import type { Row, Session } from './connection';
import { LostRace, StoreError } from './failures';

/** Feed and key as one text: the number of the feed, a slash, the bytes of the key as Latin-1. */
export function feedKey(feedNo: number, idKey: string): string {
  return `${feedNo}/${idKey}`;
}

function splitFeedKey(key: string): { feedNo: number; idKey: string } {
  const slash = key.indexOf('/');
  return { feedNo: Number(key.slice(0, slash)), idKey: key.slice(slash + 1) };
}

function feedKeyColumns(keys: readonly string[]): [feedNos: Buffer, idKeys: Buffer] {
  const parts = keys.map(splitFeedKey);
  return [arrays.int4(parts.map((part) => part.feedNo)), arrays.bytea(parts.map((part) => part.idKey))];
}

/** The store holds something that this version cannot read, as after a newer one wrote it: the batch stays undecided. */
function unreadable(statement: string, what: string): StoreError {
  return new StoreError(statement, new Error(`unreadable answer: ${what}`));
}

// --- 0 the months

const ENSURE_MONTHS = { name: 'ensure_months', text: 'select promo_store.ensure_months()' };

export async function ensureMonths(session: Session): Promise<void> {
  await session.query(ENSURE_MONTHS);
}

// --- 1 the partition

const LOCK_PARTITION = {
  name: 'lock_partition',
  text: `select p.next_offset, coalesce((select max(version) from promo_store.reference_versions), 0)
from promo_store.partitions p where p.partition_no = $1 for update`,
};

const REFERENCE_VERSION = {
  name: 'reference_version',
  text: 'select 0, coalesce(max(version), 0) from promo_store.reference_versions',
};

const PARTITION_NO = {
  name: 'partition_no',
  text: `with opened as (
  insert into promo_store.partitions (topic, partition) values ($1, $2) on conflict do nothing returning partition_no
)
select partition_no from opened union all select partition_no from promo_store.partitions where topic = $1 and partition = $2`,
};

/** The number that stands for a Kafka partition. @throws LostRace where another worker takes up the partition at this moment */
export async function partitionNoOf(session: Session, topic: string, partition: number): Promise<number> {
  const [row] = await session.query(PARTITION_NO, [topic, partition]);
  if (row === undefined) throw new LostRace('another worker took up the partition');
  return Number(row[0]);
}

/**
 * Locks the partition's row, so that two workers that both believe to own the partition decide one after the other, and the
 * second finds what the first decided. Reads, in the same statement, the version of the reference data in force.
 */
export async function lockPartition(
  session: Session,
  partitionNo: number | null,
): Promise<{ nextOffset: number; referenceVersion: number }> {
  const [row] =
    partitionNo === null
      ? await session.query(REFERENCE_VERSION)
      : await session.query(LOCK_PARTITION, [partitionNo]);
  if (row === undefined) throw unreadable(LOCK_PARTITION.name, `no partition ${partitionNo}`);
  return { nextOffset: Number(row[0]), referenceVersion: Number(row[1]) };
}

// --- 2 what was answered before

const FIND_EVENTS = {
  name: 'find_events',
  text: `select k.n, e.outcome, e.content_hash, e.partition_no, e.source_offset
from unnest($1::int[], $2::bytea[]) with ordinality as k (feed_no, event_key, n)
cross join lateral (
  select * from promo_store.event_keys e where e.feed_no = k.feed_no and e.event_key = k.event_key limit 1
) e`,
};

/**
 * The events of the batch that are decided already. A decided key never changes, so it needs no lock. One that another writer
 * decides after this statement is met again by `recordKeys`, as a lost race.
 */
export async function findEvents(
  session: Session,
  eventKeys: readonly string[],
): Promise<Map<string, KnownEvent>> {
  const known = new Map<string, KnownEvent>();
  if (eventKeys.length === 0) return known;
  for (const row of await session.query(FIND_EVENTS, feedKeyColumns(eventKeys))) {
    const key = eventKeys[Number(row[0]) - 1];
    const outcome = outcomeOfCode(Number(row[1]));
    if (key === undefined || outcome === undefined) throw unreadable(FIND_EVENTS.name, `outcome ${row[1]}`);
    known.set(key, {
      outcome,
      contentHash: BigInt(row[2] ?? 0),
      source: row[3] == null ? null : { partitionNo: Number(row[3]), offset: Number(row[4]) },
    });
  }
  return known;
}

const FIND_RESENDS = {
  name: 'find_resends',
  text: `select source_offset, feed_no, event_key, content_differs from promo_store.resends
where partition_no = $1 and source_offset between $2 and $3`,
};

const FIND_UNSTORED = {
  name: 'find_unstored',
  text: `select source_offset, value_hash from promo_store.unstored
where partition_no = $1 and source_offset between $2 and $3`,
};

/** Duplicates and unstored records of a range of offsets that were answered before: needed only where the range was read before. */
export async function findAnswered(
  session: Session,
  first: Coordinates,
  last: Coordinates,
): Promise<{ resends: Map<string, boolean>; unstored: Set<string> }> {
  const range = [first.partitionNo, first.offset, last.offset];
  const resends = new Map<string, boolean>();
  for (const [offset, feedNo, eventKey, differs] of await session.query(FIND_RESENDS, range)) {
    const idKey = Buffer.from((eventKey ?? '').slice('\\x'.length), 'hex').toString('latin1');
    const source = { partitionNo: first.partitionNo, offset: Number(offset) };
    resends.set(deliveryKey(feedKey(Number(feedNo), idKey), source), differs === 't');
  }
  const unstored = new Set<string>();
  for (const [offset, valueHash] of await session.query(FIND_UNSTORED, range)) {
    unstored.add(
      unstoredKey({ partitionNo: first.partitionNo, offset: Number(offset) }, BigInt(valueHash ?? 0)),
    );
  }
  return { resends, unstored };
}

// --- 3 the rounds

export interface LockedRounds {
  /** Number of each round of the batch, by round key. */
  readonly numbers: Map<string, number>;
  /** State of those that existed before, by round key. */
  readonly states: Map<string, Round>;
}

const LOCK_ROUNDS = {
  name: 'lock_rounds',
  text: `select k.n, r.round_no, r.refunded_by, r.settled, r.second_settled, r.player_mismatch, r.brand_mismatch, r.player_hash, r.brand_no,
  r.currency_no, r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor, r.other_sums
from unnest($1::int[], $2::bytea[]) with ordinality as k (feed_no, round_key, n)
cross join lateral (
  select * from promo_store.rounds r where r.feed_no = k.feed_no and r.round_key = k.round_key for update
) r`,
};

const OPEN_ROUNDS = {
  name: 'open_rounds',
  text: `insert into promo_store.rounds (feed_no, round_key, round_id)
select * from unnest($1::int[], $2::bytea[], $3::text[]) on conflict do nothing returning round_no`,
};

/**
 * Locks the rounds of the batch and returns their state.
 *
 * Locks: one row a round, ascending by key; the lateral subquery locks in the order of the array. Rounds never seen before are
 * inserted, since a missing row cannot be locked. Two phases, each ascending, cannot deadlock: a writer that waits for another's
 * insert holds only inserts below it.
 *
 * @param roundIds the round id of each round key
 * @throws LostRace where another writer opened one of the missing rounds meanwhile
 */
export async function lockRounds(
  session: Session,
  roundIds: ReadonlyMap<string, string>,
): Promise<LockedRounds> {
  const locked: LockedRounds = { numbers: new Map(), states: new Map() };
  if (roundIds.size === 0) return locked;
  const keys = [...roundIds.keys()].sort();
  for (const row of await session.query(LOCK_ROUNDS, feedKeyColumns(keys))) {
    const key = keys[Number(row[0]) - 1];
    if (key === undefined) throw unreadable(LOCK_ROUNDS.name, `position ${row[0]}`);
    locked.numbers.set(key, Number(row[1]));
    locked.states.set(key, readRound(row));
  }
  const missing = keys.filter((key) => !locked.numbers.has(key));
  if (missing.length === 0) return locked;
  const opened = await session.query(OPEN_ROUNDS, [
    ...feedKeyColumns(missing),
    arrays.text(missing.map((key) => roundIds.get(key) ?? null)),
  ]);
  if (opened.length < missing.length) throw new LostRace('another writer opened a round of this batch');
  missing.forEach((key, index) => {
    locked.numbers.set(key, Number(opened[index]?.[0]));
  });
  return locked;
}

function readRound(row: Row): Round {
  const [
    ,
    ,
    refundedBy,
    settled,
    secondSettled,
    playerMismatch,
    brandMismatch,
    playerHash,
    brandNo,
    currencyNo,
  ] = row;
  const sums = new Map<Currency, Sums>();
  if (currencyNo != null) {
    const [bet, win, counted, belowMinBet] = row.slice(10, 14).map((text) => BigInt(text ?? 0));
    const currency = currencyOfNo(Number(currencyNo));
    if (currency === undefined) throw unreadable(LOCK_ROUNDS.name, `currency ${currencyNo}`);
    sums.set(currency, {
      bet: bet ?? 0n,
      win: win ?? 0n,
      settled: counted ?? 0n,
      belowMinBet: belowMinBet ?? 0n,
    });
  }
  readOtherSums(row[14] ?? null, sums);
  return {
    refundedBy: refundedBy ?? null,
    settled: settled === 't',
    sums,
    playerHash: playerHash == null ? null : BigInt(playerHash),
    brandNo: brandNo == null ? null : Number(brandNo),
    secondSettled: secondSettled === 't',
    playerMismatch: playerMismatch === 't',
    brandMismatch: brandMismatch === 't',
  };
}

const SUM_NAMES = ['bet', 'win', 'settled', 'belowMinBet'] as const;

function readOtherSums(json: string | null, sums: Round['sums']): void {
  if (json === null) return;
  const byCode: unknown = JSON.parse(json);
  for (const [code, value] of Object.entries(byCode ?? {})) {
    const currency = currencyOf(code);
    if (currency === undefined) throw unreadable(LOCK_ROUNDS.name, `currency ${code}`);
    const read: Sums = { bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n };
    for (const name of SUM_NAMES) read[name] = BigInt(String(Reflect.get(Object(value), name)));
    sums.set(currency, read);
  }
}

// --- 4 the verdicts

/** Verdict ids of one batch are its number times this, plus the position in the batch. */
export const MAX_BATCH_EVENTS = 8_192;

const NEXT_BATCH = {
  name: 'next_batch',
  text: `select nextval('promo_store.batch_numbers'), now()::timestamptz(6)::text, (extract(epoch from now()) * 1000000)::bigint`,
};

/**
 * Number and time of the batch. Taken under the locks: of two batches that share a round, the later decided has the higher number.
 */
export async function nextBatch(session: Session): Promise<{ firstVerdictId: number; nowMicros: bigint }> {
  const [row] = await session.query(NEXT_BATCH);
  return { firstVerdictId: Number(row?.[0]) * MAX_BATCH_EVENTS, nowMicros: BigInt(row?.[2] ?? 0) };
}

/** A fresh verdict about to be written. */
export interface Fresh {
  readonly item: KeyedItem;
  readonly outcome: Outcome;
  readonly counted: boolean;
  readonly verdictId: number;
}

/** 2000-01-01, from which Postgres counts, in microseconds since 1970. */
const POSTGRES_EPOCH_MICROS = 946_684_800_000_000n;

const COPY_KEYS = {
  name: 'copy_keys',
  text: 'copy promo_store.event_keys (content_hash, source_offset, feed_no, partition_no, outcome, event_key) from stdin binary',
};

/**
 * Writes the keys of fresh events, ascending, so that two writers of the same keys wait for one another in one order.
 * A unique violation is a lost race: another writer decided one of them since `findEvents`.
 */
export async function recordKeys(session: Session, fresh: readonly Fresh[]): Promise<void> {
  if (fresh.length === 0) return;
  const rows = new CopyRows();
  const sorted = [...fresh].sort((a, b) => (a.item.eventKey < b.item.eventKey ? -1 : 1));
  for (const { item, outcome } of sorted) {
    const { feedNo, idKey } = splitFeedKey(item.eventKey);
    rows.row(6);
    rows.int8Value(item.contentHash);
    rows.int8Value(item.source?.offset ?? null);
    rows.int4Value(feedNo);
    rows.int4Value(item.source?.partitionNo ?? null);
    rows.int2Value(outcome.code);
    rows.byteaValue(idKey);
  }
  await session.copy(COPY_KEYS, rows.end());
}

const COPY_HISTORY = {
  name: 'copy_history',
  text: `copy promo_store.history (verdict_id, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no, connection_no,
  partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id, player_ref, game_id, unmapped_brand)
from stdin binary`,
};

/** Appends the verdicts to history. */
export async function recordHistory(
  session: Session,
  fresh: readonly Fresh[],
  batch: { nowMicros: bigint; referenceVersion: number; roundNumbers: ReadonlyMap<string, number> },
): Promise<void> {
  if (fresh.length === 0) return;
  const rows = new CopyRows();
  const decidedAt = batch.nowMicros - POSTGRES_EPOCH_MICROS;
  for (const { item, outcome, counted, verdictId } of fresh) {
    const { fields } = item;
    rows.row(19);
    rows.int8Value(verdictId);
    rows.int8Value(decidedAt);
    rows.int8Value(fields.occurredAtMicros === null ? null : fields.occurredAtMicros - POSTGRES_EPOCH_MICROS);
    rows.int8Value(fields.amountMinor);
    rows.int8Value(item.roundKey === null ? null : (batch.roundNumbers.get(item.roundKey) ?? null));
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
    rows.textValue(item.brandNo === null ? fields.brand : null);
  }
  await session.copy(COPY_HISTORY, rows.end());
}

// --- 5 the rounds' new state

const UPDATE_ROUNDS = {
  name: 'update_rounds',
  text: `update promo_store.rounds r set
  refunded_by = c.refunded_by,
  refunded_at = case when c.refunded_by is null then null else coalesce(r.refunded_at, now()) end,
  settled = c.settled, second_settled = c.second_settled, player_mismatch = c.player_mismatch, brand_mismatch = c.brand_mismatch,
  player_hash = c.player_hash, brand_no = c.brand_no, currency_no = c.currency_no,
  bet_minor = c.bet_minor::numeric, win_minor = c.win_minor::numeric, settled_minor = c.settled_minor::numeric,
  below_min_bet_minor = c.below_min_bet_minor::numeric, other_sums = c.other_sums::jsonb
from unnest($1::bigint[], $2::text[], $3::boolean[], $4::boolean[], $5::boolean[], $6::boolean[], $7::bigint[], $8::int[], $9::smallint[],
  $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
  as c (round_no, refunded_by, settled, second_settled, player_mismatch, brand_mismatch, player_hash, brand_no, currency_no,
  bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums)
where r.round_no = c.round_no`,
};

/** Writes the state of the rounds that changed; their rows are locked already. */
export async function updateRounds(
  session: Session,
  changed: readonly { no: number; round: Round }[],
): Promise<void> {
  if (changed.length === 0) return;
  const rounds = changed.map(({ round }) => round);
  const first = rounds.map((round) => [...round.sums][0]);
  const sum = (name: keyof Sums) =>
    arrays.text(first.map((entry) => (entry ? entry[1][name].toString() : '0')));
  await session.query(UPDATE_ROUNDS, [
    arrays.int8(changed.map(({ no }) => no)),
    arrays.text(rounds.map((round) => round.refundedBy)),
    arrays.bool(rounds.map((round) => round.settled)),
    arrays.bool(rounds.map((round) => round.secondSettled)),
    arrays.bool(rounds.map((round) => round.playerMismatch)),
    arrays.bool(rounds.map((round) => round.brandMismatch)),
    arrays.int8(rounds.map((round) => round.playerHash)),
    arrays.int4(rounds.map((round) => round.brandNo)),
    arrays.int2(first.map((entry) => entry?.[0].no ?? null)),
    sum('bet'),
    sum('win'),
    sum('settled'),
    sum('belowMinBet'),
    arrays.text(rounds.map(otherSums)),
  ]);
}

/** Sums beyond the first currency as JSON, null where there are none. Numbers as text: they may exceed what JSON readers keep exact. */
function otherSums(round: Round): string | null {
  if (round.sums.size < 2) return null;
  const others = [...round.sums]
    .slice(1)
    .map(([currency, sums]) => [
      currency.code,
      Object.fromEntries(SUM_NAMES.map((name) => [name, sums[name].toString()])),
    ]);
  return JSON.stringify(Object.fromEntries(others));
}

// --- 6 what has no verdict row

const COPY_RESENDS = {
  name: 'copy_resends',
  text: `copy promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs,
  event_key, event_id) from stdin binary`,
};

/** Notes each duplicate as a delivery. */
export async function recordResends(
  session: Session,
  resends: readonly { item: KeyedItem; first: Outcome; contentDiffers: boolean }[],
  nowMicros: bigint,
): Promise<void> {
  if (resends.length === 0) return;
  const rows = new CopyRows();
  for (const { item, first, contentDiffers } of resends) {
    rows.row(9);
    rows.int8Value(nowMicros - POSTGRES_EPOCH_MICROS);
    rows.int8Value(item.source?.offset ?? null);
    rows.int4Value(item.feedNo);
    rows.int4Value(item.connectionNo);
    rows.int4Value(item.source?.partitionNo ?? null);
    rows.int2Value(first.code);
    rows.boolValue(contentDiffers);
    rows.byteaValue(splitFeedKey(item.eventKey).idKey);
    rows.textValue(item.eventId);
  }
  await session.copy(COPY_RESENDS, rows.end());
}

const COPY_UNSTORED = {
  name: 'copy_unstored',
  text: 'copy promo_store.unstored (received_at, source_offset, value_hash, partition_no, connection_no, dead_letter) from stdin binary',
};

const deadLetterCodes = new Map<DeadLetterReason, number>(
  DEAD_LETTER_REASONS.map(({ name, code }) => [name, code]),
);

/** Notes each record that got no verdict row. A webhook's delivery has no coordinates to note; its answer is all there is. */
export async function recordUnstored(
  session: Session,
  items: readonly Item[],
  nowMicros: bigint,
): Promise<void> {
  const rows = new CopyRows();
  let count = 0;
  for (const item of items) {
    if (item.type !== 'unstored' || item.source === null) continue;
    count++;
    rows.row(6);
    rows.int8Value(nowMicros - POSTGRES_EPOCH_MICROS);
    rows.int8Value(item.source.offset);
    rows.int8Value(item.valueHash);
    rows.int4Value(item.source.partitionNo);
    rows.int4Value(item.connectionNo);
    rows.int2Value(item.deadLetter === null ? null : (deadLetterCodes.get(item.deadLetter) ?? null));
  }
  if (count > 0) await session.copy(COPY_UNSTORED, rows.end());
}

// --- 7 the balance

/** What a batch adds to its partition's row. */
export interface Counts {
  accepted: number;
  rejected: number;
  skipped: number;
  duplicates: number;
  redeliveries: number;
  deadLetters: number;
  withoutKey: number;
}

const COUNT_PARTITION = {
  name: 'count_partition',
  text: `update promo_store.partitions set next_offset = greatest(next_offset, $2::bigint), records_read = records_read + $3::bigint,
  accepted = accepted + $4::bigint, rejected = rejected + $5::bigint, skipped = skipped + $6::bigint, duplicates = duplicates + $7::bigint,
  redeliveries = redeliveries + $8::bigint, dead_letters = dead_letters + $9::bigint, without_key = without_key + $10::bigint, updated_at = now()
where partition_no = $1`,
};

export async function countPartition(
  session: Session,
  partitionNo: number,
  nextOffset: number,
  records: number,
  counts: Counts,
): Promise<void> {
  await session.query(COUNT_PARTITION, [
    partitionNo,
    nextOffset,
    records,
    counts.accepted,
    counts.rejected,
    counts.skipped,
    counts.duplicates,
    counts.redeliveries,
    counts.deadLetters,
    counts.withoutKey,
  ]);
}

// --- 8 panics

const RECORD_PANIC = {
  name: 'record_panic',
  text: 'insert into promo_store.panics (verdict_id, error, payload) values ($1, $2, $3)',
};

export async function recordPanic(
  session: Session,
  panic: { verdictId: number; error: string; payload: Buffer | null },
): Promise<void> {
  await session.query(RECORD_PANIC, [panic.verdictId, panic.error, panic.payload]);
}
