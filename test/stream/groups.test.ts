/** Workers that join and leave, and topics that are created and deleted. */

import { sleep, until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { aLogin, anOperator, bytesOf } from '../support/builders';
import { makeTopics, type Outgoing, produce } from '../support/kafka';
import { withClient } from '../support/ledger';
import { withAdmin } from '../support/servers';
import type { LogLine, RunningCommand } from '../support/worker';
import { sideBySide } from './side-by-side';
import { connectionOf, inWorld, type World } from './world';

const LONG = 90_000;
const together = sideBySide(8);
/** A worker begins to read new topics and partitions within this time. */
const TAKEN_UP_MS = 60_000;

const login = (event_id: string, partition = 0, more = {}): Outgoing => ({
  value: bytesOf(aLogin({ event_id, ...more })),
  partition,
});
const assigned =
  (count: number) =>
  ({ msg, partitions }: LogLine): boolean =>
    msg === 'partitions assigned' && Array.isArray(partitions) && partitions.length === count;
const lastAssigned = (worker: RunningCommand): number => {
  const partitions = worker.logged('partitions assigned').at(-1)?.partitions;
  return Array.isArray(partitions) ? partitions.length : -1;
};

/**
 * Sends to four partitions several times a second.
 * @returns a function that ends the load and returns how many records each partition got
 */
function startLoad(topic: string): () => Promise<number> {
  const [records, pauseMs] = [50, 200];
  let goesOn = true;
  let each = 0;
  const sending = (async () => {
    for (; goesOn; each += records) {
      const ofPartition = (partition: number) =>
        Array.from({ length: records }, (_, n) => login(`p${partition}-${each + n}`, partition));
      await produce(topic, [0, 1, 2, 3].flatMap(ofPartition));
      await sleep(pauseMs);
    }
  })();
  // The function that ends the load reports the error.
  sending.catch(() => undefined);
  return async () => {
    goesOn = false;
    await sending;
    return each;
  };
}

describe('workers that join and leave under load', () => {
  together('lose no event, and records that are read twice are no duplicates [U1 K3]', () =>
    inWorld({ topics: { main: 4 }, settings: { BATCH_EVENTS: '20' } }, async (world) => {
      const { main } = world.topics;
      const stopLoad = startLoad(main);
      let each = 0;
      try {
        const first = await world.started();
        await world.untilDecided(200);
        const second = await world.started();
        await first.waitForLog(assigned(2));
        const third = await world.started();
        expect(await first.stop()).toEqual({ code: 0, signal: null });
        expect(await third.stop()).toEqual({ code: 0, signal: null });
        await second.waitForLog(({ msg }) => msg === 'partitions assigned' && lastAssigned(second) === 4);
      } finally {
        each = await stopLoad();
      }
      await world.untilDecided(4 * each, LONG);
      await until('all offsets are committed', LONG, async () =>
        (await world.committed(main)).every((offset) => offset === each),
      );
      expect(await world.balance()).toEqual({ records: 4 * each, accepted: 4 * each });
    }),
  );
});

describe('an undecided and full partition in a rebalance', () => {
  together('is read again by its next owner, which waits 1 s and decides once the store can [U2]', () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      const mebibyte = 'x'.repeat(1024 * 1024);
      await produce(main, [login('first', 0), login('first-1', 1)]);
      const patient = await world.started();
      await world.untilDecided(2);
      const waits = (worker: RunningCommand) =>
        worker.logged('partition is undecided').map(({ waitMs }) => Number(waitMs) / 1_000);
      await withClient(world.databaseUrl, async (holder) => {
        await holder.query('begin');
        await holder.query(
          'select from promo_store.partitions where topic = $1 and partition = 0 for update',
          [main],
        );
        // More than a worker keeps of one partition, so that the partition is paused.
        for (let n = 0; n < 8; n++) await produce(main, [login(`big-${n}`, 0, { padding: mebibyte })]);
        await until('the partition has waited twice', LONG, () => waits(patient).length >= 2);
        const guest = await world.started();
        await patient.waitForLog(assigned(1));
        await until('the new owner has waited', LONG, () =>
          [patient, guest].some((worker) => waits(worker).length > 0 && lastAssigned(worker) === 1),
        );
        expect(await guest.stop()).toEqual({ code: 0, signal: null });
        await until('the partition is assigned again', LONG, () => lastAssigned(patient) === 2);
        const before = waits(patient).length;
        await until('the partition waits again', LONG, () => waits(patient).length > before);
        expect(waits(patient)[before]).toBe(1);
        expect(waits(patient).slice(0, 2)).toEqual([1, 2]);
        await holder.query('rollback');
      });
      await world.untilDecided(10, LONG);
      await until(
        'all offsets are committed',
        LONG,
        async () => (await world.committed(main)).join() === '9,1',
      );
      expect(await world.balance()).toEqual({ records: 10, accepted: 10 });
    }),
  );
});

describe('topics', () => {
  together('new partitions of a topic are read within 60 s [U6]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, [login('old')]);
      await world.started();
      await world.untilDecided(1);
      await withAdmin((admin) => admin.createPartitions({ topicPartitions: [{ topic: main, count: 3 }] }));
      await until('the partitions can be written', LONG, async () => {
        try {
          await produce(main, [login('new-1', 1), login('new-2', 2)]);
          return true;
        } catch {
          return false;
        }
      });
      await world.untilDecided(3, TAKEN_UP_MS);
    }),
  );

  together(
    'a missing topic is reported once, stops no other topic, and is read within 60 s of its creation [U6]',
    () =>
      inWorld<'main'>(
        {
          topics: { main: 1 },
          operators: ({ main }) => [
            anOperator({ connections: [connectionOf(main), connectionOf(`${main}.later`)] }),
          ],
        },
        async (world) => {
          const { main } = world.topics;
          const later = `${main}.later`;
          await produce(main, [login('present')]);
          const worker = await world.started();
          await world.untilDecided(1);
          // Long enough for a second check.
          await sleep(22_000);
          const missing = worker.logged('topic does not exist; it is read once it exists');
          expect(missing.map(({ topic }) => topic)).toEqual([later]);
          const isMissing = async (topic: string) => {
            const { text } = await worker.get('/metrics');
            return new RegExp(`^promo_intake_missing_topics\\{topic="${topic}"\\} (.*)$`, 'm').exec(
              text,
            )?.[1];
          };
          expect([await isMissing(main), await isMissing(later)]).toEqual(['0', '1']);
          await makeTopics({ [later]: { partitions: 2 } });
          await produce(later, [login('later-0', 0), login('later-1', 1)]);
          await world.untilDecided(3, TAKEN_UP_MS);
          expect(await isMissing(later)).toBe('0');
          await withAdmin((admin) => deleteTopics(admin, [later]));
        },
      ),
  );

  together('new reference data adds and removes topics of running workers within 60 s [U6 C6] [C9]', () =>
    inWorld<'first' | 'second'>(
      {
        topics: { first: 1, second: 1 },
        operators: ({ first }) => [anOperator({ connections: [connectionOf(first)] })],
      },
      async (world) => {
        const { first, second } = world.topics;
        await produce(first, [login('first')]);
        await produce(second, [login('second')]);
        await world.started();
        await world.untilDecided(1);
        await world.apply([anOperator({ connections: [connectionOf(second)] })]);
        await world.untilDecided(2, TAKEN_UP_MS);
        await produce(first, [login('first-later')]);
        await sleep(1_000);
        expect(await world.verdicts()).toEqual({ first: 'accepted', second: 'accepted' });
      },
    ),
  );

  together('workers read exactly the topics of KAFKA_TOPICS, whatever the reference data names [U6]', () =>
    inWorld({ topics: { first: 1, second: 1 } }, async (world) => {
      const { first, second } = world.topics;
      await produce(first, [login('first')]);
      await produce(second, [login('second')]);
      await world.drain({ KAFKA_TOPICS: second });
      expect(await world.verdicts()).toEqual({ second: 'accepted' });
      await world.drain({ KAFKA_TOPICS: `${first}, ${second}` });
      expect(await world.verdicts()).toEqual({ first: 'accepted', second: 'accepted' });
    }),
  );

  together('records of a topic in KAFKA_TOPICS that no connection names become dead letters [S4]', () =>
    inWorld<'main' | 'stray'>(
      {
        topics: { main: 1, stray: 1 },
        operators: ({ main }) => [anOperator({ connections: [connectionOf(main)] })],
      },
      async (world) => {
        const { main, stray } = world.topics;
        await produce(stray, [login('stray')]);
        await world.drain({ KAFKA_TOPICS: `${main},${stray}` });
        expect(await world.balance()).toEqual({ records: 1, dead_letters: 1 });
      },
    ),
  );

  together('a worker does not read the topics that it writes to [S5]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { deadLetterTopic } = world;
      const { main } = world.topics;
      await makeTopics({ [deadLetterTopic]: { partitions: 1 } });
      await produce(deadLetterTopic, [login('a dead letter')]);
      await produce(main, [login('e')]);
      await world.apply([anOperator({ connections: [connectionOf(main), connectionOf(deadLetterTopic)] })]);
      const worker = await world.drain();
      expect(await world.balance()).toEqual({ records: 1, accepted: 1 });
      expect(worker.logged('topic ignored: this worker writes to it')).toMatchObject([
        { topic: deadLetterTopic },
      ]);
    }),
  );

  together(
    'a topic that is deleted and created again starts at offset 0: its new records are decided, and other topics continue [K3 U6]',
    () => inWorld({ topics: { main: 1, other: 1 } }, (world) => madeAgain(world)),
  );
});

async function madeAgain(world: World<'main' | 'other'>): Promise<void> {
  const { main, other } = world.topics;
  await produce(
    main,
    [0, 1, 2, 3].map((n) => login(`old-${n}`)),
  );
  const worker = await world.started();
  await world.untilDecided(4);
  await until('all offsets are committed', LONG, async () => (await world.committed(main))[0] === 4);

  await withAdmin((admin) => deleteTopics(admin, [main]));
  await produce(other, [login('other-1')]);
  const began = Date.now();
  await world.untilDecided(5, TAKEN_UP_MS);
  expect(Date.now() - began).toBeLessThan(19_000);

  await until('the topic is gone', LONG, () =>
    withAdmin(async (admin) => !(await admin.listTopics()).includes(main)),
  );
  await makeTopics({ [main]: { partitions: 1 } });
  // Another event takes the place of old-0. old-1 is sent again, at another offset than before.
  await produce(main, [login('new-0'), login('new-1'), login('old-1')]);
  await world.untilDecided(7, TAKEN_UP_MS);
  await until('all offsets are committed', LONG, async () => (await world.committed(main))[0] === 3);
  expect(await world.balance(main)).toEqual({ records: 7, accepted: 6, duplicate_deliveries: 1 });
  expect(worker.hasEnded()).toBe(false);
}
