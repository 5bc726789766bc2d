/** The worker's rate by the size of its batches. */
import type { Mode } from '../mode';
import type { Run } from '../runs';
import { drainAfresh, rateOf, recordOf } from '../runs';
import { median, sumOf } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';
import { transactionsOf } from '../worker-log';

interface Entry {
  readonly size: number;
  readonly run: Run;
  /** Mean number of events of a transaction. A batch holds at most the records that have arrived. */
  readonly decidedAtOnce: number;
}

export const batch: Mode = {
  name: 'batch',
  about: 'rate by BATCH_EVENTS',
  isExperiment: true,
  extent: { events: 250_000, rounds: 3, sizes: [500, 1_000, 2_000, 4_000, 8_000] },
  async run(bench) {
    const { stage, extent, say } = bench;
    const [rounds, sizes] = [extent.number('rounds'), extent.numbers('sizes')];
    const published = await publishUsual(bench, extent.number('events'));
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const size of sizes) {
        const run = await drainAfresh(stage, published, { BATCH_EVENTS: String(size) });
        const batches = sumOf(run.logs, (log) => transactionsOf(log).length);
        entries.push({ size, run, decidedAtOnce: published.records / batches });
        say(`round ${round} of ${rounds}: batches of ${size}: ${figure(rateOf(run))} events/s`);
      }
    }
    const bySize = sizes.map((size) => entries.filter((entry) => entry.size === size));
    const rate = (list: readonly Entry[]) => median(list.map(({ run }) => rateOf(run)));
    const best = Math.max(...bySize.map(rate));
    return {
      table: {
        columns: ['BATCH_EVENTS', 'events/s', 'x best', 'events at once', 'RSS MiB'],
        rows: bySize.map((list, index) => [
          figure(sizes[index] ?? 0),
          figure(rate(list)),
          times(rate(list) / best),
          figure(median(list.map(({ decidedAtOnce }) => decidedAtOnce))),
          figure(median(list.map(({ run }) => run.peakRssMib))),
        ]),
        notes: ['Medians. A batch has the records that have arrived, so it may be smaller than its limit.'],
      },
      goals: [],
      runs: entries.map(({ size, run }) => ({ batch_events: size, ...recordOf('worker', run) })),
    };
  },
};
