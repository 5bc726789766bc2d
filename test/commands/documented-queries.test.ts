import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { grantRoles } from '../../src/ledger/roles';
import { applyPromotions } from '../../src/promotion-store/documents';
import { freshStore, type TestStore, withClient } from '../support/ledger';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';

const DOCUMENTS = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
  'docs/operations/ledger-copies.md',
  // Those of the questions run on their story: test/ledger/analysts-guide.test.ts.
  ...['README.md', 'queries.md', 'months-and-copies.md'].map((name) => join('docs/analysts', name)),
];

/** The blocks of SQL in the documents. */
const QUERIES = DOCUMENTS.flatMap((document) =>
  [...readFileSync(join(ROOT, document), 'utf8').matchAll(/^```sql\n(.+?)^```/gms)].map(
    ([, sql = ''], index) => ({
      name: `${document}, query ${index + 1}`,
      sql,
    }),
  ),
);

/** The promotions that the queries name. */
const PROMOTIONS = [
  'id: race, type: leaderboard, points: [{ counts: bet, points: 1 }]',
  'id: wager-1000, type: turnover_target, counts: bet, target: { EUR: "1000.00" }',
];

let store: TestStore;
let reader: { name: string; url: string };
let janitor: { name: string; url: string };
beforeAll(async () => {
  store = await freshStore({ own: true });
  // Functions of promotions refuse names that do not exist.
  await applyPromotions(
    store.pool,
    { promotions: definitionsOf(...PROMOTIONS) },
    { by: 'test', reason: null, takeover: 'next_window' },
    () => true,
  );
  reader = await makeRole(store.url, 'reader');
  janitor = await makeRole(store.url, 'janitor');
  await grantRoles(store.url, [
    { role: 'reader', name: reader.name },
    { role: 'janitor', name: janitor.name },
  ]);
});
afterAll(async () => {
  await dropRoles(store.url, [reader.name, janitor.name]);
  await store.close();
});

/** The janitor drops months. The text of a panic may hold players, so only the owner reads it. */
function urlFor(sql: string): string {
  if (sql.includes('drop_months')) {
    return janitor.url;
  }
  return sql.includes('promo_store.panics') ? store.url : reader.url;
}

test.each(QUERIES)('$name runs for its role', async ({ sql }) => {
  await withClient(urlFor(sql), (client) =>
    expect(client.query(sql)).resolves.toMatchObject({ command: 'SELECT' }),
  );
});
