/**
 * Faults of Kafka, of the group, and of the records in the topics. A test that stops Kafka has a Kafka of its
 * own.
 */
import { CompressionTypes } from 'kafkajs';
import { sleep, until } from '../../dev/servers/deadline';
import { sideBySide } from '../stream/side-by-side';
import { inOwnWorld, inWorld, type World } from '../stream/world';
import { aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { kafkaClient, withAdmin } from '../support/servers';
import { allAcceptedOnce, loginsIn, untilCaughtUp, verifySound } from './promises';

const ALL = process.env.FAULTS === 'all';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const MEBIBYTE = 1024 * 1024;
const together = sideBySide(5);
/** Takes minutes: `FAULTS=all`. */
const long = ALL ? together : test.skip;

const logins = (name: string, each: number, partitions = 1): Outgoing[] => loginsIn(partitions, name, each);

/**
 * Produces once brokers take records again. A broker may have taken some records without answering.
 *
 * @param before records of the topic until then
 * @returns the number of records that the topic holds more than once
 */
async function sendWhenBack(
  { topics, brokers }: World<'main'>,
  before: number,
  records: readonly Outgoing[],
): Promise<number> {
  await until('records are taken', MINUTE, async () => {
    try {
      await produce(topics.main, records, { brokers });
      return true;
    } catch {
      return false;
    }
  });
  const ends = await withAdmin((admin) => admin.fetchTopicOffsets(topics.main), brokers);
  const all = ends.reduce((sum, { low, high }) => sum + Number(high) - Number(low), 0);
  return all - before - records.length;
}

together('a broker that is killed and started again: the worker continues by itself [U1]', () =>
  inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world, { kafka }) => {
    await produce(world.topics.main, logins('before', 500, 2), { brokers: world.brokers });
    const worker = await world.started({ BATCH_EVENTS: '10' });
    await world.untilDecided(50);
    await kafka.kill();
    await kafka.start();
    const backAt = Date.now();
    const resent = await sendWhenBack(world, 1_000, logins('behind', 10, 2));
    await untilCaughtUp(world, world.topics.main, backAt);
    await allAcceptedOnce(world, 1_020, resent);
    // Whether the log also says that the client restarts depends on the client's state when the broker
    // stopped.
    const warnings = worker.log().filter(({ level, client }) => level === 'warn' && client === 'Connection');
    expect(warnings.length).toBeGreaterThan(0);
    expect(worker.hasEnded()).toBe(false);
    expect((await worker.get('/livez')).status).toBe(200);
  }),
);

long(
  'all brokers away for three minutes: liveness holds, and all records are decided within 35 s of their return [U1 U5]',
  () =>
    inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world, { kafka }) => {
      await produce(world.topics.main, logins('before', 10, 2), { brokers: world.brokers });
      const worker = await world.started();
      await untilCaughtUp(world, world.topics.main);
      await kafka.stop();
      await sleep(3 * MINUTE);
      // A restart would not bring the brokers back.
      expect((await worker.get('/livez')).status).toBe(200);
      await kafka.start();
      const backAt = Date.now();
      const resent = await sendWhenBack(world, 20, logins('behind', 10, 2));
      await untilCaughtUp(world, world.topics.main, backAt);
      await allAcceptedOnce(world, 40, resent);
      expect((await worker.get('/livez')).status).toBe(200);
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
    }),
);

together(
  'a rebalance every two seconds: all events are decided once, and the load progresses meanwhile [U1 K3]',
  () =>
    inWorld({ topics: { main: 4 }, settings: { BATCH_EVENTS: '10' } }, async (world) => {
      const { main } = world.topics;
      const worker = await world.started();
      const decided: number[] = [];
      for (let n = 0; n < 8; n++) {
        await produce(main, logins(`load-${n}`, 50, 4));
        await passThrough(world);
        const { records = 0 } = await world.balance();
        decided.push(records);
      }
      expect(decided.at(-1)).toBeGreaterThan(decided[2] ?? 0);
      await untilCaughtUp(world, main);
      await allAcceptedOnce(world, 8 * 50 * 4);
      expect(worker.logged('partitions assigned').length).toBeGreaterThan(5);
    }),
);

/**
 * A member joins the group, which costs the worker half of its partitions, and leaves it again. It reads
 * nothing.
 */
async function passThrough({ groupId, topics, brokers }: World<'main'>): Promise<void> {
  const guest = kafkaClient(brokers).consumer({ groupId, sessionTimeout: 10_000, rebalanceTimeout: 15_000 });
  await guest.connect();
  try {
    await guest.subscribe({ topic: topics.main, fromBeginning: true });
    const joined = new Promise<void>((resolve) => guest.on(guest.events.GROUP_JOIN, () => resolve()));
    await guest.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: async () => undefined });
    await joined;
    await sleep(SECOND);
  } finally {
    await guest.disconnect();
  }
  await sleep(SECOND);
}

together(
  'offsets set back, or lost: records that are read again are answered as before, and are no duplicates [K3]',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, logins('first', 300, 2));
      await world.drain();
      for (const reset of ['back', 'lost']) {
        await withAdmin(async (admin) => {
          const partitions = [0, 1].map((partition) => ({ partition, offset: '100' }));
          if (reset === 'back') await admin.setOffsets({ groupId: world.groupId, topic: main, partitions });
          else await admin.deleteGroups([world.groupId]);
        });
        const worker = await world.started();
        await produce(main, logins(reset, 10, 2));
        await untilCaughtUp(world, main);
        expect(await worker.metric('promo_intake_redeliveries_total')).toBe(reset === 'back' ? 400 : 620);
        await worker.stop();
      }
      await allAcceptedOnce(world, 640);
    }),
);

together(
  'offsets set forward: the worker logs the records that were passed over, and none after its own commits',
  () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, logins('first', 4, 2));
      await world.drain();
      await produce(main, logins('second', 4, 2));
      await withAdmin((admin) =>
        admin.setOffsets({
          groupId: world.groupId,
          topic: main,
          partitions: [{ partition: 0, offset: '6' }],
        }),
      );
      const worker = await world.started();
      await untilCaughtUp(world, main);
      expect(await world.balance()).toEqual({ records: 14, accepted: 14 });
      expect(worker.logged('records were passed over: offsets were set forward, or lost')).toMatchObject([
        { topic: main, partition: 0, from: 4, to: 6 },
      ]);
      expect(await worker.metric(`promo_intake_gap_records_total{topic="${main}"}`)).toBe(2);
      // The worker logged the gap once: a later check by an operator has to find it, too.
      await expect(verifySound(world)).rejects.toThrow(
        `I2 ${main}/0: offset 8 is committed, but 2 records before it are not decided, the first at offset 4`,
      );
    }),
);

together(
  'retention that overruns a worker: the remaining records are decided, and worker and verify report the gap [U1]',
  () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, logins('first', 4));
      await world.drain();
      await produce(main, logins('second', 4));
      await withAdmin(async (admin) => {
        // Fetched first, so that the client knows the topic.
        await admin.fetchTopicOffsets(main);
        await admin.deleteTopicRecords({ topic: main, partitions: [{ partition: 0, offset: '6' }] });
      });
      await expect(verifySound(world)).rejects.toThrow(
        `I2 ${main}/0: offsets 4 to 5 were deleted from Kafka before they were read`,
      );
      // The records are gone before the worker's first fetch: the committed offset shows where it should have
      // begun.
      const worker = await world.started();
      await untilCaughtUp(world, main);
      expect(await world.balance()).toEqual({ records: 6, accepted: 6 });
      expect(await world.committed(main)).toEqual([8]);
      expect(worker.logged('records were deleted before they were read')).toMatchObject([
        { topic: main, partition: 0, from: 4, to: 6 },
      ]);
      expect(await worker.metric(`promo_intake_gap_records_total{topic="${main}"}`)).toBe(2);
    }),
);

together('records of 10 MiB and bombs, on several partitions at once: memory stays bounded [S4 S8]', () =>
  inWorld(
    { topics: { main: { partitions: 3, config: { 'max.message.bytes': String(16 * MEBIBYTE) } } } },
    async (world) => {
      const { main } = world.topics;
      const worker = await world.started();
      await produce(main, logins('first', 1, 3));
      await untilCaughtUp(world, main);
      const bomb = Buffer.alloc(100 * MEBIBYTE);
      for (const partition of [0, 1, 2]) {
        await produce(main, [{ value: bomb, partition }], { compression: CompressionTypes.GZIP });
        const value = bytesOf(aLogin({ event_id: `large-${partition}`, padding: 'x'.repeat(10 * MEBIBYTE) }));
        for (let n = 0; n < 3; n++) await produce(main, [{ value, partition }]);
        await produce(main, [{ value: bytesOf(aLogin({ event_id: `behind-${partition}` })), partition }]);
      }
      await untilCaughtUp(world, main);
      expect(await world.balance()).toEqual({
        records: 18,
        accepted: 9,
        duplicate_deliveries: 6,
        dead_letters: 3,
      });
      await verifySound(world);
      const peak = worker.peakMib();
      process.stdout.write(
        `the worker that read bombs and records of 10 MiB held ${Math.round(peak)} MiB at most\n`,
      );
      expect(peak).toBeLessThan(MEMORY_LIMIT_MIB);
      expect(await worker.metric('promo_intake_dead_letters_total{reason="undecodable"}')).toBe(3);
    },
  ),
);
/** Measured: 244. Each bomb decompresses to 100 MiB, and each partition has 30 MiB of large records. */
const MEMORY_LIMIT_MIB = 400;
