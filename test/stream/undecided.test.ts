/**
 * Records that cannot be decided now wait: for Postgres, for a lock, for the dead-letter topic, for the
 * registry. All other records are decided. A test that stops Postgres has a Postgres of its own.
 */
import { sleep, until } from '../../dev/servers/deadline';
import { aBrand, aLogin, anOperator, bytesOf } from '../support/builders';
import { alterTopic, type Outgoing, produce, readTopic } from '../support/kafka';
import { withClient } from '../support/ledger';
import { schemaRegistryUrl } from '../support/servers';
import type { LogLine, RunningCommand } from '../support/worker';
import { throughLine } from './line';
import { framed, TestRegistry } from './registry';
import { sideBySide } from './side-by-side';
import { connectionOf, inOwnWorld, inWorld } from './world';

const LONG = 60_000;
const together = sideBySide(5);
const SECOND = 1_000;

const login = (event_id: string, partition = 0): Outgoing => ({
  value: bytesOf(aLogin({ event_id })),
  partition,
});

interface Wait {
  readonly waitMs: number;
  readonly at: number;
  readonly partition: number;
}
const waitOf = ({ waitMs, time, partition }: LogLine): Wait => ({
  waitMs: Number(waitMs),
  at: Date.parse(time),
  partition: Number(partition),
});
const waitsOf = (worker: RunningCommand) => worker.logged('partition is undecided').map(waitOf);
const assignments = (worker: RunningCommand) => worker.logged('partitions assigned').length;

describe('Postgres stopped', () => {
  together(
    'every partition waits 1, 2, 4, 8 s and stays with its member; once Postgres is back, all records are decided [U2 U3 U5]',
    () =>
      inOwnWorld({ need: ['postgres'] }, { topics: { main: 2 } }, async (world, { postgres }) => {
        const { main } = world.topics;
        await produce(main, [login('before-0', 0), login('before-1', 1)]);
        const workers = [await world.started(), world.start()];
        await Promise.all(
          workers.map((worker) =>
            worker.waitForLog(
              ({ msg, partitions }) =>
                msg === 'partitions assigned' && Array.isArray(partitions) && partitions.length === 1,
            ),
          ),
        );
        await world.untilDecided(2);
        const assigned = workers.map(assignments);

        await postgres.stop();
        await produce(main, [login('meanwhile-0', 0)]);
        // The worker that recovers first must not take the other one, which still waits, for dead.
        await until('one partition has waited three times', 40 * SECOND, () =>
          workers.some((worker) => waitsOf(worker).length >= 3),
        );
        await produce(main, [login('meanwhile-1', 1)]);
        await until('both partitions have waited four times', 40 * SECOND, () =>
          workers.every((worker) => waitsOf(worker).length >= 4),
        );
        const [health] = await Promise.all(workers.map((worker) => worker.get('/livez')));
        expect(health?.status).toBe(200);
        expect(await workers[0]?.metric('promo_intake_undecided_partitions')).toBe(1);
        // It has 8 s to start, before a further try.
        await postgres.start();
        await world.untilDecided(4, 40 * SECOND);
        await Promise.all(workers.map((worker) => worker.waitForLog('partition is no longer undecided')));

        for (const worker of workers) {
          const waits = waitsOf(worker);
          expect(waits.slice(0, 4).map(({ waitMs }) => waitMs)).toEqual([1_000, 2_000, 4_000, 8_000]);
          // The time from one logged failure to the next covers the wait and the next try. The try fails at
          // once, because no server listens. A busy machine may be seconds late.
          for (const [index, { at, waitMs }] of waits.slice(0, 3).entries()) {
            const measured = (waits[index + 1]?.at ?? 0) - at;
            expect(measured).toBeGreaterThanOrEqual(waitMs - 20);
            expect(measured).toBeLessThan(waitMs + 10 * SECOND);
          }
        }
        expect(workers.map(assignments)).toEqual(assigned);
        expect(await world.balance()).toEqual({ records: 4, accepted: 4 });
        await until(
          'all offsets are committed',
          LONG,
          async () => (await world.committed(main)).join() === '2,2',
        );
        expect(await Promise.all(workers.map((worker) => worker.stop()))).toEqual(
          [0, 0].map((code) => ({ code, signal: null })),
        );
      }),
  );

  together('SIGTERM ends the wait at once [U2]', () =>
    inOwnWorld({ need: ['postgres'] }, { topics: { main: 1 } }, async (world, { postgres }) => {
      await produce(world.topics.main, [login('before')]);
      const worker = await world.started();
      await world.untilDecided(1);
      await until(
        'the record is committed',
        LONG,
        async () => (await world.committed(world.topics.main))[0] === 1,
      );
      await postgres.stop();
      await produce(world.topics.main, [login('meanwhile')]);
      await worker.waitForLog(
        ({ msg, waitMs }) => msg === 'partition is undecided' && waitMs === 16_000,
        LONG,
      );
      const began = Date.now();
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      expect(Date.now() - began).toBeLessThan(12 * SECOND);
      expect(await world.committed(world.topics.main)).toEqual([1]);
      await postgres.start();
      await world.drain();
      expect(await world.verdicts()).toEqual({ before: 'accepted', meanwhile: 'accepted' });
    }),
  );
});

describe('Postgres ended in the middle of the load', () => {
  together('by its operator and by a crash: the worker survives, and decides every event once [U1 U2]', () =>
    inOwnWorld({ need: ['postgres'] }, { topics: { main: 4 } }, async (world, { postgres }) => {
      const { main } = world.topics;
      const each = 1_000;
      for (let partition = 0; partition < 4; partition++) {
        await produce(
          main,
          Array.from({ length: each }, (_, n) => login(`p${partition}-${n}`, partition)),
        );
      }
      const worker = await world.started({ BATCH_EVENTS: '10' });
      await world.untilDecided(300);
      await postgres.stop();
      await postgres.start();
      await world.untilDecided(1_000);
      await postgres.kill();
      await postgres.start();
      await world.untilDecided(4 * each, LONG);
      await until('all offsets are committed', LONG, async () =>
        (await world.committed(main)).every((offset) => offset === each),
      );
      expect(worker.hasEnded()).toBe(false);
      // A transaction whose commit was not answered may have been stored: its records are then read again.
      expect(await world.balance()).toEqual({ records: 4 * each, accepted: 4 * each });
    }),
  );
});

describe('Postgres hangs', () => {
  together(
    'in the middle of the load, for longer than the worker waits for an answer: the worker survives, and decides every event once [U1 U2]',
    () =>
      inOwnWorld({ need: ['postgres'] }, { topics: { main: 8 } }, async (world, { postgres }) => {
        const { main } = world.topics;
        const each = 500;
        const partitions = Array.from({ length: 8 }, (_, partition) => partition);
        for (const partition of partitions) {
          await produce(
            main,
            Array.from({ length: each }, (_, n) => login(`p${partition}-${n}`, partition)),
          );
        }
        const worker = await world.started({ BATCH_EVENTS: '5', PARTITIONS_AT_ONCE: '8' });
        await world.untilDecided(300);
        // Each of the eight transactions may be at any statement: its answer arrives after the timeout.
        await postgres.suspend();
        await sleep(12 * SECOND);
        await postgres.resume();
        await world.untilDecided(8 * each, LONG);
        await until('all offsets are committed', LONG, async () =>
          (await world.committed(main)).every((offset) => offset === each),
        );
        expect(worker.hasEnded()).toBe(false);
        expect(await world.balance()).toEqual({ records: 8 * each, accepted: 8 * each });
      }),
  );

  together(
    'SIGTERM ends the worker within SHUTDOWN_SECONDS, a second SIGTERM at once; no event is lost',
    () =>
      inOwnWorld({ need: ['postgres'] }, { topics: { main: 1 } }, async (world, { postgres }) => {
        const { main } = world.topics;
        const hangs = async (event: string, seconds: string) => {
          const worker = await world.started({ SHUTDOWN_SECONDS: seconds });
          await postgres.suspend();
          await produce(main, [login(event)]);
          // Long enough for the record to be fetched and to wait for Postgres; no message reports this.
          await sleep(3 * SECOND);
          return worker;
        };

        const patient = await hangs('first', '4');
        expect(await patient.stop()).toEqual({ code: 1, signal: null });
        const at = (line: string) => Date.parse(patient.logged(line)[0]?.time ?? '');
        const took = at('stopped at the deadline; records in flight are read again') - at('signal received');
        expect(took).toBeGreaterThan(3 * SECOND);
        // A busy machine may be seconds late. Without a deadline, the worker would wait for ever.
        expect(took).toBeLessThan(15 * SECOND);
        expect(patient.logged('stopped at the deadline; records in flight are read again')).toHaveLength(1);
        expect(patient.logged('connections did not close in time, dropping them')).toHaveLength(1);
        await postgres.resume();

        const hurried = await hangs('second', '60');
        hurried.signal('SIGTERM');
        await hurried.waitForLog('signal received');
        const began = Date.now();
        hurried.signal('SIGTERM');
        expect(await hurried.ending()).toEqual({ code: 1, signal: null });
        // Far less than the 60 s that the first signal allows.
        expect(Date.now() - began).toBeLessThan(15 * SECOND);
        await postgres.resume();

        await world.drain();
        expect(await world.verdicts()).toEqual({ first: 'accepted', second: 'accepted' });
      }),
  );
});

describe('a partition that is locked', () => {
  together('is undecided, and the other partitions continue [U2 U3]', () =>
    inWorld({ topics: { main: 4 } }, async (world) => {
      const { main } = world.topics;
      const onAll = (name: string) =>
        [0, 1, 2, 3].map((partition) => login(`${name}-${partition}`, partition));
      await produce(main, onAll('first'));
      const worker = await world.started();
      await world.untilDecided(4);
      await withClient(world.databaseUrl, async (holder) => {
        await holder.query('begin');
        await holder.query(
          'select * from promo_store.partitions where topic = $1 and partition = 0 for update',
          [main],
        );
        await produce(main, onAll('second'));
        await worker.waitForLog('partition is undecided');
        await produce(main, onAll('third'));
        await world.untilDecided(10);
        await until(
          'the record is committed',
          LONG,
          async () => (await world.committed(main)).join() === '1,3,3,3',
        );
        const [wait] = worker.logged('partition is undecided');
        expect(wait).toMatchObject({ partition: 0, waitMs: 1_000 });
        expect(wait?.error).toMatch(/lock/);
        await holder.query('rollback');
      });
      await world.untilDecided(12);
      expect(new Set(waitsOf(worker).map(({ partition }) => partition))).toEqual(new Set([0]));
      expect(await world.balance()).toEqual({ records: 12, accepted: 12 });
      expect(assignments(worker)).toBe(1);
    }),
  );
});

describe('a dead-letter topic that refuses', () => {
  together(
    'leaves the record undecided until it accepts: records before it are decided, and other partitions continue [S6 U3]',
    () =>
      inWorld(
        {
          topics: { shared: 2 },
          operators: ({ shared }) =>
            ['acme', 'bravo'].map((id) =>
              anOperator({ id, connections: [connectionOf(shared, { id })], brands: [aBrand()] }),
            ),
        },
        async (world) => {
          const { shared } = world.topics;
          const claimed = (event: string, partition = 0) => ({
            ...login(event, partition),
            headers: { 'connection-id': 'acme' },
          });
          const worker = await world.started();
          await alterTopic(world.deadLetterTopic, { 'max.message.bytes': '1' });
          await produce(shared, [
            ...[claimed('before-1'), claimed('before-2'), login('unclaimed'), claimed('behind')],
            ...[claimed('other-1', 1), claimed('other-2', 1)],
          ]);
          await world.untilDecided(4);
          await until(
            'the decided records are committed',
            LONG,
            async () => (await world.committed(shared)).join() === '2,2',
          );
          await until('the dead letter is retried', LONG, () => waitsOf(worker).length >= 2);
          expect(Object.keys(await world.verdicts()).sort()).toEqual([
            'before-1',
            'before-2',
            'other-1',
            'other-2',
          ]);
          expect(await world.balance()).toEqual({ records: 4, accepted: 4 });
          const [wait] = worker.logged('partition is undecided');
          expect(wait).toMatchObject({
            ...{ partition: 0, waitMs: 1_000 },
            error: expect.stringContaining(
              `--topic ${world.deadLetterTopic} --add-config max.message.bytes=`,
            ),
          });

          await alterTopic(world.deadLetterTopic, { 'max.message.bytes': '1000000' });
          await world.untilDecided(5, LONG);
          const letters = await readTopic(world.deadLetterTopic);
          expect(letters.map(({ headers }) => headers['source-offset'])).toEqual([['2']]);
          expect(await world.balance()).toEqual({ records: 6, accepted: 5, dead_letters: 1 });
        },
      ),
  );
});

describe('a registry that is away', () => {
  together(
    'leaves its records undecided, and other records continue; once it is back, they are decided [S3 U3]',
    async () => {
      const id = await new TestRegistry(schemaRegistryUrl()).jsonSchema();
      const { line, address } = await throughLine(schemaRegistryUrl());
      line.become('broken');
      try {
        await inWorld({ topics: { main: 2 }, settings: { SCHEMA_REGISTRY_URL: address } }, async (world) => {
          const { main } = world.topics;
          await produce(main, [
            ...[
              login('before'),
              { value: framed(id, bytesOf(aLogin({ event_id: 'framed' }))) },
              login('behind'),
            ],
            login('other', 1),
          ]);
          const worker = await world.started();
          await world.untilDecided(2);
          await until('the dead letter is retried', LONG, () => waitsOf(worker).length >= 2);
          expect(Object.keys(await world.verdicts()).sort()).toEqual(['before', 'other']);
          line.become('open');
          await world.untilDecided(4);
          expect(new Set(Object.values(await world.verdicts()))).toEqual(new Set(['accepted']));
          expect(await world.balance()).toEqual({ records: 4, accepted: 4 });
        });
      } finally {
        await line.close();
      }
    },
  );
});

describe('a registry that is away: an unclaimed record', () => {
  together('is a dead letter, and delays no other record', async () => {
    const { line, address } = await throughLine(schemaRegistryUrl());
    line.become('broken');
    try {
      await inWorld(
        {
          topics: { shared: 1 },
          operators: ({ shared }) =>
            ['acme', 'bravo'].map((id) =>
              anOperator({ id, connections: [connectionOf(shared, { id })], brands: [aBrand()] }),
            ),
          settings: { SCHEMA_REGISTRY_URL: address },
        },
        async (world) => {
          const { shared } = world.topics;
          const claimed = { headers: { 'connection-id': 'acme' } };
          await produce(shared, [
            { value: framed(7, bytesOf(aLogin({ event_id: 'unclaimed' }))) },
            { ...login('behind'), ...claimed },
            { value: framed(7, bytesOf(aLogin({ event_id: 'framed' }))), ...claimed },
          ]);
          const worker = await world.started();
          await world.untilDecided(1);
          await worker.waitForLog('partition is undecided');
          expect(await world.verdicts()).toEqual({ behind: 'accepted' });
          expect(await world.balance()).toEqual({ records: 2, accepted: 1, dead_letters: 1 });
          const [letter] = await readTopic(world.deadLetterTopic);
          expect(letter?.headers['dead-letter-reason']).toEqual(['unclaimed']);
          expect(worker.logged('partition is undecided')[0]?.error).toMatch(/registry/);
        },
      );
    } finally {
      await line.close();
    }
  });
});

describe('at the start', () => {
  together('Postgres may start later than its worker, which answers health checks from the start [U5]', () =>
    inOwnWorld({ need: ['postgres'] }, { topics: { main: 1 } }, async (world, { postgres }) => {
      await produce(world.topics.main, [login('e')]);
      await postgres.stop();
      const worker = world.start();
      expect(await worker.get('/livez')).toEqual({ status: 200, text: 'live\n' });
      expect((await worker.get('/readyz')).status).toBe(503);
      expect((await worker.get('/metrics')).status).toBe(200);
      await worker.waitForLog('Postgres is not ready, retrying');
      await postgres.start();
      await world.untilDecided(1);
      expect((await worker.get('/readyz')).status).toBe(200);
    }),
  );

  together('SIGTERM ends the wait for Kafka', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const worker = world.start({ KAFKA_BROKERS: '127.0.0.1:1' });
      await worker.waitForLog('Kafka is not ready, retrying');
      const began = Date.now();
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      // It would wait for 2 s at a time, and give up after 60 s.
      expect(Date.now() - began).toBeLessThan(15 * SECOND);
    }),
  );
});
