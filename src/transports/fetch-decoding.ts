/**
 * Puts our decoder of record batches (record-batches.ts) into kafkajs 2.2.4, in place of the decoder of the fetch response it uses
 * with every broker from 2.3 on. A batch that kafkajs then sees holds one message that carries everything fetched of a partition.
 * What else the brokers say of positions, and kafkajs keeps to itself, is told to who listens: it costs no request.
 */
import Decoder from 'kafkajs/src/protocol/decoder';
import fetchResponse from 'kafkajs/src/protocol/requests/fetch/v11/response';
import offsetFetchResponse from 'kafkajs/src/protocol/requests/offsetFetch/v4/response';
import type { Source } from '../intake';
import { type Decompress, Fetched } from './record-batches';

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

/** What brokers say to any client of this process. */
export interface PositionListener {
  /** The end of a partition, with each answer to a fetch, whether it brings records or not. */
  end(partition: Source, offset: number): void;
  /** What a group has committed of a partition, null where it has not, and the note that it was committed with. */
  committed(partition: Source, offset: number | null, note: string | null): void;
}

const listeners = new Set<PositionListener>();

/** @returns what ends it */
export function listenToPositions(listener: PositionListener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Replaces the decoder for every client of this process. */
export function installFetchDecoder(decompress: Decompress): void {
  fetchResponse.decode = (bytes: Buffer) => decodeFetch(bytes, decompress);
  offsetFetchResponse.decode = async (bytes) => {
    const decoded = await decodeOffsetFetch(bytes);
    for (const { topic, partitions } of decoded.responses)
      for (const { partition, offset, metadata, errorCode } of partitions) {
        if (errorCode !== 0) continue;
        // Less than 0 where nothing is committed.
        const committed = Number(offset) < 0 ? null : Number(offset);
        for (const listener of listeners) listener.committed({ topic, partition }, committed, metadata);
      }
    return decoded;
  };
}

const decodeOffsetFetch = offsetFetchResponse.decode;

/** Fetch response, version 11. https://kafka.apache.org/protocol#The_Messages_Fetch */
function decodeFetch(bytes: Buffer, decompress: Decompress) {
  const decoder = new Decoder(bytes);
  const clientSideThrottleTime = decoder.readInt32();
  const errorCode = decoder.readInt16();
  const sessionId = decoder.readInt32();
  const responses = decoder.readArray(() => {
    const topicName = decoder.readString();
    return {
      topicName,
      partitions: decoder.readArray(() => decodePartition(topicName, decoder, decompress)),
    };
  });
  // A throttle time of 0, as kafkajs has it: the broker expects the client to wait, and kafkajs would wait twice.
  return { throttleTime: 0, clientSideThrottleTime, errorCode, sessionId, responses };
}

function decodePartition(topic: string, decoder: Decoder, decompress: Decompress) {
  const about = {
    partition: decoder.readInt32(),
    errorCode: decoder.readInt16(),
    highWatermark: decoder.readInt64().toString(),
    lastStableOffset: decoder.readInt64().toString(),
    lastStartOffset: decoder.readInt64().toString(),
  };
  if (about.errorCode === 0) {
    const { partition, highWatermark } = about;
    for (const listener of listeners) listener.end({ topic, partition }, Number(highWatermark));
  }
  const aborted = decoder.readArray(() => ({
    producerId: BigInt(decoder.readInt64().toString()),
    firstOffset: Number(decoder.readInt64().toString()),
  }));
  const preferredReadReplica = decoder.readInt32();
  const size = decoder.readInt32();
  const fetched = size > 0 ? new Fetched(decoder.readBytes(size), aborted, decompress) : null;
  const messages = fetched === null || fetched.isEmpty ? [] : [new FetchedMessage(fetched)];
  return { ...about, abortedTransactions: [], preferredReadReplica, messages };
}
