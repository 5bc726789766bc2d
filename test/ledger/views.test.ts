/** The schema promo as people and tools read it: names, types, values, comments. */
import { CURRENCIES } from '../../src/domain/event/money';
import { aBet, aDeposit, aLogin, aRefund, freshStore, type TestStore } from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

/** The public columns with their types; a view may have more. */
const COLUMNS = {
  verdicts: [
    'operator_id text, feed_id text, event_id text, verdict text, reason text, connection_id text, brand text',
    'player_ref text, kind text, round_id text, game_id text, amount_minor bigint, currency text, scale integer',
    'amount numeric, occurred_at timestamp with time zone, decided_at timestamp with time zone, counted boolean',
    'verdict_id bigint, reference_version integer, source_topic text, source_partition integer, source_offset bigint',
  ].join(),
  ledger: [
    'entry_id bigint, operator_id text, feed_id text, event_id text, round_id text, brand text, player_ref text',
    'kind text, currency text, scale integer, amount_minor bigint, amount numeric, reverses_entry_id bigint',
    'entered_at timestamp with time zone, verdict_id bigint',
  ].join(),
  events: `operator_id text, feed_id text, event_key bytea, verdict text, reason text, verdict_id bigint, source_topic text,
    source_partition integer, source_offset bigint`,
  deliveries: `feed_id text, event_id text, connection_id text, received_at timestamp with time zone, content_differs boolean,
    source_topic text, source_partition integer, source_offset bigint`,
  anomalies: 'feed_id text, round_id text, anomaly text',
  rounds:
    'feed_id text, round_id text, refunded boolean, settled boolean, currency text, net_bet_minor numeric, net_win_minor numeric',
  partitions: `topic text, partition integer, records_read bigint, verdicts bigint, duplicate_deliveries bigint, redeliveries bigint,
    dead_letters bigint, events_without_key bigint`,
};

test.each(Object.entries(COLUMNS))(
  'promo.%s has its public columns, with their types [V1] [K4] [L1] [A1] [D3]',
  async (view, columns) => {
    const found = await store.rows(
      `select attname || ' ' || format_type(atttypid, atttypmod) from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
      [`promo.${view}`],
    );
    expect(found.flat()).toEqual(expect.arrayContaining(columns.split(',').map((column) => column.trim())));
  },
);

test('a verdict has the fields of its event [V6] [M5] [F6]', async () => {
  await store.partition('acme', 3).readAt(
    41,
    aBet({
      event_id: 'e',
      player_ref: 'p',
      round_id: 'r',
      game: { id: 'g1' },
      amount: '12.3',
      currency: 'eUr',
      occurred_at: '2026-11-21T23:30:00.1234567+23:59',
    }),
    aLogin({ event_id: 'l', amount: '1', currency: 'EUR', round_id: 'r', game: { id: 'g1' } }),
  );
  const columns = COLUMNS.verdicts.split(',').map((column) => column.trim().split(' ')[0]);
  const [row, login] = await store.rows(
    `select ${columns.join(', ')} from promo.verdicts order by verdict_id`,
  );
  const read = (values: readonly (string | null)[] = []) =>
    Object.fromEntries(columns.map((column, index) => [column, values[index]]));
  expect(read(row)).toEqual({
    operator_id: 'acme',
    feed_id: 'acme',
    event_id: 'e',
    verdict: 'accepted',
    reason: null,
    connection_id: 'acme-stream',
    brand: 'main',
    player_ref: 'p',
    kind: 'bet',
    round_id: 'r',
    game_id: 'g1',
    amount_minor: '1230',
    currency: 'EUR',
    scale: '2',
    amount: '12.30',
    occurred_at: '2026-11-20 23:31:00.123456+00',
    decided_at: expect.stringMatching(/^\d{4}-/),
    counted: 't',
    verdict_id: expect.stringMatching(/^\d+$/),
    reference_version: '1',
    source_topic: 'acme',
    source_partition: '3',
    source_offset: '41',
  });
  expect(read(login)).toMatchObject({
    kind: 'login',
    round_id: null,
    game_id: null,
    amount_minor: null,
    currency: null,
    scale: null,
    amount: null,
    counted: 't',
    source_offset: '42',
  });
});

test('a rejected event keeps its valid fields, and an unregistered brand [V6] [V8]', async () => {
  expect(
    await store
      .partition('acme')
      .read(
        aBet({ event_id: 'a', brand: 'nobody' }),
        aBet({ event_id: 'b', amount: 'x', occurred_at: 'now' }),
        aBet({ kind: 'jump', event_id: 'c', round_id: 'r', game: { id: 'g' } }),
        aBet({ event_id: 'd', brand: undefined, player_ref: '' }),
      ),
  ).toEqual(['rejected/brand_unmapped', 'rejected/malformed', 'rejected/op_unknown', 'rejected/no_player']);
  expect(
    await store.rows(
      `select event_id, reason, brand, player_ref, kind, round_id, game_id, amount, currency, occurred_at is null from promo.verdicts order by 1`,
    ),
  ).toEqual([
    ['a', 'brand_unmapped', 'nobody', 'p-1', 'bet', 'r-1', null, '10.50', 'EUR', 'f'],
    ['b', 'malformed', 'main', 'p-1', 'bet', 'r-1', null, null, 'EUR', 't'],
    ['c', 'op_unknown', 'main', 'p-1', null, null, null, null, null, 'f'],
    ['d', 'no_player', null, null, 'bet', 'r-1', null, '10.50', 'EUR', 'f'],
  ]);
});

test('each reason is stored by its name of rules V1 and V2 [V1] [V2]', async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ spec: 'other' }, 'malformed'],
    [{ kind: 'other' }, 'op_unknown'],
    [{ player_ref: undefined }, 'no_player'],
    [{ amount: 1 }, 'bad_amount'],
    [{ brand: undefined }, 'no_brand'],
    [{ brand: '' }, 'brand_unmapped'],
    [{ brand: 'closed' }, 'operator_inactive'],
    [{ currency: 'XXX' }, 'currency_unknown'],
    [{ amount: '0' }, 'zero_amount'],
    [{ game: { id: 'g9' } }, 'game_denied'],
    [{ amount: '0.09' }, 'below_min_bet'],
  ];
  await store.partition('acme').read(...cases.map(([fields]) => aBet(fields)));
  await store.partition('acme.solo').read(aBet());
  await store.partition('acme', 1).read(aRefund(), aBet());
  expect((await store.rows('select reason from promo.verdicts order by verdict_id')).flat()).toEqual([
    ...cases.map(([, reason]) => reason),
    'brand_unexpected',
    null,
    'round_refunded',
  ]);
});

test('amounts are shown in major units without rounding, for every currency, from the smallest to the largest [M2] [M3] [M5]', async () => {
  const major = (minor: string, scale: number) =>
    scale === 0
      ? minor
      : `${minor.padStart(scale + 1, '0').slice(0, -scale)}.${minor.padStart(scale + 1, '0').slice(-scale)}`;
  const cases = CURRENCIES.flatMap(({ code, scale }) =>
    ['1', '9223372036854775807', '9223372036854775806', '1000000000000000001'].map((minor) => ({
      code,
      scale,
      minor,
    })),
  );
  await store
    .partition('acme')
    .read(
      ...cases.map(({ code, scale, minor }) => aDeposit({ currency: code, amount: major(minor, scale) })),
    );
  const expected = cases.map(({ code, scale, minor }) => [code, String(scale), minor, major(minor, scale)]);
  for (const [view, order] of [
    ['verdicts', 'verdict_id'],
    ['ledger', 'entry_id'],
  ]) {
    expect(
      await store.rows(`select currency, scale, amount_minor, amount from promo.${view} order by ${order}`),
    ).toEqual(expected);
  }
});

test('a time of any valid year is stored unchanged [F6]', async () => {
  const instants = [
    '0001-01-01T00:00:00Z',
    '9999-12-31T23:59:59.999999Z',
    '9999-12-31T23:59:59.999999-23:59',
    '2016-12-31T23:59:60Z',
  ];
  await store.partition('acme').read(...instants.map((occurred_at) => aLogin({ occurred_at })));
  expect((await store.rows('select occurred_at from promo.verdicts order by verdict_id')).flat()).toEqual([
    '0001-01-01 00:00:00+00',
    '9999-12-31 23:59:59.999999+00',
    '10000-01-01 23:58:59.999999+00',
    '2017-01-01 00:00:00+00',
  ]);
});

describe('comments', () => {
  const inSchemas = `in ('promo'::regnamespace, 'promo_store'::regnamespace)`;

  test('every schema, table, view, sequence and function has one [V1]', async () => {
    expect(
      await store.rows(
        `select 'schema', nspname from pg_namespace where oid ${inSchemas} and obj_description(oid, 'pg_namespace') is null
         union all select 'relation', oid::regclass::text from pg_class
         where relnamespace ${inSchemas} and relkind in ('r', 'p', 'v', 'm', 'S') and not relispartition
           and relname not like 'migrations%' and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'i' and classid = 'pg_class'::regclass)
           and obj_description(oid, 'pg_class') is null
         union all select 'function', oid::regproc::text from pg_proc where pronamespace ${inSchemas} and obj_description(oid, 'pg_proc') is null`,
      ),
    ).toEqual([]);
  });

  test('every column of a table or view has one [V1]', async () => {
    expect(
      await store.rows(
        `select attrelid::regclass, attname from pg_attribute join pg_class c on c.oid = attrelid
         where relnamespace ${inSchemas} and relkind in ('r', 'p', 'v') and not relispartition and relname not like 'migrations%'
           and attnum > 0 and not attisdropped and col_description(attrelid, attnum) is null`,
      ),
    ).toEqual([]);
  });

  test('those of the public schema repeat nothing and end as a sentence [V1]', async () => {
    const comments = (
      await store.rows(
        `select d.description from pg_description d join pg_class c on c.oid = d.objoid and d.classoid = 'pg_class'::regclass
         where c.relnamespace = 'promo'::regnamespace`,
      )
    ).flat();
    expect(comments.filter((comment) => !comment?.endsWith('.'))).toEqual([]);
  });
});
