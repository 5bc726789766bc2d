/**
 * Batches that a producer can send and that must not stop a partition: the records after them are decided.
 */
import { gzipSync } from 'node:zlib';
import { anOperator } from '../support/builders';
import {
  encodeBatch,
  encodeRecords,
  produceRaw,
  type TestBatch,
  type TestRecord,
  varint,
} from '../support/record-batch';
import { connectionOf, inWorld, type WorldOptions } from './world';

const TEST_DEADLINE_MS = 300_000;
const MEBIBYTE = 1024 * 1024;
const GZIP = 1;
/** The records are from 1970: with any retention, the broker deletes them at its next check. */
const TOPIC = {
  partitions: 1,
  config: { 'max.message.bytes': String(16 * MEBIBYTE), 'retention.ms': '-1' },
};

const ONE_BRAND: WorldOptions<'main'> = {
  topics: { main: TOPIC },
  operators: ({ main }) => [anOperator({ connections: [connectionOf(main, { brand: 'main' })] })],
};

/** Limit of the heap. A worker has more on 768 MiB, the memory that the chart gives it. */
const HEAP_MIB = 300;
/** The decompressed size that a batch may have, less some space for the bytes around the value. */
const LARGE = 60 * MEBIBYTE;

const login = (eventId: string): TestRecord => ({
  value: Buffer.from(
    JSON.stringify({
      spec: 'promo.event.v1',
      event_id: eventId,
      player_ref: 'p-1',
      kind: 'login',
      occurred_at: '2026-11-21T12:00:00Z',
    }),
  ),
});

it(
  'decides the records behind a bomb, 300,000 tiny records, 100,000 headers and a 10 MiB record [S4] [S8]',
  () =>
    inWorld<'main'>(ONE_BRAND, async (world) => {
      const [broker = ''] = world.brokers;
      const send = (batch: TestBatch) => produceRaw(broker, world.topics.main, encodeBatch(batch));
      const compressed = (records: TestRecord[]): TestBatch => ({
        attributes: GZIP,
        records,
        body: gzipSync(encodeRecords(records)),
      });

      const tiny = Array.from({ length: 300_000 }, () => ({ value: Buffer.from('x') }));
      const headers = Array.from({ length: 100_000 }, (_, index): [string, Buffer] => [
        `h${index}`,
        Buffer.from('v'),
      ]);
      await send({ records: [login('first')] });
      await send(compressed(tiny));
      await send({ records: [login('behind the tiny ones')] });
      await send(compressed([{ value: Buffer.from('x'), headers }]));
      await send({ records: [login('behind the headers')] });
      await send(compressed([{ value: Buffer.alloc(100 * MEBIBYTE) }]));
      await send({ records: [login('behind the bomb')] });
      await send({ records: [{ value: Buffer.alloc(10 * MEBIBYTE, 'a') }, login('behind the large one')] });

      await world.drain({}, TEST_DEADLINE_MS);

      const decided = await world.rows('select event_id from promo.verdicts order by source_offset');
      expect(decided.flat()).toEqual([
        'first',
        'behind the tiny ones',
        'behind the headers',
        'behind the bomb',
        'behind the large one',
      ]);
      expect(await world.balance()).toEqual({
        records: 300_008,
        accepted: 5,
        events_without_key: 300_001,
        dead_letters: 2,
      });
      expect(await world.redeliveries()).toBe(0);
    }),
  TEST_DEADLINE_MS,
);

/** Values that compress to almost nothing, and take many times their size in memory. */
const INFLATING: Record<string, () => Buffer> = {
  'arrays beside one another': () => Buffer.from(`{"event_id":"e","x":[${'[],'.repeat(LARGE / 3)}0]}`),
  'objects beside one another': () => Buffer.from(`{"event_id":"e","x":[${'{},'.repeat(LARGE / 3)}0]}`),
  'arrays within one another': () => Buffer.alloc(LARGE, '['),
  'almost as many members as the limit allows': () =>
    Buffer.from(`{"event_id":"e","x":{${Array.from({ length: 900_000 }, (_, n) => `"k${n}":0`).join()}}}`),
};

it(
  'decides the records behind values and headers that take many times their size in memory [V3] [S8]',
  () =>
    inWorld<'main'>(
      {
        ...ONE_BRAND,
        settings: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
      },
      async (world) => {
        const [broker = ''] = world.brokers;
        const send = (batch: TestBatch) => produceRaw(broker, world.topics.main, encodeBatch(batch));
        const sendCompressed = (body: Buffer) =>
          send({ attributes: GZIP, count: 1, lastOffsetDelta: 0, body: gzipSync(body, { level: 1 }) });
        for (const value of Object.values(INFLATING))
          await sendCompressed(encodeRecords([{ value: value() }]));
        // Each header is an empty name without a value.
        const count = LARGE / 2;
        const record = Buffer.concat([
          Buffer.from([0, 0, 0]),
          varint(-1),
          varint(1),
          Buffer.from('x'),
          varint(count),
          Buffer.alloc(count * 2, Buffer.from([0, 1])),
        ]);
        await sendCompressed(Buffer.concat([varint(record.length), record]));
        await send({ records: [login('behind them')] });

        await world.drain({}, TEST_DEADLINE_MS);

        expect(await world.verdicts()).toEqual({ e: 'rejected/malformed', 'behind them': 'accepted' });
        expect(await world.balance()).toEqual({
          records: 6,
          accepted: 1,
          rejected: 1,
          events_without_key: 3,
          dead_letters: 1,
        });
      },
    ),
  TEST_DEADLINE_MS,
);
