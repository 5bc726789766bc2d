/** The section about promotions: progress, completions over time, and why events did not count. Pure. */
import { rankedBars, stackedBars } from '../../markup/chart';
import { type Column, numberText, shareText, shownText, table } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { missMeaning } from '../../promotions/preview';
import type { VerdictReport } from '../data';
import type { PromotionFigures } from '../promotions';
import { operatorColumn, shortened, tooSlow, verdictAxis } from './shared';

const MOST_ROWS = 60;

export function promotionsSection(report: VerdictReport): Html {
  const { list, buckets } = report.promotions;
  const shown = shortened(list, MOST_ROWS);
  const all = list.reduce((sum, { completed }) => sum + completed, 0);
  const held = list.reduce((sum, each) => sum + each.held, 0);
  return html`<p class="lead">${numberText(all)} completions in this time, of which ${numberText(held)} hold. Progress is that of windows that overlap the range, as it is now.</p>
${['shares', 'completions', 'misses'].map((part) => tooSlow(report, part))}
${
  all > 0 &&
  stackedBars({
    id: 'completions-chart',
    title: `Completions of all promotions, for each ${report.step}`,
    unit: 'completions',
    axis: verdictAxis(report),
    series: [
      { name: 'hold', style: 's-accepted', values: buckets.map((bucket) => bucket.held) },
      { name: 'taken back', style: 's-rejected', values: buckets.map(({ taken_back }) => taken_back) },
    ],
  })
}
${table('Progress and completions by promotion', columnsOf(report), shown.rows)}${shown.note}
<p class="note">A player has a value for each item and currency of the target. Leaderboards have no target.</p>
${missesOf(list)}`;
}

function columnsOf(report: VerdictReport): Column<PromotionFigures>[] {
  return [
    ...operatorColumn(report),
    { head: 'Promotion', cell: ({ promotion }) => html`<code>${shownText(promotion)}</code>` },
    { head: 'Type', cell: ({ type }) => html`<code>${shownText(type)}</code>` },
    { head: 'State', cell: ({ state }) => state },
    { head: 'Values', isNumber: true, cell: ({ values }) => numberText(values) },
    {
      head: 'Below half',
      isNumber: true,
      cell: ({ shares, values }) => shareText(shares.below_half, values),
    },
    {
      head: 'Half or more',
      isNumber: true,
      cell: ({ shares, values }) => shareText(shares.below_target, values),
    },
    { head: 'Reached', isNumber: true, cell: ({ shares, values }) => shareText(shares.reached, values) },
    { head: 'Completed', isNumber: true, cell: ({ completed }) => numberText(completed) },
    { head: 'Of these hold', isNumber: true, cell: ({ held }) => numberText(held) },
    { head: 'Revoked', isNumber: true, cell: ({ revoked }) => numberText(revoked) },
  ];
}

/** Events that do not count, of all promotions: an event is in each promotion of its kind. */
function missesOf(list: readonly PromotionFigures[]): Html {
  const events = new Map<string, number>();
  for (const { misses } of list)
    for (const miss of misses) events.set(miss.reason, (events.get(miss.reason) ?? 0) + miss.events);
  const rows = [...events].sort(([, one], [, other]) => other - one);
  if (rows.length === 0) return html`<p class="note">No accepted event missed a promotion of its kind.</p>`;
  const byPromotion = list.flatMap(({ operator, promotion, misses }) =>
    misses.map((miss) => ({ operator, promotion, ...miss })),
  );
  const shown = shortened(byPromotion, MOST_ROWS);
  return html`${rankedBars({
    id: 'misses-chart',
    title: 'Accepted events that did not count in a promotion of their kind, by reason',
    rows: rows.map(([name, value]) => ({ name, value, text: numberText(value), style: 's-skipped' })),
  })}
${table(
  'Events that did not count, by promotion and reason',
  [
    { head: 'Promotion', cell: ({ promotion }) => html`<code>${shownText(promotion)}</code>` },
    { head: 'Reason', cell: ({ reason }) => html`<code>${shownText(reason)}</code>` },
    { head: 'Meaning', cell: ({ reason }) => missMeaning(reason) },
    { head: 'Events', isNumber: true, cell: ({ events: count }) => numberText(count) },
  ],
  shown.rows,
)}${shown.note}`;
}
