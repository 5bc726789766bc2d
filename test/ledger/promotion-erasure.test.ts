/**
 * An erasure of a round's own player takes the round from the player who was credited with it. The fold ends
 * where a rebuild ends, in any order of attributions, erasures, refunds, rebuilds and slices. A slice between
 * two calls of an erasure counts for the player. The next call joins the progress with that of `erased:N`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inRun } from '../../dev/long-run';
import { makeRandom, type Random } from '../../dev/random';
import type { Fold } from '../../src/fold/fold';
import { readFoldCoverage } from '../../src/ledger/fold-coverage';
import { inSnapshot } from '../../src/postgres/snapshot';
import { recountPromotions } from '../../src/promotion-store/recount';
import type { Takeover } from '../../src/promotions/timeline';
import { attribute, BONUS, NORMAL } from '../support/attributions';
import { aPromotionFold, foldAll as foldUntilIdle } from '../support/folds';
import {
  aBet,
  aLogin,
  aRefund,
  damagesOf,
  freshStore,
  MIGRATIONS,
  type TestStore,
  withClient,
} from '../support/ledger';
import { foldOfLedger } from '../support/ledger-fold';
import { DAILY_RACE, eventBytes, FLOWS, feedOf, LATE_CONFIRMED } from '../support/promotion-feeds';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const SEEDS = inRun({ usual: 1, long: 4, variable: 'PROMOTION_SEEDS' });
const READ = { applicationName: 'test', timeoutMs: 60_000 };

async function apply(takeover: Takeover, ...flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows), takeover);
}

const aFold = (rows?: number): Fold => aPromotionFold(store.pool, rows);
/** An idle fold looks for new versions and lets time pass, one after the other. */
const foldAll = (fold: Fold): Promise<void> => foldUntilIdle(fold, 3);

const kept = () => store.rows('select player_ref from promo_store.erased_credits order by 1');

const joined = () => store.rows('select player_ref from promo_store.promotion_joins order by 1');

/** The ledger of completions without the ranks of leaderboards. */
const entriesOfGoals = () =>
  store.rows(`select c.entry_no, m.promotion_id, w.window_key, c.player_ref, c.ordinal, c.attempt, c.change from promo_store.promotion_completions c
join promo_store.promotion_windows w using (window_no) join promo_store.promotions m using (promotion_no)
join promo_store.promotion_versions v using (promotion_no, version) where v.definition ->> 'type' <> 'leaderboard' order by 1`);

async function expectSound(): Promise<void> {
  expect(await damagesOf(store.pool)).toEqual([]);
  const recount = await inSnapshot(store.url, READ, (reader) => recountPromotions(reader, 1));
  if (recount.type === 'counted') expect(recount.recounted).toMatchObject({ skipped: 0, damages: [] });
}

/** Calls of one erasure, each of a few rows. */
async function erase(player: string, most = 1_000, between: () => Promise<unknown> = async () => null) {
  for (let erasure: string | null = null; ; ) {
    const [[no = null, isDone] = []] = await store.rows(
      'select erasure_no, is_done from promo.erase_player($1, $2, $3, $4)',
      ['acme', player, most, erasure],
    );
    if (isDone === 't') return;
    erasure = no;
    await between();
  }
}

const ERASED = /^erased:\d+$/;
/** Ranks of players with equal points may differ, and the completions of erased players are nobody's. */
const lineOf = (promotion: string, version: string, window: string, player: string, rest: string[]) =>
  `${[promotion, version, window, player].join(' ')}: ${rest.slice(0, ERASED.test(player) ? 1 : undefined).join(' | ')}`;
const sorted = (lines: readonly string[]) => lines.filter((line) => !/: (( \| 0 \| )|)$/.test(line)).sort();

/** The state that the fold of files gives for the ledger, where erased players have no other name. */
async function expectedState(): Promise<string[]> {
  const fold = await foldOfLedger(store);
  return sorted(
    [...fold.progress()].map((each) => {
      const { id, type } = each.promotion.definition;
      const values = each
        .rows()
        .filter(({ value }) => value !== 0n)
        .map(({ item, currency, value }) => `${item}/${currency}=${value}`);
      const held = type === 'leaderboard' ? [] : [...fold.completionsOf(each).keys()].sort((a, b) => a - b);
      const rest = [values.sort().join(), String(each.score), held.join()];
      return lineOf(id, String(each.version), each.window.key, each.playerRef, rest);
    }),
  );
}

const STATE = `select m.promotion_id, w.version, w.window_key, p.player_ref,
  (select string_agg(format('%s/%s=%s', item, currency, amount), ',' order by format('%s/%s=%s', item, currency, amount) collate "C")
    from unnest(p.items, p.currencies, p.amounts) v (item, currency, amount) where amount <> 0),
  p.score,
  (select string_agg(c.ordinal::text, ',' order by c.ordinal) from promo_store.promotion_completions c
    where c.window_no = p.window_no and c.player_ref = p.player_ref and c.change = 0 and v.definition ->> 'type' <> 'leaderboard'
      and not exists (select from promo_store.promotion_completions x where x.completion_id = c.completion_id and x.change = 1))
from promo_store.promotion_progress p
join promo_store.promotion_windows w using (window_no)
join promo_store.promotion_versions v using (promotion_no, version)
join promo_store.promotions m using (promotion_no)
where p.generation = (select generation from promo_store.folds where fold = 'promotions')`;

async function storedState(): Promise<string[]> {
  const rows = await store.rows(STATE);
  return sorted(
    rows.map(([promotion, version, window, player, ...rest]) =>
      lineOf(
        promotion ?? '',
        version ?? '',
        window ?? '',
        player ?? '',
        rest.map((each) => each ?? ''),
      ),
    ),
  );
}

/**
 * Sets and corrects attributions, erases players, removes promotions and counts again, in random order.
 * Events and slices come between the calls of an erasure, too.
 */
class Unrest {
  erasures = 0;
  private readonly rounds = Array.from({ length: 20 }, (_, no) => `r${no}`);
  private readonly players = ['p1', 'p2', 'p3', 'pé', 'p-normal', 'p-right'];
  private flows: readonly string[] = ALL;

  constructor(
    private readonly random: Random,
    private readonly fold: Fold,
    private readonly readSome: () => Promise<unknown>,
  ) {}

  async act(): Promise<void> {
    const { random, fold } = this;
    const player = random.pick(this.players);
    const round = random.pick(this.rounds);
    const kind = random.below(10);
    if (kind < 4)
      // A round with another player is refused.
      await store.rows(
        `select outcome from promo.attribute_rounds('acme', array[$1], array[$2], null, array[$3]::text[])`,
        [round, player, random.pick([null, null, 'main', 'second'])],
      );
    else if (kind < 5) {
      const [[was = null] = []] = await store.rows(
        'select credited_player from promo.attributions where round_id = $1',
        [round],
      );
      if (was !== null)
        await store.value(`select promo.correct_attribution('acme', $1, $2, $3, 'a test')`, [
          ...[round, was, player],
        ]);
    } else if (kind < 8) {
      await erase(player, random.pick([1, 3, 1_000]), async () => {
        if (random.chance(0.3)) await this.readSome();
        if (random.chance(0.3)) await fold.step();
        if (random.chance(0.1)) await expectSound();
      });
      this.erasures++;
    } else if (kind < 9) await fold.rebuild('a test');
    else if (this.flows.length === ALL.length && random.chance(0.5)) {
      this.flows = ALL.filter((flow) => flow !== FLOWS.bets && flow !== FLOWS.gems);
      await apply('next_window', ...this.flows);
    }
  }
}

const ALL = [...Object.values<string>(FLOWS), DAILY_RACE, LATE_CONFIRMED];

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'erasures, attributions, corrections, refunds, rebuilds and slices in any order end where a rebuild ends: seed %i [B6] [P1] [P16]',
  async (seed) => {
    const random = makeRandom(seed);
    await apply('recompute', ...ALL);
    const fold = aFold(random.pick([1, 30, 20_000]));
    const acme = store.partition('acme');
    const events = random.shuffled(feedOf(random).events);
    const readSome = async () => acme.read(...events.splice(0, random.between(1, 12)).map(eventBytes));
    const unrest = new Unrest(random, fold, readSome);
    await fold.step();
    while (events.length > 0) {
      await readSome();
      for (let acts = random.below(3); acts > 0; acts--) await unrest.act();
      if (random.chance(0.4)) await fold.step();
      if (random.chance(0.4)) await expectSound();
    }
    for (let end = 0; end < 4; end++) await foldAll(fold);
    const expected = await expectedState();
    expect(await storedState()).toEqual(expected);
    expect(expected.length).toBeGreaterThan(20);
    expect(await kept()).toEqual([]);
    expect(await joined()).toEqual([]);
    await expectSound();

    const entries = await entriesOfGoals();
    expect(await fold.rebuild('a test')).toBe(true);
    await foldAll(fold);
    expect(await storedState()).toEqual(expected);
    // The completions that hold are the same, also those of erased players.
    expect(await entriesOfGoals()).toEqual(entries);
    await expectSound();
    expect(unrest.erasures).toBeGreaterThan(0);
  },
);

const BETS = 'id: bets, type: bet_count, target: 2, completes: each';
const SUM = 'id: sum, type: turnover_target, counts: bet, target: { EUR: "1000.00" }';
const bet = (id: string, player: string, round = `r-${id}`) =>
  aBet({ event_id: id, player_ref: player, round_id: round });

const PROGRESS = `select player_ref, amounts[1] from promo_store.promotion_progress p join promo_store.promotion_windows w using (window_no)
join promo_store.promotions m using (promotion_no) where m.promotion_id = 'bets' and p.generation = (select generation from promo_store.folds where fold = 'promotions')
  and amounts[1] <> 0 order by 1`;
const progress = () => store.rows(PROGRESS);
const completions = () =>
  store.rows(`select player_ref, (array['completed', 'revoked', 'confirmed'])[change + 1], ordinal, attempt
from promo_store.promotion_completions order by entry_no`);

/** Two bets of a bonus session count for the normal player, who has one of its own. Two bets complete. */
async function play(fold: Fold): Promise<void> {
  await apply('recompute', BETS);
  await store.partition('acme').read(bet('a', BONUS), bet('b', BONUS), bet('c', NORMAL));
  await attribute(store, 'r-a');
  await attribute(store, 'r-b');
  await foldAll(fold);
  expect(await progress()).toEqual([[NORMAL, '3']]);
}

/** No table names the player. */
async function expectForgotten(...names: readonly string[]): Promise<void> {
  const tables = await store.rows(
    `select c.relname from pg_class c where c.relnamespace = 'promo_store'::regnamespace and c.relkind = 'r' order by 1`,
  );
  for (const [table] of tables) {
    const rows = JSON.stringify(await store.rows(`select t::text from promo_store.${table} t`));
    for (const name of names) expect([table, name, rows.includes(name)]).toEqual([table, name, false]);
  }
}

test('the fold takes an erased round from the credited player, and a refund then takes it from erased:N [B6] [P1] [P11]', async () => {
  const fold = aFold();
  await play(fold);
  await erase(BONUS);
  // The role of the fold alone reads it, until the next slice.
  expect(await kept()).toEqual([[NORMAL], [NORMAL]]);
  await expectSound();
  expect(await progress()).toEqual([[NORMAL, '3']]);
  await foldAll(fold);
  expect(await progress()).toEqual([
    ['erased:1', '2'],
    [NORMAL, '1'],
  ]);
  expect(await kept()).toEqual([]);
  await expectSound();
  const before = [
    [NORMAL, 'completed', '1', '1'],
    [NORMAL, 'revoked', '1', '1'],
    // The player had attained it by the same bets before they were attributed.
    ['erased:1', 'completed', '1', '2'],
  ];
  expect(await completions()).toEqual(before);

  await store.partition('acme').read(aRefund({ event_id: 'x', round_id: 'r-a', player_ref: BONUS }));
  await store.partition('acme').read(bet('d', NORMAL));
  await foldAll(fold);
  expect(await progress()).toEqual([
    ['erased:1', '1'],
    [NORMAL, '2'],
  ]);
  const after = [...before, ['erased:1', 'revoked', '1', '2'], [NORMAL, 'completed', '1', '2']];
  expect(await completions()).toEqual(after);
  await expectSound();
  // A rebuild never credits the player with the round. The completion that holds keeps its number.
  await fold.rebuild('a test');
  await foldAll(fold);
  expect(await completions()).toEqual(after);
  expect(await progress()).toHaveLength(2);
});

test('the erasure of the credited player before the fold has counted that of the other one leaves neither name [B6]', async () => {
  const fold = aFold();
  await play(fold);
  await erase(BONUS);
  await erase(NORMAL);
  expect(await kept()).toEqual([['erased:2'], ['erased:2']]);
  await expectForgotten(BONUS, NORMAL);
  await expectSound();
  await foldAll(fold);
  expect(await progress()).toEqual([
    ['erased:1', '2'],
    ['erased:2', '1'],
  ]);
  await expectForgotten(BONUS, NORMAL);
});

test('the erasure of the credited player alone keeps no player, and moves nothing [B6]', async () => {
  const fold = aFold();
  await play(fold);
  await erase(NORMAL);
  await erase(BONUS);
  expect(await kept()).toEqual([]);
  await foldAll(fold);
  expect(await progress()).toEqual([['erased:1', '3']]);
  await expectForgotten(BONUS, NORMAL);
});

test('a correction, then an erasure of the right player, leaves nothing with the replaced one where the fold is behind [B6] [B9]', async () => {
  const fold = aFold();
  await play(fold);
  await store.value(`select promo.correct_attribution('acme', 'r-a', $1, 'p-right', 'a test')`, [NORMAL]);
  await erase('p-right');
  expect(await kept()).toEqual([[NORMAL]]);
  await expectSound();
  await foldAll(fold);
  expect(await progress()).toEqual([
    ['erased:2', '1'],
    [NORMAL, '2'],
  ]);
  expect(await kept()).toEqual([]);
  await expectSound();
});

test('a fold that has not counted an attribution never credits it after the erasure, and nothing is kept [B6]', async () => {
  const fold = aFold();
  await apply('recompute', BETS);
  await store.partition('acme').read(bet('a', BONUS));
  await foldAll(fold);
  await attribute(store, 'r-a');
  await erase(BONUS);
  expect(await kept()).toEqual([]);
  await foldAll(fold);
  expect(await progress()).toEqual([['erased:1', '1']]);
  await expectSound();
});

test('the player is kept until a rebuild that is under way has counted the erasure, too [B6]', async () => {
  const fold = aFold(1);
  await play(fold);
  await store.partition('acme').read(...Array.from({ length: 5 }, (_, n) => aLogin({ event_id: `l${n}` })));
  for (let batch = 0; batch < 24; batch++)
    await store.partition('acme').read(aLogin({ event_id: `m${batch}` }));
  await foldAll(fold);
  await fold.rebuild('a test');
  await erase(BONUS);
  const waits: number[] = [];
  for (;;) {
    const uncounted = await store.value(
      `select count(*) from promo_store.attributions
       where change_no > (select min(after) from promo_store.fold_generations where state <> 'retired')`,
    );
    waits.push(Number(uncounted));
    expect((await kept()).length).toBe(Number(uncounted));
    expect(await damagesOf(store.pool)).toEqual([]);
    if ((await fold.step()).kind === 'idle') break;
  }
  // The shown generation has counted the erasure some slices before the other one.
  expect(waits.filter((count) => count === 2).length).toBeGreaterThan(2);
  expect(await progress()).toEqual([
    ['erased:1', '2'],
    [NORMAL, '1'],
  ]);
});

test('a round that was refunded after its promotion was removed goes to erased:N as in a rebuild [B6] [P17]', async () => {
  const fold = aFold();
  await play(fold);
  await apply('recompute', SUM);
  await foldAll(fold);
  await store.value(`select promo.correct_attribution('acme', 'r-b', $1, 'p-right', 'a test')`, [NORMAL]);
  await store.partition('acme').read(aRefund({ event_id: 'x', round_id: 'r-a', player_ref: BONUS }));
  await foldAll(fold);
  await erase(BONUS);
  await foldAll(fold);
  const live = await storedState();
  expect(live).toEqual(await expectedState());
  expect(await progress()).toEqual([
    ['erased:2', '2'],
    [NORMAL, '1'],
  ]);
  await expectSound();
});

test('an erasure waits for a slice before it takes numbers, for which the slice would wait [B6] [B10]', async () => {
  const fold = aFold();
  await play(fold);
  await withClient(store.url, async (slice) => {
    await slice.query(`begin; select from promo_store.folds where fold = 'promotions' for update`);
    const erasing = erase(BONUS);
    await store.untilOneWaits();
    const { rows } = await slice.query('select transactions from promo.batches_in_flight()');
    expect(rows).toEqual([{ transactions: [] }]);
    await slice.query('commit');
    await erasing;
  });
  await foldAll(fold);
  await expectSound();
});

test('a session that leaves an erasure open is named by its process of Postgres, once no lease holds [B6] [P16]', async () => {
  const fold = aFold();
  await play(fold);
  const openErasure = (work: (pid: number) => Promise<void>) =>
    withClient(store.url, async (open) => {
      const { rows } = await open.query('select pg_backend_pid() as pid');
      await open.query('begin');
      await open.query(`select promo.erase_player('acme', 'nobody')`);
      await work(Number(rows[0]?.pid));
      await open.query('rollback');
    });
  await store.partition('acme').read(aBet({ event_id: 'waits', round_id: 'r-waits' }));
  await openErasure(async () => {
    expect(await fold.step()).toMatchObject({ kind: 'standby', isLeased: false, heldBy: null });
  });
  // A lease of an hour was written while the clock was ahead.
  for (const [holder, left] of [
    ['me', '-1 minute'],
    ['another', '1 hour'],
  ]) {
    await store.rows(
      `update promo_store.folds set holder = '${holder}', held_until = now() + interval '${left}'`,
    );
    await openErasure(async (pid) => {
      expect(await fold.step()).toMatchObject({ kind: 'standby', isLeased: false, heldBy: pid });
      // Otherwise status would advise to start a process that runs.
      expect(await readFoldCoverage(store.url, 'promotions')).toMatchObject({
        isRunning: true,
        heldByPid: pid,
      });
    });
  }
  expect(await readFoldCoverage(store.url, 'promotions')).toMatchObject({
    isRunning: false,
    heldByPid: null,
  });
  await foldAll(fold);
  await expectSound();
});

test('an erasure finds the progress of a generation while it is swept [B6]', async () => {
  const fold = aFold();
  await play(fold);
  // More than one step of the sweep deletes.
  await store.rows(`insert into promo_store.promotion_progress (generation, window_no, player_ref, items, currencies, amounts, attained, has_attempts, score, changed_no, changed_at)
select generation, window_no, 'other-' || n, items, currencies, amounts, 0, false, 0, changed_no, changed_at
from promo_store.promotion_progress, generate_series(1, 20000) n where player_ref = '${NORMAL}'`);
  await fold.rebuild('a test');
  for (let kind = ''; kind !== 'sweep'; ) kind = (await fold.step()).kind;
  const left = await store.value(
    'select max(player_ref) from promo_store.promotion_progress where generation = 1',
  );
  expect(left).toMatch(/^other-/);
  await erase(left ?? '');
  await expectForgotten(left ?? '');
  await foldAll(fold);
  expect(
    await store.value('select count(*) from promo_store.promotion_generations where generation = 1'),
  ).toBe('0');
});

test('retention deletes what is kept with its attribution [B7]', async () => {
  await play(aFold());
  await erase(BONUS);
  await store.pool.query('delete from promo_store.attributions');
  expect(await kept()).toEqual([]);
});

test('the invariants name a player who is kept for too long, or without an erasure [B6]', async () => {
  store.damaged = true;
  const fold = aFold();
  await play(fold);
  const [feed, key] = [`(select feed_no from promo_store.attributions limit 1)`, `promo_store.id_key('r-a')`];
  await store.pool.query(`insert into promo_store.erased_credits (change_no, erased_no, erased_at, feed_no, round_key, player_ref)
    values (8192, 16384, now(), ${feed}, ${key}, 'x')`);
  expect(
    (await damagesOf(store.pool)).map(([invariant, what, , , round]) => [invariant, what, round]),
  ).toEqual([
    ['I6', 'a player is kept as that of an erased attribution, which is not erased', 'r-a'],
    ['I6', 'the player of before an erasure is kept, and promotions have counted the erasure', 'r-a'],
  ]);
});

test('credits that erasures of before have left are taken by a rebuild that the migration begins [B6]', async () => {
  const migration = readFileSync(join(MIGRATIONS, '0046_credits_of_erased_rounds.sql'), 'utf8');
  const begin = migration.slice(migration.indexOf('-- Erasures of before have left credits'));
  expect(begin).toContain('insert into promo_store.fold_generations');
  const fold = aFold();
  await play(fold);
  await store.pool.query(begin);
  expect(await store.value('select count(*) from promo_store.fold_generations')).toBe('1');
  await erase(BONUS);
  // The store as an older version left it.
  await store.pool.query('delete from promo_store.erased_credits');
  await store.pool.query(begin);
  await foldAll(fold);
  expect(await progress()).toEqual([
    ['erased:1', '2'],
    [NORMAL, '1'],
  ]);
  expect((await completions()).at(1)).toEqual([NORMAL, 'revoked', '1', '1']);
  await expectSound();
});

test('a recount sees an attribution in a slice without verdicts [P16]', async () => {
  await apply('recompute', BETS);
  await store.partition('acme').read(bet('a', BONUS));
  for (let no = 0; Number(await store.value('select promo_store.last_batch()')) < 15; no++)
    await store.partition('acme').read(aLogin({ event_id: `l${no}` }));
  await attribute(store, 'r-a');
  await foldAll(aFold());
  expect(await progress()).toEqual([[NORMAL, '1']]);
  await expectSound();
});

const refund = (id: string, player: string) =>
  aRefund({ event_id: `x-${id}`, player_ref: player, round_id: `r-${id}` });

/** An erasure whose calls change one verdict each. @param slices what happens after each of the calls */
async function eraseBetween(player: string, ...slices: readonly (() => Promise<unknown>)[]): Promise<void> {
  let calls = 0;
  await erase(player, 1, async () => {
    await slices[calls++]?.();
    await expectSound();
  });
  expect(calls).toBeGreaterThanOrEqual(slices.length);
}

/** A rebuild enters no completion, so those that hold are right. */
async function expectRebuilt(fold: Fold): Promise<void> {
  const before = await completions();
  expect(await fold.rebuild('a test')).toBe(true);
  await foldAll(fold);
  expect(await completions()).toEqual(before);
  await expectSound();
}

const P = 'p-erased';

test('a completion of the player, attained between the calls, holds for erased:N, whose own was revoked [B6] [P12]', async () => {
  const fold = aFold();
  await apply('recompute', BETS);
  const acme = store.partition('acme');
  await acme.read(bet('a', P), bet('b', P));
  await foldAll(fold);
  const before = [['erased:1', 'completed', '1', '1']];
  await eraseBetween(P, async () => {
    expect(await completions()).toEqual(before);
    await acme.read(refund('a', P), bet('c', P), bet('d', P));
    await foldAll(fold);
    before.push(['erased:1', 'revoked', '1', '1']);
    expect(await completions()).toEqual([...before, [P, 'completed', '1', '1']]);
  });
  // Until the next slice, erased:N has its own completions alone.
  expect(await completions()).toEqual(before);
  expect(await progress()).toEqual([['erased:1', '3']]);
  await expectForgotten(P);
  await expectSound();
  await foldAll(fold);
  before.push(['erased:1', 'completed', '1', '2']);
  expect(await completions()).toEqual(before);
  expect(await joined()).toEqual([]);
  await expectSound();
  await expectRebuilt(fold);

  await acme.read(refund('b', P), refund('c', P), refund('d', P));
  await foldAll(fold);
  before.push(['erased:1', 'revoked', '1', '2']);
  expect(await completions()).toEqual(before);
  await expectRebuilt(fold);
});

test('a slice that completes joined progress and takes it back enters the completion first [B6] [P12]', async () => {
  const fold = aFold();
  await apply('recompute', BETS);
  const acme = store.partition('acme');
  await acme.read(bet('a', P), bet('b', P));
  await foldAll(fold);
  await eraseBetween(P, async () => {
    await acme.read(refund('a', P), bet('c', P));
    await foldAll(fold);
  });
  const before = await completions();
  await acme.read(refund('b', P));
  await foldAll(fold);
  expect(await completions()).toEqual([
    ...before,
    ['erased:1', 'completed', '1', '2'],
    ['erased:1', 'revoked', '1', '2'],
  ]);
  await expectSound();
  await expectRebuilt(fold);
});

test('attempts of the player between the calls end none of erased:N, and a rebuild keeps the ids [B6] [P12]', async () => {
  const fold = aFold();
  await apply('recompute', `${BETS}, confirm_after: PT1S`);
  const acme = store.partition('acme');
  await acme.read(bet('a', P), bet('b', P));
  await foldAll(fold);
  await eraseBetween(
    P,
    async () => {
      await acme.read(bet('c', P), bet('d', P));
      await foldAll(fold);
      await acme.read(refund('c', P));
      await foldAll(fold);
      await acme.read(bet('e', P));
      await foldAll(fold);
      expect((await completions()).at(-1)).toEqual([P, 'completed', '1', '2']);
    },
    // The second call has joined them, and the fold judges them: four bets are two completions.
    () => foldAll(fold),
  );
  await foldAll(fold);
  const held = (await completions()).filter(([, change]) => change !== 'confirmed');
  expect(held).toEqual([
    ['erased:1', 'completed', '1', '1'],
    // A rebuild attains it twice.
    ['erased:1', 'completed', '2', '1'],
  ]);
  await expectRebuilt(fold);
});

test('a refund between the calls counts in each generation, also where a rebuild is under way [B6] [P16]', async () => {
  const fold = aFold(1);
  await apply('recompute', BETS, SUM);
  const acme = store.partition('acme');
  await acme.read(...['a', 'b', 'c', 'd'].map((id) => bet(id, P)));
  for (let batch = 0; batch < 16; batch++) await acme.read(aLogin({ event_id: `m${batch}` }));
  await foldAll(fold);
  await fold.rebuild('a test');
  const someSteps = async () => {
    for (let steps = 0; steps < 3; steps++) await fold.step();
  };
  await eraseBetween(
    P,
    async () => {
      await acme.read(refund('b', P));
      await someSteps();
    },
    async () => {
      await acme.read(refund('c', P), bet('e', P));
      await someSteps();
    },
  );
  for (let end = 0; end < 4; end++) await foldAll(fold);
  expect(await progress()).toEqual([['erased:1', '3']]);
  expect(await storedState()).toEqual(await expectedState());
  expect(await joined()).toEqual([]);
  await expectSound();
  await expectRebuilt(fold);
});

const RACE =
  'id: race, type: leaderboard, points: [{ counts: bet, points: 1 }], keep_ranks: 2, from: 2026-01-01T00:00Z, to: 2026-01-02T00:00Z';
/** Bets in the window of the leaderboard, by id. */
const racing = (players: Readonly<Record<string, string>>) =>
  Object.entries(players).map(([id, player]) => ({
    ...bet(id, player),
    occurred_at: '2026-01-01T10:00:00Z',
  }));

test('a closed leaderboard ranks again after the calls, between which a refund took points from the player [B6] [P15]', async () => {
  const fold = aFold();
  await apply('recompute', RACE);
  const acme = store.partition('acme');
  await acme.read(...racing({ a: P, b: P, c: P, d: 'q', e: 'q', f: 's' }));
  await foldAll(fold);
  await eraseBetween(P, async () => {
    await acme.read(refund('b', P), refund('c', P));
    await foldAll(fold);
  });
  await expectSound();
  // Nothing is decided: the time alone makes the fold judge.
  await foldAll(fold);
  expect(await completions()).toEqual([
    ['erased:1', 'completed', '1', '1'],
    ['q', 'completed', '2', '1'],
    ['erased:1', 'revoked', '1', '1'],
    ['q', 'revoked', '2', '1'],
    ['q', 'completed', '1', '1'],
    ['s', 'completed', '2', '1'],
  ]);
  expect(await joined()).toEqual([]);
  await expectSound();
  await expectRebuilt(fold);
});

test('the points of both names give erased:N another rank than each of them had [B6] [P15]', async () => {
  const fold = aFold();
  await apply('recompute', RACE);
  const acme = store.partition('acme');
  await acme.read(...racing({ a: P, b: 'q', c: 'q', d: 's' }));
  await foldAll(fold);
  await eraseBetween(P, async () => {
    await acme.read(...racing({ e: P, f: P }));
    await foldAll(fold);
    expect((await completions()).slice(-2)).toEqual([
      ['erased:1', 'revoked', '2', '1'],
      [P, 'completed', '2', '1'],
    ]);
  });
  await foldAll(fold);
  expect(await completions()).toEqual([
    ['q', 'completed', '1', '1'],
    ['erased:1', 'completed', '2', '1'],
    ['erased:1', 'revoked', '2', '1'],
    ['q', 'revoked', '1', '1'],
    // Each had this rank before, for one bet of the first slice.
    ['erased:1', 'completed', '1', '2'],
    ['q', 'completed', '2', '2'],
  ]);
  await expectSound();
  await expectRebuilt(fold);
});

test('an erasure that is broken off and begun again is sound, and a damage beside it is found [B6] [P16]', async () => {
  store.damaged = true;
  const fold = aFold();
  await apply('recompute', BETS);
  await store.partition('acme').read(bet('a', P), bet('b', P), bet('c', 'q'), bet('d', P));
  await foldAll(fold);
  await store.rows(`select from promo.erase_player('acme', $1, 1)`, [P]);
  await expectSound();
  await eraseBetween(P, async () => {
    await store.partition('acme').read(bet('e', P));
    await foldAll(fold);
  });
  await foldAll(fold);
  await expectSound();
  await store.pool.query(
    `update promo_store.promotion_progress set amounts = '{2}', attained = 0 where player_ref = 'q'`,
  );
  const recount = await inSnapshot(store.url, READ, (reader) => recountPromotions(reader, 1));
  expect(recount).toMatchObject({
    recounted: { damages: [{ what: 'the progress of erased players differs from the ledger by 1' }] },
  });
});

test('completions that an erasure of before has joined are corrected by a rebuild that the migration begins [B6]', async () => {
  const migration = readFileSync(join(MIGRATIONS, '0047_joined_progress.sql'), 'utf8');
  const begin = migration.slice(migration.indexOf('-- Erasures of before may have joined'));
  expect(begin).toContain('insert into promo_store.fold_generations');
  store.damaged = true;
  const fold = aFold();
  await apply('recompute', BETS);
  await store.partition('acme').read(bet('a', P), bet('b', P));
  await foldAll(fold);
  await store.pool.query(begin);
  expect(await store.value('select count(*) from promo_store.fold_generations')).toBe('1');
  await erase(P);
  await store.pool.query(`insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, changed_at)
    select completion_id, 1, window_no, player_ref, ordinal, attempt, changed_at from promo_store.promotion_completions`);
  expect((await damagesOf(store.pool)).map(([invariant]) => invariant)).toEqual(['I7']);
  await store.partition('acme').read(refund('a', P));
  // The fold would revoke what is revoked.
  await expect(foldAll(fold)).rejects.toThrow('promotion_completions_changes');
  await store.pool.query(begin);
  for (let tries = 0; tries < 20; tries++) await fold.step().catch(() => null);
  await expectSound();
  expect(await progress()).toEqual([['erased:1', '1']]);
});
