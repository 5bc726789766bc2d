/** Roles of the database: the statements that each role is refused, and the work that it can do. */
import type { Client } from 'pg';
import { ensureMonths } from '../../src/ledger/partition-state';
import { type Grantee, grantRoles, grantStatements, UnfitRole } from '../../src/ledger/roles';
import { revokeTestRoles } from '../support/as-role';
import {
  aBet,
  aRefund,
  connectTo,
  damagesOf,
  freshStore,
  rowsOf,
  TestStore,
  withClient,
} from '../support/ledger';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';

const ROLES = [
  ...(['writer', 'reader', 'janitor', 'maintainer'] as const),
  ...(['reconciler', 'attributor', 'wallet', 'rollups', 'pseudonyms', 'promotions', 'completions'] as const),
];
type Name = (typeof ROLES)[number] | 'nobody';
const NAMES: readonly Name[] = [...ROLES, 'nobody'];

let store: TestStore;
const roles = new Map<Name, { name: string; url: string }>();
/** One connection of each role, for all statements of the table. */
const clients = new Map<Name, Client>();
const roleOf = (name: Name) => {
  const role = roles.get(name);
  if (role === undefined) throw new Error(`no role ${name}`);
  return role;
};
const grantees = (): Grantee[] => ROLES.map((role) => ({ role, name: roleOf(role).name }));

beforeAll(async () => {
  store = await freshStore({ own: true });
  for (const name of NAMES) roles.set(name, await makeRole(store.url, name));
  await grantRoles(store.url, grantees());
  for (const name of NAMES) clients.set(name, await connectTo(roleOf(name).url));
  await store
    .partition('acme')
    .read(aBet({ event_id: 'a' }), aBet({ event_id: 'a' }), aRefund(), null, aBet({ event_id: 'b' }));
  await store.value(`select promo.attribute_round('acme', 'r-8', 'p-8')`);
  await applyDefinitions(store.pool, definitionsOf('id: race, type: bet_count, target: 2'));
  // A past month, to be dropped.
  await store.pool.query(`create table promo_store.history_2020_01 partition of promo_store.history
    for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`);
});
afterAll(async () => {
  await Promise.all([...clients.values()].map((client) => client.end()));
  await dropRoles(
    store.url,
    [...roles.values()].map(({ name }) => name),
  );
  await store.close();
});

/**
 * Runs a statement as a role, and rolls it back. @returns whether it is allowed; any other error is thrown
 */
async function isAllowed(name: Name, statement: string): Promise<boolean> {
  const client = clients.get(name);
  if (client === undefined) throw new Error(`no connection of ${name}`);
  await client.query('begin');
  try {
    await client.query(statement);
    return true;
  } catch (error) {
    const code = error instanceof Error ? Reflect.get(error, 'code') : undefined;
    if (code === '42501') return false;
    throw error;
  } finally {
    await client.query('rollback');
  }
}

const STORED = ['event_keys', 'history', 'resends', 'unstored', 'faults', 'panics', 'rounds', 'partitions'];
const FOLDERS = ['rollups', 'pseudonyms', 'promotions'] as const;
/** Tables that a process of a fold owns, but for their definition. */
const FOLD_TABLES: Readonly<Record<string, readonly Name[]>> = {
  folds: FOLDERS,
  fold_generations: FOLDERS,
  rollup_verdicts: ['rollups'],
  rollup_ledger: ['rollups'],
  rollup_players: ['rollups'],
  rollup_player_counts: ['rollups'],
  pseudonym_keys: ['pseudonyms'],
  pseudonyms: ['pseudonyms'],
  promotion_generations: ['promotions'],
  promotion_progress: ['promotions'],
  promotion_boards: ['promotions'],
  promotion_attempts: ['promotions'],
  promotion_joins: ['promotions'],
  promotion_rounds: ['promotions'],
  promotion_round_sums: ['promotions'],
  promotion_recordings: ['promotions'],
  completion_outbox: ['completions'],
  completion_backlogs: ['completions'],
};
const foldersOf = (table: string): readonly Name[] => FOLD_TABLES[table] ?? [];
/** Tables that only the owner reads and writes. */
const DEFINITIONS = [
  ...['promotion_documents', 'promotions', 'promotion_versions', 'promotion_brands', 'promotion_terms'],
  ...['promotion_term_currencies', 'promotion_windows', 'promotion_completions'],
];
/** Tables without columns. */
const EMPTY = ['migrate_guard', 'attribution_guard'];
const ALL_TABLES = [
  ...STORED,
  ...[
    'operators',
    'refunds',
    'feeds',
    'connections',
    'brands',
    'reference_versions',
    'currencies',
    'months',
    'dropped_rows',
    'operations',
    'player_keys',
    'untagged',
    'first_cluster',
    'attributions',
    'attribution_versions',
    'erased_rounds',
    'erased_credits',
    'cell',
    'moves',
    'move_steps',
    'arrivals',
    'wallet_calls',
    ...DEFINITIONS,
    ...Object.keys(FOLD_TABLES),
  ],
  ...['migrations', 'migrations_lock', ...EMPTY],
];
const month = `to_char(now() at time zone 'utc', 'YYYY_MM')`;
const inMonth = (statement: string) =>
  `do $$ begin execute format('${statement}', 'history_' || ${month}); end $$`;
/** Columns that are the same in every table of that kind. */
const anyColumn: Readonly<Record<string, string>> = {
  event_keys: 'outcome',
  history: 'outcome',
  resends: 'first_outcome',
  unstored: 'dead_letter',
  faults: 'field',
  panics: 'error',
  completion_outbox: 'after',
  completion_backlogs: 'after',
  rounds: 'round_id',
  partitions: 'topic',
  operators: 'operator_id',
  feeds: 'feed_id',
  connections: 'connection_id',
  brands: 'brand_id',
  reference_versions: 'document',
  currencies: 'code',
  refunds: 'refunded_by',
  months: 'made_at',
  dropped_rows: 'duplicates',
  operations: 'outcome',
  player_keys: 'key',
  untagged: 'until',
  first_cluster: 'cluster_id',
  attributions: 'player_ref',
  attribution_versions: 'player_ref',
  erased_rounds: 'round_key',
  erased_credits: 'player_ref',
  cell: 'name',
  moves: 'state',
  move_steps: 'rows',
  arrivals: 'numbers_up_to',
  wallet_calls: 'op_id',
  promotion_documents: 'document',
  promotions: 'promotion_id',
  promotion_versions: 'until',
  promotion_brands: 'brand_no',
  promotion_terms: 'worth',
  promotion_term_currencies: 'unit_minor',
  promotion_generations: 'version',
  promotion_windows: 'closes_at',
  promotion_progress: 'attained',
  promotion_boards: 'closed_at',
  promotion_attempts: 'attempt',
  promotion_joins: 'player_ref',
  promotion_rounds: 'entries',
  promotion_round_sums: 'amount',
  promotion_recordings: 'after',
  promotion_completions: 'attempt',
  folds: 'generation',
  fold_generations: 'state',
  rollup_verdicts: 'verdicts',
  rollup_ledger: 'entries',
  rollup_players: 'entries',
  rollup_player_counts: 'players',
  pseudonym_keys: 'state',
  pseudonyms: 'player_id',
  migrations: 'name',
  migrations_lock: 'is_locked',
};

/** Statements, and the roles that may run each of them. All other roles are refused. */
const TABLE: readonly (readonly [statement: string, allowed: readonly Name[]])[] = [
  // Only the owner may change decided rows.
  ...ALL_TABLES.flatMap((table) => [
    [
      `delete from promo_store.${table}`,
      table === 'erased_credits' ? (['promotions'] as const) : foldersOf(table),
    ] as const,
    [`truncate promo_store.${table}`, []] as const,
    [`drop table promo_store.${table} cascade`, []] as const,
    [`alter table promo_store.${table} add column more int`, []] as const,
  ]),
  ...ALL_TABLES.filter((table) => !EMPTY.includes(table)).map(
    (table) =>
      [
        `update promo_store.${table} set ${anyColumn[table]} = ${anyColumn[table]}`,
        foldersOf(table),
      ] as const,
  ),
  [inMonth('update promo_store.%I set outcome = 0'), []],
  [inMonth('delete from promo_store.%I'), []],
  [inMonth('truncate promo_store.%I'), []],
  [inMonth('drop table promo_store.%I'), []],
  [inMonth('insert into promo_store.%I select * from promo_store.history'), []],
  ['update promo_store.event_keys set content_hash = 1, verdict_id = 1', []],
  ['update promo_store.rounds set round_no = 1', []],
  ['update promo_store.partitions set partition_no = default', []],
  // The work of a worker.
  [`insert into promo_store.event_keys values (1, 1, 1, 1, 1, 0, 'x')`, ['writer']],
  [`insert into promo_store.panics (verdict_id, error) values (1, 'x')`, ['writer']],
  [`insert into promo_store.faults values (now(), 1, 1, 1, 2, 1, 2, 'e', '/spec')`, ['writer']],
  [`insert into promo_store.partitions (topic, partition) values ('t', 1)`, ['writer']],
  [`insert into promo_store.partitions (topic, partition, next_offset) values ('t', 1, 7)`, []],
  ['update promo_store.partitions set next_offset = next_offset', ['writer']],
  ['update promo_store.rounds set bet_minor = bet_minor', ['writer']],
  ['select * from promo_store.rounds for update', ['writer']],
  [`select nextval('promo_store.batch_numbers')`, ['writer']],
  [`select setval('promo_store.batch_numbers', 1)`, []],
  ['select promo_store.ensure_months(2)', ['writer']],
  // Statements that would block others.
  ['select promo_store.lock_feeds(array[1])', ['writer']],
  ['select from promo_store.feeds for key share', []],
  ...['months', 'feeds', ...EMPTY].map(
    (table) => [`lock table promo_store.${table} in share update exclusive mode`, []] as const,
  ),
  ['select document from promo_store.reference_versions', ['writer', 'reconciler']],
  [`insert into promo_store.reference_versions (version, document) values (7, '{}')`, []],
  [`insert into promo_store.operators (operator_id) values ('x')`, []],
  // Rows with player data.
  [
    'select verdict_id, decided_at from promo_store.history',
    ['writer', 'rollups', 'pseudonyms', 'promotions'],
  ],
  ['select player_ref from promo_store.history', ['rollups', 'pseudonyms', 'promotions']],
  ['select payload from promo_store.panics', []],
  ['select player_ref from promo.verdicts', []],
  ['select player_ref from promo.ledger', []],
  ['select * from promo.verdicts', []],
  ['select * from promo.ledger', []],
  [inMonth('table promo_store.%I'), []],
  ['select key from promo_store.player_keys', ['writer', 'reconciler']],
  // Views for analysts.
  ...['events', 'deliveries', 'rounds', 'anomalies'].map(
    (view) => [`select * from promo.${view}`, ['reader']] as const,
  ),
  ['select event_id, verdict, amount from promo.verdicts', ['reader']],
  ['select event_id, amount from promo.ledger', ['reader']],
  ['select event_id, net_amount from promo.facts', ['reader']],
  ['select player_ref from promo.facts', []],
  ['select round_id, last_event_id from promo.round_details', ['reader']],
  ['select credited_player from promo.round_details', []],
  ...['faults', 'records_without_verdict', 'months', 'erasures', 'reasons'].map(
    (view) => [`select * from promo.${view}`, ['reader']] as const,
  ),
  [`select * from promo.explain('acme', 'a')`, ['reader']],
  [`select * from promo.explain_round('acme', 'r-1')`, ['reader']],
  ['select * from promo.rounds_opened(now())', ['reader']],
  ['select player_ref from promo.rounds_opened_with_players(now())', []],
  ...['promotions', 'miss_reasons'].map((view) => [`select * from promo.${view}`, ['reader']] as const),
  ['select share, completions from promo.promotion_progress', ['reader']],
  ['select completion_id, holds from promo.completions', ['reader']],
  ['select player_ref from promo.promotion_progress', []],
  ['select player_ref from promo.completions', []],
  [`select * from promo.leaderboard('acme', 'race')`, ['reader']],
  [`select player_ref from promo.leaderboard_with_players('acme', 'race')`, []],
  [`select * from promo.promotion_entries('acme', 'race', now())`, ['reader']],
  [`select * from promo.promotion_entries_with_players('acme', 'race', now())`, []],
  [`select * from promo.promotion_misses('acme', 'race', now())`, ['reader']],
  [`select * from promo.why_not('acme', 'a')`, ['reader']],
  [`select * from promo.explain_progress('acme', 'race', 'p')`, ['reader']],
  [`select * from promo.explain_progress_with_player('acme', 'race', 'p')`, []],
  ['select * from promo_store.match_events(1, null, null, null, null, null, 1)', []],
  ['select * from promo.erased_verdicts(1)', ['reader']],
  [`select promo.verdict_id_of('acme', 'a')`, ['reader']],
  [`select * from promo.verdict_of('acme', 'a')`, []],
  ['select * from promo.check_invariants()', ['reader']],
  ['select promo.safe_up_to()', ['reader', ...FOLDERS]],
  ['select promo.lineage()', ['reader', ...FOLDERS]],
  ...['changes', 'new_verdicts', 'new_deliveries', 'attribution_changes'].map(
    (range) => [`select * from promo.${range}(-1)`, ['reader']] as const,
  ),
  ['select player_ref from promo.changes_with_players(-1)', []],
  ['select credited_player from promo.attribution_changes_with_players(-1)', []],
  [`select * from promo_store.decided_offsets('{t}', '{0}', '{0}', 1)`, ['reader']],
  // Functions for every role.
  ...['promotion_documents', 'promotion_versions'].map(
    (view) => [`select * from promo.${view}`, ROLES] as const,
  ),
  ...[
    'partitions',
    'operations',
    'migrations',
    'reference_versions',
    'pseudonym_coverage',
    'promotion_coverage',
  ].map((view) => [`select * from promo.${view}`, ROLES] as const),
  // Operations. A role may add to their log, and no role in the log may change it.
  [`select promo.begin_operation('replay', '{}')`, ['writer', 'maintainer']],
  [`insert into promo_store.operations (operation, request) values ('replay', '{}')`, []],
  [`select * from promo.erase_player('acme', 'nobody')`, ['maintainer']],
  [`select * from promo.retention_plan('2020-02-01')`, ['janitor']],
  [`select promo.drop_months_before('2020-02-01')`, ['janitor']],
  ['select * from promo.restart_rebuilds()', ['janitor']],
  ['select * from promo.forget_dropped_players()', ['janitor']],
  // Reconciliation: its role reads what was decided for an id, and no event.
  ['select outcome, content_hash from promo_store.event_keys', ['writer', 'reconciler']],
  ['select verdict_id from promo_store.event_keys', ['writer']],
  ['select event_id, first_outcome from promo_store.resends', ['writer', 'reconciler']],
  // Attributions: only the attributor sets them, once, and it reads none.
  [`select promo.attribute_round('acme', 'r-9', 'p-9')`, ['attributor']],
  [`select * from promo.attribute_rounds('acme', array['r-9'], array['p-9'])`, ['attributor']],
  [`select promo.feed_of_connection('acme', 'acme-prod')`, ['attributor']],
  [`select promo.correct_attribution('acme', 'r-8', 'p-8', 'p-9', 'a test')`, ['maintainer']],
  [
    `insert into promo_store.attributions (feed_no, round_key, round_id, player_ref) values (1, 'r', 'r', 'p')`,
    [],
  ],
  ['select promo.forget_dropped_attributions()', ['janitor']],
  ['select round_id, attributed_at from promo.attributions', ['reader']],
  ['select credited_player from promo.attributions', []],
  ['select credited_player from promo.ledger', []],
  [`select * from promo.credited_entries('acme', 'p')`, []],
  ['select attributed from promo.rounds', ['reader']],
  // Calls of wallets: their role adds and changes them, and nobody deletes an open one.
  [
    `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, due_at)
     values ('acme', 'op', 'debit', 'x', '{}', '{}', now())`,
    ['wallet'],
  ],
  [`update promo_store.wallet_calls set state = 'ok', due_at = now()`, ['wallet']],
  ['update promo_store.wallet_calls set created_at = now()', []],
  ['select payload, call_values from promo_store.wallet_calls for update', ['wallet']],
  ['select * from promo.wallet_calls', ['reader', 'maintainer', 'wallet']],
  [`select promo.close_wallet_call('acme', 'op', 'by hand')`, ['maintainer']],
  ['select promo.forget_wallet_calls(now())', ['janitor']],
  // Rollups: nobody but their role can lock or change them.
  ...Object.entries(FOLD_TABLES).map(
    ([table, folders]) => [`select from promo_store.${table} for update`, folders] as const,
  ),
  ['select verdict_id, round_no, event_id from promo_store.history', ['rollups', 'promotions']],
  ['select promo_store.complete_history_since()', FOLDERS],
  ['select promo_store.last_batch()', FOLDERS],
  ['select promo_store.summarize_history()', FOLDERS],
  // Pseudonyms: their role reads names, and nothing that players did. A reader has no way to a name.
  ['select verdict_id, feed_no, player_ref from promo_store.history', FOLDERS],
  ['select amount_minor from promo_store.history', ['rollups', 'promotions']],
  ['select round_key, player_ref from promo_store.attributions', []],
  ['select player_id from promo_store.pseudonyms', ['pseudonyms']],
  ['select key_id from promo_store.pseudonym_keys', ['pseudonyms']],
  ...['verdicts', 'ledger', 'attributions', 'rounds', 'player_ids'].map(
    (view) => [`select * from promo_reader.${view}`, ['reader']] as const,
  ),
  ['select * from promo.former_player_ids', ['reader']],
  ['select * from promo.forget_dropped_pseudonyms(0)', ['janitor']],
  [`select promo_store.forget_pseudonym('acme', 'p', 'erased:1')`, []],
  ['select promo.forget_dropped_player_sums()', ['janitor']],
  [`select promo_store.forget_player_sums('acme', 'p', 'erased:1')`, []],
  ['select promo_store.wait_for_rollups()', []],
  ['select player_ref from promo.player_ledger_daily', []],
  ['select day, brand, entries, amount from promo.player_ledger_daily', ['reader']],
  ['select * from promo_reader.player_ledger_daily', ['reader']],
  [`select promo_store.show_to_readers('verdicts')`, []],
  ['create view promo_reader.another as select 1', []],
  ...['verdicts_hourly', 'ledger_daily', 'players_daily'].map(
    (view) => [`select * from promo.${view}`, ['reader']] as const,
  ),
  // Rights on the whole database.
  ['create schema another', []],
  ['create table promo.another ()', []],
  ['create table promo_store.another ()', []],
  ['create function promo.another() returns int language sql as $$ select 1 $$', []],
];

test.each(TABLE)('%s: allowed to %j', async (statement, allowed) => {
  const found = [];
  for (const name of NAMES) if (await isAllowed(name, statement)) found.push(name);
  expect(found).toEqual(allowed);
});

test.each(['writer', 'maintainer'] as const)(
  '%s cannot log a retention, which would make verify ignore records',
  async (name) => {
    await withClient(roleOf(name).url, async (client) => {
      for (const operation of ['retention', 'erasure', 'anything'])
        await expect(client.query('select promo.begin_operation($1, $2)', [operation, '{}'])).rejects.toThrow(
          `${operation} cannot be logged by this function`,
        );
    });
  },
);

test('temporary objects of a role replace no name that the owner uses', async () => {
  const ran = `raise exception 'ran as %', current_user`;
  await withClient(roleOf('reader').url, async (client) => {
    await client.query(
      `create function pg_temp.f(pg_catalog.timestamptz) returns bool language plpgsql as $$ begin ${ran}; end $$`,
    );
    await client.query(
      'create domain pg_temp.timestamptz as pg_catalog.timestamptz check (pg_temp.f(value))',
    );
    expect(await rowsOf(client, 'select * from promo.check_invariants()')).toEqual([]);
  });
  await withClient(roleOf('writer').url, async (client) => {
    await client.query(
      `create function pg_temp.f(oid) returns bool language plpgsql as $$ begin ${ran}; end $$`,
    );
    await client.query('create temp view pg_class as select * from pg_catalog.pg_class where pg_temp.f(oid)');
    await client.query('begin; select promo_store.ensure_months(4); rollback');
  });
  const open = await store.rows(
    `select oid::regprocedure::text from pg_proc where pronamespace in ('promo'::regnamespace, 'promo_store'::regnamespace)
     and prosecdef and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)`,
  );
  expect(open).toEqual([]);
});

test('a member of the reader that may see players can look verdicts up, also after a second grant', async () => {
  const { name: analyst, url } = await makeRole(store.url, 'analyst');
  try {
    await withClient(store.url, async (client) => {
      await client.query(`grant ${roleOf('reader').name} to ${analyst}`);
      await client.query(`grant select on promo.verdicts, promo.ledger to ${analyst}`);
    });
    await grantRoles(store.url, grantees());
    const looked = await withClient(url, (client) =>
      rowsOf(client, `select verdict, player_ref from promo.verdict_of('acme', 'a')`),
    );
    expect(looked).toEqual([['accepted', aBet().player_ref]]);
  } finally {
    await dropRoles(store.url, [analyst]);
  }
});

test('the list above has all tables, so that no new one is missing', async () => {
  const found = await store.rows(
    `select relname from pg_class where relnamespace = 'promo_store'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  expect(found.flat().sort()).toEqual([...ALL_TABLES].sort());
});

test('the reader reads every column of every view of promo, except players [B8]', async () => {
  expect(
    await store.rows(
      `select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
       where c.relnamespace = 'promo'::regnamespace and c.relkind = 'v' and a.attnum > 0 and not has_column_privilege($1, c.oid, a.attnum, 'select')
       order by 1`,
      [roleOf('reader').name],
    ),
  ).toEqual([
    ['attributions.credited_player'],
    ['completions.player_ref'],
    ['facts.credited_player'],
    ['facts.player_ref'],
    ['ledger.credited_player'],
    ['ledger.player_ref'],
    ['player_ledger_daily.player_ref'],
    ['promotion_progress.player_ref'],
    ['round_details.credited_player'],
    ['round_details.player_ref'],
    ['test_verdicts.player_ref'],
    ['verdicts.player_ref'],
  ]);
});

test('the reader looks a verdict up by the id of its event, without its player', async () => {
  const look = (event: string) =>
    withClient(roleOf('reader').url, (client) =>
      rowsOf(
        client,
        `select event_id, verdict from promo.verdicts where verdict_id = (select promo.verdict_id_of('acme', $1))`,
        [event],
      ),
    );
  expect(await look('a')).toEqual([['a', 'accepted']]);
  expect(await look('never sent')).toEqual([]);
});

test('the writer decides, creates months, and leaves a sound store', async () => {
  const limited = new TestStore(roleOf('writer').url, { own: true });
  limited.damaged = true; // It may not look.
  try {
    await ensureMonths(limited.pool);
    const [one, other] = [limited.partition('acme', 1), limited.partition('acme.second', 5)];
    expect(
      await one.read(
        aBet({ event_id: 'w1' }),
        aRefund(),
        aBet({ event_id: 'w1' }),
        null,
        aBet({ amount: '1' }),
      ),
    ).toEqual([
      'skipped/round_refunded',
      'accepted',
      'duplicate of skipped/round_refunded',
      'without key',
      'skipped/round_refunded',
    ]);
    expect(await other.read(aBet({ event_id: 'w2', round_id: 'of the writer' }))).toEqual(['accepted']);
    expect(await other.read(aRefund({ round_id: 'of the writer' }))).toEqual(['accepted']);
  } finally {
    await limited.disconnect();
  }
  expect(await withClient(roleOf('reader').url, damagesOf)).toEqual([]);
});

test('the writer answers records that are read again as before, also where verdicts are published [S7]', async () => {
  const limited = new TestStore(roleOf('writer').url, { own: true });
  limited.damaged = true; // It may not look.
  try {
    const partition = limited.writer({ isPublished: true }).partition('acme', 7);
    const records = [
      ...[aBet({ event_id: 'again', round_id: 'read again' }), aRefund({ round_id: 'read again' })],
      ...[
        aBet({ event_id: 'again', round_id: 'read again' }),
        aBet({ event_id: 'faulty', amount: '1,5' }),
        null,
      ],
    ];
    const first = await partition.read(...records);
    expect(await partition.readAt(0, ...records)).toEqual(first.map((each) => `${each}, again`));
  } finally {
    await limited.disconnect();
  }
});

test('a second grant revokes other privileges of a role, and one role may be both', async () => {
  await store.pool.query(`grant select on promo_store.history to ${roleOf('nobody').name};
    grant delete on promo_store.event_keys to ${roleOf('nobody').name}`);
  const name = roleOf('nobody').name;
  await grantRoles(store.url, [
    { role: 'reader', name },
    { role: 'janitor', name },
  ]);
  expect(await isAllowed('nobody', 'select player_ref from promo_store.history')).toBe(false);
  expect(await isAllowed('nobody', 'delete from promo_store.event_keys')).toBe(false);
  expect(await isAllowed('nobody', 'select * from promo.partitions')).toBe(true);
  expect(await isAllowed('nobody', `select promo.drop_months_before('2020-01-01')`)).toBe(true);
});

test('after a restore without privileges, granting again closes the functions of the owner to other roles', async () => {
  const open = `select n.nspname || '.' || p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('promo', 'promo_store') and p.prosecdef and has_function_privilege('public', p.oid, 'execute')`;
  const namesOf = async (): Promise<unknown[]> =>
    (await store.pool.query({ text: open, rowMode: 'array' })).rows;
  const closed = await namesOf();
  await store.pool.query('grant execute on all functions in schema promo, promo_store to public');
  expect((await namesOf()).length).toBeGreaterThan(12);
  expect(await isAllowed('reader', `select promo.drop_months_before('2020-01-01')`)).toBe(true);
  await grantRoles(store.url, grantees());
  expect([closed, await namesOf()]).toEqual([[], []]);
  expect(await isAllowed('reader', `select promo.drop_months_before('2020-01-01')`)).toBe(false);
  expect(await isAllowed('writer', `select promo.erase_player('acme', 'p', 1, null)`)).toBe(false);
  expect(await isAllowed('janitor', `select promo.drop_months_before('2020-01-01')`)).toBe(true);
});

test('a missing role, and a role that cannot be limited, is granted nothing', async () => {
  const superuser = new URL(store.url).username;
  const granted = grantRoles(store.url, [
    { role: 'writer', name: 'no such role' },
    { role: 'reader', name: superuser },
    { role: 'janitor', name: roleOf('nobody').name },
  ]);
  await expect(granted).rejects.toThrow(UnfitRole);
  await expect(granted).rejects.toThrow(
    /^the role no such role does not exist; create it first\nthe role \S+ is a superuser, to whom nothing can be refused/,
  );
});

test('names are quoted', () => {
  expect(grantStatements([{ role: 'janitor', name: 'a"b' }])).toContain(
    'grant usage on schema promo to "a""b"',
  );
});

describe('the right to connect to the database', () => {
  let own: TestStore;
  const made: string[] = [];
  beforeEach(async () => {
    own = await freshStore({ own: true });
    await revokeTestRoles(own.pool);
  });
  afterEach(async () => {
    await dropRoles(own.url, made.splice(0));
    await own.close();
  });

  const databaseName = () => new URL(own.url).pathname.slice(1);
  async function aRole(purpose: string): Promise<{ name: string; url: string }> {
    const role = await makeRole(own.url, purpose);
    made.push(role.name);
    await own.pool.query(`revoke connect on database ${databaseName()} from ${role.name}`);
    return role;
  }
  const connects = (url: string) =>
    withClient(url, async () => true).catch((error: unknown) => {
      expect(String(error)).toContain('permission denied for database');
      return false;
    });

  test('is taken from all roles that do not use it, and grantees keep it', async () => {
    const [writer, stranger] = [await aRole('writer'), await aRole('stranger')];
    expect(await connects(stranger.url)).toBe(true);
    expect(await grantRoles(own.url, [{ role: 'writer', name: writer.name }])).toEqual({
      isRevoked: true,
      reasons: [],
      statements: [],
    });
    expect(await connects(stranger.url)).toBe(false);
    expect(await connects(writer.url)).toBe(true);
    // Also grant connect to a role that is created later.
    const reader = await aRole('reader');
    expect(await connects(reader.url)).toBe(false);
    await grantRoles(own.url, [{ role: 'reader', name: reader.name }]);
    expect(await connects(reader.url)).toBe(true);
    expect(await connects(stranger.url)).toBe(false);
  });

  test('stays public where another role would lose access, and the statements name each such role', async () => {
    const writer = await aRole('writer');
    const uses = {
      owner: await aRole('owner'),
      analyst: await aRole('analyst'),
      connected: await aRole('connected'),
      setting: await aRole('setting'),
      temporary: await aRole('temporary'),
    };
    await own.pool.query(`create schema apart authorization ${uses.owner.name};
      grant select on promo.operations to ${uses.analyst.name};
      alter role ${uses.setting.name} in database ${databaseName()} set work_mem = '8MB';
      grant temporary on database ${databaseName()} to ${uses.temporary.name}`);
    const [member, stranger, known] = [await aRole('member'), await aRole('stranger'), await aRole('known')];
    await own.pool.query(`grant ${uses.analyst.name} to ${member.name};
      grant select on promo.operations to ${known.name}; grant connect on database ${databaseName()} to ${known.name}`);
    const names = Object.values(uses).map(({ name }) => name);
    await withClient(uses.connected.url, async () => {
      const { isRevoked, reasons, statements } = await grantRoles(own.url, [
        { role: 'writer', name: writer.name },
      ]);
      expect(isRevoked).toBe(false);
      expect(reasons).toEqual([expect.stringContaining(`${[...names].sort().join(', ')} would lose access`)]);
      expect(statements).toHaveLength(2);
      expect(await connects(stranger.url)).toBe(true);
      for (const statement of statements) await own.pool.query(statement);
    });
    for (const { url } of [...Object.values(uses), member, known, writer])
      expect(await connects(url)).toBe(true);
    expect(await connects(stranger.url)).toBe(false);
    expect(await grantRoles(own.url, [{ role: 'writer', name: writer.name }])).toMatchObject({
      isRevoked: true,
    });
  });

  test('stays public where the database has another owner than the tables, and the answer names the owner', async () => {
    const [owner, writer] = [await aRole('owner'), await aRole('writer')];
    await own.pool.query(`do $$ declare each record; begin
      for each in select nspname from pg_namespace where nspname in ('promo', 'promo_reader', 'promo_store') loop
        execute format('alter schema %I owner to ${owner.name}', each.nspname);
      end loop;
      for each in select c.oid::regclass as name from pg_class c where relnamespace in ('promo'::regnamespace, 'promo_reader'::regnamespace, 'promo_store'::regnamespace)
        and (relkind in ('r', 'p', 'v') or relkind = 'S' and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i'))) loop
        execute format('alter table %s owner to ${owner.name}', each.name);
      end loop;
      for each in select oid::regprocedure as name from pg_proc where pronamespace in ('promo'::regnamespace, 'promo_store'::regnamespace) loop
        execute format('alter function %s owner to ${owner.name}', each.name);
      end loop;
    end $$`);
    const right = await grantRoles(owner.url, [{ role: 'writer', name: writer.name }]);
    expect(right).toEqual({
      isRevoked: false,
      reasons: [`only its owner ${new URL(store.url).username} can revoke that`],
      statements: [
        `grant connect on database "${databaseName()}" to "${writer.name}", "${owner.name}"`,
        `revoke connect on database "${databaseName()}" from public`,
      ],
    });
    for (const statement of right.statements) await own.pool.query(statement);
    expect(await grantRoles(owner.url, [{ role: 'writer', name: writer.name }])).toMatchObject({
      isRevoked: true,
      reasons: [],
    });
    const reader = await aRole('reader');
    expect(await grantRoles(owner.url, [{ role: 'reader', name: reader.name }])).toMatchObject({
      isRevoked: true,
      reasons: [expect.stringContaining(`${reader.name} may not connect to it`)],
      statements: [`grant connect on database "${databaseName()}" to "${reader.name}"`],
    });
    await own.pool.query(`reassign owned by ${owner.name} to current_user`);
  });
});
