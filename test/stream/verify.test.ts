/** `promo-intake verify` on real servers: silent on sound data, with a sentence for each damage. */

import { gzipSync } from 'node:zlib';
import { sleep, until } from '../../dev/servers/deadline';
import { aBet, aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce, produceInTransaction, withProducer } from '../support/kafka';
import { encodeBatch, encodeRecords, produceRaw, sealed } from '../support/record-batch';
import { withAdmin } from '../support/servers';
import { RunningCommand } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inWorld, type World } from './world';

const GZIP = 1;

const logins = (count: number, name: string): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({ value: bytesOf(aLogin({ event_id: `${name}-${n}` })) }));

async function verify({ settings }: World<string>): Promise<{ code: number | null; lines: string[] }> {
  const { KAFKA_BROKERS, KAFKA_GROUP_ID, DATABASE_URL } = settings;
  const command = new RunningCommand(['verify'], { KAFKA_BROKERS, KAFKA_GROUP_ID, DATABASE_URL });
  const { code } = await command.ending(100_000);
  return { code, lines: command.output().trim().split('\n') };
}

/**
 * Two records of an aborted transaction. The broker writes the marker after its answer, so the function waits
 * for it: later records must come after the marker.
 */
async function aborted(world: World<string>, topic: string): Promise<void> {
  const [end = 0] = await world.ends(topic);
  await produceInTransaction(topic, logins(2, 'aborted'), 'abort');
  await until('the marker is written', 60_000, async () => (await world.ends(topic))[0] === end + 3);
}

/** Sets the offset as an operator does who moves the group by hand. */
const setOffset = ({ groupId }: World<string>, topic: string, offset: number): Promise<void> =>
  withAdmin((admin) =>
    admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: String(offset) }] }),
  );

const together = sideBySide();

describe('verify', () => {
  together(
    'finds no problem beside running workers, and explains offsets that hold no record [U1] [D3]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const { main } = world.topics;
        await produce(main, logins(3, 'a'));
        await aborted(world, main);
        await produceInTransaction(main, [...logins(2, 'a'), { value: 'no json' }], 'commit');
        await world.drain();
        // The last record is followed by a marker, which is committed and unknown to the store.
        expect(await world.committed(main)).toEqual([10]);
        expect(await verify(world)).toEqual({
          code: 0,
          lines: [
            [
              `${main}/0: 6 records decided, up to offset 9`,
              '10 is committed, 10 is the end',
              '6 of 9 offsets from 0 on hold decided records',
              '3 do not: markers, aborted or compacted records, the rest of unreadable batches, or rows of dropped months',
            ].join('; '),
            'sound',
          ],
        });

        const worker = await world.started();
        await produce(main, logins(2_000, 'more'));
        const during = await verify(world);
        expect(during).toMatchObject({ code: 0, lines: [expect.stringContaining(`${main}/0: `), 'sound'] });
        await worker.stop();
      }),
  );

  together('takes no record that comes while it runs for one of a deleted topic [U1]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      const worker = await world.started();
      await produce(main, logins(1, 'first'));
      await until('a record is decided', 60_000, async () => (await world.committed(main))[0] === 1);
      let isVerified = false;
      const sending = withProducer(async (producer) => {
        for (let n = 0; !isVerified; n++) {
          await producer.send({ topic: main, acks: -1, messages: logins(5, `during-${n}`) });
          await sleep(2);
        }
      });
      const { code, lines } = await verify(world).finally(() => {
        isVerified = true;
      });
      await sending;
      expect(lines.filter((line) => line.includes('created again'))).toEqual([]);
      expect({ code, last: lines.at(-1) }).toEqual({ code: 0, last: 'sound' });
      await worker.stop();
    }),
  );

  together(
    'names records that were committed and not decided, and contradictions within the store [U1] [D3]',
    () =>
      inWorld({ topics: { main: 1, other: 2 } }, async (world) => {
        const { main, other } = world.topics;
        await produce(main, logins(3, 'a'));
        await produce(other, logins(1, 'other'));
        await world.drain();
        await aborted(world, main);
        await produce(main, logins(4, 'passed'));
        await setOffset(world, main, 8);
        await world.pool.query(`delete from promo_store.history where event_id = 'a-1'`);
        const { code, lines } = await verify(world);
        expect(code).toBe(1);
        expect(lines.sort()).toEqual([
          expect.stringMatching(
            /^I1 .+: a-1: the event is decided \(verdict_id \d+\) and has no verdict, though/,
          ),
          `I2 ${main}/0: offset 8 is committed, but 2 records before it are not decided, the first at offset 6`,
          'not sound: 2 problems are listed above',
          `${main}/0: 3 records decided, up to offset 3; 8 is committed, 10 is the end; 3 of 3 offsets from 0 on hold decided records`,
          `${other}/0: 1 record decided, up to offset 1; 1 is committed, 1 is the end; 1 of 1 offsets from 0 on hold decided records`,
        ]);
        // The remaining data has to be sound.
        await world.pool.query(
          'truncate promo_store.history, promo_store.event_keys, promo_store.partitions',
        );
      }),
  );

  together('prints the id of a round with escape sequences escaped, within its own line [D3]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const hostile = '\x1b[2K\x9b1A\u202e\nsound';
      await produce(world.topics.main, [{ value: bytesOf(aBet({ round_id: hostile })) }]);
      await world.drain();
      await world.pool.query('update promo_store.rounds set bet_minor = bet_minor + 1');
      const { code, lines } = await verify(world);
      expect(code).toBe(1);
      expect(lines.filter((line) => !/^[\t -~]*$/.test(line))).toEqual([]);
      expect(lines).not.toContain('sound');
      expect(lines).toContainEqual(expect.stringContaining('\\u001b[2K\\u009b1A\\u202e'));
      // The remaining data has to be sound.
      await world.pool.query('update promo_store.rounds set bet_minor = bet_minor - 1');
    }),
  );

  together(
    'names committed records of a topic that the store does not know, as after a restore [U1] [D3]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const { main } = world.topics;
        await produce(main, logins(3, 'lost'));
        await setOffset(world, main, 3);
        expect(await verify(world)).toEqual({
          code: 1,
          lines: [
            `I2 ${main}/0: offset 3 is committed, but 3 records before it are not decided, the first at offset 0`,
            'not sound: 1 problem is listed above',
          ],
        });
      }),
  );

  together(
    'names records that were passed over and left undecided, once the records behind them are decided [U1] [D3]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const { main } = world.topics;
        await produce(main, logins(2, 'a'));
        await world.drain();
        await aborted(world, main);
        await produce(main, logins(3, 'passed'));
        await setOffset(world, main, 7);
        await produce(main, logins(2, 'b'));
        await world.drain();
        const { code, lines } = await verify(world);
        expect([code, ...lines.sort()]).toEqual([
          1,
          `I2 ${main}/0: offset 10 is committed, but 2 records before it are not decided, the first at offset 5`,
          'not sound: 1 problem is listed above',
          expect.stringContaining(`${main}/0: 5 records decided, up to offset 10; `),
        ]);

        const { KAFKA_BROKERS, KAFKA_GROUP_ID, DATABASE_URL } = world.settings;
        const range = ['--topic', main, '--partition', '0', '--from-offset', '5', '--to-offset', '6'];
        const replay = new RunningCommand(['replay', ...range, '--confirm'], {
          KAFKA_BROKERS,
          KAFKA_GROUP_ID,
          DATABASE_URL,
        });
        expect((await replay.ending(100_000)).code).toBe(0);
        expect(await verify(world)).toMatchObject({ code: 0, lines: [expect.anything(), 'sound'] });
      }),
  );

  together('counts records that were committed and not decided, however many came in one batch', () =>
    // The records are from 1970: with any retention, the broker deletes them at its next check.
    inWorld({ topics: { main: { partitions: 1, config: { 'retention.ms': '-1' } } } }, async (world) => {
      const { main } = world.topics;
      const many = 200_000;
      await produce(main, logins(1, 'a'));
      await world.drain();
      const records = Array.from({ length: many }, () => ({ value: Buffer.from('x') }));
      const body = gzipSync(encodeRecords(records));
      await produceRaw(
        world.brokers[0] ?? '',
        main,
        sealed(encodeBatch({ attributes: GZIP, records, body })),
      );
      await setOffset(world, main, many + 1);
      const { code, lines } = await verify(world);
      expect(code).toBe(1);
      expect(lines).toContain(
        `I2 ${main}/0: offset ${many + 1} is committed, but ${many} records before it are not decided, the first at offset 1`,
      );
    }),
  );
});
