/**
 * The outbox of completions under failures at every step. Topics refuse at random, publishers crash around
 * each send and take the lease from one another, and entries appear meanwhile. Postgres is real.
 * test/stream/completions.test.ts has the same with a real Kafka.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import type { Encode } from '../../src/kafka/partition-batches';
import type { TopicsProducer } from '../../src/kafka/producer';
import { systemClock } from '../../src/lib/clock';
import { aCompletionPublisher, addEntries, addPromotions, entryStatement } from '../support/completions';
import { freshStore, type TestStore } from '../support/ledger';

const OPERATORS = ['acme', 'bravo'] as const;
/** The waits of operators that are held back are a thousandth of their length. */
const QUICK = { ...systemClock, now: () => systemClock.now() * 1_000 };
const PATTERN = 'completions.{operator}';
const SEEDS = inRun({ usual: 2, long: 6 });

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ maxConnections: 8 });
  await addPromotions(store.pool);
  // Entries are written by SQL, and no progress is worth them.
  store.damaged = true;
});
afterEach(() => store.close());

/** Topics in memory. @param crashes whether the process ends now */
function topicsIn(refuses: (topic: string) => boolean, crashes: () => boolean, pauseMs: () => number) {
  const stored = new Map<string, number[]>();
  /** @returns whether the topic has stored the messages */
  async function take<T>(topic: string, items: readonly T[], encode: Encode<T>): Promise<boolean> {
    await sleep(pauseMs());
    if (crashes()) throw new Error('crash before the messages are stored');
    if (refuses(topic)) return false;
    const numbers = items.map((item) => Number(/"entry_no":(\d+)/.exec(String(encode(item)?.bytes))?.[1]));
    stored.set(topic, [...(stored.get(topic) ?? []), ...numbers]);
    if (crashes()) throw new Error('crash after the messages are stored');
    return true;
  }
  const producer: TopicsProducer = {
    async send(topic, items, encode) {
      if (!(await take(topic, items, encode))) throw new Error(`${topic} refuses`);
    },
    async sendToTopics(items, encode) {
      const byTopic = [...items];
      const taken = await Promise.all(byTopic.map(([topic, its]) => take(topic, its, encode)));
      return new Map(byTopic.filter((_, index) => !taken[index]));
    },
    stop: async () => undefined,
  };
  return { producer, stored };
}

const never = () => false;
const publisher = (producer: TopicsProducer) =>
  aCompletionPublisher({ store: store.pool, producer, pattern: PATTERN, clock: QUICK });

test('a topic that refuses gets all its entries later, the refused ones first [S10]', async () => {
  let isRefusing = true;
  const { producer, stored } = topicsIn(
    (topic) => isRefusing && topic === 'completions.bravo',
    never,
    () => 0,
  );
  const steps = publisher(producer);
  await addEntries(store.pool, {}, { operator: 'bravo' }, { operator: 'bravo', change: 1 });
  expect(await steps.step()).toMatchObject({ messages: 1, heldBack: [{ operatorId: 'bravo' }] });
  await addEntries(store.pool, { operator: 'bravo', player: 'p-2' }, { player: 'p-2' });
  expect(await steps.step()).toMatchObject({ messages: 1, heldBack: [] });
  isRefusing = false;
  await sleep(5);
  expect(await steps.stepBacklogs()).toMatchObject({ messages: 3, caughtUp: ['bravo'] });
  expect([...stored].sort()).toEqual([
    ['completions.acme', [1, 5]],
    ['completions.bravo', [2, 3, 4]],
  ]);
});

test('a step that fails moves no cursor, so its entries come again [S10]', async () => {
  await addEntries(store.pool, {}, { operator: 'bravo' });
  let isCrashing = true;
  const { producer, stored } = topicsIn(
    never,
    () => isCrashing,
    () => 0,
  );
  await expect(publisher(producer).step()).rejects.toThrow('crash');
  expect(await store.value('select after from promo_store.completion_outbox')).toBe('0');
  isCrashing = false;
  expect(await publisher(producer).step()).toMatchObject({ messages: 2 });
  expect([...stored.values()].flat().sort()).toEqual([1, 2]);
});

test('entries get their numbers in the order of their commits, also of two writers [S10]', async () => {
  const { producer, stored } = topicsIn(never, never, () => 0);
  const [first, second] = await Promise.all([store.pool.connect(), store.pool.connect()]);
  try {
    await first.query('begin');
    await first.query(entryStatement({ player: 'p-1' }));
    await second.query('begin');
    let isThrough = false;
    const waiting = second.query(entryStatement({ player: 'p-2' })).then(async () => {
      isThrough = true;
      await second.query('commit');
    });
    await until('the second writer waits or is through', 60_000, async () => {
      const [[locks] = []] = await store.rows('select count(*) from pg_locks where not granted');
      return Number(locks) > 0 || isThrough;
    });
    expect(isThrough).toBe(false);
    // A publisher does not wait for writers.
    expect(await publisher(producer).step()).toMatchObject({ messages: 0 });
    await first.query('commit');
    await waiting;
  } finally {
    first.release();
    second.release();
  }
  await publisher(producer).step();
  expect(stored.get('completions.acme')).toEqual([1, 2]);
  expect(
    await store.rows('select player_ref from promo_store.promotion_completions order by entry_no'),
  ).toEqual([['p-1'], ['p-2']]);
});

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'every entry is sent, and for the first time in its order, whatever fails: seed %i [S10]',
  async (seed) => {
    const random = makeRandom(seed);
    let isCalm = false;
    const refusing = new Set<string>();
    const { producer, stored } = topicsIn(
      (topic) => !isCalm && refusing.has(topic),
      () => !isCalm && random.chance(0.05),
      () => random.below(4),
    );
    // A publisher that has crashed is replaced by another one, which knows nothing of its waits.
    let publishers = 0;
    const fresh = () =>
      aCompletionPublisher({
        store: store.pool,
        producer,
        pattern: PATTERN,
        leaseMs: 20,
        clock: QUICK,
        holder: `publisher ${++publishers}`,
      });
    const life = async () => {
      let publisher = fresh();
      for (let step = 0; step < 60 || !isCalm; step++) {
        const both = await Promise.allSettled([publisher.step(), publisher.stepBacklogs()]);
        if (both.some(({ status }) => status === 'rejected') || random.chance(0.02)) publisher = fresh();
        await sleep(random.below(3));
      }
    };
    const writing = (async () => {
      for (let player = 0; player < 150; player++) {
        const entry = { operator: random.pick(OPERATORS), player: `p-${player}` };
        await addEntries(
          store.pool,
          entry,
          ...(random.chance(0.5) ? [{ ...entry, change: 1 as const }] : []),
        );
        const topic = `completions.${random.pick(OPERATORS)}`;
        if (random.chance(0.1)) refusing.add(topic);
        if (random.chance(0.15)) refusing.delete(topic);
      }
      isCalm = true;
    })();
    await Promise.all([life(), life(), writing]);
    const last = fresh();
    for (let step = 0; step < 100; step++) {
      await sleep(5);
      await last.step();
      await last.stepBacklogs();
    }
    expect(await store.rows('select * from promo.held_back_completions')).toEqual([]);
    for (const operator of OPERATORS) {
      const rows = await store.rows(
        `select e.entry_no from promo_store.promotion_completions e join promo_store.promotion_windows using (window_no)
        join promo_store.promotions using (promotion_no) join promo_store.operators o using (operator_no)
        where o.operator_id = $1 order by 1`,
        [operator],
      );
      const first = [...new Set(stored.get(`completions.${operator}`))];
      expect(first).toEqual(rows.map(([entryNo]) => Number(entryNo)));
    }
    expect([...stored.values()].flat().length).toBeGreaterThan(100);
  },
);
