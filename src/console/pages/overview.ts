/** The overview: how many of the operator's events count, why others do not, and how late they come. Pure. */
import { REASONS } from '../../domain/verdict/reasons';
import { unitOfTime } from '../../lib/duration';
import { lines, type Series, stackedBars, type TimeAxis, utcAxis } from '../../markup/chart';
import { numberText, shareText, table, tile, verdictTag } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { millisecondsOf } from '../../postgres/texts';
import { eventLink, rangeChoice, shownTime, TOO_SLOW } from '../layout';
import { linkTo, type Parameters, type TimeRange, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import type { OperatorScope } from '../scope';

const VERDICTS = ['accepted', 'skipped', 'rejected'] as const;
type Verdict = (typeof VERDICTS)[number];

export async function overviewPage(reader: PageReader, { range }: Parameters): Promise<Html> {
  const times = { since: timeText(range.since), until: timeText(range.until) };
  const step = `${range.stepMs / 1_000} seconds`;
  const outcomes = await reader.read(QUERIES.outcomes, { ...times, step });
  const delays = await reader.read(QUERIES.delays, { ...times, step });
  const duplicates = await reader.read(QUERIES.duplicates, times);
  const rows = outcomes.rows.map((row) => ({ ...row, count: Number(row.events) }));
  const of = (verdict: Verdict) => sumOf(rows.filter((row) => row.verdict === verdict));
  const all = sumOf(rows);
  const again = duplicates.rows.reduce((sum, row) => sum + Number(row.same) + Number(row.other_content), 0);
  const differing = duplicates.rows.reduce((sum, row) => sum + Number(row.other_content), 0);
  const newest =
    rows
      .map((row) => row.newest ?? '')
      .sort()
      .at(-1) ?? null;
  const duplicatesLink = linkTo('/duplicates', { range: range.name });
  return html`${rangeChoice('/', range)}
${
  outcomes.isTooSlow
    ? TOO_SLOW
    : html`<ul class="tiles">
${tile('Events decided', numberText(all))}
${tile('Accepted', shareText(of('accepted'), all))}
${tile('Rejected', numberText(of('rejected')))}
${tile('Skipped', numberText(of('skipped')))}
${tile('Duplicates', duplicates.isTooSlow ? '?' : numberText(again))}
${tile('Same id, other content', duplicates.isTooSlow ? '?' : html`<a href="${duplicatesLink}">${numberText(differing)}</a>`)}
</ul>
<p>${all === 0 ? 'None of your events was decided in this time.' : html`The newest was decided at ${shownTime(newest)}.`}</p>
${all > 0 && stackedBars({ axis: axisOf(range), id: 'by-verdict', title: 'Decided events by verdict', unit: 'events', series: bars(rows, range) })}
${reasonsTable(reader.scope, rows, all)}`
}
<h2>Delay</h2>
<p class="note">From the event's own occurred_at to its verdict. Records that still wait in a topic are not in it: where you send by Kafka, and the newest verdict above grows old, ask support.</p>
${delays.isTooSlow ? TOO_SLOW : delayChart(delays.rows, range)}`;
}

interface Counted {
  readonly bucket: string | null;
  readonly verdict: string | null;
  readonly reason: string | null;
  readonly feed_id: string | null;
  readonly event_id: string | null;
  readonly count: number;
}

function sumOf(rows: readonly Counted[]): number {
  return rows.reduce((sum, { count }) => sum + count, 0);
}

function axisOf({ since, until, stepMs }: TimeRange): TimeAxis {
  return utcAxis(since.getTime(), until.getTime(), stepMs);
}

function bucketOf(stored: string | null, { since, stepMs }: TimeRange): number {
  return Math.round((millisecondsOf(stored) - since.getTime()) / stepMs);
}

function bars(rows: readonly Counted[], range: TimeRange): Series[] {
  const buckets = axisOf(range).edges.slice(1);
  return VERDICTS.map((verdict) => {
    const values = buckets.map(() => 0);
    for (const row of rows) {
      const bucket = bucketOf(row.bucket, range);
      if (row.verdict === verdict) values[bucket] = (values[bucket] ?? 0) + row.count;
    }
    return { name: verdict, style: `s-${verdict}`, values };
  });
}

interface Delay {
  readonly bucket: string | null;
  readonly median: string | null;
  readonly p95: string | null;
}

function delayChart(rows: readonly Delay[], range: TimeRange): Html {
  if (rows.length === 0) return html`<p>No event of this time names when it occurred.</p>`;
  const buckets = axisOf(range).edges.slice(1);
  const valuesOf = (name: 'median' | 'p95') => {
    const values: (number | null)[] = buckets.map(() => null);
    // A sender's clock may be ahead.
    for (const row of rows) values[bucketOf(row.bucket, range)] = Math.max(0, Number(row[name]));
    return values;
  };
  const series = [
    { name: '95 of 100 events are faster', style: 's-second', values: valuesOf('p95') },
    { name: 'Median', style: 's-first', values: valuesOf('median') },
  ];
  const unit = unitOfTime(Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  return lines({
    axis: axisOf(range),
    id: 'delay',
    title: `Delay of the verdict, in ${unit.name}`,
    unit: unit.name,
    series: series.map((each) => ({
      ...each,
      values: each.values.map((value) => (value === null ? null : value / unit.seconds)),
    })),
  });
}

function reasonsTable(scope: OperatorScope, rows: readonly Counted[], all: number): Html {
  const groups = REASONS.map((about) => {
    const own = rows.filter(({ reason }) => reason === about.name);
    return { about, count: sumOf(own), sample: own.at(-1) };
  }).filter(({ count }) => count > 0);
  if (groups.length === 0) return html`<h2>Reasons</h2><p>No event of this time was rejected or skipped.</p>`;
  const sorted = groups.sort((one, other) => other.count - one.count);
  return html`<h2>Reasons</h2>${table(
    'Events that do not count, by reason, with the remedy and one sample',
    [
      { head: 'Verdict', cell: ({ about }) => verdictTag(about.verdict) },
      { head: 'Reason', cell: ({ about }) => html`<code>${about.name}</code>` },
      { head: 'Events', isNumber: true, cell: ({ count }) => numberText(count) },
      { head: 'Share', isNumber: true, cell: ({ count }) => shareText(count, all) },
      { head: 'The event does not count because', isProse: true, cell: ({ about }) => about.meaning },
      { head: 'Your remedy', isProse: true, cell: ({ about }) => about.remedy },
      { head: 'Sample', cell: ({ sample }) => (sample === undefined ? null : eventLink(scope, sample)) },
    ],
    sorted,
  )}`;
}
