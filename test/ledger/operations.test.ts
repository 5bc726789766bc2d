/** The effect of operations on the store: erased players, dropped months, each with its line in the log. */
import { erasePlayer } from '../../src/ledger/erasure';
import { inStore } from '../../src/ledger/in-store';
import { beginOperation, endOperation } from '../../src/ledger/operation-log';
import { dropMonthsBefore, planRetention } from '../../src/ledger/retention';
import { readVersions } from '../../src/ledger/stored-state';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  aWin,
  freshStore,
  type TestStore,
} from '../support/ledger';

const BY = { requestedBy: 'ops@desk' };
/** Letters that JSON and SQL escape. */
const PLAYER = `Ålice "the' p-7`;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const log = () =>
  store.rows(
    `select operation, requested_by, request::text, outcome::text, ended_at is not null from promo.operations order by operation_no`,
  );
const erase = (player: string, batch = 1_000, progress: () => void = () => undefined) =>
  erasePlayer(store.url, BY, { operator: 'acme', player, batch }, progress);

/** An old month, with the tables that it had. */
async function oldMonth(): Promise<void> {
  for (const parent of ['history', 'resends', 'unstored'])
    await store.pool.query(`create table promo_store.${parent}_2020_01 partition of promo_store.${parent}
      for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`);
}

describe('erasure', () => {
  const mine = { player_ref: PLAYER };
  const events = [
    aBet({ ...mine, event_id: 'a' }),
    aBet({ ...mine, event_id: 'b', amount: '0' }),
    aSettled({ ...mine, event_id: 'c' }),
    aBet({ ...mine, event_id: 'd', round_id: 'r-2' }),
    aRefund({ ...mine, event_id: 'e', round_id: 'r-2' }),
    aDeposit({ ...mine, event_id: 'f' }),
    aLogin({ ...mine, event_id: 'g', brand: 'unknown' }),
    aBet({ event_id: 'h', player_ref: 'another', round_id: 'r-3' }),
  ];
  const answers = [
    ...['accepted', 'skipped/zero_amount', 'accepted', 'accepted', 'accepted', 'accepted'],
    ...['rejected/brand_unmapped', 'accepted'],
  ];
  /** All that analysts read, without players. */
  const rest = async () => ({
    verdicts: await store.rows(
      'select verdict_id, event_id, verdict, reason, amount, round_id, counted from promo.verdicts order by 1',
    ),
    ledger: await store.rows(
      'select entry_id, event_id, amount_minor, reverses_entry_id from promo.ledger order by 1',
    ),
    rounds: await store.rows('select * from promo.rounds order by feed_id, round_id'),
    events: await store.rows('select * from promo.events order by verdict_id'),
    partitions: await store.rows('select * from promo.partitions order by topic'),
  });
  const players = async () =>
    (await store.rows('select distinct operator_id, player_ref from promo.verdicts order by 1, 2')).map(
      ([operator, player]) => `${operator}: ${player}`,
    );

  test('replaces the player of one operator in all months and feeds, and keeps ids, sums and answers [K1] [K3] [L2] [L3]', async () => {
    const acme = store.partition('acme');
    expect(await acme.read(...events)).toEqual(answers);
    await store.partition('acme.apart').read(aBet({ ...mine, event_id: 'a' }));
    await store.partition('bravo').read(aBet({ ...mine, event_id: 'a' }));
    await oldMonth();
    await store.pool.query(
      `update promo_store.history set decided_at = '2020-01-05' where event_id in ('b', 'd') and feed_no = (select feed_no from promo_store.feeds where feed_id = 'acme')`,
    );
    await store.pool.query(
      `update promo_store.rounds set opened_at = '2020-01-04' where round_id in ('r-1', 'r-2')`,
    );
    // Many producers escape non-ASCII letters, so the name does not appear in this payload as it is written.
    const payload = Buffer.from(
      JSON.stringify(mine).replace(
        PLAYER,
        PLAYER.replace(/./gu, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
      ),
    );
    for (const operator of ['acme', 'bravo'])
      await store.pool.query(
        `insert into promo_store.panics (verdict_id, decided_at, error, payload) select verdict_id, decided_at, $3, $2 from promo.verdicts where operator_id = $1 limit 1`,
        [operator, payload, `it is ${PLAYER}`],
      );
    const before = await rest();

    let batches = 0;
    const erased = await erase(PLAYER, 3, () => batches++);
    expect(erased).toEqual({ erasure: 1, verdicts: 8, rounds: 3, payloads: 1 });
    // Three steps of verdicts, and one of panics.
    expect(batches).toBe(4);
    expect(await players()).toEqual(['acme: another', 'acme: erased:1', `bravo: ${PLAYER}`]);
    expect(await rest()).toEqual(before);
    expect(
      await store.rows(
        'select round_id from promo_store.rounds where player_tag is null and player_hash is null order by 1',
      ),
    ).toEqual([['r-1'], ['r-1'], ['r-2']]);
    expect(await store.rows('select error, payload is null from promo_store.panics order by 2')).toEqual([
      [`it is ${PLAYER}`, 'f'],
      ['erased:1', 't'],
    ]);
    const done = '{"rounds": 3, "payloads": 1, "verdicts": 8}';
    expect(await log()).toEqual([['erasure', 'ops@desk', '{"operator": "acme"}', done, 't']]);

    // A redelivered record gets its answer of before, and a resent event has the same content.
    expect(await acme.readAt(0, ...events)).toEqual(answers.map((answer) => `${answer}, again`));
    expect(await store.partition('acme.second').read(...events)).toEqual(
      answers.map((answer) => `duplicate of ${answer}`),
    );
    expect(await players()).toEqual(['acme: another', 'acme: erased:1', `bravo: ${PLAYER}`]);
    expect(await erase(PLAYER)).toEqual({ erasure: 2, verdicts: 0, rounds: 0, payloads: 0 });
  });

  test('searches the panics of all operators in steps, and erases those of its own', async () => {
    const logins = Array.from({ length: 5 }, () => aLogin());
    await store.partition('acme').read(...logins);
    await store.partition('bravo').read(...logins);
    await store.pool.query(
      `insert into promo_store.panics (verdict_id, error, payload) select verdict_id, 'no', 'x' from promo.verdicts`,
    );
    let steps = 0;
    const erased = await erase('somebody', 3, () => steps++);
    expect([erased, steps]).toEqual([{ erasure: 1, verdicts: 0, rounds: 0, payloads: 5 }, 4]);
    expect(
      await store.rows(
        `select operator_id, count(p.payload) from promo_store.panics p join promo.verdicts using (verdict_id) group by 1 order by 1`,
      ),
    ).toEqual([
      ['acme', '0'],
      ['bravo', '5'],
    ]);
    expect((await log()).map((line) => line[3])).toEqual(['{"rounds": 0, "payloads": 5, "verdicts": 0}']);
  });

  test('runs beside workers, and the rounds of the erased player continue as usual [R2] [R6]', async () => {
    const acme = store.partition('acme');
    const bets = Array.from({ length: 60 }, (_, n) => aBet({ ...mine, round_id: `r-${n}` }));
    await acme.read(...bets);
    const refunds = Array.from({ length: 60 }, (_, n) => aRefund({ ...mine, round_id: `r-${n}` }));
    const [, refunded] = await Promise.all([
      erase(PLAYER, 7),
      store
        .writer()
        .partition('acme.second')
        .read(...refunds, aWin({ ...mine, round_id: 'r-0' })),
    ]);
    expect(new Set(refunded)).toEqual(new Set(['accepted']));
    await erase(PLAYER);
    expect((await players()).includes(`acme: ${PLAYER}`)).toBe(false);
    expect(await store.value('select coalesce(sum(amount_minor), 0) from promo.ledger')).toBe('0');
    expect(await store.rows('select * from promo.anomalies')).toEqual([]);
  });

  test('is refused for an unknown operator, and for a finished erasure', async () => {
    await expect(
      erasePlayer(store.url, BY, { operator: 'none', player: 'p', batch: 1 }, () => {}),
    ).rejects.toThrow(/there is no operator 'none'/);
    await expect(erase('')).rejects.toThrow(/name a player/);
    await erase('p');
    await expect(store.pool.query(`select promo.erase_player('acme', 'p', 10, 1)`)).rejects.toThrow(
      /no erasure 1 of a player of acme is under way/,
    );
  });
});

test('retention lists the tables, drops them, and is logged only where it dropped one', async () => {
  await oldMonth();
  const { firstKept, tables } = await planRetention(store.url, 13);
  expect(firstKept).toMatch(/^20\d\d-\d\d-01$/);
  const names = ['history_2020_01', 'resends_2020_01', 'unstored_2020_01'];
  expect(tables.map(({ name }) => name)).toEqual(names);
  expect(await dropMonthsBefore(store.url, BY, firstKept)).toEqual({ dropped: names, restarted: [] });
  expect((await planRetention(store.url, 13)).tables).toEqual([]);
  expect(await dropMonthsBefore(store.url, BY, firstKept)).toEqual({ dropped: [], restarted: [] });
  expect(await log()).toEqual([
    [
      'retention',
      'ops@desk',
      expect.stringContaining(firstKept),
      `{"dropped": ["${names.join('", "')}"]}`,
      't',
    ],
  ]);
});

test('the time of applied reference data is shown in UTC, whatever time zone the server has', async () => {
  await store.pool.query(`do $$ begin
    execute format('alter database %I set timezone = %L', current_database(), 'Asia/Tokyo');
    execute format('alter database %I set datestyle = %L', current_database(), 'SQL, DMY');
  end $$`);
  const { referenceAppliedAt, referenceVersion } = await readVersions(store.url);
  expect(referenceVersion).toBeGreaterThan(0);
  expect(referenceAppliedAt).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  const seconds = Math.abs(Date.now() - Date.parse(referenceAppliedAt ?? '')) / 1000;
  expect(seconds).toBeLessThan(3_600);
});

test('the log has each operation and its role, and an operation ends once', async () => {
  const number = await beginOperation(store.url, BY, 'replay', { topic: 't' });
  expect(await log()).toEqual([['replay', 'ops@desk', '{"topic": "t"}', null, 'f']]);
  await endOperation(store.url, number, { redeliveries: 3 });
  expect(await log()).toEqual([['replay', 'ops@desk', '{"topic": "t"}', '{"redeliveries": 3}', 't']]);
  await expect(endOperation(store.url, number, {})).rejects.toThrow(/no operation 1 of \w+ is under way/);
});

test('a snapshot sees the rows from its beginning, and allows no writes', async () => {
  const options = { timeoutMs: 10_000, isSnapshot: true };
  const seen = await inStore(store.url, options, async (query) => {
    const before = await query('select count(*)::int from promo.operations');
    await beginOperation(store.url, BY, 'replay', {});
    return [before, await query('select count(*)::int from promo.operations')];
  });
  expect(seen).toEqual([[[0]], [[0]]]);
  const written = inStore(store.url, options, (query) =>
    query('delete from promo_store.panics where verdict_id = 1'),
  );
  await expect(written).rejects.toThrow(/read-only transaction/);
});
