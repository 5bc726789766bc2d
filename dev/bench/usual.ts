/** The usual feed, published and measured: the baseline of several modes. */
import { ExtentError } from './extent';
import { isKeys, KEYS, type Keys, makeFeed, USUAL_SHAPE } from './feed';
import type { Bench } from './mode';
import { type Published, publish } from './publish';
import { drainAfresh, rateOf } from './runs';
import { median } from './statistics';
import { figure } from './table';

export async function publishUsual(bench: Bench, events: number): Promise<Published> {
  const { stage, extent, say } = bench;
  const keys = extent.has('keys') ? keysOf(extent.word('keys')) : USUAL_SHAPE.keys;
  say(`publishing ${figure(events)} records`);
  return publish(stage.brokers, await stage.makeTopic(), makeFeed({ ...USUAL_SHAPE, keys, events }), say);
}

/** @throws ExtentError for a word that is none of KEYS */
export function keysOf(word: string): Keys {
  if (isKeys(word)) return word;
  throw new ExtentError(`BENCH_KEYS=${word}: it is one of ${KEYS.join(', ')}`);
}

/** The rate of a single worker over waiting records. Paced modes offer half of it. */
async function measureFullRate(bench: Bench, events: number, runs: number): Promise<number> {
  const { stage, say } = bench;
  const published = await publishUsual(bench, events);
  const rates: number[] = [];
  for (let run = 1; run <= runs; run++) {
    const measured = await drainAfresh(stage, published);
    rates.push(rateOf(measured));
    say(`full rate, run ${run} of ${runs}: ${figure(rateOf(measured))} events/s`);
  }
  await stage.removeTopic(published.topic);
  return median(rates);
}

/** The rate of BENCH_RATE, or else the rate that is measured now. */
export async function fullRate(bench: Bench, runs = 2): Promise<number> {
  const given = bench.extent.number('rate');
  return given > 0 ? given : measureFullRate(bench, bench.extent.number('events'), runs);
}
