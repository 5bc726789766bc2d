/** What each type of promotion counts, and when it completes. */
import { completionIdOf } from '../../../src/promotions/completion';
import { PromotionFold } from '../../../src/promotions/fold';
import { MISS_REASONS, matchEntry } from '../../../src/promotions/matching';
import { ranking } from '../../../src/promotions/ranking';
import { compilePromotion } from '../../../src/promotions/terms';
import {
  changesOf,
  definitionsOf,
  type EntryFields,
  foldSlices,
  LedgerRows,
  micros,
  valuesOf,
  versionsOf,
} from '../../support/promotions';

/** One promotion, and the progress of `p` after some entries. */
function after(flow: string, entries: readonly EntryFields[]) {
  const ledger = new LedgerRows();
  for (const each of entries) ledger.entry(each);
  const folded = foldSlices(versionsOf(definitionsOf(flow)), [ledger.rows]);
  const progress = folded.progressOf('p');
  return { ...folded, values: valuesOf(progress), attained: progress?.attained ?? 0 };
}

const DEPOSIT = 'id: x, type: deposit_target, target: { EUR: "5.00", BTC: "0.008" }';
const WAGER =
  'id: x, type: turnover_target, games: [g1, g2], min_amount: { EUR: "0.50" }, target: { EUR: "10.00" }';
const RACE =
  'id: x, type: leaderboard, points: [{ counts: bet, per: { EUR: "1.00" }, points: 2 }], window: { every: day }, time_zone: UTC, accepts_late: PT12H';
const ZONED = 'time_zone: Europe/Warsaw';

/** The reason why an entry counts nothing in a promotion; `counts`, or `other kind`. */
function missOf(flow: string, fields: EntryFields): string {
  const [definition] = definitionsOf(flow);
  if (definition === undefined) throw new Error('no definition');
  const match = matchEntry(compilePromotion(definition), new LedgerRows().entry(fields));
  if (match === undefined) return 'other kind';
  return 'miss' in match ? match.miss : 'counts';
}

describe('the kinds of events', () => {
  const TYPES = {
    login_streak: `id: x, type: login_streak, days: 2, ${ZONED}`,
    deposit_target: DEPOSIT,
    withdrawal_target: 'id: x, type: withdrawal_target, target: { EUR: "5.00" }',
    turnover_target: 'id: x, type: turnover_target, target: { EUR: "5.00" }',
    bet_count: 'id: x, type: bet_count, target: 2',
    round_count: 'id: x, type: round_count, target: 2',
    collect_items: 'id: x, type: collect_items, items: [{ id: a, need: 1 }]',
    leaderboard: RACE,
  };
  const COUNTED = {
    login_streak: 'login',
    deposit_target: 'deposit',
    withdrawal_target: 'withdrawal',
    turnover_target: 'bet',
    bet_count: 'bet',
    round_count: 'settled',
    collect_items: 'settled',
    leaderboard: 'bet',
  };
  const KINDS = ['bet', 'win', 'settled', 'deposit', 'withdrawal', 'login'] as const;

  test.each(Object.entries(TYPES))(
    '%s counts one kind, and account kinds in account promotions alone [P1]',
    (type, flow) => {
      const counted = KINDS.filter((kind) => missOf(flow, { kind }) === 'counts');
      expect(counted).toEqual([Object.entries(COUNTED).find(([name]) => name === type)?.[1]]);
    },
  );

  test('turnover may count the stakes of settled rounds instead [P1]', () => {
    const flow = 'id: x, type: turnover_target, counts: settled, target: { EUR: "5.00" }';
    expect([missOf(flow, { kind: 'bet' }), missOf(flow, { kind: 'settled' })]).toEqual([
      'other kind',
      'counts',
    ]);
  });

  test('events of another operator concern no promotion, and brands are those that it lists [P1]', () => {
    expect(missOf(DEPOSIT, { kind: 'deposit', operator: 'zeus' })).toBe('other kind');
    expect(missOf(`${DEPOSIT}, brands: [main]`, { kind: 'deposit', brand: 'main' })).toBe('counts');
    expect(missOf(`${DEPOSIT}, brands: [main]`, { kind: 'deposit', brand: 'other' })).toBe('other_brand');
  });
});

describe('games and minimum amounts', () => {
  test.each([
    ['g1', 'counts'],
    ['g3', 'game_not_listed'],
    [null, 'no_game'],
  ] as const)('with a list, an event of the game %s: %s [P5]', (game, miss) => {
    expect(missOf(WAGER, { game })).toBe(miss);
  });

  test('without a list, an event without a game counts [P5]', () => {
    expect(missOf('id: x, type: bet_count, target: 2', { game: null })).toBe('counts');
  });

  test.each([
    [49n, 'EUR', 'below_minimum'],
    [50n, 'EUR', 'counts'],
    [1n, 'USD', 'currency_without_target'],
  ] as const)('%s minor units of %s: %s [P6]', (amount, currency, miss) => {
    expect(missOf(WAGER, { amount, currency })).toBe(miss);
  });

  test('a currency that is not listed has no minimum [P6]', () => {
    expect(
      missOf('id: x, type: bet_count, target: 2, min_amount: { EUR: "5.00" }', {
        amount: 1n,
        currency: 'USD',
      }),
    ).toBe('counts');
  });

  test('account events of zero and of any size count [P6]', () => {
    expect(missOf(DEPOSIT, { kind: 'deposit', amount: 0n, game: null })).toBe('counts');
  });
});

describe('time', () => {
  const DAY = `${DEPOSIT}, window: { every: day }, time_zone: UTC`;

  test.each([
    ['2026-12-01T23:00:00Z', '2026-12-02T09:00:00Z', '2026-12-01'],
    ['2026-12-05T09:00:00Z', '2026-12-01T09:00:00Z', '2026-12-01'],
  ])('an event of %s, decided at %s, counts for %s: the earlier time [P2]', (at, decidedAt, key) => {
    const { progressOf } = after(DAY, [{ kind: 'deposit', at, decidedAt }]);
    expect(progressOf('p')?.window.key).toBe(key);
  });

  test.each([
    ['2026-12-03T11:59:59Z', 'counts'],
    ['2026-12-03T12:00:00Z', 'late'],
  ])('decided at %s, 36 hours after the window: %s [P13]', (decidedAt, miss) => {
    const flow = `${DAY}, accepts_late: P1DT12H`;
    expect(missOf(flow, { kind: 'deposit', at: '2026-12-01T10:00:00Z', decidedAt })).toBe(miss);
  });

  test('without accepts_late an event counts however late it comes [P13]', () => {
    expect(
      missOf(DAY, { kind: 'deposit', at: '2026-12-01T10:00:00Z', decidedAt: '2036-12-01T10:00:00Z' }),
    ).toBe('counts');
  });

  test('the reason of the first check is given, in the order of the list [P18]', () => {
    const flow = `${WAGER}, brands: [main], to: 2026-12-02T00:00Z, accepts_late: PT0S`;
    const all = {
      brand: 'x',
      at: '2026-12-03T00:00:00Z',
      decidedAt: '2026-12-04T00:00:00Z',
      game: null,
      amount: 1n,
    };
    const inTime = { at: '2026-12-01T00:00:00Z', decidedAt: '2026-12-01T00:00:00Z' };
    expect([
      missOf(flow, all),
      missOf(flow, { ...all, brand: 'main' }),
      missOf(flow, { ...all, brand: 'main', at: '2026-12-01T00:00:00Z' }),
      missOf(flow, { ...all, brand: 'main', ...inTime }),
      missOf(flow, { brand: 'main', ...inTime, game: 'g9', amount: 1n }),
      missOf(flow, { brand: 'main', ...inTime, amount: 1n }),
      missOf(flow, { brand: 'main', ...inTime, currency: 'USD' }),
    ]).toEqual(Object.keys(MISS_REASONS));
  });
});

describe('login_streak', () => {
  const login = (day: number): EntryFields => ({
    kind: 'login',
    at: `2026-12-${String(day).padStart(2, '0')}T12:00:00Z`,
  });
  const STREAK = `id: x, type: login_streak, days: 3, completes: each, ${ZONED}`;

  test.each([
    [[1, 2, 3], 1],
    [[1, 2, 4], 0],
    [[1, 1, 1, 2, 2], 0],
    [[1, 2, 3, 4, 5], 1],
    [[1, 2, 3, 4, 5, 6], 2],
    [[1, 2, 3, 5, 6, 7], 2],
    [[7, 5, 6, 1, 3, 2], 2],
  ])('logins on the days %j complete it %i times [P8]', (days, attained) => {
    expect(after(STREAK, days.map(login)).attained).toBe(attained);
  });

  test('a late login joins two runs [P8]', () => {
    const { entries } = after(STREAK, [1, 3].map(login));
    expect(entries).toEqual([]);
    const joined = after(STREAK, [login(1), login(3), { ...login(2), decidedAt: '2026-12-09T12:00:00Z' }]);
    expect(changesOf(joined.entries)).toEqual(['completed 1#1 p']);
    expect(joined.entries[0]?.at).toBe(micros('2026-12-09T12:00:00Z'));
  });

  test('days are those of the zone, not of UTC [P3] [P8]', () => {
    const late = { kind: 'login', at: '2026-12-01T23:30:00Z' } as const;
    expect(after(STREAK, [late]).values).toBe('2026-12-02 1');
    expect(after(STREAK, [login(1), late, login(3)]).attained).toBe(1);
  });

  test('it completes once without completes: each [P12]', () => {
    const once = `id: x, type: login_streak, days: 1, ${ZONED}`;
    expect(after(once, [1, 2, 3].map(login)).attained).toBe(1);
  });
});

describe('targets', () => {
  test('each currency counts by itself, and its sum is exact [P7]', () => {
    const deposit = (amount: bigint, currency: string): EntryFields => ({
      kind: 'deposit',
      amount,
      currency,
    });
    const near = after(DEPOSIT, [deposit(499n, 'EUR'), deposit(799_999n, 'BTC'), deposit(10_000n, 'USD')]);
    expect([near.values, near.attained]).toEqual(['BTC 799999, EUR 499', 0]);
    expect(after(DEPOSIT, [deposit(499n, 'EUR'), deposit(800_000n, 'BTC')]).attained).toBe(1);
    expect(after(DEPOSIT, [deposit(1n, 'EUR'), deposit(499n, 'EUR')]).attained).toBe(1);
  });

  test('sums exceed 64 bits, of currencies with 18 decimals [P7]', () => {
    const most = 2n ** 63n - 1n;
    const flow = 'id: x, type: deposit_target, target: { ETH: "9" }, completes: each';
    const many = after(
      flow,
      Array.from({ length: 4 }, () => ({ kind: 'deposit', amount: most, currency: 'ETH' })),
    );
    expect([many.values, many.attained]).toEqual([`ETH ${4n * most}`, 4]);
  });

  test('with completes: each, every full target of the sum completes, of all currencies together [P7] [P12]', () => {
    const each = `${DEPOSIT}, completes: each`;
    const deposits = [700n, 700n].map((amount): EntryFields => ({ kind: 'deposit', amount }));
    expect(after(each, deposits).attained).toBe(2);
    expect(after(each, [...deposits, { kind: 'deposit', amount: 800_000n, currency: 'BTC' }]).attained).toBe(
      3,
    );
  });

  test('counts of bets and rounds complete at their number [P7]', () => {
    expect(after('id: x, type: bet_count, target: 3, completes: each', Array(7).fill({})).attained).toBe(2);
    expect(
      after('id: x, type: round_count, target: 2', [{ kind: 'settled' }, { kind: 'settled' }]).attained,
    ).toBe(1);
  });

  test('a player completes 1,000 times in a window at most [P12]', () => {
    const { entries } = after('id: x, type: deposit_target, target: { EUR: "0.01" }, completes: each', [
      { kind: 'deposit', amount: 10n ** 15n },
    ]);
    expect(entries).toHaveLength(1_000);
  });
});

describe('collect_items', () => {
  const GEMS =
    'id: x, type: collect_items, completes: each, items: [{ id: ruby, games: [g1], need: 2 }, { id: pearl, games: [g2, g3], need: 5, per: { EUR: "1.00" } }]';
  const settled = (game: string, amount = 100n): EntryFields => ({ kind: 'settled', game, amount });

  test('completes where every item is there [P9]', () => {
    const rubies = [settled('g1'), settled('g1')];
    expect(after(GEMS, rubies).attained).toBe(0);
    expect(after(GEMS, [...rubies, settled('g2', 250n), settled('g3', 249n)]).attained).toBe(0);
    const all = after(GEMS, [...rubies, settled('g2', 250n), settled('g3', 250n)]);
    expect([all.values, all.attained]).toEqual(['pearl EUR 500, ruby 2', 1]);
  });

  test('collects on settled alone, so a feed of bets collects nothing [P9]', () => {
    expect(after(GEMS, [{ game: 'g1' }, { game: 'g2', amount: 900n }]).values).toBe('');
  });

  test('an event of a game counts for each item that lists it [P9]', () => {
    const both = 'id: x, type: collect_items, items: [{ id: a, games: [g1], need: 1 }, { id: b, need: 1 }]';
    expect(after(both, [settled('g1')]).values).toBe('a 1, b 1');
    expect(missOf(GEMS, settled('g9'))).toBe('game_not_listed');
  });

  const RUBY = '{ id: ruby, games: [g1], need: 2 }';
  const PEARL = '{ id: pearl, games: [g2], need: 2, per: { EUR: "0.70" } }';
  test.each([
    [RUBY, PEARL],
    [PEARL, RUBY],
  ])(
    'of several items, the one that the event came nearest gives the reason: %s, %s [P9] [P18]',
    (...items) => {
      const flow = `id: x, type: collect_items, items: [${items.join(', ')}]`;
      expect(missOf(flow, { kind: 'settled', game: 'g2', currency: 'USD' })).toBe('currency_without_target');
      expect(missOf(flow, { kind: 'settled', game: 'g1', currency: 'USD' })).toBe('counts');
    },
  );
});

describe('leaderboard', () => {
  const scores = (ledger: LedgerRows) => {
    const versions = versionsOf(definitionsOf(RACE));
    const { fold } = foldSlices(versions, [ledger.rows]);
    const [version] = versions;
    if (version === undefined) throw new Error('no version');
    return ranking(version.promotion, fold.progress()).map(
      ({ playerRef, score }, index) => `${index + 1} ${playerRef} ${score}`,
    );
  };

  test('points are of the sum of all events, not of each: a refund takes them back exactly [P10] [P11]', () => {
    const ledger = new LedgerRows();
    for (let i = 0; i < 3; i++) ledger.entry({ amount: 50n, round: `r${i}` });
    expect(scores(ledger)).toEqual(['1 p 2']);
    ledger.refund('r0');
    expect(scores(ledger)).toEqual(['1 p 2']);
    ledger.refund('r1');
    expect(scores(ledger)).toEqual([]);
  });

  test('more points are before fewer, however late they come [P10]', () => {
    const ledger = new LedgerRows();
    for (const [player, amount] of [
      ['a', 200n],
      ['b', 100n],
      ['c', 300n],
    ] as const)
      ledger.entry({ player, amount });
    expect(scores(ledger)).toEqual(['1 c 6', '2 a 4', '3 b 2']);
  });

  test('of equal points, the player who had them first is before the other [P10]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ player: 'late', amount: 100n });
    ledger.entry({ player: 'early', amount: 200n });
    ledger.entry({ player: 'late', amount: 100n });
    // Half a point more changes no points, so it costs no rank.
    ledger.entry({ player: 'early', amount: 50n });
    expect(scores(ledger)).toEqual(['1 early 4', '2 late 4']);
  });

  test('of equal points by one verdict, the order of player_ref decides [P10]', () => {
    const ledger = new LedgerRows();
    const first = ledger.entry({ player: 'b' });
    ledger.rows.push(
      { ...first, entryId: 1_000, playerRef: 'a' },
      { ...first, entryId: 1_002, playerRef: '\u{1F600}' },
    );
    ledger.rows.push({ ...first, entryId: 1_004, playerRef: '\uFFFD' });
    expect(scores(ledger)).toEqual(['1 a 2', '2 b 2', '3 \uFFFD 2', '4 \u{1F600} 2']);
  });

  test('completes with the rank once the window and accepts_late are over [P15]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ player: 'a', amount: 300n });
    ledger.entry({ player: 'b', amount: 200n, round: 'rb' });
    const close = micros('2026-12-02T12:00:00Z');
    const early = foldSlices(versionsOf(definitionsOf(RACE)), [ledger.rows], () => close - 1n);
    expect(early.entries).toEqual([]);
    const { entries, fold } = foldSlices(versionsOf(definitionsOf(RACE)), [ledger.rows], () => close);
    expect(changesOf(entries)).toEqual(['completed 1#1 a', 'completed 2#1 b']);
    expect(entries[0]?.at).toBe(close);
    expect(fold.endSlice(close + 1n)).toEqual([]);
    const late = ledger.entry({
      player: 'b',
      amount: 900n,
      at: '2026-12-01T13:00:00Z',
      decidedAt: '2026-12-02T13:00:00Z',
    });
    fold.take(late);
    expect(fold.endSlice(close + 2n)).toEqual([]);
  });

  test('a refund after the close turns the ranks over [P11] [P15]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ player: 'a', amount: 300n, round: 'ra' });
    ledger.entry({ player: 'b', amount: 200n });
    const close = micros('2026-12-02T12:00:00Z');
    const slices = [[...ledger.rows], ledger.refund('ra', '2026-12-20T12:00:00Z')];
    const { entries } = foldSlices(versionsOf(definitionsOf(RACE)), slices, () => close);
    expect(changesOf(entries)).toEqual([
      'completed 1#1 a',
      'completed 2#1 b',
      'revoked 1#1 a',
      'revoked 2#1 b',
      'completed 1#1 b',
    ]);
  });

  test('keeps as many ranks as it says [P10] [P15]', () => {
    const ledger = new LedgerRows();
    for (const player of ['a', 'b', 'c']) ledger.entry({ player });
    const { entries } = foldSlices(versionsOf(definitionsOf(`${RACE}, keep_ranks: 2`)), [ledger.rows], () =>
      micros('2027-01-01T00:00:00Z'),
    );
    expect(changesOf(entries)).toEqual(['completed 1#1 a', 'completed 2#1 b']);
  });
});

describe('refunds and completions', () => {
  const BETS = 'id: x, type: bet_count, target: 2, completes: each';

  test('a refund takes its whole round back, after the window too [P11]', () => {
    const ledger = new LedgerRows();
    for (const kind of ['bet', 'bet', 'settled'] as const) ledger.entry({ kind, round: 'r' });
    ledger.entry();
    const flow = `${BETS}, to: 2026-12-02T00:00Z`;
    const slices = [[...ledger.rows], ledger.refund('r', '2027-06-01T00:00:00Z')];
    const { entries, progressOf } = foldSlices(versionsOf(definitionsOf(flow)), slices);
    expect(changesOf(entries)).toEqual(['completed 1#1 p', 'revoked 1#1 p']);
    expect(valuesOf(progressOf('p'))).toBe('1');
    expect(entries[1]).toMatchObject({ changeNo: 5, at: micros('2027-06-01T00:00:00Z') });
  });

  test('rows that come again change nothing, and a second reversal neither [P11] [P16]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ round: 'r' });
    ledger.entry();
    const [reversal] = ledger.refund('r');
    if (reversal === undefined) throw new Error('no reversal');
    const second = { ...reversal, changeNo: 9, entryId: 99 };
    const { progressOf } = foldSlices(versionsOf(definitionsOf(BETS)), [ledger.rows, ledger.rows, [second]]);
    expect(valuesOf(progressOf('p'))).toBe('1');
  });

  test('a completion that no longer holds is revoked by an entry, and completes again as another attempt [P12]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ round: 'r1' });
    ledger.entry({ round: 'r2' });
    const slices = [[...ledger.rows], [...ledger.refund('r1')], [ledger.entry()]];
    const { entries } = foldSlices(versionsOf(definitionsOf(BETS)), slices);
    expect(changesOf(entries)).toEqual(['completed 1#1 p', 'revoked 1#1 p', 'completed 1#2 p']);
    const [first, revoked, second] = entries.map(({ completionId }) => completionId);
    expect([revoked, second === first]).toEqual([first, false]);
  });

  test('changes that take themselves back within a slice are not seen [P12]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ round: 'r' });
    ledger.entry({ round: 'r' });
    ledger.refund('r');
    expect(foldSlices(versionsOf(definitionsOf(BETS)), [ledger.rows]).entries).toEqual([]);
  });

  test('the verdict that decided a completion is the one that reached it [P12]', () => {
    const ledger = new LedgerRows();
    for (let i = 0; i < 3; i++) ledger.entry();
    const { entries } = foldSlices(versionsOf(definitionsOf(BETS)), [ledger.rows]);
    expect(entries.map(({ changeNo }) => changeNo)).toEqual([2]);
  });

  test('the id of a completion is the hash of its key, which a store can compute [P12]', () => {
    const key = {
      operatorId: 'acme',
      promotionId: 'x',
      version: 1,
      playerRef: 'p',
      window: 'once',
      ordinal: 1,
      attempt: 1,
    };
    // printf 'acme\0x\0001\0p\0once\0001\0001\0' | sha256sum | cut -c 1-32
    expect(completionIdOf(key)).toBe('b702e6531c50d33cc39dbdbbf29c8739');
    const others = [
      { ...key, operatorId: 'b' },
      { ...key, promotionId: 'y' },
      { ...key, version: 2 },
      { ...key, playerRef: 'q' },
      { ...key, window: '2026-12-01' },
      { ...key, ordinal: 2 },
      { ...key, attempt: 2 },
      { ...key, promotionId: 'x1', version: 1 },
    ].map(completionIdOf);
    expect(new Set([completionIdOf(key), ...others]).size).toBe(9);
  });

  test('a completion is confirmed once it has held for confirm_after [P14]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ round: 'r' });
    ledger.entry();
    const versions = versionsOf(definitionsOf(`${BETS}, confirm_after: PT24H`));
    const fold = new PromotionFold(versions);
    for (const row of ledger.rows) fold.take(row);
    const completedAt = micros('2026-12-01T12:00:00Z');
    const day = 86_400_000_000n;
    expect(changesOf(fold.endSlice(completedAt + day - 1n))).toEqual(['completed 1#1 p']);
    const confirmed = fold.endSlice(completedAt + day);
    expect(changesOf(confirmed)).toEqual(['confirmed 1#1 p']);
    expect(confirmed[0]).toMatchObject({ changeNo: null, at: completedAt + day });
    for (const row of ledger.refund('r')) fold.take(row);
    expect(changesOf(fold.endSlice(completedAt + 2n * day))).toEqual(['revoked 1#1 p']);
  });

  test('a completion that is revoked in time is never confirmed [P14]', () => {
    const ledger = new LedgerRows();
    ledger.entry({ round: 'r' });
    ledger.entry();
    const slices = [[...ledger.rows], ledger.refund('r'), []];
    const { entries } = foldSlices(
      versionsOf(definitionsOf(`${BETS}, confirm_after: PT24H`)),
      slices,
      (slice) => (slice === slices[2] ? micros('2027-01-01T00:00:00Z') : 0n),
    );
    expect(changesOf(entries)).toEqual(['completed 1#1 p', 'revoked 1#1 p']);
  });
});

describe('attributed rounds', () => {
  const BETS = versionsOf(definitionsOf('id: x, type: bet_count, target: 2'));
  const CREDIT = { feedId: 'acme', roundId: 'r', brand: null, playerRef: 'normal' };
  const steps = {
    bet: (fold: PromotionFold, ledger: LedgerRows) =>
      fold.take(ledger.entry({ round: 'r', player: 'bonus' })),
    credit: (fold: PromotionFold, ledger: LedgerRows) => fold.creditRound(CREDIT, ++ledger.changeNo, 0n),
    refund: (fold: PromotionFold, ledger: LedgerRows) => {
      for (const row of ledger.refund('r')) fold.take(row);
    },
  };
  const valuesAfter = (order: readonly (keyof typeof steps)[], brand: string | null = null) => {
    const fold = new PromotionFold(BETS);
    const ledger = new LedgerRows();
    if (brand !== null) fold.creditRound({ ...CREDIT, brand }, ++ledger.changeNo, 0n);
    for (const step of order) steps[step](fold, ledger);
    fold.endSlice(0n);
    const of = (player: string) =>
      valuesOf([...fold.progress()].find(({ playerRef }) => playerRef === player));
    return [of('bonus'), of('normal')];
  };

  test.each([
    [
      ['bet', 'bet', 'credit'],
      ['', '2'],
    ],
    [
      ['credit', 'bet', 'bet'],
      ['', '2'],
    ],
    [
      ['bet', 'credit', 'bet'],
      ['', '2'],
    ],
    [
      ['bet', 'credit', 'refund'],
      ['', ''],
    ],
    [
      ['bet', 'refund', 'credit'],
      ['', ''],
    ],
    [
      ['credit', 'bet', 'refund'],
      ['', ''],
    ],
    [
      ['bet', 'credit', 'credit'],
      ['', '1'],
    ],
  ] as const)('after %j, the players have %j [P1] [B4]', (order, values) => {
    expect(valuesAfter(order)).toEqual(values);
  });

  test('a corrected round counts for the right player, with its refund [P1] [B9]', () => {
    const fold = new PromotionFold(BETS);
    const ledger = new LedgerRows();
    const of = (player: string) => {
      fold.endSlice(0n);
      return valuesOf([...fold.progress()].find(({ playerRef }) => playerRef === player));
    };
    steps.bet(fold, ledger);
    steps.credit(fold, ledger);
    fold.correctRound({ ...CREDIT, playerRef: 'right' }, ++ledger.changeNo, 0n);
    steps.bet(fold, ledger);
    expect([of('bonus'), of('normal'), of('right')]).toEqual(['', '', '2']);
    steps.refund(fold, ledger);
    expect([of('normal'), of('right')]).toEqual(['', '']);
  });

  test('an attribution of another brand credits nothing, and the first one of a round stays [P1] [B3]', () => {
    expect(valuesAfter(['bet'], 'other')).toEqual(['1', '']);
    expect(valuesAfter(['bet', 'credit'], 'main')).toEqual(['', '1']);
    expect(valuesAfter(['bet', 'credit'], 'other')).toEqual(['1', '']);
  });
});

describe('a changed definition', () => {
  test('counts from its first whole window on, and the old one to the end of its window [P17]', () => {
    const [old, now] = definitionsOf(
      'id: x, type: bet_count, target: 2, window: { every: day }, time_zone: UTC',
      'id: y, type: bet_count, target: 1, window: { every: day }, time_zone: UTC',
    ).map(compilePromotion);
    if (old === undefined || now === undefined) throw new Error('no definition');
    const since = micros('2026-12-02T00:00:00Z');
    const ledger = new LedgerRows();
    for (const at of ['2026-12-01T23:59:59Z', '2026-12-02T00:00:00Z']) ledger.entry({ at });
    const { fold } = foldSlices(
      [
        { version: 1, promotion: old, since: null, until: since, removedAt: null },
        { version: 2, promotion: now, since, until: null, removedAt: null },
      ],
      [ledger.rows],
    );
    expect([...fold.progress()].map(({ version, window }) => `${version} ${window.key}`)).toEqual([
      '1 2026-12-01',
      '2 2026-12-02',
    ]);
  });
});
