import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { DecompressionError, inflate } from '../../../../src/kafka/protocol/compression';
import { Fetched } from '../../../../src/kafka/protocol/record-batch-reader';
import { collectGarbage } from '../../../support/garbage';
import {
  codecs,
  encodeBatch,
  encodeOldMessage,
  encodeRecords,
  type OldTestMessage,
  plainHeaders,
  plainRecord,
  readFetch,
  type TestBatch,
  type TestRecord,
} from '../../../support/record-batch';

const text = (value: string) => Buffer.from(value);
const TRANSACTIONAL = 0x10;
const CONTROL = 0x20;
const endOf = (producerId: bigint, firstOffset: number, type: 'abort' | 'commit'): TestBatch => ({
  firstOffset,
  producerId,
  attributes: TRANSACTIONAL | CONTROL,
  records: [{ key: Buffer.from([0, 0, 0, type === 'abort' ? 0 : 1]), value: Buffer.alloc(6) }],
});

describe('record batches', () => {
  it('give the offset, timestamp, key, value and headers of each record', async () => {
    const { records, lastOffset } = await readFetch(
      encodeBatch({
        firstOffset: 40,
        records: [
          { key: text('k'), value: text('v'), headers: [['a', text('1')]], timestampDelta: 5n },
          { key: null, value: null },
          {
            value: text(''),
            headers: [
              ['b', text('1')],
              ['7', null],
              ['a', text('2')],
              ['b', text('3')],
            ],
          },
        ],
      }),
    );
    expect(lastOffset).toBe(42);
    expect(records.map(plainRecord)).toEqual([
      { offset: 40, timestamp: '1005', key: text('k'), value: text('v'), headers: [['a', text('1')]] },
      { offset: 41, timestamp: '1000', key: null, value: null, headers: [] },
      {
        offset: 42,
        timestamp: '1000',
        key: null,
        value: text(''),
        headers: [
          ['b', text('1')],
          ['7', null],
          ['a', text('2')],
          ['b', text('3')],
        ],
      },
    ]);
  });

  it('give the timestamp as a number, whatever its distance to the first of the batch', async () => {
    const deltas = [0n, 5n, -7n, 2n ** 27n, -(2n ** 27n), 2n ** 27n - 1n, 2n ** 40n, -1000n];
    const records = deltas.map((timestampDelta) => ({ value: text('v'), timestampDelta }));
    const { records: read } = await readFetch(encodeBatch({ firstOffset: 0, records }));
    expect(read.map(({ sentAtMs }) => sentAtMs)).toEqual(read.map(({ timestamp }) => Number(timestamp)));
    expect(read.map(({ sentAtMs }) => sentAtMs)).toEqual(deltas.map((delta) => 1_000 + Number(delta)));
  });

  it.each<[string, NonNullable<TestRecord['headers']>, string[]]>([
    ['no header', [], []],
    [
      'another header',
      [
        ['Connection-Id', text('a')],
        ['other', text('b')],
      ],
      [],
    ],
    ['one', [['connection-id', text('acme-stream')]], ['acme-stream']],
    ['an empty one', [['connection-id', text('')]], ['']],
    ['one without a value', [['connection-id', null]], ['']],
    ['several', ['a', 'b', 'a'].map((id) => ['connection-id', text(id)]), ['a', 'b', 'a']],
    ['one that is not UTF-8', [['connection-id', Buffer.from([0xff, 0x61])]], ['\ufffda']],
  ])('have the claims of their headers: %s [C5]', async (_, headers, claims) => {
    const { records } = await readFetch(encodeBatch({ records: [{ headers }] }));
    expect(records.map((record) => record.claims)).toEqual([claims]);
  });

  it('have the time of the append where the topic is set to it', async () => {
    const { records } = await readFetch(
      encodeBatch({ attributes: 0x08, maxTimestamp: 77n, records: [{ timestampDelta: 5n }] }),
    );
    expect(records[0]?.timestamp).toBe('77');
  });

  it('keep timestamps exact that a number cannot hold', async () => {
    const firstTimestamp = 9_223_372_036_854_775_000n;
    const { records } = await readFetch(encodeBatch({ firstTimestamp, records: [{ timestampDelta: 7n }] }));
    expect(records[0]?.timestamp).toBe('9223372036854775007');
    const justBeyond = await readFetch(
      encodeBatch({ firstTimestamp: 2n ** 53n - 1n, records: [{}, { timestampDelta: 2n }] }),
    );
    expect(justBeyond.records.map(({ timestamp }) => timestamp)).toEqual([
      '9007199254740991',
      '9007199254740993',
    ]);
  });

  it('may have a timestamp that is missing, before 1970, or earlier than the first of the batch', async () => {
    const times = async (firstTimestamp: bigint, ...deltas: bigint[]) => {
      const records = deltas.map((timestampDelta) => ({ timestampDelta }));
      return (await readFetch(encodeBatch({ firstTimestamp, records }))).records.map(
        ({ timestamp }) => timestamp,
      );
    };
    expect(await times(-1n, 0n)).toEqual(['-1']);
    expect(await times(5n, -6n, -5n, 1n)).toEqual(['-1', '0', '6']);
  });

  it('read key and timestamp of a record from its own bytes, in any order and any number of times', async () => {
    const keys = [text('a'), null, text(''), text('k'.repeat(300)), text('z')];
    const { records } = await readFetch(
      encodeBatch({
        records: keys.map((key, index) => ({
          key,
          value: text(`v${index}`),
          timestampDelta: BigInt(index),
          headers: [['h', text(`${index}`)]],
        })),
      }),
    );
    for (const index of [4, 0, 3, 3, 1, 2, 4]) {
      expect(records[index]?.key).toEqual(keys[index]);
      expect(records[index]?.timestamp).toBe(String(1000 + index));
      expect(records[index]?.value).toEqual(text(`v${index}`));
      expect(records[index] && plainHeaders(records[index])).toEqual([['h', text(`${index}`)]]);
    }
  });

  it('with any flipped bit are one undecodable record [S4]', async () => {
    const records = [{ value: text('10.50') }, { value: text('9') }];
    const whole = encodeBatch({ firstOffset: 7, records });
    for (let bit = 8 * 17; bit < 8 * whole.length; bit++) {
      const bytes = Buffer.from(whole);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      const read = (await readFetch(bytes)).records;
      expect(read.map(({ offset, undecodable }) => [offset, undecodable])).toEqual([
        [7, 'its checksum does not match its bytes'],
      ]);
    }
  });

  it('leave a last batch that was cut off for the next fetch', async () => {
    const whole = encodeBatch({ records: [{ value: text('a') }] });
    const cut = encodeBatch({ firstOffset: 1, records: [{ value: text('b') }] });
    for (let length = 0; length < cut.length; length++) {
      const { records, lastOffset } = await readFetch(Buffer.concat([whole, cut.subarray(0, length)]));
      expect(records.map(({ offset }) => offset)).toEqual([0]);
      expect(lastOffset).toBe(0);
    }
  });

  it('leave out records before the requested offset', async () => {
    const bytes = encodeBatch({ records: [{}, {}, {}] });
    expect((await readFetch(bytes, [], 2)).records.map(({ offset }) => offset)).toEqual([2]);
  });

  it('take the end of a batch from its header, since compaction may have removed its last records', async () => {
    const { records, lastOffset } = await readFetch(encodeBatch({ lastOffsetDelta: 9, records: [{}, {}] }));
    expect(records).toHaveLength(2);
    expect(lastOffset).toBe(9);
  });

  it.each([
    [1, 'gzip'],
    [2, 'snappy'],
    [3, 'lz4'],
    [4, 'zstd'],
  ] as const)('reads codec %d, %s', async (number, name) => {
    const records: TestRecord[] = [{ value: text('x'.repeat(1000)) }, { value: text('y') }];
    const body = await codecs[name].compress({ buffer: encodeRecords(records) });
    const answer = await readFetch(encodeBatch({ attributes: number, records, body }));
    expect(answer.records.map(({ value }) => value?.length)).toEqual([1000, 1]);
  });

  it('of any content are read as they were written', async () => {
    const bytes = fc.option(fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)));
    const record = fc.record({
      key: bytes,
      value: bytes,
      timestampDelta: fc.bigInt({ min: -(2n ** 40n), max: 2n ** 40n }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(record, { maxLength: 20 }), fc.nat(1e9), async (written, firstOffset) => {
        const { records } = await readFetch(encodeBatch({ firstOffset, records: written }));
        expect(records.map(({ key, value }) => ({ key, value }))).toEqual(
          written.map(({ key, value }) => ({ key, value })),
        );
        expect(records.map(({ timestamp }) => BigInt(timestamp) - 1000n)).toEqual(
          written.map((r) => r.timestampDelta),
        );
        expect(records.map(({ offset }) => offset)).toEqual(written.map((_, index) => firstOffset + index));
      }),
    );
  });
});

describe('transactions', () => {
  const of = (
    producerId: bigint,
    firstOffset: number,
    value: string,
    key: Buffer | null = null,
  ): TestBatch => ({
    firstOffset,
    producerId,
    attributes: TRANSACTIONAL,
    records: [{ key, value: text(value) }],
  });
  const stream = (...batches: TestBatch[]) => Buffer.concat(batches.map(encodeBatch));
  const values = (records: { value: Buffer | null }[]) => records.map(({ value }) => value?.toString());

  it('hide markers, and count them in the last offset', async () => {
    const { records, lastOffset } = await readFetch(stream(of(1n, 0, 'a'), endOf(1n, 1, 'commit')));
    expect(values(records)).toEqual(['a']);
    expect(lastOffset).toBe(1);
  });

  it('hide the records of an aborted transaction, and only those', async () => {
    const bytes = stream(
      of(1n, 0, 'kept'),
      of(2n, 1, 'aborted'),
      of(1n, 2, 'kept too'),
      endOf(2n, 3, 'abort'),
      endOf(1n, 4, 'commit'),
      of(2n, 5, 'later'),
    );
    const { records } = await readFetch(bytes, [{ producerId: 2n, firstOffset: 1 }]);
    expect(values(records)).toEqual(['kept', 'kept too', 'later']);
  });

  it('show a record whose key is four zero bytes, like that of a marker', async () => {
    const bytes = stream(
      of(2n, 0, 'aborted', Buffer.alloc(4)),
      of(2n, 1, 'aborted too'),
      endOf(2n, 2, 'abort'),
    );
    expect((await readFetch(bytes, [{ producerId: 2n, firstOffset: 0 }])).records).toEqual([]);
  });

  it('of several producers may be aborted side by side', async () => {
    const bytes = stream(
      of(1n, 0, 'a1'),
      of(2n, 1, 'b1'),
      endOf(1n, 2, 'abort'),
      of(1n, 3, 'a2'),
      endOf(2n, 4, 'abort'),
      endOf(1n, 5, 'commit'),
      of(2n, 6, 'b2'),
      endOf(2n, 7, 'abort'),
    );
    const aborted = [
      { producerId: 2n, firstOffset: 6 },
      { producerId: 1n, firstOffset: 0 },
      { producerId: 2n, firstOffset: 1 },
    ];
    expect(values((await readFetch(bytes, aborted)).records)).toEqual(['a2']);
  });
});

const expectUndecodable = async (batch: TestBatch, message: RegExp) => {
  const bytes = encodeBatch(batch);
  const after = encodeBatch({ firstOffset: 100, records: [{ value: text('next') }] });
  const { records, lastOffset } = await readFetch(Buffer.concat([bytes, after]));
  expect(records).toHaveLength(2);
  expect(records[0]).toMatchObject({
    offset: batch.firstOffset ?? 0,
    value: bytes,
    undecodable: expect.stringMatching(message),
    key: null,
    headers: [],
    timestamp: String(batch.maxTimestamp ?? 2000),
  });
  expect(records[1]?.undecodable).toBeUndefined();
  expect(records[1]?.value?.toString()).toBe('next');
  expect(lastOffset).toBe(100);
};

describe('a batch that cannot be read', () => {
  it('becomes one record that holds all its bytes, and the next batch is read', async () => {
    await expectUndecodable(
      { attributes: 1, firstOffset: 7, lastOffsetDelta: 3, count: 4, body: text('no gzip') },
      /gzip/,
    );
  });

  it('decompresses to more than the limit', async () => {
    await expectUndecodable(
      { attributes: 1, count: 1, body: gzipSync(Buffer.alloc(8 * 1024 * 1024)) },
      /1048576/,
    );
  });

  it('has records whose offsets do not rise, or are not its own', async () => {
    const withDeltas = (...deltas: number[]): TestBatch => ({
      lastOffsetDelta: 3,
      records: deltas.map((offsetDelta) => ({ offsetDelta })),
    });
    for (const deltas of [
      [0, 0],
      [1, 0],
      [-1, 0],
      [0, 4],
    ])
      await expectUndecodable(withDeltas(...deltas), /offset is not of its batch/);
    expect((await readFetch(encodeBatch(withDeltas(0, 2, 3)))).records.map(({ offset }) => offset)).toEqual([
      0, 2, 3,
    ]);
  });

  it('may be a marker, which ends the aborted transaction of its producer all the same', async () => {
    const marker = { attributes: TRANSACTIONAL | CONTROL, producerId: 1n, count: 1, body: text('') };
    await expectUndecodable(marker, /do not fit/);
    const bytes = [
      encodeBatch({ attributes: TRANSACTIONAL, producerId: 1n, records: [{ value: text('aborted') }] }),
      encodeBatch({ ...marker, firstOffset: 1 }),
      encodeBatch({
        attributes: TRANSACTIONAL,
        producerId: 1n,
        firstOffset: 2,
        records: [{ value: text('committed') }],
      }),
    ];
    const { records } = await readFetch(Buffer.concat(bytes), [{ producerId: 1n, firstOffset: 0 }]);
    expect(records.map(({ offset }) => offset)).toEqual([1, 2]);
    expect([records[0]?.undecodable, records[1]?.value?.toString()]).toEqual([
      expect.stringMatching(/do not fit/),
      'committed',
    ]);
  });

  describe('with a damaged header', () => {
    /** Ten records from offset 100 on. Their header was changed after the checksum: other offsets. */
    const damaged = (lastOffsetDelta: number, count = 10) => {
      const bytes = encodeBatch({ firstOffset: 100, records: Array.from({ length: 10 }, () => ({})) });
      bytes.writeInt32BE(lastOffsetDelta, 23);
      bytes.writeInt32BE(count, 57);
      return bytes;
    };
    const good = (firstOffset: number) => encodeBatch({ firstOffset, records: [{ value: text('good') }] });
    const read = async (...batches: Buffer[]) => {
      const { records, lastOffset } = await readFetch(Buffer.concat(batches), [], 90);
      return [
        ...records.map(({ offset, undecodable }) => (undecodable ? `(${offset})` : offset)),
        `to ${lastOffset}`,
      ];
    };
    const DELTAS = [0, 14, -1_000, 2 ** 31 - 1];

    it.each(DELTAS)('ends where the next batch begins, and not after %i', async (delta) => {
      expect(await read(damaged(delta), good(110), good(111))).toEqual(['(100)', 110, 111, 'to 111']);
    });

    it.each(DELTAS)('is left for the next fetch where it comes last, and claims %i', async (delta) => {
      expect(await read(good(99), damaged(delta))).toEqual([99, 'to 99']);
    });

    it('skips no record where it comes alone', async () => {
      expect(await read(damaged(14))).toEqual(['(100)', 'to 109']);
      expect(await read(damaged(2 ** 31 - 1))).toEqual(['(100)', 'to 109']);
      expect(await read(damaged(-1_000))).toEqual(['(100)', 'to 100']);
      expect(await read(damaged(9, 1_000))).toEqual(['(100)', 'to 109']);
      expect(await read(damaged(9, -1))).toEqual(['(100)', 'to 100']);
    });

    it('does not begin an aborted transaction that begins behind it', async () => {
      const of = (firstOffset: number, producerId: bigint) =>
        encodeBatch({ attributes: TRANSACTIONAL, producerId, firstOffset, records: [{ value: text('x') }] });
      const bytes = Buffer.concat([damaged(30), of(110, 1n), of(111, 1n)]);
      const { records } = await readFetch(bytes, [{ producerId: 1n, firstOffset: 111 }], 90);
      expect(records.map(({ offset }) => offset)).toEqual([100, 110]);
    });
  });

  it('of an aborted transaction does not keep its fetch in memory [U3]', async () => {
    const bytes = encodeBatch({ attributes: TRANSACTIONAL, producerId: 1n, records: [{ value: text('x') }] });
    const open = () => {
      const fetched = new Fetched(bytes, [{ producerId: 1n, firstOffset: 0 }], async (_, body) => body);
      return { chunks: fetched.chunksFrom(0), fetched: new WeakRef(fetched) };
    };
    const { chunks, fetched } = open();
    await collectGarbage();
    expect([chunks.length, fetched.deref()]).toEqual([1, undefined]);
  });

  it('has an unknown codec, another format, or more records than bytes', async () => {
    await expectUndecodable({ attributes: 6, count: 1, body: text('x') }, /codec 6/);
    await expectUndecodable({ magic: 3, count: 0 }, /format 3/);
    await expectUndecodable({ count: 2_000_000_000, body: text('x') }, /do not fit/);
  });
});

describe('a record of more than 1,000 headers', () => {
  const OURS = [
    'source-topic',
    'source-partition',
    'source-offset',
    'source-timestamp',
    'dead-letter-reason',
    'dead-letter-detail',
  ];
  const headers = (count: number, name = '') =>
    Array.from({ length: count }, (): [string, Buffer | null] => [name, null]);
  const read = async (records: TestRecord[]) =>
    (await readFetch(encodeBatch({ firstOffset: 5, records }))).records;

  it('is undecodable: its own bytes become one record, and the records beside it are read [S4]', async () => {
    const many: TestRecord = {
      key: text('k'),
      value: text('v'),
      headers: headers(1_001),
      timestampDelta: 7n,
    };
    const records = await read([{ value: text('before') }, many, { value: text('behind') }]);
    expect(
      records.map(({ offset, value, undecodable }) => [offset, undecodable ?? value?.toString()]),
    ).toEqual([
      [5, 'before'],
      [6, 'a record has more than 1000 headers'],
      [7, 'behind'],
    ]);
    const [, odd] = records;
    const whole = encodeRecords([{ ...many, offsetDelta: 1 }]);
    expect(odd).toMatchObject({ key: null, headers: [], claims: [], timestamp: '1007' });
    // After its length, which takes two bytes.
    expect(odd?.value).toEqual(whole.subarray(2));
    expect(odd?.size).toBe(whole.length - 2);
  });

  it('is a different record than one of 1,000, or one of 1,000 with the headers of a dead letter [S4 S5]', async () => {
    const ours = OURS.map((name): [string, Buffer | null] => [name, text('x')]);
    const replayed: [string, Buffer | null] = ['dead-letter-replayed', text('x')];
    const counts = async (...of: [string, Buffer | null][][]) =>
      (await read(of.map((each) => ({ headers: each })))).map((record) => [...record.headers].length);
    expect(
      await counts(headers(1_000), [...headers(1_000), replayed], [...headers(1_000), replayed, ...ours]),
    ).toEqual([1_000, 1_001, 1_007]);
    // The same number of other headers is too many. So are the headers of a dead letter given twice.
    expect(await counts(headers(1_007), headers(1_008, 'source-topic'))).toEqual([0, 0]);
  });

  it('is read no further than its own length', async () => {
    const end = encodeRecords([{ headers: headers(5_000) }]);
    const short = Buffer.concat([Buffer.from([14]), end.subarray(2, 9)]);
    await expectUndecodable({ count: 1, lastOffsetDelta: 0, body: short }, /ends beyond|does not end/);
    await expectUndecodable({ count: 1, lastOffsetDelta: 0, body: end.subarray(0, -1) }, /does not end/);
  });
});

describe('the size of a record', () => {
  it('counts all its bytes, and the memory that its headers take once they are read', async () => {
    const sizeOf = async (record: TestRecord) =>
      (await readFetch(encodeBatch({ records: [record] }))).records[0]?.size ?? 0;
    const none = await sizeOf({});
    expect(none).toBeLessThan(10);
    const lengths = 3;
    for (const part of [{ key: Buffer.alloc(5_000) }, { value: Buffer.alloc(5_000) }])
      expect((await sizeOf(part)) - none - 5_000).toBeLessThanOrEqual(lengths);
    const header = (await sizeOf({ headers: [['n'.repeat(3_000), Buffer.alloc(2_000)]] })) - none;
    expect(header).toBeGreaterThanOrEqual(5_100);
    const empty = await sizeOf({ headers: Array.from({ length: 900 }, (): [string, null] => ['', null]) });
    expect(empty - none).toBeGreaterThanOrEqual(900 * 102);
  });
});

describe('a message of an old format', () => {
  /** In the place of the last offset of a batch, these bits are no valid offset. */
  const timestamp = 0x7fff_ffff_ffff_ffffn;
  const messages: (OldTestMessage & { what: string })[] = [
    { what: 'the shortest', magic: 0, offset: 3, value: null },
    { what: 'a short one', magic: 0, offset: 4, key: text('k'), value: text('a') },
    { what: 'one with a timestamp', magic: 1, offset: 5, timestamp, value: text('b'.repeat(100)) },
    { what: 'one without', magic: 1, offset: 8, value: text('c') },
    // Its offset is that of the last message that it holds.
    { what: 'a compressed one', magic: 1, offset: 12, attributes: 1, timestamp: 7n, value: text('gzip') },
    { what: 'a long one', magic: 0, offset: 13, value: text('d'.repeat(500)) },
  ];
  const batch = encodeBatch({ firstOffset: 14, records: [{ value: text('next') }] });

  it('becomes one record that holds all its bytes, at its offset, and the next batch is read', async () => {
    const bytes = messages.map(encodeOldMessage);
    const { records, lastOffset } = await readFetch(Buffer.concat([...bytes, batch]));
    expect(lastOffset).toBe(14);
    expect(records.map(({ offset, timestamp, undecodable }) => [offset, timestamp, undecodable])).toEqual([
      [3, '-1', 'message format 0 is not supported'],
      [4, '-1', 'message format 0 is not supported'],
      [5, timestamp.toString(), 'message format 1 is not supported'],
      [8, '-1', 'message format 1 is not supported'],
      [12, '7', 'message format 1 is not supported'],
      [13, '-1', 'message format 0 is not supported'],
      [14, '1000', undefined],
    ]);
    expect(records.slice(0, -1).map(({ value }) => value)).toEqual(bytes);
    expect(records.at(-1)?.value?.toString()).toBe('next');
  });

  it.each(messages)('ends at its own offset where it comes alone: $what', async ({ what: _, ...message }) => {
    const { records, lastOffset } = await readFetch(encodeOldMessage(message));
    expect(records).toHaveLength(1);
    expect(lastOffset).toBe(message.offset);
  });

  it('is left for the next fetch where it was cut off', async () => {
    const [whole, cut] = [messages[2], messages[3]].map((message) => encodeOldMessage(message!));
    for (let length = 0; length < cut!.length; length++) {
      const { records, lastOffset } = await readFetch(Buffer.concat([whole!, cut!.subarray(0, length)]));
      expect(records.map(({ offset }) => offset)).toEqual([5]);
      expect(lastOffset).toBe(5);
    }
  });
});

describe('a batch that cannot be decompressed now', () => {
  const bytes = encodeBatch({ attributes: 1, records: [{ value: text('a') }], body: gzipSync(text('a')) });
  const failingWith = (error: Error) => readFetch(bytes, [], 0, async () => Promise.reject(error));
  const coded = (code: string) => Object.assign(new Error('failed'), { code });

  it.each([
    ['no memory for the decompressed bytes', new RangeError('Array buffer allocation failed')],
    ['the same, with the code of Node', coded('ERR_MEMORY_ALLOCATION_FAILED')],
    ['anything unknown', new Error('never seen')],
  ])('is not a damaged batch: %s', async (_, error) => {
    await expect(failingWith(error)).rejects.toBe(error);
  });

  it.each([
    ['Z_MEM_ERROR', false],
    ['ZSTD_error_memory_allocation', false],
    ['ERR_MEMORY_ALLOCATION_FAILED', false],
    ['ERR_ZLIB_INITIALIZATION_FAILED', false],
    ['Z_DATA_ERROR', true],
    ['Z_BUF_ERROR', true],
    ['ZSTD_error_corruption_detected', true],
    ['ZSTD_error_frameParameter_windowTooLarge', true],
  ])('differs from a damaged batch by the code of node:zlib: %s', async (code, isDamaged) => {
    const decode = async () => Promise.reject(coded(code));
    const error = await inflate('gzip', decode, bytes, 1, 1).catch((thrown: unknown) => thrown);
    expect(error instanceof DecompressionError).toBe(isDamaged);
    if (!isDamaged) expect(error).toMatchObject({ code });
  });

  it('leaves its turn: large batches are decompressed one at a time, and delay no small one', async () => {
    const mebibyte = 1024 ** 2;
    let [running, most] = [0, 0];
    let goOn: () => void = () => undefined;
    const mayEnd = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const large = async (_: Buffer, { maxOutputLength }: { maxOutputLength: number }) => {
      if (maxOutputLength < 64 * mebibyte) throw coded('ERR_BUFFER_TOO_LARGE');
      most = Math.max(most, ++running);
      await mayEnd;
      running--;
      return Buffer.alloc(1);
    };
    // Whether their bytes name that size, or not.
    const all = [1, 9 * mebibyte, 1].map((said) => inflate('gzip', large, bytes, 64 * mebibyte, said));
    const small = async () => Buffer.from('small');
    expect(String(await inflate('gzip', small, bytes, 64 * mebibyte, 1))).toBe('small');
    goOn();
    await Promise.all(all);
    expect(most).toBe(1);
  });
});
