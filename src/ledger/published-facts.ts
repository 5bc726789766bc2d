/**
 * The facts of decisions that only their publication needs: when each was made, and the sums that a refund
 * reverses. A delivery that is answered again has the facts of its first answer, from the store.
 */

import { ID_KEY } from '../domain/event/id-key';
import {
  type Decision,
  deliveryKey,
  type Item,
  type KeyedItem,
  type Known,
  unstoredKey,
} from '../domain/verdict/decide';
import { type Reversed, reversedIn } from '../domain/verdict/round';
import { arrays } from '../postgres/binary-format';
import type { Session } from '../postgres/transaction';
import { batchOf } from './statements/lock';

export interface PublishedFacts {
  /** Microseconds since 1970; null where the month of the first answer was dropped. */
  decidedAt(index: number): bigint | null;
  /** Absent for anything but an accepted refund. */
  reversed(index: number): readonly Reversed[] | undefined;
}

/** Sends no query where no delivery is answered again. */
export async function readFacts(
  session: Session,
  items: readonly Item[],
  decisions: readonly Decision[],
  known: Known,
  nowMicros: bigint,
): Promise<PublishedFacts> {
  const times = new Map<number, bigint | null>();
  const verdictIds = new Map<number, number>();
  const refunds: { index: number; item: KeyedItem; redelivered: boolean }[] = [];
  items.forEach((item, index) => {
    const decision = decisions[index];
    if (decision === undefined) return;
    const { redelivered } = decision;
    if (redelivered && decision.type !== 'decided') times.set(index, answeredAt(item, known));
    if (item.type === 'unstored' || decision.type !== 'decided') return;
    const verdictId = redelivered ? known.events.get(item.feedNo, item.eventId)?.verdictId : undefined;
    if (verdictId !== undefined) verdictIds.set(index, verdictId);
    const isAccepted = decision.outcome.verdict === 'accepted';
    if (item.fields.kind === 'refund' && isAccepted) refunds.push({ index, item, redelivered });
  });
  const again = refunds.filter(({ redelivered }) => redelivered).map(({ item }) => item);
  const [timeOf, firstRefunds] = await Promise.all([
    readTimes(session, [...verdictIds.values()]),
    findRefunds(session, again),
  ]);
  for (const [index, verdictId] of verdictIds) times.set(index, timeOf(verdictId));
  const reversed = new Map<number, readonly Reversed[]>();
  for (const { index, item, redelivered } of refunds) {
    const { roundId } = item.fields;
    if (roundId === null) continue;
    const round = known.rounds.get(item.feedNo, roundId) ?? known.decidedRounds?.get(item.feedNo, roundId);
    const isFirst = redelivered ? firstRefunds.has(item) : round?.refundedBy === item.eventId;
    // Nothing more counts in a refunded round, so its sums stay those that the refund reversed.
    reversed.set(index, round !== undefined && isFirst ? reversedIn(round) : []);
  }
  return {
    decidedAt: (index) => {
      const time = times.get(index);
      return time === undefined ? nowMicros : time;
    },
    reversed: (index) => reversed.get(index),
  };
}

function answeredAt(item: Item, known: Known): bigint | null {
  if (item.source === null) return null;
  const key =
    item.type === 'unstored'
      ? unstoredKey(item.source, item.valueHash)
      : deliveryKey(item.feedNo, item.eventId, item.source);
  return known.answeredAt?.get(key) ?? null;
}

/** All verdicts of one batch have one time, so the store is asked for one of each. */
async function readTimes(
  session: Session,
  verdictIds: readonly number[],
): Promise<(verdictId: number) => bigint | null> {
  const ofBatches = new Map(verdictIds.map((id) => [batchOf(id), id]));
  const times = await findTimes(session, [...ofBatches.values()]);
  return (verdictId) => times.get(ofBatches.get(batchOf(verdictId)) ?? 0) ?? null;
}

/** Look-ups of one scan: the scan compares each row of the blocks that it reads with all of them. */
const LOOKUPS_AT_ONCE = 64;

/**
 * History finds a verdict_id by ranges of blocks. The ids come in ascending order, so that those of one scan
 * have their blocks in common. One scan for each id would read the same blocks again and again: a batch that
 * is read again has verdicts of hundreds of batches.
 */
export const FIND_TIMES = {
  name: 'find_times',
  // The offset keeps the planner from turning the look-ups into a join, which reads all of history.
  text: `select h.* from (select array_agg(id) as ids from unnest($1::bigint[]) with ordinality as u (id, n) group by n / ${LOOKUPS_AT_ONCE}) wanted
cross join lateral (select verdict_id, (extract(epoch from decided_at) * 1000000)::bigint from promo_store.history where verdict_id = any(ids) offset 0) h`,
};

/** When verdicts were given, in microseconds since 1970. Those of dropped months are left out. */
async function findTimes(
  session: Session,
  verdictIds: readonly number[],
): Promise<ReadonlyMap<number, bigint>> {
  if (verdictIds.length === 0) return new Map();
  const ascending = [...verdictIds].sort((a, b) => a - b);
  const rows = await session.query(FIND_TIMES, [arrays.int8(ascending)]);
  return new Map(rows.map(([verdictId, micros]) => [Number(verdictId), BigInt(micros ?? 0)]));
}

const FIND_REFUNDS = {
  name: 'find_refunds',
  text: `select ordinal from unnest($2::bytea[], $3::text[]) with ordinality as wanted (key, refund, ordinal)
cross join lateral (select 1 from promo_store.rounds where feed_no = $1 and round_key = key and refunded_by = refund limit 1) found`,
};

/** The refunds among decided ones that refunded their rounds: the first of each round. */
async function findRefunds(session: Session, refunds: readonly KeyedItem[]): Promise<ReadonlySet<KeyedItem>> {
  const found = new Set<KeyedItem>();
  await Promise.all(
    [...Map.groupBy(refunds, ({ feedNo }) => feedNo)].map(async ([feedNo, ofFeed]) => {
      const values = [
        feedNo,
        arrays.formatted(
          ofFeed.map(({ fields }) => fields.roundId ?? ''),
          ID_KEY,
        ),
        arrays.text(ofFeed.map(({ eventId }) => eventId)),
      ];
      for (const [ordinal] of await session.query(FIND_REFUNDS, values)) {
        const refund = ofFeed[Number(ordinal) - 1];
        if (refund !== undefined) found.add(refund);
      }
    }),
  );
  return found;
}
