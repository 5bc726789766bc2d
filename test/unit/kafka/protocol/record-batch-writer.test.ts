import { chooserOf } from '../../../../src/kafka/partition-batches';
import { crc32c } from '../../../../src/kafka/protocol/record-batch-layout';
import {
  MessageEncoder,
  type OutgoingMessage,
  RecordBatch,
} from '../../../../src/kafka/protocol/record-batch-writer';
import { codecs, readFetch, sealed } from '../../../support/record-batch';
import { asRead, asWritten, batchOf, WRITTEN_AT } from '../../../support/written-batch';

describe('a record batch that is written', () => {
  /** Lengths around which the field of a length grows by a byte: of a text, and of its whole record. */
  const LENGTHS = [0, 1, 50, 62, 63, 64, 65, 8_180, 8_190, 8_191, 8_192, 8_193];

  it.each(LENGTHS)('is read as it was written, with contents of about %i bytes', async (length) => {
    const contents = [
      ...['a', 'ä', '√', '𝄞'].map((letter) => letter.repeat(Math.ceil(length / Buffer.byteLength(letter)))),
      Buffer.alloc(length, 0xff),
      null,
    ];
    const messages = contents.flatMap((content): OutgoingMessage[] => [
      { key: content, value: 'v', headers: [] },
      { key: 'k', value: content, headers: [['h', content]] },
      {
        key: null,
        value: content,
        headers: [
          ['', content],
          [String(content ?? ''), 'x'],
          ['h', null],
        ],
      },
    ]);
    const { records } = await readFetch(await batchOf(messages));
    expect(records.map(asRead)).toEqual(messages.map(asWritten));
    expect(records.map(({ offset }) => offset)).toEqual(messages.map((_, index) => index));
    expect(new Set(records.map(({ timestamp }) => timestamp))).toEqual(new Set([String(WRITTEN_AT)]));
  });

  it('does not copy a large message', () => {
    const encoded = new MessageEncoder().encode({
      key: 'k',
      value: Buffer.alloc(5 * 1024 ** 2),
      headers: [],
    });
    const batch = new RecordBatch(100);
    batch.add(encoded);
    return expect(batch.take(WRITTEN_AT, null)).resolves.toHaveProperty('buffer', encoded.bytes.buffer);
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
    const batch = await batchOf([{ key: 'k', value: 'v', headers: [['h', 'x']] }]);
    expect(sealed(batch)).toEqual(batch);
  });
});

describe('the partition of a key', () => {
  const partitions = Array.from({ length: 7 }, (_, partitionId) => ({ partitionId, leader: 1 }));

  /** Hashes that the tests of Kafka's Java client list for murmur2. */
  it.each([
    ['21', -973_932_308],
    ['foobar', -790_332_482],
    ['a-little-bit-long-string', -985_981_536],
    ['a-little-bit-longer-string', -1_486_304_829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58_897_971],
    ['abc', 479_470_107],
  ])('%s is the one that a Java producer chooses', (key, hash) => {
    const expected = (hash & 0x7fff_ffff) % partitions.length;
    expect(chooserOf(partitions)(Buffer.from(key))).toBe(expected);
    const { bytes, keyFrom, keyTo } = new MessageEncoder().encode({ key, value: 'v', headers: [] });
    expect(chooserOf(partitions)(bytes, keyFrom ?? 0, keyTo)).toBe(expected);
  });

  it('is any partition with a leader where there is no key', () => {
    const choose = chooserOf(
      partitions.map((each) => ({ ...each, leader: each.partitionId % 2 === 0 ? 1 : -1 })),
    );
    expect(Array.from({ length: 8 }, () => choose(null))).toEqual([0, 2, 4, 6, 0, 2, 4, 6]);
  });
});
