/**
 * Resident memory and latencies over a long time at half load. A month of history is dropped in the middle
 * (P6).
 */
import { sleep } from '../../servers/deadline';
import { withClient } from '../guest';
import { type DecidedUpTo, latenciesOf, type Sent } from '../latencies';
import {
  growthGoal,
  memoryChart,
  quarterTable,
  recordsOf,
  residentGoal,
  type Sample,
  sampleMemory,
} from '../memory';
import type { Mode } from '../mode';
import { runPaced } from '../paced';
import { RECOMMENDED, RECOMMENDED_DISTANCE, settingsText } from '../postgres-settings';
import { FLUSH_MESSAGES, wearIn } from '../stage';
import { percentiles, rounded } from '../statistics';
import { figure } from '../table';
import { fullRate } from '../usual';

const LOAD = 0.5;
/** The latency of one tick in this many is recorded: all ticks would be millions of lines. */
const RECORD_EVERY = 40;
const OLD_ROWS = 1_000_000;
/** An old month that retention drops. */
const OLD_MONTH = 'promo_store.history_2020_01';
const FILL_MS = 300_000;

/** Short retention, so that old decided records do not fill the disk. */
const KEPT = {
  'retention.bytes': String(256 * 1024 ** 2),
  'segment.bytes': String(64 * 1024 ** 2),
  'flush.messages': String(FLUSH_MESSAGES),
};

export const soak: Mode = {
  name: 'soak',
  about: 'resident memory over half an hour at half load, with a month dropped in the middle',
  ownPostgres: true,
  extent: { rate: 0, events: 250_000, minutes: 30, sample: 10 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const minutes = extent.number('minutes');
    await stage.restartPostgres(RECOMMENDED);
    await wearIn(stage.serverUrl, RECOMMENDED_DISTANCE);
    const rate = Math.round((await fullRate(bench)) * LOAD);
    const topic = await stage.makeTopic(KEPT);
    let samples: Sample[] = [];
    let dropMs = Number.NaN;
    say(`${figure(rate)} events/s for ${minutes} minutes`);
    const run = await stage.withDatabase([topic], async (databaseUrl) => {
      await makeOldMonth(databaseUrl);
      return runPaced(bench, {
        topic,
        databaseUrl,
        rate,
        seconds: minutes * 60,
        recordEvery: RECORD_EVERY,
        meanwhile: async (worker, startedAt) => {
          const dropping = sleep(startedAt + minutes * 30_000 - Date.now()).then(async () => {
            dropMs = await dropOldMonth(databaseUrl);
            say(`a month of history is dropped, in ${figure(dropMs)} ms`);
          });
          [samples] = await Promise.all([sampleMemory(bench, worker, startedAt), dropping]);
        },
      });
    });
    await stage.removeTopic(topic);
    const latenciesIn = latenciesByMinute(run.sends, run.log.batches, run.startedAt);
    const [p50 = 0, p99 = 0] = latenciesIn(0, minutes);
    const memory = quarterTable(samples, minutes);
    return {
      table: {
        columns: [...memory.columns, 'p50 ms', 'p99 ms'],
        rows: memory.rows.map((row, quarter) => [
          ...row,
          ...latenciesIn((quarter / 4) * minutes, ((quarter + 1) / 4) * minutes).map((ms) => figure(ms)),
        ]),
        notes: [
          `${figure(run.records)} events; latency p50 ${figure(p50)} ms, p99 ${figure(p99)} ms; dropping a month of ${figure(OLD_ROWS)} rows took ${figure(dropMs)} ms.`,
        ],
      },
      goals: [residentGoal('P6', samples, ' at half load'), growthGoal('P6', samples, minutes)],
      runs: [
        { rate, minutes, records: run.records, p50, p99, drop_ms: dropMs, retries: run.log.undecided.length },
        ...recordsOf(samples),
      ],
      settings: [
        `Postgres restarted with ${settingsText(RECOMMENDED)}`,
        `flush.messages=${KEPT['flush.messages']} of the topic`,
      ],
      chart: memoryChart('Resident memory at half load', samples),
    };
  },
};

/**
 * @returns a function that gives the median and the 99th percentile, in milliseconds, of the records that
 * were due between two minutes of the run
 */
function latenciesByMinute(sends: readonly Sent[], batches: readonly DecidedUpTo[], startedAt: number) {
  const minuteOf = ({ scheduledAt }: Sent) => (scheduledAt - startedAt) / 60_000;
  return (from: number, to: number): number[] => {
    const due = sends.filter((sent) => minuteOf(sent) >= from && minuteOf(sent) < to);
    return percentiles(latenciesOf(due, batches), [0.5, 0.99]);
  };
}

/** Fills only the required columns. */
async function makeOldMonth(databaseUrl: string): Promise<void> {
  await withClient(
    databaseUrl,
    async (client) => {
      await client.query(
        `create table ${OLD_MONTH} partition of promo_store.history for values from ('2020-01-01') to ('2020-02-01')`,
      );
      await client.query(
        `insert into ${OLD_MONTH} (verdict_id, decided_at, feed_no, connection_no, reference_version, outcome, counted, event_id)
         select -n, '2020-01-15', 1, 1, 1, 0, false, 'old-' || n from generate_series(1, $1::int) n`,
        [OLD_ROWS],
      );
    },
    FILL_MS,
  );
}

/** @returns the milliseconds that the drop took, including the wait for the writers */
async function dropOldMonth(databaseUrl: string): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    const began = performance.now();
    await client.query(`drop table ${OLD_MONTH}`);
    return rounded(performance.now() - began, 1);
  });
}
