/** The worker beside insert-only, COPY and raw-consume, in turns over the same records (P1, P2, P6). */
import { type Course, runCopy, runInsertOnly, runRawConsume } from '../contenders';
import type { Bench, Mode } from '../mode';
import type { Published } from '../publish';
import type { Goal, Measured } from '../result';
import { cpuPer100k, drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, type Table, times } from '../table';
import { publishUsual } from '../usual';

const CONTENDERS = ['copy', 'raw-consume', 'insert-only', 'worker'] as const;
type Contender = (typeof CONTENDERS)[number];

/**
 * An insert-only slower than this share of COPY of its rows was disturbed: being faster than it proves
 * nothing.
 */
const LEAST_OF_COPY = 0.35;
const RATE_GOAL = 1.2;
/** The project's goal for the rate. */
const RATE_DONE = 1.0;
const CPU_GOAL = 1.1;
const BYTES_GOAL = 1.6;
const RSS_GOAL_MIB = 256;

interface Entry {
  readonly round: number;
  readonly contender: Contender;
  readonly run: Run;
}

export const throughput: Mode = {
  name: 'throughput',
  about: 'the worker beside COPY, insert-only and raw-consume, in turns',
  extent: { events: 800_000, rounds: 3, keys: 'player' },
  async run(bench) {
    const rounds = bench.extent.number('rounds');
    const published = await publishUsual(bench, bench.extent.number('events'));
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const [contender, run] of await runRound(bench, published, round)) {
        bench.say(`round ${round} of ${rounds}: ${contender} ${figure(rateOf(run))} events/s`);
        entries.push({ round, contender, run });
      }
    }
    return present(entries, published, bench.extent.word('keys'));
  },
};

/**
 * The worker has a database to itself. Otherwise the later cost of its rows would be charged to the next
 * contender.
 */
async function runRound(
  { stage }: Bench,
  published: Published,
  round: number,
): Promise<(readonly [Contender, Run])[]> {
  const worker = async () => [['worker', await drainAfresh(stage, published)] as const];
  const others = async () =>
    stage.withDatabase([published.topic], async (databaseUrl) => {
      const course: Course = { published, databaseUrl };
      return [
        ['insert-only', await runInsertOnly(stage, course)] as const,
        ['copy', await runCopy(course)] as const,
      ];
    });
  const measured: (readonly [Contender, Run])[] = [];
  for (const measure of inTurns([worker, others], round)) measured.push(...(await measure()));
  return [
    ...measured,
    ['raw-consume', await runRawConsume(stage, { published, databaseUrl: stage.serverUrl })],
  ];
}

function present(entries: readonly Entry[], published: Published, keys: string): Measured {
  // On a single partition insert-only waits for one transaction after the other, disturbed or not.
  const counting = keys === 'one' ? () => true : (entry: Entry) => counts(entry, entries);
  const countedOnly = entries.filter(counting);
  // If no entry counts, all entries are shown, and nothing is concluded from them.
  const proves = countedOnly.some(({ contender }) => contender === 'insert-only');
  const counted = proves ? countedOnly : entries;
  const runsOf = (name: Contender) =>
    counted.filter(({ contender }) => contender === name).map(({ run }) => run);
  return {
    table: table(
      runsOf,
      new Set(entries.filter((entry) => !countedOnly.includes(entry)).map(({ round }) => round)).size,
    ),
    // A single partition has no goals.
    goals: keys === 'one' ? [] : goals(runsOf, proves),
    runs: entries.map((entry) => ({
      round: entry.round,
      ...recordOf(entry.contender, entry.run),
      counts: counting(entry),
    })),
    settings: [`records keyed by ${keys}, ${figure(published.bytes)} bytes each`],
    ...(keys === 'random' && { variant: 'random-keys' }),
    ...(keys === 'one' && { variant: 'one-key' }),
  };
}

/**
 * If insert-only was disturbed in a round, the whole round does not count: the others were disturbed as much,
 * or more.
 */
function counts({ round }: Entry, entries: readonly Entry[]): boolean {
  const rateIn = (contender: Contender) => {
    const entry = entries.find((other) => other.round === round && other.contender === contender);
    return entry === undefined ? Number.NaN : rateOf(entry.run);
  };
  return rateIn('insert-only') >= LEAST_OF_COPY * rateIn('copy');
}

type RunsOf = (name: Contender) => readonly Run[];

function table(runsOf: RunsOf, notCounted: number): Table {
  const medianRate = (name: Contender) => median(runsOf(name).map(rateOf));
  const rows = CONTENDERS.map((name) => {
    const runs = runsOf(name);
    const column = (pick: (run: Run) => number) => median(runs.map(pick));
    const rates = runs.map(rateOf);
    const per100k = (pick: (run: Run) => number) => column((run) => (pick(run) / run.events) * 100_000);
    return [
      name,
      figure(medianRate(name)),
      times(medianRate(name) / medianRate('copy')),
      times(medianRate(name) / medianRate('insert-only')),
      times(per100k(({ cpuSeconds }) => cpuSeconds)),
      times(per100k(({ postgresCpuSeconds }) => postgresCpuSeconds)),
      name === 'copy' ? '-' : figure(column(({ peakRssMib }) => peakRssMib)),
      name === 'raw-consume' ? '-' : figure(column(({ bytes, events }) => bytes / events)),
      name === 'raw-consume' ? '-' : figure(column(({ walBytes, events }) => walBytes / events)),
      runs.length === 0 ? '-' : `${figure(Math.min(...rates))} - ${figure(Math.max(...rates))}`,
    ];
  });
  const columns = [
    'contender',
    'events/s',
    'x copy',
    'x insert-only',
    'CPU s',
    'Postgres CPU s',
    'RSS MiB',
    'bytes/event',
    'WAL bytes/event',
    'events/s from - to',
  ];
  const notes = ['Medians. CPU in seconds for 100,000 events, with the start of the process.'];
  if (notCounted > 0)
    notes.push(`Rounds that do not count, with insert-only below ${LEAST_OF_COPY} x COPY: ${notCounted}.`);
  return { columns, rows, notes };
}

function goals(runsOf: RunsOf, proves: boolean): Goal[] {
  const [worker, insertOnly] = [runsOf('worker'), runsOf('insert-only')];
  const ratio = (pick: (run: Run) => number) => median(worker.map(pick)) / median(insertOnly.map(pick));
  const rate = ratio(rateOf);
  const cpu = ratio(cpuPer100k);
  const bytes = ratio(({ bytes, events }) => bytes / events);
  const rss = Math.max(...worker.map(({ peakRssMib }) => peakRssMib));
  return [
    {
      id: 'P1',
      goal: `worker >= ${RATE_GOAL} x insert-only (done at ${RATE_DONE.toFixed(1)})`,
      measured: `${times(rate)} x${rate >= RATE_DONE ? ', done' : ''}`,
      met: proves ? rate >= RATE_GOAL : null,
    },
    {
      id: 'P2',
      goal: `CPU of worker and Postgres <= ${CPU_GOAL} x insert-only`,
      measured: `${times(cpu)} x`,
      met: proves && Number.isFinite(cpu) ? cpu <= CPU_GOAL : null,
    },
    {
      id: 'P2',
      goal: `bytes <= ${BYTES_GOAL} x insert-only`,
      measured: `${times(bytes)} x`,
      met: proves ? bytes <= BYTES_GOAL : null,
    },
    {
      id: 'P6',
      goal: `resident memory at full load <= ${RSS_GOAL_MIB} MiB`,
      measured: `${figure(rss)} MiB`,
      met: rss <= RSS_GOAL_MIB,
    },
  ];
}
