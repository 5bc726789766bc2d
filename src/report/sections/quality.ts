/** The sections about the connections, and about the report itself. Pure. */

import { TimeZone } from '../../lib/time-zone';
import { type Column, facts, numberText, shareText, shownText, table } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { type ConnectionReport, decidedOf, type VerdictReport } from '../data';
import { qualityOf } from '../findings';
import { momentText } from '../window';
import { operatorColumn, shortened, tooSlow } from './shared';
import { usualDelay } from './verdicts';

const MOST_ROWS = 100;

export function connectionsSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'verdicts');
  if (slow !== null) return slow;
  const { connections, time_zone } = report;
  if (connections.length === 0) return html`<p class="lead">There is no connection.</p>`;
  const zone = new TimeZone(time_zone);
  const shown = shortened(connections, MOST_ROWS);
  const columns: Column<ConnectionReport>[] = [
    ...operatorColumn(report),
    { head: 'Connection', cell: ({ connection }) => html`<code>${shownText(connection)}</code>` },
    {
      head: 'Quality',
      cell: (row) => html`<span class="tag ${qualityOf(row).style}">${qualityOf(row).text}</span>`,
    },
    {
      head: 'Sends by',
      cell: ({ source }) => (source === null ? 'no longer registered' : shownText(source)),
    },
    { head: 'Events', isNumber: true, cell: (row) => numberText(decidedOf(row)) },
    { head: 'Accepted', isNumber: true, cell: (row) => shareText(row.accepted, decidedOf(row)) },
    { head: 'Rejected', isNumber: true, cell: ({ rejected }) => numberText(rejected) },
    { head: 'Skipped', isNumber: true, cell: ({ skipped }) => numberText(skipped) },
    { head: 'Repeats', isNumber: true, cell: ({ resent, differing }) => numberText(resent + differing) },
    { head: 'Ids used twice', isNumber: true, cell: ({ differing }) => numberText(differing) },
    { head: '95 % decided within', cell: ({ timing }) => usualDelay(timing) },
    {
      head: report.coverage.verdicts_from === 'rollups' ? 'Last hour with events' : 'Newest event',
      cell: ({ newest }) => (newest === null ? null : momentText(zone, Date.parse(newest))),
    },
  ];
  return html`<p class="lead">The connections of the reference data in force, and earlier ones that sent in this time. Connections for tests are left out.</p>
${table('The quality of each connection', columns, shown.rows)}${shown.note}`;
}

const SOURCES = { rollups: 'the rollups', views: 'the views of history' } as const;

export function coverageSection(report: VerdictReport): Html {
  const { coverage, made_at, made_by, time_zone } = report;
  const zone = new TimeZone(time_zone);
  const textOf = (time: string | null) => (time === null ? null : momentText(zone, Date.parse(time)));
  return html`${facts([
    ['Made at', textOf(made_at)],
    ['Made by', `promo-intake ${made_by} report`],
    ['Verdicts, reasons, time to decide', `from ${SOURCES[coverage.verdicts_from]}`],
    ['Turnover and refunds', `from ${SOURCES[coverage.amounts_from]}`],
    ['Resends and contradictions', 'from the views of history'],
    ['Rollups up to', textOf(coverage.rollups_up_to)],
    [
      'Rollups complete since',
      coverage.rollups_up_to === null ? null : (textOf(coverage.complete_since) ?? 'the first event'),
    ],
  ])}
${coverage.notes.map((note) => html`<p class="note">${note}</p>`)}
<p class="note">All figures are of one state of the database. Counts are exact. The report names no player, no event and no round. Dropped months of history have no resends here.</p>
<p class="note">Accepted events count, unless their round is refunded. Rejected events have a fault, and skipped events are left out by a rule. Events of connections for tests are in no figure.</p>`;
}
