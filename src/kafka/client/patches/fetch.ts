/**
 * Replaces the decoder of fetch responses in kafkajs 2.2.4 by ours (record-batch-reader.ts). The replaced
 * decoder serves every broker from 2.3 on. With ours, kafkajs sees one message for each partition, which
 * carries all fetched batches.
 *
 * A listener gets the facts in the brokers' responses that kafkajs keeps to itself. They cost no request.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import Decoder from 'kafkajs/src/protocol/decoder';
import { createErrorFromCode } from 'kafkajs/src/protocol/error';
import fetchResponse from 'kafkajs/src/protocol/requests/fetch/v11/response';
import offsetCommitResponse from 'kafkajs/src/protocol/requests/offsetCommit/v5/response';
import offsetFetchResponse from 'kafkajs/src/protocol/requests/offsetFetch/v4/response';
import type { TopicPartition } from '../../../lib/topic-partition';
import { type Decompress, Fetched } from '../../protocol/record-batch-reader';

/** All fetched batches of a partition, in the shape of a kafkajs message. */
export class FetchedMessage {
  readonly isControlRecord = false;
  readonly batchContext = { inTransaction: false };
  readonly key = null;
  /** Offset of the last record: kafkajs's position of the partition once the message is resolved. */
  readonly offset: string;
  /** @param answerBytes size of the broker's answer, with all of its partitions */
  constructor(
    readonly fetched: Fetched,
    readonly answerBytes: number,
  ) {
    this.offset = String(fetched.lastOffset);
  }
}

/** Gets the facts from the brokers' responses to one consumer. */
export interface AnswerListener {
  /**
   * The high watermark of a partition, and its first offset that is not deleted. Reported for each response
   * to a fetch, with records or without.
   */
  onHighWatermark(partition: TopicPartition, offset: number, start: number): void;
  /**
   * A broker refuses the fetch of a partition, or its next batch is damaged. kafkajs sees a partition without
   * records.
   */
  onRefused(partition: TopicPartition, error: Error): void;
  /** A partition has no leader, and cannot be read. It may be another consumer's. */
  onLeaderless(partition: TopicPartition, error: Error): void;
  /** The broker lacks the partition, or the offset of the fetch: another log may have replaced it. */
  onMissing(partition: TopicPartition): void;
  /** A broker throttles the consumer's fetches for `ms`. */
  onThrottled(ms: number): void;
  /** The consumer begins to join its group, for any reason. The client reports the end of the join. */
  onJoining(): void;
  /** The consumer has joined its group, on the Kafka cluster with this id; null if its brokers give none. */
  onJoined?(clusterId: string | null): void;
  /** The group's committed offset of a partition, null if there is none, and the note of that commit. */
  onCommitted(partition: TopicPartition, offset: number | null, note: string | null): void;
}

const listeners = new AsyncLocalStorage<AnswerListener>();

/**
 * Runs a consumer whose responses are reported to the listener. Responses to other clients of this process
 * are not: they may be about another group, or about an earlier time.
 */
export function runWithListener<T>(listener: AnswerListener, run: () => T): T {
  return listeners.run(listener, run);
}

/** The listener of the consumer that sends the current request; undefined for any other client. */
export function answerListener(): AnswerListener | undefined {
  return listeners.getStore();
}

const OFFSET_OUT_OF_RANGE = 1;
export const UNKNOWN_TOPIC_OR_PARTITION = 3;
export const TOPIC_AUTHORIZATION_FAILED = 29;
/**
 * Errors of a fetch from which kafkajs recovers by itself. On any other error of a single partition it stops
 * fetching all partitions. It then ends, or retries forever if the error lasts.
 */
const LEFT_TO_KAFKAJS: ReadonlySet<string> = new Set([
  'OFFSET_OUT_OF_RANGE',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'UNKNOWN_TOPIC_OR_PARTITION',
]);

/** A partition whose commit a broker has refused. */
export interface CommitError extends TopicPartition {
  readonly errorCode: number;
}

const commitErrors = new WeakMap<object, readonly CommitError[]>();

/**
 * All partitions whose commit was refused, by the error that was thrown: kafkajs throws the first refusal
 * alone. Empty for any other error.
 */
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
        // The offset is negative if nothing is committed.
        const committed = Number(offset) < 0 ? null : Number(offset);
        listener?.onCommitted({ topic, partition }, committed, metadata);
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

/** Decodes a fetch response, version 11. https://kafka.apache.org/protocol#The_Messages_Fetch */
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
      partitions: decoder.readArray(() =>
        decodePartition({ topic: topicName, answerBytes: bytes.length }, decoder, decompress, listener),
      ),
    };
  });
  // A throttle time of 0, as in kafkajs's own decoder: the client waits by clientSideThrottleTime, and would
  // wait twice.
  return { throttleTime: 0, clientSideThrottleTime, errorCode, sessionId, responses };
}

function decodePartition(
  { topic, answerBytes }: { readonly topic: string; readonly answerBytes: number },
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
  const messages = fetched === null || fetched.isEmpty ? [] : [new FetchedMessage(fetched, answerBytes)];
  if (listener !== undefined) {
    if (answered !== 0) about.errorCode = reportError({ topic, partition }, answered, listener);
    // Brokers leave out a batch that does not fit. A first batch that is cut off must claim a wrong length.
    else if (fetched?.isEmpty)
      listener.onRefused({ topic, partition }, new Error('its next batch is damaged'));
    else
      listener.onHighWatermark(
        { topic, partition },
        Number(about.highWatermark),
        Number(about.lastStartOffset),
      );
  }
  return { ...about, abortedTransactions: [], preferredReadReplica, messages };
}

/** Reports the error of a partition. @returns the error code that is left to kafkajs; 0 for none */
function reportError(partition: TopicPartition, errorCode: number, listener: AnswerListener): number {
  const error = createErrorFromCode(errorCode);
  if (errorCode === UNKNOWN_TOPIC_OR_PARTITION || errorCode === OFFSET_OUT_OF_RANGE)
    listener.onMissing(partition);
  if (LEFT_TO_KAFKAJS.has(error.type)) return errorCode;
  listener.onRefused(partition, error);
  return 0;
}
