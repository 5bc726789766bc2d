/** Random changes of a promotion over time: at each instant, one version counts at most. */
import { makeRandom } from '../../../dev/random';
import { type Calendar, later } from '../../../src/promotions/calendar';
import { isOf } from '../../../src/promotions/counting';
import type { PromotionDefinition } from '../../../src/promotions/definition';
import { compilePromotion } from '../../../src/promotions/terms';
import { define, remove, type Takeover, type Timeline } from '../../../src/promotions/timeline';
import { definitionsOf, micros } from '../../support/promotions';

const WEEKLY = 'window: { every: week, starts: monday }, time_zone: Europe/Warsaw';
const MONTHLY = 'window: { every: month, starts: 1 }, time_zone: Europe/Warsaw';
const DEFINITIONS = [
  'target: 1',
  'target: 2',
  'target: 2, to: 2026-12-20T00:00Z',
  'target: 3, from: 2026-11-20T00:00Z',
  'target: 3, from: 2026-12-10T00:00Z, to: 2026-12-25T00:00Z',
  `target: 1, ${WEEKLY}`,
  `target: 2, ${WEEKLY}`,
  `target: 1, ${MONTHLY}`,
  `target: 4, ${MONTHLY}, from: 2026-11-12T08:00`,
  'target: 5, window: { every: day }, time_zone: America/New_York',
  'target: 5, window: { every: day }, time_zone: America/New_York, from: 2026-12-01T13:00',
].flatMap((more) => definitionsOf(`id: x, type: bet_count, ${more}`));
const HOUR = 3_600_000_000n;
const FIRST = micros('2026-10-01T00:00:00Z');
/** Each six hours of some months, and the microsecond before. */
const INSTANTS = Array.from({ length: 4 * 150 }, (_, index) => FIRST + BigInt(index) * 6n * HOUR).flatMap(
  (at) => [at - 1n, at],
);

/** The calendar of each definition. It remembers its windows, and a timeline keeps its definitions. */
const calendars = new WeakMap<object, Calendar>();
function calendarOf(definition: PromotionDefinition): Calendar {
  const calendar = calendars.get(definition) ?? compilePromotion(definition).calendar;
  calendars.set(definition, calendar);
  return calendar;
}

/** For each instant, the versions that count it, each with its window. */
function countedBy(timeline: Timeline): string[][] {
  const versions = timeline.map((each) => ({ ...each, calendar: calendarOf(each.definition) }));
  return INSTANTS.map((at) =>
    versions.flatMap(({ version, calendar, ...bounds }) => {
      const window = calendar.at(at);
      return window !== undefined && isOf(bounds, window)
        ? [`${version} ${window.key} ${window.startsAt}`]
        : [];
    }),
  );
}

test.each(Array.from({ length: 20 }, (_, seed) => seed))(
  'no two versions count one instant, and a change keeps the windows that have begun: seed %i [P17] [P22]',
  (seed) => {
    const random = makeRandom(seed);
    let timeline: Timeline | undefined;
    let at = micros('2026-11-10T10:00:00Z');
    let completeSince: bigint | null = null;
    for (let step = 0; step < 8; step++) {
      at += BigInt(random.between(1, 200)) * HOUR;
      // Retention drops months now and then.
      if (random.chance(0.2))
        completeSince = later(completeSince, at - BigInt(random.between(1, 40)) * 24n * HOUR);
      const takeover: Takeover = random.chance(0.3) ? 'recompute' : 'next_window';
      const isRemoval = timeline !== undefined && random.chance(0.2);
      const change =
        timeline !== undefined && isRemoval
          ? remove(timeline, at)
          : define(timeline, random.pick(DEFINITIONS), { at, completeSince }, takeover);
      if (change === undefined || change.objection !== undefined) continue;
      const counts = countedBy(change.timeline);
      expect(counts.filter(({ length }) => length > 1)).toEqual([]);
      if (timeline !== undefined && change.change === 'changed' && takeover === 'next_window') {
        const begun = INSTANTS.filter((instant) => instant <= at).length;
        expect(counts.slice(0, begun)).toEqual(countedBy(timeline).slice(0, begun));
      }
      timeline = change.timeline;
    }
    expect(timeline).toBeDefined();
  },
);
