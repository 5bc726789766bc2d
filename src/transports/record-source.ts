/**
 * The port between the loops of the partitions and a consumer group: kafka-source.ts implements it for a real cluster.
 */
import type { Logger } from 'pino';
import type { Clock } from '../clock';
import { idKey } from '../domain/digest';
import type { Answer, Envelope, Intake, TopicPartition } from '../intake';
import type { Metrics } from '../telemetry';
import type { ReadCluster, ReadDecidedUpTo } from './moved-offsets';
import type { WireFormat } from './wire-format';

/** Memory that a record takes beside its bytes, once it is read. */
export const RECORD_OVERHEAD_BYTES = 400;

/** A record as it came: an envelope whose payload is the value as it stands, JSON or not. */
export interface StreamRecord extends Envelope {
  /** Memory that it keeps: its bytes, those of key and headers too, and what its headers take once they are read. */
  readonly size: number;
  /** Of its value, where it has one: tells how it is to be decoded. */
  readonly firstByte: number | undefined;
  /** Why the batch that this record stands for cannot be read. */
  readonly undecodable?: string | undefined;
}

/** Consecutive records of a partition, as bytes. Offsets may be missing: markers, aborted and compacted records are left out. */
export interface Chunk extends TopicPartition {
  /** What it holds of memory until it is opened. */
  readonly bytes: number;
  /** Where the partition goes on after this chunk, with everything counted that was left out. */
  readonly nextOffset: number;
  /**
   * Its records, from an offset on where one is given; a promise only where they are compressed. Bytes that cannot be read are one record that
   * says so.
   *
   * @throws where they cannot be decompressed now, as for a lack of memory
   */
  open(fromOffset?: number): RecordCursor | Promise<RecordCursor>;
}

/** Gives records one after the other. */
export interface RecordCursor {
  /** What it holds of memory beside its chunk: what was decompressed. */
  readonly bytes: number;
  /** The next record; null behind the last. */
  next(): StreamRecord | null;
}

/** How far a partition is decided. */
export interface Progress extends TopicPartition {
  /** Where the group goes on: what was left out behind the last record is passed, too. */
  readonly offset: number;
  /** One past the last record that was decided: so far the store has to have decided it. Null where the offset is somebody else's, and the store is not asked yet. */
  readonly expectedUpTo: number | null;
  /** The store's name of the Kafka cluster that `expectedUpTo` is an offset of; absent for its first one. */
  readonly cluster?: string;
}

/** A consumer group's side of Kafka. */
export interface RecordSource {
  /** Begins to deliver to the listener. */
  start(listener: SourceListener): Promise<void>;
  /** Delivers no more of a partition until `resume`. */
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  /** Delivers the partition from this offset on, and nothing more of what was fetched before. */
  goBack(partition: TopicPartition, offset: number): void;
  /** Stores how far partitions are decided. @throws where the group has moved on: the records come again */
  commit(progress: readonly Progress[]): Promise<void>;
  /** Leaves the group. */
  stop(): Promise<void>;
}

export interface SourceListener {
  /** These partitions are ours from now on, from their committed offsets; whatever was delivered before is void. */
  assigned(partitions: readonly TopicPartition[]): void;
  chunk(chunk: Chunk): void;
  /** A broker answered a fetch of a partition, with records or without: where the partition ends by now, and its first offset that is not deleted. */
  end(partition: TopicPartition, offset: number, start: number): void;
  /**
   * What the group has committed of a partition. Told before its first chunk.
   *
   * @param offset at which the partition begins; null where none is committed
   * @param expectedUpTo see Progress; null where the offset was set by no worker: by somebody else, or by nobody yet
   * @param cluster see Progress; another one where a mirror has copied the offset
   */
  begins(
    partition: TopicPartition,
    offset: number | null,
    expectedUpTo: number | null,
    cluster?: string,
  ): void;
  /** So many offsets were passed over: Kafka has deleted their records before they were fetched. */
  passedOver(partition: TopicPartition, offsets: number): void;
  /**
   * A partition of ours cannot be read, since a broker does not let it be, it has no leader, or its next batch is damaged; it is tried again from time to time. Null once it can. Partitions that were
   * assigned anew are not refused until this is told again.
   */
  refused(partition: TopicPartition, because: string | null): void;
  /** The group shared its partitions out, for which nothing was fetched for so long. */
  rebalanced(ms: number): void;
  /** The client fetched, with records or without, or it tried to: it is alive. */
  active(): void;
}

/** An answer as it is published. */
export interface PublishedAnswer extends Pick<Answer, 'connection' | 'eventId' | 'faults' | 'decision'> {
  /** Of the record that is answered; of the webhook the place among the events that were decided together. */
  readonly offset: number;
  /** In place of an event_id that is too long for any topic: the key that stands for it, in hexadecimal digits. */
  readonly eventKey?: string;
}

/** A message names its event twice, and JSON takes up to six bytes for a character: with a longer id it could be too large for any topic. */
const MAX_PUBLISHED_ID_LENGTH = 1024 ** 2;

/** Publishes decisions. Resolves once they are stored by all replicas. */
export type PublishVerdicts<From = TopicPartition> = (
  from: From,
  answers: readonly PublishedAnswer[],
) => Promise<void>;

export interface StreamDeps {
  readonly source: RecordSource;
  readonly intake: Pick<Intake, 'decide'>;
  readonly wireFormat: Pick<WireFormat, 'decode'>;
  readonly publishVerdicts: PublishVerdicts | null;
  /** The cluster that `source` reads. */
  readonly cluster: ReadCluster;
  readonly readDecidedUpTo: ReadDecidedUpTo;
  /** Notes in the store that a partition is read from this offset on after a move: other clusters have what is before it. @throws where the store cannot now */
  readonly beginAt: (partition: TopicPartition, offset: number) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly batchEvents: number;
  /** Instead of LARGE_BATCH_BYTES and AHEAD_BYTES. */
  readonly largeBatchBytes?: number | undefined;
  readonly partitionsAtOnce: number;
}

/** Its record, and with it the whole fetch in whose bytes it stands, is free to go. */
export function withoutRecord({
  envelope: { offset },
  connection,
  eventId,
  faults,
  decision,
}: Answer): PublishedAnswer {
  if (eventId === null || eventId.length <= MAX_PUBLISHED_ID_LENGTH)
    return { offset, connection, eventId, faults, decision };
  // Not the id itself: it may be as large as a batch, and answers may wait for long to be published.
  const eventKey = idKey(eventId).toString('hex');
  return { offset, connection, eventId: null, eventKey, faults, decision };
}

/** A partition's name in logs and maps. */
export function keyOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}
