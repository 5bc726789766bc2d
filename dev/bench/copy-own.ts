/**
 * The contender copy-own: the rows that a worker wrote, by COPY into the product's own tables with all their
 * indexes. It neither reads Kafka nor decides, so it is the limit of a worker on these tables.
 */
import { once } from 'node:events';
import { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { within } from '../servers/deadline';
import { withClient } from './guest';
import { type Run, storedBytes, watchPostgres } from './runs';
import { checkpoint } from './stage';
import { sumOf } from './statistics';

const BATCH_DEADLINE_MS = 60_000;
const READ_MS = 300_000;

/**
 * The tables in the order in which a batch writes them, with SQL of the batch's time for a row `t`. All rows
 * of a batch have the same time.
 */
const TABLES = [
  { name: 'rounds', from: 'promo_store.rounds t', time: 't.opened_at' },
  {
    name: 'event_keys',
    // A key has no time, but the number of its verdict.
    from: 'promo_store.event_keys t join promo_store.history h using (verdict_id)',
    time: 'h.decided_at',
  },
  { name: 'history', from: 'promo_store.history t', time: 't.decided_at' },
  { name: 'resends', from: 'promo_store.resends t', time: 't.received_at' },
  { name: 'unstored', from: 'promo_store.unstored t', time: 't.received_at' },
] as const;

interface Copy {
  readonly statement: string;
  readonly rows: Buffer;
}

/** The rows that a worker wrote, by the transactions in which it wrote them. */
export interface OwnRows {
  readonly batches: readonly (readonly Copy[])[];
  readonly countOf: ReadonlyMap<string, number>;
}

/** Reads the rows of a worker from its database. Rounds have their last state. */
export async function readOwnRows(databaseUrl: string): Promise<OwnRows> {
  return withClient(
    databaseUrl,
    async (client) => {
      const batches = new Map<bigint, Copy[]>();
      const countOf = new Map<string, number>();
      for (const { name, from, time } of TABLES) {
        const columns = await columnsOf(client, name);
        const listed = columns.map((column) => `t.${column}`).join(', ');
        // A batch writes its rows in the order that suits the indexes: keep it.
        const select = `select ${time}, ${listed} from ${from} order by 1, t.tableoid, t.ctid`;
        const chunks: Buffer[] = [];
        for await (const chunk of client.query(copyTo(`copy (${select}) to stdout binary`)))
          chunks.push(Buffer.from(chunk));
        const pieces = splitRows(Buffer.concat(chunks));
        const statement = `copy promo_store.${name} (${columns.join(', ')}) from stdin binary`;
        countOf.set(
          name,
          sumOf(pieces, ({ count }) => count),
        );
        for (const { first, rows } of pieces) {
          const batch = batches.get(first);
          if (batch === undefined) batches.set(first, [{ statement, rows }]);
          else batch.push({ statement, rows });
        }
      }
      const inOrder = [...batches].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, copies]) => copies);
      return { batches: inOrder, countOf };
    },
    READ_MS,
  );
}

async function columnsOf(client: Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select quote_ident(attname) as name from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum`,
    [`promo_store.${table}`],
  );
  return rows.map(({ name }) => name);
}

/** Rows with one value of their first field. */
export interface Piece {
  readonly first: bigint;
  readonly count: number;
  /** The rows without their first field, in COPY's binary format. */
  readonly rows: Buffer;
}

/** The signature, 4 bytes of flags and 4 bytes for the length of an extension, which is empty. */
const HEADER = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
const TRAILER = Buffer.from([0xff, 0xff]);
/** Bytes of a row before its second field: the number of its fields, then length and value of the first. */
const BEFORE_SECOND = 2 + 4 + 8;

/**
 * Divides rows in COPY's binary format by their first field, an integer of 8 bytes in whose order they come.
 * https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS
 *
 * @param copied is overwritten
 */
export function splitRows(copied: Buffer): Piece[] {
  if (!copied.subarray(0, HEADER.length).equals(HEADER)) throw new Error('no rows in binary COPY format');
  const pieces: Piece[] = [];
  let first = 0n;
  let rows: Buffer[] = [];
  const end = () => {
    const all = Buffer.concat([HEADER, ...rows, TRAILER]);
    if (rows.length > 0) pieces.push({ first, count: rows.length, rows: all });
    rows = [];
  };
  let offset = HEADER.length;
  for (;;) {
    const fields = copied.readInt16BE(offset);
    if (fields < 0) break;
    const value = copied.readBigInt64BE(offset + 2 + 4);
    if (value !== first) end();
    first = value;
    // The row begins later by the first field, and has one field less.
    const start = offset + BEFORE_SECOND - 2;
    offset += 2;
    for (let field = 0; field < fields; field++) offset += 4 + Math.max(0, copied.readInt32BE(offset));
    copied.writeInt16BE(fields - 1, start);
    rows.push(copied.subarray(start, offset));
  }
  end();
  return pieces;
}

/**
 * Copies the rows into a database that has the product's tables and no events. Each batch of the worker is a
 * transaction, and each connection stores one batch after the other.
 *
 * @param events the records from which the worker made the rows
 */
export async function runCopyOwn(
  databaseUrl: string,
  { batches, countOf }: OwnRows,
  events: number,
  connections: number,
): Promise<Run> {
  return withClient(databaseUrl, async (client) => {
    await client.query('select promo_store.ensure_months()');
    const clients = Array.from({ length: connections }, () => new Client({ connectionString: databaseUrl }));
    for (const each of clients) await each.connect();
    try {
      await checkpoint(databaseUrl);
      const postgres = await watchPostgres(client);
      const own = process.cpuUsage();
      const began = performance.now();
      const waiting = batches.values();
      await Promise.all(
        clients.map(async (each) => {
          // The iterator is shared: a connection takes the next batch once it has stored its last one.
          for (const batch of waiting) await within('COPY of a batch', BATCH_DEADLINE_MS, store(each, batch));
        }),
      );
      const seconds = (performance.now() - began) / 1000;
      const { user, system } = process.cpuUsage(own);
      const postgresUse = await postgres.stop();
      await requireAll(client, countOf);
      const bytes = await storedBytes(client);
      return { events, seconds, cpuSeconds: (user + system) / 1e6, ...postgresUse, peakRssMib: 0, bytes };
    } finally {
      for (const each of clients) await each.end();
    }
  });
}

async function store(client: Client, batch: readonly Copy[]): Promise<void> {
  await client.query('begin');
  for (const { statement, rows } of batch) {
    const stream = client.query(copyFrom(statement));
    stream.end(rows);
    await once(stream, 'finish');
  }
  await client.query('commit');
}

/** @throws if a table does not hold as many rows as the worker wrote */
async function requireAll(client: Client, countOf: OwnRows['countOf']): Promise<void> {
  for (const [table, count] of countOf) {
    const { rows } = await client.query<{ count: number }>(
      `select count(*)::int as count from promo_store.${table}`,
    );
    if (rows[0]?.count !== count)
      throw new Error(`copy-own stored ${rows[0]?.count} of ${count} rows of ${table}`);
  }
}
