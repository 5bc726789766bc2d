/**
 * Fills a store with months of verdicts by SQL on whole sets. A worker would write the same rows for the same
 * events, but in hours rather than seconds. The store is sound: promo.check_invariants() finds nothing.
 *
 * Events come in fives. The first opens a round, followed by a win, a bet and a settled. The fifth is a
 * deposit or a refund. Most events that open no round belong to one of the last 1,000 rounds.
 * One in five belongs to one of the last `lateRounds`: a bet on a future match, a late refund.
 */

export interface FilledStore {
  /** Number of verdicts. */
  readonly events: number;
  /** Number of days up to now that the events spread over. */
  readonly days: number;
  /** Each round has five events, and one in `roundsPerRefund` of the fifth events is a refund. */
  readonly roundsPerRefund: number;
  readonly lateRounds: number;
  /** Number of newest verdicts that no vacuum has processed. */
  readonly tail: number;
}

/** Number of events in a batch of a worker with little load. They share their time. */
const BATCH = 200;
const BATCH_NUMBERS = 8_192;
const NEAR_ROUNDS = 1_000;

/** Numbers of verdicts and rounds: consecutive within a batch, and batches begin 8,192 apart. */
export const numberOf = (n: string): string => `((${n}) / ${BATCH} * ${BATCH_NUMBERS} + (${n}) % ${BATCH})`;

/** Between 0 and 1, and the same for the same event. */
const chance = (seed: number) => `((hashint8extended(n, ${seed}) & 1048575) / 1048576.0)`;

export const eventId = (n: string): string => `md5('event-' || ${n})::uuid::text`;
export const roundId = (opener: string): string => `md5('round-' || ${opener})::uuid::text`;
/** The result of promo_store.id_key for a UUID, but much faster. */
const keyOf = (name: string, n: string) => `decode(md5('${name}-' || ${n}), 'hex')`;
export const PLAYERS = 20_000;

const timeOf = (n: string, { events, days }: FilledStore) =>
  `(select begun from clock_of_fill) + interval '${days} days' * ((${n}) / ${BATCH} * ${BATCH} / ${events}::float8)`;

/**
 * Creates the months' tables that the events need, as promo_store.ensure_months does. Autovacuum is off: the
 * test decides which rows are vacuumed.
 */
const MONTHS = ({ days }: FilledStore) => `do $$
declare
  month date := date_trunc('month', now() at time zone 'utc' - interval '${days + 1} days');
  parent text;
  name text;
begin
  while month < date_trunc('month', now() at time zone 'utc') loop
    foreach parent in array array['history', 'resends', 'unstored', 'faults'] loop
      name := parent || '_' || to_char(month, 'YYYY_MM');
      execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
      perform promo_store.sample_little(name);
      execute format('alter table promo_store.%I attach partition promo_store.%I for values from (%L) to (%L)',
        parent, name, month::timestamp at time zone 'utc', (month + interval '1 month')::timestamp at time zone 'utc');
      insert into promo_store.months (parent, month, made_at) values (parent, month, '-infinity');
    end loop;
    month := month + interval '1 month';
  end loop;
  for name in select relname from pg_class where relnamespace = 'promo_store'::regnamespace and relkind = 'r' loop
    execute format('alter table promo_store.%I set (autovacuum_enabled = off)', name);
  end loop;
  -- As if the store were older than what it holds.
  update promo_store.months set made_at = '-infinity';
  update promo_store.reference_versions set applied_at = now() - interval '${days + 2} days';
end $$`;

const EVENTS = (fill: FilledStore) => `create temp table made as
select n, kind, ${timeOf('n', fill)} as at,
  case
    when kind = 5 then null
    when n % 5 = 1 then n
    when n % 10 = 3 or n % 25 = 0
      then greatest(1, n / 5 * 5 + 1 - (${chance(1)} * least(n / 5, ${fill.lateRounds}))::int * 5)
    else greatest(1, n / 5 * 5 - 4 - (${chance(2)} * least(n / 5, ${NEAR_ROUNDS}))::int * 5)
  end as opener
from (
  select n, case n % 5 when 1 then 1 when 2 then 2 when 3 then 1 when 4 then 3 else case when n / 5 % ${fill.roundsPerRefund} = 0 then 4 else 5 end end as kind
  from generate_series(1, ${fill.events}::bigint) n
) k`;

/**
 * The first refund of each refunded round. The worker's decision on an event depends on whether the event
 * came before it.
 */
const DECIDED = `create temp table decided as
select m.n, m.kind, m.at, m.opener, r.refund, s.settled,
  case when m.kind in (1, 3) and m.n > r.refund then 26 else 0 end as outcome,
  case m.kind when 4 then false when 5 then true when 3 then coalesce(m.n = s.settled, false) else coalesce(m.n < r.refund, true) end as counted,
  case m.kind when 4 then null else 100 + (m.n % 997) * 10 end as amount
from made m
left join (select opener, min(n) as refund from made where kind = 4 group by opener) r using (opener)
left join (
  select m.opener, min(m.n) as settled from made m
  left join (select opener, min(n) as refund from made where kind = 4 group by opener) r using (opener)
  where m.kind = 3 and coalesce(m.n < r.refund, true) group by m.opener
) s using (opener)
order by m.n`;

const BRAND = (opener: string) => `(${opener} / 5 % 2 + 1)`;

const ROUNDS = (
  fill: FilledStore,
) => `insert into promo_store.rounds (round_no, opened_at, refunded_at, player_hash, feed_no, brand_no, currency_no,
  settled, second_settled, round_key, round_id, refunded_by, bet_minor, win_minor, settled_minor)
select ${numberOf('opener')}, ${timeOf('opener', fill)}, ${timeOf('refund', fill)}, hashint8extended(opener, 5) & ((1::bigint << 53) - 1), 1, ${BRAND('opener')}, 101,
  settled, second_settled, ${keyOf('round', 'opener')}, ${roundId('opener')}, ${eventId('refund')}, bet, win, settled_minor
from (
  select opener, min(refund) as refund, bool_or(kind = 3 and counted) as settled, bool_or(kind = 3 and not counted and outcome = 0) as second_settled,
    coalesce(sum(amount) filter (where kind = 1 and counted), 0) as bet, coalesce(sum(amount) filter (where kind = 2 and counted), 0) as win,
    coalesce(sum(amount) filter (where kind = 3 and counted), 0) as settled_minor
  from decided where opener is not null group by opener
) r order by opener`;

const KEYS = `insert into promo_store.event_keys (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key)
select ${numberOf('n')}, hashint8extended(n, 6) & ((1::bigint << 53) - 1), n, 1, 1, outcome, ${keyOf('event', 'n')} from decided`;

const HISTORY = `insert into promo_store.history (verdict_id, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no, connection_no,
  partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id, player_ref, game_id, unmapped_brand)
select ${numberOf('n')}, at, at - ${chance(7)} * interval '2 minutes', amount, ${numberOf('opener')}, n, 1, 1,
  1, ${BRAND('coalesce(opener, n)')}, 1, outcome, kind, case when amount is not null then 101 end, counted, ${eventId('n')},
  'player-' || coalesce(opener, n) % ${PLAYERS}, case when opener is not null then 'game-' || opener % 500 end, ''
from decided where n between $1 and $2 order by n`;

const COUNTERS = (
  fill: FilledStore,
) => `update promo_store.partitions p set next_offset = ${fill.events + 1}, updated_at = now(),
  records_read = records_read + ${fill.events}, accepted = p.accepted + c.accepted, skipped = p.skipped + c.skipped
from (select count(*) filter (where outcome = 0) as accepted, count(*) filter (where outcome = 26) as skipped from decided) c where p.partition_no = 1`;

/** A connection to a database. */
export interface Statements {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

/** Fills a store whose partition 1 of feed 1 has read only record 0. */
export async function fillStore(client: Statements, fill: FilledStore): Promise<void> {
  await client.query(MONTHS(fill));
  // Settings of this session: no sort and no hash goes to disk. A crash may lose the whole store anyway.
  await client.query(
    `set work_mem = '256MB'; set maintenance_work_mem = '256MB'; set synchronous_commit = off`,
  );
  await client.query(
    `create temp table clock_of_fill as select now() - interval '${fill.days} days' as begun`,
  );
  await client.query(EVENTS(fill));
  await client.query('analyze made');
  await client.query(DECIDED);
  await client.query('analyze decided');
  const restore = await withoutIndexes(client);
  const old = fill.events - fill.tail;
  await client.query(ROUNDS(fill));
  await client.query(HISTORY.replace('$1', '1').replace('$2', `${old}`));
  await client.query('alter table promo_store.event_keys drop constraint event_keys_pkey');
  await client.query(KEYS);
  await client.query('alter table promo_store.event_keys add primary key (feed_no, event_key)');
  await client.query(COUNTERS(fill));
  for (const { definition } of restore) await client.query(`${definition}`);
  await client.query(`select setval('promo_store.batch_numbers', ${Math.ceil(fill.events / BATCH) + 1})`);
  await client.query('vacuum analyze');
  await client.query(HISTORY.replace('$1', `${old + 1}`).replace('$2', `${fill.events}`));
  await client.query('drop table made, decided, clock_of_fill');
}

/** Drops the indexes of the large tables. Recreated afterwards they are the same, in a fifth of the time. */
async function withoutIndexes(client: Statements): Promise<Record<string, unknown>[]> {
  const { rows } = await client.query(
    `select indexrelid::regclass::text as name, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') as definition from pg_index
     where indrelid = any('{promo_store.history, promo_store.rounds}'::regclass[]) and not indisprimary`,
  );
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return rows;
}
