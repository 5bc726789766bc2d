/** Failures of the Kafka client, and the worker's reaction. All hazards with their tests: test/README.md. */
import { join } from 'node:path';
import { AssignerProtocol, type PartitionAssigner } from 'kafkajs';
import { sleep, until } from '../../dev/servers/deadline';
import { aLogin, bytesOf } from '../support/builders';
import { produce, withProducer } from '../support/kafka';
import { kafkaClient, withAdmin } from '../support/servers';
import { type Director, KafkaTap } from '../support/taps';
import { ROOT } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inOwnWorld, inWorld } from './world';

const SECOND = 1_000;
const MINUTE = 60_000;
const together = sideBySide(5);
const LIVENESS = 30;
const login = (event_id: string) => ({ value: bytesOf(aLogin({ event_id })) });

describe('liveness', () => {
  together(
    'fails once the client neither fetches nor tries to fetch, although the process answers [U5]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const worker = await world.started({
          LIVENESS_SECONDS: String(LIVENESS),
          NODE_OPTIONS: `--require ${join(ROOT, 'test/support/disturbed-client.js')}`,
        });
        await produce(world.topics.main, [login('before')]);
        await world.untilDecided(1);
        worker.signal('SIGUSR2');
        const began = Date.now();
        await until('liveness fails', 2 * LIVENESS * SECOND, async () => {
          const { status, text } = await worker.get('/livez');
          expect([200, 503]).toContain(status);
          if (status === 503) expect(text).toBe('stuck\n');
          return status === 503;
        });
        expect(Date.now() - began).toBeGreaterThan((LIVENESS - 1) * SECOND);
        // The effect of the restart.
        await produce(world.topics.main, [login('behind')]);
        await worker.kill();
        await world.started();
        await world.untilDecided(2);
        // Node's warnings are logged, and the client causes none.
        expect(worker.log().flatMap(({ warning }) => warning ?? [])).toEqual(['OtherWarning']);
      }),
  );

  const AWAY = [
    ['hangs', 'suspend'],
    ['is gone', 'kill'],
  ] as const;
  // A broker that takes connections and never answers is the harder case for the client.
  for (const [fault, begin] of process.env.FAULTS === 'all' ? AWAY : AWAY.slice(0, 1)) {
    together(`holds while Kafka ${fault}: the client keeps trying [U5]`, () =>
      inOwnWorld({ need: ['kafka'] }, { topics: { main: 1 } }, async (world, { kafka }) => {
        const { main } = world.topics;
        const worker = await world.started({ LIVENESS_SECONDS: String(LIVENESS) });
        await kafka[begin]();
        const end = Date.now() + (LIVENESS + 6) * SECOND;
        while (Date.now() < end) {
          expect(await worker.get('/livez')).toEqual({ status: 200, text: 'live\n' });
          expect((await worker.get('/readyz')).status).toBe(200);
          await sleep(SECOND);
        }
        await (begin === 'suspend' ? kafka.resume() : kafka.start());
        await until('records are taken', MINUTE, () =>
          produce(main, [login('behind')], { brokers: world.brokers }).then(
            () => true,
            () => false,
          ),
        );
        await world.untilDecided(1, MINUTE);
      }),
    );
  }
});

describe('readiness', () => {
  together(
    'does not flap while the store is away, or while other members join and leave the group [U3 U5]',
    () =>
      inOwnWorld({ need: ['postgres'] }, { topics: { main: 2 } }, async (world, { postgres }) => {
        const worker = await world.started();
        const seen = new Set<number>();
        let watching = true;
        const watch = (async () => {
          while (watching) {
            seen.add((await worker.get('/readyz')).status);
            await sleep(50);
          }
        })();
        // The first error explains more.
        watch.catch(() => undefined);
        try {
          const second = await world.started();
          await postgres.stop();
          await produce(world.topics.main, [login('meanwhile')]);
          await worker
            .waitForLog('partition is undecided')
            .catch(() => second.waitForLog('partition is undecided'));
          await second.kill();
          await until(
            'the group misses the other member',
            MINUTE,
            () => worker.logged('partitions assigned').length >= 3,
          );
          await postgres.start();
          await world.untilDecided(1, MINUTE);
        } finally {
          watching = false;
        }
        await watch;
        expect([...seen]).toEqual([200]);
      }),
  );
});

describe('a connection that is reset in the middle of an answer', () => {
  together('is discarded with the part of the answer that came, and the next connection reads on [U3]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await produce(
        world.topics.main,
        Array.from({ length: 500 }, (_, n) => login(`early-${n}`)),
      );
      const { brokers } = await withAdmin((admin) => admin.describeCluster(), world.brokers);
      let isHeld = false;
      const director: Director = {
        begins: (of) => (of === 'Fetch' && !isHeld ? { direction: 'answer', index: 0 } : null),
        held: () => {
          isHeld = true;
        },
      };
      const { tap, brokers: tapped } = await KafkaTap.open({ brokers, topics: {} }, director);
      try {
        const worker = await world.started({ KAFKA_BROKERS: tapped });
        await until('an answer is held', MINUTE, async () => isHeld);
        await tap.breakOff();
        await worker.waitForLog('Connection error: read ECONNRESET');
        await produce(world.topics.main, [login('late')]);
        // Less than the client's timeout for an answer, 15 s, and long before the client starts again.
        await world.untilDecided(501, 14 * SECOND);
        expect(await worker.stop()).toEqual({ code: 0, signal: null });
      } finally {
        await tap.close();
      }
    }),
  );
});

describe('a client that has failed for good', () => {
  /** It shares no protocol with our worker, so the group no longer accepts our worker. */
  const stranger: PartitionAssigner = () => ({
    name: 'Stranger',
    version: 0,
    assign: async ({ members }) =>
      members.map(({ memberId }) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version: 0,
          assignment: {},
          userData: Buffer.alloc(0),
        }),
      })),
    protocol: ({ topics }) => ({
      name: 'Stranger',
      metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
    }),
  });

  together('is replaced, and the fifth failure in a row ends the worker with 1', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const inTheWay = kafkaClient(world.brokers).consumer({
        groupId: world.groupId,
        partitionAssigners: [stranger],
      });
      await inTheWay.connect();
      try {
        await inTheWay.subscribe({ topic: world.topics.main });
        const joined = new Promise((resolve) => inTheWay.on('consumer.group_join', resolve));
        await inTheWay.run({ eachMessage: async () => undefined });
        await joined;
        const worker = world.start();
        expect(await worker.ending(2 * MINUTE)).toEqual({ code: 1, signal: null });
        expect(worker.logged('the Kafka client failed; creating another one')).toHaveLength(5);
        expect(worker.logged('Kafka client ended')).toHaveLength(1);
      } finally {
        await inTheWay.disconnect();
      }
      // Once the cause is gone, the worker takes its partitions.
      await produce(world.topics.main, [login('behind')]);
      await world.drain();
      expect(await world.verdicts()).toEqual({ behind: 'accepted' });
    }),
  );
});

describe('fetches', () => {
  const APART = 50;
  const RECORDS = 200;

  together('begin FETCH_INTERVAL_MS apart, and each makes at most one batch of a partition', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const worker = await world.started({ FETCH_INTERVAL_MS: String(APART), LOG_LEVEL: 'debug' });
      const began = Date.now();
      await withProducer(async (producer) => {
        for (let record = 0; record < RECORDS; record++)
          await producer.send({ topic: world.topics.main, messages: [login(`record-${record}`)] });
      });
      await world.untilDecided(RECORDS);
      const batches = worker.logged('batch decided');
      const ended = Date.parse(batches.at(-1)?.time ?? '');
      // A timer may fire a moment early. The first fetch had already begun, so the second one need not wait.
      expect(batches.length).toBeLessThanOrEqual((ended - began) / (APART - 1) + 2);
    }),
  );

  const LARGE_KEY = Buffer.alloc(80 * 1024);
  /**
   * Sends records one by one. One record is as large as the answer to a busy worker. kafkajs would take long
   * to hash the key, unless the partition is named.
   */
  const sendLarge = (topic: string, records: number, pauseMs: number) =>
    withProducer(async (producer) => {
      for (let record = 0; record < records; record++) {
        await producer.send({
          topic,
          messages: [{ ...login(`large-${record}`), partition: 0, key: LARGE_KEY }],
        });
        await sleep(pauseMs);
      }
    });

  together('begin sooner where they bring many bytes', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const worker = await world.started({ FETCH_INTERVAL_MS: String(APART), LOG_LEVEL: 'debug' });
      const records = 60;
      await sendLarge(world.topics.main, records, APART / 4);
      await world.untilDecided(records);
      const times = worker.logged('batch decided').map(({ time }) => Date.parse(time));
      const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
      expect(Math.min(...gaps)).toBeLessThan(APART / 2);
    }),
  );

  together('begin FETCH_INTERVAL_MS apart while the partition has a backlog, however much they bring', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const [fetches, recordsOfAFetch] = [8, 6];
      const records = fetches * recordsOfAFetch;
      await sendLarge(world.topics.main, records, 0);
      const worker = await world.started({ FETCH_INTERVAL_MS: String(APART), LOG_LEVEL: 'debug' });
      await world.untilDecided(records);
      const [began, ended] = [
        worker.logged('partitions assigned').at(0),
        worker.logged('batch decided').at(-1),
      ];
      const took = Date.parse(ended?.time ?? '') - Date.parse(began?.time ?? '');
      expect(took).toBeGreaterThanOrEqual((fetches - 1) * (APART - 1));
    }),
  );
});
