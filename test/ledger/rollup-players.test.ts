/** Players in the rollups: exact beside refunds, erasures and retention, and kept no longer than history. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { erasePlayer } from '../../src/ledger/erasure';
import { forgetDroppedPlayerSums } from '../../src/ledger/retention';
import { aRollupFold, foldAll } from '../support/folds';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aWin,
  freshStore,
  type Json,
  MIGRATIONS,
  type TestStore,
} from '../support/ledger';

const SEEDS = inRun({ usual: 1, long: 4, variable: 'ROLLUP_SEEDS' });

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

/** Found by trial. */
const EQUAL_HASHES = ['p-97141', 'p-99263'];

const aFold = (rows = 200_000) => aRollupFold(store.pool, { slice: { rows, ms: 500 } });

const COUNTS = 'select day, operator_id, brand, kind, players from promo.players_daily order by 1, 2, 3, 4';
const COUNTED = `select (decided_at at time zone 'utc')::date, operator_id, brand, kind, count(distinct player_ref) from promo.facts
where not refunded and kind in ('bet', 'deposit', 'withdrawal', 'login') group by 1, 2, 3, 4 order by 1, 2, 3, 4`;
const SUMS = `select day, operator_id, brand, kind, currency, player_ref, entries, amount_minor from promo.player_ledger_daily order by 1, 2, 3, 4, 5, 6`;
const SUMMED = `select (decided_at at time zone 'utc')::date, operator_id, brand, kind, currency, player_ref, count(*), coalesce(sum(amount_minor), 0) from promo.facts
where not refunded and kind in ('bet', 'deposit', 'withdrawal', 'login') group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6`;

/** Sums that no day leads to. */
const LOST_SUMS = `select count(*) from promo_store.rollup_players p
where not exists (select from promo_store.rollup_player_counts c where c.player_day_no = p.player_day_no)`;

async function expectRecount(): Promise<void> {
  expect(await store.rows(SUMS)).toEqual(await store.rows(SUMMED));
  expect(await store.rows(COUNTS)).toEqual(await store.rows(COUNTED));
}

const players = async (kind: string) =>
  Number((await store.value(`select sum(players) from promo.players_daily where kind = '${kind}'`)) ?? 0);
const erase = (player: string, batch = 1_000) =>
  erasePlayer(store.url, { requestedBy: 'test' }, { operator: 'acme', player, batch }, () => undefined);

test('a player whose only bet of the day is refunded is not counted, and one with another bet is [L5]', async () => {
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann', amount: '2.00' }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ben', amount: '3.00' }),
    aBet({ event_id: 'b3', round_id: 'r3', player_ref: 'ben', amount: '4.00', currency: 'USD' }),
    aWin({ event_id: 'w1', round_id: 'r2', player_ref: 'ben' }),
    aLogin({ event_id: 'l1', player_ref: 'cid' }),
  );
  await foldAll(fold);
  expect(await store.rows('select kind, players from promo.players_daily order by 1')).toEqual([
    ['bet', '2'],
    ['login', '1'],
  ]);
  await partition.read(
    aRefund({ event_id: 'x1', round_id: 'r1', player_ref: 'ann' }),
    aRefund({ event_id: 'x2', round_id: 'r2', player_ref: 'ben' }),
  );
  await foldAll(fold);
  expect(await store.rows('select kind, players from promo.players_daily order by 1')).toEqual([
    ['bet', '1'],
    ['login', '1'],
  ]);
  expect(
    await store.rows(
      'select kind, currency, player_ref, entries, amount from promo.player_ledger_daily order by 1',
    ),
  ).toEqual([
    ['bet', 'USD', 'ben', '1', '4.00'],
    ['login', null, 'cid', '1', null],
  ]);
  // A player who bets again is counted again.
  await partition.read(aBet({ event_id: 'b4', round_id: 'r4', player_ref: 'ann' }));
  await foldAll(fold);
  expect(await players('bet')).toBe(2);
  await expectRecount();
});

test('a refund of a round that opened more than a hundred batches before takes its player out of the count [L5]', async () => {
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }));
  for (let batch = 0; batch < 101; batch++) await partition.read(aLogin({ event_id: `l${batch}` }));
  await foldAll(fold);
  expect(await players('bet')).toBe(1);
  await partition.read(aRefund({ event_id: 'x', round_id: 'r1', player_ref: 'ann' }));
  await foldAll(fold);
  expect(await players('bet')).toBe(0);
  await expectRecount();
});

test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
  'refunds, erasures and slices of every size: players equal a recount, also after a rebuild (seed %i) [L5] [L6]',
  async (seed) => {
    const random = makeRandom(seed);
    const partition = store.partition('acme');
    let fold = aFold(random.pick([1, 5, 200_000]));
    for (let batch = 0; batch < 30; batch++) {
      const events = Array.from({ length: random.between(1, 8) }, (_, event): Json => {
        const player_ref = `p-${random.below(6)}`;
        const event_id = `${batch}-${event}`;
        const make = random.pick([aBet, aBet, aBet, aWin, aRefund, aDeposit, aLogin]);
        if (make === aDeposit || make === aLogin) return make({ event_id, player_ref });
        const currency = random.pick(['EUR', 'EUR', 'USD']);
        return make({ event_id, player_ref, round_id: `r-${random.below(40)}`, currency });
      });
      await partition.read(...events);
      if (random.chance(0.1)) {
        await fold.release();
        fold = aFold(random.pick([1, 5, 200_000]));
      }
      for (let steps = random.below(4); steps > 0; steps--) await fold.step();
      if (random.chance(0.15)) await erase(`p-${random.below(6)}`, random.pick([1, 3, 1_000]));
    }
    await foldAll(fold);
    await expectRecount();
    const before = await store.rows(COUNTS);
    await fold.rebuild('test');
    await foldAll(fold);
    expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
    expect(await store.rows(COUNTS)).toEqual(before);
    await expectRecount();
    expect(await store.rows('select distinct generation from promo_store.rollup_player_counts')).toEqual([
      ['2'],
    ]);
    expect(await store.value(LOST_SUMS)).toBe('0');
  },
);

test('between the calls of an erasure, slices of both names end in one player, and no row names it [L6]', async () => {
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ann' }),
    aBet({ event_id: 'b3', round_id: 'r3', player_ref: 'ben' }),
  );
  await foldAll(fold);
  // The first call has changed one event of two.
  const call = (erasure: string | null) =>
    store.rows(`select erasure_no, is_done from promo.erase_player('acme', 'ann', 1, $1)`, [erasure]);
  const [[erasure = null, isDone] = []] = await call(null);
  expect(isDone).toBe('f');
  await partition.read(
    aBet({ event_id: 'b4', round_id: 'r4', player_ref: 'ann' }),
    aRefund({ event_id: 'x1', round_id: 'r1', player_ref: 'ann' }),
    aRefund({ event_id: 'x2', round_id: 'r2', player_ref: 'ann' }),
  );
  await foldAll(fold);
  for (let calls = 0; calls < 20; calls++) if ((await call(erasure))[0]?.[1] === 't') break;
  expect(await players('bet')).toBe(2);
  expect(await store.value(`select count(*) from promo_store.rollup_players where player_ref = 'ann'`)).toBe(
    '0',
  );
  await foldAll(fold);
  await expectRecount();
});

test('between the calls of an erasure, a bet in another currency than a refund counts the player once in the end [L6]', async () => {
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ann' }),
  );
  await foldAll(fold);
  const [[erasure = null] = []] = await store.rows(
    `select erasure_no from promo.erase_player('acme', 'ann', 1)`,
  );
  // The sums have the new name already, and the second bet still has the old one.
  await partition.read(
    aRefund({ event_id: 'x1', round_id: 'r1', player_ref: 'ann' }),
    aRefund({ event_id: 'x2', round_id: 'r2', player_ref: 'ann' }),
    aBet({ event_id: 'b3', round_id: 'r3', player_ref: 'ann', currency: 'USD' }),
  );
  await foldAll(fold);
  for (let calls = 0; calls < 20; calls++) {
    const [[isDone] = []] = await store.rows(
      `select is_done from promo.erase_player('acme', 'ann', 1, ${erasure})`,
    );
    if (isDone === 't') break;
  }
  await foldAll(fold);
  expect(await players('bet')).toBe(1);
  await expectRecount();
});

test('players with equal hashes are counted, refunded and erased each for itself [L5] [L6]', async () => {
  const [first = '', second = ''] = EQUAL_HASHES;
  expect(await store.rows(`select hashtext('${first}') = hashtext('${second}')`)).toEqual([['t']]);
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: first }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: second, currency: 'USD' }),
  );
  await foldAll(fold);
  expect(await players('bet')).toBe(2);
  // Another slice changes the sums of one of them, and takes the other out of the count.
  await partition.read(
    aBet({ event_id: 'b3', round_id: 'r3', player_ref: first }),
    aRefund({ event_id: 'x2', round_id: 'r2', player_ref: second }),
  );
  await foldAll(fold);
  expect(await players('bet')).toBe(1);
  await expectRecount();
  await partition.read(aBet({ event_id: 'b4', round_id: 'r4', player_ref: second }));
  await foldAll(fold);
  await erase(second);
  expect(await store.rows('select distinct player_ref from promo.player_ledger_daily order by 1')).toEqual([
    ['erased:1'],
    [first],
  ]);
  await foldAll(fold);
  expect(await players('bet')).toBe(2);
  await expectRecount();
});

test('the hash of players is the same in each supported Postgres, so that a dump loads in another one [U1]', async () => {
  expect(await store.value(`select hashtext('player')`)).toBe('696773213');
  await store.partition('acme').read(aBet({ player_ref: 'ann' }));
  await foldAll(aFold());
  await expect(store.pool.query('update promo_store.rollup_players set player_hash = 0')).rejects.toThrow(
    'rollup_players_hash',
  );
});

test('rollups from before players were counted get them by a rebuild that the migration begins [L5]', async () => {
  const migration = readFileSync(join(MIGRATIONS, '0042_player_counts.sql'), 'utf8');
  const [, begin = ''] =
    /^-- Rollups that are shown have no players yet.*?$(.*?)^-- -{10}/ms.exec(migration) ?? [];
  expect(begin).toContain('insert into promo_store.fold_generations');
  const partition = store.partition('acme');
  const fold = aFold(5);
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ben' }),
  );
  await foldAll(fold);
  // The store as it was before the migration, in which a rebuild may have begun.
  await store.pool.query('truncate promo_store.rollup_players, promo_store.rollup_player_counts');
  await store.pool.query(`insert into promo_store.fold_generations (fold, generation, state, after, lineage, complete_since, reason)
    values ('rollups', 2, 'filling', -1, promo.lineage(), '-infinity', 'asked for')`);
  await store.pool.query(begin);
  await partition.read(aBet({ event_id: 'b3', round_id: 'r3', player_ref: 'cid' }));
  await foldAll(fold);
  expect(await players('bet')).toBe(3);
  expect(await store.rows('select distinct generation from promo_store.rollup_player_counts')).toEqual([
    ['3'],
  ]);
  await expectRecount();
});

/** A bet of ann in an old month, and one of ben now. */
async function playInTwoMonths() {
  const partition = store.partition('acme');
  await store.rows(`select promo_store.create_month('history', '2020-01-01')`);
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
    aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ben' }),
  );
  await store.rows(`update promo_store.history set decided_at = '2020-01-15' where event_id = 'b1'`);
  return partition;
}

test('when a month is dropped its players go and their count stays, also through a rebuild [L5] [L6]', async () => {
  const fold = aFold();
  await playInTwoMonths();
  await store.rows(`update promo_store.reference_versions set applied_at = '2020-01-10'`);
  store.damaged = true; // Months between are missing.
  await foldAll(fold);
  expect(await forgetDroppedPlayerSums(store.url)).toBe(0);
  const named = () => store.rows('select day, player_ref from promo.player_ledger_daily order by 1');
  expect((await named()).map(([, player]) => player)).toEqual(['ann', 'ben']);

  await store.rows(`drop table promo_store.history_2020_01`);
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2020-01-01', '-infinity', now())
     on conflict on constraint months_pkey do update set dropped_at = now()`,
  );
  expect(await forgetDroppedPlayerSums(store.url)).toBe(1);
  expect((await named()).map(([, player]) => player)).toEqual(['ben']);
  const counts = await store.rows(COUNTS);
  expect(counts.map(([day, , , , count]) => [day?.slice(0, 4), count])).toEqual([
    ['2020', '1'],
    [new Date().toISOString().slice(0, 4), '1'],
  ]);
  await fold.rebuild('test');
  await foldAll(fold);
  expect(await store.rows(COUNTS)).toEqual(counts);
  expect((await named()).map(([, player]) => player)).toEqual(['ben']);
});

test('a rebuild keeps the sums of days that history has in part, beside the counts from before [L5] [L6]', async () => {
  const fold = aFold();
  const partition = await playInTwoMonths();
  await foldAll(fold);
  const counts = await store.rows(COUNTS);
  // As after the month was dropped, and came again with an operator from another store.
  await store.rows(`update promo_store.reference_versions set applied_at = '2020-01-10'`);
  await store.rows(
    `update promo_store.months set made_at = '2020-01-20', dropped_at = null where month = '2020-01-01'`,
  );
  store.damaged = true; // Months between are missing.
  await fold.rebuild('test');
  await foldAll(fold);
  expect(await store.value(LOST_SUMS)).toBe('0');
  expect(await store.rows(SUMS)).toEqual(await store.rows(SUMMED));
  expect(await store.rows(COUNTS)).toEqual(counts);
  // The next day gets a number of its own.
  await partition.read(aBet({ event_id: 'b3', round_id: 'r3', player_ref: 'ann' }));
  await foldAll(fold);
  expect(await players('bet')).toBe(3);
  await erase('ann');
  expect(await store.rows(`select from promo_store.rollup_players where player_ref = 'ann'`)).toEqual([]);
});

test('a deletion of many rows goes on until none of a dropped month is left, and takes no other [L6]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'b1', player_ref: 'ann' }));
  await foldAll(aFold());
  for (const day of ['2020-01-01', '2020-01-02'])
    await store.rows(
      `with c as (
         insert into promo_store.rollup_player_counts (generation, day, operator_no, brand_no, kind, player_day_no, players)
         select generation, $1, operator_no, brand_no, kind, (select max(player_day_no) + 1 from promo_store.rollup_player_counts), 3
         from promo_store.rollup_player_counts limit 1 returning *
       )
       insert into promo_store.rollup_players (player_day_no, player_hash, entries, currency_no, amount_minor, player_ref)
       select player_day_no, hashtext('p-' || n), 1, 0, 0, 'p-' || n from c, generate_series(1, 3) n`,
      [day],
    );
  const forgotten: (string | null)[] = [];
  do forgotten.push(await store.value('select promo.forget_dropped_player_sums(4)'));
  while (forgotten.at(-1) !== '0');
  expect(forgotten).toEqual(['4', '2', '0']);
  expect(await store.rows('select player_ref from promo_store.rollup_players')).toEqual([['ann']]);
  expect(await players('bet')).toBe(7);
});
