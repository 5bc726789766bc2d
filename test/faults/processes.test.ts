/** Faults of a worker's process: frozen, blocked, with another clock. */
import { join } from 'node:path';
import { sleep } from '../../dev/servers/deadline';
import { sideBySide } from '../stream/side-by-side';
import { inWorld, type World } from '../stream/world';
import { type Outgoing, produce } from '../support/kafka';
import { ROOT, type RunningCommand, type Settings } from '../support/worker';
import { allAcceptedOnce, loginsIn, untilCaughtUp } from './promises';

const together = sideBySide(5);

const SECOND = 1_000;
/** Beyond the session timeout: by then the group has assigned the partitions to other members. */
const BEYOND_SESSION_MS = 13 * SECOND;
const PARTITIONS = 2;
/** The longest session timeout that brokers allow. */
const KEPT_MS = 1_800 * SECOND;
const STILL =
  'members of the group do not read their partitions; rejoining, so that Kafka checks its members';

const logins = (name: string, each: number): Outgoing[] => loginsIn(PARTITIONS, name, each);

const disturbed = (what: string): Settings => ({
  NODE_OPTIONS: `--require ${join(ROOT, 'test', 'support', 'disturb.cjs')}`,
  DISTURB: what,
});
const assignments = (worker: RunningCommand): number => worker.logged('partitions assigned').length;

/** A worker in the middle of a load. */
async function busy(world: World<'main'>, each: number, more: Settings = {}): Promise<RunningCommand> {
  await produce(world.topics.main, logins('first', each));
  const worker = await world.started({ BATCH_EVENTS: '10', ...more });
  await world.untilDecided(50);
  return worker;
}

together(
  'a zombie: SIGSTOP under load beyond the session timeout, and SIGCONT once another worker has its partitions [U1 K3 U3]',
  () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const zombie = await busy(world, 2_000);
      zombie.signal('SIGSTOP');
      const heir = world.start();
      await untilCaughtUp(world, main);
      expect(assignments(heir)).toBe(1);
      zombie.signal('SIGCONT');
      const goesOnAt = Date.now();
      await produce(main, logins('second', 200));
      await untilCaughtUp(world, main, goesOnAt);
      await zombie.waitForLog(() => assignments(zombie) > 1);
      await allAcceptedOnce(world, PARTITIONS * 2_200);
      // Every assignment is counted, even for a member that learned of no rebalance.
      for (const worker of [zombie, heir])
        expect(await worker.metric('promo_intake_rebalance_seconds_count')).toBe(assignments(worker));
      expect(zombie.hasEnded()).toBe(false);
      expect(await zombie.stop()).toEqual({ code: 0, signal: null });
    }),
);

together(
  'a killed member that Kafka still counts: another worker rejoins, once, and gets its partitions [U1]',
  () =>
    inWorld({ topics: { main: 2 * PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const living = await world.started();
      const dead = world.start(disturbed(`kept:${KEPT_MS}`));
      await dead.waitForLog('partitions assigned');
      await living.waitForLog(() => assignments(living) === 2);
      await produce(main, loginsIn(2 * PARTITIONS, 'first', 100));
      await untilCaughtUp(world, main);
      await dead.kill();
      const killedAt = Date.now();
      await produce(main, loginsIn(2 * PARTITIONS, 'second', 100));
      await untilCaughtUp(world, main, killedAt);
      expect(living.logged(STILL).map(({ members }) => members)).toEqual([
        [{ id: expect.stringContaining('promo-intake'), partitions: PARTITIONS }],
      ]);
      await allAcceptedOnce(world, 2 * PARTITIONS * 200);
      expect(await living.stop()).toEqual({ code: 0, signal: null });
    }),
);

together(
  'a killed member that Kafka still counts: nobody rejoins where KAFKA_DEAD_MEMBER_WATCH is disabled [U1]',
  () =>
    inWorld({ topics: { main: 2 * PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const living = await world.started({ KAFKA_DEAD_MEMBER_WATCH: 'disabled' });
      const dead = world.start(disturbed(`kept:${KEPT_MS}`));
      await dead.waitForLog('partitions assigned');
      await living.waitForLog(() => assignments(living) === 2);
      await dead.kill();
      await produce(main, loginsIn(2 * PARTITIONS, 'first', 10));
      await world.untilDecided(PARTITIONS * 10);
      // With the watch the worker rejoins within 12 s.
      await sleep(20 * SECOND);
      expect(living.logged(STILL)).toEqual([]);
      expect(assignments(living)).toBe(2);
      expect(await living.stop()).toEqual({ code: 0, signal: null });
      // The group is empty without the living worker, so a new one gets all partitions.
      await world.started();
      await untilCaughtUp(world, main);
      await allAcceptedOnce(world, 2 * PARTITIONS * 10);
    }),
);

together(
  'an event loop that is blocked beyond the session timeout: health does not answer, then the worker continues [U1 K3]',
  () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const worker = await busy(world, 1_000, disturbed(`block:${BEYOND_SESSION_MS}`));
      worker.signal('SIGUSR2');
      await worker.waitForLog('the event loop is blocked');
      const answered = worker.get('/livez').then(() => 'answered');
      expect(await Promise.race([answered, sleep(5 * SECOND).then(() => 'silent')])).toBe('silent');
      await answered;
      const answeredAt = Date.now();
      await produce(main, logins('second', 100));
      await untilCaughtUp(world, main, answeredAt);
      await worker.waitForLog(() => assignments(worker) > 1);
      await allAcceptedOnce(world, PARTITIONS * 1_100);
      expect((await worker.get('/livez')).status).toBe(200);
    }),
);

const DAY_MS = 86_400 * SECOND;
for (const [direction, ms] of [
  ['forward', DAY_MS],
  ['back', -DAY_MS],
] as const) {
  together(`a clock that jumps a day ${direction}: later records are decided and committed [U1 U3]`, () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const worker = await busy(world, 500, disturbed(`jump:${ms}`));
      worker.signal('SIGUSR2');
      await untilCaughtUp(world, main);
      // A member that waits until tomorrow for its next heartbeat would be out of the group by then.
      await sleep(BEYOND_SESSION_MS);
      await produce(main, logins('second', 100));
      await untilCaughtUp(world, main);
      await allAcceptedOnce(world, PARTITIONS * 600);
      const rejoins = worker.logged('the membership of the group has ended; rejoining');
      expect(rejoins).toHaveLength(ms < 0 ? 1 : 0);
      expect(worker.hasEnded()).toBe(false);
      expect((await worker.get('/livez')).status).toBe(200);
    }),
  );
}
