/** The rows of a move: their copy, the comparison of both stores, and the deletion on one side. */
import { BEGIN_SNAPSHOT } from '../postgres/snapshot';
import { type Move, MoveRefused } from './move-states';
import { all, changeStore, type MoveSession, type MoveStores } from './move-stores';
import { type CopyStep, type OwnNumbers, panicsOf } from './moved-rows';

/** A report of progress: a phase, or the rows of a step. */
export type MoveReport = (line: string) => void;

/** Rows that are sent to the receiving store at once. An id may be long, so their bytes vary. */
const ROWS_AT_ONCE = 2_000;
/** Rows of one transaction, where a table is copied in ranges. An interrupted range is copied again. */
const ROWS_IN_RANGE = 100_000;

/** Copies the rows of a step, or continues where an interrupted move has ended. */
export async function copyRows(
  { operator, from, to }: Move,
  step: CopyStep,
  report: MoveReport,
): Promise<void> {
  const [done] = await all<{ up_to: string | null; rows: string; is_done: boolean }>(
    to,
    `select encode(up_to, 'hex') as up_to, rows, is_done from promo_store.move_steps where operator_id = $1 and step = $2`,
    [operator, step.name],
  );
  if (done?.is_done === true) return;
  let upTo = done?.up_to ?? null;
  let copied = Number(done?.rows ?? 0);
  for (;;) {
    const range = await nextRange(from, step, upTo);
    const rows = range === undefined ? step.source : `${step.source} and ${range.condition}`;
    const source = step.order === undefined ? rows : `${rows} order by ${step.order}`;
    const isDone = range === undefined || range.last === null;
    upTo = range?.last ?? upTo;
    await changeStore(to, async () => {
      copied += await sendRows({ from, to }, step, source);
      await to.query(
        `insert into promo_store.move_steps (operator_id, step, up_to, rows, is_done) values ($1, $2, decode($3, 'hex'), $4, $5)
        on conflict (operator_id, step) do update set up_to = excluded.up_to, rows = excluded.rows, is_done = excluded.is_done`,
        [operator, step.name, upTo, copied, isDone],
      );
    });
    if (isDone) break;
  }
  if (copied > 0) report(`copied: ${step.name}, ${copied} rows`);
}

/**
 * The next range of keys; `last` is null for the range without an end. Undefined where the step is copied at
 * once.
 */
async function nextRange(
  from: MoveSession,
  { table, key }: CopyStep,
  after: string | null,
): Promise<{ condition: string; last: string | null } | undefined> {
  if (key === undefined) return undefined;
  const { column, feedNo } = key;
  const begin = after === null ? 'true' : `${column} > '\\x${after}'::bytea`;
  const [end] = await all<{ last: string }>(
    from,
    `select encode(${column}, 'hex') as last from promo_store.${table} where feed_no = $1 and ${begin} order by ${column} offset $2 limit 1`,
    [feedNo, ROWS_IN_RANGE - 1],
  );
  const last = end?.last ?? null;
  return { condition: last === null ? begin : `${begin} and ${column} <= '\\x${last}'::bytea`, last };
}

/** Sends the rows of a query to a table, as JSON. @returns their number */
async function sendRows({ from, to }: MoveStores, step: CopyStep, source: string): Promise<number> {
  const columns = step.columns.join(', ');
  const insert = `insert into promo_store.${step.table} (${columns}) select ${columns} from json_populate_recordset(null::promo_store.${step.table}, $1)`;
  await from.query(BEGIN_SNAPSHOT);
  try {
    await from.query(
      `declare moved no scroll cursor for select row_to_json(t)::text as row from (${source}) t`,
    );
    let sent = 0;
    let inserted: Promise<unknown> = Promise.resolve();
    for (;;) {
      const rows = await all<{ row: string }>(from, `fetch ${ROWS_AT_ONCE} from moved`);
      await inserted;
      if (rows.length === 0) return sent;
      sent += rows.length;
      inserted = to.query(insert, [`[${rows.map(({ row }) => row).join()}]`]);
      // The next turn of the loop receives the error. Until then nobody waits for it.
      inserted.catch(() => undefined);
    }
  } finally {
    // Where the session is gone, its own error says why, and the next query fails.
    await from.query('rollback').catch(() => undefined);
  }
}

/** @returns rows by table @throws MoveRefused where a table differs */
export async function compareRows(
  { from, to }: MoveStores,
  steps: readonly CopyStep[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const step of steps) {
    const [source, target] = await Promise.all([summary(from, step.source), summary(to, step.target)]);
    if (source.rows !== target.rows || source.hashes !== target.hashes)
      throw new MoveRefused(
        `the copy of ${step.name} differs: ${source.rows} rows in the leaving store, ${target.rows} in the receiving store, sums of hashes ${source.hashes} and ${target.hashes}. The operator is still in the leaving store. Cancel the move, and begin it again`,
      );
    counts.set(step.table, (counts.get(step.table) ?? 0) + Number(source.rows));
  }
  return counts;
}

async function summary(session: MoveSession, query: string): Promise<{ rows: string; hashes: string }> {
  const [found] = await all<{ rows: string; hashes: string }>(
    session,
    `select count(*) as rows, coalesce(sum(hashtextextended(row_to_json(t)::text, 0)), 0)::text as hashes from (${query}) t`,
  );
  return found ?? { rows: '0', hashes: '0' };
}

/** Rows that are deleted at once. */
const DELETE_AT_ONCE = 20_000;

/** Deletes the rows of the operator in one of the stores. Its feeds are not shown there. */
export async function deleteRows(
  session: MoveSession,
  operator: string,
  { feeds, partitions }: OwnNumbers,
  report: MoveReport,
): Promise<void> {
  const ofFeeds = `feed_no = any('{${feeds.join()}}')`;
  const ofPartitions = `partition_no = any('{${partitions.join()}}')`;
  await session.query(`delete from promo_store.panics where ${panicsOf(feeds)}`);
  await deleteInParts(session, 'rounds', ofFeeds, report);
  await deleteInParts(session, 'attributions', ofFeeds, report);
  await deleteInParts(session, 'erased_rounds', ofFeeds, report);
  await deleteInParts(session, 'event_keys', ofFeeds, report);
  const months = await all<{ parent: string; name: string }>(
    session,
    'select parent, name from promo_store.month_tables() order by name',
  );
  for (const { parent, name } of months)
    await deleteInParts(session, name, parent === 'unstored' ? ofPartitions : ofFeeds, report);
  // A slice of the pseudonyms may have read the deleted rows: wait for its end.
  await session.query('select promo_store.wait_for_pseudonyms()');
  // A store that the operator has left has no feeds of it any more.
  await deleteInParts(session, 'pseudonyms', 'operator_id = $1', report, [operator]);
  await session.query('select promo_store.wait_for_rollups()');
  await deleteInParts(
    session,
    'rollup_players',
    'player_day_no in (select player_day_no from promo_store.rollup_player_counts join promo_store.operators using (operator_no) where operator_id = $1)',
    report,
    [operator],
  );
  await session.query(`delete from promo_store.dropped_rows where ${ofPartitions}`);
  await session.query(`delete from promo_store.partitions where ${ofPartitions}`);
}

async function deleteInParts(
  session: MoveSession,
  table: string,
  where: string,
  report: MoveReport,
  values: readonly string[] = [],
): Promise<void> {
  let deleted = 0;
  for (;;) {
    const { rowCount } = await session.query(
      `delete from promo_store.${table} where ctid = any(array(select ctid from promo_store.${table} where ${where} limit ${DELETE_AT_ONCE}))`,
      [...values],
    );
    const gone = rowCount ?? 0;
    deleted += gone;
    if (gone < DELETE_AT_ONCE) break;
  }
  if (deleted > 0) report(`deleted: ${table}, ${deleted} rows`);
}
