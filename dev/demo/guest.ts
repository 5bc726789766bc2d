/** The demo as a guest on servers with given addresses: its own topics, and the removal of leftovers. */
import { makeGuest } from '../servers/guest';
import { makeTopics, removeFromKafka } from '../servers/topics';
import { type Log, messageOf } from '../servers/types';
import { isLeftover, type OwnNames } from './names';

const STATEMENT_TIMEOUT_MS = 30_000;
/** Longer than the session of a worker, which is 10 s. */
const REMOVAL_DEADLINE_MS = 20_000;
export const PARTITIONS = 4;

export const { kafkaAt, withAdmin, withClient, makeDatabase, dropDatabase } = makeGuest(
  'promo-demo',
  STATEMENT_TIMEOUT_MS,
);

export async function makeOwnTopics(brokers: string, topics: readonly string[]): Promise<void> {
  const plans = Object.fromEntries(topics.map((topic) => [topic, { partitions: PARTITIONS }]));
  await withAdmin(brokers, (admin) => makeTopics(admin, plans));
}

export async function removeOwnTopics(brokers: string, { group, topicPrefix }: OwnNames): Promise<void> {
  const isOwn = (name: string): boolean => name === group || name.startsWith(topicPrefix);
  // Together with the group of a killed demo that could not be removed yet when this demo started.
  const isOurs = (name: string): boolean => isOwn(name) || isLeftover(name);
  await withAdmin(brokers, (admin) => removeFromKafka(admin, REMOVAL_DEADLINE_MS, isOurs, isOwn));
}

/**
 * Removes the leftovers of killed demos. A failed removal is only logged, and never keeps a new demo from
 * starting.
 */
export async function removeLeftovers(
  given: { brokers: string | undefined; serverUrl: string | undefined },
  log: Log,
): Promise<void> {
  const { brokers, serverUrl } = given;
  const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      log(`${what} of a killed demo may be left: ${messageOf(error)}`);
    }
  };
  if (brokers !== undefined) {
    await withAdmin(brokers, (admin) =>
      attempt('topics', async () => {
        const removed = await removeFromKafka(admin, REMOVAL_DEADLINE_MS, isLeftover, () => false);
        if (removed > 0) log(`removed ${removed} topics that a killed demo left`);
      }),
    );
  }
  if (serverUrl === undefined) return;
  const names = await withClient(serverUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      "select datname from pg_database where datname like 'promo\\_demo\\_%'",
    );
    return rows.map(({ datname }) => datname).filter(isLeftover);
  });
  for (const name of names)
    await attempt(`the database ${name}`, async () => {
      await dropDatabase(serverUrl, name);
      log(`removed the database ${name} that a killed demo left`);
    });
}
