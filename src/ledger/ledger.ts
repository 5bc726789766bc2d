/**
 * The deciding transaction: locks, then what is known, then the decision, then the writes (docs/rules.md, D1-D3).
 * The only place that begins and commits one.
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
import { StaleReference } from './failures';
import * as statements from './statements';

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
  await inTransaction(pool, statements.ensureMonths);
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
    const no = await inTransaction(pool, (session) => statements.partitionNoOf(session, topic, partition));
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
  return inTransaction(pool, async (session) => {
    const { nextOffset, referenceVersion } = await statements.lockPartition(session, batch.partitionNo);
    if (referenceVersion !== batch.referenceVersion)
      throw new StaleReference(`version ${referenceVersion} is in force`);

    const answered = await findAnswered(session, batch.items, nextOffset);
    const rounds = await statements.lockRounds(session, roundIdsOf(batch.items, answered.events));
    const known: Known = { ...answered, rounds: rounds.states };
    const { firstVerdictId, nowMicros } = await statements.nextBatch(session);

    const { decisions, changedRounds } = decide(batch.items, known);

    const { fresh, resends, unstored } = sortOut(batch.items, decisions, firstVerdictId);
    await statements.recordKeys(session, fresh);
    await statements.recordHistory(session, fresh, {
      nowMicros,
      referenceVersion,
      roundNumbers: rounds.numbers,
    });
    await statements.updateRounds(session, changesOf(changedRounds, known, rounds));
    await statements.recordResends(session, resends, nowMicros);
    await statements.recordUnstored(session, unstored, nowMicros);
    if (batch.panic && fresh[0])
      await statements.recordPanic(session, { verdictId: fresh[0].verdictId, ...batch.panic });
    if (batch.partitionNo !== null) {
      const next = (sourcesOf(batch.items).last?.offset ?? -1) + 1;
      await statements.countPartition(
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
  for (const item of items) {
    if (item.type !== 'keyed' || item.roundKey === null || decided.has(item.eventKey)) continue;
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
  const events = await statements.findEvents(session, [...eventKeys].sort());
  const { first, last } = sourcesOf(items);
  const readBefore = first !== undefined && last !== undefined && first.offset < nextOffset;
  return { events, ...(readBefore ? await statements.findAnswered(session, first, last) : NOTHING_ANSWERED) };
}

const NOTHING_ANSWERED = { resends: new Map<string, boolean>(), unstored: new Set<string>() };

function sourcesOf(items: readonly Item[]): {
  first: Coordinates | undefined;
  last: Coordinates | undefined;
} {
  return { first: items.at(0)?.source ?? undefined, last: items.at(-1)?.source ?? undefined };
}

interface SortedOut {
  fresh: statements.Fresh[];
  resends: { item: KeyedItem; first: statements.Fresh['outcome']; contentDiffers: boolean }[];
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

function changesOf(changed: ReadonlySet<string>, known: Known, rounds: statements.LockedRounds) {
  return [...changed].map((key) => {
    const no = rounds.numbers.get(key);
    const round = known.rounds.get(key);
    if (no === undefined || round === undefined) throw new Error('a round changed that was not locked');
    return { no, round };
  });
}

function countsOf(decisions: readonly Decision[]): statements.Counts {
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
