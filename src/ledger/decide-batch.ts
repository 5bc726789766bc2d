/**
 * The deciding transaction (docs/rules.md, D1-D3): lock the partitions, find decided events, lock the rounds,
 * decide, write. Only this module begins and commits such a transaction. A batch of at most FEW_EVENTS locks
 * its rounds in the same round trip as its partitions.
 *
 * All statements work on sets. Keys and rounds are passed in ascending order: two batches that lock in
 * different orders deadlock. Every transaction locks its rounds before it writes its keys.
 */
import { isSameVersion, type ReferenceVersion } from '../domain/reference';
import {
  type Decision,
  decide,
  type FeedIds,
  type FeedMap,
  type Item,
  type KeyedItem,
} from '../domain/verdict/decide';
import { newRound, type Round } from '../domain/verdict/round';
import { keyOf, type TopicPartition } from '../lib/topic-partition';
import type { Write } from '../postgres/pipeline';
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { PartsBehind, StaleReference, StoreBehind } from './failures';
import { type PublishedFacts, readFacts } from './published-facts';
import type { PartitionItems } from './statements/find';
import * as find from './statements/find';
import * as lock from './statements/lock';
import { MAX_BATCH_EVENTS, type NamedRound, PlayerKeys } from './statements/lock';
import * as events from './statements/write-events';
import * as state from './statements/write-state';

export interface LedgerBatch {
  /**
   * At most MAX_BATCH_EVENTS, in the order in which they are decided: part by part, or all of the webhook.
   * The list passes to `decideBatch`, which empties it once the rows are made. Writing the rows takes
   * longest: items that stay alive meanwhile are copied by each garbage collection.
   */
  readonly items: Item[];
  /** From `questionsOf`. */
  readonly questions: Questions;
  /** The Kafka partitions of the items, each once; none for the webhook. */
  readonly parts: readonly PartitionItems[];
  /** The reference data that judged the items. */
  readonly reference: ReferenceVersion;
  /** True where batches of the same feeds collided recently: such batches wait for one another. */
  readonly contended?: boolean;
  /** The error and the payload, where the batch is one event that failed twice. */
  readonly panic?: Omit<events.Panic, 'verdictId'>;
  readonly whenSent?: WhenSent | undefined;
  /** Receives the decisions before any write. An error that it throws rolls the batch back. */
  readonly beforeWrites?: ((decisions: readonly Decision[]) => void) | undefined;
  /** Whether the decisions are published: the facts that their messages need are read then. */
  readonly isPublished?: boolean;
  /** Runs last before the commit, which then takes its own round trip. An error rolls the batch back. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
}

/** The events and rounds that a batch looks up in the store. */
export interface Questions {
  readonly events: readonly find.EventKeys[];
  readonly rounds: lock.BatchRounds;
}

/**
 * Puts the events and rounds of a batch into the form that the store reads. It takes some 2 ms for 4,000
 * items, so make it while the store is at the batch in front.
 */
export function questionsOf(items: readonly Item[]): Questions {
  return { events: find.eventKeysOf(items), rounds: new lock.BatchRounds(items) };
}

/** Called where a batch waits for the store, so that its caller can go on with another batch. */
export interface WhenSent {
  /** The first statements of the batch are on their way to a far store. */
  readonly questions: () => void;
  /** The whole batch is on its way to the store. */
  readonly all: () => void;
}

/**
 * The timed steps of a transaction. Step `find` includes begin and the partitions' locks. In a small batch,
 * or far from the store, it includes the rounds' locks: one round trip for all. The statements of a step are
 * in a file of its name in `statements/`. Step `write` has two files.
 */
export type LedgerStep = 'connect' | 'find' | 'lock' | 'decide' | 'write';

/** The result of a batch: a decision on each item. */
export interface LedgerDecisions {
  readonly decisions: readonly Decision[];
  /** Null where nothing is published. */
  readonly facts: PublishedFacts | null;
}

/** The intake's interface to the store. */
export interface Ledger {
  /** The number that identifies a Kafka partition in the store. @throws LostRace, StoreError */
  partitionNo(source: TopicPartition): Promise<number>;
  /** See `decideBatch`. */
  decideBatch(batch: LedgerBatch): Promise<LedgerDecisions>;
}

export interface LedgerOptions {
  /** The name of the Kafka cluster whose partitions are decided; FIRST_CLUSTER by default. */
  readonly cluster?: string | undefined;
  /** Overrides FEW_EVENTS. */
  readonly fewEvents?: number | undefined;
  /** Wraps each deciding transaction to measure it. @param run calls its argument at the end of each step */
  readonly observe?: <T>(run: (stepEnded: (step: LedgerStep) => void) => Promise<T>) => Promise<T>;
}

export function makeLedger(
  store: Store,
  { fewEvents, cluster = find.FIRST_CLUSTER, observe = (run) => run(() => undefined) }: LedgerOptions = {},
): Ledger {
  /** Numbers never change, so each is read once. */
  const numbers = new Map<string, number>();
  const playerKeys = new PlayerKeys();
  return {
    async partitionNo(source) {
      const key = keyOf(source);
      const known = numbers.get(key);
      if (known !== undefined) return known;
      const no = await inTransaction(store, (session) => find.partitionNoOf(session, { ...source, cluster }));
      numbers.set(key, no);
      return no;
    },
    async decideBatch(batch) {
      const parts = batch.parts.map((part) => ({ ...part, partition: { ...part.partition, cluster } }));
      try {
        return await observe((stepEnded) =>
          decideBatch(store, { ...batch, parts }, fewEvents, stepEnded, playerKeys),
        );
      } catch (error) {
        // The store may have been replaced: by a standby, a restored backup or an empty database.
        if (error instanceof PartsBehind || error instanceof StaleReference) playerKeys.forget();
        // The store may have lost the number itself.
        if (error instanceof PartsBehind) for (const { partition } of parts) numbers.delete(keyOf(partition));
        throw error;
      }
    },
  };
}

/**
 * The largest batch that locks all of its rounds at once and sends all of its changes in one packet. For it,
 * round trips and packets cost more than unnecessary locks, and than the store's wait for rows to be made. A
 * larger batch sends the rows of each table once they are made. Far from the store, every batch locks all of
 * its rounds at once.
 */
const FEW_EVENTS = 1_000;

/**
 * Decides a batch in one transaction.
 *
 * @param fewEvents see FEW_EVENTS
 * @param stepEnded called at the end of each step, to measure it
 * @param playerKeys kept from batch to batch
 * @throws StaleReference where newer reference data is in force: judge again
 * @throws PartsBehind where the store has lost decisions from before the batch
 * @throws LostRace, StoreError: see failures.ts
 */
export async function decideBatch(
  store: Store,
  batch: LedgerBatch,
  fewEvents = FEW_EVENTS,
  stepEnded: (step: LedgerStep) => void = () => undefined,
  playerKeys = new PlayerKeys(),
): Promise<LedgerDecisions> {
  if (batch.items.length > MAX_BATCH_EVENTS) throw new RangeError('a batch holds too many events');
  const result = await inTransaction(store, async (session) => {
    stepEnded('connect');
    const { decisions, facts, changed, writes } = await decideUnderLocks(
      session,
      batch,
      store.isFar ?? false,
      fewEvents,
      stepEnded,
      playerKeys,
    );
    batch.items.length = 0;
    report(batch.whenSent?.all);
    await Promise.all([
      changed,
      batch.beforeCommit === undefined ? session.writeAndCommit(writes) : session.write(writes),
    ]);
    await batch.beforeCommit?.();
    return { decisions, facts };
  });
  stepEnded('write');
  return result;
}

/** The connection sends all that it holds now before any work that `whenSent` starts. */
function report(sent: (() => void) | undefined): void {
  if (sent !== undefined) process.nextTick(sent);
}

/** A decided batch. All its rows are made before the commit is sent: a commit can then miss none of them. */
interface DecidedBatch extends LedgerDecisions {
  /** Settles once everything that is sent so far is done. */
  readonly changed: Promise<unknown>;
  /** The rest of the rows that the batch adds. */
  readonly writes: readonly Write[];
}

/**
 * Locks, reads, decides, and begins to change existing rows. Its data is freed before new rows are written.
 */
async function decideUnderLocks(
  session: Session,
  batch: LedgerBatch,
  isFar: boolean,
  fewEvents: number,
  stepEnded: (step: LedgerStep) => void,
  playerKeys: PlayerKeys,
): Promise<DecidedBatch> {
  const { questions } = batch;
  const isSmall = batch.items.length <= fewEvents;
  // Each statement is sent where its promise is made. A small batch, or any batch far from the store, locks
  // rounds and takes its number before the keys are known. Another batch does so afterwards, which spares the
  // rounds of decided events. Both are correct: `copyKeys` fails where another transaction has decided a key
  // meanwhile.
  const locking = find.lockPartitions(
    session,
    batch.parts.map(({ partition }) => partition),
  );
  const lockAndNumber = (rounds: readonly FeedIds[]) =>
    Promise.all([lock.lockBatchRounds(session, rounds), lock.nextBatch(session)]);
  const feedLocks = batch.contended ? lock.lockFeeds(session, feedsOf(batch.items)) : null;
  const locksAtOnce = isFar || isSmall ? lockAndNumber(questions.rounds.all) : null;
  if (isFar) report(batch.whenSent?.questions);
  const [{ locked: found, inForce }, decided] = await Promise.all([
    locking,
    find.findDecidedEvents(session, questions.events),
    feedLocks,
    locksAtOnce,
  ]);
  const locked = withoutLoss(batch.parts, found);
  if (!isSameVersion(inForce, batch.reference))
    throw new StaleReference(`version ${inForce.version} is in force`);

  stepEnded('find');
  // Rounds that are locked at once include those of decided events.
  const { toLock, toRead } = locksAtOnce === null ? questions.rounds.divide(decided) : NO_FURTHER_ROUNDS;
  const [redelivered, [roundsById, { firstNo, nowMicros }], decidedRounds] = await Promise.all([
    find.findRereadItems(session, batch, locked),
    locksAtOnce ?? lockAndNumber(toLock),
    lock.readBatchRounds(session, toRead),
  ]);
  const tags = await playerKeys.tagsAt(session, nowMicros, inForce.version);
  stepEnded('lock');

  const known = { ...redelivered, events: decided, rounds: roundsById, decidedRounds, tags };
  const { decisions, changedRounds } = decide(batch.items, known);
  batch.beforeWrites?.(decisions);
  const facts = batch.isPublished ? await readFacts(session, batch.items, decisions, known, nowMicros) : null;

  const { fresh, resends, unstored } = toWrite(batch.items, decisions, firstNo);
  const named = roundsOf(fresh, roundsById);
  const updates = state.updatesOf(
    named.filter(({ round }) => round.no !== null && changedRounds.has(round)),
    nowMicros,
  );
  const sent: Promise<unknown>[] = [];
  // The committing caller awaits them and receives their errors. Nobody awaits them where making rows throws.
  const send = (request: Promise<unknown>) => {
    request.catch(ignore);
    sent.push(request);
  };
  for (const { statement, values } of updates) send(session.query(statement, values));
  if (batch.panic && fresh[0])
    send(events.recordPanic(session, { verdictId: fresh[0].verdictId, ...batch.panic }));
  send(state.countPartitions(session, state.countedOf(batch, decisions, locked)));
  if (!isSmall) await nextTick();

  const opened = named.filter(({ round }) => round.no === null).sort(state.inOrder);
  opened.forEach(({ round }, index) => {
    round.no = firstNo + index;
  });
  const roundNumberOf = ({ feedNo, fields: { roundId } }: KeyedItem) =>
    roundId === null ? null : numberOf(roundsById.get(feedNo, roundId));
  const writes: Write[] = [];
  for (const makeRows of [() => state.copyRounds(opened, nowMicros), () => events.copyKeys(fresh, tags)]) {
    writes.push(...makeRows());
    if (isSmall) continue;
    send(session.write(writes.splice(0)));
    await nextTick();
  }
  writes.push(
    ...events.copyHistory(fresh, { nowMicros, referenceVersion: inForce.version, roundNumberOf }),
    ...events.copyResends(resends, { firstNo, nowMicros }),
    ...events.copyUnstored(unstored, nowMicros),
    ...events.copyFaults(fresh, nowMicros),
  );
  stepEnded('decide');
  return { decisions, facts, changed: Promise.all(sent), writes };
}

/** @throws PartsBehind where the store has lost decisions */
function withoutLoss(
  parts: readonly PartitionItems[],
  found: readonly (find.PartitionOffsets | null)[],
): find.PartitionOffsets[] {
  const locked: find.PartitionOffsets[] = [];
  const behind = new Map<number, StoreBehind>();
  for (const [place, offsets] of found.entries())
    if (offsets === null || offsets.decidedUpTo < (parts[place]?.expectedUpTo ?? 0))
      behind.set(place, new StoreBehind(offsets?.decidedUpTo ?? 0));
    else locked.push(offsets);
  if (behind.size > 0) throw new PartsBehind(behind);
  return locked;
}

/** Made here: a function that is made in `decideUnderLocks` keeps the data of its batch until the answer. */
const ignore = () => {};

function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

function feedsOf(items: readonly Item[]): number[] {
  const feeds = new Set<number>();
  for (const item of items) if (item.type === 'keyed') feeds.add(item.feedNo);
  return [...feeds].sort((a, b) => a - b);
}

/**
 * All rounds of a batch, including rounds that only rejected events name (unchanged, but shown with them).
 */
function roundsOf(fresh: readonly events.Fresh[], roundsById: FeedMap<Round>): NamedRound[] {
  for (const { item, outcome } of fresh) {
    const { roundId } = item.fields;
    if (outcome.verdict === 'rejected' && roundId !== null && !roundsById.has(item.feedNo, roundId))
      roundsById.set(item.feedNo, roundId, newRound());
  }
  const named: NamedRound[] = [];
  roundsById.forEach((feedNo, roundId, round) => {
    named.push({ feedNo, roundId, round });
  });
  return named;
}

function numberOf(round: Round | undefined): number {
  if (round?.no == null) throw new Error('a fresh event names a round that is neither locked nor opened');
  return round.no;
}

const NO_FURTHER_ROUNDS = { toLock: [], toRead: [] };

interface ToWrite {
  fresh: events.Fresh[];
  resends: { item: KeyedItem; first: events.Fresh['outcome']; contentDiffers: boolean }[];
  unstored: Item[];
}

/** The items of a batch that must be written. A delivery that was answered before needs no write. */
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
