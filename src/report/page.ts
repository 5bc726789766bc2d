/**
 * A report as one HTML file. It has no script and loads nothing, and its policy allows its style alone. Pure.
 */
import { createHash } from 'node:crypto';
import { TimeZone } from '../lib/time-zone';
import { moneyText, numberText, shareText, shownText, tile } from '../markup/elements';
import { type Html, html, styleSheet } from '../markup/html';
import { decidedOf, type OpenPoint, type VerdictReport } from './data';
import { gamesSection, turnoverSection } from './sections/amounts';
import { promotionsSection } from './sections/promotions';
import { connectionsSection, coverageSection } from './sections/quality';
import { delaySection, reasonsSection, resendsSection, verdictsSection } from './sections/verdicts';
import { REPORT_STYLE } from './style';
import { momentText } from './window';

const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(REPORT_STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

const SECTIONS = [
  { id: 'points', head: 'Points to look at', render: pointsSection },
  { id: 'verdicts', head: 'Verdicts over time', render: verdictsSection },
  { id: 'reasons', head: 'Why events do not count', render: reasonsSection },
  { id: 'turnover', head: 'Turnover', render: turnoverSection },
  { id: 'refunds', head: 'Refunds by game', render: gamesSection },
  { id: 'promotions', head: 'Promotions', render: promotionsSection },
  { id: 'resends', head: 'Resends', render: resendsSection },
  { id: 'delay', head: 'Time to decide', render: delaySection },
  { id: 'connections', head: 'Connections', render: connectionsSection },
  { id: 'coverage', head: 'About this report', render: coverageSection },
] as const;

/** The whole document. */
export function reportPage(report: VerdictReport): string {
  const shown = SECTIONS.filter(({ id }) => id !== 'promotions' || report.promotions.list.length > 0);
  const links = shown.map(({ id, head }) => html`<li><a href="#${id}">${head}</a></li>`);
  const sections = shown.map(
    ({ id, head, render }) => html`<section id="${id}" aria-labelledby="${id}-head">
<h2 id="${id}-head">${head}</h2>
${render(report)}
</section>`,
  );
  const title =
    report.operator === null
      ? 'Promotion events of all operators'
      : `Promotion events of ${shownText(report.operator)}`;
  const page = html`<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}, ${rangeText(report)}</title>
<style>${styleSheet(REPORT_STYLE)}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>${title}</h1>
<p>${rangeText(report)}, in the time zone ${report.time_zone}. Times are those of the decision.</p>
<nav aria-label="Sections"><ul>${links}</ul></nav>
</header>
<main id="content" tabindex="-1">
${summary(report)}
${sections}
</main>
</body>
</html>
`;
  return `<!doctype html>\n${page}`;
}

function rangeText({ from, to, time_zone }: VerdictReport): string {
  const zone = new TimeZone(time_zone);
  return `${momentText(zone, Date.parse(from))} to ${momentText(zone, Date.parse(to))}`;
}

/** The most currencies whose sums are among the first figures. */
const MOST_CURRENCIES = 3;

function summary({ totals, amounts, coverage }: VerdictReport): Html {
  const decided = decidedOf(totals);
  const missing = (part: string, text: string) => (coverage.too_slow.includes(part) ? '?' : text);
  const fast = totals.timing.within.find(({ name }) => name === 'within_1s')?.events ?? 0;
  const deliveries = decided + totals.resent + totals.differing;
  const sums = amounts.currencies
    .slice(0, MOST_CURRENCIES)
    .flatMap(({ currency, turnover, bets_less_wins }) => [
      tile(`Turnover, ${currency}`, moneyText(turnover)),
      tile(`Bets less wins, ${currency}`, moneyText(bets_less_wins)),
    ]);
  return html`<ul class="tiles" aria-label="The main figures">
${tile('Events decided', missing('verdicts', numberText(decided)))}
${tile('Accepted', missing('verdicts', shareText(totals.accepted, decided)))}
${tile('Rejected', missing('verdicts', numberText(totals.rejected)))}
${tile('Skipped', missing('verdicts', numberText(totals.skipped)))}
${tile('Deliveries that repeat an event', missing('resends', shareText(totals.resent + totals.differing, deliveries)))}
${tile('Decided within 1 s of their time', missing('verdicts', shareText(fast, totals.timing.timed)))}
${sums}
</ul>`;
}

function pointsSection({ findings }: VerdictReport): Html {
  if (findings.length === 0)
    return html`<p class="lead">Nothing is unusual: no connection is silent, late or often rejected, and no game or hour differs from the others.</p>`;
  return html`<ul class="points">${findings.map(point)}</ul>`;
}

function point({ level, text, remedy }: OpenPoint): Html {
  const word = level === 'act' ? 'act' : 'look';
  return html`<li class="${level}"><span class="tag ${level}">${word}</span><p>${text}</p>${remedy !== '' && html`<p class="remedy">${remedy}</p>`}</li>`;
}
