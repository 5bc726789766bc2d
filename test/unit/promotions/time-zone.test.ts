/**
 * Local times and windows against two other sources: known changes of clocks, and a search that asks
 * for the local time of each minute.
 */

import { DAY_MS, isTimeZone, TimeZone } from '../../../src/lib/time-zone';
import { makeCalendar, makeLocalDays, windowsBetween } from '../../../src/promotions/calendar';
import { type BoundFault, readBound, readDuration } from '../../../src/promotions/local-time';

const MINUTE_MS = 60_000;

/** Days on which the clocks change, and their length in minutes. Published by tzdata. */
const CHANGES: readonly (readonly [zone: string, day: string, minutes: number])[] = [
  ['Europe/Warsaw', '2026-03-29', 1380],
  ['Europe/Warsaw', '2026-10-25', 1500],
  ['America/New_York', '2026-03-08', 1380],
  ['America/New_York', '2026-11-01', 1500],
  // By half an hour.
  ['Australia/Lord_Howe', '2026-04-05', 1470],
  ['Australia/Lord_Howe', '2026-10-04', 1410],
  // At midnight: the day begins at 01:00.
  ['America/Santiago', '2026-09-06', 1380],
  ['America/Santiago', '2026-04-04', 1500],
  ['Asia/Beirut', '2026-03-29', 1380],
  ['Asia/Beirut', '2026-10-24', 1500],
  // A minute after midnight, back over midnight.
  ['America/St_Johns', '2010-11-07', 1500],
  ['America/St_Johns', '2010-11-06', 1440],
  // A day that Samoa left out.
  ['Pacific/Apia', '2011-12-30', 0],
  ['Africa/Casablanca', '2026-02-15', 1500],
  ['UTC', '2026-03-29', 1440],
];

const micros = (text: string): bigint => BigInt(Date.parse(text)) * 1000n;
const nextDay = (day: string): string => new Date(Date.parse(day) + DAY_MS).toISOString().split('T')[0] ?? '';

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local time by another way than the product: the text for one instant. */
function localText(zone: string, instantMs: number): string {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  formats.set(zone, format);
  return format.format(instantMs);
}

/** The local times of each minute of four days around a day. Ten tests ask for the same ones. */
const minutesAround = new Map<string, readonly (readonly [at: number, local: string])[]>();
function localMinutes(zone: string, day: string): readonly (readonly [at: number, local: string])[] {
  const name = `${zone} ${day}`;
  const from = Date.parse(day) - 2 * DAY_MS;
  const minutes =
    minutesAround.get(name) ??
    Array.from({ length: 4 * 1_440 }, (_, index) => {
      const at = from + index * MINUTE_MS;
      return [at, localText(zone, at)] as const;
    });
  minutesAround.set(name, minutes);
  return minutes;
}

/** The first minute whose local day is the given day or a later one, found by asking each. */
function firstMinuteOf(zone: string, day: string): number {
  const first = localMinutes(zone, day).find(([, local]) => local >= day);
  if (first === undefined) throw new Error(`${day} does not begin in ${zone}`);
  return first[0];
}

/** The minutes at which the clocks show a local time. */
function minutesShowing(zone: string, local: string): number[] {
  const wanted = `${local.replace('T', ' ')}:00`;
  return localMinutes(zone, local.slice(0, 10)).flatMap(([at, shown]) => (shown === wanted ? [at] : []));
}

describe('a local day [P3]', () => {
  test.each(CHANGES)('of %s on %s has %i minutes', (zone, day, minutes) => {
    const timeZone = new TimeZone(zone);
    const [start, end] = [day, nextDay(day)].map((each) => timeZone.firstInstantOf(Date.parse(each)));
    if (start === undefined || end === undefined) throw new Error('no border');
    expect((end - start) / MINUTE_MS).toBe(minutes);
    expect([start, end]).toEqual([firstMinuteOf(zone, day), firstMinuteOf(zone, nextDay(day))]);
  });

  test.each(CHANGES)('of %s around %s contains each of its minutes, and no day overlaps', (zone, day) => {
    const localDay = makeLocalDays(new TimeZone(zone));
    const from = firstMinuteOf(zone, day) - 2 * 60 * MINUTE_MS;
    const minutes = localMinutes(zone, day).filter(([at]) => at >= from && at < from + 28 * 60 * MINUTE_MS);
    expect(minutes).toHaveLength(28 * 60);
    let latest = '';
    const wrong = minutes.filter(([at, local]) => {
      // A clock that goes back over midnight shows the old day again; the new one has begun.
      const shown = local.slice(0, 10);
      if (shown > latest) latest = shown;
      return localDay(BigInt(at) * 1000n) !== latest;
    });
    expect(wrong).toEqual([]);
  });

  test('of a player is not the day of UTC', () => {
    const localDay = makeLocalDays(new TimeZone('Europe/Warsaw'));
    expect(localDay(micros('2026-12-01T22:59:59Z'))).toBe('2026-12-01');
    expect(localDay(micros('2026-12-01T23:00:00Z'))).toBe('2026-12-02');
  });

  test('before 1970, and in the first and last years of the calendar', () => {
    const localDay = makeLocalDays(new TimeZone('America/New_York'));
    expect(localDay(-1n)).toBe('1969-12-31');
    expect(localDay(micros('0001-01-01T12:00:00Z'))).toBe('0001-01-01');
    expect(localDay(micros('9999-12-31T23:59:59Z'))).toBe('9999-12-31');
  });
});

describe('a window [P3]', () => {
  const zone = new TimeZone('Europe/Warsaw');
  const keysOf = (calendar: ReturnType<typeof makeCalendar>, texts: readonly string[]) =>
    texts.map((text) => calendar.at(micros(text))?.key);

  test('of a week begins on its weekday', () => {
    const weeks = makeCalendar(null, null, { every: 'week', starts: 'monday' }, zone);
    expect(keysOf(weeks, ['2026-11-29T22:59:59Z', '2026-11-29T23:00:00Z', '2026-12-06T22:59:59Z'])).toEqual([
      '2026-11-23',
      '2026-11-30',
      '2026-11-30',
    ]);
    const fromSunday = makeCalendar(null, null, { every: 'week', starts: 'sunday' }, zone);
    expect(keysOf(fromSunday, ['2026-12-05T22:59:59Z', '2026-12-05T23:00:00Z'])).toEqual([
      '2026-11-29',
      '2026-12-06',
    ]);
  });

  test('of a month begins on its day, also in February and over a new year', () => {
    const months = makeCalendar(null, null, { every: 'month', starts: 28 }, zone);
    expect(
      keysOf(months, [
        '2026-02-27T22:59:00Z',
        '2026-02-27T23:00:00Z',
        '2026-12-30T00:00:00Z',
        '2027-01-27T22:00:00Z',
      ]),
    ).toEqual(['2026-01-28', '2026-02-28', '2026-12-28', '2026-12-28']);
    const window = months.at(micros('2026-12-30T00:00:00Z'));
    expect([window?.startsAt, window?.endsAt]).toEqual([
      micros('2026-12-27T23:00:00Z'),
      micros('2027-01-27T23:00:00Z'),
    ]);
  });

  test('is cut at from and to, whose end does not count', () => {
    const [from, to] = [micros('2026-12-02T10:00:00Z'), micros('2026-12-09T00:00:00Z')];
    const weeks = makeCalendar(from, to, { every: 'week', starts: 'monday' }, zone);
    expect(weeks.at(from - 1n)).toBeUndefined();
    expect(weeks.at(from)).toEqual({
      key: '2026-11-30',
      startsAt: from,
      endsAt: micros('2026-12-06T23:00:00Z'),
    });
    expect(weeks.at(to - 1n)).toEqual({
      key: '2026-12-07',
      startsAt: micros('2026-12-06T23:00:00Z'),
      endsAt: to,
    });
    expect(weeks.at(to)).toBeUndefined();
  });

  test('follows the one before without a gap, through all changes of the clocks', () => {
    for (const name of new Set(CHANGES.map(([each]) => each))) {
      const days = makeCalendar(micros('2025-12-31T00:00:00Z'), null, { every: 'day' }, new TimeZone(name));
      const windows = [
        ...windowsBetween(days, micros('2020-01-01T00:00:00Z'), micros('2027-01-02T12:00:00Z')),
      ];
      expect(windows.length).toBeGreaterThanOrEqual(367);
      expect(windows.slice(1).map(({ startsAt, key }) => `${key} ${startsAt}`)).toEqual(
        windows.slice(0, -1).map(({ endsAt, key }) => `${nextDay(key)} ${endsAt}`),
      );
    }
    const once = makeCalendar(5n, 9n, undefined, undefined);
    expect([...windowsBetween(once, 0n, 5n)]).toEqual([]);
    expect([...windowsBetween(once, 0n, 100n)]).toEqual([{ key: 'once', startsAt: 5n, endsAt: 9n }]);
    expect([...windowsBetween(once, 9n, 100n)]).toEqual([]);
  });

  test('of a promotion that does not repeat is one', () => {
    const once = makeCalendar(null, 10n, undefined, undefined);
    expect([once.at(-5n)?.key, once.at(9n)?.key, once.at(10n)]).toEqual(['once', 'once', undefined]);
  });
});

describe('a bound in local time [P4]', () => {
  /** Times around the changes above, some of which do not exist or exist twice. */
  const LOCAL = CHANGES.flatMap(([zone, day]) =>
    ['00:00', '00:30', '01:00', '01:45', '02:00', '02:15', '02:30', '03:00', '12:00', '23:15'].map(
      (time) => [zone, `${day}T${time}`] as const,
    ),
  );

  test.each(LOCAL)('of %s, %s, is the only minute that shows it, or is refused', (zone, local) => {
    const minutes = minutesShowing(zone, local);
    const expected: bigint | BoundFault =
      minutes.length === 0 ? 'skipped' : minutes.length > 1 ? 'repeated' : BigInt(minutes[0] ?? 0) * 1000n;
    expect(readBound(local, zone)).toBe(expected);
  });

  test.each([
    ['2026-03-29T02:30', 'Europe/Warsaw', 'skipped'],
    ['2026-10-25T02:30', 'Europe/Warsaw', 'repeated'],
    ['2026-09-06', 'America/Santiago', 'skipped'],
    ['2026-12-01T00:00', undefined, 'zone_missing'],
    ['2026-12-01T00:00', 'Europe/Warsow', 'zone_missing'],
    ['2026-13-01', 'Europe/Warsaw', 'syntax'],
    ['2026-12-01T25:00', 'Europe/Warsaw', 'syntax'],
    ['2026-12-01T00:00:60', 'Europe/Warsaw', 'syntax'],
    ['2026-12-01 00:00', 'Europe/Warsaw', 'syntax'],
    ['tomorrow', 'Europe/Warsaw', 'syntax'],
  ] as const)('%s in %s is refused: %s', (text, zone, fault) => {
    expect(readBound(text, zone)).toBe(fault);
  });

  test.each([
    ['2026-12-01', 'Europe/Warsaw', '2026-11-30T23:00:00Z'],
    ['2026-12-01T06:30:15', 'Europe/Warsaw', '2026-12-01T05:30:15Z'],
    ['2026-10-25T02:30+02:00', 'Europe/Warsaw', '2026-10-25T00:30:00Z'],
    ['2026-12-01T00:00Z', undefined, '2026-12-01T00:00:00Z'],
    ['2026-12-01T00:00:00.5+01:00', undefined, '2026-11-30T23:00:00.500Z'],
  ] as const)('%s in %s is %s', (text, zone, instant) => {
    expect(readBound(text, zone)).toBe(micros(instant));
  });
});

test.each([
  ['P7D', 604_800],
  ['P2W', 1_209_600],
  ['PT12H', 43_200],
  ['P1DT1H30M5S', 91_805],
  ['PT0S', 0],
] as const)('the duration %s has %i seconds [P13]', (text, seconds) => {
  expect(readDuration(text)).toBe(BigInt(seconds) * 1_000_000n);
});

test.each(['', 'P', 'PT', 'P1M', 'P1Y', '7D', 'P-1D', 'P1.5D', 'P1DT', 'P1W2D', 'p7d', 'PT1H2H'])(
  'the text "%s" is no duration [P13]',
  (text) => {
    expect(readDuration(text)).toBeUndefined();
  },
);

test.each([
  ['Europe/Warsaw', true],
  ['UTC', true],
  ['Europe/Atlantis', false],
  ['+01:00', false],
  ['', false],
])('%s is a time zone: %s [P4]', (name, is) => {
  expect(isTimeZone(name)).toBe(is);
});
