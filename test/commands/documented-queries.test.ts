import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { migrate } from '../../src/ledger/migrate';
import { grantRoles } from '../../src/ledger/roles';
import { withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { type FreshDatabase, freshDatabase } from '../support/servers';

const DOCUMENTS = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

/** The blocks of SQL that readers are told to run. */
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
  await migrate(database.url);
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

test.each(QUERIES)('$name runs for the role that it is meant for', async ({ sql }) => {
  const { url } = sql.includes('drop_months') ? janitor : reader;
  await withClient(url, (client) => expect(client.query(sql)).resolves.toMatchObject({ command: 'SELECT' }));
});
