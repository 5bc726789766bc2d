/** Instants by RFC 3339 (F6): the accepted texts, and the microsecond that each one means. */
import fc from 'fast-check';
import { parseInstant, scanInstant } from '../../../../src/domain/event/timestamp';
import { aLogin } from '../../../support/builders';
import { judged, verdictOf } from '../world';

/** The microseconds of a text that Date can read: the oracle for such texts. */
const micros = (text: string) => BigInt(Date.parse(text)) * 1000n;

describe('a date-time with a zone is read [F6]', () => {
  it.each([
    ['1970-01-01T00:00:00Z', 0n],
    ['1970-01-01T00:00:00.000001Z', 1n],
    ['1969-12-31T23:59:59.999999Z', -1n],
    ['2026-11-21T12:00:00Z', 1_795_262_400_000_000n],
    ['2026-11-21T12:00:00.25Z', 1_795_262_400_250_000n],
    ['2026-11-21T13:00:00+01:00', 1_795_262_400_000_000n],
    ['2026-11-21T06:30:00-05:30', 1_795_262_400_000_000n],
    ['2026-11-21T12:00:00-00:00', 1_795_262_400_000_000n],
    ['2026-11-21T12:00:00+00:00', 1_795_262_400_000_000n],
    ['2026-11-21t12:00:00z', 1_795_262_400_000_000n],
    ['0001-01-01T00:00:00Z', -62_135_596_800_000_000n],
    ['9999-12-31T23:59:59.999999Z', 253_402_300_799_999_999n],
  ])('%s', (text, expected) => {
    expect(parseInstant(text)).toBe(expected);
    expect(verdictOf(aLogin({ occurred_at: text }))).toBe('accepted');
    expect(judged(aLogin({ occurred_at: text })).fields.occurredAtMicros).toBe(expected);
  });

  it('offsets up to 23:59 in both directions are valid [V4]', () => {
    expect(parseInstant('2026-11-21T12:00:00+23:59')).toBe(micros('2026-11-20T12:01:00Z'));
    expect(parseInstant('2026-11-21T12:00:00-23:59')).toBe(micros('2026-11-22T11:59:00Z'));
    expect(parseInstant('9999-12-31T23:59:59-23:59')).toBe(micros('9999-12-31T23:59:59Z') + 86_340_000_000n);
  });

  it('for any second and zone, it equals the value of Date', () => {
    const second = fc.integer({ min: -62_135_596_800, max: 253_402_300_799 });
    const minutes = fc.integer({ min: -1439, max: 1439 });
    const two = (value: number) => String(Math.trunc(Math.abs(value))).padStart(2, '0');
    fc.assert(
      fc.property(second, minutes, (utc, offset) => {
        const local = new Date((utc + offset * 60) * 1000);
        fc.pre(local.getUTCFullYear() >= 1 && local.getUTCFullYear() <= 9999);
        const zone = `${offset < 0 ? '-' : '+'}${two(offset / 60)}:${two(offset % 60)}`;
        const text = local.toISOString().replace(/\.000Z$/, zone);
        return parseInstant(text) === BigInt(utc) * 1_000_000n;
      }),
      { numRuns: 1_000 },
    );
  });

  it('for every day of four centuries, it equals the value of Date', () => {
    const day = 86_400_000;
    const last = Date.UTC(2100, 2, 2);
    const wrong: string[] = [];
    for (let time = Date.UTC(1999, 11, 30); time <= last; time += day) {
      const text = new Date(time).toISOString();
      if (parseInstant(text) !== BigInt(time) * 1000n) wrong.push(text);
    }
    for (let year = 1600; year <= 2000; year++)
      for (const monthDay of ['01-01', '02-28', '03-01', '12-31']) {
        const text = `${year}-${monthDay}T00:00:00Z`;
        if (parseInstant(text) !== micros(text)) wrong.push(text);
      }
    expect(wrong).toEqual([]);
  });
});

describe('a text that is no such date-time makes malformed [F6] [V4]', () => {
  it.each([
    ['no zone', '2026-11-21T12:00:00'],
    ['no zone behind a fraction', '2026-11-21T12:00:00.25'],
    ['a date alone', '2026-11-21'],
    ['a time alone', '12:00:00Z'],
    ['no seconds', '2026-11-21T12:00Z'],
    ['no seconds, but long enough', '2026-11-21T12:00+01:00'],
    ['the basic format', '20261121T120000.0000Z'],
    ['seconds since 1970', '1795262400'],
    ['seconds since 1970, long enough', '00000000001795262400'],
    ['a blank for T', '2026-11-21 12:00:00Z'],
    ['an underscore for T', '2026-11-21_12:00:00Z'],
    ['a slash in the date', '2026/11-21T12:00:00Z'],
    ['a slash in the date', '2026-11/21T12:00:00Z'],
    ['a dot in the time', '2026-11-21T12.00:00Z'],
    ['a dot in the time', '2026-11-21T12:00.00Z'],
    ['a comma before the fraction', '2026-11-21T12:00:00,25Z'],
    ['an empty fraction', '2026-11-21T12:00:00.Z'],
    ['a fraction with a letter', '2026-11-21T12:00:00.2x5Z'],
    ['a fraction with a character before 0', '2026-11-21T12:00:00./Z'],
    ['a fraction with a character behind 9', '2026-11-21T12:00:00.:Z'],
    ['a blank before the zone', '2026-11-21T12:00:00 Z'],
    ['something behind Z', '2026-11-21T12:00:00Z '],
    ['something behind Z', '2026-11-21T12:00:00ZZ'],
    ['a letter behind an offset', '2026-11-21T12:00:00+01:00x'],
    ['a blank in front', ' 2026-11-21T12:00:00Z'],
    ['an offset without colon', '2026-11-21T12:00:00+0100'],
    ['an offset without colon, but long enough', '2026-11-21T12:00:00+01000'],
    ['an offset with a dot', '2026-11-21T12:00:00+01.00'],
    ['an offset of only hours', '2026-11-21T12:00:00+01'],
    ['an offset of one digit', '2026-11-21T12:00:00+1:00'],
    ['an offset with seconds', '2026-11-21T12:00:00+01:00:00'],
    ['an offset of 24 hours', '2026-11-21T12:00:00+24:00'],
    ['an offset of 60 minutes', '2026-11-21T12:00:00+01:60'],
    ['an offset with a letter', '2026-11-21T12:00:00+0a:00'],
    ['an offset with a letter', '2026-11-21T12:00:00+01:0a'],
    ['an offset with a Unicode minus', '2026-11-21T12:00:00\u221201:00'],
    ['the name of a zone', '2026-11-21T12:00:00[UTC]'],
    ['another letter for Z', '2026-11-21T12:00:00A'],
    ['month 0', '2026-00-21T12:00:00Z'],
    ['month 13', '2026-13-21T12:00:00Z'],
    ['day 0', '2026-11-00T12:00:00Z'],
    ['day 32', '2026-01-32T12:00:00Z'],
    ['31 April', '2026-04-31T12:00:00Z'],
    ['31 June', '2026-06-31T12:00:00Z'],
    ['31 September', '2026-09-31T12:00:00Z'],
    ['31 November', '2026-11-31T12:00:00Z'],
    ['29 February in no leap year', '2026-02-29T12:00:00Z'],
    ['29 February of a century', '1900-02-29T12:00:00Z'],
    ['30 February', '2024-02-30T12:00:00Z'],
    ['hour 24', '2026-11-21T24:00:00Z'],
    ['minute 60', '2026-11-21T12:60:00Z'],
    ['second 60 in the middle of a day', '2026-11-21T12:00:60Z'],
    ['second 61', '2016-12-31T23:59:61Z'],
    ['a minus before the year', '-026-11-21T12:00:00Z'],
    ['a year of five digits', '12026-11-21T12:00:00Z'],
    ['a year of three digits', '026-11-21T12:00:00.0Z'],
    ['letters for digits', 'yyyy-mm-ddThh:mm:ssZ'],
    ['a letter in the hour', '2026-11-21T1x:00:00Z'],
    ['a letter in the minute', '2026-11-21T12:x0:00Z'],
    ['a letter in the second', '2026-11-21T12:00:0xZ'],
    ['a letter in the day', '2026-11-x1T12:00:00Z'],
    ['a character before 0 for a digit', '2026-11-21T12:00:1/Z'],
    ['a character behind 9 for a digit', '2026-11-21T12:00:0:Z'],
    ['Arabic-Indic digits', '\u0662026-11-21T12:00:00Z'],
    ['nothing', ''],
  ])('%s: %s', (_, text) => {
    expect(parseInstant(text)).toBeUndefined();
    expect(verdictOf(aLogin({ occurred_at: text }))).toBe('rejected/malformed');
  });

  it.each([
    '2026-01-31',
    '2026-03-31',
    '2026-05-31',
    '2026-07-31',
    '2026-08-31',
    '2026-10-31',
    '2026-12-31',
    '2026-04-30',
    '2024-02-29',
    '2000-02-29',
    '2026-02-28',
  ])('while %s is the last day of its month', (date) => {
    expect(parseInstant(`${date}T23:59:59Z`)).toBe(micros(`${date}T23:59:59Z`));
  });
});

describe('second 60 is valid only at the end of 30 June and 31 December in UTC [F6] [V4]', () => {
  it.each([
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00Z'],
    ['2015-06-30T23:59:60Z', '2015-07-01T00:00:00Z'],
    ['2017-01-01T00:59:60+01:00', '2017-01-01T00:00:00Z'],
    ['2016-12-31T18:59:60-05:00', '2017-01-01T00:00:00Z'],
    ['2015-07-01T05:29:60+05:30', '2015-07-01T00:00:00Z'],
    ['2017-01-01T23:58:60+23:59', '2017-01-01T00:00:00Z'],
    ['2016-12-31T00:00:60-23:59', '2017-01-01T00:00:00Z'],
    ['9999-12-31T23:59:60Z', '+010000-01-01T00:00:00Z'],
  ])('%s is the instant at which the next day begins', (text, next) => {
    expect(parseInstant(text)).toBe(micros(next));
    expect(verdictOf(aLogin({ occurred_at: text }))).toBe('accepted');
  });

  it('its fraction is kept', () => {
    expect(parseInstant('2016-12-31T23:59:60.5Z')).toBe(micros('2017-01-01T00:00:00.500Z'));
  });

  it.each([
    '2016-12-31T23:58:60Z',
    '2016-12-31T22:59:60Z',
    '2016-12-31T00:00:60Z',
    '2016-12-30T23:59:60Z',
    '2016-06-29T23:59:60Z',
    '2016-03-31T23:59:60Z',
    '2016-09-30T23:59:60Z',
    '2016-11-30T23:59:60Z',
    '2017-01-01T00:00:60Z',
    '2016-12-31T23:59:60+01:00',
    '2016-12-31T23:59:60-00:30',
    '2017-01-01T00:30:60+01:00',
    '2016-12-31T12:00:60Z',
    '2017-01-01T04:59:60Z',
    '2017-01-14T23:59:60Z',
    '2016-07-14T23:59:60Z',
  ])('%s is refused', (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });
});

describe('the year 0000 is refused [F6] [V4]', () => {
  it.each([
    ['as the instant, by a leap second', '0001-01-01T00:59:60+01:00'],
    ['as written', '0000-01-01T00:00:00Z'],
    ['as written', '0000-06-15T12:00:00Z'],
    ['as written, although the instant is in the year 1', '0000-12-31T23:59:59-00:01'],
    ['as the instant', '0001-01-01T00:00:00+00:01'],
    ['as the instant', '0001-01-01T23:58:59+23:59'],
    ['as the instant, by a fraction', '0001-01-01T00:00:59.999999+00:01'],
  ])('%s: %s', (_, text) => {
    expect(parseInstant(text)).toBeUndefined();
    expect(verdictOf(aLogin({ occurred_at: text }))).toBe('rejected/malformed');
  });

  it('the first instant of the year 1 is accepted, in any zone', () => {
    const first = -62_135_596_800_000_000n;
    expect(parseInstant('0001-01-01T00:00:00Z')).toBe(first);
    expect(parseInstant('0001-01-01T23:59:00+23:59')).toBe(first);
    expect(parseInstant('0001-01-01T00:00:00-00:01')).toBe(first + 60_000_000n);
  });
});

describe('fractions are kept to the microsecond, finer digits are cut off [F6] [V6]', () => {
  const second = micros('2026-11-21T12:00:00Z');
  it.each([
    ['5', 500_000n],
    ['000001', 1n],
    ['123456', 123_456n],
    ['1234567', 123_456n],
    ['9999999', 999_999n],
    ['0000009', 0n],
    ['000000999999999', 0n],
  ])('.%s', (fraction, expected) => {
    expect(parseInstant(`2026-11-21T12:00:00.${fraction}Z`)).toBe(second + expected);
    expect(parseInstant(`2026-11-21T12:00:00.${fraction}+00:00`)).toBe(second + expected);
  });

  it('of 1 to 10,000 digits', () => {
    for (const digits of [1, 2, 3, 5, 6, 7, 9, 10, 100, 1_000, 10_000]) {
      const fraction = '1'.repeat(digits);
      const expected = BigInt(fraction.slice(0, 6).padEnd(6, '0'));
      expect(parseInstant(`2026-11-21T12:00:00.${fraction}Z`)).toBe(second + expected);
    }
  });

  it('before 1970 they are cut towards the past', () => {
    expect(parseInstant('1969-12-31T23:59:59.9999999Z')).toBe(-1n);
  });
});

describe('the fast way reads the plainest form, and leaves any other to the parser [F6]', () => {
  /** Reads the text from the middle of other bytes, as it is in an event. */
  const scanned = (text: string) => {
    const bytes = Buffer.from(`"${text}",0Z`);
    return scanInstant(bytes, 1, 1 + Buffer.byteLength(text));
  };

  it.each([
    '1970-01-01T00:00:00Z',
    '1969-12-31T23:59:59.999999Z',
    '2026-11-21T12:00:00.2Z',
    '2026-11-21T12:00:00.25Z',
    '2026-11-21T12:00:00.000001Z',
    '2024-02-29T23:59:59.123456Z',
    '2000-02-29T00:00:00Z',
    '1685-01-01T00:00:00.000001Z',
    '2254-12-31T23:59:59.999999Z',
  ])('%s', (text) => {
    expect(scanned(text)).toBe(Number(parseInstant(text)));
  });

  it.each([
    ['a year whose microseconds are beyond 2^53', '0001-01-28T00:00:00.0001Z'],
    ['a year whose microseconds are beyond 2^53', '1684-12-31T23:59:59.999999Z'],
    ['a year whose microseconds are beyond 2^53', '2255-12-31T23:59:59.999999Z'],
    ['a zone', '2026-11-21T12:00:00+00:00'],
    ['a fraction with a zone', '2026-11-21T12:00:00.5+00:00'],
    ['seven digits', '2026-11-21T12:00:00.1234567Z'],
    ['a small t', '2026-11-21t12:00:00Z'],
    ['a small z', '2026-11-21T12:00:00z'],
    ['second 60', '2016-12-31T23:59:60Z'],
  ])('a valid text is left to the parser, with %s: %s', (_, text) => {
    expect(parseInstant(text)).toBeDefined();
    expect(scanned(text)).toBeNaN();
  });

  it('it agrees with the parser for all texts that are nearly instants', () => {
    const valid = fc
      .tuple(
        fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }),
        fc.constantFrom('', '.5', '.250', '.123456'),
      )
      .map(([seconds, fraction]) => new Date(seconds * 1000).toISOString().replace('.000', fraction));
    const near = fc
      .tuple(valid, fc.nat(), fc.constantFrom(...'0123456789/:;.-+TZtz @x', '', '00'))
      .map(([text, at, other]) => {
        const place = at % text.length;
        return text.slice(0, place) + other + text.slice(place + 1);
      });
    let read = 0;
    fc.assert(
      fc.property(fc.oneof(valid, near), (text) => {
        const micros = scanned(text);
        if (Number.isNaN(micros)) return true;
        read++;
        return BigInt(micros) === parseInstant(text);
      }),
      { numRuns: 1_000 },
    );
    expect(read).toBeGreaterThan(30);
  });

  it('it agrees with the parser for every day of the years that it reads', () => {
    const wrong: string[] = [];
    for (let day = 0; day < 366 * 570; day += 17) {
      const text = new Date(Date.UTC(1685, 0, 1) + day * 86_400_000).toISOString();
      if (text < '2255' && scanned(text) !== Date.parse(text) * 1000) wrong.push(text);
    }
    expect(wrong).toEqual([]);
  });
});
