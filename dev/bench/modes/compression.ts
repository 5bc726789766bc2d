/** The worker's rate by the codec that a topic is compressed with. */
import { makeFeed, USUAL_SHAPE } from '../feed';
import type { Mode } from '../mode';
import { type Published, publish } from '../publish';
import { cpuPer100k, drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';

/** Codec names as brokers spell them. */
const CODECS = ['uncompressed', 'lz4', 'zstd', 'snappy', 'gzip'] as const;
type Codec = (typeof CODECS)[number];

export const compression: Mode = {
  name: 'compression',
  about: 'rate by the compression of the topic',
  isExperiment: true,
  extent: { events: 250_000, rounds: 3 },
  async run({ stage, extent, say }) {
    const [events, rounds] = [extent.number('events'), extent.number('rounds')];
    const published = new Map<Codec, Published>();
    for (const codec of CODECS) {
      say(`publishing ${figure(events)} records, ${codec}`);
      // The broker compresses, as Java producers do.
      const topic = await stage.makeTopic({ 'compression.type': codec });
      published.set(codec, await publish(stage.brokers, topic, makeFeed({ ...USUAL_SHAPE, events })));
    }
    const entries: { codec: Codec; run: Run }[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const [codec, waiting] of inTurns([...published], round)) {
        const run = await drainAfresh(stage, waiting);
        entries.push({ codec, run });
        say(`round ${round} of ${rounds}: ${codec} ${figure(rateOf(run))} events/s`);
      }
    }
    const of = (codec: Codec, pick: (run: Run) => number) =>
      median(entries.filter((entry) => entry.codec === codec).map(({ run }) => pick(run)));
    const besidePlain = (codec: Codec, pick: (run: Run) => number) =>
      times(of(codec, pick) / of('uncompressed', pick));
    return {
      table: {
        columns: ['compression.type', 'events/s', 'x uncompressed', 'CPU', 'x uncompressed', 'RSS MiB'],
        rows: CODECS.map((codec) => [
          codec,
          figure(of(codec, rateOf)),
          besidePlain(codec, rateOf),
          figure(of(codec, cpuPer100k), 2),
          besidePlain(codec, cpuPer100k),
          figure(of(codec, ({ peakRssMib }) => peakRssMib)),
        ]),
        notes: [
          'Medians. CPU of worker and Postgres in seconds for 100,000 events. Batches hold some 250 events. The broker compresses before the run.',
        ],
      },
      goals: [],
      runs: entries.map(({ codec, run }) => ({ compression: codec, ...recordOf('worker', run) })),
    };
  },
};
