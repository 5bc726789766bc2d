/**
 * The rights of each database role, as SQL. The operator of the cluster creates the roles and chooses their
 * names. This module grants them the rights that they need, and no others.
 *
 * The migrator owns all objects. It needs no grant from us, only CREATE on the database.
 */
import { escapeIdentifier } from 'pg';
import { ANSWER_GRACE_MS, endClient, KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';
import { BEGIN } from '../postgres/transaction';
import { type ConnectRight, limitConnect } from './connect-right';

export type Role =
  | 'writer'
  | 'reader'
  | 'janitor'
  | 'maintainer'
  | 'reconciler'
  | 'attributor'
  | 'wallet'
  | 'rollups'
  | 'pseudonyms'
  | 'promotions'
  | 'completions';

const STORED_ROUND = `refunded_by, refunded_at, settled, second_settled, player_mismatch, brand_mismatch, player_hash, brand_no, currency_no,
  bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums, player_tag`;
const COUNTERS = `next_offset, decided_up_to, records_read, accepted, rejected, skipped, duplicates, redeliveries, dead_letters, without_key, updated_at, begins_at`;

/** The tables that `status` reads. They hold no data of players. */
const STATUS = [
  'usage on schema promo',
  'select on promo.partitions, promo.operations, promo.migrations, promo.reference_versions, promo.cell, promo.moves, promo.wallet_backlog, promo.rollup_coverage, promo.pseudonym_coverage, promo.promotion_coverage',
  'select on promo.promotion_documents, promo.promotion_versions, promo.completion_publishing, promo.held_back_completions',
];
/** The columns of a verdict that name no player. */
const VERDICT = `operator_id, feed_id, event_id, verdict, reason, connection_id, brand, kind, round_id, game_id, amount_minor, currency, scale, amount,
  occurred_at, decided_at, counted, verdict_id, reference_version, source_topic, source_partition, source_offset, counts_now, source_timestamp`;
/** The functions of the horizon, up to which a fold reads, and of the summaries that find verdicts. */
const HORIZON = [
  ...['promo.safe_up_to(interval)', 'promo.lineage()', 'promo_store.last_batch()'],
  ...['promo_store.complete_history_since()', 'promo_store.summarize_history(int)'],
];
const BATCH_NUMBERS = 'select on sequence promo_store.batch_numbers';
/** The functions that write the log of operations. */
const LOG = ['promo.begin_operation(text, jsonb)', 'promo.end_operation(bigint, jsonb)'];

/** The columns of a call that change. The others are those of its begin. */
const STORED_CALL = `payload, call_values, state, due_at, sending_since, lease_no, attempts, first_sent_at, last_sent_at, last_ended_at, last_answer,
  is_uncertain, ended_at`;

interface Rights {
  /** Grants on schemas, tables, columns and sequences, without their `to NAME`. */
  readonly objects: readonly string[];
  /** The functions that the role may call. No other role may, unless its rights have them, too. */
  readonly functions?: readonly string[];
}

const RIGHTS: Readonly<Record<Role, Rights>> = {
  /**
   * The worker, and replays. A verdict never changes, so history, keys and deliveries cannot be updated or
   * deleted. Of history it reads when a verdict was given: a message that comes again has the same time.
   */
  writer: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo_store.reference_versions, promo_store.operators, promo_store.feeds, promo_store.connections, promo_store.brands, promo_store.player_keys',
      'select, insert on promo_store.event_keys, promo_store.resends, promo_store.unstored, promo_store.rounds',
      'select (verdict_id, decided_at), insert on promo_store.history',
      'insert on promo_store.faults, promo_store.panics',
      `update (${STORED_ROUND}) on promo_store.rounds`,
      `select, insert (topic, partition, cluster_id), update (${COUNTERS}) on promo_store.partitions`,
      'usage on sequence promo_store.batch_numbers',
    ],
    functions: [
      ...LOG,
      'promo_store.ensure_months(int)',
      'promo_store.lock_feeds(int[])',
      'promo_store.claim_cluster(text)',
    ],
  },
  /**
   * Analysts and `verify`. Without players, and so without `select *` of the views of promo that have them.
   * Each view of promo_reader is readable as a whole.
   */
  reader: {
    objects: [
      ...STATUS,
      'usage on schema promo_store, promo_reader',
      'select on all tables in schema promo_reader',
      'select on promo.player_ids, promo.former_player_ids',
      'select on promo.events, promo.deliveries, promo.rounds, promo.anomalies',
      `select (${VERDICT}) on promo.verdicts`,
      `select (${VERDICT}) on promo.test_verdicts`,
      'select on promo.test_deliveries, promo.connections',
      'select on promo.faults, promo.records_without_verdict, promo.months, promo.erasures, promo.reasons',
      `select (verdict_id, operator_id, feed_id, event_id, brand, kind, round_id, game_id, currency, scale, amount_minor, amount, net_amount_minor, net_amount,
  refunded, refunded_at, refunded_by, connection_id, occurred_at, source_timestamp, decided_at) on promo.facts`,
      `select (operator_id, feed_id, round_id, state, brand, game_id, events, last_event_id, last_kind, last_verdict, last_decided_at, opened_at,
  refunded_at) on promo.round_details`,
      `select (entry_id, operator_id, feed_id, event_id, round_id, brand, kind, currency, scale, amount_minor, amount, reverses_entry_id, entered_at,
  verdict_id, game_id, occurred_at, decided_at) on promo.ledger`,
      'select (operator_id, feed_id, round_id, round_key, brand, attributed_at, attributed_by, corrections) on promo.attributions',
      'select on promo.wallet_calls, promo.verdicts_hourly, promo.ledger_daily, promo.players_daily',
      'select (day, operator_id, brand, kind, currency, scale, entries, amount_minor, amount) on promo.player_ledger_daily',
      `select (operator_id, promotion_id, type, version, window_key, starts_at, ends_at, item, currency, value_minor, value, target, share, completions, points,
  changed_at) on promo.promotion_progress`,
      `select (entry_no, completion_id, change, operator_id, promotion_id, version, window_key, starts_at, ends_at, ordinal, attempt, change_no, changed_at,
  entered_at, holds) on promo.completions`,
      'select on promo.promotions, promo.miss_reasons',
    ],
    functions: [
      'promo.explain(text, text)',
      'promo.explain_round(text, text)',
      'promo.rounds_opened(timestamptz, timestamptz)',
      'promo.erased_verdicts(bigint)',
      'promo.newest_since(int)',
      'promo.entries_since(timestamptz, timestamptz)',
      'promo.batches_in_flight()',
      'promo.safe_up_to(interval)',
      'promo.lineage()',
      'promo.changes(bigint, bigint, text)',
      'promo.new_verdicts(bigint, bigint, text)',
      'promo.new_deliveries(bigint, bigint, text)',
      'promo.attribution_changes(bigint, bigint, text)',
      'promo.leaderboard(text, text, text, int)',
      'promo.promotion_entries(text, text, timestamptz, timestamptz)',
      'promo.promotion_misses(text, text, timestamptz, timestamptz)',
      'promo.why_not(text, text)',
      'promo.explain_progress(text, text, text, text)',
      'promo.verdict_id_of(text, text)',
      'promo_store.refuse_unknown_feed(text)',
      'promo.check_invariants()',
      'promo.check_month(date)',
      'promo_store.decided_offsets(text[], int[], bigint[], int, text)',
    ],
  },
  /** Retention. */
  janitor: {
    objects: STATUS,
    functions: [
      'promo.drop_months_before(date)',
      'promo.restart_rebuilds()',
      'promo.retention_plan(date)',
      'promo.forget_dropped_players(int)',
      'promo.forget_dropped_attributions()',
      'promo.forget_dropped_pseudonyms(bigint, int)',
      'promo.forget_dropped_player_sums(int)',
      'promo.forget_wallet_calls(timestamptz, int)',
    ],
  },
  /** Erasure of players, replay of dead letters, and corrections by people. */
  maintainer: {
    objects: [...STATUS, 'select on promo.wallet_calls'],
    functions: [
      ...LOG,
      'promo.erase_player(text, text, int, bigint)',
      'promo.close_wallet_call(text, text, text)',
      'promo.correct_attribution(text, text, text, text, text, text)',
    ],
  },
  /** `reconcile`. It compares contents by the keys of player tags. It reads no event and no player. */
  reconciler: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo_store.reference_versions, promo_store.operators, promo_store.feeds, promo_store.connections, promo_store.brands, promo_store.player_keys',
      'select (feed_no, event_key, outcome, content_hash) on promo_store.event_keys',
      'select (partition_no, topic, partition, decided_up_to, next_offset, updated_at) on promo_store.partitions',
      'select (partition_no, source_offset, dead_letter, connection_no) on promo_store.unstored',
      'select (partition_no, source_offset, feed_no, event_id, first_outcome, content_differs) on promo_store.resends',
    ],
  },
  /** The service that launches games. It sets attributions, and reads none. */
  attributor: {
    objects: STATUS,
    functions: [
      'promo.attribute_rounds(text, text[], text[], text[], text[])',
      'promo.attribute_round(text, text, text, text, text)',
      'promo.feed_of_connection(text, text)',
    ],
  },
  /** The service that calls wallets. It cannot delete a call, nor change the identity of one. */
  wallet: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo.wallet_calls, promo_store.wallet_calls',
      `insert (operator_id, op_id, action, follows, content_hash, payload, call_values, due_at, sending_since, lease_no), update (${STORED_CALL}) on promo_store.wallet_calls`,
    ],
  },
  /** The process that keeps the rollups. It reads history, and writes only its own tables. */
  rollups: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo_store.feeds, promo_store.refunds, promo_store.months',
      `select (verdict_id, decided_at, occurred_at, amount_minor, round_no, feed_no, connection_no, brand_no, outcome, kind, currency_no, counted,
  event_id, game_id, player_ref, source_delay) on promo_store.history`,
      `select, insert, update, delete on promo_store.folds, promo_store.fold_generations, promo_store.rollup_verdicts, promo_store.rollup_ledger,
  promo_store.rollup_players, promo_store.rollup_player_counts`,
      BATCH_NUMBERS,
    ],
    functions: HORIZON,
  },
  /** The process that computes pseudonyms. It reads the names of players, and nothing that they did. */
  pseudonyms: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo_store.feeds, promo_store.months',
      'select (verdict_id, decided_at, feed_no, player_ref, source_delay) on promo_store.history',
      'select (feed_no, player_ref, change_no) on promo_store.attributions',
      'select, insert, update, delete on promo_store.folds, promo_store.fold_generations, promo_store.pseudonym_keys, promo_store.pseudonyms',
      BATCH_NUMBERS,
    ],
    functions: HORIZON,
  },
  /** The process that counts promotions. It writes progress and completions, and changes no definition. */
  promotions: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo_store.feeds, promo_store.operators, promo_store.brands, promo_store.currencies, promo_store.refunds, promo_store.months',
      'select (round_no, feed_no, round_key, opened_at) on promo_store.rounds',
      `select (verdict_id, decided_at, occurred_at, amount_minor, round_no, feed_no, brand_no, outcome, kind, currency_no, counted, event_id, player_ref,
  game_id, source_delay, ctid) on promo_store.history`,
      'select (feed_no) on promo_store.attributions',
      'select on promo_store.attribution_changes',
      'select, delete on promo_store.erased_credits',
      'select on promo_store.promotions, promo_store.promotion_versions',
      `select, insert, update, delete on promo_store.folds, promo_store.fold_generations, promo_store.promotion_generations, promo_store.promotion_progress,
  promo_store.promotion_boards, promo_store.promotion_attempts, promo_store.promotion_joins, promo_store.promotion_rounds, promo_store.promotion_round_sums, promo_store.promotion_recordings`,
      'select, insert on promo_store.promotion_windows, promo_store.promotion_completions',
      BATCH_NUMBERS,
    ],
    functions: HORIZON,
  },
  /** The process that publishes completions. It reads their ledger, and nothing that the players did. */
  completions: {
    objects: [
      ...STATUS,
      'usage on schema promo_store',
      'select on promo_store.migrations, promo.connections, promo_store.operators, promo_store.promotions, promo_store.promotion_versions, promo_store.promotion_windows, promo_store.promotion_completions',
      'select, insert, update, delete on promo_store.completion_outbox, promo_store.completion_backlogs',
    ],
  },
};

/** Every role may call these: they read what the role itself may read. */
const OPEN_FUNCTIONS: readonly string[] = ['promo.verdict_id_of(text, text)'];

/**
 * Functions that no role of ours may call. The owner calls them, or a function on behalf of the owner. Those
 * with players are for roles that the owner grants them to.
 */
const OWN_FUNCTIONS: readonly string[] = [
  'promo_store.find_attribution_damages()',
  'promo.changes_with_players(bigint, bigint, text)',
  'promo.rounds_opened_with_players(timestamptz, timestamptz)',
  'promo.leaderboard_with_players(text, text, text, int)',
  'promo.promotion_entries_with_players(text, text, timestamptz, timestamptz)',
  'promo.explain_progress_with_player(text, text, text, text)',
  'promo_store.match_events(int, timestamptz, timestamptz, timestamptz, timestamptz, text, bigint)',
  'promo.attribution_changes_with_players(bigint, bigint, text)',
  'promo_store.take_change_no()',
  'promo_store.number_change()',
  'promo_store.order_completions()',
  'promo_store.completion_id(int, text, int, int)',
  'promo_store.show_to_readers(text)',
  'promo_store.wait_for_pseudonyms()',
  'promo_store.forget_pseudonym(text, text, text)',
  'promo_store.wait_for_rollups()',
  'promo_store.forget_player_sums(text, text, text)',
  'promo_store.batch_holders()',
  'promo_store.check_numbers()',
  'promo_store.horizon_of(bigint, bigint, text)',
  'promo_store.note_refund()',
  'promo_store.find_damages(date)',
  'promo_store.sample_little(text)',
  'promo_store.estimate_names(text)',
  'promo.number_cell(text, int, int, bigint)',
  'promo_store.refuse_moved_operators()',
  'promo_store.refuse_during_move()',
  'promo_store.refuse_attribution_during_move()',
  'promo_store.drop_foreign_keys()',
  'promo_store.create_month(text, date)',
  'promo_store.refuse_check_during_move()',
];

/**
 * Functions that act with the rights of the owner, or on behalf of one that does. Postgres lets every role
 * call a new function. Migrations revoke that. A dump that is restored without privileges loses this again.
 */
const CLOSED_FUNCTIONS: readonly string[] = [
  ...new Set(Object.values(RIGHTS).flatMap(({ functions = [] }) => functions)),
  ...OWN_FUNCTIONS,
].filter((name) => !OPEN_FUNCTIONS.includes(name));

export interface Grantee {
  readonly role: Role;
  /** The name in pg_roles. */
  readonly name: string;
}

/**
 * Statements that give each grantee the rights of its roles and revoke all other rights in our schemas. They
 * also close the functions of the owner to all other roles.
 */
export function grantStatements(grantees: readonly Grantee[]): string[] {
  const names = [...new Set(grantees.map(({ name }) => escapeIdentifier(name)))];
  return [
    `revoke execute on function ${CLOSED_FUNCTIONS.join(', ')} from public`,
    ...names.flatMap((name) =>
      ['all tables in schema', 'all sequences in schema', 'all functions in schema', 'schema'].map(
        (objects) => `revoke all on ${objects} promo, promo_reader, promo_store from ${name}`,
      ),
    ),
    ...grantees.flatMap(({ role, name }) =>
      grantsOf(RIGHTS[role]).map((grant) => `grant ${grant} to ${escapeIdentifier(name)}`),
    ),
  ];
}

function grantsOf({ objects, functions = [] }: Rights): readonly string[] {
  return functions.length === 0 ? objects : [...objects, `execute on function ${functions.join(', ')}`];
}

/** The role cannot be limited, or does not exist. */
export class UnfitRole extends Error {
  override readonly name = 'UnfitRole';
}

const STATEMENT_TIMEOUT_MS = 30_000;

const UNFIT = `select g.name,
  case when r.oid is null then 'does not exist; create it first'
    when r.rolsuper then 'is a superuser, to whom nothing can be refused; name another role'
    else 'is, or is a member of, the owner of the tables, to whom nothing can be refused; name another role' end
from unnest($1::text[]) with ordinality g (name, place)
left join pg_roles r on r.rolname = g.name
where r.oid is null or r.rolsuper
  or pg_has_role(r.oid, (select nspowner from pg_namespace where nspname = 'promo_store'), 'member')
order by g.place`;

/**
 * Grants the rights in one transaction, then limits the right to connect. Must run as the owner. @throws
 * UnfitRole
 */
export async function grantRoles(
  database: string | StoreAccess,
  grantees: readonly Grantee[],
): Promise<ConnectRight> {
  const client = await openClient(database, {
    application_name: 'promo-intake-grant',
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + ANSWER_GRACE_MS,
    ...KEEP_ALIVE,
  });
  try {
    const names = grantees.map(({ name }) => name);
    const { rows } = await client.query<string[]>({ text: UNFIT, values: [names], rowMode: 'array' });
    if (rows.length > 0) throw new UnfitRole(rows.map(([name, why]) => `the role ${name} ${why}`).join('\n'));
    await client.query([BEGIN.text, ...grantStatements(grantees), 'commit'].join(';\n'));
    return await limitConnect(client, names);
  } finally {
    await endClient(client);
  }
}
