/** Batches that a producer can make and that must not stop a partition: what stands behind them is decided. */
import { gzipSync } from 'node:zlib';
import type { ReferenceDocument } from '../../src/domain/reference';
import { makePool } from '../../src/ledger/connection';
import { applyReference } from '../../src/ledger/reference-store';
import { makeLogger } from '../../src/telemetry';
import { migratedDatabase, withClient } from '../support/ledger';
import {
  encodeBatch,
  encodeRecords,
  produceRaw,
  sealed,
  type TestBatch,
  type TestRecord,
} from '../support/record-batch';
import { freshTopic, kafkaBrokers } from '../support/servers';
import { drain, killWorkers } from '../support/worker';

const TEST_DEADLINE_MS = 120_000;
const MEBIBYTE = 1024 * 1024;
const GZIP = 1;

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

async function connect(databaseUrl: string, topic: string): Promise<void> {
  const document: ReferenceDocument = {
    operators: [
      {
        id: 'acme',
        active: true,
        connections: [{ id: 'acme-stream', transport: 'kafka', topic, brand: 'main' }],
        brands: [{ id: 'main', active: true, games: { deny: [] }, minBet: {} }],
        catalogue: [],
      },
    ],
  };
  const pool = makePool({ databaseUrl, maxConnections: 1, applicationName: 'test' }, makeLogger('silent'));
  await applyReference(pool, document, () => true);
  await pool.end();
}

afterEach(killWorkers);

it(
  'decides what stands behind a bomb, 300,000 tiny records, 100,000 headers and a 10 MiB record [S4] [S8]',
  async () => {
    const topic = await freshTopic('hostile', {
      partitions: 1,
      // The records are of 1970: with any retention, the broker deletes them when it next looks.
      config: { 'max.message.bytes': String(16 * MEBIBYTE), 'retention.ms': '-1' },
    });
    const [broker = ''] = kafkaBrokers();
    const send = (batch: TestBatch) => produceRaw(broker, topic, sealed(encodeBatch(batch)));
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

    const databaseUrl = await migratedDatabase();
    await connect(databaseUrl, topic);
    await drain(
      {
        DATABASE_URL: databaseUrl,
        KAFKA_BROKERS: broker,
        KAFKA_GROUP_ID: `group.${topic}`,
        DEAD_LETTER_TOPIC: `${topic}.dead-letter`,
      },
      TEST_DEADLINE_MS,
    );

    await withClient(databaseUrl, async (client) => {
      const { rows: decided } = await client.query(
        'select event_id from promo.verdicts order by source_offset',
      );
      expect(decided.map(({ event_id }) => event_id)).toEqual([
        'first',
        'behind the tiny ones',
        'behind the headers',
        'behind the bomb',
        'behind the large one',
      ]);
      const { rows } = await client.query('select * from promo.partitions');
      expect(rows).toMatchObject([
        {
          records_read: '300008',
          verdicts: '5',
          events_without_key: '300002',
          dead_letters: '1',
          redeliveries: '0',
        },
      ]);
    });
  },
  TEST_DEADLINE_MS,
);
