/** Fills promo_store.event_keys and promo_store.rounds with old events, far faster than by deciding them. */
import type { Client } from 'pg';
import { withClient } from './guest';
import { MEBIBYTE } from './stage';
import { figure } from './table';

export type IdKind = 'time-ordered' | 'random';

const PIECE = 1_000_000;
/** Deadline of one statement: a piece, or an index over a whole table. */
const STATEMENT_MS = 30 * 60_000;

/** Time-ordered keys cover this many days, up to now. */
const DAYS = 90;

/** As in the feed. */
const EVENTS_PER_ROUND = 4;

/** SQL of the time of key `n`, in milliseconds since 1970. The last key is of now. */
function timeOf(last: number): string {
  return `((extract(epoch from now()) * 1000)::bigint - ((1 - n / ${last}.0::float8) * ${DAYS * 86_400_000})::bigint)`;
}

/** SQL of 16 bytes: random ones, or a UUID version 7 (6 bytes of milliseconds, then random bytes). */
function keyOf(kind: IdKind, last: number): string {
  const random = 'uuid_send(gen_random_uuid())';
  return kind === 'random' ? random : `substr(int8send(${timeOf(last)}), 3) || substr(${random}, 7)`;
}

/**
 * Statements that add the rows numbered $1 to $2, of the rows up to `last`. Their verdict and round
 * numbers are negative, which the worker never writes.
 */
const FILL: Record<string, (kind: IdKind, last: number) => string> = {
  event_keys: (kind, last) => `insert into promo_store.event_keys
  (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key)
select -n, hashint8extended(n, 0) & ((1::bigint << 53) - 1), n, feed_no, 0, 0, ${keyOf(kind, last)}
from generate_series($1::bigint, $2::bigint) n, promo_store.feeds`,
  rounds: (kind, last) => `insert into promo_store.rounds
  (round_no, opened_at, player_hash, feed_no, brand_no, currency_no, settled, round_key, round_id, bet_minor, settled_minor)
select -n, to_timestamp(at / 1000.0), hashint8extended(n, 0) & ((1::bigint << 53) - 1), feed_no, 1, 101, true, key, encode(key, 'hex')::uuid::text, 1000, 1000
from (select n, feed_no, ${timeOf(last)} as at, ${keyOf(kind, last)} as key
  from generate_series($1::bigint, $2::bigint) n, promo_store.feeds where n % ${EVENTS_PER_ROUND} = 0) r`,
};

/**
 * Fill factor of index pages after live growth with random ids, which splits pages in the middle again and
 * again. Ordered ids leave pages as they were made.
 */
const FILLFACTOR_OF_RANDOM = 70;

/**
 * Adds keys numbered `from + 1` to `to`, and the rounds of these events. Indexes are recreated at the end,
 * which takes a fraction of the time.
 */
export async function storeKeys(
  databaseUrl: string,
  kind: IdKind,
  from: number,
  to: number,
  say: (line: string) => void,
): Promise<void> {
  if (to <= from) return;
  await withClient(
    databaseUrl,
    async (client) => {
      for (const [table, fill] of Object.entries(FILL)) {
        const restore = await dropIndexes(client, `promo_store.${table}`, kind);
        for (let first = from + 1; first <= to; first += PIECE) {
          const last = Math.min(to, first + PIECE - 1);
          await client.query(fill(kind, to), [first, last]);
          say(`${table}: ${figure(last)} of ${figure(to)} ${kind} keys`);
        }
        say(`${table}: making the indexes`);
        for (const statement of restore) await client.query(statement);
        await client.query(`vacuum analyze promo_store.${table}`);
      }
    },
    STATEMENT_MS,
  );
}

/**
 * Drops a table's indexes.
 *
 * @returns statements that recreate them, with pages as full as ids of this kind leave them
 */
async function dropIndexes(client: Client, table: string, kind: IdKind): Promise<string[]> {
  if (kind === 'random') {
    const { rows } = await client.query<{ name: string }>(
      `select x.oid::regclass::text as name from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am a on a.oid = x.relam
       where i.indrelid = $1::regclass and a.amname in ('btree', 'spgist')`,
      [table],
    );
    // The fill factor then appears in the definition of an index, but not in the definition of a constraint.
    for (const { name } of rows)
      await client.query(`alter index ${name} set (fillfactor = ${FILLFACTOR_OF_RANDOM})`);
  }
  const { rows } = await client.query<{ drop: string; make: string }>(
    `select case when c.oid is null then format('drop index %s', i.indexrelid::regclass)
         else format('alter table %s drop constraint %I', i.indrelid::regclass, c.conname) end as drop,
       case when c.oid is null then pg_get_indexdef(i.indexrelid)
         else format('alter table %s add constraint %I %s %s', i.indrelid::regclass, c.conname, pg_get_constraintdef(c.oid), $2::text) end as make
     from pg_index i left join pg_constraint c on c.conindid = i.indexrelid
     where i.indrelid = $1::regclass`,
    [table, kind === 'random' ? `with (fillfactor = ${FILLFACTOR_OF_RANDOM})` : ''],
  );
  for (const { drop } of rows) await client.query(drop);
  return rows.map(({ make }) => make);
}

/**
 * Size of the indexes of keys and rounds (none if there are none), and the memory that the server keeps for
 * its pages.
 */
export async function indexMemory(databaseUrl: string): Promise<{ indexMib: number; sharedMib: number }> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ index: number; shared: number }>(
      `select (select coalesce(sum(pg_indexes_size(to_regclass(name))), 0)::float8 from unnest($1::text[]) name) as index,
         pg_size_bytes(current_setting('shared_buffers'))::float8 as shared`,
      [Object.keys(FILL).map((table) => `promo_store.${table}`)],
    );
    const { index = 0, shared = 0 } = rows[0] ?? {};
    return { indexMib: Math.round(index / MEBIBYTE), sharedMib: shared / MEBIBYTE };
  });
}
