/**
 * The worker beside insert-only, COPY, copy-own and raw-consume, in turns over the same records (P1, P2, P6).
 */
import { type Course, runCopy, runInsertOnly, runRawConsume } from '../contenders';
import { type OwnRows, readOwnRows, runCopyOwn } from '../copy-own';
import { type CountedRounds, countRounds } from '../counted';
import type { Keys } from '../feed';
import type { Bench, Mode } from '../mode';
import type { Published } from '../publish';
import type { Goal, Measured } from '../result';
import { cpuPer100k, drain, drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, type Table, times } from '../table';
import { keysOf, publishUsual } from '../usual';

/** copy-own by its number of connections. */
const COPY_OWN = ['copy-own-1', 'copy-own-2'] as const;
const CONTENDERS = ['copy', 'raw-consume', ...COPY_OWN, 'insert-only', 'worker'] as const;
type Contender = (typeof CONTENDERS)[number];

interface Goals {
  /** Least rate of the worker, as a multiple of insert-only's. */
  readonly rate: number;
  /** Most CPU of worker and Postgres, as a multiple of insert-only's. */
  readonly cpu?: number;
  /** Most bytes, as a multiple of insert-only's. */
  readonly bytes?: number;
  readonly rssMib?: number;
  /** The worker beside copy-own: least rate, and most CPU of Postgres. */
  readonly copyOwn?: { readonly rate: number; readonly postgresCpu: number };
}

const ACROSS_PARTITIONS: Goals = { rate: 1.0, cpu: 1.1, bytes: 1.6, rssMib: 256 };
const GOALS: Readonly<Record<Keys, Goals>> = {
  player: { rate: 1.2, cpu: 1.0, bytes: 1.6, rssMib: 224, copyOwn: { rate: 0.75, postgresCpu: 1.15 } },
  random: ACROSS_PARTITIONS,
  none: ACROSS_PARTITIONS,
  one: { rate: 1.4 },
};

const VARIANTS: Readonly<Record<Keys, string | undefined>> = {
  player: undefined,
  random: 'random-keys',
  none: 'no-keys',
  one: 'one-key',
};

interface Entry {
  readonly round: number;
  readonly contender: Contender;
  readonly run: Run;
}

export const throughput: Mode = {
  name: 'throughput',
  about: 'the worker beside COPY, copy-own, insert-only and raw-consume, in turns',
  extent: { events: 800_000, rounds: 5, keys: 'player' },
  async run(bench) {
    const rounds = bench.extent.number('rounds');
    const keys = keysOf(bench.extent.word('keys'));
    const published = await publishUsual(bench, bench.extent.number('events'));
    // A new broker compiles its code, and the kernel writes the log. The first contender would pay.
    bench.say(
      `warm-up, which does not count: worker ${figure(rateOf(await drainAfresh(bench.stage, published)))} events/s`,
    );
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const [contender, run] of await runRound(bench, published, round)) {
        bench.say(`round ${round} of ${rounds}: ${contender} ${figure(rateOf(run))} events/s`);
        entries.push({ round, contender, run });
      }
    }
    return present(entries, published, keys);
  },
};

type Played = readonly [Contender, Run];

/**
 * The worker and each copy-own have a database to themselves. Otherwise the later cost of their rows would be
 * charged to the next contender.
 */
async function runRound(bench: Bench, published: Published, round: number): Promise<Played[]> {
  const { stage } = bench;
  const others = async (): Promise<Played[]> =>
    stage.withDatabase([published.topic], async (databaseUrl) => {
      const course: Course = { published, databaseUrl };
      return [
        ['insert-only', await runInsertOnly(stage, course)],
        ['copy', await runCopy(course)],
      ];
    });
  const measured: Played[] = [];
  const workerAndOwn = () => runWorkerAndCopyOwn(bench, published, round);
  for (const measure of inTurns([workerAndOwn, others], round)) measured.push(...(await measure()));
  return [
    ...measured,
    ['raw-consume', await runRawConsume(stage, { published, databaseUrl: stage.serverUrl })],
  ];
}

async function runWorkerAndCopyOwn(
  { stage }: Bench,
  { topic, records }: Published,
  round: number,
): Promise<Played[]> {
  const [worker, rows] = await stage.withDatabase([topic], async (databaseUrl): Promise<[Run, OwnRows]> => {
    const run = await drain(stage, { databaseUrl, topic, records, groupId: stage.newGroup() });
    return [run, await readOwnRows(databaseUrl)];
  });
  const measured: Played[] = [['worker', worker]];
  for (const contender of inTurns(COPY_OWN, round)) {
    const connections = COPY_OWN.indexOf(contender) + 1;
    const run = await stage.withDatabase([topic], (databaseUrl) =>
      runCopyOwn(databaseUrl, rows, records, connections),
    );
    measured.push([contender, run]);
  }
  return measured;
}

function present(entries: readonly Entry[], published: Published, keys: Keys): Measured {
  const [one, two] = COPY_OWN.map((name) => median(runsIn(entries, name).map(rateOf)));
  const copyOwn: Contender = (two ?? 0) > (one ?? 0) ? COPY_OWN[1] : COPY_OWN[0];
  const judged = ['insert-only', 'worker', ...(GOALS[keys].copyOwn === undefined ? [] : [copyOwn])];
  const rounds = countRounds(
    entries
      .filter(({ contender }) => judged.includes(contender))
      .map(({ round, contender, run }) => ({
        round,
        name: contender,
        rate: rateOf(run),
        takenByHost: run.takenByHost,
      })),
  );
  // Where too few rounds count, all are shown, and nothing is concluded from them.
  const shown = rounds.areEnough ? entries.filter(({ round }) => rounds.counts(round)) : entries;
  const runsOf = (name: Contender) => runsIn(shown, name);
  const variant = VARIANTS[keys];
  return {
    table: table(runsOf, copyOwn, rounds.notes),
    goals: goals(runsOf, GOALS[keys], copyOwn, rounds),
    runs: entries.map((entry) => ({
      round: entry.round,
      ...recordOf(entry.contender, entry.run),
      counts: rounds.counts(entry.round),
    })),
    settings: [
      `records ${keys === 'none' ? 'without keys' : `keyed by ${keys}`}, ${figure(published.bytes)} bytes each`,
    ],
    ...(variant !== undefined && { variant }),
  };
}

function runsIn(entries: readonly Entry[], name: Contender): readonly Run[] {
  return entries.filter(({ contender }) => contender === name).map(({ run }) => run);
}

type RunsOf = (name: Contender) => readonly Run[];

/** @param copyOwn the faster copy-own */
function table(runsOf: RunsOf, copyOwn: Contender, notes: readonly string[]): Table {
  const medianRate = (name: Contender) => median(runsOf(name).map(rateOf));
  const rows = CONTENDERS.map((name) => {
    const runs = runsOf(name);
    const column = (pick: (run: Run) => number) => median(runs.map(pick));
    const rates = runs.map(rateOf);
    const per100k = (pick: (run: Run) => number) => column((run) => (pick(run) / run.events) * 100_000);
    const isProcess = !name.startsWith('copy');
    return [
      name,
      figure(medianRate(name)),
      times(medianRate(name) / medianRate('copy')),
      times(medianRate(name) / medianRate(copyOwn)),
      times(medianRate(name) / medianRate('insert-only')),
      times(per100k(({ cpuSeconds }) => cpuSeconds)),
      times(per100k(({ postgresCpuSeconds }) => postgresCpuSeconds)),
      isProcess ? figure(column(({ peakRssMib }) => peakRssMib)) : '-',
      name === 'raw-consume' ? '-' : figure(column(({ bytes, events }) => bytes / events)),
      name === 'raw-consume' ? '-' : figure(column(({ walBytes, events }) => walBytes / events)),
      runs.length === 0 ? '-' : `${figure(Math.min(...rates))} - ${figure(Math.max(...rates))}`,
    ];
  });
  const columns = [
    'contender',
    'events/s',
    'x copy',
    'x copy-own',
    'x insert-only',
    'CPU s',
    'Postgres CPU s',
    'RSS MiB',
    'bytes/event',
    'WAL bytes/event',
    'events/s from - to',
  ];
  return {
    columns,
    rows,
    notes: ['Medians. CPU in seconds for 100,000 events, with the start of the process.', ...notes],
  };
}

function goals(runsOf: RunsOf, limits: Goals, copyOwn: Contender, { areEnough }: CountedRounds): Goal[] {
  const worker = runsOf('worker');
  const compare = (
    id: string,
    what: string,
    limit: { least: number } | { most: number } | undefined,
    other: Contender,
    pick: (run: Run) => number,
  ): Goal[] => {
    if (limit === undefined) return [];
    const ratio = median(worker.map(pick)) / median(runsOf(other).map(pick));
    const bound = 'least' in limit ? `>= ${limit.least.toFixed(2)}` : `<= ${limit.most.toFixed(2)}`;
    const isMet = 'least' in limit ? ratio >= limit.least : ratio <= limit.most;
    return [
      {
        id,
        goal: `${what} ${bound} x ${other === copyOwn ? 'copy-own' : other}`,
        measured: `${times(ratio)} x`,
        met: areEnough && Number.isFinite(ratio) ? isMet : null,
      },
    ];
  };
  const rss = Math.max(...worker.map(({ peakRssMib }) => peakRssMib));
  const { rate, cpu, bytes, rssMib, copyOwn: own } = limits;
  const most = (value: number | undefined) => (value === undefined ? undefined : { most: value });
  return [
    ...compare('P1', 'worker', { least: rate }, 'insert-only', rateOf),
    ...compare('P2', 'CPU of worker and Postgres', most(cpu), 'insert-only', cpuPer100k),
    ...compare('P2', 'bytes', most(bytes), 'insert-only', (run) => run.bytes / run.events),
    ...compare('P1', 'worker', own && { least: own.rate }, copyOwn, rateOf),
    ...compare('P2', 'CPU of Postgres', most(own?.postgresCpu), copyOwn, (run) => {
      return run.postgresCpuSeconds / run.events;
    }),
    ...(rssMib === undefined
      ? []
      : [
          {
            id: 'P6',
            goal: `resident memory at full load <= ${rssMib} MiB`,
            measured: `${figure(rss)} MiB`,
            met: rss <= rssMib,
          },
        ]),
  ];
}
