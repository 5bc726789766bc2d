/**
 * A report of an invented month, always the same: for the pictures of docs/report.md, and for tests of the
 * page. Its rows have the form of those that the store returns.
 */
import { TimeZone } from '../src/lib/time-zone';
import type { TextRow } from '../src/postgres/texts';
import { figuresOf, type ReportRows, type VerdictReport } from '../src/report/data';
import { findingsOf } from '../src/report/findings';
import { planOf } from '../src/report/plan';
import { makeRandom, type Random } from './random';

const SEED = 41;
const FROM = Date.UTC(2026, 10, 1);
const TO = Date.UTC(2026, 11, 1);
const DAYS = 30;
/** The day on which a release of the operator broke its amounts. */
const BROKEN_DAY = 17;
const GAMES = ['aurora', 'book-of-tides', 'crash-royale', 'dice-duel', 'golden-fjord', 'hot-lanes'];
const BRANDS = [
  { brand: 'main', currency: 'EUR', bets: 21_000, stake: 1.8 },
  { brand: 'north', currency: 'EUR', bets: 9_000, stake: 2.6 },
  { brand: 'vip', currency: 'EUR', bets: 1_100, stake: 19 },
  { brand: 'main', currency: 'SEK', bets: 4_000, stake: 17 },
] as const;
const CONNECTIONS = [
  { id: 'acme-events', share: 0.7, topic: 'promo.event.v1' },
  { id: 'acme-live', share: 0.29, topic: 'promo.event.live' },
  { id: 'acme-hook', share: 0.01, topic: null },
] as const;

const NO_PROMOTIONS = { promotions: [], shares: [], completions: [], misses: [] };

/** The report of one operator, from the rollups. */
export function sampleReport(): VerdictReport {
  const zone = new TimeZone('UTC');
  const span = { from: FROM, to: TO };
  const plan = planOf(span, zone, { completeSince: null, upTo: TO }, TO);
  const figures = figuresOf(
    {
      operator: 'acme',
      span,
      plan,
      madeAt: TO,
      madeBy: '1.0.0',
      completeSince: null,
      rollupsUpTo: TO,
      querySeconds: 60,
    },
    sampleRows(makeRandom(SEED)),
  );
  return { ...figures, findings: findingsOf(figures) };
}

/** The same without any event. */
export function emptyReport(): VerdictReport {
  const zone = new TimeZone('UTC');
  const span = { from: FROM, to: TO };
  const rows = {
    verdicts: [],
    amounts: [],
    resends: [],
    contradictions: [],
    registered: [],
    ...NO_PROMOTIONS,
  };
  const figures = figuresOf(
    {
      operator: null,
      span,
      plan: planOf(span, zone, null, TO),
      madeAt: TO,
      madeBy: '1.0.0',
      completeSince: null,
      rollupsUpTo: null,
      querySeconds: 60,
    },
    rows,
  );
  return { ...figures, findings: findingsOf(figures) };
}

function sampleRows(random: Random): ReportRows {
  const verdicts: TextRow[] = [];
  const resends: TextRow[] = [];
  const byConnection = new Map<string, number[]>();
  for (let day = 0; day < DAYS; day++) {
    // Weekends are busier, and the month grows a little.
    const isWeekend = [0, 6].includes(new Date(FROM + day * 86_400_000).getUTCDay());
    const events = 84_000 * (isWeekend ? 1.35 : 1) * (1 + day / 110) * between(random, 0.94, 1.06);
    const isBroken = day === BROKEN_DAY;
    const outcomes: [string, string | null, number][] = [
      ['accepted', null, 0.968],
      ['skipped', 'below_min_bet', 0.014],
      ['skipped', 'game_denied', 0.006],
      ['skipped', 'round_refunded', 0.0015],
      ['rejected', 'bad_amount', isBroken ? 0.052 : 0.0009],
      ['rejected', 'brand_unmapped', 0.0021],
      ['rejected', 'malformed', 0.0004],
    ];
    for (const [verdict, reason, share] of outcomes) {
      const count = Math.round(events * share * between(random, 0.85, 1.15));
      const slow = day === 9 ? 0.22 : 0.012;
      const within = [0.61, 1 - slow - 0.012, 1 - slow, 1 - slow / 3, 1 - slow / 9, 1 - slow / 20, 1];
      const counts = [count, Math.round(count * 0.0004), ...within.map((part) => Math.round(count * part))];
      verdicts.push(outcome(`${day + 1}`, null, null, verdict, reason, count, counts));
      for (const { id, share: part } of CONNECTIONS) {
        const key = [id, verdict, reason ?? ''].join('|');
        // The hook has a fault of its own.
        const own = part * (id === 'acme-hook' && verdict === 'rejected' ? 6 : 1);
        const before = byConnection.get(key) ?? counts.map(() => 0);
        byConnection.set(
          key,
          before.map((sum, index) => sum + Math.round((counts[index] ?? 0) * own)),
        );
      }
    }
    const again = Math.round(events * (day === 9 ? 0.061 : 0.011) * between(random, 0.8, 1.2));
    resends.push([`${day + 1}`, null, null, `${again}`, day === 12 ? '41' : '0']);
  }
  for (const [key, counts] of byConnection) {
    const [connection = '', verdict = '', reason = ''] = key.split('|');
    verdicts.push(
      outcome(null, 'acme', connection, verdict, reason === '' ? null : reason, counts[0] ?? 0, counts),
    );
  }
  resends.push([null, 'acme', 'acme-events', '30120', '0'], [null, 'acme', 'acme-live', '9870', '41']);
  return {
    verdicts,
    resends,
    amounts: amountRows(random),
    ...promotionRows(random),
    contradictions: [
      ['acme', 'settled_mismatch', '212'],
      ['acme', 'second_settled', '9'],
    ],
    registered: [
      ...CONNECTIONS.map(
        ({ id, topic }): TextRow => ['acme', id, topic === null ? 'webhook' : 'kafka', topic],
      ),
      ['acme', 'acme-sports', 'kafka', 'promo.event.sports'],
    ],
  };
}

function promotionRows(random: Random): Pick<ReportRows, 'promotions' | 'shares' | 'completions' | 'misses'> {
  return {
    promotions: [
      ['acme', 'deposit-week', 'deposit_target', 'counts'],
      ['acme', 'race', 'leaderboard', 'counts'],
      ['acme', 'streak-7', 'login_streak', 'is over'],
    ],
    shares: [
      ['acme', 'deposit-week', '41200', '21800', '9100', '10300'],
      ['acme', 'race', '18800', '0', '0', '0'],
      ['acme', 'streak-7', '30400', '17100', '8800', '4500'],
    ],
    completions: Array.from({ length: DAYS }, (_, day): TextRow[] => {
      const count = Math.round(340 * (1 + day / 60) * between(random, 0.8, 1.2));
      return [
        [`${day + 1}`, 'acme', 'deposit-week', `${count}`, `${count - (day % 4)}`, `${day % 4}`],
        [`${day + 1}`, 'acme', 'streak-7', `${Math.round(count / 2)}`, `${Math.round(count / 2)}`, '0'],
      ];
    }).flat(),
    misses: [
      ['acme', 'deposit-week', 'currency_without_target', '5120'],
      ['acme', 'deposit-week', 'outside_window', '90'],
      ['acme', 'race', 'game_not_listed', '40210'],
      ['acme', 'race', 'below_minimum', '12040'],
      ['acme', 'race', 'round_refunded', '3080'],
    ],
  };
}

function outcome(
  bucket: string | null,
  operator: string | null,
  connection: string | null,
  verdict: string,
  reason: string | null,
  count: number,
  [timed = 0, early = 0, ...within]: readonly number[],
): TextRow {
  const newest = '2026-11-30 23:00:00+00';
  const counts = [timed, early, ...within].map(String);
  return [bucket, operator, connection, verdict, reason, `${count}`, newest, ...counts];
}

function amountRows(random: Random): TextRow[] {
  const days = BRANDS.flatMap(({ brand, currency, bets, stake }) =>
    Array.from({ length: DAYS }, (_, day) => {
      const isWeekend = [0, 6].includes(new Date(FROM + day * 86_400_000).getUTCDay());
      const count = Math.round(bets * (isWeekend ? 1.35 : 1) * (1 + day / 110) * between(random, 0.9, 1.1));
      const turnover = Math.round(count * stake * 100 * between(random, 0.92, 1.08));
      // A few large wins make the days of a small brand uneven.
      const luck = brand === 'vip' ? between(random, -0.12, 0.2) : between(random, 0.015, 0.055);
      const refunded = Math.round(count * 0.004);
      return { day, brand, currency, count, turnover, wins: Math.round(turnover * (1 - luck)), refunded };
    }),
  );
  type Day = (typeof days)[number];
  const row = (
    bits: number,
    bucket: string | null,
    named: Pick<Partial<Day>, 'brand' | 'currency'>,
    own: readonly Day[],
  ): TextRow => {
    const total = (of: (day: Day) => number) => own.reduce((sum, day) => sum + of(day), 0);
    const [turnover, wins] = [total((day) => day.turnover), total((day) => day.wins)];
    return [
      ...[
        `${bits}`,
        bucket,
        bits === 7 ? null : 'acme',
        bits === 7 ? null : (named.brand ?? null),
        null,
        named.currency ?? null,
      ],
      ...[cents(turnover), cents(wins), cents(turnover - wins)],
      ...[
        `${total((day) => day.count)}`,
        `${total((day) => day.refunded)}`,
        cents(Math.round(turnover * 0.004)),
      ],
    ];
  };
  const currencies = [...new Set(BRANDS.map(({ currency }) => currency))];
  const games = GAMES.map((game, index): TextRow => {
    const count = 190_000 - index * 24_000;
    const refunded = Math.round(count * (game === 'crash-royale' ? 0.021 : 0.0022));
    return [
      ...['6', null, 'acme', null, game, 'EUR', cents(count * 190), cents(count * 183), cents(count * 7)],
      ...[`${count}`, `${refunded}`, cents(refunded * 190)],
    ];
  });
  return [
    ...days.map((day) => row(1, `${day.day + 1}`, day, [day])),
    ...BRANDS.map((named) =>
      row(
        5,
        null,
        named,
        days.filter(({ brand, currency }) => brand === named.brand && currency === named.currency),
      ),
    ),
    ...currencies.map((currency) =>
      row(
        7,
        null,
        { currency },
        days.filter((day) => day.currency === currency),
      ),
    ),
    ...games.sort((one, other) => Number(other[10]) - Number(one[10])),
  ];
}

function between(random: Random, least: number, most: number): number {
  return least + (random.below(10_000) / 10_000) * (most - least);
}

function cents(value: number): string {
  const text = `${Math.abs(value)}`.padStart(3, '0');
  return `${value < 0 ? '-' : ''}${text.slice(0, -2)}.${text.slice(-2)}`;
}
