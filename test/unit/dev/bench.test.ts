/** The rules and the feed of the benchmark, without servers. */
import { splitRows } from '../../../dev/bench/copy-own';
import { countRounds, isDisturbed, type JudgedRun } from '../../../dev/bench/counted';
import { Extent, ExtentError } from '../../../dev/bench/extent';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from '../../../dev/bench/feed';
import { MODES } from '../../../dev/bench/modes';
import { timestampOf } from '../../../dev/bench/publish';
import { keysOf } from '../../../dev/bench/usual';
import { decidingMs, lostToRetries, readWorkerLog, transactionsOf } from '../../../dev/bench/worker-log';

describe('rounds of a measurement', () => {
  const run = (round: number, name: string, rate: number, takenByHost = 0): JudgedRun => ({
    round,
    name,
    rate,
    takenByHost,
  });
  const countingOf = (runs: readonly JudgedRun[]) => {
    const counted = countRounds(runs);
    const rounds = [...new Set(runs.map(({ round }) => round))];
    return { ...counted, rounds: rounds.filter((round) => counted.counts(round)) };
  };

  test('count where their rates differ by less than a tenth', () => {
    const counted = countingOf([run(1, 'worker', 100), run(2, 'worker', 109.9), run(3, 'worker', 105)]);
    expect(counted).toMatchObject({ rounds: [1, 2, 3], areEnough: true, notes: [] });
  });

  test('do not count where a contender differs, and the note names the round, the contender and its rate', () => {
    const counted = countingOf([
      ...[run(1, 'worker', 100_000), run(1, 'insert-only', 80_000)],
      ...[run(2, 'worker', 101_000), run(2, 'insert-only', 60_000)],
      ...[run(3, 'worker', 102_000), run(3, 'insert-only', 82_000)],
    ]);
    expect(counted.rounds).toEqual([1, 3]);
    expect(counted.notes).toEqual([
      'Round 2 does not count: insert-only had 60,000 events/s, 0.75 x the median.',
    ]);
  });

  test('do not count where the host took a hundredth of the CPU in a run', () => {
    const counted = countingOf([
      ...[run(1, 'worker', 100), run(2, 'worker', 100), run(3, 'worker', 100)],
      ...[run(1, 'insert-only', 90), run(2, 'insert-only', 90, 1), run(3, 'insert-only', 90, 0.99)],
    ]);
    expect(counted.rounds).toEqual([1, 3]);
    expect(counted.notes).toEqual(['Round 2 does not count: the host took 1.0 % during insert-only.']);
  });

  test('do not count where only one is left', () => {
    const none = 'No round counts: two have to differ by less than a tenth.';
    expect(countingOf([run(1, 'worker', 100)])).toMatchObject({
      rounds: [],
      areEnough: false,
      notes: [none],
    });
    const apart = countingOf([
      ...[run(1, 'worker', 100), run(1, 'insert-only', 90)],
      ...[run(2, 'worker', 300), run(2, 'insert-only', 90)],
      ...[run(3, 'worker', 110), run(3, 'insert-only', 91)],
    ]);
    expect(apart).toMatchObject({ rounds: [], areEnough: false });
    expect(apart.notes).toEqual([
      'Round 2 does not count: worker had 300 events/s, 2.73 x the median.',
      'Rounds 1 and 3 differ: worker had 100 and 110 events/s.',
      none,
    ]);
  });

  test('count on a machine that does not report the share of its host', () => {
    expect(isDisturbed(Number.NaN)).toBe(false);
    const unknown = [run(1, 'worker', 100, Number.NaN), run(2, 'worker', 100, Number.NaN)];
    expect(countingOf(unknown).rounds).toEqual([1, 2]);
  });
});

describe('rows of copy-own', () => {
  const HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
  const END = Buffer.from([0xff, 0xff]);
  const int16 = (value: number) => {
    const buffer = Buffer.alloc(2);
    buffer.writeInt16BE(value);
    return buffer;
  };
  const field = (value: Buffer | null) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(value === null ? -1 : value.length);
    return value === null ? length : Buffer.concat([length, value]);
  };
  const int8 = (value: bigint) => {
    const buffer = Buffer.alloc(8);
    buffer.writeBigInt64BE(value);
    return buffer;
  };
  const row = (...values: (Buffer | null)[]) => Buffer.concat([int16(values.length), ...values.map(field)]);
  const file = (...rows: Buffer[]) => Buffer.concat([HEADER, ...rows, END]);

  test('are divided by their first field, without it and otherwise unchanged', () => {
    const [a, b, long] = [Buffer.from('a'), Buffer.from(''), Buffer.alloc(70_000, 'x')];
    const pieces = splitRows(
      file(
        row(int8(-5n), a, null),
        row(int8(-5n), null, long),
        row(int8(7n), b, b),
        row(int8(2n ** 60n), a, a),
      ),
    );
    const expected = [
      { first: -5n, count: 2, rows: file(row(a, null), row(null, long)) },
      { first: 7n, count: 1, rows: file(row(b, b)) },
      { first: 2n ** 60n, count: 1, rows: file(row(a, a)) },
    ];
    const asText = (all: readonly { rows: Buffer }[]) =>
      all.map((piece) => ({ ...piece, rows: piece.rows.toString('latin1') }));
    expect(asText(pieces)).toEqual(asText(expected));
  });

  test('may have 0 as their first field, or not exist', () => {
    const only = Buffer.from('a');
    expect(splitRows(file(row(int8(0n), only)))).toEqual([{ first: 0n, count: 1, rows: file(row(only)) }]);
    expect(splitRows(file())).toEqual([]);
    expect(() => splitRows(Buffer.from('promo\t1\n'))).toThrow('no rows in binary COPY format');
  });
});

describe('the feed', () => {
  const feedOf = (keys: 'player' | 'random' | 'none' | 'one', events = 5_000) => [
    ...makeFeed({ ...USUAL_SHAPE, keys, events }, 1, 0),
  ];
  /** The messages in runs of one partition. */
  const runsOf = (messages: readonly FeedMessage[]) => {
    const runs: FeedMessage[][] = [];
    for (const message of messages) {
      const last = runs.at(-1);
      if (last?.[0]?.partition === message.partition) last?.push(message);
      else runs.push([message]);
    }
    return runs;
  };

  test('without keys fills a batch of 16 KB for one partition, and goes on with another one', () => {
    const messages = feedOf('none');
    expect(messages.every(({ key }) => key === null)).toBe(true);
    const runs = runsOf(messages);
    const bytes = runs.map((run) => run.reduce((sum, { value }) => sum + value.length, 0));
    expect(Math.max(...bytes)).toBeLessThanOrEqual(16_384);
    // The last batch is not full.
    expect(Math.min(...bytes.slice(0, -1))).toBeGreaterThan(16_384 - 400);
    expect(new Set(messages.map(({ partition }) => partition))).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7]));
  });

  test('without keys, each partition gets its share', () => {
    const byPartition = Map.groupBy(runsOf(feedOf('none', 10_000)), ([first]) => first?.partition);
    for (const runs of byPartition.values()) expect(runs.length).toBeGreaterThan(10_000 / 57 / 8 / 2);
  });

  test('with keys leaves the partition to the key', () => {
    for (const keys of ['player', 'random', 'one'] as const)
      for (const { key, partition } of feedOf(keys, 100)) {
        expect(key).toMatch(keys === 'random' ? /^[0-9a-f]+$/ : keys === 'one' ? /^one$/ : /^player-\d+$/);
        expect(partition).toBeUndefined();
      }
    expect(new Set(feedOf('random', 1_000).map(({ key }) => key)).size).toBe(1_000);
  });

  test('keyed by player, a resend has the key of its player', () => {
    const others = feedOf('player').filter(({ key, value }) => !value.includes(`"player_ref":"${key}"`));
    expect(others).toEqual([]);
  });

  test('has no other keys', () => {
    expect(keysOf('none')).toBe('none');
    expect(() => keysOf('nobody')).toThrow(
      new ExtentError('BENCH_KEYS=nobody: it is one of player, random, none, one'),
    );
  });

  test('is published with times a millisecond apart, from an hour ago on and never after now', () => {
    const now = Date.UTC(2026, 0, 1);
    expect([0, 1, 799_999].map((index) => timestampOf(index, now) - now)).toEqual([
      -3_600_000, -3_599_999, -2_800_001,
    ]);
    expect(timestampOf(9_000_000, now)).toBe(now);
  });
});

describe('the log of a worker whose batches span partitions', () => {
  const line = (at: number, msg: string, details: object) =>
    JSON.stringify({ level: 'info', time: new Date(at).toISOString(), ...details, msg });
  const decided = (at: number, partition: number, ms: number) =>
    line(at, 'batch decided', { topic: 't', partition, events: 10, nextOffset: 10, ms });
  const again = (at: number, details: object) =>
    line(at, 'batch is decided again', { failure: 'again', ...details });

  test('has a transaction for the lines that are written at once', () => {
    const log = readWorkerLog(
      [
        ...[decided(1_000, 0, 300), decided(1_000, 1, 300), decided(1_001, 2, 300)],
        // Another batch: of another duration, of a partition that the last one had, and later.
        ...[decided(1_001, 3, 200), decided(1_001, 3, 200), decided(1_050, 4, 200)],
      ].join('\n'),
    );
    expect(transactionsOf(log).map(({ at, ms, parts }) => [at, ms, parts.length])).toEqual([
      [1_000, 300, 3],
      [1_001, 200, 1],
      [1_001, 200, 1],
      [1_050, 200, 1],
    ]);
    expect(decidingMs(log)).toBe(900);
  });

  test('counts the lost time of a batch once, up to its last retry', () => {
    const log = readWorkerLog(
      [
        again(800, { partitions: 2 }),
        again(900, { partitions: 2 }),
        ...[decided(1_000, 0, 300), decided(1_000, 1, 300)],
        // Beside it, a batch of one partition that was not retried.
        decided(1_010, 5, 400),
      ].join('\n'),
    );
    expect(lostToRetries(log)).toBe(200);
  });

  test('counts a batch that was given up as one of mean length', () => {
    const log = readWorkerLog(
      [again(800, { partitions: 3 }), decided(1_000, 0, 100), decided(1_200, 1, 300)].join('\n'),
    );
    expect(lostToRetries(log)).toBe(200);
  });
});

test('the modes of the goals exist, and throughput can be measured without keys', () => {
  const named = (name: string) => MODES.find((mode) => mode.name === name);
  for (const name of ['throughput', 'latency', 'calm', 'rtt', 'workers']) expect(named(name)).toBeDefined();
  const extent = new Extent(named('throughput')?.extent ?? {}, { BENCH_KEYS: 'none' });
  expect(keysOf(extent.word('keys'))).toBe('none');
  expect(named('rtt')?.extent.trips).toContain(10);
});
