/** The partitions of a batch: their items that were read before, and their offsets after the batch. */

import type { Coordinates, Decision, Item, Known } from '../domain/verdict/decide';
import type { Session } from '../postgres/transaction';
import * as events from './statements/events';
import * as partitions from './statements/partitions';

/** The items of one Kafka partition in a batch: consecutive records, in their order. */
export interface LedgerPart {
  readonly partition: partitions.NumberedPartition;
  /** Index of its first item in the batch. */
  readonly from: number;
  /** Index after its last item. */
  readonly to: number;
  /**
   * One past the last record of the partition that its worker has had answered. A store that has decided less
   * has lost records. Absent where this worker does not continue the partition: the decisions then do not
   * show how far the partition is decided.
   */
  readonly expectedUpTo?: number | undefined;
}

/** The items of a batch, and its partitions. */
interface Parts {
  readonly items: readonly Item[];
  readonly parts: readonly LedgerPart[];
}

/** Finds redelivered items without keys of their own. Reads nothing where all records are new. */
export async function findRereadItems(
  session: Session,
  { items, parts }: Parts,
  locked: readonly partitions.PartitionOffsets[],
): Promise<Omit<Known, 'rounds' | 'events' | 'tags'>> {
  const found = await Promise.all(
    parts.flatMap((part, index) => {
      const { first, last } = sourcesOf(part, items);
      const wasRead =
        first !== undefined && last !== undefined && first.offset < (locked[index]?.nextOffset ?? 0);
      return wasRead ? [events.findRedelivered(session, first, last)] : [];
    }),
  );
  const [only] = found;
  if (only === undefined) return NOTHING_REDELIVERED;
  if (found.length === 1) return only;
  return {
    answeredAt: new Map(found.flatMap(({ answeredAt }) => [...answeredAt])),
    resends: new Map(found.flatMap(({ resends }) => [...resends])),
    unstored: new Set(found.flatMap(({ unstored }) => [...unstored])),
  };
}

const NOTHING_REDELIVERED = { resends: new Map<string, boolean>(), unstored: new Set<string>() };

function sourcesOf(
  { from, to }: LedgerPart,
  items: readonly Item[],
): { first: Coordinates | undefined; last: Coordinates | undefined } {
  return { first: items[from]?.source ?? undefined, last: items[to - 1]?.source ?? undefined };
}

/** The batch's changes to the rows of its partitions. */
export function countedOf(
  { items, parts }: Parts,
  decisions: readonly Decision[],
  locked: readonly partitions.PartitionOffsets[],
): partitions.Counted[] {
  return parts.flatMap((part, index) => {
    const before = locked[index];
    if (before === undefined || part.from === part.to) return [];
    const ofPart = decisions.slice(part.from, part.to);
    return [
      {
        partitionNo: part.partition.no,
        after: offsetsAfter(part, items, ofPart, before),
        records: ofPart.length,
        ...partitions.countsOf(ofPart),
      },
    ];
  });
}

/**
 * A partition's offsets after the batch. `nextOffset` only grows. New decisions set `decidedUpTo` to the
 * part's end, even to a lower offset: the topic was then deleted and created again. A part that is only
 * answered again can only raise it. So can a replay, unless it leaves a gap in front.
 */
function offsetsAfter(
  part: LedgerPart,
  items: readonly Item[],
  decisions: readonly Decision[],
  locked: partitions.PartitionOffsets,
): partitions.PartitionOffsets {
  const { first, last } = sourcesOf(part, items);
  const end = (last?.offset ?? -1) + 1;
  const nextOffset = Math.max(locked.nextOffset, end);
  const isReplay = part.expectedUpTo === undefined;
  if (!isReplay && decisions.some(({ redelivered }) => !redelivered)) return { nextOffset, decidedUpTo: end };
  if (isReplay && (first?.offset ?? 0) > locked.decidedUpTo)
    return { nextOffset, decidedUpTo: locked.decidedUpTo };
  return { nextOffset, decidedUpTo: Math.max(locked.decidedUpTo, end) };
}
