import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { makeSeenIds } from '../../../../src/commands/operators/seen-ids';

const DIGEST_AS_UUID = (id: string) => {
  const hex = createHash('sha256').update(id).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  );
};

const anId = fc.oneof(fc.uuid(), fc.string({ maxLength: 4 }), fc.string({ minLength: 16, maxLength: 40 }));

test.each([Number.POSITIVE_INFINITY, 40_000])('of %s ids, finds the first sighting as a Map does', (most) => {
  fc.assert(
    fc.property(fc.array(anId, { maxLength: 200 }), (ids) => {
      const seen = makeSeenIds(most);
      const found = ids.map((id, index) => seen.add(id, { line: index + 1, contentHash: index })?.line);
      const first = new Map(ids.map((id, index) => [id, index + 1] as const).reverse());
      expect(found).toEqual(
        ids.map((id, index) => (first.get(id) === index + 1 ? undefined : first.get(id))),
      );
    }),
    { numRuns: 40 },
  );
});

test('grows beyond its first size, and keeps lines and hashes of their full length', () => {
  const seen = makeSeenIds();
  const sightingOf = (no: number) => ({ line: 2 ** 40 + no, contentHash: 2 ** 53 - 1 - no });
  for (let no = 0; no < 4_000; no++) seen.add(`${no}`, sightingOf(no));
  for (const no of [0, 1_234, 3_999])
    expect(seen.add(`${no}`, { line: 1, contentHash: 1 })).toEqual(sightingOf(no));
});

test('a digest is not taken for a UUID of the same bytes', () => {
  const seen = makeSeenIds();
  const id = 'an id of more than sixteen bytes';
  expect(seen.add(id, { line: 1, contentHash: 1 })).toBeUndefined();
  expect(seen.add(DIGEST_AS_UUID(id), { line: 2, contentHash: 1 })).toBeUndefined();
});

test('a full table remembers no further id, and says so', () => {
  const seen = makeSeenIds(100);
  for (let no = 0; no < 100; no++) seen.add(`${no}`, { line: no + 1, contentHash: 0 });
  expect(seen.hasForgotten).toBe(false);
  expect(seen.add('more', { line: 101, contentHash: 0 })).toBeUndefined();
  expect(seen.add('more', { line: 102, contentHash: 0 })).toBeUndefined();
  expect(seen.hasForgotten).toBe(true);
  expect(seen.add('99', { line: 103, contentHash: 0 })).toEqual({ line: 100, contentHash: 0 });
});
