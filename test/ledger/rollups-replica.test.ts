/** Rollups on a server of its own, whose store moves to a replica, also to one that lacks commits. */
import { until } from '../../dev/servers/deadline';
import { aRollupFold } from '../support/folds';
import { aBet, aLogin, aRefund, freshStore, type TestStore } from '../support/ledger';
import { keepStandby, restartAsReplica, withOwnPostgres } from '../support/servers';

const STEP_WITHIN_MS = 60_000;
/** Two servers of their own are started one after the other, three times. */
jest.setTimeout(300_000);

const aFold = (store: TestStore) => aRollupFold(store.pool, { slice: { rows: 1_000, ms: 500 } });

test('a replica that becomes the primary goes on with the cursor that it has [L5]', async () => {
  await withOwnPostgres(async (postgres, databaseUrl) => {
    const store = await freshStore({ server: databaseUrl });
    const fold = aFold(store);
    const moves: boolean[] = [];
    const foldAll = async () => {
      for (;;) {
        const stepped = await fold.step();
        if (stepped.kind === 'slice') moves.push(stepped.isOnAnotherServer);
        if (stepped.kind === 'idle') return;
      }
    };
    await store.partition('acme').read(aBet({ event_id: 'b1' }));
    await foldAll();
    await store.partition('acme').read(aBet({ event_id: 'b2' }));

    const { promoted } = await restartAsReplica(postgres, (sql) => store.value(sql), STEP_WITHIN_MS);
    await expect(fold.step()).rejects.toThrow(/read-only|replica/);
    await store.rows('select pg_promote()');
    await promoted;
    await until('it folds', STEP_WITHIN_MS, () =>
      foldAll().then(
        () => true,
        () => false,
      ),
    );
    expect(moves).toContain(true);
    expect(await store.value('select generation from promo.rollup_coverage')).toBe('1');
    expect(await store.value('select sum(verdicts) from promo.verdicts_hourly')).toBe('2');
    await store.close();
  });
});

const ROLLUPS = `select 'hour', kind, verdict, sum(verdicts)::text from promo.verdicts_hourly group by 1, 2, 3
union all select 'day', kind, game_id, concat_ws(' ', sum(entries), sum(refunded), sum(reversals)) from promo.ledger_daily group by 1, 2, 3
union all select 'players', kind, brand, sum(players)::text from promo.players_daily group by 1, 2, 3
union all select 'player', kind, player_ref, concat_ws(' ', sum(entries), sum(amount_minor)) from promo.player_ledger_daily group by 1, 2, 3 order by 1, 2, 3`;
const HISTORY = `select 'hour', kind, verdict, count(*)::text from promo.verdicts group by 1, 2, 3
union all select 'day', kind, game_id, concat_ws(' ', count(*), count(*) filter (where refunded), count(*) filter (where refunded)) from promo.facts group by 1, 2, 3
union all select 'players', kind, brand, count(distinct player_ref)::text from promo.facts where not refunded group by 1, 2, 3
union all select 'player', kind, player_ref, concat_ws(' ', count(*), coalesce(sum(amount_minor), 0)) from promo.facts where not refunded group by 1, 2, 3 order by 1, 2, 3`;

test('rollups follow a replica that lacks commits, whose events are decided again in another order [L5] [U9]', async () => {
  await withOwnPostgres(async (postgres, databaseUrl) => {
    const store = await freshStore({ server: databaseUrl });
    const fold = aFold(store);
    const foldAll = async () => {
      while ((await fold.step()).kind !== 'idle');
    };
    const whenBack = (work: () => Promise<unknown>) =>
      until('the server is back', STEP_WITHIN_MS, () =>
        work().then(
          () => true,
          () => false,
        ),
      );
    const bet = (event: string, player_ref: string, game: string) =>
      aBet({ event_id: event, round_id: `r-${event}`, player_ref, game: { id: game } });
    const first = [bet('b1', 'ann', 'g1'), bet('b2', 'ben', 'g2')];
    const later = [
      aRefund({ event_id: 'x1', round_id: 'r-b1', player_ref: 'ann' }),
      bet('b3', 'ann', 'g2'),
      bet('b4', 'cid', 'g3'),
      aLogin({ event_id: 'l1', player_ref: 'ben' }),
    ];
    await store.partition('acme').read(...first);
    await foldAll();
    const before = await store.rows(ROLLUPS);

    // The standby has everything up to here.
    const takeOver = await keepStandby(postgres, (sql) => store.value(sql), STEP_WITHIN_MS);
    const lost = store.writer().partition('acme');
    await lost.readAt(first.length, ...later);
    await foldAll();
    expect(await store.rows(ROLLUPS)).not.toEqual(before);

    await takeOver();
    await whenBack(foldAll);
    expect(await store.rows(ROLLUPS)).toEqual(before);

    // The numbers of the lost batches are given again, to other events.
    const again = store.writer().partition('acme');
    await again.readAt(first.length, ...later.slice(0, 1));
    await foldAll();
    await again.readAt(first.length + 1, ...later.slice(1).reverse(), bet('b5', 'ben', 'g1'));
    await foldAll();
    expect(await store.rows(ROLLUPS)).toEqual(await store.rows(HISTORY));
    expect(await store.rows(`select brand, players from promo.players_daily where kind = 'bet'`)).toEqual([
      ['main', '3'],
    ]);
    expect(await store.value('select generation from promo.rollup_coverage')).toBe('1');
    await store.close();
  });
});
