/**
 * Every statement of a batch finds its rows by an index. That holds whatever statistics of the tables the
 * session had when it made its plan, which stays while they grow. `VERSIONS=all npx jest --selectProjects
 * ledger plans` checks each supported Postgres. By default the oldest runs beside that of the run, since
 * statements have other texts before 17.
 */

import { lockRounds, readRounds } from '../../src/ledger/statements/lock';
import { inTransaction } from '../../src/postgres/transaction';
import { aBet, aWin, freshStore, type TestStore, withClient } from '../support/ledger';
import { ownServers } from '../support/servers';

const OF_THE_RUN = 'the Postgres of the run';
const versions = process.env.VERSIONS === 'all' ? ['15', '16', '17', '18'] : ['15', OF_THE_RUN];

/** Columns that each index condition of the statement has to name. */
const CONDITIONS: Readonly<Record<string, readonly string[]>> = {
  find_events: ['feed_no', 'event_key'],
  find_resends: ['partition_no', 'source_offset'],
  find_unstored: ['partition_no', 'source_offset'],
  lock_rounds: ['feed_no', 'round_key'],
  read_rounds: ['feed_no', 'round_key'],
  update_rounds: ['feed_no', 'round_key'],
};
/** Before 17, rounds are found by their keys, and changed by their numbers, which are unique. */
const BY_NUMBER = /^\(round_no = ANY \(.*\)\)$/;

/**
 * The rows of the tables at the time of the analyze, if there was one. Each is in a feed of its own, or all
 * are in one.
 */
const KNOWN = [
  { rows: 0, perFeed: 1, analyzed: false },
  { rows: 60, perFeed: 1, analyzed: false },
  { rows: 1, perFeed: 1, analyzed: true },
  { rows: 5, perFeed: 5, analyzed: true },
  { rows: 60, perFeed: 1, analyzed: true },
  { rows: 100, perFeed: 100, analyzed: true },
  { rows: 2_000, perFeed: 2_000, analyzed: true },
];

async function fill(store: TestStore, { rows, perFeed, analyzed }: (typeof KNOWN)[number]): Promise<void> {
  // Generated rows.
  store.damaged = true;
  const feedNo = `1000 + n / ${perFeed}`;
  const keyOf = (column: string) => `promo_store.id_key('id-' || n) as ${column}`;
  const filled = {
    rounds: `-n as round_no, ${feedNo} as feed_no, ${keyOf('round_key')}, 'id-' || n as round_id`,
    event_keys: `n as verdict_id, n as content_hash, ${feedNo} as feed_no, 0 as outcome, ${keyOf('event_key')}`,
    resends: `now() as received_at, n as source_offset, ${feedNo} as feed_no, 1 as connection_no, ${feedNo} as partition_no,
      0 as first_outcome, false as content_differs, 'id-' || n as event_id`,
    unstored: `now() as received_at, n as source_offset, n as value_hash, ${feedNo} as partition_no`,
  };
  await withClient(store.url, async (client) => {
    for (const [table, values] of Object.entries(filled)) {
      const columns = [...values.matchAll(/ as (\w+)/g)].map(([, column]) => column).join(', ');
      await client.query(
        `insert into promo_store.${table} (${columns}) select ${values} from generate_series(1, ${rows}) n`,
      );
    }
    if (analyzed) await client.query('analyze');
  });
}

/** The plans of the prepared statements of the store's only session. */
async function plansOf(store: TestStore): Promise<Map<string, string>> {
  const prepared = await store.rows(
    `select name, array_to_json(parameter_types) from pg_prepared_statements where name <> 'begin'`,
  );
  const statements = new Map(
    prepared.map(([name, types]): [string, string] => {
      const nulls = Array.from(JSON.parse(`${types}`), (type) => `null::${type}`);
      return [`${name}`, `execute ${name}${nulls.length > 0 ? `(${nulls.join(', ')})` : ''}`];
    }),
  );
  const plans = new Map<string, string>();
  for (const [name, text] of statements) {
    const lines = await inTransaction(store.pool, (session) =>
      session.query({ name: `explain_${name}`, text: `explain (costs off) ${text}` }),
    );
    plans.set(name, lines.flat().join('\n'));
  }
  return plans;
}

describe.each(versions)('on %s', (version) => {
  let servers: Awaited<ReturnType<typeof ownServers>> | undefined;
  const ofServer = () => (servers?.databaseUrl === undefined ? {} : { server: servers.databaseUrl });
  beforeAll(async () => {
    if (version !== OF_THE_RUN) servers = await ownServers({ need: ['postgres'], postgresVersion: version });
  });
  afterAll(() => servers?.stop());

  let store: TestStore;
  beforeEach(async () => {
    store = await freshStore({ own: true, maxConnections: 1, ...ofServer() });
    const [found] = await store.rows('show server_version');
    if (servers !== undefined) expect(found?.[0]).toMatch(new RegExp(`^${version}\\.`));
  });
  afterEach(() => store.close());

  test.each(KNOWN)(
    'planned for $rows rows, $perFeed in a feed, analyzed: $analyzed, a statement uses an index with all its conditions',
    async (known) => {
      await fill(store, known);
      const acme = store.partition('acme');
      await acme.read(aBet({ event_id: 'e-1' }));
      await acme.read(aWin({ event_id: 'e-2' }));
      expect(await acme.readAt(0, aBet({ event_id: 'e-1' }))).toEqual(['accepted, again']);

      await inTransaction(store.pool, (session) =>
        readRounds(session, { feedNo: 1, ids: ['r-1'] }, () => undefined),
      );

      const plans = await plansOf(store);
      const isBefore17 = Number(await store.value('show server_version_num')) < 17_00_00;
      for (const [name, columns] of Object.entries(CONDITIONS)) {
        const plan = plans.get(name) ?? '';
        const conditions = [...plan.matchAll(/Index Cond: (.*)/g)].map(([, condition]) => condition);
        const isWhole = (condition = '') =>
          columns.every((column) => condition.includes(column)) ||
          (isBefore17 && name === 'update_rounds' && BY_NUMBER.test(condition));
        expect({ name, plan, isByIndex: conditions.length > 0 && conditions.every(isWhole) }).toEqual({
          name,
          plan: expect.not.stringMatching(/Filter:|Seq Scan|JIT/),
          isByIndex: true,
        });
      }
      expect(plans.get('lock_partitions')).toMatch(/Index Cond: \(partition_no = ANY \(\$1\)\)/);
      expect(plans.get('count_partitions')).toMatch(/Index Cond: \(partition_no = ANY \(\$1\)\)/);
    },
  );

  test('rounds are locked in ascending order, in whatever order they are requested [U4]', async () => {
    const ids = ['r-3', 'r-1', 'r-4', 'r-2'];
    await store.partition('acme').read(...ids.map((id) => aBet({ event_id: id, round_id: id })));
    const locked: string[] = [];
    await inTransaction(store.pool, (session) =>
      lockRounds(session, { feedNo: 1, ids: [...ids, 'r-5'] }, ({ roundId }) => locked.push(roundId)),
    );
    expect(locked).toEqual(['r-1', 'r-2', 'r-3', 'r-4']);
  });
});
