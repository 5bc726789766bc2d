/**
 * The time from a record's scheduled send to its answered commit, under loads that are paced by the clock
 * (P3).
 */
import { isDisturbed } from '../counted';
import { alterDatabase } from '../guest';
import type { Bench, Mode } from '../mode';
import { latenciesAfter, type PacedRun, runPaced } from '../paced';
import { FLUSHED, settingsText } from '../postgres-settings';
import type { Goal } from '../result';
import { FLUSH_MESSAGES } from '../stage';
import { percentiles } from '../statistics';
import { figure } from '../table';
import { fullRate } from '../usual';

const SHARES = [0.5, 0.9, 0.99, 0.999, 1] as const;
const GOAL_LOAD = 50;
const GOALS = { p50: 20, p99: 100, p999: 500 } as const;

interface Level {
  readonly load: number;
  readonly rate: number;
  readonly run: PacedRun;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

export const latency: Mode = {
  name: 'latency',
  about: 'from the scheduled send to the answered commit, at 10 to 75 % of the full rate',
  extent: {
    rate: 0,
    events: 250_000,
    seconds: 40,
    warmup: 10,
    loads: [10, 25, 50, 75],
    flush_messages: FLUSH_MESSAGES,
  },
  async run(bench) {
    const full = await fullRate(bench);
    const flushMessages = bench.extent.number('flush_messages');
    const levels: Level[] = [];
    for (const load of bench.extent.numbers('loads'))
      levels.push(await measureLevel(bench, { full, load, flushMessages }));
    return {
      table: {
        columns: [
          ...['load %', 'events/s', 'p50 ms', 'p90 ms', 'p99 ms', 'p99.9 ms', 'max ms', 'sent late p99'],
          'host took %',
        ],
        rows: levels.map(({ load, rate, p50, p90, p99, p999, max, run }) => [
          ...[load, rate, p50, p90, p99, p999, max, run.lateP99Ms].map((value) => figure(value)),
          figure(run.takenByHost, 1),
        ]),
        notes: [
          'Latencies count from the schedule, so a late producer makes them longer, never shorter.',
          'The host took CPU time that this machine had requested (steal).',
        ],
      },
      goals: goalsOf(levels, flushMessages),
      runs: levels.map(({ run, ...level }) => ({
        ...level,
        records: run.records,
        sent_late_p99_ms: run.lateP99Ms,
        host_took_percent: Math.round(run.takenByHost * 10) / 10,
        cpu_seconds: run.worker.cpuSeconds,
        rss_mib: run.worker.peakRssMib,
      })),
      settings: [
        `full rate ${figure(full)} events/s`,
        ...(flushMessages > 0
          ? [
              `at all loads flush.messages=${flushMessages} of the topic, ${settingsText(FLUSHED)} of the database`,
            ]
          : []),
      ],
      ...(flushMessages === 0 && { variant: 'unflushed' }),
      chart: {
        title: 'Latency from scheduled send to answered commit',
        x: { label: 'load, % of the full rate', scale: 'linear' },
        y: { label: 'milliseconds', scale: 'log' },
        series: (['p50', 'p99', 'p999'] as const).map((name) => ({
          name: name === 'p999' ? 'p99.9' : name,
          points: levels.map((level) => [level.load, Math.max(1, level[name])] as const),
        })),
      },
    };
  },
};

/**
 * @param flushMessages Kafka syncs a partition's log after this many messages; 0 leaves syncing, in Postgres
 * too, to the kernel
 */
async function measureLevel(
  bench: Bench,
  {
    full,
    load,
    flushMessages,
  }: { readonly full: number; readonly load: number; readonly flushMessages: number },
): Promise<Level> {
  const { stage, extent, say } = bench;
  const rate = Math.round((full * load) / 100);
  const warmup = extent.number('warmup');
  const seconds = extent.number('seconds') + warmup;
  say(`load ${load} %: ${figure(rate)} events/s for ${seconds} s`);
  const topic = await stage.makeTopic(flushMessages > 0 ? { 'flush.messages': String(flushMessages) } : {});
  const run = await stage.withDatabase([topic], async (databaseUrl) => {
    if (flushMessages > 0) await alterDatabase(databaseUrl, FLUSHED);
    return runPaced(bench, { topic, databaseUrl, rate, seconds });
  });
  await stage.removeTopic(topic);
  const [p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0] = percentiles(latenciesAfter(run, warmup), SHARES);
  say(`load ${load} %: p50 ${p50} ms, p99 ${p99} ms, p99.9 ${p999} ms`);
  return { load, rate, run, p50, p90, p99, p999, max };
}

function goalsOf(levels: readonly Level[], flushMessages: number): Goal[] {
  const flush = flushMessages === 0 ? ", with the broker's default flush," : '';
  const level = levels.find(({ load }) => load === GOAL_LOAD);
  return (['p50', 'p99', 'p999'] as const).map((name) => ({
    id: 'P3',
    goal: `${name === 'p999' ? 'p99.9' : name} at half of the full rate${flush} <= ${GOALS[name]} ms`,
    measured: level === undefined ? 'no run at half load' : `${figure(level[name])} ms`,
    met: level === undefined || isDisturbed(level.run.takenByHost) ? null : level[name] <= GOALS[name],
  }));
}
