/** The cost of the verdict stream (P12). */
import type { Mode } from '../mode';
import { drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

const LEAST_SHARE = 0.75;
const NAMES = ['without', 'with'] as const;

export const stream: Mode = {
  name: 'stream',
  about: 'rate with and without VERDICT_TOPIC',
  extent: { events: 250_000, rounds: 3 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const rounds = extent.number('rounds');
    const published = await publishUsual(bench, extent.number('events'));
    const runs: Record<(typeof NAMES)[number], Run[]> = { without: [], with: [] };
    for (let round = 1; round <= rounds; round++) {
      for (const name of inTurns(NAMES, round)) {
        const verdicts = name === 'with' ? await stage.makeTopic() : null;
        const run = await drainAfresh(stage, published, verdicts === null ? {} : { VERDICT_TOPIC: verdicts });
        if (verdicts !== null) await stage.removeTopic(verdicts);
        runs[name].push(run);
        say(`round ${round} of ${rounds}: ${name} the verdict topic ${figure(rateOf(run))} events/s`);
      }
    }
    const rate = (name: (typeof NAMES)[number]) => median(runs[name].map(rateOf));
    const share = rate('with') / rate('without');
    return {
      table: {
        columns: ['verdict topic', 'events/s', 'x without', 'CPU s', 'RSS MiB'],
        rows: NAMES.map((name) => [
          name,
          figure(rate(name)),
          times(rate(name) / rate('without')),
          times(median(runs[name].map(({ cpuSeconds, events }) => (cpuSeconds / events) * 100_000))),
          figure(median(runs[name].map(({ peakRssMib }) => peakRssMib))),
        ]),
        notes: ['Medians. CPU of the worker in seconds for 100,000 events.'],
      },
      goals: [
        {
          id: 'P12',
          goal: `the verdict stream costs <= ${Math.round((1 - LEAST_SHARE) * 100)} % of the rate`,
          measured: `${figure((1 - share) * 100, 1)} %`,
          met: share >= LEAST_SHARE,
        },
      ],
      runs: NAMES.flatMap((name) =>
        runs[name].map((run) => ({ verdict_topic: name === 'with', ...recordOf('worker', run) })),
      ),
    };
  },
};
