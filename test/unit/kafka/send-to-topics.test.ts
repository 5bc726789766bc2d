/** The buffer of the batches of one request. */

import { MessageEncoder } from '../../../src/kafka/protocol/record-batch-writer';
import { makeSendToTopics } from '../../../src/kafka/send-to-topics';

const TOPICS = ['a', 'b', 'c'];
const SHORT = 100;
const LONG = 900;

function scene() {
  const buffers: ReadonlySet<ArrayBufferLike>[] = [];
  const encoder = new MessageEncoder();
  const send = makeSendToTopics(
    async (topics, _, onStored) => {
      buffers.push(new Set(topics.flatMap(({ batches }) => batches.map(({ value }) => value.buffer))));
      for (const { topic, batches } of topics)
        for (const { partition } of batches) onStored(topic, partition);
    },
    { of: async () => () => 0, known: () => () => 0, refresh: async () => {}, forget: () => {} },
  );
  return {
    /** @returns the number of buffers that the batches are in */
    async send(bytes: number): Promise<number | undefined> {
      const items = new Map(TOPICS.map((topic) => [topic, Array.from({ length: 50 }, () => bytes)]));
      const unsent = await send(items, (length) =>
        encoder.encode({ key: null, value: 'x'.repeat(length), headers: [] }),
      );
      expect(unsent.size).toBe(0);
      return buffers.at(-1)?.size;
    },
  };
}

test('the batches of a request share a buffer, once a request before had messages as long', async () => {
  const { send } = scene();
  expect(await send(SHORT)).toBe(1);
  expect(await send(LONG)).toBe(TOPICS.length);
  expect(await send(LONG)).toBe(1);
  expect(await send(LONG)).toBe(1);
  expect(await send(SHORT)).toBe(1);
});
