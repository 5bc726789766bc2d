/** `promo-intake promotions` as a process, by its role: killed at any moment, and two at once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';
import { killWorkers, RunningCommand } from '../support/worker';

const WITHIN_MS = 60_000;
const KILLS = inRun({ usual: 1, long: 2 });
jest.setTimeout(3 * WITHIN_MS);

let store: TestStore;
let role: { name: string; url: string };
beforeEach(async () => {
  store = await freshStore({ own: true });
  role = await makeRole(store.url, 'promotions');
  await grantRoles(store.url, [{ role: 'promotions', name: role.name }]);
  const promotions = definitionsOf('id: bets, type: bet_count, target: 1, completes: each');
  await applyDefinitions(store.pool, promotions);
});
afterEach(async () => {
  await killWorkers();
  await dropRoles(store.url, [role.name]);
  await store.close();
});

const start = (...options: readonly string[]) =>
  new RunningCommand(['promotions', ...options], { DATABASE_URL: role.url, HTTP_PORT: '0' });

/** Decides bets, and refunds of a part of them, until it is stopped. */
async function decide(isDone: () => boolean): Promise<void> {
  const random = makeRandom(3);
  const partition = store.partition('acme');
  for (let batch = 0; !isDone(); batch++) {
    await partition.read(
      ...Array.from({ length: random.between(1, 20) }, (_, event) =>
        aBet({
          event_id: `b${batch}-${event}`,
          round_id: `r${batch}-${event}`,
          player_ref: `p${batch % 50}`,
        }),
      ),
      aRefund({ event_id: `x${batch}`, round_id: `r${Math.max(0, batch - random.below(20))}-0` }),
    );
    await sleep(random.below(15));
  }
}

/** Each bet that counts is one completion. */
const EQUAL = `select bets > 0 and bets = counted and bets = held from (select
  (select count(*) from promo.verdicts where kind = 'bet' and counts_now) as bets,
  (select sum(value) from promo_store.promotion_progress p cross join unnest(p.amounts) value
    where p.generation = (select generation from promo_store.folds where fold = 'promotions')) as counted,
  (select sum(case change when 0 then 1 when 1 then -1 end) from promo_store.promotion_completions) as held
) counts`;

const untilEqual = () =>
  until('each bet that counts is one completion', WITHIN_MS, async () => (await store.value(EQUAL)) === 't');

test('two processes, the one that works is killed: another takes over, and nothing is missing or twice [P16]', async () => {
  let isDone = false;
  const deciding = decide(() => isDone);
  const random = makeRandom(5);
  let processes = [start(), start()];
  const isFolding = (each: RunningCommand) => each.metric('promo_intake_promotions_folding');
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
  for (const each of processes) expect(await each.stop()).toEqual({ code: 0, signal: null });
  expect(await store.value('select is_running from promo.promotion_coverage')).toBe('f');
});

test('a process that stops by a signal hands over at once; --rebuild counts again with the same completions [P12]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  const first = start();
  await untilEqual();
  const completions = () => store.rows('select * from promo_store.promotion_completions order by entry_no');
  const before = await completions();
  const second = start();
  await second.waitForLog('another process folds, waiting');
  await first.stop();
  // Otherwise it would wait for the end of the lease, 10 s.
  await second.waitForLog('this process folds', 9_000);
  await second.stop();
  const third = start('--rebuild', 'a try');
  await third.waitForLog('generation shown');
  expect(await completions()).toEqual(before);
  expect(await store.value('select generation from promo.promotion_coverage')).toBe('2');
  expect(await third.metric('promo_intake_promotions_failures_total')).toBe(0);
  expect(await third.stop()).toEqual({ code: 0, signal: null });
});
