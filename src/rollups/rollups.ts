/** The rollups as results of a fold: verdicts by hour, the ledger by day, and that of players by day. */
import type { Results, SliceResult } from '../fold/fold';
import { deleteSome, deletionOf } from '../fold/statements';
import type { Session, Statement, Store } from '../postgres/transaction';
import { addSliceBeside, type SliceParameters } from './beside';
import { addDays, COUNT_ENTRIES, REVERSALS, sumDays } from './days';
import { ADD_HOURS, COUNT_CELLS, SUM_CELLS } from './hours';
import { addPlayers, HIGHEST_DAY_NO, PLAYED, REVERSED_OF_PLAYERS } from './players';
import { FAR_ROUNDS, FIND_REVERSED, findFar, LAST_DAY_END, PLAN, READ } from './slice';

/** Adds a slice by one connection. */
const FOLD: Statement = {
  name: 'rollups_fold',
  text: `with ${READ}, cells as materialized (${COUNT_CELLS}), ${FIND_REVERSED}, hours as (${ADD_HOURS}),
${addDays(sumDays(`${COUNT_ENTRIES} union all ${REVERSALS}`))}, ${addPlayers(`${PLAYED} union all ${REVERSED_OF_PLAYERS}`)}
select ${SUM_CELLS}, ${FAR_ROUNDS}`,
};

/** Adds the reversals of rounds that opened long ago. */
const REVERSE_FAR: Statement = {
  name: 'rollups_reverse_far',
  text: `with reversed as materialized (${findFar('$2')}), ${addPlayers(REVERSED_OF_PLAYERS)}, ${addDays(sumDays(REVERSALS))}
select`,
};
const END: Statement = { name: 'rollups_end', text: LAST_DAY_END };

/**
 * Results of dropped months. A rebuild cannot count them, so they are copied from the older generation. Sums
 * of players are not: they end with their month.
 */
const KEEPS: readonly Statement[] = [
  {
    name: 'rollups_clear_hours',
    text: 'delete from promo_store.rollup_verdicts where generation = $2 and hour < $3::timestamptz and $1::int is not null',
  },
  {
    name: 'rollups_keep_hours',
    text: `insert into promo_store.rollup_verdicts select $2, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no,
  verdicts, amount_minor, timed, early, within_100ms, within_1s, within_10s, within_1m, within_10m, within_1h, within_1d
from promo_store.rollup_verdicts where generation = $1 and hour < $3::timestamptz`,
  },
  {
    name: 'rollups_clear_days',
    text: `delete from promo_store.rollup_ledger where generation = $2 and day < ($3::timestamptz at time zone 'utc')::date and $1::int is not null`,
  },
  {
    name: 'rollups_keep_days',
    text: `insert into promo_store.rollup_ledger select $2, day, operator_no, brand_no, kind, currency_no, game_id,
  entries, entered_minor, reversals, reversed_minor, refunded, refunded_minor
from promo_store.rollup_ledger where generation = $1 and day < ($3::timestamptz at time zone 'utc')::date`,
  },
  // A day of its own keeps its number: without it, nothing would find the sums of its players.
  {
    name: 'rollups_clear_player_counts',
    text: `update promo_store.rollup_player_counts set players = 0 where generation = $2 and day < ($3::timestamptz at time zone 'utc')::date and $1::int is not null`,
  },
  {
    name: 'rollups_keep_player_counts',
    text: `insert into promo_store.rollup_player_counts (generation, day, operator_no, brand_no, kind, player_day_no, players)
select $2, day, operator_no, brand_no, kind, ${HIGHEST_DAY_NO} + row_number() over (), players
from promo_store.rollup_player_counts where generation = $1 and day < ($3::timestamptz at time zone 'utc')::date
on conflict on constraint rollup_player_counts_pkey do update set players = excluded.players`,
  },
];

const sweepOf = (table: string, condition: string) => deletionOf(`rollups_sweep_${table}`, table, condition);
/** Counts lead to the rows of players, so they go last. */
const SWEEPS = [
  sweepOf('rollup_verdicts', 'generation = $1'),
  sweepOf('rollup_ledger', 'generation = $1'),
  sweepOf(
    'rollup_players',
    'player_day_no in (select player_day_no from promo_store.rollup_player_counts where generation = $1)',
  ),
  sweepOf(
    'rollup_player_counts',
    'generation = $1 and not exists (select from promo_store.rollup_players p where p.player_day_no = t.player_day_no)',
  ),
];

async function addSlice(session: Session, slice: SliceParameters): Promise<SliceResult> {
  const [generation] = slice;
  const [[rows, newestAt = null, far = null] = []] = await session.query(FOLD, slice);
  if (far !== null) {
    await session.query(PLAN, ['on']);
    await session.query(REVERSE_FAR, [generation, far]);
  }
  return { rows: Number(rows), newestAt };
}

/**
 * @param beside connections for a second process of Postgres: for slices of a rebuild, and for those that are
 * behind
 */
export const makeRollups = (beside: Store | null): Results => ({
  name: 'rollups',
  async endOf(session, { after, upTo, since }) {
    const [[end = null] = []] = await session.query(END, [after, upTo, since]);
    return end === null ? upTo : Number(end);
  },
  async fold(session, { generation, after, upTo, since, lineage, isInOrder, mayTakeCores }) {
    const slice: SliceParameters = [generation, after, upTo, since, isInOrder];
    await session.query(PLAN, ['off']);
    return beside !== null && mayTakeCores
      ? addSliceBeside(session, beside, slice, lineage)
      : addSlice(session, slice);
  },
  async keepOlder(session, from, to, since) {
    for (const statement of KEEPS) await session.query(statement, [from, to, since]);
  },
  sweep: async (session, generation) => (await deleteSome(session, SWEEPS, [generation])) === 0,
});
