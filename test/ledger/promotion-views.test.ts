/** The views and functions of promotions: equal to the code that folds, and sentences for people. */
import { makeRandom } from '../../dev/random';
import { PromotionFold } from '../../src/promotions/fold';
import { MISS_REASONS, matchEntry } from '../../src/promotions/matching';
import { STORED_REASONS } from '../../src/promotions/preview';
import { ranking } from '../../src/promotions/ranking';
import { creditRound } from '../support/attributions';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  freshStore,
  type TestPartition,
  type TestStore,
  withClient,
} from '../support/ledger';
import { ledgerEntries } from '../support/ledger-entries';
import { eventBytes, FLOWS, feedOf, VERSIONS } from '../support/promotion-feeds';
import { applyDefinitions, foldPromotions } from '../support/promotion-progress';
import { definitionsOf, versionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';

let store: TestStore;
let acme: TestPartition;
beforeEach(async () => {
  store = await freshStore();
  acme = store.partition('acme');
});
afterEach(() => store.close());

const apply = (...flows: readonly string[]) => applyDefinitions(store.pool, definitionsOf(...flows));

const ALL = `'-infinity', 'infinity'`;

test.each([1, 2, 3, 4, 5, 6])(
  'entries, misses and progress are those of the code that folds: seed %i [P1] [P2] [P3] [P5] [P6] [P7] [P13] [P18]',
  async (seed) => {
    const random = makeRandom(seed);
    const { events, credits } = feedOf(random);
    await apply(...Object.values(FLOWS));
    await acme.read(...random.shuffled(events).map(eventBytes));
    for (const credit of credits) await creditRound(store, credit);
    const rows = await ledgerEntries(store, -1);
    const reversed = new Set(rows.map(({ reversesEntryId }) => reversesEntryId));
    const folded = new PromotionFold(VERSIONS);
    for (const row of rows) folded.take(row);
    let changeNo = Math.max(...rows.map((row) => row.changeNo));
    for (const credit of credits) folded.creditRound(credit, ++changeNo, 0n);
    folded.endSlice(0n);
    await foldPromotions(store.pool);

    const seen = new Map<string, number>();
    for (const { promotion } of VERSIONS) {
      const { id } = promotion.definition;
      const misses = rows.flatMap((row) => {
        const match = row.reversesEntryId === null ? matchEntry(promotion, row) : undefined;
        if (match === undefined) return [];
        const reason =
          'miss' in match ? match.miss : reversed.has(row.entryId) ? 'round_refunded' : undefined;
        if (reason !== undefined) seen.set(reason, (seen.get(reason) ?? 0) + 1);
        return reason === undefined ? [] : [[String(row.entryId / 2), reason]];
      });
      expect(
        await store.rows(
          `select verdict_id, reason from promo.promotion_misses('acme', $1, ${ALL}) order by 1`,
          [id],
        ),
      ).toEqual(misses.sort(([a], [b]) => Number(a) - Number(b)));

      const values = [...folded.progress()]
        .filter((each) => each.promotion === promotion)
        .flatMap((each) =>
          each
            .rows()
            .filter(({ value }) => value !== 0n)
            .map(({ item, currency, value }) =>
              [each.window.key, each.playerRef, item, currency, String(value)].join('|'),
            ),
        )
        .sort();
      const entries = await store.rows(
        `select concat_ws('|', e.window_key, e.credited_player, e.item, coalesce(e.currency, ''), sum(e.adds * case when e.currency is null then 1 else 100 end)::bigint)
         from promo.promotion_entries_with_players('acme', $1, '-infinity') e group by e.window_key, e.credited_player, e.item, e.currency having sum(e.adds) <> 0`,
        [id],
      );
      expect(entries.map(([line]) => line).sort()).toEqual(values);
      if (promotion.goal.rule === 'days_in_a_row') continue;
      const progress = await store.rows(
        `select concat_ws('|', window_key, player_ref, item, coalesce(currency, ''), value_minor) from promo.promotion_progress
         where operator_id = 'acme' and promotion_id = $1`,
        [id],
      );
      expect(progress.map(([line]) => line).sort()).toEqual(values);
    }
    expect(seen.size).toBeGreaterThan(3);
  },
);

test('promo.miss_reasons has the reasons of the code, in its order [P18]', async () => {
  const rows = await store.rows('select reason, meaning from promo.miss_reasons order by precedence');
  expect(rows).toEqual(Object.entries(STORED_REASONS));
  expect(rows.length).toBe(Object.keys(MISS_REASONS).length + 2);
});

test('promo.leaderboard has the order of the code, and names ties [P10]', async () => {
  const race =
    'id: race, type: leaderboard, keep_ranks: 4, points: [{ counts: bet, per: { EUR: "1.00" }, points: 2 }]';
  await apply(race);
  for (const [player, amount] of [
    ['b', '3'],
    ['a', '3'],
    ['c', '9'],
    ['d', '0.99'],
    ['e', '1'],
    ['f', '1'],
  ] as const)
    await acme.read(aBet({ player_ref: player, round_id: player, event_id: player, amount }));
  await foldPromotions(store.pool);
  const [version] = versionsOf(definitionsOf(race));
  if (version === undefined) throw new Error('no version');
  const folded = new PromotionFold([version]);
  for (const row of await ledgerEntries(store, -1)) folded.take(row);
  folded.endSlice(0n);
  const expected = ranking(version.promotion, folded.progress());
  const rows = await store.rows(
    `select rank, player_ref, points, is_tied, is_final from promo.leaderboard_with_players('acme', 'race')`,
  );
  expect(rows.map(([rank, player]) => [rank, player])).toEqual(
    expected.map(({ playerRef }, index) => [String(index + 1), playerRef]),
  );
  expect(rows).toEqual([
    ['1', 'c', '18', 'f', 'f'],
    ['2', 'b', '6', 't', 'f'],
    ['3', 'a', '6', 't', 'f'],
    // The player behind the last kept rank has the same points.
    ['4', 'e', '2', 't', 'f'],
  ]);
});

test('promo.promotion_progress shows target and share, and the longest run of a streak [P7] [P8]', async () => {
  const flows = [
    'id: dep, type: deposit_target, target: { EUR: "10.00", USD: "8.00" }',
    'id: days, type: login_streak, days: 3, time_zone: UTC',
  ];
  await apply(...flows);
  await acme.read(
    aDeposit({ event_id: 'd1', amount: '2.50', currency: 'EUR' }),
    aDeposit({ event_id: 'd2', amount: '12', currency: 'USD' }),
    ...['01', '02', '04'].map((day) => aLogin({ event_id: day, occurred_at: `2026-10-${day}T10:00:00Z` })),
  );
  await foldPromotions(store.pool);
  expect(
    await store.rows(
      `select promotion_id, item, currency, value, target, share, completions from promo.promotion_progress order by 1, 3, 4`,
    ),
  ).toEqual([
    ['days', '2026-10-01', null, '2', '3', '0.6667', '0'],
    ['dep', '', 'EUR', '2.50', '10.00', '0.25', '1'],
    ['dep', '', 'USD', '12.00', '8.00', '1.5', '1'],
  ]);
  // Postgres pairs rows with windows of other promotions here, whose items are no days.
  expect(
    await store.rows(
      `select count(distinct player_ref) from promo.promotion_progress where operator_id = 'acme'`,
    ),
  ).toEqual([['1']]);
});

test('promo.why_not and promo.explain_progress say why an event counts or not [P18]', async () => {
  await apply(
    'id: bets, type: bet_count, target: 2, games: [g1]',
    'id: dep, type: deposit_target, target: { EUR: "5.00" }',
  );
  await acme.read(
    aBet({ event_id: 'b1', round_id: 'r1', game: { id: 'g1' } }),
    aBet({ event_id: 'b2', round_id: 'r2', game: { id: 'g1' } }),
    aBet({ event_id: 'b3', round_id: 'r3', game: { id: 'g2' } }),
    aBet({ event_id: 'bad', round_id: 'r4', amount: 'much' }),
  );
  await acme.read(aRefund({ event_id: 'x', round_id: 'r2' }));
  await foldPromotions(store.pool);
  const why = (event: string) =>
    store.rows(`select promotion_id, counts_now, reason from promo.why_not('acme', $1)`, [event]);
  expect(await why('b1')).toEqual([
    ['bets', 't', null],
    ['dep', 'f', 'other_kind'],
  ]);
  expect((await why('b2'))[0]).toEqual(['bets', 'f', 'round_refunded']);
  expect((await why('b3'))[0]).toEqual(['bets', 'f', 'game_not_listed']);
  expect((await why('bad'))[0]).toEqual(['bets', 'f', 'no_entry']);
  expect((await why('never'))[0]).toEqual(['bets', 'f', 'no_entry']);
  expect(await store.value(`select why from promo.why_not('acme', 'bad') where promotion_id = 'bets'`)).toBe(
    'The event was rejected as bad_amount: promo.explain(feed, event) has the remedy.',
  );

  const story = await store.rows(
    `select what_happened, why from promo.explain_progress_with_player('acme', 'bets', 'p-1') order by step`,
  );
  expect(story).toEqual([
    ["b1: a bet of 10.50 EUR in round 'r1' on game 'g1'.", 'It counts in the window once: 1.'],
    [
      "b2: a bet of 10.50 EUR in round 'r2' on game 'g1'.",
      'It does not count: the event counted, and its round was refunded later.',
    ],
    [
      "b3: a bet of 10.50 EUR in round 'r3' on game 'g2'.",
      'It does not count: the promotion lists games, and not the game of the event.',
    ],
    ['Window once: 1 of 2.', 'It is not completed.'],
  ]);
  const text = async (call: string) => (await store.rows(`select what_happened from ${call}`)).flat();
  expect(await text(`promo.explain_progress_with_player('acme', 'bet', 'p-1')`)).toEqual([
    "The operator 'acme' has no promotion 'bet'.",
  ]);
  const nothing = ['The player has no event that the promotion could count.'];
  expect(await text(`promo.explain_progress_with_player('acme', 'bets', null)`)).toEqual(nothing);
  expect(await text(`promo.explain_progress('acme', 'bets', 'no-pseudonym')`)).toEqual([
    "The operator 'acme' has no player with the pseudonym 'no-pseudonym'.",
  ]);
});

describe('a name that there is not', () => {
  const OF_PROMOTIONS = [
    `promo.leaderboard('OPERATOR', 'PROMOTION')`,
    `promo.leaderboard_with_players('OPERATOR', 'PROMOTION')`,
    `promo.promotion_entries('OPERATOR', 'PROMOTION', '-infinity')`,
    `promo.promotion_entries_with_players('OPERATOR', 'PROMOTION', '-infinity')`,
    `promo.promotion_misses('OPERATOR', 'PROMOTION', '-infinity')`,
  ];
  const refusal = (query: string) =>
    store.pool.query(query).then(
      () => null,
      (error: unknown) => ['code', 'message', 'hint'].map((name) => Reflect.get(Object(error), name)),
    );
  const race = 'id: race, type: leaderboard, points: [{ counts: bet, per: { EUR: "1.00" }, points: 2 }]';
  const bets = 'id: bets, type: bet_count, target: 2';
  const INVALID = '22023';

  test.each(OF_PROMOTIONS)(
    'is refused by %s, with the nearest names; a known one may have no row [P18]',
    async (call) => {
      const of = (operator: string, promotion: string) =>
        `select * from ${call.replace('OPERATOR', operator).replace('PROMOTION', promotion)}`;
      expect(await refusal(of('acme', 'bets'))).toEqual([
        ...[INVALID, "the operator 'acme' has no promotion 'bets'", 'Apply a file of promotions first.'],
      ]);
      await apply(race, bets);
      expect(await refusal(of('acme', 'rase'))).toEqual([
        ...[INVALID, "the operator 'acme' has no promotion 'rase'", "Use one of: 'race', 'bets'."],
      ]);
      expect(await refusal(of('bravo', 'race'))).toEqual([
        ...[INVALID, "the operator 'bravo' has no promotion 'race'", 'Apply a file of promotions first.'],
      ]);
      expect(await refusal(of('acne', 'race'))).toEqual([
        ...[INVALID, "there is no operator 'acne'", expect.stringMatching(/^Use one of: 'acme', .*'bravo'/)],
      ]);
      for (const known of ['race', 'bets']) expect(await store.rows(of('acme', known))).toEqual([]);
    },
  );

  test('is refused by functions that take a feed, and by those that change something [P18]', async () => {
    await apply(bets);
    const nearest = expect.stringMatching(/^Use one of: 'acme', /);
    expect(await refusal(`select * from promo.why_not('acne', 'b1')`)).toEqual([
      ...[INVALID, "there is no feed 'acne'", nearest],
    ]);
    for (const [call, prefix] of [
      [`erase_player('acne', 'p')`, ''],
      [`attribute_round('acne', 'r', 'p')`, 'InvalidArgument: '],
      [`correct_attribution('acne', 'r', 'p', 'q', 'a test')`, 'InvalidArgument: '],
    ])
      expect(await refusal(`select promo.${call}`)).toEqual([
        ...[INVALID, `${prefix}there is no operator 'acne'`, nearest],
      ]);
  });

  test('is refused by functions that look up an event or the entries of a player [P18]', async () => {
    await acme.read(aBet({ event_id: 'b1' }));
    const nearest = expect.stringMatching(/^Use one of: 'acme', /);
    for (const call of [`verdict_id_of('acne', 'b1')`, `verdict_of('acne', 'b1')`])
      expect(await refusal(`select * from promo.${call}`)).toEqual([
        ...[INVALID, "there is no feed 'acne'", nearest],
      ]);
    expect(await refusal(`select * from promo.credited_entries('acne', 'p')`)).toEqual([
      ...[INVALID, "there is no operator 'acne'", nearest],
    ]);
    expect(await store.value(`select promo.verdict_id_of('acme', 'b1') is not null`)).toBe('t');
    for (const call of [`verdict_id_of('acme', 'never')`, `verdict_id_of(null, 'b1')`])
      expect(await store.rows(`select promo.${call}`)).toEqual([[null]]);
    expect(await store.rows(`select * from promo.verdict_of('acme', 'never')`)).toEqual([]);
    expect(await store.rows(`select * from promo.credited_entries('acme', 'nobody')`)).toEqual([]);
  });

  test('is refused as a window of a leaderboard, and a day that may come has no row [P18]', async () => {
    await apply(`${race}, time_zone: UTC, window: { every: day }`);
    const of = (window: string) =>
      `select player_id, points from promo.leaderboard('acme', 'race', '${window}')`;
    for (const early of ['2026-13-01', '2026-01-01']) expect(await store.rows(of(early))).toEqual([]);
    await acme.read(
      ...[1, 2].map((day) =>
        aBet({ occurred_at: `2026-01-0${day}T12:00:00Z`, amount: '3.00', currency: 'EUR' }),
      ),
    );
    await foldPromotions(store.pool);
    expect((await store.rows(of('2026-01-02'))).length).toBe(1);
    for (const wrong of ['once', '2026-1-2', '2025-12-31'])
      expect(await refusal(of(wrong))).toEqual([
        INVALID,
        `no event counts in a window '${wrong}' of the promotion 'race'`,
        "Use one of: '2026-01-02', '2026-01-01'. Without a window, the newest one is shown.",
      ]);
    expect(await store.rows(of('2026-01-03'))).toEqual([]);
  });

  test('lists ten of many promotions, the nearest first [P18]', async () => {
    await apply(...Array.from({ length: 12 }, (_, n) => `id: p-${n + 10}, type: bet_count, target: 2`));
    const [, , hint] = (await refusal(`select * from promo.leaderboard('acme', 'p-2l')`)) ?? [];
    expect(hint).toMatch(
      /^Use one of: 'p-20', 'p-21', 'p-10', .*, 'p-17', and others of promo.promotions\.$/,
    );
  });

  test('lists no names to a role that may not read those of all operators [P18]', async () => {
    await apply(bets);
    const role = await makeRole(store.url, 'one_operator');
    await store.pool.query(
      `grant usage on schema promo to ${role.name}; grant execute on function promo.leaderboard(text, text, text, int) to ${role.name}`,
    );
    const hintAs = async (url: string, begin: string, operator: string) =>
      withClient(url, async (client) => {
        await client.query(begin);
        return client.query(`select * from promo.leaderboard('${operator}', 'bet')`).then(
          () => null,
          (error: unknown) => Reflect.get(Object(error), 'hint'),
        );
      });
    try {
      for (const [url, begin] of [
        [role.url, 'select 1'],
        [store.url, `set role ${role.name}`],
      ] as const) {
        expect(await hintAs(url, begin, 'acme')).toBe('promo.promotions has the names.');
        expect(await hintAs(url, begin, 'acne')).toBe('promo.connections has the names.');
      }
      expect(await hintAs(store.url, 'select 1', 'acme')).toBe("Use one of: 'bets'.");
    } finally {
      await dropRoles(store.url, [role.name]);
    }
  });
});

test('the story of a streak names its days, and windows come in their order [P18]', async () => {
  await apply(
    'id: streak, type: login_streak, days: 2, time_zone: UTC',
    'id: weekly, type: bet_count, target: 5, window: { every: week, starts: monday }, time_zone: UTC',
  );
  const login = (event_id: string, occurred_at: string) => aLogin({ event_id, occurred_at });
  const bet = (event_id: string, occurred_at: string) => aBet({ event_id, round_id: event_id, occurred_at });
  await acme.read(
    login('l1', '2026-01-05T12:00:00Z'),
    login('l2', '2026-01-06T12:00:00Z'),
    bet('later', '2026-01-14T12:00:00Z'),
    bet('earlier', '2026-01-07T12:00:00Z'),
  );
  await foldPromotions(store.pool);
  const storyOf = (promotion: string) =>
    store.rows(
      `select what_happened, why from promo.explain_progress_with_player('acme', $1, 'p-1') order by step`,
      [promotion],
    );
  expect((await storyOf('streak')).flat()).toEqual([
    'l1: a login.',
    'It counts in the window once: the day 2026-01-05.',
    'l2: a login.',
    'It counts in the window once: the day 2026-01-06.',
    expect.stringContaining('Completion 1 of the window once: completed.'),
    'The values reached the target.',
    'Window once: 2 days in a row from 2026-01-05, of 2.',
    'It is completed.',
  ]);
  expect((await storyOf('weekly')).map(([what]) => what).slice(-2)).toEqual([
    'Window 2026-01-05: 1 of 5.',
    'Window 2026-01-12: 1 of 5.',
  ]);
});

test('the story of a player names ranks, and the reward that a refund takes back [P11] [P15] [P18]', async () => {
  const [from, to] = ['from: 2026-01-01T00:00Z', 'to: 2026-02-01T00:00Z'];
  await apply(
    'id: bets, type: bet_count, target: 2',
    `id: race, type: leaderboard, ${from}, ${to}, points: [{ counts: bet, per: { EUR: "1.00" }, points: 2 }]`,
  );
  const inJanuary = { occurred_at: '2026-01-15T12:00:00Z', amount: '3.00', currency: 'EUR' };
  await acme.read(
    aBet({ event_id: 'b1', round_id: 'r1', ...inJanuary }),
    aBet({ event_id: 'b2', round_id: 'r2', ...inJanuary }),
  );
  const storyOf = async (promotion: string) => {
    await foldPromotions(store.pool);
    const story = await store.rows(
      `select what_happened, why, regexp_replace(what_next, '[0-9a-f]{32}', 'ID') from promo.explain_progress_with_player('acme', $1, 'p-1') order by step`,
      [promotion],
    );
    return story.map((step) => step.join(' '));
  };
  expect(await storyOf('race')).toEqual([
    "b1: a bet of 3.00 EUR in round 'r1'. It counts in the window once: line 1 of the points: 3.00 EUR. Nothing to do.",
    "b2: a bet of 3.00 EUR in round 'r2'. It counts in the window once: line 1 of the points: 3.00 EUR. Nothing to do.",
    'Rank 1 of the window once: completed. The leaderboard is closed. Credit its reward once: ID.',
    'Window once: line 1 of the points: 6.00 EUR. 12 points. Nothing to do.',
  ]);
  expect(await storyOf('bets')).toContain('Window once: 2 of 2. It is completed. Nothing to do.');
  await acme.read(aRefund({ event_id: 'x1', round_id: 'r1' }), aRefund({ event_id: 'x2', round_id: 'r2' }));
  expect(await storyOf('race')).toContain(
    'Rank 1 of the window once: revoked. A refund, a late event or a correction changed the ranks. Take its reward back: ID.',
  );
  expect(await storyOf('bets')).toContain(
    'Completion 1 of the window once: revoked. A refund, an attribution or a correction took values back. Take its reward back: ID.',
  );
});

test('support reads that an event counts for another player, and until when a reward may wait [P14] [P18]', async () => {
  await apply('id: bets, type: bet_count, target: 1, confirm_after: PT12H');
  await acme.read(aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'session' }));
  const nextOf = async (player: string) => {
    await foldPromotions(store.pool);
    return (
      await store.rows(
        `select regexp_replace(regexp_replace(what_next, '[0-9a-f]{32}', 'ID'), '\\d{4}-[^.]*Z', 'TIME')
         from promo.explain_progress_with_player('acme', 'bets', $1) where what_happened like 'Completion%' order by step`,
        [player],
      )
    ).flat();
  };
  const why = `select why from promo.why_not('acme', 'b1')`;
  const credit = 'Credit its reward once: ID. Or wait until it is confirmed: at TIME.';
  expect(await nextOf('session')).toEqual([credit]);
  expect(await store.value(why)).toBe('It counts.');

  await store.value(`select promo.attribute_round('acme', 'r1', 'normal')`);
  expect(await nextOf('normal')).toEqual([credit]);
  expect(await nextOf('session')).toEqual(['Nothing to do.', 'Take its reward back: ID.']);
  expect(await store.value(why)).toBe('It counts for another player: its round is attributed.');
  expect(
    await store.rows(
      `select why from promo.explain_progress_with_player('acme', 'bets', 'session') where what_happened like '%revoked.'`,
    ),
  ).toEqual([['A refund, an attribution or a correction took values back.']]);

  await store.rows(`update promo_store.promotion_attempts set confirms_at = now() - interval '1 hour'`);
  expect((await nextOf('normal')).sort()).toEqual([
    'Credit its reward once, if you waited for this: ID.',
    'Credit its reward once: ID.',
  ]);
});

test('a removed promotion counts no event that is decided later, and no refund takes one back [P17]', async () => {
  await apply('id: bets, type: bet_count, target: 2');
  await acme.read(aBet({ event_id: 'b1', round_id: 'r1' }));
  await apply();
  await acme.read(aBet({ event_id: 'b2', round_id: 'r2' }), aRefund({ event_id: 'x', round_id: 'r1' }));
  expect(await store.rows(`select state from promo.promotions`)).toEqual([['was removed']]);
  const entries = `select event_id from promo.promotion_entries('acme', 'bets', '-infinity')`;
  expect(await store.rows(entries)).toEqual([['b1']]);
  expect(
    await store.rows(`select event_id, reason from promo.promotion_misses('acme', 'bets', '-infinity')`),
  ).toEqual([['b2', 'removed']]);
});
