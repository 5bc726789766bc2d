/**
 * From topic to verdict: records of every kind. One worker drains the topics, on a real Kafka, Postgres and
 * registry.
 */
import Ajv2020 from 'ajv/dist/2020';
import { CompressionTypes } from 'kafkajs';
import { VERDICT_SCHEMA } from '../../src/publishing/verdict-schema';
import { aBet, aBrand, aDeposit, aLogin, anOperator, bytesOf, without } from '../support/builders';
import {
  type Incoming,
  type Outgoing,
  openTransaction,
  produce,
  produceInTransaction,
  readTopic,
} from '../support/kafka';
import { schemaRegistryUrl } from '../support/servers';
import type { RunningCommand } from '../support/worker';
import { framed, TestRegistry } from './registry';
import { connectionOf, makeWorld, type World } from './world';

const MEBIBYTE = 1024 * 1024;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const BYTES = Buffer.from([0xff, 0x00, 0xfe, 0x41]);

type Topic = 'main' | 'codecs' | 'transactions' | 'big' | 'solo' | 'shared' | 'framed' | 'empty' | 'verdicts';
let world: World<Topic>;
let worker: RunningCommand;
let deadLetters: Incoming[];
let verdicts: Record<string, string>;
let published: Incoming[];
const schemas = { json: 0, avro: 0 };

const event = (event_id: string, more = {}): Outgoing => ({ value: bytesOf(aLogin({ event_id, ...more })) });
const on = (partition: number, record: Outgoing): Outgoing => ({ ...record, partition });
const claiming = (connection: string | string[], record: Outgoing): Outgoing => ({
  ...record,
  headers: { ...record.headers, 'connection-id': connection },
});

async function produceRecords(): Promise<void> {
  const { main, solo, shared } = world.topics;
  await produce(main, [
    event('plain'),
    { ...event('with-key'), key: 'k-1' },
    { ...event('null-key'), key: null },
    { value: null, key: 'tombstone' },
    { value: '' },
    { value: 'not json' },
    { value: bytesOf(without(aLogin(), 'event_id')) },
    { value: bytesOf(aDeposit({ event_id: 'resent' })) },
    { value: bytesOf(aDeposit({ event_id: 'resent' })) },
    { value: bytesOf(aDeposit({ event_id: 'resent', amount: '7.00' })) },
    { value: bytesOf(aBet({ event_id: 'zero', amount: '0' })) },
    { value: bytesOf(aBet({ event_id: 'nobody', player_ref: '' })) },
  ]);
  await Promise.all(
    Object.entries(CODECS).map(([name, compression], partition) =>
      produce(
        world.topics.codecs,
        [1, 2, 3].map((n) => on(partition, event(`${name}-${n}`))),
        { compression },
      ),
    ),
  );
  await produce(solo, [
    { value: bytesOf(without(aLogin({ event_id: 'solo' }), 'brand')) },
    claiming('bravo-shared', { value: bytesOf(without(aLogin({ event_id: 'solo-claiming' }), 'brand')) }),
  ]);
  await produce(shared, [
    claiming('acme-shared', event('claimed')),
    claiming('bravo-shared', event('claimed')),
    claiming(['acme-shared', 'acme-shared'], event('twice-equal')),
    event('no-claim'),
    claiming('nobody', event('unknown-claim')),
    claiming(['acme-shared', 'bravo-shared'], event('two-claims')),
    claiming('ACME-SHARED', event('other-case')),
    claiming(' acme-shared', event('with-space')),
    claiming('of-main', event('of-another-topic')),
    {
      ...claiming('nobody', { value: BYTES }),
      key: BYTES.subarray(1),
      headers: { 'connection-id': 'nobody', trace: ['a', 'b'], empty: '' },
      timestamp: '1700000000123',
    },
    { value: null, key: 'unclaimed-tombstone' },
    claiming('acme-shared', event('behind-the-unclaimed')),
  ]);
}

async function produceTransactions(): Promise<void> {
  const { transactions } = world.topics;
  await produceInTransaction(transactions, [event('committed-1'), event('committed-2')], 'commit');
  await produceInTransaction(transactions, [event('aborted-1'), event('aborted-2')], 'abort');
  await produce(transactions, [event('behind-aborted')]);
  // Two transactions at once, whose records alternate in the log.
  const [first, second] = [
    await openTransaction(transactions, [event('both-1')]),
    await openTransaction(transactions, [event('both-2')]),
  ];
  await produce(transactions, [event('between')]);
  await first.end('abort');
  await second.end('commit');
  // Four zero bytes are the key of an abort marker. As the key of a record they end no transaction.
  const third = await openTransaction(transactions, [
    { ...event('marker-like'), key: Buffer.alloc(4) },
    event('aborted-3'),
  ]);
  await third.end('abort');
  // Partition 1 holds only aborted records, partition 2 ends with them.
  await produceInTransaction(transactions, [on(1, event('aborted-4')), on(1, event('aborted-5'))], 'abort');
  await produce(transactions, [on(2, event('before-the-tail'))]);
  await produceInTransaction(transactions, [on(2, event('aborted-6'))], 'abort');
}

async function produceBig(): Promise<void> {
  const padded = (event_id: string, bytes: number) => event(event_id, { padding: 'x'.repeat(bytes) });
  await produce(world.topics.big, [padded('ten-mebibytes', 10 * MEBIBYTE)]);
  await produce(world.topics.big, [
    ...[1, 2, 3].map((n) => event(`small-before-${n}`)),
    padded('giant', 8 * MEBIBYTE),
    ...[1, 2, 3].map((n) => event(`small-behind-${n}`)),
  ]);
  await produce(world.topics.big, [padded('compressed', 10 * MEBIBYTE)], {
    compression: CompressionTypes.GZIP,
  });
}

async function produceFramed(): Promise<void> {
  const registry = new TestRegistry(schemaRegistryUrl());
  schemas.json = await registry.jsonSchema();
  schemas.avro = await registry.avroSchema();
  const asJson = (payload: unknown) => framed(schemas.json, JSON.stringify(payload));
  const asAvro = (payload: unknown) => registry.encode(schemas.avro, payload);
  await produce(world.topics.framed, [
    { value: asJson(aLogin({ event_id: 'json-schema' })) },
    { value: asJson({ event_id: 'json-incomplete' }) },
    { value: framed(schemas.json, 'no json') },
    { value: await asAvro(aDeposit({ event_id: 'avro' })) },
    { value: await asAvro(aLogin({ event_id: 'avro-nulls', amount: null, round_id: null, game: null })) },
    { value: await asAvro({ ...aDeposit({ event_id: 'avro-null-amount' }), amount: null }) },
    { value: Buffer.concat([await asAvro(aLogin()), BYTES]) },
    { value: framed(2_000_000_000, JSON.stringify(aLogin({ event_id: 'unknown-schema' }))) },
    { value: Buffer.from([0, 0, 0]) },
    { value: bytesOf(aLogin({ event_id: 'unframed' })) },
  ]);
}

beforeAll(async () => {
  world = await makeWorld<Topic>({
    topics: {
      main: 1,
      codecs: 5,
      transactions: 4,
      big: 1,
      solo: 1,
      shared: 1,
      framed: 1,
      empty: 3,
      verdicts: 1,
    },
    operators: (topics) => [
      anOperator({
        connections: [
          ...[topics.main, topics.codecs, topics.transactions, topics.big, topics.framed, topics.empty].map(
            (topic) => connectionOf(topic),
          ),
          connectionOf(topics.solo, { id: 'acme-solo', brand: 'main' }),
          connectionOf(topics.shared, { id: 'acme-shared' }),
        ],
      }),
      anOperator({
        id: 'bravo',
        connections: [connectionOf(topics.shared, { id: 'bravo-shared' })],
        brands: [aBrand()],
      }),
    ],
  });
  await Promise.all([produceRecords(), produceTransactions(), produceBig(), produceFramed()]);
  worker = await world.drain({
    SCHEMA_REGISTRY_URL: schemaRegistryUrl(),
    VERDICT_TOPIC: world.topics.verdicts,
  });
  [verdicts, deadLetters, published] = await Promise.all([
    world.verdicts(),
    readTopic(world.deadLetterTopic),
    readTopic(world.topics.verdicts),
  ]);
}, 300_000);
afterAll(async () => {
  try {
    await world?.expectSound();
  } finally {
    await world?.close();
  }
});

const decided = (...events: readonly string[]) => Object.fromEntries(events.map((id) => [id, verdicts[id]]));
const deadLettersOf = (topic: string) =>
  deadLetters.filter(({ headers }) => headers['source-topic']?.[0] === topic);
const eventIdOf = (value: Buffer | null): unknown => {
  const text = value?.toString() ?? '';
  return text.startsWith('{') ? JSON.parse(text).event_id : null;
};

describe('one record is one event', () => {
  it('a record with a key, with a null key or without one is decided the same [S1]', () => {
    expect(decided('plain', 'with-key', 'null-key')).toEqual({
      plain: 'accepted',
      'with-key': 'accepted',
      'null-key': 'accepted',
    });
  });

  it('a rejection or skip is a verdict like any other [V2 G1]', () => {
    expect(decided('zero', 'nobody')).toEqual({ zero: 'skipped/zero_amount', nobody: 'rejected/no_player' });
  });

  it('a tombstone, an empty value and a value that is no JSON have no key: counted, never stored [V3]', async () => {
    expect(await world.balance(world.topics.main)).toEqual({
      records: 12,
      accepted: 4,
      rejected: 1,
      skipped: 1,
      duplicate_deliveries: 2,
      events_without_key: 4,
    });
  });

  it('an event that comes again is a duplicate, whether its content is equal or not [V1 K4]', async () => {
    const deliveries = await world.rows(
      'select event_id, content_differs, source_offset from promo.deliveries where source_topic = $1 order by 3',
      [world.topics.main],
    );
    expect(deliveries).toEqual([
      ['resent', 'f', '8'],
      ['resent', 't', '9'],
    ]);
  });
});

describe('batches', () => {
  it.each(Object.keys(CODECS))('records of a batch compressed with %s are decided [S8]', (codec) => {
    expect(decided(`${codec}-1`, `${codec}-2`, `${codec}-3`)).toEqual({
      [`${codec}-1`]: 'accepted',
      [`${codec}-2`]: 'accepted',
      [`${codec}-3`]: 'accepted',
    });
  });

  it('a record of 10 MiB is decided, compressed or not', () => {
    expect(decided('ten-mebibytes', 'compressed')).toEqual({
      'ten-mebibytes': 'accepted',
      compressed: 'accepted',
    });
  });

  it('small records before and after a giant of the same batch are decided', () => {
    const events = ['giant', ...[1, 2, 3].flatMap((n) => [`small-before-${n}`, `small-behind-${n}`])];
    expect(events.map((id) => verdicts[id])).toEqual(events.map(() => 'accepted'));
  });
});

describe('transactions', () => {
  it('records of committed transactions are decided, also between other records and behind aborted ones', () => {
    const events = ['committed-1', 'committed-2', 'behind-aborted', 'both-2', 'between', 'before-the-tail'];
    expect(events.map((id) => verdicts[id])).toEqual(events.map(() => 'accepted'));
  });

  it('aborted records are never decided', () => {
    const aborted = [1, 2, 3, 4, 5, 6].map((n) => `aborted-${n}`);
    expect([...aborted, 'both-1', 'marker-like'].map((id) => verdicts[id])).toEqual(
      [...aborted, 'both-1', 'marker-like'].map(() => undefined),
    );
  });

  it('a drained group has committed up to the end of each partition, markers and aborted records included [U10]', async () => {
    const { transactions, empty } = world.topics;
    const ends = await world.ends(transactions);
    expect(ends).toEqual([expect.any(Number), 3, 3, 0]);
    expect(await world.committed(transactions)).toEqual(ends.map((end) => (end === 0 ? -1 : end)));
    expect(await world.committed(empty)).toEqual([-1, -1, -1]);
  });
});

describe('the connection of a record', () => {
  it('a topic that one connection names belongs to that connection, whatever the header claims [C4]', async () => {
    expect(decided('solo', 'solo-claiming')).toEqual({ solo: 'accepted', 'solo-claiming': 'accepted' });
    const rows = await world.rows(
      "select distinct connection_id, operator_id, brand from promo.verdicts where event_id like 'solo%'",
    );
    expect(rows).toEqual([['acme-solo', 'acme', 'main']]);
  });

  it('on a shared topic the header connection-id names the connection, once or twice with equal values [C5]', async () => {
    const rows = await world.rows(
      "select event_id, connection_id, operator_id from promo.verdicts where connection_id like '%-shared' order by 2, 1",
    );
    expect(rows).toEqual([
      ['behind-the-unclaimed', 'acme-shared', 'acme'],
      ['claimed', 'acme-shared', 'acme'],
      ['twice-equal', 'acme-shared', 'acme'],
      ['claimed', 'bravo-shared', 'bravo'],
    ]);
  });

  it('a record is a dead letter if its header is missing, unknown, contradictory or inexact [C5 S4]', () => {
    const letters = deadLettersOf(world.topics.shared);
    expect(letters.map(({ value }) => eventIdOf(value))).toEqual([
      ...[
        'no-claim',
        'unknown-claim',
        'two-claims',
        'other-case',
        'with-space',
        'of-another-topic',
        null,
        null,
      ],
    ]);
    expect(new Set(letters.map(({ headers }) => headers['dead-letter-reason']?.[0]))).toEqual(
      new Set(['unclaimed']),
    );
  });

  it('a dead letter has the record’s bytes, key and headers, and its coordinates [S5]', () => {
    const letter = deadLettersOf(world.topics.shared).find(({ value }) => value?.equals(BYTES));
    expect(letter).toEqual({
      partition: expect.any(Number),
      offset: expect.any(Number),
      timestamp: expect.any(String),
      key: BYTES.subarray(1).toString(),
      value: BYTES,
      headers: {
        'connection-id': ['nobody'],
        trace: ['a', 'b'],
        empty: [''],
        'source-topic': [world.topics.shared],
        'source-partition': ['0'],
        'source-offset': ['9'],
        'source-timestamp': ['1700000000123'],
        'dead-letter-reason': ['unclaimed'],
        'dead-letter-detail': [
          'the header connection-id claims "nobody", which is no connection of this topic',
        ],
      },
    });
  });

  it('an unclaimed tombstone is a dead letter without value [S5]', () => {
    const letter = deadLettersOf(world.topics.shared).find(({ key }) => key === 'unclaimed-tombstone');
    expect(letter?.value).toBeNull();
  });

  it('dead letters are counted, are logged without their content, and block no record [S5 D3]', async () => {
    expect(await world.balance(world.topics.shared)).toEqual({
      records: 12,
      accepted: 4,
      dead_letters: 8,
    });
    expect(verdicts['behind-the-unclaimed']).toBe('accepted');
    const [line] = worker
      .logged('records sent to the dead-letter topic')
      .filter(({ topic }) => topic === world.topics.shared);
    expect(line).toMatchObject({ reason: 'unclaimed', records: 8, offsets: [3, 4, 5, 6, 7, 8, 9, 10] });
  });
});

describe('the Confluent wire format', () => {
  it('JSON Schema: the bytes behind the frame are judged as they are [S2]', () => {
    expect(decided('json-schema', 'json-incomplete')).toEqual({
      'json-schema': 'accepted',
      'json-incomplete': 'rejected/malformed',
    });
  });

  it('Avro: a null of an optional field is a missing field [S2]', () => {
    expect(decided('avro', 'avro-nulls', 'avro-null-amount')).toEqual({
      avro: 'accepted',
      'avro-nulls': 'accepted',
      'avro-null-amount': 'rejected/bad_amount',
    });
  });

  it('bytes that do not fit their schema, and half a frame, have no key [S3 V3]', async () => {
    expect(await world.balance(world.topics.framed)).toEqual({
      records: 10,
      accepted: 4,
      rejected: 2,
      dead_letters: 1,
      events_without_key: 3,
    });
  });

  it('a schema id that the registry does not know makes a dead letter [S4]', () => {
    const [letter, ...more] = deadLettersOf(world.topics.framed);
    expect(more).toEqual([]);
    expect(letter?.headers['dead-letter-reason']).toEqual(['schema_unknown']);
    expect(letter?.value?.subarray(0, 5)).toEqual(framed(2_000_000_000, ''));
  });

  it('values without a frame may be mixed with framed values [S2]', () => {
    expect(verdicts.unframed).toBe('accepted');
  });
});

describe('the verdict topic', () => {
  const messages = () => published.map(({ value }) => JSON.parse(value?.toString() ?? ''));
  const about = (source: { topic: string; offset: number }) =>
    messages().find((m) => m.source.topic === source.topic && m.source.offset === String(source.offset));

  it('has a message for every decision, valid by its schema, and none for a dead letter [S7]', async () => {
    const validate = new Ajv2020({ strict: true, allErrors: true }).compile(VERDICT_SCHEMA);
    const faults = messages().flatMap((message) => (validate(message) ? [] : [validate.errors]));
    expect(faults).toEqual([]);
    const { records = 0, dead_letters = 0 } = await world.balance();
    expect(messages()).toHaveLength(records - dead_letters);
    const coordinates = messages().map(({ source }) => JSON.stringify(source));
    expect(new Set(coordinates).size).toBe(coordinates.length);
  });

  it('a duplicate names the first verdict, and whether the content differs [S7 K4]', () => {
    const { main: topic } = world.topics;
    expect(about({ topic, offset: 8 })).toMatchObject({
      event_id: 'resent',
      verdict: 'duplicate',
      reason: null,
      first_verdict: 'accepted',
      first_reason: null,
      content_differs: false,
      remedy: null,
    });
    expect(about({ topic, offset: 9 })).toMatchObject({
      verdict: 'duplicate',
      content_differs: true,
      remedy: 'Give each event its own event_id.',
    });
  });

  it('an event without key is reported by its coordinates [S7 V3]', () => {
    for (const offset of [3, 4, 5, 6]) {
      const message = about({ topic: world.topics.main, offset });
      expect(message).toMatchObject({ event_id: null, verdict: 'rejected', reason: 'no_idempotency_key' });
      expect(message.remedy).toEqual(expect.any(String));
    }
  });

  it('all messages about one event have one key, made of its feed and event_id [S7]', () => {
    const keys = published.filter(({ value }) => value?.includes('"resent"')).map(({ key }) => key);
    expect(keys).toEqual(Array(3).fill('["acme","resent"]'));
  });
});

it('the number of records read is the sum of their results [D3]', async () => {
  const { records, ...became } = await world.balance();
  expect(Object.values(became).reduce((sum, count) => sum + count, 0)).toBe(records);
});

describe('without a registry', () => {
  it('a value in the wire format is not JSON, so it has no key [S2]', async () => {
    const { records } = await world.balance(world.topics.framed);
    const before = await world.ends(world.topics.framed);
    await produce(world.topics.framed, [
      { value: framed(schemas.json, JSON.stringify(aLogin({ event_id: 'nobody-decodes' }))) },
    ]);
    await world.drain();
    expect(await world.committed(world.topics.framed)).toEqual(before.map((end) => end + 1));
    expect(await world.balance(world.topics.framed)).toMatchObject({
      records: (records ?? 0) + 1,
      events_without_key: 4,
    });
  }, 180_000);
});
