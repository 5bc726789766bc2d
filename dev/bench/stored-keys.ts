/** Fills promo_store.event_keys with keys of events that were decided long ago, far faster than by deciding them. */
import type { Client } from 'pg';
import { withClient } from './guest';
import { figure } from './table';

export type IdKind = 'time-ordered' | 'random';

const PIECE = 1_000_000;
/** Of one statement: a piece, or the index over all keys. */
const STATEMENT_MS = 30 * 60_000;

/** Time-ordered keys are of so many days, up to now. */
const DAYS = 90;

/** 16 random bytes, or those of a UUID version 7: 6 bytes of milliseconds, then random ones. `n` is numbered up to `last`. */
function keyOf(kind: IdKind, last: number): string {
  const random = 'uuid_send(gen_random_uuid())';
  if (kind === 'random') return random;
  const age = `((1 - n / ${last}.0::float8) * ${DAYS * 86_400_000})::bigint`;
  return `substr(int8send((extract(epoch from now()) * 1000)::bigint - ${age}), 3) || substr(${random}, 7)`;
}

function fill(kind: IdKind, last: number): string {
  return `insert into promo_store.event_keys
  (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key)
select -n, hashint8extended(n, 0) & ((1::bigint << 53) - 1), n, feed_no, 0, 0, ${keyOf(kind, last)}
from generate_series($1::bigint, $2::bigint) n, promo_store.feeds`;
}

/** How full pages are: those of a random index are split in the middle again and again, those of a growing end are left full. */
const FILLFACTOR: Record<IdKind, number> = { random: 70, 'time-ordered': 90 };

/** Adds keys numbered `from + 1` to `to`. The index is made anew at the end, which takes a fraction of the time. */
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
      const { name, definition } = await primaryKey(client);
      await client.query(`alter table promo_store.event_keys drop constraint ${name}`);
      for (let first = from + 1; first <= to; first += PIECE) {
        const last = Math.min(to, first + PIECE - 1);
        await client.query(fill(kind, to), [first, last]);
        say(`${figure(last)} ${kind} keys stored`);
      }
      say('making the index');
      await client.query(
        `alter table promo_store.event_keys add constraint ${name} ${definition} with (fillfactor = ${FILLFACTOR[kind]})`,
      );
      await client.query('vacuum analyze promo_store.event_keys');
    },
    STATEMENT_MS,
  );
}

/** What the index of the keys takes, none where there is none, and what the server keeps in memory of all that it holds. */
export async function indexMemory(databaseUrl: string): Promise<{ indexMib: number; sharedMib: number }> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ index: number; shared: number }>(
      `select coalesce(pg_indexes_size(to_regclass('promo_store.event_keys')), 0)::float8 as index,
         pg_size_bytes(current_setting('shared_buffers'))::float8 as shared`,
    );
    const { index = 0, shared = 0 } = rows[0] ?? {};
    return { indexMib: Math.round(index / MEBIBYTE), sharedMib: shared / MEBIBYTE };
  });
}

const MEBIBYTE = 1024 ** 2;

async function primaryKey(client: Client): Promise<{ name: string; definition: string }> {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint
     where conrelid = 'promo_store.event_keys'::regclass and contype = 'p'`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error('promo_store.event_keys has no primary key');
  return row;
}
