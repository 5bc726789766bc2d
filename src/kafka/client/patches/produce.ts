/**
 * Lets kafkajs 2.2.4 send record batches that record-batch-writer.ts has encoded. Its producer finds the
 * leader, sends and retries as usual; the bytes of the batch are ours. A response about several topics names
 * the error of each partition, where kafkajs would throw the first.
 */
import type { Message } from 'kafkajs';
import produce from 'kafkajs/src/protocol/requests/produce';
import { BufferPool } from '../../../lib/buffer-pool';
import { EncoderWithFront, installFront } from './request-front';

/** All messages to a partition in one request, encoded as one batch, in the shape of a kafkajs message. */
export class EncodedBatch implements Message {
  readonly key = null;
  constructor(
    readonly partition: number,
    /** The record batch. */
    readonly value: Buffer,
  ) {}
}

/** The newest produce request of kafkajs 2.2.4, which we extend. Every broker from 2.1 to 4.x accepts it. */
const VERSION = 7;
const original = produce.protocol;
/** The memory of requests. */
const pool = new BufferPool();

/** Extends the requests of every client of this process. Requests with other messages stay unchanged. */
export function installProduceEncoder(): void {
  installFront();
  produce.protocol = ({ version }) => {
    const make = original({ version });
    return version === VERSION ? (options) => withEncodedBatches(options, make(options)) : make;
  };
}

function withEncodedBatches(options: produce.Options, made: produce.Made): produce.Made {
  const topics = options.topicData.map(({ topic, partitions }) => ({
    topic,
    batches: partitions.flatMap(({ messages }) => messages.filter((each) => each instanceof EncodedBatch)),
  }));
  if (topics.every(({ batches }) => batches.length === 0)) return made;
  const { response } = made;
  let memory: Buffer | null = null;
  return {
    request: {
      ...made.request,
      async encode() {
        const encoder = encode(options, topics);
        ({ memory } = encoder);
        return encoder;
      },
    },
    response: {
      ...response,
      async decode(bytes) {
        // A broker answers a whole request, so all of it has been sent.
        if (memory !== null) pool.give(memory);
        memory = null;
        return response.decode(bytes);
      },
      // The producer reads the errors: one topic that refuses must not fail the others.
      ...(topics.length > 1 && { parse: async (answer) => answer }),
    },
  };
}

/** Encodes a produce request, version 7. https://kafka.apache.org/protocol#The_Messages_Produce */
function encode(
  { acks, timeout }: produce.Options,
  topics: readonly { readonly topic: string; readonly batches: readonly EncodedBatch[] }[],
): EncoderWithFront {
  const encoder = new EncoderWithFront(bytesOf(topics), pool)
    .writeString(null) // no transaction
    .writeInt16(acks)
    .writeInt32(timeout)
    .writeInt32(topics.length);
  for (const { topic, batches } of topics) {
    encoder.writeString(topic).writeInt32(batches.length);
    for (const { partition, value } of batches) encoder.writeInt32(partition).writeBytes(value);
  }
  return encoder;
}

function bytesOf(topics: readonly { readonly topic: string; readonly batches: readonly EncodedBatch[] }[]) {
  let bytes = FIXED_BYTES;
  for (const { topic, batches } of topics) {
    bytes += TOPIC_BYTES + Buffer.byteLength(topic);
    for (const { value } of batches) bytes += BATCH_BYTES + value.length;
  }
  return bytes;
}

/** The fields beside the topics, beside the batches of a topic, and beside a batch. */
const FIXED_BYTES = 2 + 2 + 4 + 4;
const TOPIC_BYTES = 2 + 4;
const BATCH_BYTES = 4 + 4;
