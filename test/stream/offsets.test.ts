/**
 * The order of commits: offsets after decisions, decisions across crashes, the end of `--drain`. Each test
 * has worlds of its own. The tests run side by side, since most of their time is waiting.
 */

import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { VERDICT_SPEC } from '../../src/publishing/outcome';
import { aDeposit, aLogin, bytesOf } from '../support/builders';
import {
  alterTopic,
  type OpenTransaction,
  type Outgoing,
  openTransaction,
  produce,
  produceInTransaction,
  readTopic,
} from '../support/kafka';
import { withAdmin } from '../support/servers';
import { sideBySide } from './side-by-side';
import { inWorld } from './world';

const logins = (count: number, name = 'e', partition = 0): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({
    value: bytesOf(aLogin({ event_id: `${name}-${n}` })),
    partition,
  }));

const LONG = 60_000;
const together = sideBySide();

describe('a verdict', () => {
  together(
    'that is too large for its topic names its event by the key instead of the id, and the partition continues [S7]',
    () =>
      inWorld({ topics: { main: 1, verdicts: 1 } }, async (world) => {
        const { main, verdicts } = world.topics;
        await alterTopic(verdicts, { 'max.message.bytes': '2000' });
        const long = `long-${'x'.repeat(1_500)}`;
        await produce(main, [
          ...logins(2),
          { value: bytesOf(aLogin({ event_id: long })) },
          ...logins(1, 'f'),
        ]);
        await world.drain({ VERDICT_TOPIC: verdicts });
        const published = (await readTopic(verdicts)).map(({ value }) => JSON.parse(value?.toString() ?? ''));
        const key = await world.rows('select encode(promo_store.id_key($1), $2)', [long, 'hex']);
        expect(published.map((message) => message.event_id ?? message.event_key).sort()).toEqual(
          ['e-0', 'e-1', 'f-0', key[0]?.[0]].sort(),
        );
        expect(published.every(({ verdict }) => verdict === 'accepted')).toBe(true);
      }),
  );
});

describe('a crash', () => {
  together(
    'between the transaction and the offset commit loses nothing, and records that are read again are no duplicates [U1 K3]',
    () =>
      inWorld({ topics: { main: 1, verdicts: 1 } }, async (world) => {
        const { main, verdicts } = world.topics;
        const settings = { VERDICT_TOPIC: verdicts };
        // No verdict fits into the topic. A decided record is then not published, and an unpublished record
        // is not committed.
        await alterTopic(verdicts, { 'max.message.bytes': '1' });
        await produce(main, [
          ...logins(3),
          { value: bytesOf(aDeposit({ event_id: 'e-0' })) },
          { value: 'no json' },
        ]);
        const worker = await world.started(settings);
        await world.untilDecided(3);
        await worker.waitForLog('partition is undecided');
        expect(await world.committed(main)).toEqual([-1]);
        await worker.kill();
        const before = await world.rows('select * from promo.verdicts order by event_id');

        await alterTopic(verdicts, { 'max.message.bytes': '1000000' });
        await world.drain(settings);
        expect(await world.rows('select * from promo.verdicts order by event_id')).toEqual(before);
        expect(await world.committed(main)).toEqual([5]);
        expect(await world.balance()).toEqual({
          records: 5,
          accepted: 3,
          duplicate_deliveries: 1,
          events_without_key: 1,
        });
        expect(await world.redeliveries()).toBeGreaterThanOrEqual(5);
        expect(await world.rows('select count(*) from promo.deliveries')).toEqual([['1']]);
        const published = (await readTopic(verdicts)).map(({ value }) => JSON.parse(value?.toString() ?? ''));
        expect(published).toEqual([
          ...[0, 1, 2].map((n) =>
            expect.objectContaining({ spec: VERDICT_SPEC, event_id: `e-${n}`, verdict: 'accepted' }),
          ),
          expect.objectContaining({ event_id: 'e-0', verdict: 'duplicate', content_differs: true }),
          expect.objectContaining({ event_id: null, reason: 'no_idempotency_key' }),
        ]);
      }),
  );

  together(
    'in the middle of the load: every record has a verdict in the topic, and repeated verdicts are equal [S7 U1]',
    () =>
      inWorld({ topics: { main: 2, verdicts: 1 } }, async (world) => {
        const { main, verdicts } = world.topics;
        const settings = { VERDICT_TOPIC: verdicts, BATCH_EVENTS: '50' };
        const records = [...logins(3_000), ...logins(3_000, 'f', 1), ...logins(100, 'e', 1)];
        await produce(main, records);
        const worker = await world.started(settings);
        await world.untilDecided(500);
        await worker.kill();
        await world.drain(settings);

        const byRecord = new Map<string, Set<string>>();
        for (const { value } of await readTopic(verdicts)) {
          const text = value?.toString() ?? '';
          const source = JSON.stringify(JSON.parse(text).source);
          byRecord.set(source, (byRecord.get(source) ?? new Set()).add(text));
        }
        expect(byRecord.size).toBe(records.length);
        expect([...byRecord.values()].filter((texts) => texts.size > 1)).toEqual([]);
        expect(await world.balance()).toEqual({ records: 6_100, accepted: 6_000, duplicate_deliveries: 100 });
        expect(await world.committed(main)).toEqual(await world.ends(main));
      }),
  );
});

/** An open transaction of two records, with one record before them and one after them. */
async function openAmong(topic: string): Promise<OpenTransaction> {
  await produce(topic, logins(1, 'before'));
  const open = await openTransaction(topic, logins(2, 'inside'));
  await produce(topic, logins(1, 'behind'));
  return open;
}

describe('worker --drain', () => {
  together('ends at once where there is no record to decide [U10]', () =>
    inWorld({ topics: { main: 3 } }, async (world) => {
      await world.drain();
      expect(await world.balance()).toEqual({});
    }),
  );

  together(
    'waits for an open transaction, whose records are in the topic already, and for the records behind it [U10]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const { main } = world.topics;
        const open = await openAmong(main);
        const worker = world.start({}, { drain: true });
        await worker.waitForLog('partitions assigned');
        await until(
          'the record before it is committed',
          LONG,
          async () => (await world.committed(main))[0] === 1,
        );
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        expect(worker.hasEnded()).toBe(false);
        await open.end('commit');
        expect(await worker.ending()).toEqual({ code: 0, signal: null });
        expect(await world.verdicts()).toEqual({
          'before-0': 'accepted',
          'inside-0': 'accepted',
          'inside-1': 'accepted',
          'behind-0': 'accepted',
        });
      }),
  );

  together(
    'shows how many records wait behind an open transaction, and for how long, also in a worker that has just started [U1]',
    () =>
      inWorld({ topics: { main: 1 } }, async (world) => {
        const { main } = world.topics;
        const open = await openAmong(main);
        const lag = (what: string) =>
          `promo_intake_lag_${what}{topic="${main}",partition="0",state="deciding"}`;
        const first = await world.started();
        await world.untilDecided(1);
        await first.kill();
        const second = await world.started();
        // The first worker may not have committed the offset of the decided record.
        await until(
          'three records have waited for a second',
          LONG,
          async () =>
            (await second.metric(lag('records'))) === 3 && (await second.metric(lag('seconds'))) > 1,
        );
        await open.end('commit');
        await world.untilDecided(4);
        await until('no record waits', LONG, async () => (await second.metric(lag('records'))) === 0);
        expect(await second.metric(lag('seconds'))).toBe(0);
      }),
  );

  together('of two workers: each ends with 0 once both have decided all records [U10]', () =>
    inWorld({ topics: { main: 4 } }, async (world) => {
      const { main } = world.topics;
      for (let partition = 0; partition < 4; partition++) {
        await produce(main, logins(500, `p${partition}`, partition));
        await produceInTransaction(main, [{ value: 'aborted', partition }], 'abort');
      }
      const workers = [1, 2].map(() => world.start({ BATCH_EVENTS: '50' }, { drain: true }));
      const ends = await Promise.all(workers.map((worker) => worker.ending(LONG)));
      expect(ends).toEqual([0, 0].map((code) => ({ code, signal: null })));
      expect(await world.committed(main)).toEqual(await world.ends(main));
      expect(await world.balance()).toEqual({ records: 2_000, accepted: 2_000 });
    }),
  );

  const ENDS_WITH_1 = 'before they are decided: ends with 1 once all other records are decided [U10]';
  const deletions: Record<string, (topic: string) => Promise<void>> = {
    [`records that are deleted ${ENDS_WITH_1}`]: (topic) =>
      withAdmin(async (admin) => {
        // Fetched first, so that the client knows the topic.
        await admin.fetchTopicOffsets(topic);
        await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '3' }] });
      }),
    [`records that are deleted with their topic ${ENDS_WITH_1}`]: (topic) =>
      withAdmin((admin) => deleteTopics(admin, [topic])),
  };
  for (const [title, remove] of Object.entries(deletions))
    together(title, () =>
      inWorld({ topics: { main: 1, other: 1 } }, async (world) => {
        const { main, other } = world.topics;
        // Records of an open transaction are never decided.
        await openTransaction(main, logins(3));
        // The worker has to wait for this transaction, before and after the other records are gone.
        const late = await openTransaction(other, logins(2, 'late'));
        const worker = await world.started({}, { drain: true });
        await remove(main);
        await late.end('commit');
        expect(await worker.ending()).toEqual({ code: 1, signal: null });
        expect(worker.logged('records were deleted before they were decided')).toMatchObject([
          { topic: main, partition: 0, to: 3 },
        ]);
        expect(await world.verdicts()).toEqual({ 'late-0': 'accepted', 'late-1': 'accepted' });
      }),
    );

  together('that is stopped before all records are decided does not end with 0 [U10]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const open = await openTransaction(world.topics.main, logins(1));
      const worker = await world.started({}, { drain: true });
      expect(await worker.stop()).toEqual({ code: 1, signal: null });
      await open.end('abort');
    }),
  );
});

describe('SIGTERM', () => {
  together(
    'in the middle of the load: ends with 0, and the committed offsets are those of the decided records [U1]',
    () =>
      inWorld({ topics: { main: 3 } }, async (world) => {
        const { main } = world.topics;
        for (let partition = 0; partition < 3; partition++)
          await produce(main, logins(3_000, `p${partition}`, partition));
        // Far from done by then, even if the test is delayed.
        const worker = await world.started({ BATCH_EVENTS: '5' });
        await world.untilDecided(200);
        expect(await worker.stop()).toEqual({ code: 0, signal: null });
        const decided = await world.rows('select partition, next_offset from promo.partitions order by 1');
        const committed = await world.committed(main);
        expect(decided.map(([partition, next]) => [Number(partition), Number(next)])).toEqual(
          committed.flatMap((offset, partition) => (offset < 0 ? [] : [[partition, offset]])),
        );
        const { accepted = 0 } = await world.balance();
        expect(accepted).toBeGreaterThanOrEqual(200);
        expect(accepted).toBeLessThan(9_000);
        expect(await world.redeliveries()).toBe(0);
        await world.drain();
        expect(await world.balance()).toEqual({ records: 9_000, accepted: 9_000 });
      }),
  );
});
