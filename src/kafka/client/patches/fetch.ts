/**
 * Puts our decoder of record batches (record-batch-reader.ts) into kafkajs 2.2.4, in place of the decoder of the fetch response it uses
 * with every broker from 2.3 on. A batch that kafkajs then sees holds one message that carries everything fetched of a partition.
 * What else the brokers say of partitions, and kafkajs keeps to itself, is told to who listens: it costs no request.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import Decoder from 'kafkajs/src/protocol/decoder';
import { createErrorFromCode } from 'kafkajs/src/protocol/error';
import fetchResponse from 'kafkajs/src/protocol/requests/fetch/v11/response';
import offsetCommitResponse from 'kafkajs/src/protocol/requests/offsetCommit/v5/response';
import offsetFetchResponse from 'kafkajs/src/protocol/requests/offsetFetch/v4/response';
import type { TopicPartition } from '../../../lib/topic-partition';
import { type Decompress, Fetched } from '../../protocol/record-batch-reader';

/** What stands for all that was fetched of a partition, in the shape that kafkajs asks of a message. */
export class FetchedMessage {
  readonly isControlRecord = false;
  readonly batchContext = { inTransaction: false };
  readonly key = null;
  /** Of the last record: where kafkajs takes the partition to stand once the message is resolved. */
  readonly offset: string;
  constructor(readonly fetched: Fetched) {
    this.offset = String(fetched.lastOffset);
  }
}

/** What brokers answer one consumer. */
export interface AnswerListener {
  /** The end of a partition, and its first offset that is not deleted, with each answer to a fetch, whether it brings records or not. */
  end(partition: TopicPartition, offset: number, start: number): void;
  /** A broker does not let a partition be read, or its next batch is damaged. To kafkajs it looks like one of which there is nothing to read. */
  refused(partition: TopicPartition, error: Error): void;
  /** A partition, which need not be of this consumer, has no leader: nobody can read it. */
  leaderless(partition: TopicPartition, error: Error): void;
  /** The broker has no such partition, or not the offset that was asked for: its log may be another one. */
  missing(partition: TopicPartition): void;
  /** A broker throttles its fetches for so long. */
  throttled(ms: number): void;
  /** It begins to join its group, for whatever reason; the client reports the end of that. */
  joining(): void;
  /** It has joined its group, on this Kafka cluster; null where its brokers give no id. */
  joined?(clusterId: string | null): void;
  /** What the group has committed of a partition, null where it has not, and the note that it was committed with. */
  committed(partition: TopicPartition, offset: number | null, note: string | null): void;
}

const listeners = new AsyncLocalStorage<AnswerListener>();

/**
 * Runs a consumer so that the listener hears what it is answered: it, and no other client of this process, which may ask for the positions of
 * another group, or have asked before the consumer did.
 */
export function runHeard<T>(listener: AnswerListener, run: () => T): T {
  return listeners.run(listener, run);
}

/** Who listens to what the consumer is answered that asks just now; undefined for any other client. */
export function answerListener(): AnswerListener | undefined {
  return listeners.getStore();
}

const OFFSET_OUT_OF_RANGE = 1;
export const UNKNOWN_TOPIC_OR_PARTITION = 3;
export const TOPIC_AUTHORIZATION_FAILED = 29;
/**
 * Errors of a fetch that kafkajs gets over by itself. With any other one that a single partition has it stops fetching all of them, and ends, or
 * tries again, for good where the partition has it for good.
 */
const LEFT_TO_KAFKAJS: ReadonlySet<string> = new Set([
  'OFFSET_OUT_OF_RANGE',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'UNKNOWN_TOPIC_OR_PARTITION',
]);

/** A partition whose offset a broker did not commit. */
export interface CommitError extends TopicPartition {
  readonly errorCode: number;
}

const commitErrors = new WeakMap<object, readonly CommitError[]>();

/** The partitions whose offsets were not committed, of an error that says of one alone; none of any other error. */
export function commitErrorsIn(error: unknown): readonly CommitError[] {
  return (typeof error === 'object' && error !== null && commitErrors.get(error)) || [];
}

/** Replaces the decoders for every client of this process. */
export function installFetchDecoder(decompress: Decompress): void {
  fetchResponse.decode = (bytes: Buffer) => decodeFetch(bytes, decompress);
  offsetFetchResponse.decode = async (bytes) => {
    const decoded = await decodeOffsetFetch(bytes);
    const listener = answerListener();
    for (const { topic, partitions } of decoded.responses)
      for (const { partition, offset, metadata, errorCode } of partitions) {
        if (errorCode !== 0) continue;
        // Less than 0 where nothing is committed.
        const committed = Number(offset) < 0 ? null : Number(offset);
        listener?.committed({ topic, partition }, committed, metadata);
      }
    return decoded;
  };
  offsetCommitResponse.parse = async (answer) => {
    try {
      return await parseOffsetCommit(answer);
    } catch (error) {
      const errors = answer.responses.flatMap(({ topic, partitions }) =>
        partitions.flatMap(({ partition, errorCode }) =>
          errorCode === 0 ? [] : { topic, partition, errorCode },
        ),
      );
      if (typeof error === 'object' && error !== null) commitErrors.set(error, errors);
      throw error;
    }
  };
}

const decodeOffsetFetch = offsetFetchResponse.decode;
const parseOffsetCommit = offsetCommitResponse.parse;

/** Fetch response, version 11. https://kafka.apache.org/protocol#The_Messages_Fetch */
function decodeFetch(bytes: Buffer, decompress: Decompress) {
  const decoder = new Decoder(bytes);
  const listener = answerListener();
  const clientSideThrottleTime = decoder.readInt32();
  const errorCode = decoder.readInt16();
  const sessionId = decoder.readInt32();
  const responses = decoder.readArray(() => {
    const topicName = decoder.readString();
    return {
      topicName,
      partitions: decoder.readArray(() => decodePartition(topicName, decoder, decompress, listener)),
    };
  });
  // A throttle time of 0, as kafkajs has it: the broker expects the client to wait, and kafkajs would wait twice.
  return { throttleTime: 0, clientSideThrottleTime, errorCode, sessionId, responses };
}

function decodePartition(
  topic: string,
  decoder: Decoder,
  decompress: Decompress,
  listener: AnswerListener | undefined,
) {
  const partition = decoder.readInt32();
  const answered = decoder.readInt16();
  const about = {
    partition,
    errorCode: answered,
    highWatermark: decoder.readInt64().toString(),
    lastStableOffset: decoder.readInt64().toString(),
    lastStartOffset: decoder.readInt64().toString(),
  };
  const aborted = decoder.readArray(() => ({
    producerId: BigInt(decoder.readInt64().toString()),
    firstOffset: Number(decoder.readInt64().toString()),
  }));
  const preferredReadReplica = decoder.readInt32();
  const size = decoder.readInt32();
  const fetched = size > 0 ? new Fetched(decoder.readBytes(size), aborted, decompress) : null;
  const messages = fetched === null || fetched.isEmpty ? [] : [new FetchedMessage(fetched)];
  if (listener !== undefined) {
    if (answered !== 0) about.errorCode = tellError({ topic, partition }, answered, listener);
    // Brokers leave out a batch that does not fit: one that is cut off at the very beginning says of itself that it is longer than it is.
    else if (fetched?.isEmpty) listener.refused({ topic, partition }, new Error('its next batch is damaged'));
    else listener.end({ topic, partition }, Number(about.highWatermark), Number(about.lastStartOffset));
  }
  return { ...about, abortedTransactions: [], preferredReadReplica, messages };
}

/** @returns the error that is left to kafkajs; 0 for none */
function tellError(partition: TopicPartition, errorCode: number, listener: AnswerListener): number {
  const error = createErrorFromCode(errorCode);
  if (errorCode === UNKNOWN_TOPIC_OR_PARTITION || errorCode === OFFSET_OUT_OF_RANGE)
    listener.missing(partition);
  if (LEFT_TO_KAFKAJS.has(error.type)) return errorCode;
  listener.refused(partition, error);
  return 0;
}
