/**
 * The demo's feed: promotion events of the last hours, two operators, five connections. The same seed gives
 * the same feed. A feed of any length is made on the fly: only the arrivals that are due soon are in memory.
 */
import { REASONS, type Reason } from '../../src/domain/verdict/reasons';
import { makeRandom, makeWeighted } from '../random';
import { CASES } from './cases';
import { type Arrival, type FeedRecord, makePlay } from './play';
import { type Scene, USUAL_SCENES } from './scenes';

export type { FeedRecord } from './play';

export interface FeedOptions {
  readonly seed: number;
  /** Number of records. From about 2,000 on, everything in `expected` occurs. */
  readonly events: number;
  /** The feed ends shortly before this moment, in milliseconds since 1970. */
  readonly now: number;
}

const SPAN_MS = 6 * 3_600_000;
/** Scenes last up to two minutes, and no event may be in the future. */
const END_BEFORE_NOW_MS = 180_000;
/**
 * Every scene of this number is the next unused case. Once all cases have occurred, cases come by chance and
 * weight.
 */
const FIRST_CASES_EVERY = 8;
const CASE_SHARE = 0.08;

/** The reasons that a long enough feed causes: all but the one that needs a defect of the service. */
export const expected: { readonly reasons: readonly Reason[] } = {
  reasons: REASONS.map(({ name }) => name).filter((name) => name !== 'panic'),
};

export function* makeFeed({ seed, events, now }: FeedOptions): Iterable<FeedRecord> {
  const random = makeRandom(seed);
  const play = makePlay(random);
  const nextScene = makeScenes();
  const startMs = now - END_BEFORE_NOW_MS - SPAN_MS;
  const onTheWay = new Queue();

  for (let sent = 0; sent < events; sent++) {
    const clockMs = startMs + Math.floor((SPAN_MS * sent) / events);
    // If nothing is due, a new scene begins.
    let due = onTheWay.takeUntil(clockMs);
    while (due === undefined) {
      for (const arrival of nextScene(random)(play, clockMs)) onTheWay.add(arrival);
      due = onTheWay.takeUntil(Number.POSITIVE_INFINITY);
    }
    yield due.record;
  }
}

function makeScenes() {
  const usual = makeWeighted(USUAL_SCENES, ({ weight }) => weight);
  const unusual = makeWeighted(CASES, ({ weight }) => weight);
  let begun = 0;
  return (random: Parameters<typeof usual>[0]): Scene => {
    begun++;
    const first = begun % FIRST_CASES_EVERY === 0 ? CASES[begun / FIRST_CASES_EVERY - 1] : undefined;
    if (first !== undefined) return first.scene;
    return (random.chance(CASE_SHARE) ? unusual(random) : usual(random)).scene;
  };
}

/** Arrivals by their time; of equal times the first added comes first. */
class Queue {
  /** In descending order: the next arrival is the last element, which is cheap to remove. */
  private readonly waiting: Arrival[] = [];

  add(arrival: Arrival): void {
    let low = 0;
    let high = this.waiting.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.waiting[middle]?.atMs ?? 0) > arrival.atMs) low = middle + 1;
      else high = middle;
    }
    this.waiting.splice(low, 0, arrival);
  }

  takeUntil(atMs: number): Arrival | undefined {
    const next = this.waiting.at(-1);
    return next !== undefined && next.atMs <= atMs ? this.waiting.pop() : undefined;
  }
}
