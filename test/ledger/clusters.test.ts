/** Positions and coordinates of several Kafka clusters in one store. */

import { inspect } from '../../src/ledger/invariants';
import { nameOfCluster, readDecidedUpTo, recordFirstOffset } from '../../src/ledger/partition-state';
import {
  aBet,
  anEnvelope,
  brief,
  type Content,
  decidePart,
  freshStore,
  type TestStore,
} from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const source = { topic: 'acme', partition: 0 };
const NO_JSON = Buffer.from('{');

/** A worker that reads this cluster. */
function on(cluster: string) {
  const { intake } = store.writer({ cluster });
  return async (from: number, expectedUpTo: number, ...contents: Content[]): Promise<string[]> => {
    const envelopes = contents.map((content, index) => anEnvelope(content, from + index));
    const { answers, undecided } = await decidePart(intake, source, envelopes, expectedUpTo);
    if (undecided !== null) throw undecided;
    return answers.map(brief);
  };
}
const howFar = (...clusters: string[]) =>
  readDecidedUpTo(
    store.pool,
    clusters.map((cluster) => ({ ...source, cluster })),
  );

test('records of another cluster at the same offset are other records, whatever their content [U9] [K3]', async () => {
  const [a, b] = [aBet({ event_id: 'a' }), aBet({ event_id: 'b' })];
  // An event, a duplicate, and a record that only its bytes and its coordinates distinguish from others.
  expect(await on('')(0, 0, a, a, NO_JSON)).toEqual(['accepted', 'duplicate of accepted', 'without key']);
  const onB = on('B');
  expect(await onB(0, 0, b, a, NO_JSON)).toEqual(['accepted', 'duplicate of accepted', 'without key']);

  expect(await store.rows('select redeliveries from promo.partitions')).toEqual([['0'], ['0']]);
  expect(await store.value('select count(*) from promo.deliveries')).toBe('2');
  // On the same cluster they are the same.
  await onB(0, 0, b, a, NO_JSON);
  expect(await store.value('select sum(redeliveries) from promo.partitions')).toBe('3');
});

test('each cluster has its own position of a partition [U9] [U1]', async () => {
  await on('')(0, 0, ...Array.from({ length: 90 }, () => aBet()));
  await on('B')(30, 0, aBet());
  expect(await howFar('', 'B', 'C')).toEqual([90, 31, 0]);
  // Back on A, before the position that was decided there, and on B once more.
  await on('')(90, 90, aBet());
  await on('B')(31, 31, aBet());
  expect(await howFar('', 'B')).toEqual([91, 32]);
  await expect(on('B')(40, 40, aBet())).rejects.toMatchObject({ name: 'StoreBehind', decidedUpTo: 32 });
});

describe('the first cluster of a store', () => {
  test('is the one that is named first, for good [U9]', async () => {
    expect(await nameOfCluster(store.pool, null)).toBe('');
    await on('')(0, 0, aBet());
    expect(await store.rows('select kafka_cluster, is_first_cluster from promo.partitions')).toEqual([
      [null, 't'],
    ]);
    expect(await Promise.all(['A', 'A'].map((id) => nameOfCluster(store.pool, id)))).toEqual(['', '']);
    expect(await nameOfCluster(store.pool, 'B')).toBe('B');
    expect(await nameOfCluster(store.pool, 'A')).toBe('');
    await on('B')(0, 0, aBet());
    expect(
      await store.rows('select kafka_cluster, is_first_cluster from promo.partitions order by 1'),
    ).toEqual([
      ['A', 't'],
      ['B', 'f'],
    ]);
  });

  test('is no cluster under whose id the store has partitions [U9]', async () => {
    // Like a store that was restored to a time before it stored its first cluster, and a worker that
    // continues.
    await on('B')(0, 0, aBet());
    expect(await nameOfCluster(store.pool, 'B')).toBe('B');
    expect(await nameOfCluster(store.pool, 'A')).toBe('');
  });

  test('is stored once, also by two workers that start together [U9]', async () => {
    const names = await Promise.all(['A', 'B', 'A', 'B'].map((id) => nameOfCluster(store.pool, id)));
    expect(names.filter((name) => name === '')).toHaveLength(2);
    expect(names[0]).toBe(names[2]);
    expect(names[1]).toBe(names[3]);
  });
});

test('verify checks the requested cluster, from the offset at which the group moved to it [U9]', async () => {
  await nameOfCluster(store.pool, 'A');
  await on('')(0, 0, ...Array.from({ length: 9 }, () => aBet()));
  await recordFirstOffset(store.pool, { ...source, cluster: 'B' }, 30);
  await on('B')(30, 0, aBet(), aBet());
  await on('B')(35, 32, aBet());
  const lookAt = (cluster: string) => inspect(store.url, [{ ...source, low: 0 }], cluster);

  expect(await lookAt('B')).toMatchObject({
    partitions: [{ decidedUpTo: 36, offsets: 3, gaps: [{ from: 32, to: 35 }], beginsAt: 30 }],
    elsewhere: [{ ...source, decidedUpTo: 9, cluster: 'A', isFirst: true }],
  });
  expect(await lookAt('A')).toMatchObject({
    partitions: [{ decidedUpTo: 9, offsets: 9, gaps: [], beginsAt: null }],
    elsewhere: [{ ...source, decidedUpTo: 36, cluster: 'B', isFirst: false }],
  });
  // Back to A, where a mirror has put copies of the records decided on B.
  await recordFirstOffset(store.pool, { ...source, cluster: '' }, 12);
  await on('')(12, 9, aBet());
  expect(await lookAt('A')).toMatchObject({ partitions: [{ decidedUpTo: 13, offsets: 1, gaps: [] }] });
});

test('an older version continues the partitions of the first cluster [U9]', async () => {
  await on('')(0, 0, aBet());
  // As the versions before 0017 wrote and read them.
  const opened = await store.rows(
    `with opened as (
       insert into promo_store.partitions (topic, partition)
       select $1, $2 where not exists (select from promo_store.partitions where topic = $1 and partition = $2)
       on conflict do nothing returning partition_no
     )
     select partition_no from opened union all select partition_no from promo_store.partitions where topic = $1 and partition = $2`,
    ['acme', 0],
  );
  expect(opened).toHaveLength(1);
  await store.rows('insert into promo_store.partitions (topic, partition) values ($1, $2)', ['other', 0]);
  expect(await readDecidedUpTo(store.pool, [source, { topic: 'other', partition: 0 }])).toEqual([1, 0]);
});
