/** The operator's rounds that contradict themselves. Pure. */
import { ANOMALIES, type Anomaly } from '../../domain/verdict/round';
import { type Html, html } from '../../markup/html';
import { rangeChoice, rangeTable, roundLink, shownTime } from '../layout';
import { type Parameters, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';

/** The meaning of each anomaly, and the sender's remedy. */
const TEXTS: Readonly<Record<Anomaly, string>> = {
  second_settled:
    'A second settled was accepted, and counted nothing. Send one settled a round, after its last bet.',
  settled_mismatch:
    'The settled is not the sum of the bets. Where the settled came before a bet, this lasts until that bet comes. Otherwise compare the bets that you sent with those here.',
  player_mismatch: 'Events of the round name different players. Check how your round ids are made.',
  brand_mismatch: 'Events of the round name different brands. Check how your round ids are made.',
  currency_mismatch: 'Events of the round have different currencies. Check how your round ids are made.',
};

export function anomalyText(name: string | null): string {
  const known = ANOMALIES.find((each) => each === name);
  return known === undefined ? 'The events of the round disagree.' : TEXTS[known];
}

export async function anomaliesPage(reader: PageReader, { range }: Parameters): Promise<Html> {
  const found = await reader.read(QUERIES.anomalies, {
    since: timeText(range.since),
    until: timeText(range.until),
  });
  return html`<p>No event was refused for it. Check how you make these rounds. The range is that of each round's first event.</p>
${rangeChoice('/anomalies', range)}
${rangeTable(found, 'Rounds that contradict themselves, newest first', [
  { head: 'Opened at', cell: ({ opened_at }) => shownTime(opened_at) },
  { head: 'Round', cell: (row) => roundLink(reader.scope, row) },
  { head: 'Anomaly', cell: ({ anomaly }) => html`<code>${anomaly}</code>` },
  { head: 'Meaning and remedy', isProse: true, cell: ({ anomaly }) => anomalyText(anomaly) },
])}`;
}
