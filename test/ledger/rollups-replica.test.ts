/** Rollups on a server of its own, whose store moves to a promoted replica. */
import { until } from '../../dev/servers/deadline';
import { makeFold } from '../../src/fold/fold';
import { ROLLUP_RESULTS } from '../../src/rollups/rollups';
import { aBet, freshStore } from '../support/ledger';
import { ownServers, restartAsReplica } from '../support/servers';

const STEP_WITHIN_MS = 20_000;

test('a replica that becomes the primary goes on with the cursor that it has [L5]', async () => {
  const environment = { ...process.env, STACK: 'processes' };
  const servers = await ownServers({ need: ['postgres'], environment });
  try {
    const { postgres } = servers;
    if (postgres === undefined) throw new Error('no Postgres was started');
    const store = await freshStore({ server: servers.databaseUrl });
    const fold = makeFold(store.pool, ROLLUP_RESULTS, {
      holder: 'test',
      leaseMs: 10_000,
      slice: { rows: 1_000, ms: 500 },
      fill: { rows: 1_000, ms: 500 },
      now: () => performance.now(),
    });
    const moves: boolean[] = [];
    const foldAll = async () => {
      for (;;) {
        const stepped = await fold.step();
        if (stepped.kind === 'slice') moves.push(stepped.hasMoved);
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
  } finally {
    await servers.stop();
  }
});
