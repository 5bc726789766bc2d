/** Which members of a group count as dead, and how often a worker rejoins for that. */
import {
  type GroupMember,
  type GroupPosition,
  JoinLimit,
  StillMembers,
} from '../../../../src/kafka/consumer/dead-member-watch';

const STILL_MS = 8_000;
const OURS = 'we';
const member = (id: string, ...partitions: number[]): GroupMember => ({
  id,
  partitions: partitions.map((partition) => ({ topic: 't', partition })),
});
const MEMBERS = [member(OURS, 0), member('other', 1, 2), member('third', 3)];

/** Observes [committed, end] of each partition each second. Returns the first stalled members. */
function seen(at: (second: number) => readonly (readonly [number, number])[], seconds = 30) {
  const still = new StillMembers(STILL_MS);
  for (let second = 0; second <= seconds; second++) {
    const positions: GroupPosition[] = at(second).map(([committed, end], partition) => ({
      topic: 't',
      partition,
      committed,
      end,
    }));
    const found = still.observe({ members: MEMBERS, positions }, OURS, second * 1_000);
    if (found.length > 0) return { second, ids: found.map(({ id }) => id) };
  }
  return null;
}

describe('a member that makes no progress', () => {
  test('commits nothing for some time, although it has records to read', () => {
    expect(
      seen((second) => [
        [second, second + 1],
        [5, 9],
        [7, 7],
        [second, second + 5],
      ]),
    ).toEqual({ second: 8, ids: ['other'] });
  });

  test('may be found by a member that has no records to read itself', () => {
    expect(
      seen(() => [
        [3, 3],
        [5, 9],
        [7, 8],
        [4, 4],
      ]),
    ).toEqual({ second: 8, ids: ['other'] });
  });

  test('is timed from the first record that it could read', () => {
    expect(
      seen((second) => [
        [3, 3],
        [5, second < 10 ? 5 : 6],
        [7, 7],
        [4, 4],
      ]),
    ).toEqual({ second: 17, ids: ['other'] });
  });

  test.each([
    ['has no records to read', () => [5, 5] as const, () => [7, 7] as const],
    [
      'makes progress on another of its partitions',
      () => [5, 9] as const,
      (second: number) => [second, second + 1] as const,
    ],
    [
      'makes progress on another one now and then',
      () => [5, 9] as const,
      (second: number) => [Math.floor(second / 7), 90] as const,
    ],
    ['makes slow progress', (second: number) => [Math.floor(second / 7), 90] as const, () => [7, 7] as const],
  ])('is not a member that %s', (_, first, second) => {
    expect(seen((at) => [[at, at], first(at), second(at), [4, 4]])).toBeNull();
  });

  test('is not reported while we make no progress either', () => {
    expect(
      seen(() => [
        [3, 4],
        [5, 9],
        [7, 9],
        [4, 9],
      ]),
    ).toBeNull();
  });

  test('is not reported for 35 s after we made progress again: it may wait for its next retry', () => {
    expect(
      seen(
        (second) => [
          [second < 9 ? 3 : second, second + 4],
          [5, 9],
          [7, 9],
          [second, second + 5],
        ],
        60,
      ),
    ).toEqual({ second: 8 + 35, ids: ['other'] });
  });

  test('is reported by a member that commits each 2 s', () => {
    expect(
      seen((second) => [
        [Math.floor(second / 2), 90],
        [5, 9],
        [7, 9],
        [second, second + 5],
      ]),
    ).toEqual({ second: 8, ids: ['other'] });
  });

  test('is timed again after a rebalance', () => {
    const still = new StillMembers(STILL_MS);
    const look = (second: number) =>
      still.observe(
        { members: MEMBERS, positions: [{ topic: 't', partition: 1, committed: 0, end: 1 }] },
        OURS,
        second * 1_000,
      );
    look(0);
    still.reset();
    expect(look(8)).toEqual([]);
    expect(look(15)).toEqual([]);
    expect(look(16)).toEqual([MEMBERS[1]]);
  });
});

describe('rejoining', () => {
  const minute = 60_000;
  const times = (limit: JoinLimit, from: number, to: number): number[] => {
    const found: number[] = [];
    for (let at = from; at <= to; at += minute) if (limit.take(at)) found.push((at - from) / minute);
    return found;
  };

  test('happens at once, then after 1, 2, 4 ... minutes, and in the end each hour', () => {
    expect(times(new JoinLimit(), 0, 300 * minute)).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
  });

  test('happens at once again when the last time was long ago', () => {
    const limit = new JoinLimit();
    times(limit, 0, 10 * minute);
    expect(times(limit, 200 * minute, 210 * minute)).toEqual([0, 1, 3, 7]);
  });
});
