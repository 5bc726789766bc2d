/**
 * Fills a store with months of verdicts by SQL on blocks of events. A worker would write the same rows for
 * the same events, but in hours rather than minutes. The store is sound: promo.check_invariants() finds
 * nothing.
 *
 * Events come in fives. The first opens a round, followed by a win, a bet and a settled. The fifth is a
 * deposit, a login or a refund. Most events that open no round belong to one of the last 1,000 rounds.
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
  readonly players: number;
  readonly games: number;
  /** Share of the events that are rejected. */
  readonly rejected: number;
  /** One event in so many comes a second time. */
  readonly eventsPerDuplicate: number;
  /** Events of one statement. A test has more blocks by a smaller number. */
  readonly block?: number;
}

/** Numbers of the operator that sends all events, with one connection and two brands. */
interface Sender {
  readonly feed: number;
  readonly connection: number;
  readonly partition: number;
  readonly brand: number;
  readonly otherBrand: number;
}

/** Number of events in a batch of a worker with little load. They share their time. */
const BATCH = 200;
const BATCH_NUMBERS = 8_192;
const NEAR_ROUNDS = 1_000;
/** An event of a near round comes at most so many events after the one that opened the round. */
const NEAR_EVENTS = 5 * NEAR_ROUNDS + 10;
/** Sorts and hashes of so many events stay in memory. */
const BLOCK = 4_000_000;
/** Shares of the events that may be rejected: wins, second bets, deposits and logins. */
const REJECTABLE = 0.6;
/** Codes of src/domain/verdict/reasons.ts. */
const NO_PLAYER = 4;
const BAD_AMOUNT = 5;
const ROUND_REFUNDED = 26;
const EUR = 101;

/** Numbers of verdicts and rounds: consecutive within a batch, and batches begin 8,192 apart. */
const numberOf = (n: string): string => `((${n}) / ${BATCH} * ${BATCH_NUMBERS} + (${n}) % ${BATCH})`;

/** Between 0 and 1, and the same for the same event. */
const chance = (seed: number) => `((hashint8extended(n, ${seed}) & 1048575) / 1048576::float8)`;
const pick = (n: string, seed: number, of: number) =>
  `((hashint8extended(${n}, ${seed}) & 2147483647) % ${of})`;

const eventId = (n: string): string => `md5('event-' || ${n})::uuid::text`;
const roundId = (opener: string): string => `md5('round-' || ${opener})::uuid::text`;
/** The result of promo_store.id_key for a UUID, but much faster. */
const keyOf = (name: string, n: string) => `decode(md5('${name}-' || ${n}), 'hex')`;

const timeOf = (n: string, { events, days }: FilledStore) =>
  `(select begun from filling.clock) + interval '${days} days' * ((${n}) / ${BATCH} * ${BATCH} / ${events}::float8)`;

/**
 * Creates the tables of the months that the events need. Autovacuum is off: the caller decides which rows are
 * vacuumed.
 */
const MONTHS = ({ days }: FilledStore) => `do $$
declare
  month date := date_trunc('month', now() at time zone 'utc' - interval '${days + 2} days');
  parent text;
  name text;
begin
  while month < date_trunc('month', now() at time zone 'utc') loop
    for parent in select c.relname from pg_partitioned_table t join pg_class c on c.oid = t.partrelid and c.relnamespace = 'promo_store'::regnamespace loop
      perform promo_store.create_month(parent, month);
    end loop;
    month := month + interval '1 month';
  end loop;
  for name in select relname from pg_class where relnamespace = 'promo_store'::regnamespace and relkind = 'r' loop
    execute format('alter table promo_store.%I set (autovacuum_enabled = off)', name);
  end loop;
  -- As if the store were older than what it holds. Each month since the first reference data has a table.
  update promo_store.months set made_at = '-infinity';
  update promo_store.reference_versions set applied_at = now() - interval '${days + 2} days';
end $$`;

/** Consecutive events, from the first to the last one. */
interface Block {
  readonly first: number;
  readonly last: number;
  /** The table of the decisions on these events, and on later ones of their rounds. */
  readonly decided: string;
}

/** @param numbers a query of the numbers of events */
const MADE = (fill: FilledStore, numbers: string) => `
select n, kind, n % 5 in (0, 2, 3) and kind <> 4 and ${chance(9)} < ${fill.rejected / REJECTABLE} as rejected,
  case
    when kind in (5, 7) then null
    when n % 5 = 1 then n
    when ${IS_LATE}
      then greatest(1, n / 5 * 5 + 1 - (${chance(1)} * least(n / 5, ${fill.lateRounds}))::int * 5)
    else greatest(1, n / 5 * 5 - 4 - (${chance(2)} * least(n / 5, ${NEAR_ROUNDS}))::int * 5)
  end as opener
from (
  select n, case n % 5 when 1 then 1 when 2 then 2 when 3 then 1 when 4 then 3 else
    case when n / 5 % ${fill.roundsPerRefund} = 0 then 4 when n / 5 % 2 = 0 then 7 else 5 end end as kind
  from (${numbers}) numbers
) k`;
/** Events that may belong to an old round. */
const IS_LATE = '(n % 10 = 3 or n % 25 = 0)';
/** A query of the numbers whose remainder of the division by `every` is `rest`. */
const numbers = (from: number, to: number, every = 1, rest = 0) =>
  `select n from generate_series(${from + ((((rest - from) % every) + every) % every)}::bigint, ${to}, ${every}) n`;

/**
 * The first refund of each refunded round. The worker's decision on an event depends on whether the event
 * came before it.
 */
const REFUNDS = (fill: FilledStore) => `create unlogged table filling.refunds as
select opener, min(n) as refund
from (${MADE(fill, numbers(1, fill.events, 5 * fill.roundsPerRefund))}) m group by opener`;

/** Events before the block, too, decide which settled is the first of its round. */
const DECIDED = (fill: FilledStore, { first, last, decided }: Block) => {
  const near = Math.min(fill.events, last + NEAR_EVENTS);
  const end = Math.min(fill.events, last + 5 * fill.lateRounds + NEAR_EVENTS);
  const lateBets = numbers(near + 1, end, 10, 3);
  const lateRefunds = `${numbers(near + 1, end, 5 * fill.roundsPerRefund)} where ${IS_LATE}`;
  return `create unlogged table ${decided} as
select m.n, m.kind, ${timeOf('m.n', fill)} as at, m.opener, r.refund,
  case when m.rejected then case when m.kind = 7 or m.n % 3 = 0 then ${NO_PLAYER} else ${BAD_AMOUNT} end
    when m.kind in (1, 3) and m.n > r.refund then ${ROUND_REFUNDED} else 0 end as outcome,
  not m.rejected and case m.kind when 4 then false when 5 then true when 7 then true when 3 then coalesce(m.n = s.settled, false)
    else coalesce(m.n < r.refund, true) end as counted,
  case when m.kind in (4, 7) then null else 100 + (m.n % 997) * 10 end as amount
from (
  ${MADE(fill, numbers(first, last))}
  union all
  select * from (${MADE(fill, `${numbers(last + 1, near)} union all ${lateBets} union all ${lateRefunds}`)}) l
  where opener between ${first} and ${last}
) m
left join filling.refunds r using (opener)
left join (
  select opener, min(n) as settled
  from (${MADE(fill, numbers(Math.max(1, first - NEAR_EVENTS), near, 5, 4))}) m left join filling.refunds r using (opener)
  where coalesce(n < refund, true) group by opener
) s on s.opener = m.opener and m.kind = 3
order by m.n`;
};

const brandOf = ({ brand, otherBrand }: Sender, opener: string) =>
  `case ${opener} / 5 % 2 when 0 then ${brand} else ${otherBrand} end`;

const ROUNDS = (
  fill: FilledStore,
  sender: Sender,
  { first, last, decided }: Block,
) => `insert into promo_store.rounds (round_no, opened_at, refunded_at, player_hash, feed_no, brand_no, currency_no,
  settled, second_settled, round_key, round_id, refunded_by, bet_minor, win_minor, settled_minor)
select ${numberOf('opener')}, ${timeOf('opener', fill)}, ${timeOf('refund', fill)}, hashint8extended(opener, 5) & ((1::bigint << 53) - 1),
  ${sender.feed}, ${brandOf(sender, 'opener')}, ${EUR},
  settled, second_settled, ${keyOf('round', 'opener')}, ${roundId('opener')}, ${eventId('refund')}, bet, win, settled_minor
from (
  select opener, min(refund) as refund, bool_or(kind = 3 and counted) as settled, bool_or(kind = 3 and not counted and outcome = 0) as second_settled,
    coalesce(sum(amount) filter (where kind = 1 and counted), 0) as bet, coalesce(sum(amount) filter (where kind = 2 and counted), 0) as win,
    coalesce(sum(amount) filter (where kind = 3 and counted), 0) as settled_minor
  from ${decided} where opener between ${first} and ${last} group by opener
) r order by opener`;

const KEYS = (
  sender: Sender,
  { first, last, decided }: Block,
) => `insert into promo_store.event_keys (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key)
select ${numberOf('n')}, hashint8extended(n, 6) & ((1::bigint << 53) - 1), n, ${sender.feed}, ${sender.partition}, outcome, ${keyOf('event', 'n')} from ${decided}
where n between ${first} and ${last}`;

const HISTORY = (
  { players, games }: FilledStore,
  sender: Sender,
  { first, last, decided }: Block,
) => `insert into promo_store.history (verdict_id, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no, connection_no,
  partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id, player_ref, game_id, unmapped_brand)
select ${numberOf('n')}, at, at - ${chance(7)} * interval '2 minutes', case when outcome <> ${BAD_AMOUNT} then amount end, ${numberOf('opener')}, n,
  ${sender.feed}, ${sender.connection}, ${sender.partition}, ${brandOf(sender, 'coalesce(opener, n)')},
  1, outcome, kind, case when amount is not null then ${EUR} end, counted, ${eventId('n')},
  case when outcome <> ${NO_PLAYER} then 'player-' || ${pick('coalesce(opener, n)', 11, players)} end,
  case when opener is not null then 'game-' || ${pick('opener', 12, games)} end, ''
from ${decided} where n between ${first} and ${last} order by n`;

/** Each duplicate comes with the batch of its event. */
const DUPLICATES = (
  { events, eventsPerDuplicate }: FilledStore,
  sender: Sender,
  { first, last, decided }: Block,
) => `insert into promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id, batch_no)
select at, ${events} + n / ${eventsPerDuplicate}, ${sender.feed}, ${sender.connection}, ${sender.partition}, outcome, n % 7 = 0, ${eventId('n')}, n / ${BATCH}
from ${decided} where n % ${eventsPerDuplicate} = 0 and n between ${first} and ${last} order by n`;

const COUNTERS = (
  { events, eventsPerDuplicate }: FilledStore,
  { partition }: Sender,
) => `update promo_store.partitions p set next_offset = ${events} + ${events} / ${eventsPerDuplicate} + 1, updated_at = now(),
  records_read = records_read + ${events} + ${events} / ${eventsPerDuplicate}, duplicates = duplicates + ${events} / ${eventsPerDuplicate},
  accepted = p.accepted + c.accepted, rejected = p.rejected + c.rejected, skipped = p.skipped + c.skipped
from (
  select count(*) filter (where outcome = 0) as accepted, count(*) filter (where outcome in (${NO_PLAYER}, ${BAD_AMOUNT})) as rejected,
    count(*) filter (where outcome = ${ROUND_REFUNDED}) as skipped
  from promo_store.event_keys
) c where p.partition_no = ${partition}`;

const SENDER = `select f.feed_no, c.connection_no, p.partition_no, min(b.brand_no) as brand, max(b.brand_no) as other_brand
from promo.connections x
join promo_store.feeds f on f.feed_id = x.feed_id
join promo_store.connections c on c.connection_id = x.connection_id
join promo_store.partitions p on p.topic = x.topic and p.partition = 0
join promo_store.brands b on b.operator_no = f.operator_no
where x.topic = $1 group by 1, 2, 3`;

/** A connection to a database. */
export interface Statements {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

/**
 * Fills a store. Partition 0 of the topic has read record 0 at most, and the operator of the topic has two
 * brands.
 *
 * @param beside further connections, which share the work
 */
export async function fillStore(
  client: Statements,
  topic: string,
  fill: FilledStore,
  beside: readonly Statements[] = [],
): Promise<void> {
  const sender = await senderOf(client, topic);
  const connections = [client, ...beside];
  await client.query(MONTHS(fill));
  for (const each of connections) await each.query(SESSION);
  await client.query(`create schema filling;
    create table filling.clock as select now() - interval '${fill.days} days' as begun`);
  await client.query(REFUNDS(fill));
  await client.query('analyze filling.refunds');
  const indexes = await withoutIndexes(client);
  const old = blocksOf(1, fill.events - fill.tail, fill.block);
  const tail = blocksOf(fill.events - fill.tail + 1, fill.events, fill.block);
  const blocks = [...old, ...tail];
  const decide = async (on: Statements, block: Block | undefined) => {
    if (block === undefined) return;
    await on.query(DECIDED(fill, block));
    await on.query(`analyze ${block.decided}`);
  };
  await decide(client, blocks[0]);
  for (const [index, block] of blocks.entries()) {
    const isOld = index < old.length;
    await share(connections, [
      (on) => run(on, isOld ? [HISTORY(fill, sender, block)] : []),
      (on) => run(on, [ROUNDS(fill, sender, block), DUPLICATES(fill, sender, block)]),
      async (on) => {
        await run(on, [KEYS(sender, block)]);
        await decide(on, blocks[index + 1]);
      },
    ]);
    if (isOld) await client.query(`drop table ${block.decided}`);
  }
  await share(
    connections,
    ['history', 'event_keys', 'rounds'].map((table) => (on) => {
      const definitions = indexes.filter(({ of }) => of === table).map(({ definition }) => definition);
      return run(on, [...definitions, `vacuum analyze promo_store.${table}`]);
    }),
  );
  await run(client, [
    COUNTERS(fill, sender),
    `select setval('promo_store.batch_numbers', ${Math.ceil(fill.events / BATCH) + 1})`,
    'vacuum analyze',
    ...tail.map((block) => HISTORY(fill, sender, block)),
    'drop table filling.clock, filling.refunds',
    ...tail.map(({ decided }) => `drop table ${decided}`),
    'drop schema filling',
  ]);
}

/**
 * Settings of the sessions of a fill: few sorts and hashes go to disk. A crash may lose the whole store
 * anyway. Rows come in the order of their events, so no two scans of a table may share its pages.
 */
const SESSION = `set work_mem = '1GB'; set maintenance_work_mem = '1GB'; set synchronous_commit = off;
  set synchronize_seqscans = off; set max_parallel_workers_per_gather = 0`;

/** Runs works side by side, on as many connections as there are. */
async function share(
  connections: readonly Statements[],
  works: readonly ((on: Statements) => Promise<void>)[],
): Promise<void> {
  await Promise.all(
    connections.map(async (on, place) => {
      for (const [index, work] of works.entries()) if (index % connections.length === place) await work(on);
    }),
  );
}

async function run(on: Statements, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await on.query(statement);
}

function blocksOf(from: number, to: number, size = BLOCK): Block[] {
  const blocks: Block[] = [];
  for (let first = from; first <= to; first += size)
    blocks.push({ first, last: Math.min(to, first + size - 1), decided: `filling.decided_${first}` });
  return blocks;
}

/** Gives each player a pseudonym. `promo-intake pseudonyms` computes others, of the same length. */
export async function givePseudonyms(client: Statements, operator: string, players: number): Promise<void> {
  await client.query(
    `insert into promo_store.pseudonym_keys (key_id, state, shown_at) values ('filled', 'shown', now())`,
  );
  await client.query(
    `insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id)
     select k.key_no, $1, 'player-' || n, md5('pseudonym-' || n) from promo_store.pseudonym_keys k, generate_series(0, $2::int - 1) n`,
    [operator, players],
  );
  await client.query('analyze promo_store.pseudonyms');
}

async function senderOf(client: Statements, topic: string): Promise<Sender> {
  const { rows } = await client.query(SENDER, [topic]);
  const [row = {}] = rows;
  const number = (name: string): number => {
    const value = Number(row[name] ?? Number.NaN);
    if (Number.isInteger(value)) return value;
    throw new Error(`the topic ${topic} has no ${name}: let its partition 0 read a record first`);
  };
  return {
    feed: number('feed_no'),
    connection: number('connection_no'),
    partition: number('partition_no'),
    brand: number('brand'),
    otherBrand: number('other_brand'),
  };
}

interface Index {
  readonly of: string;
  readonly definition: string;
}

/** Drops the indexes of the large tables. Recreated afterwards they are the same, in a fifth of the time. */
async function withoutIndexes(client: Statements): Promise<Index[]> {
  const { rows } = await client.query(
    `select relname as of, case when indisprimary then format('alter table %s drop constraint %I', indrelid::regclass, conname) else format('drop index %s', indexrelid::regclass) end as drop,
       case when indisprimary then format('alter table %s add %s', indrelid::regclass, pg_get_constraintdef(k.oid)) else replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') end as definition
     from pg_index join pg_class on pg_class.oid = indrelid left join pg_constraint k on conindid = indexrelid and contype = 'p'
     where indrelid = any('{promo_store.history, promo_store.rounds, promo_store.event_keys}'::regclass[])`,
  );
  for (const { drop } of rows) await client.query(`${drop}`);
  return rows.map(({ of, definition }) => ({ of: `${of}`, definition: `${definition}` }));
}
