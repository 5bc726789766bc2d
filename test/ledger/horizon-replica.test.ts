/** The horizon on a server of its own: with a prepared transaction, as a replica, and after the promotion. */
import { migratedDatabase, rowsOf, withClient } from '../support/ledger';
import { dropDatabase, restartAsReplica, withOwnPostgres } from '../support/servers';

/** Two starts of a server of its own, beside other tests. */
jest.setTimeout(300_000);
const STEP_WITHIN_MS = 60_000;

test('a prepared transaction, a replica, and numbers from before its promotion are refused [L4]', async () => {
  const settings = { max_prepared_transactions: '2' };
  await withOwnPostgres(
    async (postgres, databaseUrl) => {
      const url = await migratedDatabase(databaseUrl);
      const value = (statement: string) =>
        withClient(url, async (client) => (await rowsOf(client, statement))[0]?.[0]);

      await withClient(url, async (client) => {
        await client.query('begin');
        await client.query(`select nextval('promo_store.batch_numbers')`);
        await client.query(`prepare transaction 'theirs'`);
      });
      await expect(value('select promo.safe_up_to()')).rejects.toThrow(
        `the prepared transaction 'theirs' holds the number of a batch`,
      );
      await withClient(url, (client) => client.query(`rollback prepared 'theirs'`));
      const horizon = await value('select promo.safe_up_to()');
      const lineage = await value('select promo.lineage()');

      const { promoted } = await restartAsReplica(postgres, value, STEP_WITHIN_MS);
      await expect(value('select promo.safe_up_to()')).rejects.toThrow('this server is a replica');
      await expect(value('select count(*) from promo.changes(-1)')).rejects.toThrow(
        'this server is a replica',
      );

      await value('select pg_promote()');
      await promoted;
      expect(Number(await value('select promo.safe_up_to()'))).toBeGreaterThanOrEqual(Number(horizon));
      await expect(value(`select count(*) from promo.changes(-1, null, '${lineage}')`)).rejects.toThrow(
        `the numbers of the copy are of the lineage ${lineage}`,
      );
      await dropDatabase(url, databaseUrl);
    },
    { postgresExtras: { settings, files: {} } },
  );
});
