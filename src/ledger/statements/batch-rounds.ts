/** The rounds of a batch. Rounds of fresh events are locked; rounds of decided events are only read. */
import type { Item, Known } from '../../domain/verdict/decide';
import { FeedMap } from '../../domain/verdict/feed-map';
import type { Round } from '../../domain/verdict/round';
import type { Session } from '../../postgres/transaction';
import * as rounds from './rounds';

type Events = Known['events'];

/** Locks the rounds of these events, except events that are known to be decided. */
export async function lockBatchRounds(
  session: Session,
  items: readonly Item[],
  known: Events | null,
): Promise<FeedMap<Round>> {
  const locked = new FeedMap<Round>();
  const wanted = roundsOf(items, (feedNo, eventId) => !known?.has(feedNo, eventId));
  await Promise.all(
    [...wanted.inOrder()].map((ids) =>
      rounds.lockRounds(session, ids, ({ feedNo, roundId, round }) => locked.set(feedNo, roundId, round)),
    ),
  );
  return locked;
}

/**
 * Reads the rounds of decided events, for the anomalies that answers name (docs/rules.md, A4). Sends no query
 * where no event is decided.
 */
export async function readDecidedRounds(
  session: Session,
  items: readonly Item[],
  known: Events,
): Promise<FeedMap<Round>> {
  if (known.isEmpty()) return new FeedMap();
  return readAll(
    session,
    roundsOf(items, (feedNo, eventId) => known.has(feedNo, eventId)),
  );
}

/** Reads the rounds of all these events without locks, for a rehearsal. */
export function readBatchRounds(session: Session, items: readonly Item[]): Promise<FeedMap<Round>> {
  return readAll(
    session,
    roundsOf(items, () => true),
  );
}

async function readAll(session: Session, wanted: FeedMap<true>): Promise<FeedMap<Round>> {
  const read = new FeedMap<Round>();
  await Promise.all(
    wanted
      .inOrder()
      .map((ids) =>
        rounds.readRounds(session, ids, ({ feedNo, roundId, round }) => read.set(feedNo, roundId, round)),
      ),
  );
  return read;
}

function roundsOf(
  items: readonly Item[],
  isWanted: (feedNo: number, eventId: string) => boolean,
): FeedMap<true> {
  const wanted = new FeedMap<true>();
  for (const item of items) {
    if (item.type === 'keyed' && item.fields.roundId !== null && isWanted(item.feedNo, item.eventId))
      wanted.set(item.feedNo, item.fields.roundId, true);
  }
  return wanted;
}
