/**
 * A group that moves to another Kafka cluster and back, on two real brokers. The mirror is part of the test
 * and works as MirrorMaker 2 does. It copies records to a topic of the same name or of another one,
 * translates offsets, and copies the notes committed with them.
 */
import type { Servers } from '../../dev/servers';
import { until, within } from '../../dev/servers/deadline';
import { makeKafka } from '../../src/kafka/client/client';
import { makeKafkaSource } from '../../src/kafka/consumer/group-source';
import { makeLogger } from '../../src/telemetry/logger';
import { aBet, aLogin, anOperator, aRefund, bytesOf } from '../support/builders';
import {
  committedOffsets,
  endOffsets,
  makeTopics,
  type Outgoing,
  produce,
  readTopic,
  withProducer,
} from '../support/kafka';
import { rowsOf, withClient } from '../support/ledger';
import {
  databaseUrl,
  freshDatabase,
  freshTopic,
  kafkaBrokers,
  kafkaClient,
  ownServers,
  withAdmin,
} from '../support/servers';
import { RunningCommand } from '../support/worker';
import { connectionOf, inWorld, type World } from './world';

const CAUGHT_UP_MS = 60_000;
const VERIFY_MS = 60_000;
const LONG = 180_000;
const PARTITIONS = [0, 1];

let other: Servers;
let b: string[];
beforeAll(async () => {
  other = await ownServers({ need: ['kafka'] });
  b = other.kafkaBrokers.split(',');
}, LONG);
afterAll(() => other?.stop());

const LOST = 'the store has lost decided events; reading them again';
const PASSED = 'records were passed over: offsets were set forward, or lost';
const DELETED = 'records were deleted before they were read';

let sent = 0;
/** Logins with ids of their own, on each partition. */
const logins = (count: number): Outgoing[] =>
  PARTITIONS.flatMap((partition) =>
    Array.from({ length: count }, () => ({ partition, value: bytesOf(aLogin({ event_id: `l${++sent}` })) })),
  );
const NO_JSON = 'no json';
/** Records that differ only in their coordinates, on each partition. */
const noJson = (count: number): Outgoing[] =>
  PARTITIONS.flatMap((partition) => Array.from({ length: count }, () => ({ partition, value: NO_JSON })));

async function copyOf(url: string) {
  const name = new URL(url).pathname.slice(1);
  await withClient(databaseUrl(), async (client) => {
    // A database cannot be copied while it has connections.
    await rowsOf(client, 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  });
  return freshDatabase(databaseUrl(), `template ${name}`);
}

/**
 * The places where a mirror has put the records of a partition: the offset of each copy, by the offset in the
 * source.
 */
type Copied = ReadonlyMap<number, ReadonlyMap<number, number>>;

/** Copies the records of each partition from its start offset on. */
async function mirror(
  [from, fromTopic]: readonly [string[], string],
  [to, toTopic]: readonly [string[], string],
  starts: readonly number[] = [0, 0],
): Promise<Copied> {
  const records = await readTopic(fromTopic, undefined, from);
  const copied = new Map<number, Map<number, number>>();
  for (const partition of PARTITIONS) {
    const [end = 0] = (await endOffsets(toTopic, to)).slice(partition);
    const taken = records.filter(
      (each) => each.partition === partition && each.offset >= (starts[partition] ?? 0),
    );
    await withProducer(
      (producer) =>
        producer.send({
          topic: toTopic,
          acks: -1,
          messages: taken.map(({ value, key, timestamp }) => ({ partition, value, key, timestamp })),
        }),
      {},
      to,
    );
    copied.set(partition, new Map(taken.map(({ offset }, index) => [offset, end + index])));
  }
  return copied;
}

/**
 * Sets the group's offsets to the copies of its committed offsets, and copies the notes committed with them.
 */
async function translate(
  groupId: string,
  [from, fromTopic]: readonly [string[], string],
  [to, toTopic]: readonly [string[], string],
  copied: Copied,
): Promise<void> {
  const [committed] = await withAdmin((admin) => admin.fetchOffsets({ groupId, topics: [fromTopic] }), from);
  const partitions = (committed?.partitions ?? []).flatMap(({ partition, offset, metadata }) => {
    const copy = copied.get(partition)?.get(Number(offset) - 1);
    return copy === undefined ? [] : [{ partition, offset: String(copy + 1), metadata }];
  });
  expect(partitions.map(({ metadata }) => metadata)).toEqual(
    PARTITIONS.map(() => expect.stringMatching(NOTE)),
  );
  // The admin client of kafkajs writes no notes.
  const consumer = kafkaClient(to).consumer({ groupId });
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
  await consumer.connect();
  try {
    await consumer.subscribe({ topic: toTopic });
    await consumer.run({ autoCommit: false, eachMessage: async () => undefined });
    await within('the mirror joins the group', CAUGHT_UP_MS, joined);
    await consumer.commitOffsets(partitions.map((each) => ({ topic: toTopic, ...each })));
  } finally {
    await consumer.disconnect();
  }
}
const NOTE = /^promo-intake \d+/;

async function untilCaughtUp({ groupId }: World<'main'>, topic: string, brokers: string[]): Promise<void> {
  await until('all offsets are committed', CAUGHT_UP_MS, async () => {
    const committed = await committedOffsets(groupId, topic, brokers);
    return committed.join() === (await endOffsets(topic, brokers)).join();
  });
}

/** Everything that would have raised an alert. */
async function alarms(worker: RunningCommand, topic: string): Promise<unknown[]> {
  const gaps = await worker.metric(`promo_intake_gap_records_total{topic="${topic}"}`);
  const lines = worker
    .log()
    .filter(({ level, msg }) => level === 'error' || [LOST, PASSED, DELETED].includes(msg));
  return [...lines, ...(gaps > 0 ? [gaps] : []), ...(await undecided(worker))];
}
const undecided = async (worker: RunningCommand) => {
  const count = await worker.metric('promo_intake_undecided_partitions');
  return count > 0 ? [`${count} undecided`] : [];
};

/**
 * Runs a command that checks a cluster.
 * @throws where the command reports a problem
 */
async function findsNothing({ settings }: World<'main'>, command: 'verify' | 'status', brokers: string[]) {
  const looks = new RunningCommand([command], { ...settings, KAFKA_BROKERS: brokers.join(',') });
  const { code } = await looks.ending(VERIFY_MS);
  if (code !== 0) throw new Error(`${command} ended with ${code}\n${looks.output()}`);
}

/** Lets a worker decide the records sent to a cluster, and stops it. */
async function decideOn(
  world: World<'main'>,
  [brokers, topic]: readonly [string[], string],
  records: readonly Outgoing[],
): Promise<unknown[]> {
  const worker = await world.started({ KAFKA_BROKERS: brokers.join(',') });
  await produce(topic, records, { brokers });
  await untilCaughtUp(world, topic, brokers);
  const found = await alarms(worker, topic);
  await worker.stop();
  return found;
}

const a = () => kafkaBrokers();

describe.each([
  ['smaller', 0],
  ['larger', 40],
])('a move to a cluster whose offsets are %s, and back', (_, before) => {
  test(
    'decides every event once, raises no alarm, and leaves both clusters sound [U9] [K3] [U1]',
    () =>
      inWorld({ topics: { main: 2 } }, async (world) => {
        const { main } = world.topics;
        // The same bytes at the same offsets as the records of the other cluster.
        const onA = [...logins(2), ...noJson(8)];
        expect(await decideOn(world, [a(), main], onA)).toEqual([]);

        await makeTopics({ [main]: { partitions: 2 } }, b);
        if (before > 0) await produce(main, noJson(before), { brokers: b });
        const copied = await mirror([a(), main], [b, main], [8, 8]);
        await translate(world.groupId, [a(), main], [b, main], copied);
        await findsNothing(world, 'verify', b);
        const movedAt = await committedOffsets(world.groupId, main, b);
        const onB = [...noJson(1), ...logins(3)];
        expect(await decideOn(world, [b, main], onB)).toEqual([]);
        await findsNothing(world, 'verify', b);
        await findsNothing(world, 'status', b);

        const back = await mirror([b, main], [a(), main], movedAt);
        await translate(world.groupId, [b, main], [a(), main], back);
        await findsNothing(world, 'verify', a());
        const onAAgain = [...logins(4), ...noJson(1)];
        expect(await decideOn(world, [a(), main], onAAgain)).toEqual([]);
        await findsNothing(world, 'verify', a());

        const all = [...onA, ...onB, ...onAAgain];
        const withoutId = all.filter(({ value }) => value === NO_JSON).length;
        expect(await world.balance()).toEqual({
          records: all.length,
          accepted: all.length - withoutId,
          events_without_key: withoutId,
        });
        expect(await world.redeliveries()).toBe(0);
        expect(
          await world.rows(
            'select kafka_cluster is not null, is_first_cluster, begins_at is not null, count(*) from promo.partitions group by 1, 2, 3 order by 2',
          ),
        ).toEqual([
          ['t', 'f', 't', '2'],
          ['t', 't', 't', '2'],
        ]);
      }),
    LONG,
  );
});

test(
  'a move back to the old offsets of the group raises no alarm, and records that were copied back are duplicates [U9] [V1]',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await decideOn(world, [a(), main], logins(20));
      await makeTopics({ [main]: { partitions: 2 } }, b);
      const copied = await mirror([a(), main], [b, main], [18, 18]);
      await translate(world.groupId, [a(), main], [b, main], copied);
      const movedAt = await committedOffsets(world.groupId, main, b);
      expect(await decideOn(world, [b, main], logins(3))).toEqual([]);
      await mirror([b, main], [a(), main], movedAt);
      expect(await decideOn(world, [a(), main], logins(1))).toEqual([]);
      expect(await world.balance()).toEqual({
        records: 2 * (20 + 3 + 3 + 1),
        accepted: 2 * (20 + 3 + 1),
        duplicate_deliveries: 2 * 3,
      });
    }),
  LONG,
);

test(
  'a store that is restored to a time before the move is noticed on the new cluster, which is read from its beginning [U9] [U1]',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await decideOn(world, [a(), main], logins(20));
      const backup = await copyOf(world.databaseUrl);
      try {
        await decideOn(world, [a(), main], logins(1));
        await makeTopics({ [main]: { partitions: 2 } }, b);
        const copied = await mirror([a(), main], [b, main], [18, 18]);
        await translate(world.groupId, [a(), main], [b, main], copied);
        await decideOn(world, [b, main], logins(3));

        const worker = await world.started({ KAFKA_BROKERS: b.join(','), DATABASE_URL: backup.url });
        await worker.waitForLog(LOST);
        await produce(main, logins(1), { brokers: b });
        await until(
          'all records are decided again',
          CAUGHT_UP_MS,
          async () =>
            (await withClient(backup.url, (client) => rowsOf(client, ACCEPTED)))[0]?.[0] ===
            String(2 * (20 + 1 + 3 + 1)),
        );
        await worker.stop();
      } finally {
        await backup.drop();
      }
    }),
  LONG,
);
const ACCEPTED = 'select sum(accepted) from promo.partitions';

test(
  'a topic that the mirror has renamed continues as under its old name [U9]',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      const renamed = `a.${main}`;
      await decideOn(world, [a(), main], logins(20));
      await world.apply([anOperator({ connections: [connectionOf(main), connectionOf(renamed)] })]);
      await makeTopics({ [renamed]: { partitions: 2 } }, b);
      const copied = await mirror([a(), main], [b, renamed]);
      await translate(world.groupId, [a(), main], [b, renamed], copied);
      expect(await decideOn(world, [b, renamed], logins(3))).toEqual([]);
      await findsNothing(world, 'verify', b);
      expect(await world.balance()).toEqual({ records: 2 * 23, accepted: 2 * 23 });
    }),
  LONG,
);

test(
  'a round continues across the move: its bet came on one cluster, its refund on the other [U9] [R1]',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      const bet = aBet({ event_id: 'bet' });
      await decideOn(world, [a(), main], [...logins(1), { value: bytesOf(bet) }]);
      await makeTopics({ [main]: { partitions: 2 } }, b);
      const copied = await mirror([a(), main], [b, main]);
      await translate(world.groupId, [a(), main], [b, main], copied);
      const refund = aRefund(bet, { event_id: 'refund' });
      expect(await decideOn(world, [b, main], [{ value: bytesOf(refund) }, { value: bytesOf(bet) }])).toEqual(
        [],
      );
      expect(
        await world.rows('select sum(amount_minor) from promo.ledger where round_id is not null'),
      ).toEqual([['0']]);
      expect(await world.balance()).toMatchObject({ accepted: 4, duplicate_deliveries: 1 });
    }),
  LONG,
);

test(
  'a source ends without handing over a record if its brokers belong to another cluster [U9]',
  async () => {
    const topic = await freshTopic('test.cluster', { partitions: 1 });
    await produce(topic, [{ value: 'x' }]);
    const fatal: Error[] = [];
    const chunks: unknown[] = [];
    const assigned: unknown[] = [];
    const source = makeKafkaSource(
      makeKafka({ brokers: a(), clientId: 'promo-test' }, makeLogger('silent')),
      {
        groupId: `promo-${topic}`,
        clusterId: 'the-one-before',
        wantedTopics: async () => [topic],
        onFatal: (error) => fatal.push(error),
      },
      makeLogger('silent'),
    );
    await source.start({
      onAssigned: (partitions) => assigned.push(partitions),
      onChunk: (chunk) => chunks.push(chunk),
      onHighWatermark: () => undefined,
      onPositioned: () => undefined,
      onPassedOver: () => undefined,
      onRefused: () => undefined,
      onRebalanced: () => undefined,
      onActive: () => undefined,
    });
    try {
      await until('the source ends', CAUGHT_UP_MS, () => fatal.length > 0);
      expect(String(fatal[0])).toMatch(/another Kafka cluster than at the start: \S+, not the-one-before/);
      await expect(source.commit([{ topic, partition: 0, offset: 1, expectedUpTo: 1 }])).rejects.toThrow();
      expect([chunks, assigned.at(-1)]).toEqual([[], []]);
    } finally {
      await source.stop();
    }
  },
  LONG,
);
