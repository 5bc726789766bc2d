/** Processes of promotions beside a server that dies, and a standby that was behind. */
import { until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { inSnapshot } from '../../src/postgres/snapshot';
import { recountPromotions } from '../../src/promotion-store/recount';
import { aBet, aRefund, freshStore } from '../support/ledger';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { makeRole } from '../support/roles';
import { keepStandby, withOwnPostgres } from '../support/servers';
import { killWorkers, RunningCommand } from '../support/worker';

const WITHIN_MS = 60_000;
/** Servers of its own are started four times. */
jest.setTimeout(4 * WITHIN_MS);
afterEach(killWorkers);

/** Nothing is left to count. A statement fails while the server is away. */
const COUNTED = `select g.after = (promo_store.last_batch() + 1) * 8192 - 1 and g.lineage = promo.lineage() from promo_store.folds f
join promo_store.fold_generations g using (fold, generation) where f.fold = 'promotions'`;
const COMPLETIONS = `select encode(completion_id, 'hex'), change, player_ref, ordinal, attempt from promo_store.promotion_completions order by entry_no`;
const PROGRESS = `select player_ref, amounts, score from promo_store.promotion_progress order by window_no, player_ref`;

test('a standby that was behind takes over, and one of two processes is killed: completions get the ids of before [P12] [P16]', async () => {
  await withOwnPostgres(async (postgres, databaseUrl) => {
    const store = await freshStore({ server: databaseUrl });
    const role = await makeRole(store.url, 'promotions');
    await grantRoles(store.url, [{ role: 'promotions', name: role.name }]);
    const promotions = definitionsOf(
      'id: bets, type: bet_count, target: 2, completes: each',
      'id: race, type: leaderboard, points: [{ counts: bet, points: 5 }]',
    );
    await applyDefinitions(store.pool, promotions);
    const start = () => new RunningCommand(['promotions'], { DATABASE_URL: role.url, HTTP_PORT: '0' });
    const untilCounted = () =>
      until('all is counted', WITHIN_MS, () =>
        store.value(COUNTED).then(
          (counted) => counted === 't',
          () => false,
        ),
      );
    const bet = (event: string, player_ref: string) =>
      aBet({ event_id: event, round_id: `r-${event}`, player_ref });
    const refund = (round: string, player_ref: string) =>
      aRefund({ event_id: `x-${round}`, round_id: `r-${round}`, player_ref });
    const first = [bet('a1', 'ann'), bet('b1', 'ben'), bet('a2', 'ann')];
    // Ann loses her completion, and attains it again. Ben completes.
    const later = [refund('a1', 'ann'), bet('b2', 'ben'), bet('a3', 'ann'), bet('c1', 'cid')];

    const processes = [start(), start()];
    await store.partition('acme').read(...first);
    await untilCounted();
    const takeOver = await keepStandby(postgres, (sql) => store.value(sql), WITHIN_MS);
    const lost = store.writer().partition('acme');
    for (const [place, event] of later.entries()) {
      await lost.readAt(first.length + place, event);
      await untilCounted();
    }
    const [completions, progress] = [await store.rows(COMPLETIONS), await store.rows(PROGRESS)];
    expect(
      completions.map(([, change, player, ordinal, attempt]) => [change, player, ordinal, attempt]),
    ).toEqual([
      ['0', 'ann', '1', '1'],
      ['1', 'ann', '1', '1'],
      ['0', 'ben', '1', '1'],
      ['0', 'ann', '1', '2'],
    ]);

    await takeOver();
    expect(await store.rows(COMPLETIONS)).toEqual(completions.slice(0, 1));
    processes[0]?.signal('SIGKILL');
    start();
    const again = store.writer().partition('acme');
    for (const [place, event] of later.entries()) {
      await again.readAt(first.length + place, event);
      await untilCounted();
    }
    expect(await store.rows(COMPLETIONS)).toEqual(completions);
    expect(await store.rows(PROGRESS)).toEqual(progress);
    const access = { applicationName: 'test', timeoutMs: WITHIN_MS };
    expect(await inSnapshot(store.url, access, (reader) => recountPromotions(reader, 1))).toMatchObject({
      type: 'counted',
      recounted: { damages: [], skipped: 0 },
    });
    await killWorkers();
    await store.close();
  });
});
