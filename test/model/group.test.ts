/**
 * Random feeds on a real Postgres, decided by workers whose batches hold records of several partitions. The
 * rounds of the batches overlap, partitions move, and a worker that lost a partition continues with it for a
 * while. Afterwards the store must follow the rules, and the offsets must agree with it.
 */
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { freshStore, type TestStore } from '../support/ledger';
import { Group, type GroupPlan } from './group';
import { makePlan, REFERENCE } from './plan';
import { verify } from './verify';
import { endBackends, record } from './writers';

const RUNS = process.env.SEED === undefined ? inRun({ usual: 2, long: 4, variable: 'MODEL_RUNS' }) : 1;
jest.setTimeout(30_000 + RUNS * 30_000);

const WORKERS = 3;
const seeds = Array.from({ length: RUNS }, () =>
  process.env.SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(process.env.SEED),
);

function planOf(seed: number): { plan: ReturnType<typeof makePlan>; group: GroupPlan } {
  const random = makeRandom(seed + 3);
  const plan = makePlan(seed);
  return {
    plan,
    group: {
      seed,
      partitions: plan.partitions,
      batchesAtOnce: random.between(1, 2),
      mostParts: random.between(2, 6),
      mostRecords: random.pick([3, 10, 40]),
    },
  };
}

test.each(['', ', while connections are cut'])(
  'batches of several partitions that share rounds and move between workers decide each record once%s [R1] [K1] [K3] [D2] [D3] [U1] [U4]',
  async (cut) => {
    for (const seed of seeds) {
      const store = await freshStore({ reference: REFERENCE, own: true });
      try {
        await carryOut(store, seed, cut !== '');
      } catch (error) {
        const command = `SEED=${seed} npx jest --selectProjects model -- group`;
        throw new Error(`seed ${seed} failed; again: ${command}`, { cause: error });
      } finally {
        await store.close();
      }
    }
  },
);

async function carryOut(store: TestStore, seed: number, isCut: boolean): Promise<void> {
  const began = performance.now();
  const { plan, group: groupPlan } = planOf(seed);
  const { items, again, options } = record();
  const workers = Array.from({ length: WORKERS }, (_, worker) =>
    store.writer({
      ...options,
      maxConnections: groupPlan.batchesAtOnce + 1,
      // Every second worker locks only the rounds of undecided events, as for large batches.
      ...(worker % 2 === 0 ? {} : { fewEvents: 0 }),
    }),
  );
  const group = new Group(groupPlan, workers);
  const ended = new AbortController();
  const killing = isCut ? endBackends(store, plan.backendKillsMs, ended.signal) : Promise.resolve(0);
  await group.run().finally(() => ended.abort());
  const killed = await killing;

  await verify({ store, plan, items, answers: group.answers });
  expect({ deadlocks: again.deadlocks, unnoticed: await store.deadlocks() }).toEqual({
    deadlocks: 0,
    unnoticed: 0,
  });
  const ends = plan.partitions.map(({ records }) => records.length);
  expect(group.offsets).toEqual(ends);
  expect(
    await store.rows(
      'select topic, partition, next_offset, decided_up_to from promo_store.partitions order by 1, 2',
    ),
  ).toEqual(
    plan.partitions
      .map(({ topic, partition, records }) => [topic, `${partition}`, `${records.length}`, null])
      .sort(),
  );
  const { together, late, moves, undecided } = group.met;
  expect(Math.min(together, late, moves)).toBeGreaterThan(0);
  // A race that is lost five times is the only other reason to leave a batch, and each part then goes alone.
  if (!isCut) expect([...undecided.keys()].filter((name) => name !== 'NotTogether')).toEqual([]);
  process.stdout.write(
    `group: seed ${seed}: ${together} batches of several partitions, ${moves} moves, ${late} parts of lost partitions, ` +
      `${again.races} lost races, undecided ${JSON.stringify(Object.fromEntries(undecided))}, ${killed} connections ended, ` +
      `${Math.round(performance.now() - began)} ms\n`,
  );
}
