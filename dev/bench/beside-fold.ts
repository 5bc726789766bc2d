/** A process that counts the ledger beside the intake: the rate of the intake, and the lag of the process. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { until } from '../servers/deadline';
import { withClient } from './guest';
import type { Bench } from './mode';
import { runPaced } from './paced';
import type { RunRecord } from './result';
import { drain, inTurns, type Run, rateOf, recordOf } from './runs';
import type { Stage } from './stage';
import { median, type Weighted } from './statistics';
import { figure } from './table';
import { publishUsual } from './usual';

export const START_MS = 60_000;
const END_MS = 30_000;
const LOOK_EVERY_MS = 20;
/** A process that cannot keep up with the load needs this long after it, at most. */
const FOLLOW_MS = 300_000;

/** A command that counts the ledger by a fold. */
export interface Counter {
  /** Its command, and the name of its fold. */
  readonly name: 'rollups' | 'promotions';
  /** The view of how far it is. */
  readonly coverage: 'promo.rollup_coverage' | 'promo.promotion_coverage';
  /** Runs on a new database before anything is decided. */
  prepare(stage: Stage, databaseUrl: string): Promise<void>;
  /** @throws where the counts of an ended process differ from the ledger */
  expectSound(stage: Stage, databaseUrl: string): Promise<void>;
}

export interface Counting {
  readonly pid: number;
  /** Resolves once everything decided so far is counted, by this generation or a later one. */
  untilCaughtUp(generation?: number, ms?: number): Promise<void>;
  /** Ends the process. @throws where its counts differ from the ledger */
  end(): Promise<void>;
}

/** Starts the process of a counter. */
export function startCounting(
  stage: Stage,
  counter: Counter,
  databaseUrl: string,
  options: readonly string[] = [],
): Counting {
  const child = stage.start([counter.name, ...options], { DATABASE_URL: databaseUrl });
  const pid = child.pid ?? Number.NaN;
  const caughtUp = `select from ${counter.coverage} where caught_up_at is not null and rebuilt_because is null
  and generation >= $1 and up_to_verdict_id >= (promo_store.last_batch() + 1) * 8192 - 1`;
  return {
    pid,
    untilCaughtUp(generation = 1, ms = START_MS) {
      return untilRow(databaseUrl, `the ${counter.name} have everything`, caughtUp, [generation], ms);
    },
    async end() {
      process.kill(pid, 'SIGTERM');
      await child.untilDone(END_MS);
      await counter.expectSound(stage, databaseUrl);
    },
  };
}

async function untilRow(
  databaseUrl: string,
  event: string,
  query: string,
  values: readonly number[],
  ms: number,
): Promise<void> {
  await withClient(databaseUrl, (client) =>
    until(event, ms, async () => ((await client.query(query, [...values])).rowCount ?? 0) > 0),
  );
}

/** Runs work beside the process of a counter. @returns the result of the work, once all of it is counted */
export async function besideCounter<T>(
  stage: Stage,
  counter: Counter,
  databaseUrl: string,
  work: (counting: Counting) => Promise<T>,
): Promise<T> {
  await counter.prepare(stage, databaseUrl);
  const counting = startCounting(stage, counter, databaseUrl);
  const runs = `select from ${counter.coverage} where is_running`;
  await untilRow(databaseUrl, `the ${counter.name} run`, runs, [], START_MS);
  const result = await work(counting);
  await counting.untilCaughtUp();
  await counting.end();
  return result;
}

/** Runs the intake into a prepared store, alone or beside a process. */
export type Way = (stage: Stage, databaseUrl: string, intake: () => Promise<Run>) => Promise<Run>;

export const alone: Way = (_stage, _databaseUrl, intake) => intake();
export const beside =
  (counter: Counter): Way =>
  (stage, databaseUrl, intake) =>
    besideCounter(stage, counter, databaseUrl, intake);

/** The runs of one round, by the names of the ways. */
export type Round = ReadonlyMap<string, Run>;

/** Measures the intake in several ways, which take turns, each into a new store. */
export async function measureWays(bench: Bench, ways: ReadonlyMap<string, Way>): Promise<Round[]> {
  const { stage, extent } = bench;
  const published = await publishUsual(bench, extent.number('events'));
  const intakeInto = (databaseUrl: string) => () =>
    drain(stage, { databaseUrl, ...published, groupId: stage.newGroup() });
  const measured = await measureRounds(bench, ways, (way) =>
    stage.withDatabase([published.topic], (databaseUrl) => way(stage, databaseUrl, intakeInto(databaseUrl))),
  );
  await stage.removeTopic(published.topic);
  return measured;
}

/** Measures ways in turns, by rounds. @param measure runs a way once */
export async function measureRounds(
  { extent, say }: Bench,
  ways: ReadonlyMap<string, Way>,
  measure: (way: Way) => Promise<Run>,
): Promise<Round[]> {
  const measured: Round[] = [];
  const rounds = extent.number('rounds');
  for (let round = 1; round <= rounds; round++) {
    const runs = new Map<string, Run>();
    for (const [name, way] of inTurns([...ways], round)) {
      const run = await measure(way);
      runs.set(name, run);
      say(`round ${round} of ${rounds}: ${name}, ${figure(rateOf(run))} events/s`);
    }
    measured.push(runs);
  }
  return measured;
}

/** The median rate of a way. */
export function medianRate(rounds: readonly Round[], name: string): number {
  return median(rounds.map((round) => rateOf(runOf(round, name))));
}

/** The median of the rates of a way, each divided by the rate of another way in the same round. */
export function medianShare(rounds: readonly Round[], name: string, base: string): number {
  return median(rounds.map((round) => rateOf(runOf(round, name)) / rateOf(runOf(round, base))));
}

function runOf(round: Round, name: string): Run {
  const run = round.get(name);
  if (run === undefined) throw new Error(`${name} was not measured`);
  return run;
}

/** All runs, for the file of the result. */
export function recordsOf(rounds: readonly Round[]): RunRecord[] {
  return rounds.flatMap((round, index) =>
    [...round].map(([name, run]) => ({ round: index + 1, ...recordOf(name, run) })),
  );
}

/** @returns for each look, the milliseconds until everything was counted that was decided before it */
export async function measureLag(bench: Bench, counter: Counter, rate: number): Promise<Weighted[]> {
  const { stage, extent, say } = bench;
  const [seconds, warmup] = [extent.number('seconds'), extent.number('warmup')];
  say(`half load: ${figure(rate)} events/s for ${seconds + warmup} s`);
  // Records are encoded before they are due. By that time, each would seem to have waited for long in Kafka.
  const topic = await stage.makeTopic({ 'message.timestamp.type': 'LogAppendTime' });
  const lags: Weighted[] = [];
  await stage.withDatabase([topic], (databaseUrl) =>
    besideCounter(stage, counter, databaseUrl, () =>
      runPaced(bench, {
        topic,
        databaseUrl,
        rate,
        recordEvery: 0,
        seconds: seconds + warmup,
        async meanwhile() {
          await sleep(warmup * 1000);
          await withClient(databaseUrl, (client) => look(client, counter, seconds * 1000, lags));
        },
      }),
    ),
  );
  await stage.removeTopic(topic);
  return lags;
}

/** The last number that was given, and the last one that is counted. */
export interface Progress {
  readonly given: number;
  readonly counted: number;
}

export async function progressOf(client: Client, { name }: Counter): Promise<Progress> {
  const [row] = (
    await client.query<Progress>(
      `select ((promo_store.last_batch() + 1) * 8192 - 1)::float8 as given, (select g.after from promo_store.folds f
  join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = $1)::float8 as counted`,
      [name],
    )
  ).rows;
  if (row === undefined) throw new Error('the store has no numbers');
  return row;
}

async function look(client: Client, counter: Counter, ms: number, lags: Weighted[]): Promise<void> {
  const end = performance.now() + ms;
  const open: { given: number; at: number }[] = [];
  while (performance.now() < end || open.length > 0) {
    const at = performance.now();
    if (at > end + FOLLOW_MS) throw new Error(`the ${counter.name} do not follow`);
    const { given, counted } = await progressOf(client, counter);
    if (at < end) open.push({ given, at });
    for (let first = open[0]; first !== undefined && first.given <= counted; first = open[0]) {
      lags.push({ value: performance.now() - first.at, count: 1 });
      open.shift();
    }
    await sleep(LOOK_EVERY_MS);
  }
}

export const LAG_NOTE = `Each ${LOOK_EVERY_MS} ms, the time until all numbers that were given have been counted: it has the wait for the commit, too.`;
