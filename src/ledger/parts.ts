/**
 * The parts of a batch, one for each Kafka partition: their locks, what of them was read before, and what becomes of their partitions' rows
 * (docs/rules.md, U1, D2, D3).
 */
import type { Coordinates, Decision, Item, Known } from '../domain/decide';
import type { ReferenceVersion } from '../domain/reference';
import type { Session } from './connection';
import * as events from './events';
import * as partitions from './partitions';

/** Consecutive records of one Kafka partition in a batch. */
export interface Part {
  readonly partition: partitions.NumberedPartition;
  /** So many of the batch's items: those behind the items of the part before. */
  readonly records: number;
  /**
   * One past the last record of the partition that its worker has had answered, or is having decided: a store that has decided less has lost it. Absent where nobody reads
   * the partition on from here: then what is decided says nothing of how far it is.
   */
  readonly expectedUpTo?: number | undefined;
}

/** A part whose partition is locked. */
export interface LockedPart extends Part {
  /** Place of its first item in the batch. */
  readonly from: number;
  readonly items: readonly Item[];
  readonly locked: partitions.PartitionOffsets;
}

/**
 * Locks the partitions, in ascending order of their numbers whatever the order of the parts, and reads which reference data is in force.
 *
 * @throws StoreBehind where the store has lost the number of one
 */
export async function lockParts(
  session: Session,
  batch: { readonly items: readonly Item[]; readonly parts: readonly Part[] },
): Promise<{ parts: LockedPart[]; inForce: ReferenceVersion }> {
  if (batch.parts.length === 0) return { parts: [], inForce: await partitions.referenceInForce(session) };
  const ascending = [...batch.parts].sort((a, b) => a.partition.no - b.partition.no);
  const rows = await Promise.all(
    ascending.map(({ partition }) => partitions.lockPartition(session, partition)),
  );
  // The last that was read is the newest.
  const inForce = rows.at(-1)?.inForce;
  const offsets = new Map(ascending.map((part, index) => [part, rows[index]?.locked]));
  let end = 0;
  const parts = batch.parts.map((part): LockedPart => {
    const locked = offsets.get(part);
    if (locked === undefined) throw new Error('a partition of the batch is not locked');
    const from = end;
    end += part.records;
    return { ...part, from, items: batch.items.slice(from, end), locked };
  });
  if (inForce === undefined || end !== batch.items.length)
    throw new RangeError('the parts are not the whole batch');
  return { parts, inForce };
}

/** What of the parts was read before and has no key of its own: nothing, where their records are read for the first time. */
export async function findRedelivered(
  session: Session,
  parts: readonly LockedPart[],
): Promise<Omit<Known, 'rounds' | 'events'>> {
  const known = { resends: new Map<string, boolean>(), unstored: new Set<string>() };
  await Promise.all(
    parts.map(async ({ items, locked }) => {
      const { first, last } = sourcesOf(items);
      const readBefore = first !== undefined && last !== undefined && first.offset < locked.nextOffset;
      if (readBefore) await events.findRedelivered(session, first, last, known);
    }),
  );
  return known;
}

/** Writes into the partitions' rows what became of their records, and how far they are. */
export async function countParts(
  session: Session,
  parts: readonly LockedPart[],
  decisions: readonly Decision[],
): Promise<void> {
  await Promise.all(
    parts.map((part) => {
      const ofPart = decisions.slice(part.from, part.from + part.records);
      return partitions.countPartition(session, {
        partitionNo: part.partition.no,
        after: offsetsAfter(part, ofPart),
        records: part.records,
        counts: countsOf(ofPart),
      });
    }),
  );
}

/**
 * `nextOffset` only grows. `decidedUpTo` is where a worker stands that decides something anew, even where that is further back: it reads a log that was
 * made anew. A worker that is only answered again raises it, and so does a replay, unless that leaves out what is before it.
 */
function offsetsAfter(
  { items, expectedUpTo, locked }: LockedPart,
  decisions: readonly Decision[],
): partitions.PartitionOffsets {
  const { first, last } = sourcesOf(items);
  const end = (last?.offset ?? -1) + 1;
  const nextOffset = Math.max(locked.nextOffset, end);
  const isReplay = expectedUpTo === undefined;
  if (!isReplay && decisions.some(({ redelivered }) => !redelivered)) return { nextOffset, decidedUpTo: end };
  if (isReplay && (first?.offset ?? 0) > locked.decidedUpTo)
    return { nextOffset, decidedUpTo: locked.decidedUpTo };
  return { nextOffset, decidedUpTo: Math.max(locked.decidedUpTo, end) };
}

function sourcesOf(items: readonly Item[]): {
  first: Coordinates | undefined;
  last: Coordinates | undefined;
} {
  return { first: items.at(0)?.source ?? undefined, last: items.at(-1)?.source ?? undefined };
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
