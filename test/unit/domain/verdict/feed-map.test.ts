/** Values by feed and id (K1, C3). */
import fc from 'fast-check';
import { FeedMap } from '../../../../src/domain/verdict/decide';

describe('values by feed and id [K1] [C3]', () => {
  it('an id has another value in another feed', () => {
    const map = new FeedMap<string>();
    map.set(1, 'a', 'one');
    map.set(2, 'a', 'two');
    map.set(1, 'b', 'three');
    expect([map.get(1, 'a'), map.get(2, 'a'), map.get(1, 'b'), map.get(2, 'b')]).toEqual([
      ...['one', 'two', 'three', undefined],
    ]);
    expect(map.values()).toEqual(['one', 'three', 'two']);
    map.set(1, 'a', 'changed');
    expect([map.get(1, 'a'), map.get(2, 'a')]).toEqual(['changed', 'two']);
  });

  it('a value that was not set is missing, for any name', () => {
    const map = new FeedMap<undefined | string>();
    for (const id of ['', '__proto__', 'constructor', 'get', '1']) {
      expect([map.has(1, id), map.get(1, id)]).toEqual([false, undefined]);
      map.set(1, id, undefined);
      expect([map.has(1, id), map.has(2, id), map.get(1, id)]).toEqual([true, false, undefined]);
    }
    expect(new FeedMap().values()).toEqual([]);
    expect(new FeedMap().inOrder()).toEqual([]);
  });

  it('the order of feeds and ids does not depend on the order of insertion', () => {
    const map = new FeedMap<number>();
    // Feeds as numbers, ids by UTF-16. Any order would do, if every writer has the same.
    for (const feedNo of [10, 9, 100])
      for (const id of ['b', 'a', 'Z', 'é', '10', '9', '']) map.set(feedNo, id, 0);
    const ids = ['', '10', '9', 'Z', 'a', 'b', 'é'];
    expect(map.inOrder()).toEqual([9, 10, 100].map((feedNo) => ({ feedNo, ids })));
  });

  it('it behaves as a map by feed and id', () => {
    const feedNo = fc.constantFrom(1, 2, 11, 2 ** 31 - 1);
    const id = fc.oneof(fc.constantFrom('a', 'b', '1', '', '/'), fc.string({ maxLength: 3 }));
    fc.assert(
      fc.property(
        fc.array(fc.tuple(feedNo, id, fc.nat()), { maxLength: 12 }),
        feedNo,
        id,
        (entries, otherFeed, otherId) => {
          const map = new FeedMap<number>();
          const model = new Map<string, { feedNo: number; id: string; value: number }>();
          for (const [feed, name, value] of entries) {
            map.set(feed, name, value);
            model.set(JSON.stringify([feed, name]), { feedNo: feed, id: name, value });
          }
          const all = [...model.values()];
          expect(all.map((entry) => map.get(entry.feedNo, entry.id))).toEqual(all.map(({ value }) => value));
          expect(map.has(otherFeed, otherId)).toBe(model.has(JSON.stringify([otherFeed, otherId])));
          expect(map.values().sort()).toEqual(all.map(({ value }) => value).sort());
          const visited: { feedNo: number; id: string; value: number }[] = [];
          map.forEach((feed, name, value) => {
            visited.push({ feedNo: feed, id: name, value });
          });
          expect(new Set(visited)).toEqual(new Set(all));
          expect(visited).toHaveLength(all.length);
          const listed = map
            .inOrder()
            .flatMap(({ feedNo: feed, ids }) => ids.map((name) => ({ feedNo: feed, id: name })));
          const sorted = all.sort((a, b) => a.feedNo - b.feedNo || (a.id < b.id ? -1 : 1));
          expect(listed).toEqual(sorted.map((entry) => ({ feedNo: entry.feedNo, id: entry.id })));
        },
      ),
    );
  });
});
