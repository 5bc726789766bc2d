/** The partition choosers of a producer to many topics. */
import { makeChoosersOfMany } from '../../../src/kafka/partition-batches';

const PARTITIONS = [{ partitionErrorCode: 0, partitionId: 0, leader: 1, replicas: [1], isr: [1] }];

/** Topics that exist once they are created. The test ends each creation. */
function scene() {
  const existing = new Set<string>();
  const begun: string[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const partitionsIn = (topic: string) => (existing.has(topic) ? PARTITIONS : []);
  const choosers = makeChoosersOfMany(
    {
      partitionsOf: async (topic: string) => partitionsIn(topic),
      knownPartitionsOf: partitionsIn,
      refreshIfOld: async () => undefined,
    },
    (topic) =>
      new Promise<void>((resolve, reject) => {
        begun.push(topic);
        ends.push((error) => {
          if (error !== undefined) return reject(error);
          existing.add(topic);
          resolve();
        });
      }),
  );
  return { choosers, begun, end: (error?: Error) => ends.shift()?.(error) };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('partitions that miss the same topic at once create it once', async () => {
  const { choosers, begun, end } = scene();
  const both = [choosers.of('a'), choosers.of('a'), choosers.of('b')];
  await settled();
  expect(begun).toEqual(['a', 'b']);
  end();
  end();
  expect((await Promise.all(both)).map((choose) => choose(null))).toEqual([0, 0, 0]);
});

test('a creation that fails is tried again by the next one that misses the topic', async () => {
  const { choosers, begun, end } = scene();
  const both = [choosers.of('a'), choosers.of('a')];
  const refused = Promise.all(both.map((each) => expect(each).rejects.toThrow('not now')));
  await settled();
  end(new Error('not now'));
  await refused;
  const later = choosers.of('a');
  await settled();
  expect(begun).toEqual(['a', 'a']);
  end();
  expect((await later)(null)).toBe(0);
});
