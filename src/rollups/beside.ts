/**
 * A slice by two connections at once. One of them counts hours and days, and finds what refunds reverse: it
 * only reads. The transaction of the slice adds players meanwhile, and then what the other one has found.
 */
import { readBeside } from '../fold/beside';
import type { SliceResult } from '../fold/fold';
import type { Session, Statement, Store } from '../postgres/transaction';
import { addDays, COUNT_ENTRIES, DAY_COLUMNS, REVERSALS, sumDays } from './days';
import { ADD_HOURS, CELL_COLUMNS, COUNT_CELLS, SUM_CELLS } from './hours';
import { addPlayers, PLAYED_COLUMNS, REVERSED_OF_PLAYERS } from './players';
import { FAR_ROUNDS, FIND_REVERSED, findFar, PLAN, READ_PLAYED, SCAN } from './slice';

/** Generation, and $2 to $5 of slice.ts. */
export type SliceParameters = readonly [
  generation: number,
  after: number,
  upTo: number,
  since: string,
  isInOrder: boolean,
];

type Columns = Readonly<Record<string, string>>;

/** Rows as an array for each column: as text, another statement takes them back. */
const pack = (columns: Columns): string =>
  Object.keys(columns)
    .map((column) => `array_agg(${column})::text`)
    .join(', ');
const unpack = (columns: Columns, first: number): string =>
  `select * from unnest(${Object.values(columns)
    .map((type, index) => `$${first + index}::${type}[]`)
    .join(', ')}) as packed (${Object.keys(columns).join(', ')})`;
const AFTER_CELLS = 2 + Object.keys(CELL_COLUMNS).length;
const AFTER_DAYS = AFTER_CELLS + Object.keys(DAY_COLUMNS).length;

const COUNT: Statement = {
  name: 'rollups_count',
  text: `with ${SCAN}, cells as materialized (${COUNT_CELLS}), ${FIND_REVERSED}
select ${FAR_ROUNDS}, c.*, d.*, p.* from (select ${pack(CELL_COLUMNS)} from cells) c
cross join (select ${pack(DAY_COLUMNS)} from (${sumDays(`${COUNT_ENTRIES} union all ${REVERSALS}`)}) d) d
cross join (select ${pack(PLAYED_COLUMNS)} from (${REVERSED_OF_PLAYERS}) p) p where $1::int is not null`,
};
const ADD_PLAYERS: Statement = {
  name: 'rollups_add_players',
  text: `with ${addPlayers(READ_PLAYED)} select`,
};
const ADD_COUNTED: Statement = {
  name: 'rollups_add_counted',
  text: `with cells as materialized (${unpack(CELL_COLUMNS, 2)}), hours as (${ADD_HOURS}),
${addDays(unpack(DAY_COLUMNS, AFTER_CELLS))}, ${addPlayers(unpack(PLAYED_COLUMNS, AFTER_DAYS))}
select ${SUM_CELLS}`,
};
/** The reversals of rounds that opened long ago: each lookup takes milliseconds. */
const COUNT_FAR: Statement = {
  name: 'rollups_count_far',
  text: `with reversed as materialized (${findFar('$1')})
select d.*, p.* from (select ${pack(DAY_COLUMNS)} from (${sumDays(REVERSALS)}) d) d
cross join (select ${pack(PLAYED_COLUMNS)} from (${REVERSED_OF_PLAYERS}) p) p`,
};
const ADD_FAR: Statement = {
  name: 'rollups_add_far',
  text: `with ${addDays(unpack(DAY_COLUMNS, 2))}, ${addPlayers(unpack(PLAYED_COLUMNS, 2 + Object.keys(DAY_COLUMNS).length))} select`,
};
/** As for the slice itself. The work of one slice takes two processes of Postgres, and no more. */
const PREPARE: Statement = {
  name: 'rollups_prepare',
  text: `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true), set_config('max_parallel_workers_per_gather', '0', true),
  set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true)`,
};

/**
 * Adds a slice by two connections.
 *
 * @param lineage of the store of the session
 * @throws DifferentServers
 */
export async function addSliceBeside(
  session: Session,
  beside: Store,
  slice: SliceParameters,
  lineage: string,
): Promise<SliceResult> {
  const [generation, after, upTo, since] = slice;
  const [{ counted, far }] = await Promise.all([
    readBeside(beside, lineage, async (own) => {
      await own.query(PREPARE);
      const [[rounds = null, ...counted] = []] = await own.query(COUNT, slice);
      if (rounds === null) return { counted, far: null };
      await own.query(PLAN, ['on']);
      const [far = null] = await own.query(COUNT_FAR, [rounds]);
      return { counted, far };
    }),
    session.query(ADD_PLAYERS, [generation, after, upTo, since]),
  ]);
  const [[rows, newestAt = null] = []] = await session.query(ADD_COUNTED, [generation, ...counted]);
  if (far !== null) await session.query(ADD_FAR, [generation, ...far]);
  return { rows: Number(rows), newestAt };
}
