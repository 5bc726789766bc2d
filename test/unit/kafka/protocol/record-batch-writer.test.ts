import fc from 'fast-check';
import { Partitioners } from 'kafkajs';
import { chooserOf } from '../../../../src/kafka/partition-chooser';
import { crc32c } from '../../../../src/kafka/protocol/crc32c';
import {
  type Compressor,
  MessageEncoder,
  type OutgoingMessage,
  RecordBatch,
} from '../../../../src/kafka/protocol/record-batch-writer';
import { codecs, plainHeaders, readFetch, sealed } from '../../../support/record-batch';
import { anyCharacter } from '../../../support/texts';

const NOW = 1_760_000_000_123;

/** The same messages in a batch of the right capacity, and in one that has to grow. */
async function batchOf(messages: readonly OutgoingMessage[], compressor: Compressor | null = null) {
  const encoder = new MessageEncoder();
  const [roomy, narrow] = [new RecordBatch(100_000), new RecordBatch(0)];
  for (const message of messages) {
    roomy.add(encoder.encode(message));
    narrow.add(encoder.encode(message));
  }
  const batch = await roomy.take(NOW, compressor);
  expect((await narrow.take(NOW, compressor)).equals(batch)).toBe(true);
  return batch;
}

const bytesOf = (content: string | Buffer) => (typeof content === 'string' ? Buffer.from(content) : content);

/** The bytes that a reader gets. */
function asRead({ key, value, headers }: OutgoingMessage) {
  const bytes = (content: string | Buffer | null) => (content === null ? null : bytesOf(content));
  return {
    key: bytes(key),
    value: bytes(value),
    headers: [...headers].map(([name, each]) => [name, bytes(each)]),
  };
}

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
  it('is read as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 20 }), async (messages) => {
        const batch = await batchOf(messages);
        const { records } = await readFetch(batch);
        expect(
          records.map((record) => ({ key: record.key, value: record.value, headers: plainHeaders(record) })),
        ).toEqual(messages.map(asRead));
        expect(records.map(({ offset }) => offset)).toEqual(messages.map((_, index) => index));
        expect(new Set(records.map(({ timestamp }) => timestamp))).toEqual(new Set([String(NOW)]));
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
    // Also around the length at which the length field grows.
    for (const size of [mebibyte, mebibyte + 1, 5 * mebibyte]) {
      const large = { key: 'k', value: Buffer.alloc(size, 'large '), headers: [] };
      const small = { key: null, value: 'small', headers: [] };
      const messages = [...Array(before).fill(large), small, ...Array(behind).fill(large)];
      const { records } = await readFetch(await batchOf(messages));
      expect(records.map(({ key, value }) => [key?.toString(), value?.toString()])).toEqual(
        messages.map(({ key, value }) => [key ?? undefined, value?.toString()]),
      );
    }
  });

  it('does not copy a large message', () => {
    const encoded = new MessageEncoder().encode({
      key: 'k',
      value: Buffer.alloc(5 * 1024 ** 2),
      headers: [],
    });
    const batch = new RecordBatch(100);
    batch.add(encoded);
    return expect(batch.take(NOW, null)).resolves.toHaveProperty('buffer', encoded.bytes.buffer);
  });

  it.each(Object.entries(codecs).map(([name, codec], index) => ({ name, codec, number: index + 1 })))(
    'is compressed with $name',
    async ({ codec, number }) => {
      const value = 'a verdict '.repeat(1_000);
      const messages = Array.from({ length: 50 }, () => ({ key: 'k', value, headers: [] }));
      const batch = await batchOf(messages, { codec: number, ...codec });
      const { records } = await readFetch(batch);
      expect(records.map((record) => record.value?.toString())).toEqual(messages.map(() => value));
    },
  );

  it('is sealed with the checksum that brokers check', async () => {
    expect(crc32c(Buffer.from('123456789'), 0)).toBe(0xe3069283);
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 3 }), async (messages) => {
        const batch = await batchOf(messages);
        expect(sealed(batch)).toEqual(batch);
      }),
    );
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

  it('is any partition with a leader where there is no key', () => {
    const choose = chooserOf(
      partitions.map((each) => ({ ...each, leader: each.partitionId % 2 === 0 ? 1 : -1 })),
    );
    expect(Array.from({ length: 8 }, () => choose(null))).toEqual([0, 2, 4, 6, 0, 2, 4, 6]);
  });
});
