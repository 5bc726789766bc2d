/** Faults of a file of promotions, with their places and remedies; and the schema that editors use. */
import { parse } from 'yaml';
import { isObject } from '../../../src/lib/json';
import { parsePromotions } from '../../../src/promotion-file/promotion-file';
import { fromPromotionsJson, toPromotionsJson } from '../../../src/promotion-file/stored';
import { PROMOTION_TYPES } from '../../../src/promotions/definition';
import {
  documentOf,
  EXAMPLES,
  faultsOf,
  fullOf,
  isRead,
  isValid,
  REFERENCE,
  schema,
  TYPES,
} from '../../support/promotion-documents';

const warningsOf = (text: string) => {
  const parsed = parsePromotions(text, 'p.yaml', REFERENCE);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.warnings;
};
const one = (flow: string) => `promotions: [{ id: x, operator: acme, ${flow} }]`;
const BETS = 'type: bet_count, target: 5';
const STREAK = 'type: login_streak, days: 3';
const ZONED = `${STREAK}, time_zone: Europe/Warsaw`;

describe('a fault [P19]', () => {
  test.each([
    ['no data', '', '', /holds no data/, /promotions: \[\]/],
    ['another top key', 'promotion: []', 'promotion', /unknown here/, /promotions/],
    ['no list', 'promotions: 5', 'promotions', /Expected a list/, /- /],
    [
      'no id',
      'promotions: [{ operator: acme, type: bet_count, target: 5 }]',
      'promotions[0]',
      /"id" is missing/,
      /Give the promotion/,
    ],
    ['no type', one('target: 5'), 'promotions[0]', /"type" is missing/, /login_streak, deposit_target/],
    [
      'another type',
      one('type: login_streaks, days: 3'),
      'promotions[0].type',
      /unknown here/,
      /Did you mean "login_streak"/,
    ],
    [
      'an unknown key',
      one(`${BETS}, gamez: [g1]`),
      'promotions[0].gamez',
      /unknown here/,
      /Did you mean "games"/,
    ],
    [
      'games of an account type',
      one('type: deposit_target, target: { EUR: "1" }, games: [g1]'),
      'promotions[0].games',
      /no key "games"/,
      /account events have no game/,
    ],
    [
      'a minimum of an account type',
      one(`${STREAK}, time_zone: UTC, min_amount: { EUR: "1" }`),
      'promotions[0].min_amount',
      /no key "min_amount"/,
      /take no minimum/,
    ],
    [
      'a key of another type',
      one(`${BETS}, days: 3`),
      'promotions[0].days',
      /no key "days"/,
      /bet_count has games, min_amount, target, completes/,
    ],
    [
      'an unknown operator',
      'promotions: [{ id: x, operator: acne, type: bet_count, target: 5 }]',
      'promotions[0].operator',
      /no operator "acne"/,
      /Did you mean "acme"/,
    ],
    [
      'an unknown brand',
      one(`${BETS}, brands: [mein]`),
      'promotions[0].brands[0]',
      /no brand "mein"/,
      /Did you mean "main"/,
    ],
    ['no brand', one(`${BETS}, brands: []`), 'promotions[0].brands', /counts no brand/, /remove the key/],
    ['no game', one(`${BETS}, games: []`), 'promotions[0].games', /counts no game/, /remove the key/],
    [
      'an unknown zone',
      one(`${STREAK}, time_zone: Europe/Warsow`),
      'promotions[0].time_zone',
      /no time zone/,
      /Did you mean "Europe\/Warsaw"/,
    ],
    [
      'an offset as zone',
      one(`${STREAK}, time_zone: "+01:00"`),
      'promotions[0].time_zone',
      /no time zone/,
      /IANA name/,
    ],
    ['a streak without a zone', one(STREAK), 'promotions[0]', /no time_zone/, /Europe\/Warsaw/],
    [
      'a window without a zone',
      one(`${BETS}, window: { every: day }`),
      'promotions[0].window',
      /no time_zone/,
      /Europe\/Warsaw/,
    ],
    [
      'another window',
      one(`${BETS}, window: { every: hour }, time_zone: UTC`),
      'promotions[0].window.every',
      /unknown here/,
      /day or week or month/,
    ],
    [
      'a start of a day',
      one(`${BETS}, window: { every: day, starts: 6 }, time_zone: UTC`),
      'promotions[0].window.starts',
      /begins at 00:00/,
      /Remove starts/,
    ],
    [
      'another weekday',
      one(`${BETS}, window: { every: week, starts: munday }, time_zone: UTC`),
      'promotions[0].window.starts',
      /unknown here/,
      /"monday"/,
    ],
    [
      'the 31st',
      one(`${BETS}, window: { every: month, starts: 31 }, time_zone: UTC`),
      'promotions[0].window.starts',
      /from 1 to 28/,
      /every month has/,
    ],
    [
      'a local time without a zone',
      one(`${BETS}, from: 2026-12-01T00:00`),
      'promotions[0].from',
      /needs a time zone/,
      /Add time_zone/,
    ],
    [
      'a time that is skipped',
      one(`${BETS}, from: 2026-03-29T02:30, time_zone: Europe/Warsaw`),
      'promotions[0].from',
      /does not exist/,
      /an hour later/,
    ],
    [
      'a time that comes twice',
      one(`${BETS}, to: 2026-10-25T02:30, time_zone: Europe/Warsaw`),
      'promotions[0].to',
      /twice/,
      /with its offset/,
    ],
    ['no time', one(`${BETS}, to: soon, time_zone: UTC`), 'promotions[0].to', /no time/, /2026-12-01T00:00/],
    [
      'an end before its begin',
      one(`${BETS}, from: 2026-12-02T00:00Z, to: 2026-12-02T01:00+01:00`),
      'promotions[0].to',
      /has no time/,
      /later time/,
    ],
    [
      'another duration',
      one(`${BETS}, accepts_late: 7 days`),
      'promotions[0].accepts_late',
      /no duration/,
      /P7D/,
    ],
    [
      'a month as duration',
      one(`${BETS}, confirm_after: P1M`),
      'promotions[0].confirm_after',
      /no duration/,
      /PT12H/,
    ],
    ['no target', one('type: bet_count'), 'promotions[0]', /"target" is missing/, /such as 100/],
    [
      'a target of zero',
      one('type: bet_count, target: 0'),
      'promotions[0].target',
      /from 1 to/,
      /number of bets/,
    ],
    [
      'a target in quotes',
      one('type: bet_count, target: "5"'),
      'promotions[0].target',
      /found "5"/,
      /without quotes/,
    ],
    ['no currency', one('type: deposit_target, target: {}'), 'promotions[0].target', /No currency/, /EUR/],
    [
      'an unknown currency',
      one('type: deposit_target, target: { EURO: "1" }'),
      'promotions[0].target.EURO',
      /no currency "EURO"/,
      /Did you mean "EUR"/,
    ],
    [
      'a currency twice',
      one('type: deposit_target, target: { EUR: "1", eur: "2" }'),
      'promotions[0].target.eur',
      /same currency/,
      /Keep one/,
    ],
    [
      'too many decimals',
      one('type: deposit_target, target: { JPY: "1.5" }'),
      'promotions[0].target.JPY',
      /more decimals/,
      /whole number/,
    ],
    [
      'an amount of zero',
      one('type: deposit_target, target: { EUR: "0.00" }'),
      'promotions[0].target.EUR',
      /is zero/,
      /above zero/,
    ],
    [
      'an amount without quotes',
      one('type: deposit_target, target: { EUR: 5.00 }'),
      'promotions[0].target.EUR',
      /Expected a text/,
      /"5.00"/,
    ],
    ['no items', one('type: collect_items, items: []'), 'promotions[0].items', /is empty/, /ruby/],
    [
      'an item without need',
      one('type: collect_items, items: [{ id: a }]'),
      'promotions[0].items[0]',
      /"need" is missing/,
      /number of items/,
    ],
    [
      'equal items',
      one('type: collect_items, items: [{ id: a, need: 1 }, { id: a, need: 2 }]'),
      'promotions[0].items[1].id',
      /already used/,
      /another id/,
    ],
    [
      'points for logins',
      one('type: leaderboard, points: [{ counts: login, points: 1 }]'),
      'promotions[0].points[0].counts',
      /unknown here/,
      /bet or settled/,
    ],
    [
      'equal ids',
      `promotions: [{ id: x, operator: acme, ${BETS} }, { id: x, operator: acme, ${BETS} }]`,
      'promotions[1].id',
      /already used on line 1/,
      /another id/,
    ],
  ])('%s has its place and remedy', (_, text, path, message, remedy) => {
    const faults = faultsOf(text);
    expect(faults.map((fault) => fault.path)).toContain(path);
    const fault = faults.find((each) => each.path === path);
    expect(fault?.message).toMatch(message);
    expect(fault?.remedy).toMatch(remedy);
  });

  test('of two operators with one id is none', () => {
    const second = `{ id: x, operator: borealis, ${BETS} }`;
    expect(faultsOf(`promotions: [{ id: x, operator: acme, ${BETS} }, ${second}]`)).toEqual([]);
  });

  test.each(['id: x', 'operator: acme', 'brands: []'])(
    'of a key hides none of another key, where only %s is given',
    (given) => {
      const text = `promotions: [{ ${given}, type: bet_count, target: "5", to: never }]`;
      expect(faultsOf(text).map(({ path }) => path)).toEqual(
        expect.arrayContaining(['promotions[0]', 'promotions[0].target', 'promotions[0].to']),
      );
    },
  );

  test('is reported with all others at once, in the order of the text', () => {
    const text = `promotions:
  - id: a
    operator: nobody
    type: bet_count
    target: 0
  - id: a
    operator: nobody
    type: login_streak
    days: many
    to: never
`;
    expect(faultsOf(text).map(({ line, path }) => `${line} ${path}`)).toEqual([
      '3 promotions[0].operator',
      '5 promotions[0].target',
      '6 promotions[1]',
      '6 promotions[1].id',
      '7 promotions[1].operator',
      '9 promotions[1].days',
      '10 promotions[1].to',
    ]);
  });

  test('of an unknown zone is one, whatever depends on the zone', () => {
    const text = one(`${STREAK}, window: { every: day }, from: 2026-12-01, time_zone: Mars/Olympus`);
    expect(faultsOf(text).map(({ path }) => path)).toEqual(['promotions[0].time_zone']);
  });
});

describe('a warning [P19]', () => {
  test.each([
    [
      'a game outside of the catalogue',
      one(`${BETS}, games: [g7]`),
      /no game "g7"/,
      /Did you mean|Check the id/,
    ],
    [
      'a game that is inactive in the catalogue',
      one(`${BETS}, games: [g1, g3]`),
      /game "g3" is inactive/,
      /Activate it/,
    ],
    ['an inactive brand', one(`${BETS}, brands: [acme-sports]`), /brand "acme-sports" is/, /activate it/],
    [
      'a leaderboard that never closes',
      one('type: leaderboard, points: [{ counts: bet, points: 1 }], accepts_late: P1D'),
      /never closes/,
      /Add to/,
    ],
    [
      'ranks that late events change',
      one('type: leaderboard, points: [{ counts: bet, points: 1 }], to: 2027-01-01T00:00Z'),
      /late event/,
      /accepts_late/,
    ],
    [
      'a streak longer than a day',
      one(`${ZONED}, window: { every: day }`),
      /3 days .* the most is 1/,
      /longer/,
    ],
    [
      'a streak longer than a week',
      one('type: login_streak, days: 8, time_zone: Europe/Warsaw, window: { every: week }'),
      /8 days in a row: the most is 7\.$/,
      /fewer days/,
    ],
    [
      'a streak longer than the promotion, over a change of clocks',
      one(`${ZONED}, from: 2026-03-28T12:00, to: 2026-03-30T00:00`),
      /3 days in a row: the most is 2\.$/,
      /fewer days/,
    ],
  ])('%s is warned of, and read', (_, text, message, remedy) => {
    const [warning, ...others] = warningsOf(text);
    expect([warning?.message, others]).toEqual([expect.stringMatching(message), []]);
    expect(warning?.remedy).toMatch(remedy);
  });

  test.each([
    `${ZONED}, window: { every: week }`,
    'type: login_streak, days: 31, time_zone: Europe/Warsaw, window: { every: month }',
    `${ZONED}, from: 2026-03-28T23:00, to: 2026-03-30T01:00`,
    `${ZONED}, from: 2026-03-28T12:00`,
  ])('no warning is given of a streak that a window can hold: %s', (text) => {
    expect(warningsOf(one(text))).toEqual([]);
  });

  test('an inactive operator is warned of', () => {
    const [acme] = REFERENCE.operators;
    if (acme === undefined) throw new Error('the example has no operator');
    const parsed = parsePromotions(one(BETS), 'p.yaml', { operators: [{ ...acme, active: false }] });
    expect(parsed).toMatchObject({ warnings: [{ message: 'The operator "acme" is inactive.' }] });
  });

  test('no warning is given without reference data, or for an operator without a catalogue', () => {
    expect(warningsOf(`promotions: [{ id: x, operator: borealis, ${BETS}, games: [g7] }]`)).toEqual([]);
    expect(parsePromotions(one(`${BETS}, games: [g7]`), 'p')).toMatchObject({ warnings: [] });
  });
});

test('defaults: once, bets, Monday, the first of the month, 100 ranks [P12]', () => {
  const text = `promotions:
  - { id: a, operator: acme, type: turnover_target, target: { eur: "5" }, window: { every: week }, time_zone: UTC }
  - { id: b, operator: acme, type: leaderboard, points: [{ counts: bet, points: 1 }], window: { every: month }, time_zone: UTC }`;
  const parsed = parsePromotions(text, 'p');
  expect(parsed).toMatchObject({
    document: {
      promotions: [
        {
          completes: 'once',
          counts: 'bet',
          target: { EUR: '5' },
          window: { every: 'week', starts: 'monday' },
        },
        { keepRanks: 100, window: { every: 'month', starts: 1 } },
      ],
    },
  });
});

test('the examples are valid for the reader and the schema, and JSON is read as YAML is [P19]', () => {
  const parsed = parsePromotions(EXAMPLES, 'promotions.yaml', REFERENCE);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  const types = parsed.document.promotions.map(({ type }) => type);
  expect(PROMOTION_TYPES.filter((type) => !types.includes(type))).toEqual([]);
  const json = JSON.stringify(parse(EXAMPLES));
  expect(parsePromotions(json, 'p.json', REFERENCE)).toMatchObject({ document: parsed.document });
});

describe('the stored form [P19]', () => {
  const read = (text: string) => {
    const parsed = parsePromotions(text, 'p', REFERENCE);
    if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
    return parsed.document;
  };

  test.each([
    ['the examples', EXAMPLES],
    ['the defaults', one(BETS)],
  ])('of %s is read as the same document', (_, text) => {
    const document = read(text);
    const stored: unknown = JSON.parse(JSON.stringify(toPromotionsJson(document)));
    expect(fromPromotionsJson(stored)).toEqual(document);
    expect(isValid(stored)).toBe(true);
    expect(read(JSON.stringify(stored))).toEqual(document);
  });

  test.each(Object.entries(TYPES))('of each key of %s is read as the same document', (type, own) => {
    const document = read(JSON.stringify(documentOf(fullOf(type, own))));
    const stored: unknown = JSON.parse(JSON.stringify(toPromotionsJson(document)));
    expect(fromPromotionsJson(stored)).toEqual(document);
    expect(stored).toEqual(documentOf(fullOf(type, own)));
  });

  test('of a newer version is refused, with its place', () => {
    const newer = { promotions: [{ id: 'x', operator: 'acme', type: 'bingo', balls: 5 }] };
    expect(() => fromPromotionsJson(newer)).toThrow(/promotions\[0\].*and 1 more fault/s);
  });
});

// --- the schema

describe.each(Object.entries(TYPES))('the schema of %s [P19]', (type, own) => {
  const full = fullOf(type, own);

  test('has the keys of the reader, and each of them is read', () => {
    expect([isRead(full), isValid(documentOf(full)), isValid.errors]).toEqual([true, true, null]);
    const definition = definitionOf(type);
    expect(Object.keys(full).sort()).toEqual(Object.keys(definition).sort());
    for (const key of Object.keys(full)) {
      const { [key]: _, ...others } = full;
      expect([key, isRead(others)]).toEqual([key, isValid(documentOf(others))]);
    }
  });

  test('refuses the keys of other types, as the reader does', () => {
    for (const other of [
      'days',
      'target',
      'counts',
      'games',
      'min_amount',
      'items',
      'points',
      'keep_ranks',
      'more',
    ]) {
      if (other in full) continue;
      const wrong = { ...full, [other]: 5 };
      expect([other, isRead(wrong), isValid(documentOf(wrong))]).toEqual([other, false, false]);
    }
  });
});

function definitionOf(type: string): Record<string, unknown> {
  const { $defs } = isObject(schema) ? schema : {};
  const found = isObject($defs) ? $defs[type] : undefined;
  const properties = isObject(found) ? found.properties : undefined;
  if (!isObject(properties)) throw new Error(`the schema has no type ${type}`);
  return { ...properties };
}
