/**
 * The intake: envelopes in, answers out. Judges, decides, and says what a failure means. Knows no transport and no SQL.
 * Every transport shares it, so that an event gets the same verdict whichever way it comes (docs/rules.md, D1).
 */
import type { Logger } from 'pino';
import type { Decision, Item } from './domain/decide';
import { ContentHash, hash64OfBytes } from './domain/digest';
import { type Fault, type Fields, type Judged, type Kind, NO_FIELDS } from './domain/event';
import { judge, PANIC, type Payload, readEventId } from './domain/judge';
import { type Connection, claim, type Reference } from './domain/reference';
import type { DeadLetterReason } from './domain/verdict';
import { type RejectBreaker, TopicPaused } from './intake/reject-limit';
import { classify, LostRace, StaleReference, StoreBehind, StoreError, Undecided } from './ledger/failures';
import type { Batch } from './ledger/ledger';

/** A delivery as a transport received it. */
export interface Envelope {
  /** The bytes as they came; null for a tombstone. */
  readonly value: Buffer | null;
  /** The same, decoded as far as the transport can. */
  readonly payload: Payload | { readonly type: 'schema_unknown' } | { readonly type: 'undecodable' };
  /** Values of the `connection-id` header. */
  readonly claims: readonly string[];
  /** Offset in the Kafka partition. */
  readonly offset: number;
  /** Key, headers and timestamp of the record, for a dead letter. */
  readonly key: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | Buffer[]>>;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
}

/** The Kafka partition that a batch comes from. */
export interface Source {
  readonly topic: string;
  readonly partition: number;
}

/** What became of one envelope. */
export interface Answer {
  readonly envelope: Envelope;
  readonly connection: Connection | null;
  /** Null where the envelope holds no usable one. */
  readonly eventId: string | null;
  /** Null where it is none of the seven. */
  readonly kind: Kind | null;
  readonly faults: readonly Fault[];
  readonly decision: Decision;
}

export interface DeadLetter {
  readonly envelope: Envelope;
  readonly source: Source;
  readonly reason: DeadLetterReason;
}

/** What was decided of a batch: all of it, or the answers up to the envelope at which `undecided` happened. */
export interface IntakeResult {
  readonly answers: readonly Answer[];
  readonly undecided: Error | null;
}

/** The stored side of the intake. */
export interface Ledger {
  decideBatch(batch: Batch): Promise<readonly Decision[]>;
  partitionNo(source: Source): Promise<number>;
  /** The store has lost something: numbers of partitions are asked for anew. */
  forgetNumbers(): void;
}

/** The reference data in force, kept in memory and reloaded where the store says that it is stale. */
export interface References {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
}

export interface IntakeDeps {
  readonly ledger: Ledger;
  readonly references: References;
  /** Resolves once every dead letter is acknowledged by all replicas. */
  readonly sendDeadLetters: (letters: readonly DeadLetter[]) => Promise<void>;
  /** Where rejected events have a limit. */
  readonly breaker?: RejectBreaker | undefined;
  readonly logger: Logger;
  /** Told of each batch that is decided again at once, and why. */
  readonly onRetry?: ((failure: 'again' | 'data') => void) | undefined;
  /** Milliseconds of a clock that only the rate of panics is measured with. */
  readonly now: () => number;
}

export interface Intake {
  /**
   * Decides envelopes of one partition, in their order. Never throws: what cannot be decided now is in the result.
   *
   * @param decidedUpTo so far the partition was decided before them, as far as is known: a store that knows of less has lost it (StoreBehind)
   */
  decide(source: Source, envelopes: readonly Envelope[], decidedUpTo?: number): Promise<IntakeResult>;
}

/** Tries at once, in ever smaller batches, after a lost race, a deadlock or new reference data (U4). */
const MAX_TRIES_AT_ONCE = 5;
/** Tries of an event that fails by itself, before it is a panic (V9). */
const TRIES_ALONE = 2;
/**
 * Where a round's events come by several partitions, as with random keys, batches that are decided at the same time open the same rounds, and
 * all but one have to be decided again. After such a race so many batches take their turn, before it is tried without again.
 */
const CONTENDED_BATCHES = 200;
/** A bad deploy must not use up ids: beyond this rate, what fails alone stays undecided (V9). */
export const MAX_PANICS_PER_MINUTE = 10;

export function makeIntake(deps: IntakeDeps): Intake {
  const { ledger, references, sendDeadLetters, breaker, logger, onRetry, now } = deps;
  const panicTimes: number[] = [];
  /** So many more batches wait for others of their feeds, since batches that did not have lost a race. */
  let contendedBatches = 0;

  async function decide(
    source: Source,
    envelopes: readonly Envelope[],
    decidedUpTo = 0,
  ): Promise<IntakeResult> {
    const answers: Answer[] = [];
    try {
      await settle({ source, decidedUpTo }, envelopes, 1, answers);
      return { answers, undecided: null };
    } catch (error) {
      if (error instanceof StoreBehind) ledger.forgetNumbers();
      return { answers, undecided: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  /** Decides envelopes whole, or by halves where something in them stands in the way. Appends what is decided to `answers`. */
  async function settle(
    from: From,
    envelopes: readonly Envelope[],
    tries: number,
    answers: Answer[],
  ): Promise<void> {
    let next = tries;
    const isAlone = envelopes.length === 1;
    try {
      answers.push(...(await (isAlone ? decideAlone(from, envelopes) : attempt(from, envelopes))));
      return;
    } catch (error) {
      if (error instanceof DeadLetterRefused && error.before > 0) {
        await settle(from, envelopes.slice(0, error.before), tries, answers);
        throw error;
      }
      const failure = classify(error);
      if (failure === 'undecided' || (failure === 'again' && tries >= MAX_TRIES_AT_ONCE)) throw error;
      if (failure === 'data' && isAlone) throw error;
      logger.info(
        { ...from.source, events: envelopes.length, failure, error: messageOf(error) },
        'batch is decided again',
      );
      onRetry?.(failure);
      // Halving towards an event that fails is no further try: however deep it goes, a lost race there has all of its tries.
      if (failure === 'again') {
        next++;
        contendedBatches = CONTENDED_BATCHES;
      }
    }
    const half = Math.ceil(envelopes.length / 2);
    await settle(from, envelopes.slice(0, half), next, answers);
    if (half < envelopes.length) await settle(from, envelopes.slice(half), next, answers);
  }

  /** An event by itself: what fails twice is stored as a panic. @throws as `attempt` does, and where no panic can be stored */
  async function decideAlone(from: From, envelopes: readonly Envelope[]): Promise<Answer[]> {
    let failure: unknown;
    for (let tries = 1; tries <= TRIES_ALONE; tries++) {
      try {
        return await attempt(from, envelopes);
      } catch (error) {
        if (classify(error) !== 'data') throw error;
        onRetry?.('data');
        failure = error;
      }
    }
    const minuteAgo = now() - 60_000;
    while (panicTimes[0] !== undefined && panicTimes[0] < minuteAgo) panicTimes.shift();
    if (panicTimes.length >= MAX_PANICS_PER_MINUTE) throw failure;
    const answers = await attempt(from, envelopes, messageOf(failure));
    panicTimes.push(now());
    logger.error(
      { ...from.source, offset: first(envelopes).offset, error: messageOf(failure) },
      'event failed twice and is rejected as panic',
    );
    return answers;
  }

  /** One transaction; judged again where the reference data turns out to be stale. */
  async function attempt(from: From, envelopes: readonly Envelope[], panic?: string): Promise<Answer[]> {
    const { source, decidedUpTo } = from;
    const partitionNo = await ledger.partitionNo(source);
    const { topic } = source;
    // New reference data is what a paused topic waits for.
    let reference = await (breaker?.isPaused(topic) ? references.reload() : references.current());
    for (let tries = 1; ; tries++) {
      if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
      const { version } = reference;
      breaker?.admit(topic, version);
      const prepared = envelopes.map((envelope) =>
        prepare(reference, source, partitionNo, envelope, panic !== undefined),
      );
      try {
        const decisions = await ledger.decideBatch({
          items: prepared.map(({ item }) => item),
          partitionNo,
          decidedUpTo,
          referenceVersion: version,
          contended: contendedBatches > 0,
          beforeWrites: breaker && ((decided) => breaker.check(topic, version, decided)),
          beforeCommit: deadLettersOf(source, envelopes, prepared),
          ...(panic === undefined ? {} : { panic: { error: panic, payload: first(envelopes).value } }),
        });
        if (contendedBatches > 0) contendedBatches--;
        breaker?.committed(topic, decisions);
        return envelopes.map((envelope, index) =>
          answerOf(envelope, at(prepared, index), at(decisions, index)),
        );
      } catch (error) {
        if (!(error instanceof StaleReference) || tries >= MAX_TRIES_AT_ONCE) throw error;
        reference = await references.reload();
      }
    }
  }

  /** Sends the dead letters of a batch; undefined where it has none. */
  function deadLettersOf(
    source: Source,
    envelopes: readonly Envelope[],
    prepared: readonly Prepared[],
  ): (() => Promise<void>) | undefined {
    const letters: DeadLetter[] = [];
    prepared.forEach(({ item }, index) => {
      if (item.type === 'unstored' && item.deadLetter !== null)
        letters.push({ envelope: at(envelopes, index), source, reason: item.deadLetter });
    });
    if (letters.length === 0) return undefined;
    return async () => {
      try {
        await sendDeadLetters(letters);
      } catch (error) {
        const before = envelopes.indexOf(first(letters).envelope);
        throw new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, before, error);
      }
    };
  }

  return { decide };
}

/** Where a batch comes from, and how far its partition was decided before it. */
interface From {
  readonly source: Source;
  readonly decidedUpTo: number;
}

/** The dead-letter topic takes nothing: the record is undecided, and so is all behind it. What stands before it need not wait. */
class DeadLetterRefused extends Undecided {
  override readonly name = 'DeadLetterRefused';
  constructor(
    message: string,
    readonly before: number,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

class NoReference extends Undecided {
  override readonly name = 'NoReference';
}

/** Whose it is that a batch is undecided: Postgres, the topics that are published to, a limit, missing reference data, or a defect of our own. */
export function undecidedCause(error: unknown): 'store' | 'kafka' | 'limit' | 'reference' | 'worker' {
  if (error instanceof TopicPaused) return 'limit';
  if (error instanceof DeadLetterRefused) return 'kafka';
  if (error instanceof NoReference) return 'reference';
  const isStore = [StoreError, StoreBehind, LostRace, StaleReference].some((type) => error instanceof type);
  return isStore ? 'store' : 'worker';
}

/** The offset from which on the store has lost what it had decided of the partition; null where that is not why the batch is undecided. */
export function lostFrom(error: unknown): number | null {
  return error instanceof StoreBehind ? error.decidedUpTo : null;
}

/** What an envelope holds, ready to be decided. */
interface Prepared {
  readonly item: Item;
  readonly connection: Connection | null;
  readonly faults: readonly Fault[];
}

function answerOf(envelope: Envelope, { item, connection, faults }: Prepared, decision: Decision): Answer {
  const { eventId, kind } =
    item.type === 'keyed' ? { eventId: item.eventId, kind: item.fields.kind } : NO_EVENT;
  return { envelope, connection, eventId, kind, faults, decision };
}

const NO_EVENT = { eventId: null, kind: null };

/** Claims and judges an envelope. */
function prepare(
  reference: Reference,
  { topic }: Source,
  partitionNo: number,
  envelope: Envelope,
  panic: boolean,
): Prepared {
  const source = { partitionNo, offset: envelope.offset };
  const connection = claim(reference, topic, envelope.claims) ?? null;
  const unstored = (deadLetter: DeadLetterReason | null, faults: readonly Fault[]): Prepared => ({
    item: {
      type: 'unstored',
      source,
      connectionNo: connection?.no ?? null,
      valueHash: hash64OfBytes(envelope.value ?? NO_BYTES),
      deadLetter,
    },
    connection,
    faults,
  });
  if (connection === null) return unstored('unclaimed', []);
  const { payload } = envelope;
  if (payload.type === 'schema_unknown' || payload.type === 'undecodable') return unstored(payload.type, []);

  const judged = panic ? judgedAsPanic(payload, connection) : judge(payload, connection);
  if (judged.type === 'unkeyed') return unstored(null, judged.faults);
  const { eventId, fields } = judged;
  return {
    item: {
      type: 'keyed',
      source,
      feedNo: connection.feedNo,
      connectionNo: connection.no,
      eventId,
      fields,
      brandNo: judged.brandNo,
      playerHash: playerHashOf(fields),
      contentHash: judged.contentHash,
      refusal: judged.refusal,
    },
    connection,
    faults: judged.faults,
  };
}

/** Of round and player together, so that rounds tell nothing of a player. */
function playerHashOf({ roundId, playerRef }: Fields): number | null {
  if (roundId === null || playerRef === null) return null;
  return new ContentHash().text(roundId).text(playerRef).value();
}

const NO_BYTES = Buffer.alloc(0);

/** An event that failed twice, reduced to its id: any of its fields may be what failed (V9). */
function judgedAsPanic(payload: Payload, connection: Connection): Judged {
  const read = readEventId(payload);
  if ('reason' in read) return { type: 'unkeyed', faults: [read] };
  const { eventId } = read;
  return {
    type: 'keyed',
    eventId,
    fields: NO_FIELDS,
    brandNo: null,
    contentHash: contentHashOf(payload, connection),
    refusal: PANIC,
    faults: [],
  };
}

function contentHashOf(payload: Payload, connection: Connection): number {
  try {
    const judged = judge(payload, connection);
    return judged.type === 'keyed' ? judged.contentHash : 0;
  } catch {
    return 0; // judging is what failed
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function first<T>(list: readonly T[]): T {
  return at(list, 0);
}

function at<T>(list: readonly T[], index: number): T {
  const element = list[index];
  if (element === undefined) throw new Error(`a batch of ${list.length} has no answer ${index}`);
  return element;
}
