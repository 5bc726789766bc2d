/** The figures of a report, from the views and from the rollups, as the role of a reader. */
import { fillStore } from '../../dev/bench/filled-store';
import { makeRandom } from '../../dev/random';
import { grantRoles } from '../../src/ledger/roles';
import { applyPromotions } from '../../src/promotion-store/documents';
import type { VerdictReport } from '../../src/report/data';
import { reportPage } from '../../src/report/page';
import { type ReportRequest, readReport, UnknownOperator } from '../../src/report/report';
import { UnusableRange } from '../../src/report/window';
import { aRollupFold, foldAll } from '../support/folds';
import {
  aBet,
  aDeposit,
  aRefund,
  aSettled,
  aWin,
  freshStore,
  type Json,
  type TestStore,
  withClient,
} from '../support/ledger';
import { foldPromotions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';

const DAY_MS = 86_400_000;
let store: TestStore;
let reader: { name: string; url: string };
beforeEach(async () => {
  store = await freshStore();
  reader = await makeRole(store.url, 'reader');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
});
afterEach(async () => {
  await dropRoles(store.url, [reader.name]);
  await store.close();
});

function reportOf(asked: Partial<ReportRequest> = {}): Promise<VerdictReport> {
  return readReport(reader.url, {
    operator: 'acme',
    span: {},
    timeZone: 'UTC',
    withinMs: 30_000,
    madeBy: '1.0.0',
    ...asked,
  });
}

/** Three brands, two currencies, a refund, faults, resends, and another operator with equal ids. */
async function story(): Promise<void> {
  const at = () => new Date(Date.now() - 3_000).toISOString();
  const own = (changes: Json) => ({ occurred_at: at(), player_ref: 'player-secret', ...changes });
  const [acme, bravo] = [store.partition('acme', 1), store.partition('bravo', 1)];
  const events = [
    aBet(own({ event_id: 'b1', round_id: 'r1', amount: '10.00', game: { id: 'g1' } })),
    aWin(own({ event_id: 'w1', round_id: 'r1', amount: '4.00', game: { id: 'g1' } })),
    aSettled(own({ event_id: 's1', round_id: 'r1', amount: '10.00', game: { id: 'g1' } })),
    aBet(own({ event_id: 'b2', round_id: 'r2', amount: '5.50', game: { id: 'g2' } })),
    aRefund(own({ event_id: 'x2', round_id: 'r2' })),
    aBet(own({ event_id: 'b3', round_id: 'r3', amount: '20.00', brand: 'second', game: { id: 'g2' } })),
    aWin(own({ event_id: 'w3', round_id: 'r3', amount: '50.25', brand: 'second', game: { id: 'g2' } })),
    aBet(own({ event_id: 'b4', round_id: 'r4', amount: '7', currency: 'JPY' })),
    aBet(own({ event_id: 'f1', round_id: 'r5', amount: '1.234' })),
    aBet(own({ event_id: 'f2', round_id: 'r5', amount: '0.05' })),
    aDeposit(own({ event_id: 'd1', amount: '100.00' })),
  ];
  await acme.read(...events);
  await acme.read(
    aDeposit(own({ event_id: 'd1', amount: '99.00' })),
    aBet({ event_id: 'f2', round_id: 'r5', amount: '0.06' }),
  );
  await bravo.read(aBet(own({ event_id: 'b1', round_id: 'r1', amount: '1000.00' })));
}

test('a report counts verdicts, reasons, amounts net of refunds, and resends of one operator', async () => {
  await story();
  const { totals, reasons, amounts, games, connections, operator } = await reportOf();
  expect(operator).toBe('acme');
  expect([totals.accepted, totals.rejected, totals.skipped]).toEqual([9, 1, 1]);
  expect([totals.resent, totals.differing]).toEqual([0, 2]);
  expect(reasons.map(({ reason, verdict, events }) => [reason, verdict, events])).toEqual([
    ['bad_amount', 'rejected', 1],
    ['below_min_bet', 'skipped', 1],
  ]);
  expect(
    amounts.brands.map(({ brand, currency, turnover, wins, bets_less_wins, bets, refunded_bets }) =>
      [brand, currency, turnover, wins, bets_less_wins, bets, refunded_bets].join(' '),
    ),
  ).toEqual(['main EUR 10.00 4.00 6.00 2 1', 'second EUR 20.00 50.25 -30.25 1 0', 'main JPY 7 0 7 1 0']);
  expect(amounts.currencies.map(({ currency, turnover }) => [currency, turnover])).toEqual([
    ['EUR', '30.00'],
    ['JPY', '7'],
  ]);
  expect(
    games.map(({ game, currency, bets, refunded_bets, refunded_amount }) =>
      [game, currency, bets, refunded_bets, refunded_amount].join(' '),
    ),
  ).toEqual(['g2 EUR 2 1 5.50', 'g1 EUR 1 0 0.00', ' JPY 1 0 0']);
  const [stream] = connections;
  expect([stream?.connection, stream?.accepted, stream?.differing]).toEqual(['acme-stream', 9, 2]);
  expect(stream?.timing.within.map(({ events }) => events)).toEqual([0, 0, 11, 11, 11, 11, 11]);
});

test('a report of all operators has each of them, and names no player, event or round', async () => {
  await story();
  const report = await reportOf({ operator: null });
  expect(report.totals.accepted).toBe(10);
  expect(report.amounts.brands.map(({ operator }) => operator).sort()).toEqual([
    'acme',
    'acme',
    'acme',
    'bravo',
  ]);
  expect(JSON.stringify(report)).not.toMatch(/player-secret|"b1"|"r1"/);
});

test('a report has the promotions, with completions, shares and misses, and names no player [P18]', async () => {
  const flows = [
    'id: bets, type: turnover_target, counts: bet, games: [g1], target: { EUR: "10.00" }',
    'id: dep, type: deposit_target, target: { EUR: "200.00" }',
  ];
  expect((await reportOf()).promotions.list).toEqual([]);
  await applyPromotions(
    store.pool,
    { promotions: definitionsOf(...flows) },
    { by: 'test', reason: null, takeover: 'next_window' },
    () => true,
  );
  await story();
  await foldPromotions(store.pool);
  const report = await reportOf();
  const named = { operator: 'acme', state: 'counts', values: 1 };
  expect(report.promotions.list).toEqual([
    {
      ...named,
      promotion: 'bets',
      type: 'turnover_target',
      completed: 1,
      held: 1,
      revoked: 0,
      shares: { below_half: 0, below_target: 0, reached: 1 },
      misses: [
        { reason: 'game_not_listed', events: 2 },
        { reason: 'no_game', events: 1 },
      ],
    },
    {
      ...named,
      promotion: 'dep',
      type: 'deposit_target',
      completed: 0,
      held: 0,
      revoked: 0,
      shares: { below_half: 0, below_target: 1, reached: 0 },
      misses: [],
    },
  ]);
  expect(report.promotions.buckets.reduce((sum, { held }) => sum + held, 0)).toBe(1);
  expect(JSON.stringify(report)).not.toMatch(/player-secret|"b1"|"r1"/);
  const page = reportPage(report);
  expect(page).toContain('<section id="promotions"');
  expect(page).not.toMatch(/player-secret/);
  const of = { ...report, promotions: { list: [], buckets: [] } };
  expect(reportPage(of)).not.toContain('#promotions');
});

test('the rollups and the views give one report', async () => {
  await story();
  const random = makeRandom(7);
  const acme = store.partition('acme', 2);
  for (let index = 0; index < 200; index++) {
    const ids = { event_id: `e-${index}`, round_id: `round-${random.below(60)}` };
    const make = random.pick([aBet, aBet, aBet, aWin, aRefund]);
    await acme.read(make({ ...ids, game: { id: random.pick(['g1', 'g2', 'g3']) } }));
  }
  const span = { to: Date.now() + 60_000 };
  const views = await reportOf({ span });
  expect([views.coverage.verdicts_from, views.coverage.amounts_from]).toEqual(['views', 'views']);
  await foldAll(aRollupFold(store.pool));
  const rollups = await reportOf({ span });
  expect([rollups.coverage.verdicts_from, rollups.coverage.amounts_from]).toEqual(['rollups', 'rollups']);
  expect(figuresAlone(rollups)).toEqual(figuresAlone(views));
});

test('rollups that are behind are not read', async () => {
  await foldAll(aRollupFold(store.pool));
  await story();
  await store.rows(
    `update promo_store.fold_generations set caught_up_at = caught_up_at - interval '11 minutes' returning 1`,
  );
  const report = await reportOf();
  expect([report.coverage.verdicts_from, report.coverage.amounts_from]).toEqual(['views', 'views']);
  expect(report.totals.accepted).toBe(9);
});

/** Without the times of the report. The rollups know the newest time by the hour alone. */
function figuresAlone({
  totals,
  buckets,
  reasons,
  connections,
  amounts,
  games,
  contradictions,
}: VerdictReport) {
  const { currencies, brands, days } = amounts;
  return {
    totals,
    reasons,
    currencies,
    brands,
    days,
    games,
    contradictions,
    buckets: buckets.map(({ from, to: _, ...counts }) => ({ from, counts })),
    connections: connections.map(({ newest: _, ...rest }) => rest),
  };
}

test('months of history give one report from the rollups and from the views, in UTC and in another zone', async () => {
  await store.partition('acme').read({ event_id: '' });
  await withClient(store.url, (client) =>
    fillStore(client, 'acme', {
      events: 60_000,
      days: 45,
      roundsPerRefund: 20,
      lateRounds: 500,
      tail: 200,
      players: 20_000,
      games: 500,
      rejected: 0.03,
      eventsPerDuplicate: 200,
    }),
  );
  const from = Math.floor((Date.now() - 40 * DAY_MS) / DAY_MS) * DAY_MS;
  const span = { from, to: from + 38 * DAY_MS };
  const zones = ['UTC', 'Europe/Warsaw', 'Asia/Kolkata'];
  const before = new Map<string, VerdictReport>();
  for (const timeZone of zones) before.set(timeZone, await reportOf({ span, timeZone }));
  await foldAll(aRollupFold(store.pool));
  const sources: string[] = [];
  for (const timeZone of zones) {
    const [views, rollups] = [before.get(timeZone), await reportOf({ span, timeZone })];
    if (views === undefined) throw new Error('no report');
    sources.push(
      `${rollups.coverage.verdicts_from} ${rollups.coverage.amounts_from} ${rollups.coverage.amounts_time_zone}`,
    );
    expect(rollups.totals).toEqual(views.totals);
    expect(rollups.buckets).toEqual(views.buckets);
    if (timeZone === 'UTC') expect(figuresAlone(rollups)).toEqual(figuresAlone(views));
  }
  expect(sources).toEqual(['rollups rollups UTC', 'rollups rollups UTC', 'views rollups UTC']);
  // The figures of the guide.
  const utc = await reportOf({ span });
  const [[bets, refunded] = []] = await store.rows(
    `select sum(net_amount)::text, sum(refunded)::text from promo.ledger_daily where operator_id = 'acme' and kind = 'bet' and day >= '${new Date(from).toISOString()}'::date and day < '${new Date(span.to).toISOString()}'::date`,
  );
  expect([utc.amounts.currencies[0]?.turnover, `${utc.amounts.currencies[0]?.refunded_bets}`]).toEqual([
    bets,
    refunded,
  ]);
}, 120_000);

test('an empty store gives a report that says so', async () => {
  const report = await reportOf({ operator: null });
  expect(report.buckets).toHaveLength(30);
  expect(report.totals.accepted).toBe(0);
});

test('one hour has buckets of a minute', async () => {
  await story();
  const report = await reportOf({ span: { from: Date.now() - 3_600_000 } });
  expect([report.step, report.buckets.length >= 60, report.totals.accepted]).toEqual(['minute', true, 9]);
});

test('a part that is too slow is missing and named, and the other parts are there', async () => {
  await story();
  await withClient(store.url, async (client) => {
    await client.query('begin; lock table promo_store.resends in access exclusive mode');
    const report = await reportOf({ withinMs: 700 });
    expect(report.coverage.too_slow).toEqual(['resends']);
    expect(report.totals.accepted).toBe(9);
    expect(report.findings[0]).toMatchObject({
      level: 'act',
      text: expect.stringContaining('The report has no resends'),
    });
    await client.query('rollback');
  });
});

test('an unknown operator, and a range that is none, are refused', async () => {
  await expect(reportOf({ operator: 'acmee' })).rejects.toBeInstanceOf(UnknownOperator);
  await expect(reportOf({ span: { from: Date.now() + DAY_MS } })).rejects.toBeInstanceOf(UnusableRange);
  await expect(reportOf({ span: { from: 0 } })).rejects.toThrow('more than 1100 days');
});
