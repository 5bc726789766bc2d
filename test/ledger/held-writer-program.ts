/** A writer to be killed while it holds a number and rows: see horizon.test.ts. */
import { openClient } from '../../src/postgres/pool';
import { HELD_ROW } from '../support/held-writer';

async function hold(): Promise<void> {
  const client = await openClient(process.env.DATABASE_URL ?? '', { application_name: 'promo-test-held' });
  await client.query('begin');
  await client.query(`select nextval('promo_store.batch_numbers')`);
  await client.query(HELD_ROW, ['killed']);
  console.log('held');
}

void hold();
