/** The parts of the benchmark that affect figures, without servers except sockets on loopback. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type Chart, chartSvg, makeScale } from '../../dev/bench/chart';
import { type DelayProxy, startDelayProxy } from '../../dev/bench/delay-line';
import { Extent } from '../../dev/bench/extent';
import { latenciesOf } from '../../dev/bench/latencies';
import { growthGoal, slopeOf } from '../../dev/bench/memory';
import { listModes, MODES } from '../../dev/bench/modes';
import { type Entry, settingsTable, VARIANTS } from '../../dev/bench/modes/postgres';
import { capacityTable, cellOf, keyFigures, scaleOutTable } from '../../dev/bench/overview';
import { dueAt, recordsDue, TICK_MS, ticksIn } from '../../dev/bench/programs/paced-lines';
import { describeResult, fillMarks, goalsTable } from '../../dev/bench/report';
import { type Result, readResult, writeResult } from '../../dev/bench/result';
import { median, percentiles } from '../../dev/bench/statistics';
import { tableMarkdown, tableText } from '../../dev/bench/table';
import { lostToRetries, readWorkerLog } from '../../dev/bench/worker-log';
import { makeTimerAlarm } from '../support/timer-alarm';

describe('percentiles', () => {
  test('the median of an even number of values is the mean of the two middle values', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([3, 1, 2])).toBe(2);
    expect(median([])).toBeNaN();
  });

  test('are the smallest values with at least this share at or below them', () => {
    const values = Array.from({ length: 1000 }, (_, index) => ({ value: index + 1, count: 1 })).reverse();
    expect(percentiles(values, [0, 0.5, 0.99, 0.999, 1])).toEqual([1, 500, 990, 999, 1000]);
  });

  test('count a value as often as it occurred', () => {
    const values = [
      { value: 10, count: 98 },
      { value: 500, count: 2 },
    ];
    expect(percentiles(values, [0.5, 0.98, 0.99])).toEqual([10, 10, 500]);
    expect(percentiles([], [0.5])).toEqual([Number.NaN]);
  });
});

describe('pacing', () => {
  test.each([1, 199, 200, 7_777, 33_333.3])(
    'at %d a second no record is lost or added, however many ticks',
    (rate) => {
      const ticks = ticksIn(60);
      let sent = 0;
      let worst = 0;
      for (let tick = 0; tick < ticks; tick++) {
        sent += recordsDue(rate, tick);
        worst = Math.max(worst, Math.abs(sent - (rate * (tick + 1) * TICK_MS) / 1000));
      }
      expect(worst).toBeLessThan(1);
      expect(sent).toBe(Math.floor(rate * 60 + 1e-6));
    },
  );

  test('the schedule follows from its start alone', () => {
    expect(dueAt(1_000, 0)).toBe(1_000);
    expect(dueAt(1_000, 12_000)).toBe(61_000);
  });
});

describe('latencies', () => {
  const sent = (scheduledAt: number, partition: number, baseOffset: number, count: number) => ({
    scheduledAt,
    partition,
    baseOffset,
    count,
  });

  test('run from the schedule to the batch that decided the record', () => {
    const latencies = latenciesOf(
      [sent(100, 0, 5, 3), sent(105, 0, 8, 2), sent(105, 1, 0, 1)],
      [
        { at: 140, partition: 0, nextOffset: 10 },
        { at: 120, partition: 0, nextOffset: 7 },
        { at: 111, partition: 1, nextOffset: 1 },
      ],
    );
    expect(latencies.sort((a, b) => a.value - b.value)).toEqual([
      { value: 6, count: 1 },
      { value: 20, count: 2 },
      { value: 35, count: 2 },
      { value: 40, count: 1 },
    ]);
  });

  test('a record that was not decided is no latency, but an error', () => {
    expect(() => latenciesOf([sent(100, 0, 5, 3)], [{ at: 120, partition: 0, nextOffset: 7 }])).toThrow(
      'offset 7 of partition 0 was not decided',
    );
  });
});

describe('the log of a worker', () => {
  const line = (seconds: number, msg: string, details: object = {}) =>
    JSON.stringify({ level: 'info', time: new Date(seconds * 1000).toISOString(), ...details, msg });

  test('has the times of partitions and of decided batches, among other lines', () => {
    const text = [
      line(1, 'serving health and metrics'),
      '(node:7) Warning: something',
      line(2, 'partitions assigned', { partitions: ['t/0', 't/1'] }),
      line(3, 'batch decided', { topic: 't', partition: 1, events: 40, nextOffset: 45, ms: 500 }),
      '{"level":"info","time":"2026-01-',
    ].join('\n');
    const log = readWorkerLog(text);
    expect(log).toMatchObject({ startedAt: 1_000, assignments: [{ at: 2_000, partitions: 2 }] });
    expect(log.batches).toEqual([
      { at: 3_000, topic: 't', partition: 1, events: 40, nextOffset: 45, ms: 500 },
    ]);
  });

  test('the time lost to retries is the time of failed tries, and every wait', () => {
    const batch = { topic: 't', partition: 0, events: 40, nextOffset: 45 };
    const log = readWorkerLog(
      [
        line(10.1, 'batch is decided again', { topic: 't', partition: 0 }),
        line(10.3, 'batch is decided again', { topic: 't', partition: 0 }),
        line(10.2, 'batch is decided again', { topic: 't', partition: 7 }),
        line(11, 'batch decided', { ...batch, ms: 1000 }),
        line(12, 'batch decided', { ...batch, ms: 900 }),
        line(13, 'partition is undecided', { topic: 't', partition: 3, waitMs: 2000 }),
      ].join('\n'),
    );
    expect(lostToRetries(log)).toBe(2_300);
  });
});

describe('the extent of a run', () => {
  const defaults = { events: 100, stored: [0, 5], keys: 'player' };

  test('is the default, or the value of the environment', () => {
    const extent = new Extent(defaults, { BENCH: 'keys', BENCH_STORED: '1, 2.5', BENCH_KEYS: 'random' });
    expect([extent.number('events'), extent.numbers('stored'), extent.word('keys')]).toEqual([
      100,
      [1, 2.5],
      'random',
    ]);
    expect(extent.describe()).toBe('BENCH_EVENTS=100 BENCH_STORED=1,2.5 BENCH_KEYS=random');
  });

  test.each([
    [{ BENCH_EVENTS: 'many' }, 'BENCH_EVENTS: "many" is not a number'],
    [{ BENCH_STORED: '1,,2' }, 'BENCH_STORED: "" is not a number'],
    [{ BENCH_EVENT: '5' }, 'BENCH_EVENT is not used by this mode'],
  ])('%j is refused', (environment, message) => {
    expect(() => new Extent(defaults, environment)).toThrow(message);
  });

  test('every mode has its own name and its own defaults', () => {
    expect(new Set(MODES.map(({ name }) => name)).size).toBe(MODES.length);
    for (const { extent } of MODES) expect(new Extent(extent, {}).describe()).toMatch(/^BENCH_/);
  });
});

const CHART: Chart = {
  title: 'Rate <by> size',
  x: { label: 'keys & more', scale: 'linear' },
  y: { label: 'events a second', scale: 'linear' },
  series: [
    {
      name: 'worker',
      points: [
        [0, 30_000],
        [20_000_000, 24_000],
      ],
    },
    {
      name: 'random',
      points: [
        [0, 28_000],
        [20_000_000, 12_000],
      ],
    },
  ],
};

test('help lists each mode once, with experiments and checks apart', () => {
  const lines = listModes();
  const at = (text: string) => lines.findIndex((line) => line.startsWith(text));
  for (const { name } of MODES) expect(lines.filter((line) => line.startsWith(`  ${name} `))).toHaveLength(1);
  expect(at('  throughput ')).toBeLessThan(at('experiments'));
  expect(at('  postgres ')).toBeGreaterThan(at('experiments'));
  expect(at('  short ')).toBeGreaterThan(at('checks'));
});

describe('a chart', () => {
  test('has a title, labels, a legend, and a line with marks for each series', () => {
    const svg = chartSvg(CHART);
    for (const text of ['Rate &lt;by&gt; size', 'keys &amp; more', 'events a second', 'worker', 'random'])
      expect(svg).toContain(`>${text}</text>`);
    expect(svg.match(/<polyline /g)).toHaveLength(2);
    expect(svg.match(/<circle /g)).toHaveLength(4);
    expect(svg).toContain('>20 M</text>');
    expect(svg).toContain('>30,000</text>');
    expect(svg).toContain('@media (prefers-color-scheme: dark)');
    expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  });

  test('without points, or with more series than colours, is refused', () => {
    expect(() => chartSvg({ ...CHART, series: [] })).toThrow('has no points');
    const [series] = CHART.series;
    const many = Array.from({ length: 6 }, () => series ?? { name: '', points: [] });
    expect(() => chartSvg({ ...CHART, series: many })).toThrow('6 series are too many');
  });

  test('a linear axis begins at 0 and ends at or above the highest value', () => {
    const scale = makeScale({ label: '', scale: 'linear' }, [7, 43], 300, 0);
    expect(scale.ticks.map(({ label }) => label)).toEqual(['0', '10', '20', '30', '40', '50']);
    expect([scale.place(0), scale.place(25), scale.place(50)]).toEqual([300, 150, 0]);
  });

  test('a logarithmic axis has its powers of ten equally far apart', () => {
    const scale = makeScale({ label: '', scale: 'log' }, [3, 4_000], 300, 0);
    expect(scale.ticks).toEqual([
      { at: 300, label: '1' },
      { at: 225, label: '10' },
      { at: 150, label: '100' },
      { at: 75, label: '1,000' },
      { at: 0, label: '10,000' },
    ]);
  });

  test('the horizontal axis has the measured values, unless they are too close', () => {
    const labels = (values: number[]) =>
      makeScale({ label: '', scale: 'linear' }, values, 0, 600).ticks.map(({ label }) => label);
    expect(labels([0, 1, 2.5, 10])).toEqual(['0', '1', '2.5', '10']);
    expect(labels([0, 0.1, 10])).toEqual(['0', '2', '4', '6', '8', '10']);
  });
});

describe('results', () => {
  const RESULT: Result = {
    name: 'keys',
    measuredAt: '2026-01-02T03:04:05.678Z',
    machine: ['2 cores'],
    settings: ['BENCH_EVENTS=5'],
    table: { columns: ['keys', 'events/s'], rows: [['none', '30,000']], notes: ['Medians.'] },
    goals: [{ id: 'P4', goal: '>= 0.9 x', measured: '0.95 x', met: true }],
    runs: [{ name: 'worker', events: 5, seconds: null }],
    chart: CHART,
  };

  test('are read as they were written, without missing values', () => {
    const root = mkdtempSync(join(tmpdir(), 'bench-test-'));
    try {
      const series = [
        {
          name: 'worker',
          points: [
            [0, 1],
            [1, Number.NaN],
          ] as const,
        },
      ];
      const paths = writeResult({ ...RESULT, chart: { ...CHART, series } }, root);
      expect(paths).toEqual(['docs/performance/keys.json', 'docs/performance/keys.svg']);
      expect(readResult('keys', root)).toEqual({
        ...RESULT,
        chart: { ...CHART, series: [{ name: 'worker', points: [[0, 1]] }] },
      });
      expect(readResult('latency', root)).toBeUndefined();
    } finally {
      rmSync(root, { recursive: true });
    }
  });

  test('goals that are not met come first, then the others, with links to their sections', () => {
    const root = mkdtempSync(join(tmpdir(), 'bench-test-'));
    try {
      const [goal] = RESULT.goals;
      writeResult({ ...RESULT, goals: [goal!, { ...goal!, id: 'P5' }] }, root);
      writeResult({ ...RESULT, name: 'soak', goals: [{ ...goal!, id: 'P6', met: false }, goal!] }, root);
      const sections = (...names: string[]) =>
        names.map((name) => `## About ${name}\n\n<!-- bench:${name} -->\n<!-- /bench -->\n`).join('\n');
      const documents = [
        { path: 'docs/performance.md', text: sections('goals', 'latency', 'keys') },
        { path: 'docs/tuning.md', text: sections('soak') },
      ];
      const rows = goalsTable(documents, root).split('\n').slice(2);
      expect(rows).toEqual([
        '| P6, >= 0.9 x: 0.95 x | **not met** | [About soak](tuning.md#about-soak) |',
        '| P4, >= 0.9 x: 0.95 x<br>P5, >= 0.9 x: 0.95 x | met | [About keys](#about-keys) |',
        '| P4, >= 0.9 x: 0.95 x | met | [About soak](tuning.md#about-soak) |',
      ]);
    } finally {
      rmSync(root, { recursive: true });
    }
  });

  test('are written between their marks, any number of times', () => {
    const text = 'a\n<!-- bench:keys -->\n<!-- /bench -->\nb\n<!-- bench:soak -->\nold\n<!-- /bench -->\n';
    const once = fillMarks(text, (name) => `figures of ${name} for $1`);
    expect(once).toBe(
      'a\n<!-- bench:keys -->\nfigures of keys for $1\n<!-- /bench -->\nb\n<!-- bench:soak -->\nfigures of soak for $1\n<!-- /bench -->\n',
    );
    expect(fillMarks(once, (name) => `figures of ${name} for $1`)).toBe(once);
  });

  test('show table, chart, day, machine, and the command that repeats them', () => {
    const result = {
      ...RESULT,
      settings: ['BENCH_EVENTS=5 BENCH_ROUNDS=2', 'the host took 0.1 % of the CPU', 'a log'],
    };
    const text = describeResult(result, ['1 core', '2 cores'], 'docs/adr/0001.md');
    expect(text).toBe(
      [
        '| keys | events/s |\n| --- | ---: |\n| none | 30,000 |',
        'Medians. Measured on 2026-01-02 on machine 2, where the host took 0.1 % of the CPU. Settings: a log. Repeat: `make bench BENCH=keys BENCH_EVENTS=5 BENCH_ROUNDS=2`. [All runs](../performance/keys.json).',
        '![Rate <by> size](../performance/keys.svg)',
      ].join('\n\n'),
    );
  });

  test('of which six are the first figures, each by its row and column', () => {
    const run = { worker_cpu_seconds_per_100k: 1.2, postgres_cpu_seconds_per_100k: 0.9 };
    const runs = [{ name: 'worker', wal_bytes_per_event: 500, bytes_per_event: 400, rss_mib: 200, ...run }];
    const tables: Readonly<Record<string, Result['table']>> = {
      throughput: {
        columns: ['contender', 'x insert-only', 'RSS MiB', 'events/s'],
        rows: [
          ['insert-only', '1.00', '300', '80,000'],
          ['worker', '1.10', '200', '88,000'],
        ],
        notes: [],
      },
      latency: { columns: ['load %', 'p50 ms', 'p99 ms'], rows: [['50', '10', '40']], notes: [] },
      webhook: {
        columns: ['events a request', 'events/s'],
        rows: [
          ['1', '2,000'],
          ['100', '40,000'],
        ],
        notes: [],
      },
    };
    const resultOf = (name: string): Result => ({ ...RESULT, name, runs, table: tables[name]! });
    expect(keyFigures(resultOf).rows.map(([, measured]) => measured)).toEqual([
      '88,000, which is 1.10 x a worker that only inserts',
      'p50 10 ms, p99 40 ms',
      '12.0 microseconds of the worker, 9.0 of Postgres',
      '400 bytes stored, 500 bytes of WAL',
      '200 MiB',
      '2,000 with one event a request, 40,000 with 100',
    ]);
    expect(() => cellOf(resultOf('latency'), '75', 'p50 ms')).toThrow('has no p50 ms of 75');
  });

  test('a table in text has aligned figures', () => {
    const table = {
      columns: ['load', 'p50'],
      rows: [
        ['10', '5'],
        ['none', '1,000'],
      ],
      notes: ['Medians.'],
    };
    expect(tableText(table)).toEqual(['load    p50', '10        5', 'none  1,000', 'Medians.']);
    expect(tableMarkdown({ ...table, rows: [['a|b', 'x']], notes: [] })).toBe(
      '| load | p50 |\n| --- | --- |\n| a\\|b | x |',
    );
  });
});

describe('the resources of higher rates', () => {
  const run = (worker: number, store: number, wal: number) => ({
    name: 'worker',
    worker_cpu_seconds_per_100k: worker,
    postgres_cpu_seconds_per_100k: store,
    wal_bytes_per_event: wal,
    bytes_per_event: 400,
    rss_mib: 200,
  });
  const resultOf = (runs: Result['runs']): Result => ({
    name: 'throughput',
    measuredAt: '',
    machine: [],
    settings: [],
    goals: [],
    table: { columns: [], rows: [], notes: [] },
    runs,
  });
  const tableOf = (...runs: Result['runs']) => scaleOutTable(resultOf(runs)).rows;

  test('is the median cost of the worker times the rate, with room left', () => {
    const others = { name: 'insert-only', worker_cpu_seconds_per_100k: 100 };
    const runs = [run(1.2, 0.9, 500), run(9, 9, 9_000), run(0.1, 0.1, 1), others];
    // 10,000 events a second: 0.12 cores of a worker and 0.09 of the store. 5 MB of WAL, and 400 bytes for
    // each of the 86,400 seconds.
    expect(tableOf(...runs)[0]).toEqual(['10,000', '0.1', '1', '4', '0.1', '5.0', '1', '346']);
    // A million: 12 cores are 20 pods at 60 %; 9 cores are one node of 16, but 500 MB/s of WAL are four.
    expect(tableOf(...runs)[2]).toEqual(['1,000,000', '12.0', '20', '80', '9.0', '500.0', '4', '34,560']);
  });

  test('is a formula for each resource, with an example', () => {
    expect(capacityTable(resultOf([run(1.2, 3, 500)])).rows).toEqual([
      // 10,000 a second, 12 microseconds each, at 60 %.
      ['worker cores, 60 % busy', '`E * 12.0 / 600,000`', '0.20'],
      ['workers', 'worker cores, rounded up; at least 2, so that one may fail', '2'],
      ['memory of all workers', '`workers * 200 MiB`', '400 MiB'],
      ['partitions of a topic', '`workers * 4`', '8'],
      ['cores of Postgres, 60 % busy', '`E * 30.0 / 600,000`', '0.50'],
      ['WAL a second', '`E * 500` bytes', '5.0 MB'],
      // 300 million a day, 396 days, 400 bytes each.
      ['disk a day', '`D * 400` bytes', '120 GB'],
      ['disk of Postgres', '`D * days * 400` bytes', expect.stringMatching(/^47\.5 TB for 13 months/)],
    ]);
  });

  test('is limited by the cores of the store if these are scarcer than its WAL', () => {
    expect(tableOf(run(1.2, 3, 100))[2]?.[6]).toBe('4');
  });
});

describe('settings of Postgres', () => {
  const [baseline = {}, , , fewerCheckpoints = {}] = VARIANTS;
  const entry = (round: number, settings: Entry['settings'], rate: number, wal: number): Entry => {
    const use = { cpuSeconds: 1, postgresCpuSeconds: 2, takenByHost: 0, peakRssMib: 200, bytes: 400 };
    const run = { ...use, events: 1_000, seconds: 1_000 / rate, walBytes: 1_000 * wal };
    return { round, settings, run, checkpoints: settings === baseline ? 1 : 0 };
  };

  test('are compared with the baseline of their own round, in any order', () => {
    const { rows } = settingsTable(
      [
        entry(1, baseline, 40_000, 700),
        entry(1, fewerCheckpoints, 44_000, 490),
        entry(2, fewerCheckpoints, 24_000, 350),
        entry(2, baseline, 20_000, 700),
      ],
      [],
    );
    const name = 'max_wal_size=4GB checkpoint_timeout=15min';
    expect(rows).toEqual([
      ['baseline', '30,000', '1.00', '1.00 - 1.00', '300.00', '1.00', '700', '1.00', '1'],
      [name, '34,000', '1.15', '1.10 - 1.20', '300.00', '1.00', '420', '0.60', '0'],
    ]);
  });

  test('that the server does not have are listed', () => {
    const { notes } = settingsTable([entry(1, baseline, 40_000, 700)], [{ wal_compression: 'lz4' }]);
    expect(notes.at(-1)).toMatch(/^Not measured, .*: wal_compression=lz4\.$/);
  });

  test('never trade durability for speed', () => {
    const names = VARIANTS.flatMap((settings) => Object.keys(settings));
    expect(names).toContain('max_wal_size');
    for (const name of ['fsync', 'full_page_writes', 'synchronous_commit', 'wal_sync_method'])
      expect(names).not.toContain(name);
  });
});

describe('the delaying proxy', () => {
  let server: Server;
  let proxy: DelayProxy | undefined;

  async function startBefore(delayMs: number, onConnection: (socket: Socket) => void): Promise<Socket> {
    server = createServer({ allowHalfOpen: true }, onConnection);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    proxy = await startDelayProxy({ host: '127.0.0.1', port, delayMs }, makeTimerAlarm);
    const socket = connect({ port: proxy.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    await once(socket, 'connect');
    return socket;
  }

  afterEach(async () => {
    await proxy?.close();
    proxy = undefined;
    await new Promise((resolve) => server.close(resolve));
  });

  test('an answer takes the delay of both directions', async () => {
    const client = await startBefore(20, (socket) => socket.pipe(socket));
    for (const word of ['one', 'two', 'three']) {
      const began = performance.now();
      client.write(word);
      const [answer] = await once(client, 'data');
      expect(String(answer)).toBe(word);
      expect(performance.now() - began).toBeGreaterThanOrEqual(39);
    }
    client.destroy();
  });

  test('bytes that are sent while others are in flight are delayed in parallel', async () => {
    const client = await startBefore(250, (socket) => socket.pipe(socket));
    const began = performance.now();
    for (let count = 0; count < 20; count++) {
      client.write(`${count},`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    client.end();
    const received = (await buffer(client)).toString();
    expect(received).toBe(Array.from({ length: 20 }, (_, count) => `${count},`).join(''));
    expect(performance.now() - began).toBeGreaterThanOrEqual(499);
    // In a row they would take ten seconds.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test('a slow reader gets every byte in order, and slows its writer', async () => {
    const bytes = randomBytes(24 * 1024 * 1024);
    let readable: Socket | undefined;
    const client = await startBefore(1, (socket) => {
      readable = socket.pause();
      socket.end();
    });
    client.resume();
    let taken = false;
    client.end(bytes, () => {
      taken = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(taken).toBe(false);
    if (readable === undefined) throw new Error('the proxy did not connect');
    const digest = (data: Buffer) => createHash('sha256').update(data).digest('hex');
    expect(digest(await buffer(readable))).toBe(digest(bytes));
    expect(taken).toBe(true);
  });
});

describe('memory over a long time', () => {
  const samples = (rss: (minute: number) => number) =>
    Array.from({ length: 60 }, (_, minute) => ({ minute, rss: rss(minute) }));

  it('has the slope of the nearest straight line, in MiB per hour', () => {
    expect(slopeOf(samples((minute) => 100 + minute / 2))).toBeCloseTo(30);
    expect(slopeOf(samples((minute) => 100 + (minute % 2)))).toBeCloseTo(0, 0);
  });

  it('ignores growth at the beginning, and counts growth at the end', () => {
    const met = (rss: (minute: number) => number) => growthGoal('P6', samples(rss), 60).met;
    expect(met((minute) => (minute < 10 ? 50 : 100))).toBe(true);
    expect(met((minute) => 100 + minute)).toBe(false);
    expect(growthGoal('P6', samples((minute) => 100 + minute).slice(0, 10), 10).met).toBeNull();
  });
});
