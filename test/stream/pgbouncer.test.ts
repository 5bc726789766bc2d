/**
 * Workers that use Postgres through pgbouncer, which gives a connection to another worker after each
 * transaction.
 */
import { produce } from '../support/kafka';
import { pgbouncerProblem, withPgbouncer } from '../support/pgbouncer';
import { drained } from '../support/worker';
import { makeFeed, outcomeOf } from './feed';
import { inWorld } from './world';

const problem = pgbouncerProblem();
const whereThereIsOne = problem === undefined ? test : test.skip;
const TITLE = `through pgbouncer in transaction mode two workers reach the same decisions as without it${problem ? ` (skipped: ${problem})` : ''}`;

/** Fewer connections than one worker would hold by itself, so that the workers have to share them. */
const POOL = 3;

whereThereIsOne(`${TITLE} [D1] [D2] [U1] [R1]`, async () => {
  const feed = makeFeed(7, 4_000);
  const outcomes: unknown[] = [];
  for (const through of [false, true]) {
    await inWorld({ topics: { main: 4 } }, async (world) => {
      await produce(world.topics.main, feed);
      const decide = async (DATABASE_URL: string) => {
        const workers = [1, 2].map(() => world.start({ DATABASE_URL, BATCH_EVENTS: '100' }, { drain: true }));
        await Promise.all(workers.map((worker) => drained(worker)));
        const lines = workers.flatMap((worker) => worker.log());
        expect(lines.filter(({ msg }) => msg === 'partition is undecided')).toEqual([]);
      };
      if (through) {
        const settings = { max_prepared_statements: 200, default_pool_size: POOL };
        await withPgbouncer(world.databaseUrl, settings, async (url) => {
          await decide(url);
          const [[backends] = []] = await world.rows(
            `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'promo-intake'`,
          );
          expect(Number(backends)).toBeGreaterThan(0);
          expect(Number(backends)).toBeLessThanOrEqual(POOL);
        });
      } else {
        await decide(world.databaseUrl);
      }
      outcomes.push(await outcomeOf(world));
    });
  }
  expect(outcomes[1]).toEqual(outcomes[0]);
});
