/** Ids of any length and form, and the keys and names that replace them in the store. */
import { hash } from 'node:crypto';
import fc from 'fast-check';
import { KINDS, kindCode } from '../../src/domain/event/event';
import { shownId, storedId } from '../../src/domain/event/id-key';
import { CURRENCIES } from '../../src/domain/event/money';
import { ACCEPTED, outcomeOf, REASONS } from '../../src/domain/verdict/reasons';
import { idKey } from '../support/id-key';
import { aBet, aRefund, freshStore, rowsOf, type TestStore, withClient } from '../support/ledger';
import { anyCharacter } from '../support/texts';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const MEBIBYTE = 2 ** 20;

test('an event_id and a round_id of 1 MiB are stored, found and distinguished from similar ones [V3] [K5]', async () => {
  const long = (last: string) => 'é'.repeat(MEBIBYTE / 2 - 1) + last;
  const [one, other] = [long('a'), long('b')];
  const acme = store.partition('acme');
  const bet = aBet({ event_id: one, round_id: one });

  expect(await acme.read(bet, bet, aBet({ event_id: other, round_id: other }))).toEqual([
    'accepted',
    'duplicate of accepted',
    'accepted',
  ]);
  expect(await acme.readAt(1, bet)).toEqual(['duplicate of accepted, again']);
  expect(
    await acme.readAt(3, aRefund({ event_id: long('c'), round_id: one }), aBet({ round_id: one })),
  ).toEqual(['accepted', 'skipped/round_refunded']);

  expect(
    await store.rows(
      'select round_id = promo.stored_id(event_id), length(event_id), kind, counted from promo.verdicts where event_id = $1',
      [one],
    ),
  ).toEqual([['t', String(MEBIBYTE / 2), 'bet', 't']]);
  expect(
    await store.rows(
      'select refunded_by = $2, net_bet_minor from promo.rounds where round_id = promo.stored_id($1)',
      [one, long('c')],
    ),
  ).toEqual([['t', '0']]);
  expect(
    await store.value('select count(*) from promo.deliveries where event_id = promo.stored_id($1)', [one]),
  ).toBe('1');
  expect(await store.value('select max(length(event_key)) from promo_store.event_keys')).toBe('20');
});

test('the longest possible ids cost no more than others: an event, its round, its refund and their resends [K5]', async () => {
  const long = (last: string) => 'x'.repeat(32 * MEBIBYTE) + last;
  const acme = store.partition('acme');
  const bet = aBet({ event_id: long('a'), round_id: long('r') });
  const refund = aRefund({ event_id: long('b'), round_id: long('r') });
  const began = performance.now();
  for (const event of [bet, refund]) expect(await acme.read(event)).toEqual(['accepted']);
  for (const event of [bet, refund]) expect(await acme.read(event)).toEqual(['duplicate of accepted']);
  expect(await acme.readAt(2, bet)).toEqual(['duplicate of accepted, again']);
  expect(performance.now() - began).toBeLessThan(30_000);
  expect(await store.value('select max(length(round_id)) from promo.rounds')).toBe('275');
});

test('a stored id is the id itself up to 65,536 bytes, else its beginning and its digest [K5]', () => {
  const ids = [
    'a'.repeat(65_536),
    'a'.repeat(65_537),
    'é'.repeat(32_768),
    'é'.repeat(32_769),
    '\u{1F3B0}'.repeat(20_000),
  ];
  const [whole, shortened, wide, shortWide, pairs] = ids.map(storedId);
  expect([whole, wide]).toEqual([ids[0], ids[2]]);
  expect(shortened).toMatch(/^a{1000}\.\.\. sha256:[0-9a-f]{64}$/);
  expect(shortWide).toMatch(/^é{1000}\.\.\. sha256:[0-9a-f]{64}$/);
  expect(pairs).toMatch(/^\u{1F3B0}{1000}\.\.\. sha256:[0-9a-f]{64}$/u);
  expect(ids.map(storedId).map(storedId)).toEqual(ids.map(storedId));
});

test('an id in a view is the id itself up to 1,000 bytes, else its beginning and its digest, however it is stored [K5]', async () => {
  const shown = (id: string) => `${[...id].slice(0, 200).join('')}... sha256:${hash('sha256', id)}`;
  const whole = ['a'.repeat(1_000), 'é'.repeat(500), '\u{1F3B0}'.repeat(250)];
  const long = [
    ...[
      'a'.repeat(1_001),
      'é'.repeat(501),
      '\u{1F3B0}'.repeat(251),
      '\\x61\\'.repeat(300),
      'a'.repeat(1_075),
    ],
    ...['é'.repeat(32_768), 'é'.repeat(32_769), '\\'.repeat(MEBIBYTE)],
  ];
  const askFor = async (ids: readonly string[]) =>
    (
      await store.rows(
        'select promo.stored_id(id) from unnest($1::text[]) with ordinality i (id, n) order by n',
        [ids],
      )
    ).flat();
  expect(await askFor(whole)).toEqual(whole);
  expect(await askFor(long)).toEqual(long.map(shown));
  // As older versions store and show an id, and as this version does.
  expect(await askFor(long.map(storedId))).toEqual(long.map(shown));
  expect(await askFor(long.map(shown))).toEqual(long.map(shown));
  // The same function, as promotions use it.
  expect([...whole, ...long, ...long.map(storedId)].map(shownId)).toEqual([
    ...whole,
    ...long.map(shown),
    ...long.map(shown),
  ]);
  expect(Math.max(...long.map((id) => Buffer.byteLength(shown(id))))).toBeLessThan(1_000);
});

/**
 * Writes the events with the numbers $1 to $2, with a round and a duplicate each. Their ids are UUIDs of
 * version 7, a millisecond apart.
 */
const WITH_TIMED_IDS = Object.entries({
  event_keys: `(verdict_id, content_hash, feed_no, outcome, event_key) select n, n, 1, 0, uuid_send(id)`,
  rounds: `(round_no, feed_no, round_key, round_id) select n, 1, uuid_send(id), id::text`,
  resends: `(received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id)
    select now(), n, 1, 1, 1, 0, false, id::text`,
}).map(
  ([table, rows]) => `insert into promo_store.${table} ${rows} from generate_series($1::int, $2::int) n
    cross join lateral (select (lpad(to_hex(1700000000000 + n), 12, '0') || substr(md5(n::text), 13))::uuid) i (id)`,
);

test('ids that are ordered by time change few pages of an index, for any number of stored ids', async () => {
  const [stored, more] = [100_000, 1_000];
  store.damaged = true;
  await withClient(store.url, async (client) => {
    for (const insert of WITH_TIMED_IDS) await client.query(insert, [1, stored]);
    // From then on, Postgres writes each changed page to the WAL once as a whole.
    await client.query('checkpoint');
    const pages: number[] = [];
    for (const insert of WITH_TIMED_IDS) {
      const plan = await rowsOf(client, `explain (analyze, wal) ${insert}`, [stored + 1, stored + more]);
      pages.push(Number(/WAL: .*fpi=(\d+)/.exec(plan.join('\n'))?.[1]));
    }
    expect(Math.max(...pages)).toBeLessThan(more / 20);
  });
});

test('ids that look alike are different ids: case, spaces, forms of a letter, a UUID and its hex [K1] [K5]', async () => {
  const uuid = '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01';
  const ids = [
    ...['a', 'A', ' a', 'a ', 'é', 'e\u0301', '/', '1/a', '\\x61', '0', '00'],
    ...[uuid, uuid.toUpperCase(), uuid.replaceAll('-', ''), `{${uuid}}`, `${uuid}\n`],
    ...['x'.repeat(15), 'x'.repeat(16), 'é'.repeat(7), 'é'.repeat(8), '\u{1F3B0}', '\u0001', '\uFFFF'],
  ];
  const acme = store.partition('acme');
  const bets = ids.map((id) => aBet({ event_id: id, round_id: id }));
  expect(new Set(await acme.read(...bets))).toEqual(new Set(['accepted']));
  expect(new Set(await store.partition('acme', 1).read(...bets))).toEqual(new Set(['duplicate of accepted']));
  expect(await store.value('select count(*) from promo.rounds')).toBe(String(ids.length));
  expect((await store.rows('select event_id from promo.verdicts order by verdict_id')).flat()).toEqual(ids);
});

test('the key of an id in SQL is that of the code [K5]', async () => {
  const hex = fc.stringMatching(/^[0-9a-fA-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  const text = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 60 });
  const near = fc.string({ unit: 'grapheme', minLength: 10, maxLength: 18 });
  const storable = fc
    .oneof(
      text,
      near,
      hex,
      fc.uuid(),
      hex.map((id) => `${id}\n`),
      hex.map((id) => id.replace('-', '_')),
    )
    .filter((id) => id.isWellFormed() && !id.includes('\0'));
  await fc.assert(
    fc.asyncProperty(fc.array(storable, { minLength: 100, maxLength: 100 }), async (ids) => {
      const keys = await store.rows(
        `select encode(promo_store.id_key(id), 'hex') from unnest($1::text[]) with ordinality i (id, n) order by n`,
        [ids],
      );
      expect(keys.flat()).toEqual(ids.map((id) => idKey(id).toString('hex')));
    }),
    { numRuns: 30 },
  );
});

test('the stored key of an event is the key of its id [K1] [K5]', async () => {
  const ids = ['short', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01', 'longer than sixteen bytes', 'ÄÖÜäöüß'];
  await store.partition('acme').read(...ids.map((id) => aBet({ event_id: id, round_id: id })));
  expect(
    await store.rows(
      `select h.event_id, r.round_id from promo_store.history h
       join promo_store.event_keys k on k.verdict_id = h.verdict_id and k.feed_no = h.feed_no and k.event_key = promo_store.id_key(h.event_id)
       join promo_store.rounds r on r.round_no = h.round_no and r.round_key = promo_store.id_key(r.round_id) order by h.verdict_id`,
    ),
  ).toEqual(ids.map((id) => [id, id]));
});

test('the store has the currencies of the code, with their numbers and scales [M4]', async () => {
  expect(
    await store.rows('select currency_no, code, scale, unit from promo_store.currencies order by 1'),
  ).toEqual(
    CURRENCIES.map(({ no, code, scale }) => [
      String(no),
      code,
      String(scale),
      scale === 0 ? '1' : `0.${'1'.padStart(scale, '0')}`,
    ]),
  );
});

test('the store has the verdicts, reasons and kinds of the code, and no others [V1] [V2] [F5]', async () => {
  const outcomes = new Map([
    [ACCEPTED.code, ACCEPTED],
    ...REASONS.map(({ code, name }) => [code, outcomeOf(name)] as const),
  ]);
  const stored = await store.rows(
    'select n, promo_store.verdict_name(n::smallint), promo_store.reason_name(n::smallint), promo_store.kind_name(n::smallint) from generate_series(-1, 100) n',
  );
  const kinds = new Map(KINDS.map((kind) => [kindCode(kind), kind]));
  for (const [number, verdict, reason, kind] of stored) {
    const outcome = outcomes.get(Number(number));
    // The first reason is never stored.
    if (outcome !== undefined && outcome.reason !== 'no_idempotency_key') {
      expect([number, verdict, reason]).toEqual([number, outcome.verdict, outcome.reason]);
    } else expect([number, reason]).toEqual([number, null]);
    expect([number, kind]).toEqual([number, kinds.get(Number(number)) ?? null]);
  }
});
