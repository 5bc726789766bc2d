/** `promo-intake rollups` as a process, by its role: killed at any moment, and two at once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { killWorkers, RunningCommand } from '../support/worker';

const WITHIN_MS = 60_000;
const KILLS = inRun({ usual: 1, long: 2 });
jest.setTimeout(3 * WITHIN_MS);

let store: TestStore;
let role: { name: string; url: string };
beforeEach(async () => {
  store = await freshStore({ own: true });
  role = await makeRole(store.url, 'rollups');
  await grantRoles(store.url, [{ role: 'rollups', name: role.name }]);
});
afterEach(async () => {
  await killWorkers();
  await dropRoles(store.url, [role.name]);
  await store.close();
});

const start = () => new RunningCommand(['rollups'], { DATABASE_URL: role.url, HTTP_PORT: '0' });

/** Decides bets, and refunds of a part of them, until it is stopped. */
async function decide(isDone: () => boolean): Promise<void> {
  const random = makeRandom(3);
  const partition = store.partition('acme');
  for (let batch = 0; !isDone(); batch++) {
    await partition.read(
      ...Array.from({ length: random.between(1, 20) }, (_, event) =>
        aBet({ event_id: `b${batch}-${event}`, round_id: `r${batch}-${event}`, game_id: `g${event % 3}` }),
      ),
      aRefund({ event_id: `x${batch}`, round_id: `r${Math.max(0, batch - random.below(20))}-0` }),
    );
    await sleep(random.below(15));
  }
}

const EQUAL = `select
  (select sum(verdicts) from promo.verdicts_hourly) = (select count(*) from promo.verdicts) and
  (select sum(entries) from promo.ledger_daily) = (select count(*) from promo.ledger where reverses_entry_id is null) and
  (select sum(reversals) from promo.ledger_daily) = (select count(reverses_entry_id) from promo.ledger) and
  (select sum(net_amount) from promo.ledger_daily) = (select sum(amount) from promo.ledger)`;

const untilEqual = () =>
  until('the rollups equal a count', WITHIN_MS, async () => (await store.value(EQUAL)) === 't');

test('two processes, the one that works is killed: another takes over, and nothing is missing or twice [L5]', async () => {
  let isDone = false;
  const deciding = decide(() => isDone);
  const random = makeRandom(5);
  let processes = [start(), start()];
  const isFolding = (each: RunningCommand) => each.metric('promo_intake_rollups_folding');
  try {
    for (let kills = 0; kills < KILLS; kills++) {
      await until('one process folds', WITHIN_MS, async () => {
        for (const each of processes) if ((await isFolding(each)) === 1) return true;
        return false;
      });
      await sleep(random.below(1_500));
      for (const each of processes) {
        if ((await isFolding(each)) !== 1) continue;
        await each.kill();
        processes = [...processes.filter((other) => other !== each), start()];
        break;
      }
    }
  } finally {
    isDone = true;
    await deciding;
  }
  await untilEqual();
  const folding = await Promise.all(processes.map(isFolding));
  expect(folding.toSorted()).toEqual([0, 1]);
  for (const each of processes) {
    expect(await each.metric('promo_intake_rollups_lag_seconds')).toBeLessThan(60);
    expect(await each.stop()).toEqual({ code: 0, signal: null });
  }
  expect(await store.value('select is_running from promo.rollup_coverage')).toBe('f');
});

test('a process that stops by a signal hands over at once; --rebuild counts again [L5]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  const first = start();
  await untilEqual();
  const second = start();
  await second.waitForLog('another process folds, waiting');
  await first.stop();
  // Otherwise it would wait for the end of the lease, 10 s.
  await second.waitForLog('this process folds', 9_000);
  await second.stop();
  const third = new RunningCommand(['rollups', '--rebuild', 'a try'], {
    DATABASE_URL: role.url,
    HTTP_PORT: '0',
  });
  await third.waitForLog('generation shown');
  await untilEqual();
  expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
  expect(await third.metric('promo_intake_rollups_failures_total')).toBe(0);
  expect(await third.stop()).toEqual({ code: 0, signal: null });
});
