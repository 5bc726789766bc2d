/**
 * The receiving side of a move (see move-operator.ts): numbers for the arriving rows, and the switch that
 * shows them.
 */
import { arrivedNumbers, type Departure, LOCK_REFERENCE, namesOperator } from './move-departure';
import {
  endArrival,
  isArriving,
  leavingNumbers,
  type Move,
  MoveRefused,
  noteArrival,
  reservedNumbers,
} from './move-states';
import { all, changeStore, type MoveSession, type MoveStores } from './move-stores';
import type { MonthTable, NumberMaps, NumberPair } from './moved-rows';
import { MAX_BATCH_EVENTS } from './statements/lock';

export interface Arrival {
  readonly maps: NumberMaps;
  /** The tables by month that have rows of the operator, maybe. */
  readonly months: readonly MonthTable[];
}

/** Reserves numbers in the receiving store, and creates the months that it lacks. */
export async function reserve(move: Move, departure: Departure): Promise<Arrival> {
  const { from, to } = move;
  const months = await all<MonthTable>(
    from,
    `select parent, month::text from promo_store.month_tables() where month <= now() at time zone 'utc' order by parent, month`,
  );
  if (await isArriving(move)) return { maps: await reservedNumbers(move), months };
  return changeStore(to, async () => {
    await to.query(LOCK_REFERENCE);
    await refuseNamedThere(move);
    await removeEmptyFeeds(move, departure);
    const maps: NumberMaps = {
      feeds: await newNumbers(to, 'feeds', 'feed_no', departure.feeds),
      partitions: await newNumbers(to, 'partitions', 'partition_no', departure.partitions),
      ...(await nameAll(move)),
      months: await shareKeys(move),
    };
    for (const { parent, month } of months)
      await to.query('select promo_store.create_month($1, $2)', [parent, month]);
    await noteArrival(move, maps);
    await to.query('delete from promo_store.move_steps where operator_id = $1', [move.operator]);
    return { maps, months };
  });
}

/** @throws MoveRefused while the receiving cell may decide events of the operator before its rows arrive */
export async function refuseNamedThere({ operator, to }: Move): Promise<void> {
  if (await namesOperator(to, operator))
    throw new MoveRefused(
      `the reference data in force in the receiving cell names ${operator} already. Apply it without the operator until the move is done, and run the command again`,
    );
}

/** @throws MoveRefused where the receiving cell has decided events of the operator */
export async function refuseHistory({ operator, to }: Move, { partitions }: Departure): Promise<void> {
  const [used] = await all<{ feed: string }>(
    to,
    `select feed_id as feed from promo_store.feeds f where operator_id = $1
      and (exists (select from promo_store.event_keys k where k.feed_no = f.feed_no) or exists (select from promo_store.rounds r where r.feed_no = f.feed_no)) limit 1`,
    [operator],
  );
  if (used !== undefined)
    throw new MoveRefused(
      `the receiving cell has decided events of the feed ${used.feed}, so ids may be in both cells. A move cannot join two histories of a feed: see "Both cells have decided events of the operator" in docs/operations/cells.md`,
    );
  const [read] = await all<{ topic: string }>(
    to,
    'select topic from promo_store.partitions where topic = any($1) and (records_read > 0 or next_offset > 0) limit 1',
    [partitions.map(({ topic }) => topic)],
  );
  if (read !== undefined)
    throw new MoveRefused(
      `the receiving cell has read the topic ${read.topic}, so its position there is not that of the leaving cell. A move cannot join two positions: see "Both cells have decided events of the operator" in docs/operations/cells.md`,
    );
}

/** Reference data that was applied too early has named feeds. Nothing refers to them. */
async function removeEmptyFeeds(move: Move, departure: Departure): Promise<void> {
  await refuseHistory(move, departure);
  const { operator, to } = move;
  await to.query('delete from promo_store.feeds where operator_id = $1', [operator]);
  await to.query('delete from promo_store.partitions where topic = any($1)', [
    departure.partitions.map(({ topic }) => topic),
  ]);
}

async function newNumbers(
  to: MoveSession,
  table: string,
  column: string,
  old: readonly { no: number }[],
): Promise<NumberPair[]> {
  const numbers = await all<{ no: string }>(
    to,
    `select nextval(pg_get_serial_sequence('promo_store.${table}', '${column}')) as no from generate_series(1, $1)`,
    [old.length],
  );
  return old.map(({ no }, index) => [no, Number(numbers[index]?.no)]);
}

/** Names the operator, its connections and its brands in the receiving store. */
async function nameAll({ operator, from, to }: Move): Promise<Pick<NumberMaps, 'connections' | 'brands'>> {
  const connections = await all<Named>(
    from,
    `select connection_no as no, connection_id as id from promo_store.connections where connection_no = any($2) or connection_id in (
      select c ->> 'id' from promo_store.reference_versions v, jsonb_array_elements(v.document -> 'operators') o, jsonb_array_elements(o -> 'connections') c
      where o ->> 'id' = $1)`,
    [operator, (await arrivedNumbers(from, operator)).connections],
  );
  const brands = await readBrands(from, operator);
  await to.query('insert into promo_store.operators (operator_id) values ($1) on conflict do nothing', [
    operator,
  ]);
  await to.query(
    'insert into promo_store.connections (connection_id) select unnest($1::text[]) on conflict do nothing',
    [connections.map(({ id }) => id)],
  );
  await to.query(
    `insert into promo_store.brands (operator_no, brand_id)
    select o.operator_no, n.id from promo_store.operators o, unnest($2::text[]) n (id) where o.operator_id = $1 on conflict do nothing`,
    [operator, brands.map(({ id }) => id)],
  );
  const newConnections = await all<Named>(
    to,
    'select connection_no as no, connection_id as id from promo_store.connections where connection_id = any($1)',
    [connections.map(({ id }) => id)],
  );
  return {
    connections: pairs(connections, newConnections),
    brands: pairs(brands, await readBrands(to, operator)),
  };
}

interface Named {
  readonly no: number;
  readonly id: string;
}

function readBrands(session: MoveSession, operator: string): Promise<Named[]> {
  return all<Named>(
    session,
    'select b.brand_no as no, b.brand_id as id from promo_store.brands b join promo_store.operators o using (operator_no) where o.operator_id = $1',
    [operator],
  );
}

function pairs(old: readonly Named[], added: readonly Named[]): NumberPair[] {
  const numbers = new Map(added.map(({ id, no }) => [id, no]));
  return old.map(({ no, id }) => [no, Number(numbers.get(id))]);
}

/** The last month whose number no tag has yet: see `domain/event/player-tag.ts`. */
const LAST_MONTH = '2062-08-01';

const KEYS = `select month::text, coalesce(of_month, month)::text as of_month, of_month is null as is_own, encode(key, 'hex') as key,
  (((extract(year from month) - 2020) * 12 + extract(month from month) - 1)::int % 512) as number
from promo_store.player_keys where key is not null`;

interface StoredKey {
  readonly month: string;
  readonly of_month: string;
  readonly is_own: boolean;
  readonly key: string;
  readonly number: number;
}

/**
 * Gives the receiving store the keys of tags of the leaving one. Its month may have another key there. The
 * key then goes under a month far in the future, so its tags get a number of their own.
 */
async function shareKeys({ from, to }: MoveStores): Promise<NumberPair[]> {
  const keys = await all<StoredKey>(
    from,
    `${KEYS} and coalesce(of_month, month) <= now() at time zone 'utc' order by of_month nulls first, month`,
  );
  const numbers: NumberPair[] = [];
  for (const { month, of_month, is_own, key, number } of keys) {
    const isKnown = (await readKey(to, key)) !== undefined;
    // A key of a third cell never takes a month of this one.
    const isFree =
      is_own && (await all(to, 'select from promo_store.player_keys where month = $1', [month])).length === 0;
    if (!isKnown)
      await to.query(
        `insert into promo_store.player_keys (month, key, of_month) select ${isFree ? '$1::date, $2, null' : `(${FREE_MONTH}), $2, $1::date`}`,
        [isFree ? month : of_month, Buffer.from(key, 'hex')],
      );
    const stored = await readKey(to, key);
    if (stored !== undefined) numbers.push([number, stored.number]);
  }
  return numbers;
}

/** The last month that has no key. */
const FREE_MONTH = `select d::date from generate_series(date '${LAST_MONTH}', date '${LAST_MONTH}' - interval '20 years', interval '-1 month') d
  where not exists (select from promo_store.player_keys k where k.month = d) order by d desc limit 1`;

async function readKey(session: MoveSession, key: string): Promise<StoredKey | undefined> {
  const [found] = await all<StoredKey>(session, `${KEYS} and key = decode($1, 'hex')`, [key]);
  return found;
}

// --- switch

const PARTITION_COLUMNS = `topic, partition, next_offset, records_read, accepted, rejected, skipped, duplicates, redeliveries, dead_letters, without_key,
  updated_at, decided_up_to, begins_at`;

/** Batch numbers that are left out. A batch of this moment then takes no number behind the new one. */
const SKIPPED_BATCHES = 1_000;

/** Shows the arrived rows, in one transaction with all that new decisions need. */
export async function show(move: Move): Promise<void> {
  const { operator, to, fromCell } = move;
  const { feeds } = await leavingNumbers(move);
  await changeStore(to, async () => {
    const maps = await reservedNumbers(move);
    const feedNumbers = new Map(maps.feeds);
    for (const { no, id } of feeds)
      await to.query(
        `insert into promo_store.feeds (feed_no, operator_no, operator_id, feed_id) overriding system value
        select $1, operator_no, operator_id, $2 from promo_store.operators where operator_id = $3`,
        [feedNumbers.get(no), id, operator],
      );
    await movePartitions(move, maps.partitions);
    await to.query(
      `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ($1, $2, $3, $4, $5)`,
      [
        operator,
        fromCell,
        await advanceNumbers(move),
        JSON.stringify(await keptInBoth(move)),
        JSON.stringify(maps),
      ],
    );
    await to.query('delete from promo_store.move_steps where operator_id = $1', [operator]);
    await endArrival(move);
  });
}

/** Positions and counters go with the operator: records that are read again get their answers of before. */
async function movePartitions({ from, to }: MoveStores, numbers: readonly NumberPair[]): Promise<void> {
  const clusterOf = await clusterNames({ from, to });
  for (const [old, no] of numbers) {
    const [row] = await all<{ row: string; cluster_id: string }>(
      from,
      `select row_to_json(t)::text as row, cluster_id from (select ${PARTITION_COLUMNS}, cluster_id from promo_store.partitions where partition_no = $1) t`,
      [old],
    );
    if (row === undefined) continue;
    await to.query(
      `insert into promo_store.partitions (partition_no, cluster_id, ${PARTITION_COLUMNS}) overriding system value
      select $1, $2, ${PARTITION_COLUMNS} from json_populate_record(null::promo_store.partitions, $3)`,
      [no, clusterOf(row.cluster_id), row.row],
    );
    const [dropped] = await all<{ row: string }>(
      from,
      'select row_to_json(d)::text as row from promo_store.dropped_rows d where partition_no = $1',
      [old],
    );
    if (dropped !== undefined)
      await to.query(
        `insert into promo_store.dropped_rows (partition_no, duplicates, dead_letters, without_key)
        select $1, duplicates, dead_letters, without_key from json_populate_record(null::promo_store.dropped_rows, $2)`,
        [no, dropped.row],
      );
  }
}

/** How the receiving store names a Kafka cluster of the leaving one: its own first cluster is empty. */
async function clusterNames({ from, to }: MoveStores): Promise<(name: string) => string> {
  const FIRST = 'select cluster_id as id from promo_store.first_cluster';
  const [old] = await all<{ id: string }>(from, FIRST);
  if (old !== undefined)
    await to.query('insert into promo_store.first_cluster (cluster_id) values ($1) on conflict do nothing', [
      old.id,
    ]);
  const [own] = await all<{ id: string }>(to, FIRST);
  return (name) => {
    const id = name === '' ? old?.id : name;
    return id === undefined || id === own?.id ? '' : id;
  };
}

/**
 * Later verdicts of a round have higher numbers, so batches continue behind the numbers of both stores.
 * @returns the highest number of a verdict or round that either store has given
 */
async function advanceNumbers({ from, to }: MoveStores): Promise<number> {
  const LAST = 'select last_value as last from promo_store.batch_numbers';
  const [old] = await all<{ last: string }>(from, LAST);
  const [own] = await all<{ last: string }>(to, LAST);
  const last = Math.max(Number(old?.last), Number(own?.last));
  const [next] = await all<{ next: string }>(
    to,
    `select setval('promo_store.batch_numbers', n + ((c.number - n % c.cells) + c.cells) % c.cells, false) as next
    from promo_store.cell c, lateral (select $1::bigint + c.cells * $2::bigint as n)`,
    [last, SKIPPED_BATCHES],
  );
  // An erased player is called by the number of the erasure, so later erasures get higher numbers, too.
  const [operations] = await all<{ last: string }>(
    from,
    `select coalesce(max(operation_no), 0) as last from promo_store.operations`,
  );
  await to.query(
    `select setval(s, greatest(nextval(s), $1)) from pg_get_serial_sequence('promo_store.operations', 'operation_no') s`,
    [operations?.last],
  );
  return Number(next?.next) * MAX_BATCH_EVENTS - 1;
}

/** For each table by month: since when both stores have all rows. */
async function keptInBoth({ from, to }: MoveStores): Promise<Record<string, unknown>> {
  const KEPT = 'select since::text, all_counted from promo_store.kept_from($1)';
  const kept: Record<string, unknown> = {};
  for (const parent of ['history', 'resends', 'unstored']) {
    const [old] = await all<{ since: string; all_counted: boolean }>(from, KEPT, [parent]);
    const [own] = await all<{ since: string; all_counted: boolean }>(to, KEPT, [parent]);
    const [later] = await all<{ since: string }>(
      to,
      'select greatest($1::timestamptz, $2::timestamptz)::text as since',
      [old?.since, own?.since],
    );
    kept[parent] = {
      since: later?.since,
      all_counted: old?.all_counted === true && own?.all_counted === true,
    };
  }
  return kept;
}
