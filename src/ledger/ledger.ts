/**
 * The deciding transaction: the partition's lock, what is decided already, the rounds' locks, the decision, the writes
 * (docs/rules.md, D1-D3). The only place that begins and commits one.
 *
 * All statements work on sets. Keys and rounds are handed over in ascending order, since two batches that lock in different orders
 * deadlock; rounds are locked before keys are written, in every transaction.
 */
import type { Pool } from 'pg';
import {
  type Coordinates,
  type Decision,
  decide,
  type Item,
  type KeyedItem,
  type Known,
} from '../domain/decide';
import { inTransaction, type Session } from './connection';
import * as events from './events';
import { StaleReference } from './failures';
import * as partitions from './partitions';
import * as rounds from './rounds';

export interface Batch {
  /** In the order of arrival; at most MAX_BATCH_EVENTS, all of one Kafka partition or all of one webhook request. */
  readonly items: readonly Item[];
  /** The partition of the items; null for a webhook. */
  readonly partitionNo: number | null;
  /** Version of the reference data that judged the items. */
  readonly referenceVersion: number;
  /** Where the batch is one event that failed twice: what failed and on which payload. */
  readonly panic?: { readonly error: string; readonly payload: Buffer | null };
  /** Runs as the last thing before the commit; what it throws rolls the batch back. */
  readonly beforeCommit?: () => Promise<void>;
}

/** Makes the tables of this month and the next two, where they are missing. */
export async function ensureMonths(pool: Pool): Promise<void> {
  await inTransaction(pool, partitions.ensureMonths);
}

/** The numbers that stand for Kafka partitions. They never change, so each is asked for once. */
export function makePartitionNumbers(
  pool: Pool,
): (source: { topic: string; partition: number }) => Promise<number> {
  const numbers = new Map<string, number>();
  return async ({ topic, partition }) => {
    const key = `${topic}/${partition}`;
    const known = numbers.get(key);
    if (known !== undefined) return known;
    const no = await inTransaction(pool, (session) => partitions.partitionNoOf(session, topic, partition));
    numbers.set(key, no);
    return no;
  };
}

/**
 * Decides a batch in one transaction and returns the answer to each item.
 *
 * @throws StaleReference where newer reference data is in force: judge again
 * @throws LostRace, StoreError: see failures.ts
 */
export async function decideBatch(pool: Pool, batch: Batch): Promise<readonly Decision[]> {
  if (batch.items.length > events.MAX_BATCH_EVENTS) throw new RangeError('a batch holds too many events');
  return inTransaction(pool, async (session) => {
    const { nextOffset, referenceVersion } = await partitions.lockPartition(session, batch.partitionNo);
    if (referenceVersion !== batch.referenceVersion)
      throw new StaleReference(`version ${referenceVersion} is in force`);

    const answered = await findAnswered(session, batch.items, nextOffset);
    const locked = await rounds.lockRounds(session, roundIdsOf(batch.items, answered.events));
    const known: Known = { ...answered, rounds: locked.states };
    const { firstVerdictId, nowMicros } = await events.nextBatch(session);

    const { decisions, changedRounds } = decide(batch.items, known);

    const { fresh, resends, unstored } = sortOut(batch.items, decisions, firstVerdictId);
    await events.recordKeys(session, fresh);
    await events.recordHistory(session, fresh, {
      nowMicros,
      referenceVersion,
      roundNumbers: locked.numbers,
    });
    await rounds.updateRounds(session, changesOf(changedRounds, known, locked), nowMicros);
    await events.recordResends(session, resends, nowMicros);
    await events.recordUnstored(session, unstored, nowMicros);
    if (batch.panic && fresh[0])
      await events.recordPanic(session, { verdictId: fresh[0].verdictId, ...batch.panic });
    if (batch.partitionNo !== null) {
      const next = (sourcesOf(batch.items).last?.offset ?? -1) + 1;
      await partitions.countPartition(
        session,
        batch.partitionNo,
        next,
        batch.items.length,
        countsOf(decisions),
      );
    }
    await batch.beforeCommit?.();
    return decisions;
  });
}

/** The rounds of the events that are not decided yet. What is decided changes no round, whatever a resend says. */
function roundIdsOf(items: readonly Item[], decided: Known['events']): Map<string, string> {
  const roundIds = new Map<string, string>();
  const seen = new Set<string>();
  for (const item of items) {
    if (item.type !== 'keyed' || decided.has(item.eventKey) || seen.has(item.eventKey)) continue;
    seen.add(item.eventKey);
    if (item.roundKey === null) continue;
    if (item.fields.roundId !== null) roundIds.set(item.roundKey, item.fields.roundId);
  }
  return roundIds;
}

/** What of the batch was answered before. Read before any round is locked: what is decided stays as it is, so it needs no lock. */
async function findAnswered(
  session: Session,
  items: readonly Item[],
  nextOffset: number,
): Promise<Omit<Known, 'rounds'>> {
  const eventKeys = new Set<string>();
  for (const item of items) if (item.type === 'keyed') eventKeys.add(item.eventKey);
  const decided = await events.findEvents(session, [...eventKeys].sort());
  const { first, last } = sourcesOf(items);
  const readBefore = first !== undefined && last !== undefined && first.offset < nextOffset;
  return {
    events: decided,
    ...(readBefore ? await events.findAnswered(session, first, last) : NOTHING_ANSWERED),
  };
}

const NOTHING_ANSWERED = { resends: new Map<string, boolean>(), unstored: new Set<string>() };

function sourcesOf(items: readonly Item[]): {
  first: Coordinates | undefined;
  last: Coordinates | undefined;
} {
  return { first: items.at(0)?.source ?? undefined, last: items.at(-1)?.source ?? undefined };
}

interface SortedOut {
  fresh: events.Fresh[];
  resends: { item: KeyedItem; first: events.Fresh['outcome']; contentDiffers: boolean }[];
  unstored: Item[];
}

/** What of a batch has to be written: nothing for a delivery that was answered before. */
function sortOut(items: readonly Item[], decisions: readonly Decision[], firstVerdictId: number): SortedOut {
  const sorted: SortedOut = { fresh: [], resends: [], unstored: [] };
  items.forEach((item, index) => {
    const decision = decisions[index];
    if (decision === undefined || decision.redelivered) return;
    if (item.type === 'unstored') sorted.unstored.push(item);
    else if (decision.type === 'duplicate') {
      sorted.resends.push({ item, first: decision.first, contentDiffers: decision.contentDiffers });
    } else if (decision.type === 'decided') {
      const { outcome, counted } = decision;
      sorted.fresh.push({ item, outcome, counted, verdictId: firstVerdictId + index });
    }
  });
  return sorted;
}

function changesOf(changed: ReadonlySet<string>, known: Known, locked: rounds.LockedRounds) {
  return [...changed].map((key) => {
    const no = locked.numbers.get(key);
    const round = known.rounds.get(key);
    if (no === undefined || round === undefined) throw new Error('a round changed that was not locked');
    return { no, round };
  });
}

function countsOf(decisions: readonly Decision[]): partitions.Counts {
  const counts = {
    accepted: 0,
    rejected: 0,
    skipped: 0,
    duplicates: 0,
    redeliveries: 0,
    deadLetters: 0,
    withoutKey: 0,
  };
  for (const decision of decisions) {
    if (decision.redelivered) counts.redeliveries++;
    else if (decision.type === 'duplicate') counts.duplicates++;
    else if (decision.type === 'decided') counts[decision.outcome.verdict]++;
    else if (decision.deadLetter !== null) counts.deadLetters++;
    else counts.withoutKey++;
  }
  return counts;
}
