/**
 * The deciding transaction: the partition's lock, what is decided already, the rounds' locks, the decision, the writes
 * (docs/rules.md, D1-D3). The only place that begins and commits one. A batch of up to FEW_EVENTS locks its rounds in the same round trip as its
 * partition.
 *
 * All statements work on sets. Keys and rounds are handed over in ascending order, since two batches that lock in different orders
 * deadlock; rounds are locked before keys are written, in every transaction.
 */

import { isSameVersion, type ReferenceVersion } from '../domain/reference';
import {
  type Coordinates,
  type Decision,
  decide,
  type Item,
  type KeyedItem,
  type Known,
} from '../domain/verdict/decide';
import { FeedMap } from '../domain/verdict/feed-map';
import { newRound, type Round } from '../domain/verdict/round';
import { groupBy } from '../lib/group-by';
import type { TopicPartition } from '../lib/topic-partition';
import type { Write } from '../postgres/pipeline';
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { StaleReference, StoreBehind } from './failures';
import { lockRounds, readDecidedRounds } from './statements/batch-rounds';
import * as events from './statements/events';
import * as partitions from './statements/partitions';
import { PlayerKeys } from './statements/player-keys';
import * as rounds from './statements/rounds';

export interface Batch {
  /**
   * In the order of arrival; at most MAX_BATCH_EVENTS, all of one Kafka partition or all of one webhook request. Handed over: emptied once
   * their rows are made, since writing these takes longest, and objects that live on meanwhile are copied by one garbage collection after another.
   */
  readonly items: Item[];
  /** The partition of the items; null for a webhook. */
  readonly partition: partitions.NumberedPartition | null;
  /** The reference data that judged the items. */
  readonly reference: ReferenceVersion;
  /**
   * One past the last record of the partition that its worker has had answered: a store that has decided less has lost it. Absent where nobody reads
   * the partition on from here: then what is decided says nothing of how far it is.
   */
  readonly expectedUpTo?: number | undefined;
  /** Batches of the same feeds met of late: rather than undo one another's work, those that say so wait for one another. */
  readonly contended?: boolean;
  /** Where the batch is one event that failed twice: what failed and on which payload. */
  readonly panic?: Omit<events.Panic, 'verdictId'>;
  /** Told once all of it is on its way to the store, where nothing is left but to wait for the answers. */
  readonly whenSent?: (() => void) | undefined;
  /** Sees the decisions before anything of them is written; what it throws rolls the batch back. */
  readonly beforeWrites?: ((decisions: readonly Decision[]) => void) | undefined;
  /** Runs as the last thing before the commit, which then takes a round trip of its own; what it throws rolls the batch back. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
}

/**
 * What of a transaction takes its own time. `find` takes begin and the partition's lock with it, and in a small batch the rounds' locks: all of
 * them are one round trip.
 */
export type Step = 'connect' | 'find' | 'lock' | 'decide' | 'write';

/** Makes the tables of this month and the next two, where they are missing. */
export async function ensureMonths(store: Store): Promise<void> {
  await inTransaction(store, partitions.ensureMonths);
}

/** The stored side of the intake. */
export interface Ledger {
  /** The number that stands for a Kafka partition in the store. @throws LostRace, StoreError */
  partitionNo(source: TopicPartition): Promise<number>;
  /** See `decideBatch`. */
  decideBatch(batch: Batch): Promise<readonly Decision[]>;
}

export interface LedgerOptions {
  /** The name of the Kafka cluster whose partitions are decided; FIRST_CLUSTER by default. */
  readonly cluster?: string | undefined;
  /** Instead of FEW_EVENTS. */
  readonly fewEvents?: number | undefined;
  /** Runs each deciding transaction, for who measures it. @param run tells the end of each step */
  readonly observe?: <T>(run: (stepEnded: (step: Step) => void) => Promise<T>) => Promise<T>;
}

export function makeLedger(
  store: Store,
  {
    fewEvents,
    cluster = partitions.FIRST_CLUSTER,
    observe = (run) => run(() => undefined),
  }: LedgerOptions = {},
): Ledger {
  /** Numbers never change, so each is asked for once. */
  const numbers = new Map<string, number>();
  const keys = new PlayerKeys();
  return {
    async partitionNo(source) {
      const key = keyOf(source);
      const known = numbers.get(key);
      if (known !== undefined) return known;
      const no = await inTransaction(store, (session) =>
        partitions.partitionNoOf(session, { ...source, cluster }),
      );
      numbers.set(key, no);
      return no;
    },
    async decideBatch(batch) {
      const ofCluster = { ...batch, partition: batch.partition && { ...batch.partition, cluster } };
      try {
        return await observe((stepEnded) => decideBatch(store, ofCluster, fewEvents, stepEnded, keys));
      } catch (error) {
        // The store may be another one: a standby, a restored backup, an empty one.
        if (error instanceof StoreBehind || error instanceof StaleReference) keys.forget();
        // What it has lost may be the number itself.
        if (error instanceof StoreBehind && batch.partition !== null) numbers.delete(keyOf(batch.partition));
        throw error;
      }
    },
  };
}

const keyOf = ({ topic, partition }: TopicPartition) => `${topic}/${partition}`;

/** How far Kafka partitions are decided, in the order of the list; 0 where nothing is. @throws StoreError */
export function readDecidedUpTo(
  store: Store,
  list: readonly partitions.ClusterPartition[],
): Promise<number[]> {
  return inTransaction(store, (session) => partitions.readDecidedUpTo(session, list));
}

/** See partitions.nameOfCluster. @throws StoreError */
export function nameOfCluster(store: Store, id: string | null): Promise<string> {
  return inTransaction(store, (session) => partitions.nameOfCluster(session, id));
}

/** See partitions.beginAt. @throws LostRace, StoreError */
export function beginAt(store: Store, partition: partitions.ClusterPartition, offset: number): Promise<void> {
  return inTransaction(store, (session) => partitions.beginAt(session, partition, offset));
}

/**
 * A batch of so many events locks all of its rounds at once, and sends all that it changes in one packet: round trips and packets cost it more
 * than locks that nobody needs, and than the store's waiting for what is not made yet.
 */
const FEW_EVENTS = 500;

/**
 * Decides a batch in one transaction and returns the decision on each item.
 *
 * @param fewEvents see FEW_EVENTS
 * @param stepEnded called at the end of each step, for who measures them
 * @param keys of players' tags, kept from batch to batch
 * @throws StaleReference where newer reference data is in force: judge again
 * @throws StoreBehind where the store has lost what was decided before the batch
 * @throws LostRace, StoreError: see failures.ts
 */
export async function decideBatch(
  store: Store,
  batch: Batch,
  fewEvents = FEW_EVENTS,
  stepEnded: (step: Step) => void = () => undefined,
  keys = new PlayerKeys(),
): Promise<readonly Decision[]> {
  if (batch.items.length > events.MAX_BATCH_EVENTS) throw new RangeError('a batch holds too many events');
  const decisions = await inTransaction(store, async (session) => {
    stepEnded('connect');
    const { decisions, changed, writes } = await decideUnderLocks(session, batch, fewEvents, stepEnded, keys);
    batch.items.length = 0;
    // What is given to the connection now leaves with this turn of the event loop: before whoever is told of it does anything.
    if (batch.whenSent !== undefined) process.nextTick(batch.whenSent);
    await Promise.all([
      changed,
      batch.beforeCommit === undefined ? session.writeAndCommit(writes) : session.write(writes),
    ]);
    await batch.beforeCommit?.();
    return decisions;
  });
  stepEnded('write');
  return decisions;
}

/** A batch that is decided. What is to be written is made before it is given away, so that nothing of it can be missing where the rest is committed. */
interface DecidedBatch {
  readonly decisions: readonly Decision[];
  /** Settled once the rows are changed that were there before the batch. */
  readonly changed: Promise<unknown>;
  /** The rows that it adds. */
  readonly writes: readonly Write[];
}

/**
 * Takes the locks of a batch, reads what is known of it, decides, and begins to change what is there. What it takes for that is gone when its rows
 * are written.
 */
async function decideUnderLocks(
  session: Session,
  batch: Batch,
  fewEvents: number,
  stepEnded: (step: Step) => void,
  keys: PlayerKeys,
): Promise<DecidedBatch> {
  // Each statement leaves where its promise is made. Of few events all at once, rounds and number before the keys; of many rounds and number once the keys are known, which spares
  // the rounds of what is decided. Either is right: who has decided one of the keys since is met by `copyKeys`.
  const locking = partitions.lockPartition(session, batch.partition);
  // What is decided changes no round, whatever a resend says.
  const lockAndNumber = (known: Known['events'] | null) =>
    Promise.all([lockRounds(session, batch.items, known), events.nextBatch(session)]);
  const feedLocks = batch.contended ? rounds.lockFeeds(session, feedsOf(batch.items)) : null;
  const locksAtOnce = batch.items.length <= fewEvents ? lockAndNumber(null) : null;
  const [{ locked, inForce }, decided] = await Promise.all([
    locking,
    findDecided(session, batch.items),
    feedLocks,
    locksAtOnce,
  ]);
  if (locked.decidedUpTo < (batch.expectedUpTo ?? 0)) throw new StoreBehind(locked.decidedUpTo);
  if (!isSameVersion(inForce, batch.reference))
    throw new StaleReference(`version ${inForce.version} is in force`);

  stepEnded('find');
  const [redelivered, [roundsById, { firstNo, nowMicros }], decidedRounds] = await Promise.all([
    findRedelivered(session, batch.items, locked.nextOffset),
    locksAtOnce ?? lockAndNumber(decided),
    // A small batch has locked them with the others.
    locksAtOnce === null ? readDecidedRounds(session, batch.items, decided) : NO_ROUNDS,
  ]);
  const tags = await keys.tagsAt(session, nowMicros);
  stepEnded('lock');

  const { decisions, changedRounds } = decide(batch.items, {
    ...redelivered,
    events: decided,
    rounds: roundsById,
    decidedRounds,
    tags,
  });
  batch.beforeWrites?.(decisions);

  const { fresh, resends, unstored } = toWrite(batch.items, decisions, firstNo);
  const named = roundsOf(fresh, roundsById);
  const updates = rounds.updatesOf(
    named.filter(({ round }) => round.no !== null && changedRounds.has(round)),
    nowMicros,
  );
  const counted = countedOf(batch, decisions, locked);
  const changed = Promise.all([
    ...updates.map(({ statement, values }) => session.query(statement, values)),
    batch.panic && fresh[0] && events.recordPanic(session, { verdictId: fresh[0].verdictId, ...batch.panic }),
    counted && partitions.countPartition(session, counted),
  ]);
  // Whoever commits waits for it, and is told of its failure. Where making the rows throws, nobody waits.
  changed.catch(() => {});
  // Lets the changes leave first: the store is at them while the rows are made.
  if (batch.items.length > fewEvents) await nextTick();

  const opened = named.filter(({ round }) => round.no === null).sort(rounds.inOrder);
  opened.forEach(({ round }, index) => {
    round.no = firstNo + index;
  });
  const roundNumberOf = ({ feedNo, fields: { roundId } }: KeyedItem) =>
    roundId === null ? null : numberOf(roundsById.get(feedNo, roundId));
  const writes = [
    ...rounds.copyRounds(opened, nowMicros),
    ...events.copyKeys(fresh, tags),
    ...events.copyHistory(fresh, { nowMicros, referenceVersion: inForce.version, roundNumberOf }),
    ...events.copyResends(resends, nowMicros),
    ...events.copyUnstored(unstored, nowMicros),
  ];
  stepEnded('decide');
  return { decisions, changed, writes };
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** What the batch writes into its partition's row; null where it is of none. */
function countedOf(
  batch: Batch,
  decisions: readonly Decision[],
  locked: partitions.PartitionOffsets,
): partitions.Counted | null {
  if (batch.partition === null) return null;
  return {
    partitionNo: batch.partition.no,
    after: offsetsAfter(batch, decisions, locked),
    records: batch.items.length,
    counts: partitions.countsOf(decisions),
  };
}

/**
 * `nextOffset` only grows. `decidedUpTo` is where a worker stands that decides something anew, even where that is further back: it reads a log that was
 * made anew. A worker that is only answered again raises it, and so does a replay, unless that leaves out what is before it.
 */
function offsetsAfter(
  { items, expectedUpTo }: Batch,
  decisions: readonly Decision[],
  locked: partitions.PartitionOffsets,
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

function feedsOf(items: readonly Item[]): number[] {
  const feeds = new Set<number>();
  for (const item of items) if (item.type === 'keyed') feeds.add(item.feedNo);
  return [...feeds].sort((a, b) => a - b);
}

/** All rounds of a batch. Adds those that only rejected events name: these change no round, but are shown with it. */
function roundsOf(fresh: readonly events.Fresh[], roundsById: FeedMap<Round>): rounds.NamedRound[] {
  for (const { item, outcome } of fresh) {
    const { roundId } = item.fields;
    if (outcome.verdict === 'rejected' && roundId !== null && !roundsById.has(item.feedNo, roundId))
      roundsById.set(item.feedNo, roundId, newRound());
  }
  const named: rounds.NamedRound[] = [];
  roundsById.forEach((feedNo, roundId, round) => {
    named.push({ feedNo, roundId, round });
  });
  return named;
}

function numberOf(round: Round | undefined): number {
  if (round?.no == null) throw new Error('a fresh event names a round that is neither locked nor opened');
  return round.no;
}

/** Which events of the batch are decided. What is decided stays as it is, so it needs no lock. */
async function findDecided(session: Session, items: readonly Item[]): Promise<Known['events']> {
  const keyed = items.filter((item) => item.type === 'keyed');
  const decided: Known['events'] = new FeedMap();
  await Promise.all(
    [...groupBy(keyed, ({ feedNo }) => feedNo)].map(([feedNo, ofFeed]) => {
      const ids = ofFeed.map(({ eventId }) => eventId);
      return events.findEvents(session, { feedNo, ids }, (id, event) => decided.set(feedNo, id, event));
    }),
  );
  return decided;
}

/** What of the batch was read before and has no key of its own: nothing, where its records are read for the first time. */
async function findRedelivered(
  session: Session,
  items: readonly Item[],
  nextOffset: number,
): Promise<Omit<Known, 'rounds' | 'events' | 'tags'>> {
  const { first, last } = sourcesOf(items);
  const readBefore = first !== undefined && last !== undefined && first.offset < nextOffset;
  return readBefore ? events.findRedelivered(session, first, last) : NOTHING_REDELIVERED;
}

/** Of a small batch, or of one without decided events. */
const NO_ROUNDS: Known['rounds'] = new FeedMap();
const NOTHING_REDELIVERED = { resends: new Map<string, boolean>(), unstored: new Set<string>() };

function sourcesOf(items: readonly Item[]): {
  first: Coordinates | undefined;
  last: Coordinates | undefined;
} {
  return { first: items.at(0)?.source ?? undefined, last: items.at(-1)?.source ?? undefined };
}

interface ToWrite {
  fresh: events.Fresh[];
  resends: { item: KeyedItem; first: events.Fresh['outcome']; contentDiffers: boolean }[];
  unstored: Item[];
}

/** What of a batch has to be written: nothing for a delivery that was answered before. */
function toWrite(items: readonly Item[], decisions: readonly Decision[], firstNo: number): ToWrite {
  const sorted: ToWrite = { fresh: [], resends: [], unstored: [] };
  items.forEach((item, index) => {
    const decision = decisions[index];
    if (decision === undefined || decision.redelivered) return;
    if (item.type === 'unstored') sorted.unstored.push(item);
    else if (decision.type === 'duplicate') {
      sorted.resends.push({ item, first: decision.first, contentDiffers: decision.contentDiffers });
    } else if (decision.type === 'decided') {
      const { outcome, counted } = decision;
      sorted.fresh.push({ item, outcome, counted, verdictId: firstNo + index });
    }
  });
  return sorted;
}
