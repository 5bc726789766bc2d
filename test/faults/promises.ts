/**
 * The promises that hold under every fault: no record is lost, none is decided twice, and work continues
 * within 35 s.
 */
import { until } from '../../dev/servers/deadline';
import type { World } from '../stream/world';
import { aLogin, bytesOf } from '../support/builders';
import type { Outgoing } from '../support/kafka';
import { damagesOf } from '../support/ledger';
import { RunningCommand } from '../support/worker';

/**
 * Progress resumes within this time after a fault has ended. The run of all faults has the goal itself, and
 * so does the simulator. The other run shares its machine with more tests. A busy machine is seconds late.
 */
export const PROGRESS_MS = process.env.FAULTS === 'all' ? 35_000 : 60_000;
const VERIFY_DEADLINE_MS = 60_000;

/** `each` logins for each of the first partitions, each with an id of its own. */
export const loginsIn = (partitions: number, name: string, each: number): Outgoing[] =>
  Array.from({ length: partitions }, (_, partition) =>
    Array.from({ length: each }, (_, n) => ({
      value: bytesOf(aLogin({ event_id: `${name}-${partition}-${n}` })),
      partition,
    })),
  ).flat();

/**
 * Resolves when the group has committed all records of the topic.
 *
 * @param endedAt when the fault ended; required where the test has waited since
 */
export async function untilCaughtUp(
  world: World<string>,
  topic: string,
  endedAt = Date.now(),
): Promise<void> {
  const ends = await world.ends(topic);
  await until(`${topic} is decided and committed to ${ends}`, leftOf(endedAt), async () => {
    return (await world.committed(topic)).join() === ends.join();
  });
}

/** The remaining time within which work has to continue. */
export const leftOf = (endedAt: number): number => PROGRESS_MS - (Date.now() - endedAt);

/**
 * `events` events were sent, and each is accepted once. The store is sound, and agrees with Kafka.
 *
 * @param resent number of further records, of events that were sent twice
 */
export async function allAcceptedOnce(world: World<string>, events: number, resent = 0): Promise<void> {
  const duplicates = resent > 0 && { duplicate_deliveries: resent };
  expect(await world.balance()).toEqual({ records: events + resent, accepted: events, ...duplicates });
  expect(await damagesOf(world.pool)).toEqual([]);
  await verifySound(world);
}

/** `promo-intake verify` finds nothing. */
export async function verifySound(
  { settings, databaseUrl }: World<string>,
  url = databaseUrl,
): Promise<void> {
  const { KAFKA_BROKERS, KAFKA_GROUP_ID } = settings;
  const command = new RunningCommand(['verify'], { KAFKA_BROKERS, KAFKA_GROUP_ID, DATABASE_URL: url });
  const { code } = await command.ending(VERIFY_DEADLINE_MS);
  if (code !== 0) throw new Error(`verify ended with ${code}\n${command.output()}`);
}
