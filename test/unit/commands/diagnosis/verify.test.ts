/** The output of `verify` for the facts of Kafka and of the store. */
import { compare, unaccounted } from '../../../../src/commands/diagnosis/verify';
import type { Position } from '../../../../src/kafka/admin/offsets';
import type { Readable } from '../../../../src/kafka/consumer/range-reader';
import { type Damage, inspect, type StoredPartition, storedTopics } from '../../../../src/ledger/invariants';
import { StoreError } from '../../../../src/postgres/errors';

const stored = (more: Partial<StoredPartition> = {}): StoredPartition => ({
  topic: 't',
  partition: 0,
  decidedUpTo: 10,
  isRecreated: false,
  records: 10,
  offsets: 10,
  gaps: [],
  ...more,
});
const position = (more: Partial<Position> = {}): Position => ({
  topic: 't',
  partition: 0,
  low: 0,
  high: 12,
  committed: 10,
  ...more,
});
const damage = (more: Partial<Damage> = {}): Damage => ({
  invariant: 'I3',
  what: 'it differs',
  where: ['acme', 'r-1'],
  inAll: 1,
  ...more,
});
const told = (partition: StoredPartition, at: Position[], passed: [string, Readable][] = []) =>
  compare(at, { keptSinceMs: 0, partitions: [partition], damages: [] }, new Map(passed));

test('a partition that is decided up to its committed offset has a line [U1]', () => {
  expect(told(stored(), [position()])).toEqual({
    lines: [
      't/0: 10 records decided, up to offset 10; 10 is committed, 12 is the end; 10 of 10 offsets from 0 on hold decided records',
    ],
    problems: [],
  });
});

test.each<[string, StoredPartition, Position[], RegExp]>([
  [
    'a group that has not committed',
    stored(),
    [position({ committed: null })],
    /; nothing is committed, 12 is the end/,
  ],
  [
    'a topic that is gone',
    stored(),
    [],
    /^t\/0: 10 records decided, up to offset 10; Kafka has no such partition$/,
  ],
  [
    'a topic that was created again',
    stored(),
    [position({ high: 3, committed: 3 })],
    /the topic was created again: its offsets cannot be/,
  ],
  [
    'nothing left in Kafka',
    stored(),
    [position({ low: 12, committed: 12 })],
    /; 12 is committed, 12 is the end; Kafka has nothing before offset 12$/,
  ],
  [
    'a range that Kafka deleted after its decision',
    stored({ offsets: 4 }),
    [position({ low: 5 })],
    /; 4 of 5 offsets from 5 on hold decided records; 1 do not: markers, /,
  ],
])('%s is reported [D3]', (_, partition, positions, expected) => {
  const { lines } = told(partition, positions);
  expect(lines).toEqual([expect.stringMatching(expected)]);
});

test('committed offsets without a readable record are no damage, and undecided records there are [U1]', () => {
  const beyond = position({ committed: 12 });
  expect(told(stored(), [beyond]).problems).toEqual([]);
  expect(told(stored(), [beyond], [['t/0', { count: 2, first: 10 }]]).problems).toEqual([
    'I2 t/0: offset 12 is committed, but 2 records before it are not decided, the first at offset 10',
  ]);
});

test('a store without the decided records of a topic that was created again has lost them [U1]', () => {
  const anew = position({ high: 8, committed: 3 });
  expect(told(stored(), [anew]).problems).toEqual([
    'I2 t/0: offset 3 is committed, but the partition ends at 8. The topic was created again, and the store has none of its committed records',
  ]);
  expect(told(stored({ isRecreated: true }), [anew]).problems).toEqual([]);
  // The group has not read it yet.
  expect(told(stored(), [position({ high: 8, committed: null })]).problems).toEqual([]);
});

test('offsets beyond the end of the log are not searched in Kafka [U1]', () => {
  const lookedFor = (partition: StoredPartition, at: Position) =>
    unaccounted([at], { partitions: [partition], keptSinceMs: 0 }).flatMap(({ ranges }) =>
      ranges.map(({ from, to }) => ({ from, to })),
    );
  const gaps = [
    { from: 4, to: 5 },
    { from: 8, to: 9 },
  ];
  expect(lookedFor(stored({ gaps }), position({ high: 7 }))).toEqual([{ from: 4, to: 5 }]);
  expect(lookedFor(stored({ decidedUpTo: 6 }), position({ high: 8 }))).toEqual([{ from: 6, to: 8 }]);
  expect(lookedFor(stored({ decidedUpTo: 6 }), position())).toEqual([{ from: 6, to: 10 }]);
});

test('records of dropped months are no damage, unless they were never decided [U1]', () => {
  const gaps = [{ from: 4, to: 5 }];
  const partition = stored({ gaps, decidedUpTo: 6 });
  expect(unaccounted([position()], { partitions: [partition], keptSinceMs: 1_000 })).toEqual([
    {
      topic: 't',
      partition: 0,
      ranges: [
        { from: 4, to: 5, sinceMs: 1_000 },
        { from: 6, to: 10, sinceMs: 0 },
      ],
    },
  ]);
});

test('records that Kafka deleted before they were read are a damage [U1]', () => {
  expect(told(stored(), [position({ low: 11 })]).problems).toEqual([
    'I2 t/0: offsets 10 to 10 were deleted from Kafka before they were read; it is unknown whether they held records',
  ]);
  // Here the offsets were read, and held no records, as a marker.
  expect(told(stored(), [position({ low: 11, committed: 12 })]).problems).toEqual([]);
});

test('damages of the store are printed with their place, and with the number of further damages [D3]', () => {
  const damages = [
    damage({ inAll: 250 }),
    damage({ where: [], inAll: 250 }),
    damage({ invariant: 'I5', where: ['t/0'] }),
  ];
  expect(compare([], { keptSinceMs: 0, partitions: [], damages }, new Map()).problems).toEqual([
    'I3 acme: r-1: it differs',
    'I3 it differs',
    'I5 t/0: it differs',
    'I3 248 more',
  ]);
});

test('a store that cannot be reached is an error of the store', async () => {
  const nobody = 'postgres://promo@127.0.0.1:1/promo';
  await expect(storedTopics(nobody)).rejects.toBeInstanceOf(StoreError);
  await expect(inspect(nobody, [])).rejects.toBeInstanceOf(StoreError);
});

describe('after a move to another cluster, before the first read there', () => {
  const elsewhere = [
    { topic: 't', partition: 0, decidedUpTo: 90, cluster: 'A', isFirst: true },
    { topic: 'of.b', partition: 0, decidedUpTo: 40, cluster: 'B', isFirst: false },
  ];
  const lookedForOf = (topic: string, note: { upTo: number; cluster: string } | null) =>
    unaccounted([{ ...position(), topic, note }], { partitions: [], keptSinceMs: 0, elsewhere }).length;

  it.each([
    ['t', { upTo: 90, cluster: '' }, 0],
    ['A.t', { upTo: 90, cluster: '' }, 0],
    ['of.b', { upTo: 40, cluster: 'B' }, 0],
    // Records that the store has lost or never had of the other cluster are searched.
    ['t', { upTo: 91, cluster: '' }, 1],
    ['t', { upTo: 1, cluster: 'C' }, 1],
    ['other', { upTo: 1, cluster: '' }, 1],
    ['t', null, 1],
  ])(
    'of %s with the note %j, the records before the offset are searched in %i partitions [U9]',
    (topic, note, partitions) => {
      expect(lookedForOf(topic, note)).toBe(partitions);
    },
  );
});

it('searches nothing before the first offset of the group on the cluster [U9]', () => {
  const rangesOf = (gap: { from: number; to: number }) =>
    unaccounted([position()], { partitions: [stored({ gaps: [gap], beginsAt: 6 })], keptSinceMs: 0 }).flatMap(
      ({ ranges }) => ranges,
    );
  expect(rangesOf({ from: 0, to: 6 })).toEqual([]);
  expect(rangesOf({ from: 0, to: 8 })).toMatchObject([{ from: 6, to: 8 }]);
});
