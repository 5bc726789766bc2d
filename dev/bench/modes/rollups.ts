/** The rollups beside the intake: its rate, the time from commit to rollup, and the rate of a rebuild. */
import {
  alone,
  beside,
  type Counter,
  LAG_NOTE,
  measureLag,
  measureWays,
  medianRate,
  medianShare,
  recordsOf,
  START_MS,
  startCounting,
} from '../beside-fold';
import { fillMonths } from '../filled-months';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import { percentiles, rounded } from '../statistics';
import { figure, times } from '../table';

const GOALS = { intakeShare: 0.95, lagMs: 2_000, rebuildRate: 300_000 };
/** For each event, at most. */
const COUNT_MS = 0.1;
/** Verdicts that the rollups have, less those of history. */
const DIFFERENCE = `select ((select sum(verdicts) from promo.verdicts_hourly) - (select count(*) from promo.verdicts))::float8 as difference`;

const BESIDE = 'beside the rollups';

const COUNTER: Counter = {
  name: 'rollups',
  coverage: 'promo.rollup_coverage',
  async prepare() {},
  async expectSound(_stage, databaseUrl) {
    await withClient(
      databaseUrl,
      async (client) => {
        const [row] = (await client.query<{ difference: number | null }>(DIFFERENCE)).rows;
        if (row?.difference !== 0) throw new Error(`the rollups differ by ${row?.difference} verdicts`);
      },
      START_MS,
    );
  },
};

export const rollups: Mode = {
  name: 'rollups',
  about: 'the intake beside the rollups, the time from commit to rollup, and a rebuild',
  // The rebuild counts the events of `history`, over a month.
  extent: {
    events: 250_000,
    rounds: 3,
    seconds: 40,
    warmup: 10,
    history: 3_000_000,
    days: 30,
    players: 50_000,
    games: 200,
  },
  async run(bench) {
    const { extent, say } = bench;
    const rounds = await measureWays(
      bench,
      new Map([
        ['alone', alone],
        [BESIDE, beside(COUNTER)],
      ]),
    );
    const share = medianShare(rounds, BESIDE, 'alone');
    const full = medianRate(rounds, 'alone');
    const rate = Math.round(full / 2);
    const lags = await measureLag(bench, COUNTER, rate);
    const [p50 = Number.NaN, p99 = Number.NaN, most = Number.NaN] = percentiles(lags, [0.5, 0.99, 1]);
    say(`commit to rollup: p50 ${figure(p50)} ms, p99 ${figure(p99)} ms`);
    const { first, again } = await measureRebuild(bench);
    const history = extent.number('history');
    const rebuildRate = history / again;
    return {
      table: {
        columns: ['what', 'figure'],
        rows: [
          ['intake alone, events/s', figure(full)],
          ['intake beside the rollups, events/s', figure(medianRate(rounds, BESIDE))],
          ['median of the ratios', `${times(share)} x`],
          [`commit to rollup at ${figure(rate)} events/s, p50 ms`, figure(p50)],
          ['the same, p99 ms', figure(p99)],
          ['the same, longest, ms', figure(most)],
          [`first count of ${figure(history)} verdicts, events/s`, figure(Math.round(history / first))],
          ['rebuild beside the shown rollups, events/s', figure(Math.round(rebuildRate))],
        ],
        notes: [
          `${figure(extent.number('players'))} players over ${figure(extent.number('days'))} days in the history that is counted. The time of a count begins with its process.`,
          LAG_NOTE,
        ],
      },
      goals: [
        {
          id: 'rollups',
          goal: `intake beside the rollups >= ${GOALS.intakeShare} x`,
          measured: `${times(share)} x`,
          met: share >= GOALS.intakeShare,
        },
        {
          id: 'rollups',
          goal: `commit to rollup at half of the full rate: p99 <= ${GOALS.lagMs / 1000} s`,
          measured: `${figure(p99 / 1000, 2)} s`,
          met: p99 <= GOALS.lagMs,
        },
        {
          id: 'rollups',
          goal: `rebuild >= ${figure(GOALS.rebuildRate)} events/s`,
          measured: `${figure(Math.round(rebuildRate))} events/s`,
          met: rebuildRate >= GOALS.rebuildRate,
        },
      ],
      runs: [
        ...recordsOf(rounds),
        { rate, lag_p50_ms: Math.round(p50), lag_p99_ms: Math.round(p99), lag_most_ms: Math.round(most) },
        { history, first_seconds: rounded(first), rebuild_seconds: rounded(again) },
      ],
    };
  },
};

/** @returns seconds of the first count, and of one beside it */
async function measureRebuild(bench: Bench): Promise<{ first: number; again: number }> {
  const { stage, extent, say } = bench;
  const events = extent.number('history');
  return stage.withDatabase([], async (databaseUrl) => {
    await fillMonths(bench, databaseUrl, { events });
    await withClient(databaseUrl, (client) => client.query('vacuum analyze'), START_MS + events * COUNT_MS);
    const count = async (options: readonly string[], generation: number) => {
      const began = performance.now();
      const counting = startCounting(stage, COUNTER, databaseUrl, options);
      await counting.untilCaughtUp(generation, START_MS + events * COUNT_MS);
      const seconds = (performance.now() - began) / 1000;
      await counting.end();
      say(`counted at ${figure(Math.round(events / seconds))} events/s`);
      return seconds;
    };
    return { first: await count([], 1), again: await count(['--rebuild', 'measured'], 2) };
  });
}
