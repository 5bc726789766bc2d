/** Attributions: rounds that are credited to another player than the one of their events. */
import { promoPlayerFault } from '../../src/domain/attribution';
import {
  type AttributionCorrection,
  attributeRounds,
  correctAttribution,
} from '../../src/ledger/attributions';
import { grantRoles } from '../../src/ledger/roles';
import { attribute, attributeAll, attributionsOf, BONUS, NORMAL } from '../support/attributions';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  aWin,
  damagesOf,
  freshStore,
  type Json,
  rowsOf,
  type TestStore,
  withClient,
} from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const mine = { player_ref: BONUS };

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const set = (...values: [round: string, player?: string, scope?: { feedId?: string; brand?: string }]) =>
  attribute(store, ...values);
/** Sums of the ledger by credited player and kind, without zeros. */
const credited = () =>
  store.rows(
    `select credited_player, kind, sum(amount_minor) from promo.ledger
     group by 1, 2 having sum(amount_minor) <> 0 or kind = 'login' order by 1, 2`,
  );
/** The tables of decided events, without times. */
const decided = () =>
  store.rows(
    `select event_id, verdict, reason, player_ref, round_id, amount_minor, counted, counts_now, verdict_id from promo.verdicts order by verdict_id`,
  );

describe('the credited player', () => {
  const events: readonly Json[] = [
    aBet({ ...mine, event_id: 'b' }),
    aSettled({ ...mine, event_id: 's' }),
    aWin({ ...mine, event_id: 'w', amount: '3.00' }),
    aLogin({ ...mine, event_id: 'l' }),
    aDeposit({ ...mine, event_id: 'd', amount: '5.00' }),
  ];

  test.each([0, 1, 2, 3, 4, 5])(
    'is the same where the attribution comes before event %i of 5, and no verdict changes [B4] [B5] [R1]',
    async (position) => {
      const acme = store.partition('acme');
      for (const [index, event] of events.entries()) {
        if (index === position) expect(await set('r-1')).toBe('set');
        expect(await acme.read(event)).toEqual(['accepted']);
      }
      if (position === events.length) expect(await set('r-1')).toBe('set');
      expect(await credited()).toEqual([
        [BONUS, 'deposit', '500'],
        [BONUS, 'login', '0'],
        [NORMAL, 'bet', '1050'],
        [NORMAL, 'settled', '1050'],
        [NORMAL, 'win', '300'],
      ]);
      expect(await store.rows('select distinct player_ref from promo.ledger')).toEqual([[BONUS]]);
      expect(await store.rows('select distinct player_ref from promo.verdicts')).toEqual([[BONUS]]);
      expect(await store.rows('select * from promo.anomalies')).toEqual([]);
      expect(await store.rows('select attributed from promo.rounds')).toEqual([['t']]);
    },
  );

  test.each(['before', 'between', 'after'])(
    'is that of entries and of their reversals, with the attribution %s bet and refund [B4] [L3]',
    async (when) => {
      const acme = store.partition('acme');
      if (when === 'before') await set('r-1');
      await acme.read(events[0] ?? null);
      if (when === 'between') await set('r-1');
      await acme.read(aRefund({ ...mine, event_id: 'x' }));
      if (when === 'after') await set('r-1');
      expect(
        await store.rows(
          'select credited_player, event_id, amount_minor from promo.ledger order by entry_id',
        ),
      ).toEqual([
        [NORMAL, 'b', '1050'],
        [NORMAL, 'x', '-1050'],
      ]);
    },
  );

  test('leaves all that is decided as it was, byte for byte [B5]', async () => {
    const acme = store.partition('acme');
    const answers = await acme.read(...events, aBet({ ...mine, round_id: 'r-2', event_id: 'b2' }));
    const [rows, contents] = [await decided(), await store.contents()];
    await set('r-1');
    await set('r-2');
    expect([await decided(), await store.contents()]).toEqual([rows, contents]);
    expect(await store.partition('acme').readAt(0, ...events)).toEqual(
      answers.slice(0, events.length).map((answer) => `${answer}, again`),
    );
  });

  test('is found with the own entries of the player, and with no other [B4]', async () => {
    const acme = store.partition('acme');
    await acme.read(
      aBet({ ...mine, event_id: 'b1' }),
      aBet({ player_ref: NORMAL, event_id: 'b2', round_id: 'r-2' }),
      aBet({ player_ref: NORMAL, event_id: 'b3', round_id: 'r-3' }),
      aBet({ player_ref: 'other', event_id: 'b4', round_id: 'r-4' }),
      aLogin({ player_ref: NORMAL, event_id: 'l1' }),
    );
    // The third round belongs to somebody else, and the own round stays where it is.
    expect([await set('r-1'), await set('r-2'), await set('r-3', 'third')]).toEqual(Array(3).fill('set'));
    const of = (player: string) =>
      store.rows(`select event_id from promo.credited_entries('acme', $1) order by 1`, [player]);
    expect(await of(NORMAL)).toEqual([['b1'], ['b2'], ['l1']]);
    expect(await of('third')).toEqual([['b3']]);
    expect(await of(BONUS)).toEqual([]);
    expect(await of('other')).toEqual([['b4']]);
    expect(await store.rows(`select event_id from promo.credited_entries('bravo', $1)`, [NORMAL])).toEqual(
      [],
    );
  });

  test('is limited to the brand that the attribution names [B2]', async () => {
    await store
      .partition('acme')
      .read(
        aBet({ ...mine, event_id: 'm', brand: 'main' }),
        aBet({ ...mine, event_id: 's', brand: 'second' }),
      );
    await set('r-1', NORMAL, { brand: 'second' });
    expect(await store.rows('select event_id, credited_player from promo.ledger order by 1')).toEqual([
      ['m', BONUS],
      ['s', NORMAL],
    ]);
  });

  test('belongs to the round of one feed [B3] [C3]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'a' }));
    await store.partition('acme.apart').read(aBet({ ...mine, event_id: 'a' }));
    expect(await set('r-1', NORMAL, { feedId: 'acme/apart' })).toBe('set');
    expect(await store.rows('select feed_id, credited_player from promo.ledger order by 1')).toEqual([
      ['acme', BONUS],
      ['acme/apart', NORMAL],
    ]);
    expect(await store.rows('select feed_id, attributed from promo.rounds order by 1')).toEqual([
      ['acme', 'f'],
      ['acme/apart', 't'],
    ]);
  });

  test.each([
    ['a UUID', '0190f3a2-7c1d-7e00-8000-0000000000ff'],
    ['a text of 15 bytes', 'fifteen bytes é'],
    ['a text of 100 KiB', 'x'.repeat(100 * 1024)],
    ['a text with backslashes', 'a\\b\\000'.repeat(200)],
  ])('joins a round whose id is %s [K5] [B3]', async (_, id) => {
    await set(id);
    await store.partition('acme').read(aBet({ ...mine, round_id: id }));
    expect(await credited()).toEqual([[NORMAL, 'bet', '1050']]);
    expect(await set(id)).toBe('unchanged');
    expect(
      await store.rows(
        'select r.attributed, a.round_id = r.round_id from promo.attributions a, promo.rounds r',
      ),
    ).toEqual([['t', 't']]);
  });
});

describe('setting', () => {
  test('keeps the first attribution of a round, whatever comes again [B3]', async () => {
    const outcomes = [
      await set('r-1', 'a'),
      await set('r-1', 'a'),
      await set('r-1', 'b'),
      await set('r-1', 'a', { brand: 'main' }),
      await set('r-2', 'b', { brand: 'main' }),
      await set('r-2', 'b'),
    ];
    expect(outcomes).toEqual(['set', 'unchanged', 'conflict', 'conflict', 'set', 'conflict']);
    expect(await attributionsOf(store)).toEqual([
      ['acme', 'r-1', 'a', null],
      ['acme', 'r-2', 'b', 'main'],
    ]);
  });

  test('decides each attribution of a call for itself, the first of a round first [B3] [B1] [B2]', async () => {
    const lines = [
      ['r-1', 'a', null, null],
      ['r-1', 'b', null, null],
      ['r-1', 'a', null, null],
      ['r-2', 'white space', null, null],
      ['', 'a', null, null],
      ['r-2', 'c', 'bravo', null],
      ['r-2', 'c', 'acme/none', null],
      ['r-2', 'c', null, 'none'],
      ['r-2', 'c', 'acme/apart', 'second'],
    ] as const;
    const results = await attributeRounds(
      store.url,
      'acme',
      lines.map(([roundId, promoPlayerRef, feedId, brand]) => ({ roundId, promoPlayerRef, feedId, brand })),
    );
    expect(results.map(({ outcome }) => outcome)).toEqual([
      ...['set', 'conflict', 'unchanged'],
      ...['invalid', 'invalid', 'invalid', 'invalid', 'invalid'],
      'set',
    ]);
    expect(results.map(({ problem }) => problem?.split(':')[0])).toEqual([
      undefined,
      'the round is attributed to another player, which stays',
      undefined,
      'promo_player_ref has white space',
      'round_id is missing or empty',
      'the feed bravo is not one of the operator acme',
      'the feed acme/none is not one of the operator acme',
      'the brand none is not one of the operator acme',
      undefined,
    ]);
    expect(await attributionsOf(store)).toEqual([
      ['acme', 'r-1', 'a', null],
      ['acme/apart', 'r-2', 'c', 'second'],
    ]);
  });

  test('a player of another operator cannot be named: feed, brand and operator are checked together [B2]', async () => {
    const one = { roundId: 'r-1', promoPlayerRef: 'p', feedId: null, brand: null };
    await expect(attributeRounds(store.url, 'nobody', [one])).rejects.toMatchObject({
      cause: { code: '22023', message: `InvalidArgument: there is no operator 'nobody'` },
    });
    // Both operators have a brand of this name: each its own.
    const [own] = await attributeRounds(store.url, 'bravo', [{ ...one, brand: 'second' }]);
    expect(own?.outcome).toBe('invalid');
    expect(await attributionsOf(store)).toEqual([]);
  });

  test('by SQL a fault fails the statement with its SQLSTATE, as a launch would fail [B1] [B3]', async () => {
    const call = (...values: readonly (string | null)[]) =>
      store.value(`select promo.attribute_round('acme', $1, $2, feed => $3, brand => $4)`, [
        ...values,
        ...Array(4 - values.length).fill(null),
      ]);
    expect(await call('r-1', 'p')).toBe('set');
    expect(await call('r-1', 'p')).toBe('unchanged');
    await expect(call('r-1', 'q')).rejects.toMatchObject({ code: '23505' });
    for (const wrong of [
      ['r-2', 'p q'],
      ['r-2', ''],
      ['r-2', null],
      [null, 'p'],
      ['r-2', 'p', 'bravo'],
    ])
      await expect(call(...wrong)).rejects.toMatchObject({
        code: '22023',
        message: expect.stringMatching(/^InvalidArgument: /),
      });
    await expect(
      store.rows(`select * from promo.attribute_rounds('acme', array['a', 'b'], array['p'])`),
    ).rejects.toMatchObject({ code: '22023' });
    await withClient(store.url, async (client) => {
      await client.query('begin isolation level repeatable read');
      await expect(client.query(`select promo.attribute_round('acme', 'r-3', 'p')`)).rejects.toMatchObject({
        code: '25000',
        hint: expect.stringContaining('read committed'),
      });
    });
    expect(await attributionsOf(store)).toEqual([['acme', 'r-1', 'p', null]]);
  });

  test('store and domain refuse the same characters and lengths [B1]', async () => {
    const problem = (text: string) =>
      store.value(`select promo_store.attribution_problem('r', $1, 'f', 1, null, null, 'o') is not null`, [
        text,
      ]);
    for (const length of [1, 255, 256]) {
      const text = '\u{1F3B2}'.repeat(length);
      expect(await problem(text)).toBe(promoPlayerFault(text) === undefined ? 'f' : 't');
    }
    // All characters up to the last one of white space, and a thousand beyond.
    const codes = Array.from({ length: 0x3100 }, (_, index) => index + 1);
    for (let code = 0x3100; code <= 0x10ffff; code += 997) codes.push(code);
    const characters = codes.filter((code) => code < 0xd800 || code > 0xdfff);
    const refused = await store.rows(
      `select code from unnest($1::int[]) code
       where promo_store.attribution_problem('r', 'a' || chr(code), 'f', 1, null, null, 'o') is not null order by 1`,
      [characters],
    );
    const byDomain = characters.filter((code) => promoPlayerFault(`a${String.fromCodePoint(code)}`));
    expect(refused).toEqual(byDomain.map((code) => [String(code)]));
    expect(refused).toHaveLength(25);
  });
});

describe('beside workers', () => {
  test('deciding neither reads nor locks attributions [B5]', async () => {
    await set('r-1');
    await withClient(store.url, async (holder) => {
      await holder.query('begin; lock table promo_store.attributions in access exclusive mode');
      const acme = store.partition('acme');
      expect(
        await acme.read(
          aBet({ ...mine, event_id: 'b' }),
          aSettled({ ...mine }),
          aBet({ ...mine, event_id: 'b' }),
        ),
      ).toEqual(['accepted', 'accepted', 'duplicate of accepted']);
      expect(await acme.read(aRefund({ ...mine }))).toEqual(['accepted']);
      await holder.query('rollback');
    });
    expect(await credited()).toEqual([]);
  });

  test('of many that race for the same rounds one wins each, without a deadlock [B3]', async () => {
    const [writers, rounds] = [12, 60];
    const results = await Promise.all(
      Array.from({ length: writers }, (_, writer) => {
        // Each writer has its own order of the rounds.
        const order = (n: number) => ((n + writer) * (2 * writer + 7)) % 61;
        const ids = Array.from({ length: rounds }, (_, n) => `r-${n}`).sort(
          (a, b) => order(Number(a.slice(2))) - order(Number(b.slice(2))),
        );
        const player = `player-${writer % 4}`;
        return attributeAll(store, ids, () => player).then((outcomes) =>
          ids.map((id, index) => [id, player, outcomes[index]] as const),
        );
      }),
    );
    const stored = new Map((await attributionsOf(store)).map(([, round, player]) => [round, player]));
    for (const [id, player, outcome] of results.flat()) {
      const isWinner = stored.get(id) === player;
      expect([id, outcome]).toEqual([id, isWinner ? expect.stringMatching(/^(set|unchanged)$/) : 'conflict']);
    }
    const sets = results.flat().filter(([, , outcome]) => outcome === 'set');
    expect(sets.map(([id]) => id).sort()).toEqual([...stored.keys()].sort());
    expect(await store.deadlocks()).toBe(0);
  });

  test('of two transactions the second waits for the first, and sees what it committed [B3]', async () => {
    await withClient(store.url, async (first) => {
      await first.query(`begin; select promo.attribute_round('acme', 'r-1', 'a')`);
      const second = set('r-1', 'b');
      await store.untilOneWaits();
      await first.query('commit');
      expect(await second).toBe('conflict');
      await first.query(`begin; select promo.attribute_round('acme', 'r-2', 'a')`);
      const third = set('r-2', 'b');
      await store.untilOneWaits();
      await first.query('rollback');
      expect(await third).toBe('set');
    });
  });

  test('races with opening and refund of its rounds, and changes no verdict and no sum [B4] [B5]', async () => {
    const [workers, rounds] = [4, 80];
    const ids = Array.from({ length: rounds }, (_, n) => `r-${n}`);
    const isRefunded = (n: number) => n % 3 === 0;
    const eventsOf = (id: string, n: number): Json[] => [
      aBet({ ...mine, event_id: `${id}-b`, round_id: id }),
      aWin({ ...mine, event_id: `${id}-w`, round_id: id, amount: '2.00' }),
      ...(isRefunded(n) ? [aRefund({ ...mine, event_id: `${id}-x`, round_id: id })] : []),
      aSettled({ ...mine, event_id: `${id}-s`, round_id: id }),
    ];
    const all = ids.flatMap(eventsOf);
    const reading = Array.from({ length: workers }, async (_, worker) => {
      const writer = store.writer({ maxConnections: 2 });
      const partition = writer.partition('acme', worker);
      const own = all.filter((_, index) => index % workers === worker);
      for (let from = 0; from < own.length; from += 7) await partition.read(...own.slice(from, from + 7));
    });
    const setting = Array.from({ length: 4 }, async (_, setter) => {
      for (let from = 0; from < rounds; from += 5) {
        const some = ids.slice(from, from + 5);
        const ordered = setter % 2 === 0 ? some : some.reverse();
        await attributeAll(store, ordered, (id) => `p-${Number(id.slice(2)) % 5}`);
      }
    });
    await Promise.all([...reading, ...setting]);
    expect(await store.value('select count(*) from promo.attributions')).toBe(String(rounds));
    expect(
      await store.rows(
        `select distinct credited_player = 'p-' || substr(round_id, 3)::int % 5, player_ref from promo.ledger`,
      ),
    ).toEqual([['t', BONUS]]);
    expect(
      await store.rows(
        `select round_id from promo.ledger group by round_id, credited_player, kind having sum(amount_minor) <> 0 and substr(round_id, 3)::int % 3 = 0`,
      ),
    ).toEqual([]);
    const kept = ids.filter((_, n) => !isRefunded(n)).length;
    expect(
      await store.rows(`select kind, sum(amount_minor) from promo.ledger group by 1 order by 1`),
    ).toEqual([
      ['bet', String(kept * 1050)],
      ['settled', String(kept * 1050)],
      ['win', String(kept * 200)],
    ]);
    expect(await damagesOf(store.pool)).toEqual([]);
  });
});

test('a role of its own sets attributions, and sees no player [B8]', async () => {
  const role = await makeRole(store.url, 'attributor');
  try {
    await grantRoles(store.url, [{ role: 'attributor', name: role.name }]);
    const [result] = await attributeRounds(role.url, 'acme', [
      { roundId: 'r-1', promoPlayerRef: NORMAL, feedId: null, brand: null },
    ]);
    expect(result).toEqual({ outcome: 'set', problem: null });
    await withClient(role.url, async (client) => {
      await expect(rowsOf(client, 'select credited_player from promo.attributions')).rejects.toMatchObject({
        code: '42501',
      });
      const refused = client.query(`select promo.attribute_round('acme', 'r-1', 'another')`);
      await expect(refused).rejects.toThrow(/another player/);
      await expect(refused).rejects.not.toThrow(NORMAL);
    });
    expect(await store.rows('select attributed_by from promo.attributions')).toEqual([[role.name]]);
  } finally {
    await dropRoles(store.url, [role.name]);
  }
});

describe('a correction', () => {
  const correct = (more: Partial<AttributionCorrection> = {}) =>
    correctAttribution(
      store.url,
      { requestedBy: 'ann@desk' },
      {
        operator: 'acme',
        roundId: 'r-1',
        was: NORMAL,
        promoPlayerRef: 'right-p',
        feedId: null,
        words: 'launch 17 named another session',
        ...more,
      },
    );
  const log = () =>
    store.rows(
      `select role = session_user, requested_by, request, outcome, ended_at is not null from promo.operations
       where operation = 'attribution_correction' order by operation_no`,
    );

  test('moves the round in the ledger at once, and is kept in the log without players [B9]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    await set('r-1');
    const attributedAt = `select attributed_at::text from promo.attributions`;
    const before = await store.value(attributedAt);
    expect(await correct()).toBe('corrected');
    expect(await credited()).toEqual([['right-p', 'bet', '1050']]);
    expect(
      await store.rows(`select entry_id is not null from promo.credited_entries('acme', 'right-p')`),
    ).toEqual([['t']]);
    expect(await store.rows(`select * from promo.credited_entries('acme', '${NORMAL}')`)).toEqual([]);
    expect(await store.rows('select credited_player, corrections from promo.attributions')).toEqual([
      ['right-p', '1'],
    ]);
    // A copy that reads attributions by their time gets the correction.
    expect(String(await store.value(attributedAt)) > String(before)).toBe(true);
    const [entry] = await log();
    expect(entry).toEqual([
      ...['t', 'ann@desk', expect.stringContaining('launch 17 named another session')],
      ...['{"corrections": 1}', 't'],
    ]);
    expect(JSON.stringify(await store.rows('select * from promo.operations'))).not.toMatch(
      new RegExp(`${NORMAL}|right-p|${BONUS}`),
    );
    expect(await damagesOf(store.pool)).toEqual([]);
    expect(await decided()).toHaveLength(1);
  });

  test('stays, whatever the launching service sets again, and can be corrected back [B3] [B9]', async () => {
    await set('r-1');
    await correct();
    expect([await set('r-1'), await set('r-1', 'right-p')]).toEqual(['conflict', 'unchanged']);
    expect(await correct()).toBe('unchanged');
    expect(await correct({ was: 'right-p', promoPlayerRef: NORMAL })).toBe('corrected');
    expect(await store.rows('select credited_player, corrections from promo.attributions')).toEqual([
      [NORMAL, '2'],
    ]);
    expect(await log()).toHaveLength(2);
  });

  test.each<[string, Partial<AttributionCorrection>, RegExp]>([
    ['of another player than the one of the round', { was: 'somebody' }, /is not credited to the player/],
    ['of a round without one', { roundId: 'r-9' }, /the round has no attribution/],
    ['without words', { words: '' }, /no words are given/],
    ['to an invalid player', { promoPlayerRef: 'a b' }, /InvalidArgument: promo_player_ref has white space/],
    ['of a feed of another operator', { feedId: 'borealis' }, /InvalidArgument: the feed borealis/],
  ])('%s changes nothing, and is not in the log [B9]', async (_, more, message) => {
    await set('r-1');
    await expect(correct(more)).rejects.toThrow(message);
    expect(await store.rows('select credited_player, corrections from promo.attributions')).toEqual([
      [NORMAL, '0'],
    ]);
    expect(await log()).toEqual([]);
  });

  test('of two people at once is done once, and the other one learns of it [B9]', async () => {
    await set('r-1');
    const results = await Promise.allSettled(
      ['one', 'two', 'three', 'four'].map((promoPlayerRef) => correct({ promoPlayerRef })),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await log()).toHaveLength(1);
  });

  test('names nobody behind an erased player [B6] [B9]', async () => {
    await store.partition('acme').read(aBet({ ...mine, event_id: 'b' }));
    await set('r-1');
    await store.rows(`select * from promo.erase_player('acme', '${BONUS}')`);
    expect(await correct()).toBe('erased');
    expect(await log()).toEqual([]);
  });
});
