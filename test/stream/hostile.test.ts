/**
 * A running worker that receives arbitrary records among good events. No record stops a partition, and each
 * ends in a verdict or a dead letter. Memory stays within the limit of the process. FUZZ_RUNS=1000000 sends a
 * million records; a failure prints the seed.
 */
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { CompressionTypes } from 'kafkajs';
import { inRun } from '../../dev/long-run';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { aBet, aLogin, anOperator, bytesOf } from '../support/builders';
import { damaged, mutatedEvent, weighted } from '../support/event-texts';
import { hostileBytes, hostileJson } from '../support/hostile';
import { endOffsets, type Outgoing, produce } from '../support/kafka';
import { encodeBatch, encodeRecords, produceRaw } from '../support/record-batch';
import { schemaRegistryUrl, withAdmin } from '../support/servers';
import { anyCharacter } from '../support/texts';
import { framed, TestRegistry } from './registry';
import { connectionOf, inWorld } from './world';

const RUNS = inRun({ usual: 2_000, long: 4_000, variable: 'FUZZ_RUNS' });
/** Records are drawn and sent in rounds of this size, each with a seed of its own. */
const ROUND = 2_000;
const DEADLINE_MS = 90_000 + RUNS * 10;
/** The number of the codec in a batch's attributes. */
const GZIP = 1;
const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;
const PARTITIONS = 3;
/** Limit of JavaScript's memory, as a deployment would set it. A worker that exceeds it ends. */
const HEAP_MIB = 160;
/** Limit including the memory outside of the heap: raw records, code, stacks. */
const PEAK_MIB = 512;

interface Schemas {
  readonly json: number;
  readonly avro: number;
}

const claim = { 'connection-id': 'one' };
const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((each) => Buffer.from(each));

const values = ({ json, avro }: Schemas): fc.Arbitrary<Buffer | null> => {
  const structure = hostileJson.map((text) => Buffer.from(text));
  return weighted<Buffer | null>(
    [4, hostileBytes],
    [3, structure],
    [3, mutatedEvent],
    [2, damaged(mutatedEvent, 2)],
    [2, weighted([1, structure], [1, mutatedEvent], [1, bytes(80)]).map((payload) => framed(json, payload))],
    [2, bytes(120).map((payload) => framed(avro, payload))],
    // Unknown ids, including ids that no registry can assign.
    [1, fc.tuple(fc.nat(200), bytes(20)).map(([id, payload]) => framed(2 ** 31 - 100 + id, payload))],
    [1, fc.constant(null)],
  );
};

const keys = weighted<Buffer | null>(
  [3, fc.constant(null)],
  [2, bytes(20)],
  [1, fc.constant(Buffer.alloc(40_000, 7))],
);
const headers: fc.Arbitrary<NonNullable<Outgoing['headers']>> = weighted<NonNullable<Outgoing['headers']>>(
  [4, fc.constant({})],
  [3, fc.constant(claim)],
  [1, fc.constant({ 'connection-id': ['one', 'two'] })],
  [1, bytes(30).map((name) => ({ 'connection-id': name }))],
  [2, fc.dictionary(fc.string({ unit: anyCharacter, maxLength: 12 }), bytes(30), { maxKeys: 8 })],
  [1, fc.constant(Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`h${n}`, 'v'])))],
);

const goodEvents: string[] = [];
function aGoodOne(schemas: Schemas, partition: number): Outgoing {
  const event_id = `good-${goodEvents.length}`;
  goodEvents.push(event_id);
  const value = bytesOf(aLogin({ event_id }));
  const isFramed = goodEvents.length % 3 === 0;
  return { value: isFramed ? framed(schemas.json, value) : value, headers: claim, partition };
}

/** Drawn records, with a good one after every fourth. */
function aRound(schemas: Schemas, seed: number, count: number): Outgoing[] {
  const record = fc.record({
    value: values(schemas),
    key: keys,
    headers,
    partition: fc.nat(PARTITIONS - 1),
  });
  return fc
    .sample(record, { seed, numRuns: count })
    .flatMap((drawn, index) => (index % 4 === 3 ? [drawn, aGoodOne(schemas, drawn.partition)] : [drawn]));
}

/** Records that are too rare to be drawn, or too large. */
function giants(schemas: Schemas): Outgoing[] {
  const event = (more: object) => bytesOf(aBet({ event_id: `giant-${Math.random()}`, ...more }));
  const many = Array.from({ length: 100_000 }, (_, n) => [`k${n}`, n] as const);
  const large: Outgoing[] = [
    { value: '['.repeat(2 * MEBIBYTE) },
    { value: `{"event_id":"deep","more":${'['.repeat(MEBIBYTE)}${']'.repeat(MEBIBYTE)}}` },
    { value: event(Object.fromEntries(many)) },
    { value: event({ player_ref: '\ud83c\udfb0'.repeat(500_000) }) },
    { value: event({ amount: '9'.repeat(2 * MEBIBYTE) }) },
    // Its verdict contains the id twice, and exceeds the default size limit of topics.
    { value: event({ event_id: `long-${'x'.repeat(700 * KIBIBYTE)}` }) },
    { value: framed(schemas.avro, Buffer.alloc(2 * MEBIBYTE, 0xff)) },
    { value: Buffer.alloc(5 * MEBIBYTE), key: Buffer.alloc(500 * KIBIBYTE, 1) },
    // A record without an owner, as large as the topic takes. Its dead letter is larger, because it names the
    // source.
    { value: Buffer.alloc(MEBIBYTE - 200, 1), headers: { 'connection-id': 'nobody' } },
    { value: 'x', headers: { 'connection-id': 'n'.repeat(700 * KIBIBYTE) } },
    ...[999, 5_000].map((count) => ({
      value: 'x',
      headers: Object.fromEntries(Array.from({ length: count }, (_, n) => [`h${n}`, 'v'])),
    })),
    // Many different schemas that the registry does not know: looking them up one by one would take minutes.
    ...Array.from({ length: 500 }, (_, n) => ({ value: framed(1_500_000_000 + n, 'x') })),
  ];
  return large.map((record, index) => ({ headers: claim, ...record, partition: index % PARTITIONS }));
}

it(
  'hostile records: no partition stops, every good event is decided, and memory is bounded [S2 S3 S4 S5 V3 D3]',
  () =>
    inWorld(
      {
        topics: {
          main: { partitions: PARTITIONS, config: { 'max.message.bytes': String(16 * MEBIBYTE) } },
          shared: { partitions: PARTITIONS, config: { 'max.message.bytes': String(16 * MEBIBYTE) } },
        },
        operators: ({ main, shared }) => [
          anOperator({
            connections: [
              connectionOf(main),
              connectionOf(shared, { id: 'one' }),
              connectionOf(shared, { id: 'two' }),
            ],
          }),
        ],
        settings: {
          SCHEMA_REGISTRY_URL: schemaRegistryUrl(),
          NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}`,
        },
      },
      async (world) => {
        const { main, shared } = world.topics;
        const verdictTopic = `${main}.verdicts`;
        const registry = new TestRegistry(schemaRegistryUrl());
        const schemas = { json: await registry.jsonSchema(), avro: await registry.avroSchema() };
        const worker = await world.started({ VERDICT_TOPIC: verdictTopic });
        const seed = Date.now() % 1_000_000_000;
        try {
          for (let sent = 0; sent < RUNS; sent += ROUND) {
            const records = aRound(schemas, seed + sent, Math.min(ROUND, RUNS - sent));
            await produce(sent % (2 * ROUND) === 0 ? main : shared, records);
          }
          const compression = CompressionTypes.GZIP;
          for (const topic of [main, shared]) {
            const records = giants(schemas);
            for (const record of records.slice(0, -500)) await produce(topic, [record]);
            await produce(topic, records.slice(-500));
            await produce(topic, [{ value: Buffer.alloc(30 * MEBIBYTE) }], { compression });
            await produce(
              topic,
              [0, 1, 2].map((partition) => aGoodOne(schemas, partition)),
            );
          }
          for (const topic of [main, shared]) {
            const ends = (await world.ends(topic)).join();
            await until(`${topic} is decided`, DEADLINE_MS, async () => {
              if (worker.hasEnded()) throw new Error('the worker has ended');
              return (await world.committed(topic)).join() === ends;
            });
          }

          const verdicts = await world.verdicts();
          expect(goodEvents.filter((id) => verdicts[id] !== 'accepted')).toEqual([]);
          const { records = 0, dead_letters = 0, ...became } = await world.balance();
          const sumOf = async (topic: string) => (await endOffsets(topic)).reduce((sum, end) => sum + end, 0);
          expect(records).toBe((await sumOf(main)) + (await sumOf(shared)));
          expect(Object.values(became).reduce((sum, count) => sum + count, dead_letters)).toBe(records);
          expect(await sumOf(world.deadLetterTopic)).toBe(dead_letters);
          expect(await sumOf(verdictTopic)).toBe(records - dead_letters);
          expect(dead_letters).toBeGreaterThan(0);
          expect(await worker.metric('promo_intake_undecided_partitions')).toBe(0);
          expect((await worker.get('/livez')).status).toBe(200);
          expect(worker.peakMib()).toBeLessThanOrEqual(PEAK_MIB);
          if (process.env.FUZZ_RUNS !== undefined)
            console.log({ seed, records, dead_letters, ...became, peakMib: worker.peakMib() });
          expect(await worker.stop()).toEqual({ code: 0, signal: null });
        } catch (error) {
          if (error instanceof Error) error.message += `\n(seed ${seed})`;
          throw error;
        } finally {
          await worker.kill();
          await withAdmin((admin) => deleteTopics(admin, [verdictTopic]));
        }
      },
    ),
  2 * DEADLINE_MS,
);

it(
  'batches that decompress to 44 MiB, on more partitions than may hold that much at once: memory is bounded, and all records are decided',
  () => {
    const partitions = 14;
    const each = 704;
    return inWorld(
      { topics: { main: partitions }, settings: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` } },
      async (world) => {
        const records = Array.from({ length: each }, () => ({ value: Buffer.alloc(64 * KIBIBYTE) }));
        const body = gzipSync(encodeRecords(records));
        const large = encodeBatch({ attributes: GZIP, body, count: each, lastOffsetDelta: each - 1 });
        const [broker = ''] = world.brokers;
        for (let partition = 0; partition < partitions; partition++) {
          await produceRaw(broker, world.topics.main, large, partition);
          const value = bytesOf(aLogin({ event_id: `last-${partition}` }));
          await produce(world.topics.main, [{ value, partition }]);
        }
        const worker = await world.started();
        await world.untilDecided(partitions, DEADLINE_MS);
        expect(await world.balance()).toEqual({
          records: (each + 1) * partitions,
          accepted: partitions,
          events_without_key: each * partitions,
        });
        expect(worker.peakMib()).toBeLessThanOrEqual(PEAK_MIB);
        await worker.stop();
      },
    );
  },
  DEADLINE_MS + 60_000,
);

it(
  'unclaimed compressed records of 60 MiB on each partition: memory is bounded while their dead letters are sent',
  () => {
    const partitions = 4;
    return inWorld(
      {
        topics: { main: partitions },
        operators: ({ main }) => [
          anOperator({
            connections: [connectionOf(main, { id: 'one' }), connectionOf(main, { id: 'two' })],
          }),
        ],
        settings: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
      },
      async (world) => {
        const body = gzipSync(encodeRecords([{ value: Buffer.alloc(60 * MEBIBYTE) }]));
        const large = encodeBatch({ attributes: GZIP, body, count: 1, lastOffsetDelta: 0 });
        const [broker = ''] = world.brokers;
        for (let partition = 0; partition < partitions; partition++) {
          await produceRaw(broker, world.topics.main, large, partition);
          const login = bytesOf(aLogin({ event_id: `last-${partition}` }));
          await produce(world.topics.main, [{ value: login, partition, headers: claim }]);
        }
        const worker = await world.started();
        await world.untilDecided(partitions, DEADLINE_MS);
        expect(await world.balance()).toEqual({
          records: 2 * partitions,
          accepted: partitions,
          dead_letters: partitions,
        });
        expect(worker.peakMib()).toBeLessThanOrEqual(PEAK_MIB);
        await worker.stop();
      },
    );
  },
  DEADLINE_MS + 60_000,
);
