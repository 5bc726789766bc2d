/** The sections about verdicts, their reasons, resends and time. Pure. */
import { lines, rankedBars, stackedBars } from '../../markup/chart';
import { numberText, shareText, shownText, table, verdictTag } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { type BucketCounts, decidedOf, type Timing, type VerdictReport } from '../data';
import { operatorColumn, shortened, tooSlow, verdictAxis } from './shared';

const NONE = html`<p class="lead">No event was decided in this time.</p>`;
const MOST_ROWS = 40;

export function verdictsSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'verdicts');
  if (slow !== null) return slow;
  const { totals, buckets, step } = report;
  const all = decidedOf(totals);
  if (all === 0) return NONE;
  const series = (['accepted', 'skipped', 'rejected'] as const).map((verdict) => ({
    name: verdict,
    style: `s-${verdict}`,
    values: buckets.map((bucket) => bucket[verdict]),
  }));
  const share = buckets.map((bucket) =>
    decidedOf(bucket) === 0 ? null : (100 * (bucket.rejected + bucket.skipped)) / decidedOf(bucket),
  );
  const rejected = buckets.map((bucket) =>
    decidedOf(bucket) === 0 ? null : (100 * bucket.rejected) / decidedOf(bucket),
  );
  const axis = verdictAxis(report);
  return html`<p class="lead">${shareText(totals.accepted, all)} of ${numberText(all)} events count for promotions. ${numberText(totals.rejected)} were rejected, and ${numberText(totals.skipped)} were skipped by a rule.</p>
${stackedBars({ id: 'verdicts-chart', title: `Events by verdict, for each ${step}`, unit: 'events', axis, series })}
${lines({
  id: 'share-chart',
  title: 'Share of the events that do not count',
  unit: '% of the events',
  axis,
  series: [
    { name: 'rejected or skipped', style: 's-skipped', values: share },
    { name: 'rejected', style: 's-rejected', values: rejected },
  ],
})}`;
}

export function reasonsSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'verdicts');
  if (slow !== null) return slow;
  const { reasons, totals } = report;
  const all = decidedOf(totals);
  if (all === 0) return NONE;
  if (reasons.length === 0) return html`<p class="lead">Every event counts.</p>`;
  return html`<p class="lead">Rejected events have a fault. Skipped events are in order, and a rule of the brand leaves them out.</p>
${rankedBars({
  id: 'reasons-chart',
  title: 'Events that do not count, by reason',
  rows: reasons.map(({ reason, verdict, events }) => ({
    name: reason,
    value: events,
    text: `${numberText(events)} (${shareText(events, all)})`,
    style: `s-${verdict}`,
  })),
})}
${table(
  'Each reason, with its meaning and remedy',
  [
    { head: 'Verdict', cell: ({ verdict }) => verdictTag(verdict) },
    { head: 'Reason', cell: ({ reason }) => html`<code>${reason}</code>` },
    { head: 'Events', isNumber: true, cell: ({ events }) => numberText(events) },
    { head: 'The event does not count because', isProse: true, cell: ({ meaning }) => meaning },
    { head: 'Remedy', isProse: true, cell: ({ remedy }) => remedy },
    { head: 'Who acts', cell: ({ charge }) => charge },
  ],
  reasons,
)}`;
}

export function resendsSection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'resends');
  if (slow !== null) return slow;
  const { totals, buckets, connections, step } = report;
  const again = totals.resent + totals.differing;
  const deliveries = decidedOf(totals) + again;
  if (again === 0) return html`<p class="lead">No delivery repeated an event.</p>`;
  const shown = shortened(
    connections
      .filter(({ resent, differing }) => resent + differing > 0)
      .sort((one, other) => other.resent + other.differing - one.resent - one.differing),
    MOST_ROWS,
  );
  return html`<p class="lead">${shareText(again, deliveries)} of ${numberText(deliveries)} deliveries repeat an event. Nothing counts twice. Other content means that one id was used for two events: only the first of them counts.</p>
${stackedBars({
  id: 'resends-chart',
  title: `Deliveries that repeat an event, for each ${step}`,
  unit: 'deliveries',
  axis: verdictAxis(report),
  series: [
    { name: 'equal content', style: 's-first', values: buckets.map(({ resent }) => resent) },
    { name: 'other content', style: 's-rejected', values: buckets.map(({ differing }) => differing) },
  ],
})}
${table(
  'Deliveries that repeat an event, by connection',
  [
    ...operatorColumn(report),
    { head: 'Connection', cell: ({ connection }) => html`<code>${shownText(connection)}</code>` },
    { head: 'Equal content', isNumber: true, cell: ({ resent }) => numberText(resent) },
    { head: 'Other content', isNumber: true, cell: ({ differing }) => numberText(differing) },
    {
      head: 'Share of its deliveries',
      isNumber: true,
      cell: (row) => shareText(row.resent + row.differing, decidedOf(row) + row.resent + row.differing),
    },
  ],
  shown.rows,
)}${shown.note}`;
}

// --- time to decide

const LIMITS: Readonly<Record<Timing['within'][number]['name'], string>> = {
  within_100ms: '100 ms',
  within_1s: '1 s',
  within_10s: '10 s',
  within_1m: '1 minute',
  within_10m: '10 minutes',
  within_1h: '1 hour',
  within_1d: '1 day',
};
/** The share that the headline names. */
const MOST_OF_ALL = 0.95;
const LATEST = 'more than 1 day';

/** "10 s": the shortest limit that 95 % of the events keep. Null where no event has a time. */
export function usualDelay({ timed, within }: Timing): string | null {
  if (timed === 0) return null;
  const limit = within.find(({ events }) => events >= timed * MOST_OF_ALL);
  return limit === undefined ? LATEST : LIMITS[limit.name];
}

function delayText(delay: string | null): string {
  if (delay === LATEST) return 'More than 5 of 100 events are decided over a day after their own time.';
  return `Of 100 events, 95 are decided within ${delay} of their own time.`;
}

export function delaySection(report: VerdictReport): Html {
  const slow = tooSlow(report, 'verdicts');
  if (slow !== null) return slow;
  const { timing } = report.totals;
  if (timing.timed === 0) return html`<p class="lead">No event of this time names when it occurred.</p>`;
  const steps = timing.within.map(({ name, events }, index) => ({
    name: `up to ${LIMITS[name]}`,
    value: events - (timing.within[index - 1]?.events ?? 0),
  }));
  const rest = timing.timed - (timing.within.at(-1)?.events ?? 0);
  const rows = [...steps, { name: LATEST, value: rest }];
  const share = (name: Timing['within'][number]['name']) => (bucket: BucketCounts) => {
    const { timed, within } = bucket.timing;
    if (timed === 0) return null;
    return (100 * (within.find((each) => each.name === name)?.events ?? 0)) / timed;
  };
  return html`<p class="lead">${delayText(usualDelay(timing))} The time in the sender, in Kafka and in the service is in it.${timing.early > 0 && ` ${numberText(timing.early)} events carry a time that is later than their decision: the clock of their sender is ahead.`}</p>
${rankedBars({
  id: 'delay-chart',
  title: 'Events by their time to decide',
  rows: rows.map(({ name, value }) => ({
    name,
    value,
    text: `${numberText(value)} (${shareText(value, timing.timed)})`,
    style: 's-first',
  })),
})}
${lines({
  id: 'delay-time-chart',
  title: `Share of the events that are decided in time, for each ${report.step}`,
  unit: '% of the events',
  most: 100,
  axis: verdictAxis(report),
  series: [
    { name: 'within 1 minute', style: 's-second', values: report.buckets.map(share('within_1m')) },
    { name: 'within 1 s', style: 's-first', values: report.buckets.map(share('within_1s')) },
  ],
})}`;
}
