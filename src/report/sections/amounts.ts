/** The sections about money: turnover and bets less wins by brand, and refunds by game. Pure. */
import { lines, rankedBars, type Series, stackedBars } from '../../markup/chart';
import { type Column, moneyText, numberText, shareText, shownText, table } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { SERIES_STYLES } from '../../markup/style';
import type { BrandAmounts, DayAmounts, GameAmounts, VerdictReport } from '../data';
import { axisOf, shortened, tooSlow } from './shared';

/** The most currencies with pictures. The table has all. */
const MOST_CURRENCIES = 3;
/** The last colour is for the sum of all further brands. */
const MOST_BRANDS = SERIES_STYLES.length - 1;
const MOST_ROWS = 60;
const MOST_DAY_ROWS = 400;
const MOST_GAME_BARS = 12;
const MOST_GAME_ROWS = 40;

const NONE = html`<p class="lead">No bet and no win counted in this time.</p>`;

type Name = Pick<BrandAmounts, 'operator' | 'brand'>;
const labelOf = (report: VerdictReport, { operator, brand }: Name): string => {
  const name = brand === '' ? '(no brand)' : shownText(brand);
  return report.operator === null ? `${shownText(operator)}, ${name}` : name;
};

export function turnoverSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'amounts');
  if (slow !== null) return slow;
  const { amounts, coverage } = report;
  if (amounts.currencies.length === 0) return NONE;
  const brands = shortened(amounts.brands, MOST_ROWS);
  const days = shortened(amounts.days, MOST_DAY_ROWS);
  const pictures = amounts.currencies
    .slice(0, MOST_CURRENCIES)
    .map(({ currency }) => picturesOf(report, currency));
  return html`<p class="lead">Turnover is the sum of the bets that count. Refunded rounds are in no sum, whenever the refund came. Currencies are never added up.</p>
${coverage.amounts_time_zone !== report.time_zone && html`<p class="note">These days are days of ${coverage.amounts_time_zone}.</p>`}
${pictures}
${table('Turnover by brand', brandColumns(report), brands.rows)}${brands.note}
<p class="note">Bets less wins is no revenue: skipped bets are not in it, while the wins of their rounds are.</p>
<details><summary>Turnover by brand and ${coverage.amounts_step}</summary>${table(
    `Turnover by brand and ${coverage.amounts_step}`,
    [{ head: `From (${coverage.amounts_time_zone})`, cell: dayOf(report) }, ...brandColumns(report)],
    days.rows,
  )}${days.note}</details>`;
}

function brandColumns(report: VerdictReport): Column<BrandAmounts>[] {
  return [
    { head: report.operator === null ? 'Operator, brand' : 'Brand', cell: (row) => labelOf(report, row) },
    { head: 'Currency', cell: ({ currency }) => currency },
    { head: 'Bets', isNumber: true, cell: ({ bets, refunded_bets }) => numberText(bets - refunded_bets) },
    { head: 'Turnover', isNumber: true, cell: ({ turnover }) => moneyText(turnover) },
    { head: 'Wins', isNumber: true, cell: ({ wins }) => moneyText(wins) },
    { head: 'Bets less wins', isNumber: true, cell: ({ bets_less_wins }) => moneyText(bets_less_wins) },
    { head: 'Refunded bets', isNumber: true, cell: ({ refunded_bets }) => numberText(refunded_bets) },
  ];
}

function dayOf(report: VerdictReport): (row: BrandAmounts) => string {
  const axis = amountsAxis(report);
  return (row) => ('from' in row && typeof row.from === 'string' ? axis.textOf(Date.parse(row.from)) : '');
}

function amountsAxis({ amounts, coverage }: VerdictReport) {
  return axisOf(amounts.periods, coverage.amounts_time_zone, coverage.amounts_step);
}

function picturesOf(report: VerdictReport, currency: string): Html {
  const { amounts, coverage } = report;
  const axis = amountsAxis(report);
  const own = amounts.brands.filter((each) => each.currency === currency);
  const [shown, others] = [own.slice(0, MOST_BRANDS), own.slice(MOST_BRANDS)];
  const days = amounts.days.filter((each) => each.currency === currency);
  const valuesOf = (brands: readonly Name[], of: (day: DayAmounts) => string): number[] => {
    const values = amounts.periods.slice(1).map(() => 0);
    const places = new Map(amounts.periods.map((time, index) => [time, index]));
    for (const day of days) {
      const place = places.get(day.from);
      if (
        place === undefined ||
        !brands.some(({ operator, brand }) => operator === day.operator && brand === day.brand)
      )
        continue;
      values[place] = (values[place] ?? 0) + Number(of(day));
    }
    return values;
  };
  const seriesOf = (of: (day: DayAmounts) => string): Series[] => [
    ...shown.map((brand, index) => ({
      name: labelOf(report, brand),
      style: SERIES_STYLES[index] ?? SERIES_STYLES[0],
      values: valuesOf([brand], of),
    })),
    ...(others.length === 0
      ? []
      : [
          {
            name: `${others.length} others`,
            style: SERIES_STYLES[MOST_BRANDS] ?? '',
            values: valuesOf(others, of),
          },
        ]),
  ];
  const id = `turnover-${currency.toLowerCase()}`;
  return html`${stackedBars({
    id,
    axis,
    unit: currency,
    title: `Turnover in ${currency} by brand, for each ${coverage.amounts_step}`,
    series: seriesOf(({ turnover }) => turnover),
  })}
${lines({
  id: `${id}-difference`,
  axis,
  unit: currency,
  title: `Bets less wins in ${currency} by brand, for each ${coverage.amounts_step}`,
  series: seriesOf(({ bets_less_wins }) => bets_less_wins),
})}`;
}

// --- refunds

export function gamesSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'amounts');
  if (slow !== null) return slow;
  const { games, amounts, operator: of } = report;
  if (games.length === 0) return NONE;
  const [bets, refunded] = [sumOf(amounts.currencies, 'bets'), sumOf(amounts.currencies, 'refunded_bets')];
  const found = games.filter(({ refunded_bets }) => refunded_bets > 0);
  if (found.length === 0)
    return html`<p class="lead">None of ${numberText(bets)} counted bets was refunded.</p>`;
  const shown = shortened(found, MOST_GAME_ROWS);
  const gameOf = ({ game, operator }: GameAmounts) =>
    `${game === null ? '(no game)' : shownText(game)}${of === null ? `, ${shownText(operator)}` : ''}`;
  return html`<p class="lead">${shareText(refunded, bets)} of ${numberText(bets)} counted bets were refunded later: ${numberText(refunded)}.</p>
${rankedBars({
  id: 'refunds-chart',
  title:
    found.length === 1
      ? 'Refunded bets: the only game with any'
      : `Refunded bets: the ${Math.min(found.length, MOST_GAME_BARS)} games with the most`,
  rows: found.slice(0, MOST_GAME_BARS).map((row) => ({
    name: `${gameOf(row)} (${row.currency})`,
    value: row.refunded_bets,
    text: `${numberText(row.refunded_bets)} (${shareText(row.refunded_bets, row.bets)})`,
    style: 's-fourth',
  })),
})}
${table(
  'Refunded bets by game',
  [
    { head: of === null ? 'Game, operator' : 'Game', cell: gameOf },
    { head: 'Currency', cell: ({ currency }) => currency },
    { head: 'Counted bets', isNumber: true, cell: (row) => numberText(row.bets) },
    { head: 'Refunded bets', isNumber: true, cell: ({ refunded_bets }) => numberText(refunded_bets) },
    { head: 'Share', isNumber: true, cell: (row) => shareText(row.refunded_bets, row.bets) },
    { head: 'Refunded amount', isNumber: true, cell: ({ refunded_amount }) => moneyText(refunded_amount) },
  ],
  shown.rows,
)}${shown.note}`;
}

function sumOf(rows: VerdictReport['amounts']['currencies'], name: 'bets' | 'refunded_bets'): number {
  return rows.reduce((sum, row) => sum + row[name], 0);
}
