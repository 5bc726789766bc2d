/** I7 of promo.check_invariants(): silent on sound promotions, and each damage made by hand is named. */
import type { Fold } from '../../src/fold/fold';
import { aPromotionFold, foldAll as foldUntilIdle } from '../support/folds';
import { aBet, aRefund, damagesOf, freshStore, type TestStore } from '../support/ledger';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

const EACH = 'id: each, type: bet_count, target: 2, completes: each, confirm_after: PT1S';
const RACE =
  'id: race, type: leaderboard, window: { every: day }, time_zone: UTC, points: [{ counts: bet, points: 1 }], keep_ranks: 3';

let store: TestStore;
let fold: Fold;
beforeEach(async () => {
  store = await freshStore({ own: true });
  fold = aPromotionFold(store.pool);
});
afterEach(() => store.close());

async function apply(...flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows), 'recompute');
}

/** Folds until nothing is left, and once more, so that time passes. */
const foldAll = (): Promise<void> => foldUntilIdle(fold, 2);

const bets = (player: string, ...ids: readonly string[]) =>
  ids.map((id) => aBet({ event_id: id, round_id: `r-${id}`, player_ref: player, occurred_at: AT }));
const AT = new Date(Date.now() - 3 * 86_400_000).toISOString();

/** Makes all that is stored an hour older, so that completions are due for their confirmation. */
async function age(): Promise<void> {
  await store.age('1 hour');
  await store.pool.query(`update promo_store.fold_generations set newest_at = newest_at - interval '1 hour';
    update promo_store.promotion_attempts set decided_at = decided_at - interval '1 hour', confirms_at = confirms_at - interval '1 hour'`);
}

/** Player a has two completions and b one, all confirmed. One of c is revoked. A race gives its ranks. */
async function play(): Promise<void> {
  await apply(EACH, RACE);
  const acme = store.partition('acme');
  await acme.read(...bets('a', '1', '2', '3', '4'), ...bets('b', '5', '6', '7'), ...bets('c', '8', '9'));
  await foldAll();
  await acme.read(aRefund({ event_id: 'x', round_id: 'r-8', player_ref: 'c' }));
  await foldAll();
  await age();
  await foldAll();
}

const changes = () =>
  store.rows(
    `select promotion_id, player_ref, ordinal, attempt, change from promo.completions order by 1, 2, 3, 4, entry_no`,
  );

test('the promotions of the damages below have each kind of row [P12] [P14]', async () => {
  await play();
  expect(await changes()).toEqual([
    ['each', 'a', '1', '1', 'completed'],
    ['each', 'a', '1', '1', 'confirmed'],
    ['each', 'a', '2', '1', 'completed'],
    ['each', 'a', '2', '1', 'confirmed'],
    ['each', 'b', '1', '1', 'completed'],
    ['each', 'b', '1', '1', 'confirmed'],
    ['each', 'c', '1', '1', 'completed'],
    ['each', 'c', '1', '1', 'revoked'],
    ['race', 'a', '1', '1', 'completed'],
    ['race', 'b', '2', '1', 'completed'],
    ['race', 'c', '3', '1', 'completed'],
  ]);
});

const OF_A = `(select entry_no from promo.completions where promotion_id = 'each' and player_ref = 'a' and ordinal = 2 and change = 'completed')`;
const WINDOW = (id: string) =>
  `(select window_no from promo_store.promotion_windows join promo_store.promotions using (promotion_no) where promotion_id = '${id}')`;
const COMPLETIONS = 'promo_store.promotion_completions';
/** Postgres changes no identity by an update, so the entry is written again. */
const movedToFront = (entry: string) => `with gone as (delete from ${COMPLETIONS} where ${entry} returning *)
  insert into ${COMPLETIONS} (entry_no, completion_id, change, window_no, player_ref, ordinal, attempt, changed_at) overriding system value
  select -1, completion_id, change, window_no, player_ref, ordinal, attempt, changed_at from gone`;

test.each<[what: string, damage: string, expected: readonly RegExp[]]>([
  [
    'a completion that was deleted',
    `delete from ${COMPLETIONS} where entry_no = ${OF_A}`,
    [
      /^acme\/each\/once: the attempt 1 of the completion 2, decided by the change \d+, holds, but no entry completed it, or one revoked it$/,
      /^acme\/each\/once: the completion of the entry \d+ was revoked or confirmed, but never completed$/,
    ],
  ],
  [
    'a completion that was revoked by hand',
    `insert into ${COMPLETIONS} (completion_id, change, window_no, player_ref, ordinal, attempt, changed_at)
     select completion_id, 1, window_no, player_ref, ordinal, attempt, now() from ${COMPLETIONS} where entry_no = ${OF_A}`,
    [
      /: the attempt 1 of the completion 2, decided by the change \d+, holds, but no entry completed it, or one revoked it$/,
    ],
  ],
  [
    'a revoked completion without the entry that revoked it',
    `delete from ${COMPLETIONS} where change = 1`,
    [/: the completion of the entry \d+ was completed and not revoked, but no attempt holds it$/],
  ],
  [
    'an entry that revokes, from before the completion',
    movedToFront('change = 1'),
    [/: the completion of the entry -1 was revoked before it was completed$/],
  ],
  [
    'a confirmation from before the completion',
    movedToFront(`change = 2 and player_ref = 'b'`),
    [/: the completion of the entry -1 was confirmed before it was completed$/],
  ],
  [
    'a confirmation of a revoked completion',
    `insert into ${COMPLETIONS} (completion_id, change, window_no, player_ref, ordinal, attempt, changed_at)
     select completion_id, 2, window_no, player_ref, ordinal, attempt, now() from ${COMPLETIONS} where change = 1`,
    [/: the completion of the entry \d+ was confirmed after it was revoked$/],
  ],
  [
    'a confirmation that was deleted',
    `delete from ${COMPLETIONS} where change = 2 and player_ref = 'b'`,
    [/: the completion of the entry \d+ is confirmed, but no entry says so$/],
  ],
  [
    'a confirmation that is waited for again',
    `update promo_store.promotion_attempts set confirms_at = now() + interval '1 day' where player_ref = 'b' and window_no = ${WINDOW('each')}`,
    [/: the completion of the entry \d+ was confirmed, and waits for it again$/],
  ],
  [
    'the id of another completion',
    `update ${COMPLETIONS} set completion_id = '\\x00' where entry_no = ${OF_A} or (change = 2 and ordinal = 2)`,
    [/: the completion of the entry \d+ has an id that is not the one of its player, window and attempt$/],
  ],
  [
    'numbers of changes that were not given',
    `update ${COMPLETIONS} set change_no = 1::bigint << 60 where entry_no = ${OF_A};
     update promo_store.promotion_progress set changed_no = 1::bigint << 60 where player_ref = 'b' and window_no = ${WINDOW('each')}`,
    [
      /: the completion of the entry \d+ has a number of a change that was not given$/,
      /: the progress that the change \d+ changed last has a number of a change that was not given$/,
    ],
  ],
  [
    'progress that is worth more',
    `update promo_store.promotion_progress set attained = 3 where player_ref = 'a' and window_no = ${WINDOW('each')}`,
    [/: the progress that the change \d+ changed last is worth 3 completions, but 2 hold$/],
  ],
  [
    'progress whose attempts are not looked up',
    `update promo_store.promotion_progress set has_attempts = false where player_ref = 'a' and window_no = ${WINDOW('each')}`,
    [
      /: the progress that the change \d+ changed last says that no completion was ever attained, but 2 hold$/,
    ],
  ],
  [
    'values without items',
    `update promo_store.promotion_progress set items = '{}' where player_ref = 'a' and window_no = ${WINDOW('each')}`,
    [/: the progress that the change \d+ changed last has values without an item or a currency$/],
  ],
  [
    'progress that was deleted',
    `delete from promo_store.promotion_progress where player_ref = 'b' and window_no = ${WINDOW('each')}`,
    [/: the player of the completion 1 has no progress$/],
  ],
  [
    'progress of a window that is missing',
    `insert into promo_store.promotion_progress (generation, window_no, player_ref, items, currencies, amounts, attained, score, changed_no, changed_at)
     select generation, 7777, player_ref, items, currencies, amounts, 0, 0, changed_no, changed_at
     from promo_store.promotion_progress where player_ref = 'c' and window_no = ${WINDOW('each')}`,
    [
      /^null: the progress that the change \d+ changed last is of the window number 7777, and there is no such window$/,
    ],
  ],
  [
    'ranks of a leaderboard that is open',
    'delete from promo_store.promotion_boards',
    [1, 2, 3].map(
      (rank) =>
        new RegExp(`^acme/race/[0-9-]+: the rank ${rank} is given, but the leaderboard is not closed$`),
    ),
  ],
  [
    'a rank that two players have',
    `insert into promo_store.promotion_attempts (generation, window_no, player_ref, ordinal, attempt, is_held, decided_at)
     select generation, window_no, 'b', 1, attempt, true, decided_at from promo_store.promotion_attempts where window_no = ${WINDOW('race')} and ordinal = 1`,
    [
      /: the attempt 1 of the completion 1, decided by the change of time, holds, but no entry completed it, or one revoked it$/,
      /: the rank 1 is given to 2 players$/,
    ],
  ],
])('%s: a damage is named [D3] [P12] [P14] [P15]', async (_, damage, expected) => {
  store.damaged = true;
  await play();
  expect(await damagesOf(store.pool)).toEqual([]);
  await store.pool.query(damage);
  const damages = await damagesOf(store.pool);
  expect(damages.map(([invariant, what, , , , source]) => [invariant, `${source}: ${what}`])).toEqual(
    expected.map((each) => ['I7', expect.stringMatching(each)]),
  );
  expect(new Set(damages.map(([, , , , , , inAll]) => inAll))).toEqual(new Set([String(expected.length)]));
});

test('the ledger of completions is sound within each step of a rebuild, and confirms nothing twice [D3] [P12] [P14]', async () => {
  await play();
  const before = await changes();
  expect(await fold.rebuild('a test')).toBe(true);
  for (let idle = 0; idle < 3; ) {
    if ((await fold.step()).kind === 'idle') idle++;
    expect(await damagesOf(store.pool)).toEqual([]);
  }
  expect(await changes()).toEqual(before);
});

test('a completion that a rebuild has revoked is attained again as a further attempt [P12]', async () => {
  store.damaged = true;
  await play();
  await store.pool.query(`update promo_store.history set counted = false where event_id in ('3', '4', '6')`);
  expect(await fold.rebuild('entries were taken away by hand')).toBe(true);
  await foldAll();
  await store.partition('acme').read(...bets('a', 'late-1', 'late-2'), ...bets('b', 'late-3'));
  await foldAll();
  const entries = await store.rows(
    `select c.player_ref, c.ordinal, c.attempt, c.change from promo_store.promotion_completions c join promo_store.promotion_windows w using (window_no)
join promo_store.promotions p using (promotion_no) where p.promotion_id = 'each' and c.player_ref in ('a', 'b') and c.change < 2 order by c.entry_no`,
  );
  const shown = entries.map(
    ([player, ordinal, attempt, change]) => `${player} ${ordinal}#${attempt} ${change}`,
  );
  expect(shown.filter((each) => each.startsWith('a 2'))).toEqual(['a 2#1 0', 'a 2#1 1', 'a 2#2 0']);
  expect(shown.filter((each) => each.startsWith('b'))).toEqual(['b 1#1 0']);
});

test('ranks that the time alone has given stay through a rebuild [P12] [P15]', async () => {
  await store.partition('acme').read(...bets('a', '1', '2'), ...bets('b', '3'));
  await age();
  const to = new Date(Date.now() - 30 * 60_000).toISOString().replace(/:\d\d\.\d+/, '');
  await apply(`id: race, type: leaderboard, to: ${to}, points: [{ counts: bet, points: 1 }]`);
  await foldAll();
  const before = await changes();
  expect(before).toHaveLength(2);
  expect(await fold.rebuild('a test')).toBe(true);
  await foldAll();
  expect(await changes()).toEqual(before);
});

test('a changed promotion, a refund after a confirmation and an erasure leave sound promotions [D3] [B6] [P12] [P21]', async () => {
  await play();
  const sound = async () => {
    expect(await damagesOf(store.pool)).toEqual([]);
    await foldAll();
    expect(await damagesOf(store.pool)).toEqual([]);
  };
  await apply(EACH.replace('target: 2', 'target: 3'), RACE);
  await sound();
  await store.partition('acme').read(aRefund({ event_id: 'y', round_id: 'r-1', player_ref: 'a' }));
  await sound();
  await store.value(`select promo.erase_player('acme', 'a')`);
  await sound();
  await store
    .partition('acme')
    .read(...bets('b', 'late'), aRefund({ event_id: 'z', round_id: 'r-2', player_ref: 'a' }));
  await sound();
  await apply(RACE);
  await sound();
  expect((await store.rows(`select * from promo.completions where player_ref = 'a'`)).length).toBe(0);
});
