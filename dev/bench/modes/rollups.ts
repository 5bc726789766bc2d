/** The rollups beside the intake: its rate, the time from commit to rollup, and the rate of a rebuild. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { until } from '../../servers/deadline';
import { fillMonths } from '../filled-months';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import { runPaced } from '../paced';
import { drain, drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import type { Stage } from '../stage';
import { median, percentiles, rounded, type Weighted } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

const GOALS = { intakeShare: 0.95, lagMs: 2_000, rebuildRate: 300_000 };
const START_MS = 60_000;
const END_MS = 30_000;
/** For each event, at most. */
const COUNT_MS = 0.1;
const LOOK_EVERY_MS = 20;
/** The last number that was given, and the last one that the rollups have. */
const LOOK = `select ((promo_store.last_batch() + 1) * 8192 - 1)::float8 as given, (
  select g.after from promo_store.folds f join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = 'rollups')::float8 as counted`;
const RUNS = `select from promo.rollup_coverage where is_running`;
const CAUGHT_UP = `select from promo.rollup_coverage where caught_up_at is not null and rebuilt_because is null
  and generation >= $1 and up_to_verdict_id = (promo_store.last_batch() + 1) * 8192 - 1`;
/** Verdicts that the rollups have, less those of history. */
const DIFFERENCE = `select ((select sum(verdicts) from promo.verdicts_hourly) - (select count(*) from promo.verdicts))::float8 as difference`;

export const rollups: Mode = {
  name: 'rollups',
  about: 'the intake beside the rollups, the time from commit to rollup, and a rebuild',
  // The rebuild counts the events of `history`, over a month.
  extent: {
    ...{ events: 250_000, rounds: 3, seconds: 40, warmup: 10 },
    ...{ history: 3_000_000, days: 30, players: 50_000, games: 200 },
  },
  async run(bench) {
    const { extent, say } = bench;
    const pairs = await measureIntake(bench);
    const share = median(pairs.map(({ alone, beside }) => rateOf(beside) / rateOf(alone)));
    const full = median(pairs.map(({ alone }) => rateOf(alone)));
    const rate = Math.round(full / 2);
    const lags = await measureLag(bench, rate);
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
          ['intake beside the rollups, events/s', figure(median(pairs.map(({ beside }) => rateOf(beside))))],
          ['median of the ratios', `${times(share)} x`],
          [`commit to rollup at ${figure(rate)} events/s, p50 ms`, figure(p50)],
          ['the same, p99 ms', figure(p99)],
          ['the same, longest, ms', figure(most)],
          [`first count of ${figure(history)} verdicts, events/s`, figure(Math.round(history / first))],
          ['rebuild beside the shown rollups, events/s', figure(Math.round(rebuildRate))],
        ],
        notes: [
          `${figure(extent.number('players'))} players over ${figure(extent.number('days'))} days in the history that is counted. The time of a count begins with its process.`,
          `Each ${LOOK_EVERY_MS} ms, the time until all numbers that were given have been counted: it has the wait for the commit, too.`,
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
        ...pairs.flatMap(({ alone, beside }, index) => [
          { round: index + 1, ...recordOf('alone', alone) },
          { round: index + 1, ...recordOf('beside the rollups', beside) },
        ]),
        { rate, lag_p50_ms: Math.round(p50), lag_p99_ms: Math.round(p99), lag_most_ms: Math.round(most) },
        { history, first_seconds: rounded(first), rebuild_seconds: rounded(again) },
      ],
    };
  },
};

interface Pair {
  readonly alone: Run;
  readonly beside: Run;
}

async function measureIntake(bench: Bench): Promise<Pair[]> {
  const { stage, extent, say } = bench;
  const published = await publishUsual(bench, extent.number('events'));
  const pairs: Pair[] = [];
  const rounds = extent.number('rounds');
  const runs = {
    alone: () => drainAfresh(stage, published),
    beside: () =>
      stage.withDatabase([published.topic], (databaseUrl) =>
        besideRollups(stage, databaseUrl, () =>
          drain(stage, { databaseUrl, ...published, groupId: stage.newGroup() }),
        ),
      ),
  };
  for (let round = 1; round <= rounds; round++) {
    const measured: Partial<Record<keyof typeof runs, Run>> = {};
    for (const way of inTurns(['alone', 'beside'] as const, round)) measured[way] = await runs[way]();
    const { alone, beside } = measured;
    if (alone === undefined || beside === undefined) throw new Error('a run is missing');
    pairs.push({ alone, beside });
    say(
      `round ${round} of ${rounds}: alone ${figure(rateOf(alone))}, beside the rollups ${figure(rateOf(beside))} events/s`,
    );
  }
  await stage.removeTopic(published.topic);
  return pairs;
}

/** Runs the rollups beside the work. @throws if their counts differ from history at the end */
async function besideRollups<T>(stage: Stage, databaseUrl: string, work: () => Promise<T>): Promise<T> {
  const process = startRollups(stage, databaseUrl);
  await untilRow(databaseUrl, 'the rollups run', RUNS);
  const result = await work();
  await untilRow(databaseUrl, 'the rollups have everything', CAUGHT_UP, [1]);
  await process.end();
  await expectNoDifference(databaseUrl);
  return result;
}

function startRollups(stage: Stage, databaseUrl: string, options: readonly string[] = []) {
  const child = stage.start(['rollups', ...options], { DATABASE_URL: databaseUrl });
  return {
    async end(): Promise<void> {
      if (child.pid !== undefined) process.kill(child.pid, 'SIGTERM');
      await child.untilDone(END_MS);
    },
  };
}

const untilRow = (
  databaseUrl: string,
  what: string,
  query: string,
  values: readonly number[] = [],
  ms = START_MS,
) =>
  withClient(databaseUrl, (client) =>
    until(what, ms, async () => ((await client.query(query, [...values])).rowCount ?? 0) > 0),
  );

async function expectNoDifference(databaseUrl: string): Promise<void> {
  await withClient(
    databaseUrl,
    async (client) => {
      const [row] = (await client.query<{ difference: number | null }>(DIFFERENCE)).rows;
      if (row?.difference !== 0) throw new Error(`the rollups differ by ${row?.difference} verdicts`);
    },
    START_MS,
  );
}

/** @returns for each look, the milliseconds until the rollups had what was given before it */
async function measureLag(bench: Bench, rate: number): Promise<Weighted[]> {
  const { stage, extent, say } = bench;
  const [seconds, warmup] = [extent.number('seconds'), extent.number('warmup')];
  say(`half load: ${figure(rate)} events/s for ${seconds + warmup} s`);
  const topic = await stage.makeTopic();
  const lags: Weighted[] = [];
  await stage.withDatabase([topic], (databaseUrl) =>
    besideRollups(stage, databaseUrl, () =>
      runPaced(bench, {
        ...{ topic, databaseUrl, rate, recordEvery: 0 },
        seconds: seconds + warmup,
        async meanwhile() {
          await sleep(warmup * 1000);
          await withClient(databaseUrl, (client) => look(client, seconds * 1000, lags));
        },
      }),
    ),
  );
  await stage.removeTopic(topic);
  return lags;
}

async function look(client: Client, ms: number, lags: Weighted[]): Promise<void> {
  const end = performance.now() + ms;
  const open: { given: number; at: number }[] = [];
  while (performance.now() < end || open.length > 0) {
    const at = performance.now();
    if (at > end + START_MS) throw new Error('the rollups do not follow');
    const [row] = (await client.query<{ given: number; counted: number }>(LOOK)).rows;
    if (row === undefined) throw new Error('there are no rollups');
    if (at < end) open.push({ given: row.given, at });
    for (let first = open[0]; first !== undefined && first.given <= row.counted; first = open[0]) {
      lags.push({ value: performance.now() - first.at, count: 1 });
      open.shift();
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** @returns seconds of the first count, and of one beside it */
async function measureRebuild(bench: Bench): Promise<{ first: number; again: number }> {
  const { stage, extent, say } = bench;
  const events = extent.number('history');
  return stage.withDatabase([], async (databaseUrl) => {
    await fillMonths(bench, databaseUrl, { events });
    await withClient(databaseUrl, (client) => client.query('vacuum analyze'), START_MS + events * COUNT_MS);
    const count = async (options: readonly string[], generation: number) => {
      const began = performance.now();
      const counting = startRollups(stage, databaseUrl, options);
      await untilRow(
        databaseUrl,
        'the rollups have everything',
        CAUGHT_UP,
        [generation],
        START_MS + events * COUNT_MS,
      );
      const seconds = (performance.now() - began) / 1000;
      await counting.end();
      await expectNoDifference(databaseUrl);
      say(`counted at ${figure(Math.round(events / seconds))} events/s`);
      return seconds;
    };
    return { first: await count([], 1), again: await count(['--rebuild', 'measured'], 2) };
  });
}
