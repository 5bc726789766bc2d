/**
 * Checks which rows a statement of a decision can reach, by the conditions of its plan on `feed_no`. In a
 * store that is spread over nodes by feed, such a statement finds its rows on one node.
 * The test reads the table of statements in docs/adr/0015-one-postgres-until-it-is-full.md.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { decideBatch } from '../../src/ledger/decide-batch';
import type { Statement, Store } from '../../src/postgres/transaction';
import {
  aBet,
  aRefund,
  aWin,
  type Json as Event,
  freshStore,
  rowsOf,
  type TestStore,
  withClient,
} from '../support/ledger';

/** Small tables without events: every node has a copy of each. */
const REFERENCE = [
  'operators',
  'feeds',
  'connections',
  'brands',
  'reference_versions',
  'currencies',
  'player_keys',
];

type Reach = 'one feed' | 'the feed of each row' | 'one Kafka partition' | 'every node' | 'no row';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

/** A store that records the text of each statement, by name. */
function recorded(inner: Store, texts: Map<string, string>): Store {
  const note = ({ name, text }: Statement) => texts.set(name, text);
  return {
    async acquire() {
      const connection = await inner.acquire();
      return {
        begin: () => connection.begin(),
        query(statement, values) {
          note(statement);
          return connection.query(statement, values);
        },
        write(writes) {
          writes.forEach(note);
          return connection.write(writes);
        },
        release: (isClean) => connection.release(isClean),
      };
    },
  };
}

/** Decides a batch that makes the worker send each of its statements. */
async function statementsOfDecisions(): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  let contended = false;
  const { partition } = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch(batch) {
        const hasPoison = batch.items.some((item) => item.type === 'keyed' && item.eventId === 'poison');
        if (hasPoison && batch.panic === undefined) throw new Error('a defect');
        return decideBatch(recorded(store.pool, texts), { ...batch, contended });
      },
    }),
  });
  const acme = partition('acme');
  const first: (Event | Buffer)[] = [aBet({ event_id: 'a' }), aWin({ event_id: 'b' }), Buffer.from('no key')];
  await acme.read(...first);
  contended = true;
  await acme.read(aRefund({ event_id: 'c' }), aBet({ event_id: 'a' }), aBet({ event_id: 'poison' }));
  await acme.readAt(0, ...first);
  return texts;
}

async function reachOf(client: Client, text: string): Promise<Reach> {
  const [, columns] = /^copy \S+ \(([^)]*)\)/.exec(text) ?? [];
  if (columns !== undefined) {
    if (/\bfeed_no\b/.test(columns)) return 'the feed of each row';
    return /\bpartition_no\b/.test(columns) ? 'one Kafka partition' : 'every node';
  }
  if (/^(commit|rollback)$/.test(text)) return 'no row';
  const values = /^insert into \S+ \(([^)]*)\) values/.exec(text)?.[1];
  if (values !== undefined) return /\bfeed_no\b/.test(values) ? 'one feed' : 'every node';

  const conditions = scansOf(await planOf(client, text)).map(({ condition }) => condition);
  if (conditions.length === 0) return 'no row';
  if (conditions.every((condition) => /\bfeed_no = \$\d/.test(condition))) return 'one feed';
  const isOfPartition = (condition: string) => /\bpartition_no = (\$\d|\d)/.test(condition);
  return conditions.every(isOfPartition) ? 'one Kafka partition' : 'every node';
}

/** The plan of the store for any values. */
async function planOf(client: Client, text: string): Promise<unknown> {
  await client.query(`prepare asked as ${text}`);
  const [[types] = []] = await rowsOf(
    client,
    'select array_to_json(parameter_types) from pg_prepared_statements',
  );
  const nulls = Array.from(JSON.parse(types ?? '[]'), (type) => `null::${type}`);
  const [[plan] = []] = await rowsOf(
    client,
    `explain (format json) execute asked${nulls.length > 0 ? `(${nulls.join(', ')})` : ''}`,
  );
  await client.query('deallocate asked');
  return JSON.parse(plan ?? '');
}

interface Scan {
  readonly table: string;
  readonly condition: string;
}

/** The scans of tables in a plan, except those that every node has, with all their conditions. */
function scansOf(plan: unknown): Scan[] {
  if (Array.isArray(plan)) return plan.flatMap(scansOf);
  if (!isJson(plan)) return [];
  const table = String(plan['Relation Name'] ?? '').replace(/_\d{4}_\d{2}$/, '');
  const isScan = table !== '' && plan['Node Type'] !== 'ModifyTable' && !REFERENCE.includes(table);
  // The scan of a bitmap repeats the conditions of its index.
  const condition = ['Index Cond', 'Recheck Cond', 'Filter'].map((name) => plan[name] ?? '').join(' ');
  return [...(isScan ? [{ table, condition }] : []), ...Object.values(plan).flatMap(scansOf)];
}

const isJson = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

/** The reach of each statement in the decision record. */
function documented(): Map<string, string> {
  const record = '../../docs/adr/0015-one-postgres-until-it-is-full.md';
  const section = readFileSync(join(__dirname, record), 'utf8');
  return new Map(
    [...section.matchAll(/^\| ([\w ]+) \| (`[^|]+`) \|/gm)].flatMap(([, reach = '', names = '']) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name = '']): [string, string] => [name, reach]),
    ),
  );
}

test('each statement of a decision reaches as far as the decision record says', async () => {
  const texts = await statementsOfDecisions();
  const found = await withClient(store.url, async (client) => {
    await client.query(
      'set enable_seqscan = off; set enable_nestloop = off; set plan_cache_mode = force_generic_plan',
    );
    const reaches: [string, Reach][] = [];
    for (const [name, text] of texts) reaches.push([name, await reachOf(client, text)]);
    return new Map(reaches);
  });
  expect(Object.fromEntries(found)).toEqual(Object.fromEntries(documented()));
});

test('tables with a feed are unique by it, except by the number of a round, and have no foreign keys', async () => {
  const unique = await store.rows(
    `
    select i.indexrelid::regclass::text,
      exists (select from pg_attribute a where a.attrelid = i.indrelid and a.attname = 'feed_no' and a.attnum = any(i.indkey))
    from pg_index i join pg_class t on t.oid = i.indrelid
    where i.indisunique and t.relname = any($1) and t.relnamespace = 'promo_store'::regnamespace order by 1`,
    [['event_keys', 'history', 'resends', 'rounds']],
  );
  expect(unique).toEqual([
    ['promo_store.event_keys_pkey', 't'],
    ['promo_store.rounds_no', 'f'],
    ['promo_store.rounds_pkey', 't'],
  ]);
  const withForeignKeys = await store.rows(
    `
    select c.conrelid::regclass::text from pg_constraint c
    join pg_attribute a on a.attrelid = c.conrelid and a.attname = 'feed_no'
    where c.contype = 'f' and c.connamespace = 'promo_store'::regnamespace order by 1`,
  );
  expect(withForeignKeys).toEqual([
    // They have the feed, so both rows are of one shard.
    ['promo_store.attribution_versions'],
    ['promo_store.erased_credits'],
    // The table of the feeds themselves.
    ['promo_store.feeds'],
  ]);
});
