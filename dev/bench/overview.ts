/** Tables of several results: the six figures of docs/performance.md, and the cost of higher rates. */
import type { Result } from './result';
import { median } from './statistics';
import { figure, type Table } from './table';

/** @param resultOf gives the result of a mode */
export function keyFigures(resultOf: (mode: string) => Result): Table {
  const throughput = resultOf('throughput');
  const latency = resultOf('latency');
  const webhook = resultOf('webhook');
  const { workerCores, storeCores, walBytes, storedBytes } = costsOf(throughput);
  const worker = (column: string) => cellOf(throughput, 'worker', column);
  return {
    columns: ['', 'measured', 'section'],
    rows: [
      [
        'events a second that one worker decides, with its Postgres and Kafka on the same two cores',
        `${worker('events/s')}, which is ${worker('x insert-only')} x a worker that only inserts`,
        '[throughput](#throughput)',
      ],
      [
        'time from the send to the committed verdict, at half of the full rate',
        `p50 ${cellOf(latency, '50', 'p50 ms')} ms, p99 ${cellOf(latency, '50', 'p99 ms')} ms`,
        '[latency](#latency)',
      ],
      [
        'CPU an event',
        `${figure(workerCores * 1e6, 1)} microseconds of the worker, ${figure(storeCores * 1e6, 1)} of Postgres`,
        '[throughput](#throughput)',
      ],
      [
        'disk an event',
        `${figure(storedBytes)} bytes stored, ${figure(walBytes)} bytes of WAL`,
        '[throughput](#throughput)',
      ],
      ['resident memory of a worker at full load', `${worker('RSS MiB')} MiB`, '[throughput](#throughput)'],
      [
        'events a second by the webhook, with 32 senders',
        `${cellOf(webhook, '1', 'events/s')} with one event a request, ${cellOf(webhook, '100', 'events/s')} with 100`,
        '[the webhook](#the-webhook)',
      ],
    ],
    notes: [],
  };
}

/** @throws if the table has no such row or column */
export function cellOf({ name, table }: Result, row: string, column: string): string {
  const cell = table.rows.find(([first]) => first === row)?.[table.columns.indexOf(column)];
  if (cell === undefined) throw new Error(`the table of ${name} has no ${column} of ${row}`);
  return cell;
}

// --- the cost of higher rates, on paper: the costs of an event, multiplied, with room to catch up

const RATES = [10_000, 100_000, 1_000_000] as const;
/** Planned load of pods and nodes. The rest is for peaks, and for catching up after a stop. */
const BUSY = 0.6;
/** Room to grow: pods can be added up to this factor, and the load still spreads evenly over the pods. */
const PARTITIONS_PER_POD = 4;
const NODE_CORES = 16;
/** WAL that a node writes and its standby follows, without special disks. */
const NODE_WAL_BYTES_PER_SECOND = 150e6;
const SECONDS_PER_DAY = 86_400;

/** A worked example: events a second at the peak, events a day, retention in days. */
const EXAMPLE = { peak: 10_000, daily: 300e6, days: 396 } as const;
/** One may fail. */
const MIN_WORKERS = 2;

/**
 * The costs of an event.
 *
 * @param throughput the result of the mode of that name
 */
export function costsOf(throughput: Result) {
  const all = throughput.runs.filter(({ name }) => name === 'worker');
  const counted = all.filter(({ counts }) => counts === true);
  // As in the table of the mode: if no run counts, all are shown.
  const runs = counted.length > 0 ? counted : all;
  const cost = (field: string) => median(runs.map((run) => Number(run[field])));
  return {
    workerCores: cost('worker_cpu_seconds_per_100k') / 1e5,
    storeCores: cost('postgres_cpu_seconds_per_100k') / 1e5,
    walBytes: cost('wal_bytes_per_event'),
    storedBytes: cost('bytes_per_event'),
    workerMib: cost('rss_mib'),
  };
}

/**
 * The cost of an event as a sum.
 *
 * @param throughput the result of the mode of that name
 */
export function scaleOutTable(throughput: Result): Table {
  const { workerCores, storeCores, walBytes, storedBytes } = costsOf(throughput);
  return {
    columns: [
      'events/s',
      'worker cores',
      'pods of 1 core',
      'partitions',
      'store cores',
      'WAL MB/s',
      `store nodes of ${NODE_CORES} cores`,
      'GB stored a day',
    ],
    rows: RATES.map((rate) => {
      const pods = Math.ceil((rate * workerCores) / BUSY);
      const byCores = Math.ceil((rate * storeCores) / (NODE_CORES * BUSY));
      const byWal = Math.ceil((rate * walBytes) / NODE_WAL_BYTES_PER_SECOND);
      return [
        figure(rate),
        figure(rate * workerCores, 1),
        figure(pods),
        figure(pods * PARTITIONS_PER_POD),
        figure(rate * storeCores, 1),
        figure((rate * walBytes) / 1e6, 1),
        figure(Math.max(byCores, byWal)),
        figure((rate * storedBytes * SECONDS_PER_DAY) / 1e9),
      ];
    }),
    notes: [
      `Pods and nodes are planned to be ${BUSY * 100} % busy, with ${PARTITIONS_PER_POD} partitions a pod.`,
      `A node writes at most ${NODE_WAL_BYTES_PER_SECOND / 1e6} MB/s of WAL.`,
    ],
  };
}

/**
 * The resources of a deployment as formulas: `E` events a second at the peak, `D` a day.
 *
 * @param throughput the result of the mode of that name
 */
export function capacityTable(throughput: Result): Table {
  const { workerCores, storeCores, walBytes, storedBytes, workerMib } = costsOf(throughput);
  const { peak, daily, days } = EXAMPLE;
  const cores = (each: number) => [
    `\`E * ${figure(each * 1e6, 1)} / ${figure(BUSY * 1e6)}\``,
    figure((peak * each) / BUSY, 2),
  ];
  const workers = Math.max(MIN_WORKERS, Math.ceil((peak * workerCores) / BUSY));
  return {
    columns: [
      '',
      'formula',
      `example: E = ${figure(peak)} a second, D = ${figure(daily / 1e6)} million a day`,
    ],
    rows: [
      [`worker cores, ${BUSY * 100} % busy`, ...cores(workerCores)],
      ['workers', `worker cores, rounded up; at least ${MIN_WORKERS}, so that one may fail`, figure(workers)],
      [
        'memory of all workers',
        `\`workers * ${figure(workerMib)} MiB\``,
        `${figure(workers * workerMib)} MiB`,
      ],
      ['partitions of a topic', `\`workers * ${PARTITIONS_PER_POD}\``, figure(workers * PARTITIONS_PER_POD)],
      [`cores of Postgres, ${BUSY * 100} % busy`, ...cores(storeCores)],
      ['WAL a second', `\`E * ${figure(walBytes)}\` bytes`, `${figure((peak * walBytes) / 1e6, 1)} MB`],
      ['disk a day', `\`D * ${figure(storedBytes)}\` bytes`, `${figure((daily * storedBytes) / 1e9)} GB`],
      [
        'disk of Postgres',
        `\`D * days * ${figure(storedBytes)}\` bytes`,
        `${figure((daily * days * storedBytes) / 1e12, 1)} TB for 13 months; keys and rounds grow on, since they are never dropped`,
      ],
    ],
    notes: [],
  };
}

/**
 * The seconds of the analysts' questions at two sizes of the store.
 *
 * @param large the result at the larger size
 */
export function questionSpeeds(usual: Result, large: Result): Table {
  return {
    columns: [
      'question',
      'lines',
      's at 20 million',
      's at 100 million',
      'rows read at 100 million',
      'blocks read',
      'most rows by',
    ],
    rows: large.table.rows.map(([question = '']) => {
      const of = (result: Result, column: string) => cellOf(result, question, column);
      return [
        question,
        of(large, 'lines'),
        of(usual, 'median, s'),
        of(large, 'median, s'),
        of(large, 'rows read'),
        of(large, 'blocks read'),
        of(large, 'most rows by'),
      ];
    }),
    notes: [],
  };
}
