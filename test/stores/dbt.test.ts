/** The dbt package of docs/analysts/dbt, run by real dbt: its copies equal the store. */
import { setTimeout as sleep } from 'node:timers/promises';
import { findPython } from '../../dev/python';
import { until } from '../../dev/servers/deadline';
import { erasePlayer } from '../../src/ledger/erasure';
import { grantRoles } from '../../src/ledger/roles';
import { type Dbt, makeDbt } from '../support/dbt';
import { aRollupFold, foldAll } from '../support/folds';
import { HeldWriter } from '../support/held-writer';
import { aBet, aDeposit, aRefund, aWin, freshStore, type TestStore } from '../support/ledger';
import { testWhere } from '../support/needed';
import { dropRoles, makeRole } from '../support/roles';

/** The first run installs dbt. */
const TEST_DEADLINE_MS = 900_000;
const WAIT_BEGINS_WITHIN_MS = 180_000;
const HELD_MS = 1_500;

const COPIES: readonly [copy: string, view: string, columns: string][] = [
  ['copy_ledger', 'ledger', 'entry_id, event_id, round_id, kind, amount, reverses_entry_id, entered_at'],
  ['copy_verdicts', 'verdicts', 'verdict_id, event_id, verdict, reason, kind, amount, decided_at'],
  ['copy_deliveries', 'deliveries', 'event_id, content_differs, first_verdict, source_offset, received_at'],
];

const python = findPython();
let store: TestStore;
let dbt: Dbt;
let role: { name: string; url: string };

/** Makes a role with a schema of its own. */
async function makeAnalyst(grant?: string): Promise<void> {
  role = await makeRole(store.url, 'dbt');
  await grantRoles(store.url, [{ role: 'reader', name: role.name }]);
  await store.rows(`create schema analytics authorization ${role.name}`);
  if (grant !== undefined) await store.rows(`${grant} to ${role.name}`);
}

beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(async () => {
  dbt?.close();
  await dropRoles(store.url, [role.name]);
  await store.close();
});

const build = (...args: string[]) => buildAs('one', args);

async function buildAs(name: string, args: readonly string[] = []): Promise<void> {
  const { code, output } = await dbt.run(role.url, 'analytics', ['build', ...args], name);
  expect([code, output]).toEqual([0, expect.stringContaining('Completed successfully')]);
}

async function expectEqualCopies(): Promise<void> {
  for (const [copy, view, columns] of COPIES) {
    const ofStore = await store.rows(`select ${columns} from promo.${view} order by ${columns}`);
    const ofCopy = await store.rows(`select ${columns} from analytics.${copy} order by ${columns}`);
    expect([copy, ofCopy]).toEqual([copy, ofStore]);
  }
}

/** Waits until so many models wait: for the horizon, or for the same model of another run. */
const untilWaiting = (models: number) =>
  until('dbt waits', WAIT_BEGINS_WITHIN_MS, async () => {
    const waiting = `select count(*) from pg_stat_activity where usename = $1 and (wait_event = 'PgSleep' or wait_event_type = 'Lock')`;
    return Number(await store.value(waiting, [role.name])) >= models;
  });

const TURNOVER =
  'select bets, turnover::float, refunded_turnover::float, net_turnover::float, net_result::float';
const turnover = () => store.rows(`${TURNOVER} from analytics.turnover_daily order by day`);

/** Moves the verdicts of a round into January. */
async function moveToJanuary(roundId: string): Promise<void> {
  store.damaged = true;
  await store.rows(`select promo_store.create_month('history', '2026-01-01')`);
  await store.rows(
    `update promo_store.history h set decided_at = '2026-01-15 12:00Z' from promo_store.rounds r where r.round_no = h.round_no and r.round_id = $1`,
    [roundId],
  );
  await store.rows(`update promo_store.rounds set opened_at = '2026-01-15 12:00Z' where round_id = $1`, [
    roundId,
  ]);
}

testWhere(python)(
  'runs of dbt copy each row once, beside a writer that is held open, with refunds, and without dropped months [L4]',
  async (found) => {
    dbt = await makeDbt(found);
    await makeAnalyst();
    const acme = store.partition('acme');
    const bet = aBet({ event_id: 'e-1', round_id: 'r-1' });
    for (const event of [bet, aWin({ event_id: 'e-2', round_id: 'r-1', amount: '4.00' }), bet])
      await acme.read(event);
    await acme.read(aBet({ event_id: 'e-3', round_id: 'r-old' }));
    await acme.read({ ...aBet({ event_id: 'e-4', round_id: 'r-2' }), occurred_at: 'now' });
    await moveToJanuary('r-old');
    await foldAll(aRollupFold(store.pool));
    await build();
    await expectEqualCopies();
    expect(await turnover()).toEqual([
      ['1', '10.5', '0', '10.5', '10.5'],
      ['1', '10.5', '0', '10.5', '6.5'],
    ]);

    // A number below those of later batches, whose row appears while dbt waits.
    const held = await HeldWriter.begin(store.url);
    await held.write('e-held');
    for (const event of [aRefund({ event_id: 'e-5', round_id: 'r-1' }), aDeposit({ event_id: 'e-6' }), bet])
      await acme.read(event);
    let isBuilt = false;
    const building = build().finally(() => {
      isBuilt = true;
    });
    await untilWaiting(COPIES.length);
    await sleep(HELD_MS);
    expect(isBuilt).toBe(false);
    await held.end('commit');
    await building;
    await expectEqualCopies();
    expect(
      await store.rows(`select count(*) from analytics.copy_verdicts where event_id = 'e-held'`),
    ).toEqual([['1']]);
    expect(await turnover()).toEqual([
      ['1', '10.5', '0', '10.5', '10.5'],
      ['1', '10.5', '10.5', '0', '0'],
    ]);
    expect(
      await store.rows(
        'select reason, events, events_of_hour, sample_event_id from analytics.rejections_hourly',
      ),
    ).toEqual([['malformed', '1', expect.any(String), 'e-4']]);
    expect(await store.rows('select resends, with_other_content from analytics.resends_daily')).toEqual([
      ['2', '0'],
    ]);

    await store.rows(`select promo.drop_months_before('2026-02-01')`);
    for (const event of [aBet({ event_id: 'e-7', round_id: 'r-7' }), bet]) await acme.read(event);
    // Without a lock, both runs would copy the rows, and both would write the days of the marts.
    const horizon = await HeldWriter.begin(store.url);
    const both = Promise.all([buildAs('one'), buildAs('two')]);
    await untilWaiting(COPIES.length * 2);
    await horizon.end('rollback');
    await both;
    await expectEqualCopies();
    expect(await store.rows(`select count(*) from analytics.copy_ledger where round_id = 'r-old'`)).toEqual([
      ['0'],
    ]);
    // The mart keeps the day.
    expect(await turnover()).toEqual([
      ['1', '10.5', '0', '10.5', '10.5'],
      ['2', '21', '10.5', '10.5', '10.5'],
    ]);
    expect(await store.rows('select resends, with_other_content from analytics.resends_daily')).toEqual([
      ['3', '0'],
    ]);

    const fresh = await dbt.run(role.url, 'analytics', ['source', 'freshness']);
    expect([fresh.code, fresh.output]).toEqual([
      0,
      expect.stringContaining('PASS freshness of promo.rollup_coverage'),
    ]);
  },
  TEST_DEADLINE_MS,
);

testWhere(python)(
  'a copy with players follows an erasure, and a copy of another lineage is refused [L4]',
  async (found) => {
    dbt = await makeDbt(found);
    await makeAnalyst('grant execute on function promo.changes_with_players(bigint, bigint, text)');
    const acme = store.partition('acme');
    for (const player of ['anna', 'bert'])
      await acme.read(aBet({ event_id: `e-${player}`, round_id: `r-${player}`, player_ref: player }));
    const withPlayers = ['--vars', '{with_players: true}'];
    await build(...withPlayers);
    const players = () =>
      store.rows('select event_id, player_ref from analytics.copy_ledger order by event_id');
    expect(await players()).toEqual([
      ['e-anna', 'anna'],
      ['e-bert', 'bert'],
    ]);

    const erasure = { operator: 'acme', player: 'anna', batch: 1_000 };
    await erasePlayer(store.url, { requestedBy: 'ops@desk' }, erasure, () => undefined);
    await build(...withPlayers);
    const [[erased] = []] = await store.rows('select erased_player from promo.erasures');
    expect(erased).toMatch(/^erased:[0-9]+$/);
    expect(await players()).toEqual([
      ['e-anna', erased],
      ['e-bert', 'bert'],
    ]);

    await store.rows(`update analytics.copy_lineage set lineage = '1/00000001/0'`);
    const refused = await dbt.run(role.url, 'analytics', ['run', ...withPlayers]);
    expect(refused.code).toBe(1);
    expect(refused.output).toContain('the numbers of the copy are of the lineage 1/00000001/0');
  },
  TEST_DEADLINE_MS,
);
