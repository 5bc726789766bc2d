import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { migrate } from '../../src/ledger/migrate';
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
let client: Client;
beforeAll(async () => {
  database = await freshDatabase();
  await migrate(database.url);
  client = new Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

test.each(QUERIES)('$name runs', async ({ sql }) => {
  await expect(client.query(sql)).resolves.toMatchObject({ command: 'SELECT' });
});
