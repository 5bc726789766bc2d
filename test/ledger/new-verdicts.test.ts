/** Copies of verdicts have the time of Kafka, and the function that they read kept its grants. */
import { runMigrations } from '../../src/ledger/migrate';
import { aBet, freshStore, rowsOf, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { freshDatabase } from '../support/servers';

test('promo.new_verdicts has each column of promo.verdicts but the player, and the time of Kafka [L4]', async () => {
  const store = await freshStore();
  await store.partition('acme').read(aBet({ event_id: 'b1' }), aBet({ event_id: 'b2', round_id: 'r2' }));
  await store.rows(`update promo_store.history set source_delay = 1500 where event_id = 'b1'`);
  const [[all, ofVerdicts] = []] = await store.rows(`select
    (select jsonb_agg(to_jsonb(n) - 'change_no' order by verdict_id) from promo.new_verdicts(-1) n),
    (select jsonb_agg(to_jsonb(v) - '{player_ref, counts_now}'::text[] order by verdict_id) from promo.verdicts v)`);
  expect(JSON.parse(all ?? '')).toEqual(JSON.parse(ofVerdicts ?? ''));
  expect(
    await store.value(
      `select extract(epoch from date_trunc('milliseconds', decided_at) - source_timestamp) = 1.5 from promo.new_verdicts(-1) where event_id = 'b1'`,
    ),
  ).toBe('t');
  store.damaged = true; // A delay was changed by hand.
  await store.close();
});

test('the migration that adds the time of Kafka keeps the grants of promo.new_verdicts [D1]', async () => {
  const database = await freshDatabase();
  await runMigrations(database.url, { upTo: '0042_player_counts.sql' });
  const [reader, other] = [await makeRole(database.url, 'reader'), await makeRole(database.url, 'other')];
  try {
    await withClient(database.url, async (client) => {
      await client.query(`grant execute on function promo.new_verdicts to ${reader.name}`);
      await runMigrations(database.url);
      const may = (name: string) =>
        rowsOf(
          client,
          `select has_function_privilege($1, 'promo.new_verdicts(bigint, bigint, text)', 'execute')`,
          [name],
        );
      expect(await may(reader.name)).toEqual([['t']]);
      expect(await may(other.name)).toEqual([['f']]);
    });
  } finally {
    await dropRoles(database.url, [reader.name, other.name]);
    await database.drop();
  }
});
