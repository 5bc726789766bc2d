/** Rollups of many days: slices that are behind end with a day, and count the same as slices of any size. */
import type { Stepped } from '../../src/fold/fold';
import { filledStore } from '../support/filled-months';
import { aRollupFold, foldAll } from '../support/folds';
import type { TestStore } from '../support/ledger';

const FILL_MS = 60_000;
/** A day has 25 batches, and some refunds are of rounds that opened three days before. */
const FILL = { events: 30_000, days: 6, lateRounds: 3_000, tail: 0, players: 300 };
/** A slice has no more than some hours. */
const SMALL = { rows: 1_000, ms: FILL_MS };
/** The third slice has days, however slow the machine is. */
const LARGE = { rows: 400_000, ms: FILL_MS };

let store: TestStore;
beforeAll(async () => {
  store = await filledStore(FILL, FILL_MS);
  // Deposits of a player in two currencies, on most days.
  await store.rows(`update promo_store.history set currency_no = (select currency_no from promo_store.currencies where code = 'USD')
    where kind = 5 and verdict_id % 2 = 0 and currency_no is not null`);
}, 2 * FILL_MS);
afterAll(() => store.close());

/** The rows of each rollup. The numbers of days depend on the generation. */
const ROLLUPS = [
  `select to_jsonb(r) - 'generation' as r from promo_store.rollup_verdicts r`,
  `select to_jsonb(r) - 'generation' as r from promo_store.rollup_ledger r`,
  `select to_jsonb(r) - 'generation' - 'player_day_no' as r from promo_store.rollup_player_counts r`,
  `select (to_jsonb(c) || to_jsonb(r)) - 'generation' - 'player_day_no' as r from promo_store.rollup_players r join promo_store.rollup_player_counts c using (player_day_no)`,
];
const PLAYERS = 'select day, operator_id, brand, kind, players from promo.players_daily order by 1, 2, 3, 4';
const COUNTED_PLAYERS = `select (decided_at at time zone 'utc')::date, operator_id, brand, kind, count(distinct player_ref) from promo.facts
where not refunded and kind in ('bet', 'deposit', 'withdrawal', 'login') group by 1, 2, 3, 4 order by 1, 2, 3, 4`;

/** The rows of all rollups, whatever their generation is. */
async function countedRows(): Promise<string[][]> {
  const counted: string[][] = [];
  for (const rollup of ROLLUPS) {
    const rows = await store.rows(`select r from (${rollup}) r order by r::text`);
    counted.push(rows.map(([row]) => String(row)));
  }
  return counted;
}

/** Whether the first verdict behind a slice was decided on a later day than all verdicts up to its end. */
const beginsDay = async (upTo: number): Promise<boolean> =>
  (await store.value(`select (select min(decided_at) from promo_store.history where verdict_id > ${upTo})::date
    > (select max(decided_at) from promo_store.history where verdict_id <= ${upTo})::date`)) === 't';

test(
  'a rebuild by whole days counts the same rows as slices of some hours, with refunds of days before [L5]',
  async () => {
    await foldAll(aRollupFold(store.pool, { slice: SMALL }));
    const bySmall = await countedRows();
    expect(bySmall.map((rows) => rows.length > 0)).toEqual(ROLLUPS.map(() => true));
    expect(await store.value('select count(*) > 0 from promo_store.rollup_ledger where refunded > 0')).toBe(
      't',
    );

    const fold = aRollupFold(store.pool, { slice: LARGE });
    await fold.rebuild('test');
    const slices: Extract<Stepped, { kind: 'slice' }>[] = [];
    for (let step = await fold.step(); step.kind !== 'idle'; step = await fold.step())
      if (step.kind === 'slice') slices.push(step);
    const ends = slices.filter(({ wasShortened }) => wasShortened).map(({ upTo }) => upTo);
    expect(ends.length).toBeGreaterThan(0);
    expect(await Promise.all(ends.map(beginsDay))).toEqual(ends.map(() => true));
    expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
    expect(await countedRows()).toEqual(bySmall);
    expect(await store.rows(PLAYERS)).toEqual(await store.rows(COUNTED_PLAYERS));
  },
  FILL_MS,
);
