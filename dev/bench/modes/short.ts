/** The check of CI: the worker beside insert-only. It fails if the worker has become expensive or slow. */
import { runInsertOnly } from '../contenders';
import type { Mode } from '../mode';
import type { Goal, Measured } from '../result';
import { cpuPer100k, drainAfresh, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

/** A change is refused if the CPU of worker and Postgres exceeds this multiple of insert-only's CPU. */
const CPU_CEILING = 1.4;
/**
 * A change is refused if the rate is below this share of insert-only's rate. Coarse, since the machines of CI
 * are shared.
 */
const RATE_FLOOR = 0.7;

interface Pair {
  readonly worker: Run;
  readonly insertOnly: Run;
}

export const short: Mode = {
  name: 'short',
  about: 'what CI runs: exit code 1 where the worker costs too much beside insert-only',
  extent: { events: 250_000, rounds: 3 },
  isCheck: true,
  // The CPU of a server elsewhere cannot be read, and a goal that is not judged would have to pass.
  ownPostgres: true,
  async run(bench) {
    const { stage, extent, say } = bench;
    const rounds = extent.number('rounds');
    const published = await publishUsual(bench, extent.number('events'));
    const pairs: Pair[] = [];
    for (let round = 1; round <= rounds; round++) {
      const worker = await drainAfresh(stage, published);
      const insertOnly = await stage.withDatabase([published.topic], (databaseUrl) =>
        runInsertOnly(stage, { published, databaseUrl }),
      );
      pairs.push({ worker, insertOnly });
      say(
        `round ${round} of ${rounds}: worker ${figure(rateOf(worker))}, insert-only ${figure(rateOf(insertOnly))} events/s`,
      );
    }
    return present(pairs);
  },
};

function present(pairs: readonly Pair[]): Measured {
  const ratio = (pick: (run: Run) => number) =>
    median(pairs.map(({ worker, insertOnly }) => pick(worker) / pick(insertOnly)));
  const cpu = ratio(cpuPer100k);
  const rate = ratio(rateOf);
  const goals: Goal[] = [
    {
      id: 'P2',
      goal: `CPU of worker and Postgres <= ${CPU_CEILING} x insert-only`,
      measured: `${times(cpu)} x`,
      met: Number.isFinite(cpu) ? cpu <= CPU_CEILING : null,
    },
    {
      id: 'P1',
      goal: `rate >= ${RATE_FLOOR} x insert-only`,
      measured: `${times(rate)} x`,
      met: rate >= RATE_FLOOR,
    },
  ];
  const missed = goals.filter(({ met }) => met !== true);
  const rows = (['worker', 'insertOnly'] as const).map((name) => {
    const of = (pick: (run: Run) => number) => median(pairs.map((pair) => pick(pair[name])));
    return [
      name === 'worker' ? name : 'insert-only',
      figure(of(rateOf)),
      times(of(cpuPer100k)),
      figure(of(({ peakRssMib }) => peakRssMib)),
    ];
  });
  return {
    table: {
      columns: ['contender', 'events/s', 'CPU s with Postgres', 'RSS MiB'],
      rows,
      notes: ['Medians. CPU in seconds for 100,000 events.'],
    },
    goals,
    runs: pairs.flatMap(({ worker, insertOnly }, index) => [
      { round: index + 1, ...recordOf('worker', worker) },
      { round: index + 1, ...recordOf('insert-only', insertOnly) },
    ]),
    ...(missed.length > 0 && {
      failure: missed.map(({ goal, measured }) => `${goal}: ${measured}`).join('; '),
    }),
  };
}
