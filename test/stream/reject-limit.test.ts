/**
 * A topic where most events would be rejected: it waits until its operators correct the cause, and no event
 * is lost.
 */
import { sleep, until } from '../../dev/servers/deadline';
import { aBrand, aLogin, anOperator, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { schemaRegistryUrl } from '../support/servers';
import type { RunningCommand } from '../support/worker';
import { framed } from './registry';
import { sideBySide } from './side-by-side';
import { connectionOf, inWorld, type World } from './world';

const LONG = 60_000;
const together = sideBySide();
const LIMIT = {
  REJECT_LIMIT_PERCENT: '50',
  REJECT_WINDOW_EVENTS: '100',
  REJECT_MIN_EVENTS: '20',
  BATCH_EVENTS: '10',
};
const PAUSED = 'topic is paused: too many of its events would be rejected';
const UNKNOWN_SCHEMA = 1_999_999_999;

/** Logins of a brand, half of them in each of two partitions. */
const logins = (brand: string, count: number, from = 0): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({
    value: bytesOf(aLogin({ event_id: `${brand}-${from + n}`, brand })),
    partition: n % 2,
  }));

const operatorOf = (connections: readonly string[], brands: readonly string[]) =>
  anOperator({
    connections: connections.map((topic) => connectionOf(topic)),
    brands: brands.map((id) => aBrand({ id })),
  });

async function untilPaused(worker: RunningCommand, topic: string, partitions: number): Promise<void> {
  await until(`${partitions} partitions are paused`, LONG, async () => {
    return (await worker.metric(`promo_intake_paused_partitions{topic="${topic}"}`)) === partitions;
  });
}

async function untilCommitted(world: World<string>, topic: string): Promise<void> {
  const ends = await world.ends(topic);
  await until(
    'all offsets are committed',
    LONG,
    async () => (await world.committed(topic)).join() === ends.join(),
  );
}

describe('a limit on rejected events', () => {
  together(
    'pauses a topic that bad reference data would reject, and no other topic; corrected data decides all waiting records [U7] [U8]',
    () =>
      inWorld(
        {
          topics: { main: 2, other: 1 },
          operators: ({ main, other }) => [operatorOf([main, other], ['first', 'second'])],
          settings: LIMIT,
        },
        async (world) => {
          const { main, other } = world.topics;
          await produce(main, logins('first', 40));
          const worker = await world.started();
          await world.untilDecided(40);

          await world.apply([operatorOf([main, other], ['second'])]);
          await produce(main, logins('first', 400, 40));
          const { topic, reasons, rejected, events } = await worker.waitForLog(PAUSED);
          expect({ topic, reasons }).toEqual({ topic: main, reasons: { brand_unmapped: 10 } });
          expect(Number(rejected)).toBeGreaterThan(Number(events) / 2);
          await untilPaused(worker, main, 2);
          await produce(other, [{ value: bytesOf(aLogin({ event_id: 'beside', brand: 'second' })) }]);
          await until('the other topic continues', LONG, async () => 'beside' in (await world.verdicts()));
          // Several tries later the counts are the same. Two partitions may have met the limit at the same
          // moment, with a batch each.
          const { rejected: before = 0 } = await world.balance(main);
          await sleep(5_000);
          expect(await world.balance(main)).toMatchObject({ accepted: 40, rejected: before });
          expect(before).toBeLessThanOrEqual(60);
          expect(await worker.get('/livez')).toEqual({ status: 200, text: 'live\n' });
          const { status, text } = await worker.get('/readyz');
          expect({ status, lines: text.split('\n').slice(0, -1).sort() }).toEqual({
            status: 200,
            lines: [
              'ready',
              ...[0, 1].map((partition) =>
                expect.stringMatching(
                  `^${main}/${partition} is undecided for \\d+ s: topic ${main} is paused: .* as brand_unmapped\\. Apply corrected reference data\\. `,
                ),
              ),
            ],
          });

          await world.apply([operatorOf([main, other], ['first', 'second'])]);
          await untilCommitted(world, main);
          expect(await world.balance(main)).toEqual({
            records: 440,
            accepted: 440 - before,
            rejected: before,
          });
          expect(worker.logged('topic is no longer paused')).toHaveLength(1);
          await untilPaused(worker, main, 0);
          expect(await worker.get('/readyz')).toEqual({ status: 200, text: 'ready\n' });
        },
      ),
  );

  together(
    'pauses a topic whose schemas are unknown; a worker without the limit makes dead letters of its records [U7] [U8]',
    () =>
      inWorld(
        { topics: { main: 1 }, settings: { SCHEMA_REGISTRY_URL: schemaRegistryUrl() } },
        async (world) => {
          const { main } = world.topics;
          const unknown = Array.from({ length: 60 }, (_, n) => ({
            value: framed(UNKNOWN_SCHEMA, `event ${n}`),
          }));
          await produce(main, unknown);
          const limited = await world.started(LIMIT);
          await untilPaused(limited, main, 1);
          expect(limited.logged(PAUSED)).toMatchObject([{ reasons: { schema_unknown: 10 }, events: 20 }]);
          expect(await limited.stop()).toEqual({ code: 0, signal: null });
          expect(await world.balance()).toEqual({ records: 10, dead_letters: 10 });
          await world.drain();
          expect(await world.balance()).toEqual({ records: 60, dead_letters: 60 });
        },
      ),
  );

  together('is off unless it is set: every event is rejected, and none waits [U7]', () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      await produce(world.topics.main, logins('nobody', 400));
      const worker = await world.drain();
      expect(await world.balance()).toEqual({ records: 400, rejected: 400 });
      expect(worker.logged('partition is undecided')).toEqual([]);
    }),
  );
});
