/** The cost of a small load: CPU of worker, Postgres and Kafka together, and latencies (P13). */

import type { Child } from '../../servers/child';
import { sleep } from '../../servers/deadline';
import { isDisturbed } from '../counted';
import { withClient } from '../guest';
import { findOwnBroker, postgresCpuSeconds, processCpuSeconds } from '../measure';
import type { Mode } from '../mode';
import { latenciesAfter, runPaced } from '../paced';
import type { Goal } from '../result';
import { postmasterOf } from '../runs';
import { PARTITIONS } from '../stage';
import { percentiles, rounded } from '../statistics';
import { figure } from '../table';
import { transactionsOf } from '../worker-log';

const SHARES = [0.5, 0.9, 0.99, 0.999, 1] as const;
const CORES_GOAL = 0.4;
const GOALS_MS = { p50: 15, p99: 40 } as const;

/** CPU seconds of each process since it began. */
interface Cpu {
  readonly worker: number;
  readonly postgres: number;
  readonly kafka: number;
}

export const calm: Mode = {
  name: 'calm',
  about: 'CPU of worker, Postgres and Kafka, and latencies, at 1,000 events a second',
  // Other guests of a server would count as its CPU.
  ownPostgres: true,
  ownKafka: true,
  extent: { rate: 1_000, minutes: 3, warmup: 60 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const [rate, minutes, warmup] = [
      extent.number('rate'),
      extent.number('minutes'),
      extent.number('warmup'),
    ];
    const measuredSeconds = minutes * 60;
    const topic = await stage.makeTopic();
    const readCpu = await cpuReader(stage.serverUrl);
    let cores: Cpu | undefined;
    say(`${figure(rate)} events/s for ${warmup} s, and then for ${figure(measuredSeconds)} s`);
    const run = await stage.withDatabase([topic], (databaseUrl) =>
      runPaced(bench, {
        topic,
        databaseUrl,
        rate,
        seconds: warmup + measuredSeconds,
        meanwhile: async (worker, startedAt) => {
          await sleep(startedAt + warmup * 1000 - Date.now());
          const [before, began] = [readCpu(worker), performance.now()];
          await sleep(startedAt + (warmup + measuredSeconds) * 1000 - Date.now());
          const [after, seconds] = [readCpu(worker), (performance.now() - began) / 1000];
          cores = {
            worker: (after.worker - before.worker) / seconds,
            postgres: (after.postgres - before.postgres) / seconds,
            kafka: (after.kafka - before.kafka) / seconds,
          };
        },
      }),
    );
    await stage.removeTopic(topic);
    const { worker, postgres, kafka } = cores ?? NO_CPU;
    const all = worker + postgres + kafka;
    const [p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0] = percentiles(latenciesAfter(run, warmup), SHARES);
    const isJudged = !isDisturbed(run.takenByHost);
    const goal = (name: string, measured: string, isMet: boolean, value: number): Goal => ({
      id: 'P13',
      goal: `at ${figure(rate)} events/s: ${name}`,
      measured,
      met: isJudged && Number.isFinite(value) ? isMet : null,
    });
    return {
      table: {
        columns: [
          ...['events/s', 'worker cores', 'Postgres cores', 'Kafka cores', 'all'],
          ...['p50 ms', 'p90 ms', 'p99 ms', 'p99.9 ms', 'max ms', 'RSS MiB', 'host took %'],
        ],
        rows: [
          [
            figure(rate),
            ...[worker, postgres, kafka, all].map((value) => figure(value, 2)),
            ...[p50, p90, p99, p999, max, run.worker.peakRssMib].map((value) => figure(value)),
            figure(run.takenByHost, 1),
          ],
        ],
        notes: [
          `Measured for ${figure(minutes)} min, after ${figure(warmup)} s in which a new broker compiles its code.`,
        ],
      },
      goals: [
        goal(`worker, Postgres and Kafka <= ${CORES_GOAL} of a core`, figure(all, 2), all <= CORES_GOAL, all),
        goal(`p50 <= ${GOALS_MS.p50} ms`, `${figure(p50)} ms`, p50 <= GOALS_MS.p50, p50),
        goal(`p99 <= ${GOALS_MS.p99} ms`, `${figure(p99)} ms`, p99 <= GOALS_MS.p99, p99),
      ],
      runs: [
        {
          rate,
          minutes,
          records: run.records,
          worker_cores: finite(worker),
          postgres_cores: finite(postgres),
          kafka_cores: finite(kafka),
          p50,
          p90,
          p99,
          p999,
          max,
          rss_mib: run.worker.peakRssMib,
          transactions: transactionsOf(run.log).length,
          sent_late_p99_ms: run.lateP99Ms,
          host_took_percent: finite(run.takenByHost),
        },
      ],
      settings: [`${PARTITIONS} partitions, the broker's default flush`],
    };
  },
};

const NO_CPU: Cpu = { worker: Number.NaN, postgres: Number.NaN, kafka: Number.NaN };

async function cpuReader(serverUrl: string): Promise<(worker: Child) => Cpu> {
  const broker = findOwnBroker();
  const postmaster = await withClient(serverUrl, postmasterOf);
  return ({ pid }) => ({
    worker: pid === undefined ? Number.NaN : processCpuSeconds(pid),
    postgres: postgresCpuSeconds(postmaster),
    kafka: broker === undefined ? Number.NaN : processCpuSeconds(broker),
  });
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? rounded(value, 3) : null;
}
