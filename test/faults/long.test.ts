/** Long faults, of minutes: `make test-faults`. The other files have a short form of most. */
import { CompressionTypes } from 'kafkajs';
import { sleep, until } from '../../dev/servers/deadline';
import { makeFeed, outcomeOf } from '../stream/feed';
import { sideBySide } from '../stream/side-by-side';
import { inOwnWorld, inWorld, type World } from '../stream/world';
import { aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce, produceInTransaction, readTopic } from '../support/kafka';
import type { RunningCommand } from '../support/worker';
import { leftOf, verifySound } from './promises';

const wanted = process.env.FAULTS === 'all';
const MINUTE = 60_000;
const SECOND = 1_000;
const SEED = 20261121;

const login = (event_id: string, partition = 0, key: string | null = null): Outgoing => ({
  value: bytesOf(aLogin({ event_id })),
  partition,
  key,
});

async function untilDone(world: World<string>, topic: string, milliseconds: number): Promise<void> {
  const ends = await world.ends(topic);
  await until(
    'all offsets are committed',
    milliseconds,
    async () => (await world.committed(topic)).join() === ends.join(),
  );
  await verifySound(world);
}

(wanted ? describe : describe.skip)('long faults', () => {
  const together = wanted ? sideBySide(5) : it;
  const feed = wanted ? makeFeed(SEED, 5_000) : [];
  let undisturbed: Promise<Record<string, unknown>> | undefined;

  /** The result of a run of one worker without faults. */
  async function withoutFaults(): Promise<Record<string, unknown>> {
    let outcome: Record<string, unknown> = {};
    await inWorld({ topics: { main: 4 } }, async (world) => {
      await produce(world.topics.main, feed);
      await world.drain();
      outcome = await outcomeOf(world);
    });
    return outcome;
  }

  together(
    'Postgres stopped for 40 s, a worker killed three times: the tables differ only in the order of bet and refund [U1 U2 R1] [K3]',
    () =>
      inOwnWorld(
        { need: ['postgres'] },
        { topics: { main: 4, verdicts: 1 } },
        async (world, { postgres }) => {
          undisturbed ??= withoutFaults();
          const { main, verdicts } = world.topics;
          const settings = { BATCH_EVENTS: '20', VERDICT_TOPIC: verdicts };
          let worker = await world.started(settings);
          const sending = (async () => {
            for (let from = 0; from < feed.length; from += 100) {
              await produce(main, feed.slice(from, from + 100));
              await sleep(0.5 * SECOND);
            }
          })();
          await world.untilDecided(500);
          await postgres.stop();
          await sleep(40 * SECOND);
          await postgres.start();
          const backAt = Date.now();
          const decided = async () =>
            Number((await world.rows('select count(*) from promo_store.event_keys'))[0]?.[0]);
          await world.untilDecided((await decided()) + 1, leftOf(backAt));
          for (let kill = 1; kill <= 3; kill++) {
            await world.untilDecided((await decided()) + 200, MINUTE);
            await worker.kill();
            worker = world.start(settings);
          }
          await sending;
          await untilDone(world, main, 2 * MINUTE);
          expect(await outcomeOf(world)).toEqual(await undisturbed);
          expect(await world.redeliveries()).toBeGreaterThan(0);

          const coordinates = new Map<string, Set<string>>();
          for (const { value } of await readTopic(verdicts)) {
            // A record that is read again names the anomalies that its round has at that time [A4].
            const { anomalies: _, ...message } = JSON.parse(value?.toString() ?? '');
            const source = JSON.stringify(message.source);
            coordinates.set(source, (coordinates.get(source) ?? new Set()).add(JSON.stringify(message)));
          }
          expect(coordinates.size).toBe(feed.length);
          expect([...coordinates.values()].filter((texts) => texts.size > 1)).toEqual([]);
        },
      ),
  );

  together(
    'three workers that are killed and replaced in turn: the same tables as an undisturbed run [U1 R1 K3]',
    () =>
      inWorld({ topics: { main: 4 }, settings: { BATCH_EVENTS: '20' } }, async (world) => {
        undisturbed ??= withoutFaults();
        const { main } = world.topics;
        const workers: RunningCommand[] = [await world.started(), world.start(), world.start()];
        const sending = (async () => {
          for (let from = 0; from < feed.length; from += 50) {
            await produce(main, feed.slice(from, from + 50));
            await sleep(0.3 * SECOND);
          }
        })();
        for (let round = 0; round < 4; round++) {
          await sleep(7 * SECOND);
          const victim = workers.shift();
          await (round % 2 === 0 ? victim?.kill() : victim?.stop());
          workers.push(world.start());
        }
        await sending;
        await untilDone(world, main, 2 * MINUTE);
        expect(await outcomeOf(world)).toEqual(await undisturbed);
      }),
  );

  together(
    'Kafka stopped and started again: the worker continues by itself, and reads new topics, too [U6 U1]',
    () =>
      inOwnWorld({ need: ['kafka'] }, { topics: { main: 2 } }, async (world, { kafka }) => {
        const { main } = world.topics;
        await produce(main, [login('before')], { brokers: world.brokers });
        const worker = await world.started();
        await world.untilDecided(1);
        await kafka.stop();
        await sleep(20 * SECOND);
        await kafka.start();
        const startedAt = Date.now();
        await produce(main, [login('behind-0'), login('behind-1', 1)], { brokers: world.brokers });
        await world.untilDecided(3, leftOf(startedAt));
        await kafka.kill();
        await sleep(5 * SECOND);
        await kafka.start();
        const restartedAt = Date.now();
        await produce(main, [login('behind-the-crash')], { brokers: world.brokers });
        await world.untilDecided(4, leftOf(restartedAt));
        await untilDone(world, main, MINUTE);
        expect(worker.hasEnded()).toBe(false);
        expect(await worker.stop()).toEqual({ code: 0, signal: null });
      }),
  );

  together(
    'Kafka hangs for half a minute: records sent meanwhile are decided within 35 s of its end [U1]',
    () =>
      inOwnWorld({ need: ['kafka'] }, { topics: { main: 3 } }, async (world, { kafka }) => {
        const { main } = world.topics;
        const onAll = (name: string) =>
          [0, 1, 2].map((partition) => login(`${name}-${partition}`, partition));
        await produce(main, onAll('before'), { brokers: world.brokers });
        const worker = await world.started();
        await world.untilDecided(3);
        await kafka.suspend();
        await sleep(30 * SECOND);
        await kafka.resume();
        const began = Date.now();
        await until('records are taken', MINUTE, async () => {
          try {
            await produce(main, onAll('behind'), { brokers: world.brokers });
            return true;
          } catch {
            return false;
          }
        });
        await world.untilDecided(6, MINUTE);
        expect(Date.now() - began).toBeLessThan(35 * SECOND);
        expect(worker.hasEnded()).toBe(false);
      }),
  );

  together(
    'Kafka hangs for longer than LIVENESS_SECONDS: liveness holds, since a restart would not help, and SIGTERM ends the worker in time [U5]',
    () =>
      inOwnWorld({ need: ['kafka'] }, { topics: { main: 1 } }, async (world, { kafka }) => {
        const worker = await world.started({ SHUTDOWN_SECONDS: '5' });
        expect((await worker.get('/livez')).status).toBe(200);
        await kafka.suspend();
        for (const end = Date.now() + 2.5 * MINUTE; Date.now() < end; await sleep(SECOND))
          expect((await worker.get('/livez')).status).toBe(200);
        const began = Date.now();
        await worker.stop();
        expect(Date.now() - began).toBeLessThan(6.5 * SECOND);
        await kafka.resume();
      }),
  );

  together('a worker whose Kafka does not come up reports it and ends with 1 after a minute', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const began = Date.now();
      const worker = world.start({ KAFKA_BROKERS: '127.0.0.1:1' });
      expect(await worker.ending(1.5 * MINUTE)).toEqual({ code: 1, signal: null });
      expect(Date.now() - began).toBeGreaterThan(50 * SECOND);
      expect(worker.logged('the worker cannot start')[0]?.error).toMatch(/^Kafka cannot be reached: /);
    }),
  );

  together('gaps of compaction do not end a drain: a compacted topic is drained [U10]', () =>
    inWorld(
      {
        topics: {
          main: {
            partitions: 1,
            config: {
              'cleanup.policy': 'compact',
              'segment.ms': '200',
              'segment.bytes': '1048576',
              'min.cleanable.dirty.ratio': '0.001',
              'max.compaction.lag.ms': '500',
              'delete.retention.ms': '0',
            },
          },
        },
      },
      async (world) => {
        const { main } = world.topics;
        for (let n = 0; n < 6; n++) {
          const batch = [0, 1, 2, 3, 4].map((k) => login(`e-${n}-${k}`, 0, `key-${k}`));
          await produce(main, n % 2 === 0 ? batch : batch.slice(0, 3), {
            compression: n % 3 === 0 ? CompressionTypes.GZIP : CompressionTypes.None,
          });
          await sleep(0.4 * SECOND);
        }
        await produceInTransaction(main, [login('aborted', 0, 'key-9')], 'abort');
        await sleep(0.4 * SECOND);
        await produce(main, [login('last', 0, 'key-0')]);
        await until('the topic is compacted', 2 * MINUTE, async () => {
          await sleep(SECOND);
          return (await readTopic(main)).length <= 8;
        });
        const left = await readTopic(main);
        await world.drain();
        expect(Object.keys(await world.verdicts()).sort()).toEqual(
          left.map(({ value }) => JSON.parse(value?.toString() ?? '').event_id).sort(),
        );
        expect(await world.committed(main)).toEqual(await world.ends(main));
      },
    ),
  );
});
