/** Attributions are erased with either player, dropped with their month, and checked by an invariant. */
import { erasePlayer } from '../../src/ledger/erasure';
import {
  dropMonthsBefore,
  forgetDroppedAttributions,
  forgetDroppedPlayers,
} from '../../src/ledger/retention';
import { attribute, attributeAll, attributionsOf, BONUS, NORMAL } from '../support/attributions';
import { aBet, aSettled, damagesOf, freshStore, type TestStore, withClient } from '../support/ledger';
import { makeMonth, monthBefore, moveBack } from '../support/old-months';

const BY = { requestedBy: 'ops@desk' };
const mine = { player_ref: BONUS };

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const set = (round: string, player?: string) => attribute(store, round, player);
const erase = (player: string, batch = 1_000) =>
  erasePlayer(store.url, BY, { operator: 'acme', player, batch }, () => undefined);

describe('an erasure', () => {
  /** No column of any table has one of the names. */
  async function expectForgotten(...names: readonly string[]): Promise<void> {
    const contents = {
      ...(await store.contents()),
      attributions: await store.rows('select a::text from promo_store.attributions a'),
      versions: await store.rows('select v::text from promo_store.attribution_versions v'),
    };
    for (const [table, rows] of Object.entries(contents))
      for (const name of names)
        expect([table, name, JSON.stringify(rows).includes(name)]).toEqual([table, name, false]);
    expect(JSON.stringify(await store.rows('select * from promo.operations'))).not.toMatch(names.join('|'));
  }

  test('of the credited player leaves erased:N in the attributions alone [B6]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    for (const round of ['r-1', 'r-2', 'r-3', 'r-4', 'r-5']) await set(round);
    await set('r-6', 'another');
    expect(await erase(NORMAL, 2)).toEqual({ erasure: 1, verdicts: 0, rounds: 0, payloads: 0 });
    expect((await attributionsOf(store)).map(([, round, player]) => `${round} ${player}`)).toEqual([
      ...[1, 2, 3, 4, 5].map((n) => `r-${n} erased:1`),
      'r-6 another',
    ]);
    expect(await store.rows('select player_ref, credited_player from promo.ledger')).toEqual([
      [BONUS, 'erased:1'],
    ]);
    expect(await store.value(`select outcome ->> 'attributions' from promo.operations`)).toBe('5');
    await expectForgotten(NORMAL);
    // It stays erased, whatever is set again.
    expect([await set('r-1'), await set('r-1', 'another')]).toEqual(['erased', 'erased']);
    await expectForgotten(NORMAL);
  });

  test('of the player of the session erases the name behind it, in all its rounds [B6]', async () => {
    const acme = store.partition('acme');
    await acme.read(...[1, 2, 3].map((n) => aBet({ ...mine, event_id: `b${n}`, round_id: `r-${n}` })));
    await acme.read(aBet({ player_ref: 'other', event_id: 'b4', round_id: 'r-4' }));
    for (const round of ['r-1', 'r-2', 'r-4', 'r-5']) await set(round);
    await erase(BONUS, 1);
    expect((await attributionsOf(store)).map(([, round, player]) => `${round} ${player}`)).toEqual([
      ...['r-1 erased:1', 'r-2 erased:1', `r-4 ${NORMAL}`, `r-5 ${NORMAL}`],
    ]);
    await expectForgotten(BONUS);
    // The third round had no attribution. It takes none now, since that would name the erased player.
    expect([await set('r-3'), await set('r-1'), await set('r-4')]).toEqual([
      ...['erased', 'erased', 'unchanged'],
    ]);
    await erase(NORMAL);
    await expectForgotten(BONUS, NORMAL);
  });

  test('keeps a round from any attribution, also after a later event of another player [B6]', async () => {
    const acme = store.partition('acme');
    await acme.read(aBet({ ...mine, event_id: 'b1' }));
    await erase(BONUS);
    // This event gives the round a tag of a player again.
    await acme.read(aBet({ player_ref: 'other', event_id: 'b2' }));
    expect(await set('r-1')).toBe('erased');
    expect(await store.rows('select player_ref, credited_player from promo.ledger order by 1')).toEqual([
      ['erased:1', 'erased:1'],
      ['other', 'other'],
    ]);
  });

  test('of a player of another operator changes nothing [B6]', async () => {
    await set('r-1');
    await erasePlayer(store.url, BY, { operator: 'bravo', player: NORMAL, batch: 10 }, () => undefined);
    expect(await attributionsOf(store)).toEqual([['acme', 'r-1', NORMAL, null]]);
  });

  test('waits for an attribution in flight, and erases it [B6]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    await withClient(store.url, async (setter) => {
      await setter.query(`begin; select promo.attribute_round('acme', 'r-1', '${NORMAL}')`);
      const erasing = erase(BONUS);
      await store.untilOneWaits();
      await setter.query('commit');
      await erasing;
    });
    expect(await attributionsOf(store)).toEqual([['acme', 'r-1', 'erased:1', null]]);
  });

  test('in flight is waited for by an attribution, which then stores nothing [B6]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    await withClient(store.url, async (eraser) => {
      await eraser.query(`begin; select promo.erase_player('acme', '${BONUS}')`);
      const setting = set('r-1');
      await store.untilOneWaits();
      await eraser.query('commit');
      expect(await setting).toBe('erased');
    });
    expect(await attributionsOf(store)).toEqual([]);
  });

  test('of both names of a person at once waits for no other one, and forgets both [B6]', async () => {
    const rounds = Array.from({ length: 200 }, (_, n) => `r-${n}`);
    const ofRounds = (player: string) =>
      rounds.map((id, n) => aBet({ player_ref: player, event_id: `e-${n}`, round_id: id }));
    await store.partition('acme').read(...ofRounds(BONUS));
    await attributeAll(store, rounds);
    await Promise.all([erase(BONUS, 7), erase(NORMAL, 5)]);
    expect(
      await store.rows('select distinct credited_player ~ $1 from promo.ledger', ['^erased:[12]$']),
    ).toEqual([['t']]);
    await expectForgotten(BONUS, NORMAL);
    expect(await store.deadlocks()).toBe(0);
  });

  test('beside many that set attributions leaves no name on a round of the erased player [B6]', async () => {
    const rounds = Array.from({ length: 120 }, (_, n) => `r-${n}`);
    await store
      .partition('acme')
      .read(...rounds.map((id) => aBet({ ...mine, event_id: `b-${id}`, round_id: id })));
    const setting = Array.from({ length: 4 }, async (_, setter) => {
      for (let from = setter * 30; from < setter * 30 + 30; from += 3)
        await attributeAll(store, rounds.slice(from, from + 3));
    });
    await Promise.all([...setting, erase(BONUS, 10)]);
    expect(await store.rows('select distinct player_ref, credited_player from promo.ledger')).toEqual([
      ['erased:1', 'erased:1'],
    ]);
    await expectForgotten(BONUS, NORMAL);
    expect(await store.deadlocks()).toBe(0);
  });

  test('runs where all tables are published, as a delete by retention does [B6] [B7]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    await set('r-1');
    await store.pool.query('create publication everything for all tables');
    await erase(BONUS);
    await store.pool.query(`update promo_store.attributions set attributed_at = now() - interval '2 years'`);
    await store.pool.query(`delete from promo_store.attributions`);
    expect(await attributionsOf(store)).toEqual([]);
  });
});

describe('retention', () => {
  const setBack = (months: number, ...rounds: readonly string[]) =>
    store.pool.query(
      `update promo_store.attributions set attributed_at = ${monthBefore(months)} + interval '10 days' where round_id = any($1)`,
      [rounds],
    );

  test('drops an attribution with its month, and keeps it for each kept event of its round [B7]', async () => {
    await store.pool.query(`update promo_store.reference_versions set applied_at = ${monthBefore(3)}`);
    for (const months of [3, 2, 1]) await makeMonth(store, months);
    const acme = store.partition('acme');
    await acme.read(
      ...['old', 'edge', 'late', 'new'].map((id) => aBet({ ...mine, event_id: `${id}-b`, round_id: id })),
      aSettled({ ...mine, event_id: 'edge-s', round_id: 'edge' }),
    );
    await moveBack(store, 2, 'old-b', 'edge-b', 'late-b');
    await moveBack(store, 1, 'edge-s');
    for (const id of ['old', 'edge', 'late', 'new', 'early', 'never']) await set(id);
    // Set for a round of before, for one that came a month later, and for one that never came.
    await setBack(2, 'old', 'edge', 'new', 'never');
    expect(await forgetDroppedAttributions(store.url)).toBe(0);

    const [firstKept = ''] =
      (await store.rows(`select (${monthBefore(1)} at time zone 'utc')::date::text`))[0] ?? [];
    await dropMonthsBefore(store.url, BY, firstKept ?? '');
    expect(await forgetDroppedAttributions(store.url)).toBe(2);
    expect((await attributionsOf(store)).map(([, round]) => round)).toEqual(['early', 'edge', 'late', 'new']);
    // A kept entry is credited as before.
    expect(await store.rows('select event_id, credited_player from promo.ledger order by 1')).toEqual([
      ['edge-s', NORMAL],
      ['new-b', NORMAL],
    ]);
    expect(await forgetDroppedAttributions(store.url)).toBe(0);
    store.damaged = true; // Its events were moved by hand.
  });

  test('finds the rounds of many old attributions by one reading of history [B7]', async () => {
    await store.pool.query(`update promo_store.reference_versions set applied_at = ${monthBefore(3)}`);
    await makeMonth(store, 1);
    const ids = Array.from({ length: 450 }, (_, n) => `r-${n}`);
    await store
      .partition('acme')
      .read(...ids.map((id) => aBet({ ...mine, event_id: `b-${id}`, round_id: id })));
    await store.pool.query(`update promo_store.rounds set opened_at = ${monthBefore(3)}`);
    await attributeAll(store, ids);
    await setBack(3, ...ids);
    await store.pool.query(`delete from promo_store.history where event_id like 'b-r-1%'`);
    const gone = ids.filter((id) => id.startsWith('r-1')).length;
    expect(await forgetDroppedAttributions(store.url)).toBe(gone);
    expect(await store.value('select count(*) from promo.attributions')).toBe(String(ids.length - gone));
    expect(await forgetDroppedPlayers(store.url)).toEqual({ events: 0, rounds: 0 });
    store.damaged = true;
  });
});

test('the invariants name each damage of an attribution [B2] [B3]', async () => {
  await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
  for (const id of ['r-1', 'r-2', 'r-3', 'r-4', 'r-5', 'x'.repeat(3_000), 'é'.repeat(20)]) await set(id);
  expect(await damagesOf(store.pool)).toEqual([]);
  await store.pool.query(`
    update promo_store.attributions set round_id = 'r-7' where round_id = 'r-1';
    update promo_store.attributions set feed_no = 77 where round_id = 'r-2';
    update promo_store.attributions set brand_no = (select brand_no from promo_store.brands b join promo_store.operators using (operator_no)
      where operator_id = 'bravo') where round_id = 'r-3';
    update promo_store.attributions set player_ref = 'white space' where round_id = 'r-4';
    update promo_store.attributions set round_key = 'other' where round_id like 'xxx%'`);
  expect(
    (await damagesOf(store.pool)).map(([invariant, what, feed, , round]) => [
      invariant,
      what,
      feed,
      round?.slice(0, 4),
    ]),
  ).toEqual([
    ['I6', 'the brand of the attribution is not one of its operator', 'acme', 'r-3'],
    ['I6', 'promo_player_ref has white space: remove it', 'acme', 'r-4'],
    ['I6', 'key and round_id of the attribution disagree', 'acme', 'r-7'],
    ['I6', 'the attribution has another round_id than its round', 'acme', 'r-7'],
    ['I6', 'key and round_id of the attribution disagree', 'acme', 'xxxx'],
    ['I6', 'the attribution is of the feed number 77, and there is no such feed', null, 'r-2'],
  ]);
  store.damaged = true;
});
