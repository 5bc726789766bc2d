import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { runMigrations } from '../../src/ledger/migrate';
import { grantRoles } from '../../src/ledger/roles';
import { withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { type FreshDatabase, freshDatabase } from '../support/servers';

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

let database: FreshDatabase;
let reader: { name: string; url: string };
let janitor: { name: string; url: string };
beforeAll(async () => {
  database = await freshDatabase();
  await runMigrations(database.url);
  reader = await makeRole(database.url, 'reader');
  janitor = await makeRole(database.url, 'janitor');
  await grantRoles(database.url, [
    { role: 'reader', name: reader.name },
    { role: 'janitor', name: janitor.name },
  ]);
});
afterAll(async () => {
  await dropRoles(database.url, [reader.name, janitor.name]);
  await database.drop();
});

/** The janitor drops months. The text of a panic may hold players, so only the owner reads it. */
function urlFor(sql: string): string {
  if (sql.includes('drop_months')) {
    return janitor.url;
  }
  return sql.includes('promo_store.panics') ? database.url : reader.url;
}

test.each(QUERIES)('$name runs for its role', async ({ sql }) => {
  await withClient(urlFor(sql), (client) =>
    expect(client.query(sql)).resolves.toMatchObject({ command: 'SELECT' }),
  );
});
