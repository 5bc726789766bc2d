/**
 * Quotas of the brokers: a throttled worker stays in its group, and its metrics show which quota delays it.
 */
import { sleep, until } from '../../dev/servers/deadline';
import { aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { setQuota } from '../support/quotas';
import type { RunningCommand } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inOwnWorld, type World } from './world';

const SECOND = 1_000;
const CLIENT = 'promo-intake';
const THROTTLED = 'Kafka throttles requests of this process by a quota';

const NEVER = 'Kafka throttles every fetch, and no record arrives';

/** Each test has its own Kafka, since a quota is set for the client id of all workers. */
const together = sideBySide();

/** Logins of a size, in two partitions. */
const loginsOf = (name: string, count: number, bytes: number): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({
    partition: n % 2,
    value: bytesOf(aLogin({ event_id: `${name}-${n}`, padding: 'x'.repeat(bytes) })),
  }));

/** A broker always sends a whole batch. A batch that exceeds ten seconds of the quota would never arrive. */
async function produceInBatches(topic: string, records: readonly Outgoing[], broker: string): Promise<void> {
  for (let from = 0; from < records.length; from += BATCH)
    await produce(topic, records.slice(from, from + BATCH), { brokers: [broker] });
}
const BATCH = 50;
/** Of a kilobyte: a quota of 50 kB/s lets half a megabyte through at once, and then needs 14 s. */
const RECORDS = 1_200;

/** Milliseconds between two lines of its log. */
const between = (worker: RunningCommand, from: string, to: string): number => {
  const [begin = Number.NaN, end = Number.NaN] = [from, to].map((message) =>
    Date.parse(worker.logged(message)[0]?.time ?? ''),
  );
  return end - begin;
};
const assignments = (worker: RunningCommand): number => worker.logged('partitions assigned').length;
const throttledSeconds = (worker: RunningCommand, request: string): Promise<number> =>
  worker.metric(`promo_intake_kafka_throttled_seconds_total{request="${request}"}`);

async function untilCommitted(world: World<'main'>, milliseconds: number): Promise<void> {
  const ends = await world.ends(world.topics.main);
  await until(`all offsets are committed to ${ends}`, milliseconds, async () => {
    return (await world.committed(world.topics.main)).join() === ends.join();
  });
}

together(
  'a consumer byte quota of 50 kB/s slows a worker down and does not cost it its membership [U1]',
  () =>
    inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world) => {
      const [broker = ''] = world.brokers;
      await setQuota(broker, CLIENT, 'consumer_byte_rate', 50_000);
      await produceInBatches(world.topics.main, loginsOf('slow', RECORDS, 1_000), broker);
      const worker = await world.started();
      await untilCommitted(world, 120 * SECOND);
      expect(assignments(worker)).toBe(1);
      expect(await worker.metric('promo_intake_rebalance_seconds_count')).toBe(1);
      expect(await throttledSeconds(worker, 'fetch')).toBeGreaterThan(10);
      const [line, ...more] = worker.logged(THROTTLED);
      expect(line).toMatchObject({
        level: 'warn',
        request: 'fetch',
        broker,
        throttleMs: expect.any(Number),
      });
      expect(more.length).toBeLessThanOrEqual(2);
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      expect(between(worker, 'signal received', 'stopped')).toBeLessThan(12 * SECOND);
    }),
);

together('a worker that is throttled joins a rebalance in time, and both members continue [U1]', () =>
  inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world) => {
    const [broker = ''] = world.brokers;
    await setQuota(broker, CLIENT, 'consumer_byte_rate', 50_000);
    await produceInBatches(world.topics.main, loginsOf('both', RECORDS, 1_000), broker);
    // The quota may keep a member from its records for longer than the watch allows. The watch would rejoin.
    const unwatched = { KAFKA_DEAD_MEMBER_WATCH: 'disabled' };
    const first = await world.started(unwatched);
    await sleep(5 * SECOND);
    const second = await world.started(unwatched);
    // A member that misses a rebalance delays it by 15 s.
    expect(between(second, 'reading topics', 'partitions assigned')).toBeLessThan(14 * SECOND);
    await first.waitForLog(() => assignments(first) === 2);
    await untilCommitted(world, 120 * SECOND);
    expect([assignments(first), assignments(second)]).toEqual([2, 1]);
    expect(await first.metric('promo_intake_rebalance_seconds_count')).toBe(2);
  }),
);

together(
  'a batch larger than ten seconds of the quota never arrives; the log reports it after a minute, and a larger quota helps',
  () =>
    inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world) => {
      const [broker = ''] = world.brokers;
      await setQuota(broker, CLIENT, 'consumer_byte_rate', 20_000);
      const worker = await world.started();
      await produce(world.topics.main, loginsOf('large', 2, 400_000), { brokers: [broker] });
      const line = await worker.waitForLog(({ msg }) => msg.startsWith(NEVER), 120 * SECOND);
      expect(line).toMatchObject({ level: 'error', broker, throttleMs: expect.any(Number) });
      expect(line.everyFetchForMs).toBeGreaterThanOrEqual(60_000);
      expect(await world.balance()).toEqual({});
      expect(assignments(worker)).toBe(1);
      // Ten seconds of the new quota exceed the batch.
      await setQuota(broker, CLIENT, 'consumer_byte_rate', 100_000);
      await untilCommitted(world, 120 * SECOND);
      expect(worker.log().filter(({ msg }) => msg.startsWith(NEVER))).toHaveLength(1);
    }),
);

together('the metric distinguishes producer quotas from request quotas', () =>
  inOwnWorld({ need: ['kafka'] }, { topics: { main: 2, verdicts: 1 } }, async (world) => {
    const [broker = ''] = world.brokers;
    const worker = await world.started({ VERDICT_TOPIC: world.topics.verdicts });
    await setQuota(broker, CLIENT, 'producer_byte_rate', 20_000);
    await produce(world.topics.main, loginsOf('verdicts', 2_000, 10), { brokers: [broker] });
    await until('produce requests are throttled', 60 * SECOND, async () => {
      return (await throttledSeconds(worker, 'produce')) > 0;
    });
    await setQuota(broker, CLIENT, 'producer_byte_rate', null);
    expect(await throttledSeconds(worker, 'other')).toBe(0);
    await setQuota(broker, CLIENT, 'request_percentage', 0.05);
    await until('other requests are throttled', 60 * SECOND, async () => {
      return (await throttledSeconds(worker, 'other')) > 0;
    });
    await sleep(20 * SECOND);
    await setQuota(broker, CLIENT, 'request_percentage', null);
    await untilCommitted(world, 120 * SECOND);
    expect(assignments(worker)).toBe(1);
  }),
);
