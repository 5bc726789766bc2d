/** The open points of a report: what its reader should look at, a sentence and a remedy for each. Pure. */
import { REASONS } from '../domain/verdict/reasons';
import { counted } from '../lib/printable';
import { TimeZone } from '../lib/time-zone';
import { moneyText, numberText, shareText, shownText } from '../markup/elements';
import {
  type BucketCounts,
  type ConnectionReport,
  decidedOf,
  type Figures,
  type OpenPoint,
  type ReasonCount,
  type ReportCounts,
} from './data';
import { HOUR_MS, momentText } from './window';

/** Above these shares, a connection is not fine. */
const REJECTED_SHARE = 0.01;
const RESENT_SHARE = 0.05;
const EARLY_SHARE = 0.01;
/** A connection is late where fewer of its events are decided within ten minutes of their time. */
const IN_TIME_SHARE = 0.95;
/** A time or a game is unusual where its share is so many times that of all, and has so many cases. */
const TIMES_USUAL = 4;
const LEAST_CASES = 20;
/** A connection without events for this part of the range is silent, but not before an hour. */
const SILENT_SHARE = 0.2;
/** Buckets without events are a gap where the usual bucket has this many. */
const GAP_EVENTS = 5;
/** More points than these would hide the important ones. */
const MOST_POINTS = 12;
const MOST_OF_A_KIND = 3;

export function findingsOf(figures: Figures): OpenPoint[] {
  const found = [
    ...coveragePoints(figures),
    ...figures.connections.flatMap((each) => connectionPoints(each, figures)),
    ...servicePoints(figures),
    ...spikes(figures),
    ...gaps(figures),
    ...contradictionPoints(figures),
    ...refundPoints(figures),
    ...winPoints(figures),
  ];
  const sorted = [
    ...found.filter(({ level }) => level === 'act'),
    ...found.filter(({ level }) => level === 'look'),
  ];
  if (sorted.length <= MOST_POINTS) return sorted;
  const left = sorted.length - MOST_POINTS;
  return [
    ...sorted.slice(0, MOST_POINTS),
    {
      level: 'look',
      text: `There are ${counted(left, 'further point')} of these kinds.`,
      remedy: 'Choose a shorter range, or one operator, to see them.',
    },
  ];
}

// --- the report itself

function coveragePoints({ coverage, from, time_zone }: Figures): OpenPoint[] {
  const points: OpenPoint[] = [];
  if (coverage.too_slow.length > 0)
    points.push({
      level: 'act',
      text: `The report has no ${coverage.too_slow.join(', ')}: the query was ended after ${coverage.query_seconds} s.`,
      remedy: 'Choose a shorter range, allow more time by --within, or keep rollups: promo-intake rollups.',
    });
  if (coverage.complete_since !== null && coverage.complete_since > from)
    points.push({
      level: 'look',
      text: `The figures begin at ${momentText(new TimeZone(time_zone), Date.parse(coverage.complete_since))}: months before it were dropped.`,
      remedy: 'Start the rollups before retention drops a month. The dropped months cannot be counted again.',
    });
  return points;
}

// --- connections

function connectionPoints(connection: ConnectionReport, figures: Figures): OpenPoint[] {
  const name = nameOf(connection, figures);
  const decided = decidedOf(connection);
  const points: OpenPoint[] = [];
  if (connection.rejected > decided * REJECTED_SHARE) {
    const worst = connection.reasons.find(({ verdict }) => verdict === 'rejected');
    points.push({
      level: 'act',
      text: `${numberText(connection.rejected)} of ${numberText(decided)} events of ${name} were rejected (${shareText(connection.rejected, decided)}), most of them for ${worst?.reason ?? 'no reason'}.`,
      remedy: worst === undefined ? '' : remedyOf(worst),
    });
  }
  if (connection.differing > 0)
    points.push({
      level: 'act',
      text: `${name} sent ${counted(connection.differing, 'event')} under an id that another event had before.`,
      remedy: 'Give each event its own event_id. The first event of an id counts, and the others do not.',
    });
  const deliveries = decided + connection.resent + connection.differing;
  if (connection.resent > deliveries * RESENT_SHARE)
    points.push({
      level: 'look',
      text: `${shareText(connection.resent, deliveries)} of the deliveries of ${name} repeat an event.`,
      remedy: 'Nothing counts twice. Look why the sender repeats: often it does not wait for the answer.',
    });
  return [...points, ...timePoints(connection, name), ...silence(connection, name, figures)];
}

function timePoints({ timing }: ReportCounts, name: string): OpenPoint[] {
  const points: OpenPoint[] = [];
  const inTime = timing.within.find((each) => each.name === 'within_10m')?.events ?? 0;
  if (timing.timed >= LEAST_CASES && inTime < timing.timed * IN_TIME_SHARE)
    points.push({
      level: 'look',
      text: `${shareText(timing.timed - inTime, timing.timed)} of the events of ${name} came more than 10 minutes after their own time.`,
      remedy:
        'Look at the queue of the sender, and at the lag of its topic. Late events may miss a promotion.',
    });
  if (timing.timed >= LEAST_CASES && timing.early > timing.timed * EARLY_SHARE)
    points.push({
      level: 'look',
      text: `${shareText(timing.early, timing.timed)} of the events of ${name} have a time in the future.`,
      remedy: 'Set the clock of the sender: its events carry a time that is too late.',
    });
  return points;
}

function silence({ newest, source }: ConnectionReport, name: string, figures: Figures): OpenPoint[] {
  if (source === null) return [];
  if (newest === null)
    return [
      {
        level: 'look',
        text: `${name} sent nothing in this time.`,
        remedy: 'If it should have sent: ask the operator. Else remove it from the reference data.',
      },
    ];
  const [from, to] = [Date.parse(figures.from), Date.parse(figures.to)];
  const silentMs = to - Date.parse(newest);
  // From the rollups, only the hour of the newest event is known.
  if (silentMs < Math.max(2 * HOUR_MS, (to - from) * SILENT_SHARE)) return [];
  return [
    {
      level: 'look',
      text: `${name} has sent nothing since ${momentText(new TimeZone(figures.time_zone), Date.parse(newest))}.`,
      remedy: 'Ask the operator whether the sender runs.',
    },
  ];
}

/** The worst of a connection, in words. */
export function qualityOf(connection: ConnectionReport): {
  readonly text: string;
  readonly style: 'fine' | 'look' | 'act';
} {
  const decided = decidedOf(connection);
  const deliveries = decided + connection.resent + connection.differing;
  if (deliveries === 0) return { text: 'silent', style: 'look' };
  if (connection.rejected > decided * REJECTED_SHARE) return { text: 'rejected events', style: 'act' };
  if (connection.differing > 0) return { text: 'ids used twice', style: 'act' };
  const [time] = timePoints(connection, '');
  if (time !== undefined) return { text: 'wrong or late times', style: 'look' };
  if (connection.resent > deliveries * RESENT_SHARE) return { text: 'many repeats', style: 'look' };
  return { text: 'fine', style: 'fine' };
}

function nameOf({ operator, connection }: ConnectionReport, figures: Figures): string {
  return `${shownText(connection)}${ofOperator(operator, figures)}`;
}

/** Empty in a report of one operator. */
function ofOperator(operator: string, figures: Pick<Figures, 'operator'>): string {
  return figures.operator === null ? ` of ${shownText(operator)}` : '';
}

function remedyOf({ reason }: ReasonCount): string {
  return REASONS.find(({ name }) => name === reason)?.remedy ?? '';
}

function servicePoints({ reasons }: Figures): OpenPoint[] {
  return reasons
    .filter(({ charge, events }) => charge === 'service' && events > 0)
    .map(({ reason, events, remedy }) => ({
      level: 'act',
      text: `The service itself rejected ${counted(events, 'event')} (${reason}).`,
      remedy,
    }));
}

// --- time

function spikes({ buckets, totals, time_zone, step }: Figures): OpenPoint[] {
  const usual = totals.rejected / Math.max(1, decidedOf(totals));
  const zone = new TimeZone(time_zone);
  return buckets
    .filter(
      (bucket) => bucket.rejected >= LEAST_CASES && bucket.rejected > decidedOf(bucket) * usual * TIMES_USUAL,
    )
    .sort((one, other) => other.rejected - one.rejected)
    .slice(0, MOST_OF_A_KIND)
    .map((bucket) => ({
      level: 'look',
      text: `In the ${step} from ${momentText(zone, Date.parse(bucket.from))}, ${shareText(bucket.rejected, decidedOf(bucket))} of the events were rejected. In the whole time it is ${shareText(totals.rejected, decidedOf(totals))}.`,
      remedy: 'Ask the operator what it changed at that time. The reasons below have a remedy each.',
    }));
}

/** Buckets without events, between some with events. */
function gaps({ buckets, time_zone }: Figures): OpenPoint[] {
  const counts = buckets.map(decidedOf);
  const usual = counts.filter((count) => count > 0).sort((one, other) => one - other);
  if ((usual[Math.floor(usual.length / 2)] ?? 0) < GAP_EVENTS || usual.length < buckets.length / 2) return [];
  const zone = new TimeZone(time_zone);
  const found: { first: BucketCounts; last: BucketCounts }[] = [];
  const [begin, end] = [counts.findIndex((count) => count > 0), counts.findLastIndex((count) => count > 0)];
  for (let index = begin; index < end; index++) {
    const [bucket, before] = [buckets[index], found.at(-1)];
    if (bucket === undefined || counts[index] !== 0) continue;
    if (before?.last.to === bucket.from) before.last = bucket;
    else found.push({ first: bucket, last: bucket });
  }
  return found.slice(0, MOST_OF_A_KIND).map(({ first, last }) => ({
    level: 'look',
    text: `No event was decided from ${momentText(zone, Date.parse(first.from))} to ${momentText(zone, Date.parse(last.to))}.`,
    remedy: 'If no maintenance explains it: look whether senders, Kafka and workers ran at that time.',
  }));
}

// --- rounds and amounts

function contradictionPoints(figures: Figures): OpenPoint[] {
  return figures.contradictions.slice(0, MOST_OF_A_KIND).map(({ operator, kind, rounds }) => ({
    level: 'look',
    text: `${counted(rounds, 'round')}${ofOperator(operator, figures)} ${rounds === 1 ? 'contradicts itself' : 'contradict themselves'} (${kind}).`,
    remedy:
      'No event was refused for it. promo.anomalies lists the rounds: the operator checks how it makes them.',
  }));
}

function refundPoints(figures: Figures): OpenPoint[] {
  return figures.games
    .filter(({ currency, bets, refunded_bets }) => {
      const all = figures.amounts.currencies.find((each) => each.currency === currency);
      const usual = (all?.refunded_bets ?? 0) / Math.max(1, all?.bets ?? 0);
      return refunded_bets >= LEAST_CASES && refunded_bets > bets * usual * TIMES_USUAL;
    })
    .slice(0, MOST_OF_A_KIND)
    .map(({ game, operator, bets, refunded_bets, currency }) => ({
      level: 'look',
      text: `${shareText(refunded_bets, bets)} of the bets of the game ${shownText(game ?? '(none)')}${ofOperator(operator, figures)} in ${currency} were refunded, far more than usual.`,
      remedy: 'Ask the provider of the game whether rounds were cancelled.',
    }));
}

function winPoints(figures: Figures): OpenPoint[] {
  return figures.amounts.brands
    .filter(({ bets_less_wins, bets }) => bets_less_wins.startsWith('-') && bets >= LEAST_CASES)
    .slice(0, MOST_OF_A_KIND)
    .map(({ brand, operator, currency, bets_less_wins }) => ({
      level: 'look',
      text: `Players of ${shownText(brand)}${ofOperator(operator, figures)} won ${moneyText(bets_less_wins.slice(1))} ${currency} more than they bet.`,
      remedy: 'This may be chance. Skipped bets are not in it, while the wins of their rounds are.',
    }));
}
