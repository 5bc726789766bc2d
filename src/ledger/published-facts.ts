/**
 * The facts of decisions that only their publication needs: when each was made, and the sums that a refund
 * reverses. A delivery that is answered again has the facts of its first answer, from the store.
 */

import {
  type Decision,
  deliveryKey,
  type Item,
  type KeyedItem,
  type Known,
  unstoredKey,
} from '../domain/verdict/decide';
import { type Reversed, reversedIn } from '../domain/verdict/round';
import type { Session } from '../postgres/transaction';
import * as events from './statements/events';
import { findRefunds } from './statements/rounds';

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
  const ofBatches = new Map(verdictIds.map((id) => [events.batchOf(id), id]));
  const times = await events.findTimes(session, [...ofBatches.values()]);
  return (verdictId) => times.get(ofBatches.get(events.batchOf(verdictId)) ?? 0) ?? null;
}
