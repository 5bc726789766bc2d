/** Any messages, also large ones, are read from a batch as they were written. Any key has its partition. */
import fc from 'fast-check';
import { Partitioners } from 'kafkajs';
import { chooserOf } from '../../src/kafka/partition-batches';
import { MessageEncoder, type OutgoingMessage } from '../../src/kafka/protocol/record-batch-writer';
import { readFetch, sealed } from '../support/record-batch';
import { anyCharacter } from '../support/texts';
import { asRead, asWritten, batchOf, bytesOf, WRITTEN_AT } from '../support/written-batch';

/** Texts around 64 and 8,192 bytes, where the length field grows. Some letters take more than one byte. */
const around = (units: Readonly<Record<string, number>>) =>
  fc
    .tuple(fc.constantFrom(...Object.entries(units)), fc.nat(70))
    .map(([[letter, length], more]) => letter.repeat(length + more));
const content = fc.oneof(
  { weight: 20, arbitrary: fc.string({ unit: anyCharacter }) },
  { weight: 20, arbitrary: fc.uint8Array().map((bytes) => Buffer.from(bytes)) },
  { weight: 20, arbitrary: around({ a: 10, ä: 5, '√': 2, '𝄞': 1 }) },
  { weight: 1, arbitrary: around({ a: 8_130, ä: 4_040, '√': 2_680, '𝄞': 2_010 }) },
);
const headerName = fc.oneof(fc.constant('h'), fc.string({ unit: anyCharacter }));
const message: fc.Arbitrary<OutgoingMessage> = fc.record({
  key: fc.option(content),
  value: fc.option(content),
  headers: fc.array(fc.tuple<[string, string | Buffer | null]>(headerName, fc.option(content)), {
    maxLength: 4,
  }),
});

describe('a record batch that is written', () => {
  it('is read as it was written, sealed with its checksum', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 20 }), async (messages) => {
        const batch = await batchOf(messages);
        expect(sealed(batch)).toEqual(batch);
        const { records } = await readFetch(batch);
        expect(records.map(asRead)).toEqual(messages.map(asWritten));
        expect(records.map(({ offset }) => offset)).toEqual(messages.map((_, index) => index));
        expect(new Set(records.map(({ timestamp }) => timestamp))).toEqual(new Set([String(WRITTEN_AT)]));
      }),
    );
  });

  it.each([
    [1, 0],
    [1, 1],
    [2, 0],
    [0, 1],
  ])('holds large messages, %d before and %d after a small one', async (before, behind) => {
    const mebibyte = 1024 ** 2;
    // On both sides of the length at which the length field grows.
    for (const size of [mebibyte - 1, mebibyte]) {
      const large = { key: 'k', value: Buffer.alloc(size, 'large '), headers: [] };
      const small = { key: null, value: 'small', headers: [] };
      const messages = [...Array(before).fill(large), small, ...Array(behind).fill(large)];
      const { records } = await readFetch(await batchOf(messages));
      expect(records.map(asRead)).toEqual(messages.map(asWritten));
    }
  });
});

describe('the partition of a key', () => {
  const partitions = Array.from({ length: 7 }, (_, partitionId) => ({ partitionId, leader: 1 }));

  it("is the one that kafkajs' producer, and with it a Java producer, chooses", () => {
    const choose = chooserOf(partitions);
    const theirs = Partitioners.DefaultPartitioner();
    const partitionMetadata = partitions.map((each) => ({
      ...each,
      partitionErrorCode: 0,
      replicas: [1],
      isr: [1],
    }));
    fc.assert(
      fc.property(content, (key) => {
        const expected = theirs({ topic: 't', partitionMetadata, message: { key, value: null } });
        expect(choose(bytesOf(key))).toBe(expected);
        const { bytes, keyFrom, keyTo } = new MessageEncoder().encode({ key, value: 'v', headers: [] });
        expect(choose(bytes, keyFrom ?? 0, keyTo)).toBe(expected);
      }),
      { numRuns: 1_000 },
    );
  });
});
