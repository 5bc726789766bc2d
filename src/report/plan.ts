/** Chooses the source of each part of a report: the rollups where they are complete, else the views. Pure. */
import { DAY_MS, TimeZone } from '../lib/time-zone';
import { type Buckets, divide, divideByDays, HOUR_MS, type ReportSpan, sameDates } from './window';

/** How far the rollups are: milliseconds since 1970. */
export interface RollupState {
  /** Null where they have all verdicts. */
  readonly completeSince: number | null;
  /** Null during the first count of all history. */
  readonly upTo: number | null;
}

export type Source = 'rollups' | 'views';

export interface PlannedPart {
  readonly source: Source;
  readonly buckets: Buckets;
}

export interface Plan {
  readonly verdicts: PlannedPart;
  readonly amounts: PlannedPart;
  /** Sentences about the choice, for the end of the report. */
  readonly notes: readonly string[];
}

/** Rollups that are later than this would miss visible parts of the range. */
const LATE_MS = 10 * 60_000;
/** The longest range whose amounts come from the views only for the sake of local days. */
const LOCAL_DAYS = 7;
const UTC = new TimeZone('UTC');

/** @param now the time of the store */
export function planOf(span: ReportSpan, zone: TimeZone, rollups: RollupState | null, now: number): Plan {
  const buckets = divide(span, zone);
  const local = divideByDays(span, zone);
  const fromViews = (notes: readonly string[]): Plan => ({
    verdicts: { source: 'views', buckets },
    amounts: { source: 'views', buckets: local },
    notes,
  });
  if (rollups === null)
    return fromViews(['No process has kept rollups: all figures are counted from the views.']);
  if (rollups.upTo === null)
    return fromViews(['The rollups are being counted for the first time: all figures are from the views.']);
  if (rollups.upTo < span.to - LATE_MS)
    return fromViews(['The rollups are more than 10 minutes behind: all figures are from the views.']);

  const upTo = rollups.upTo;
  const notes: string[] = [];
  const isWhole = (part: Buckets, ms: number) => hasEdges(part, ms, upTo);
  const verdicts: PlannedPart = { source: isWhole(buckets, HOUR_MS) ? 'rollups' : 'views', buckets };
  if (verdicts.source === 'views')
    notes.push('The rollups have whole hours of UTC: the buckets of this report need the views.');
  if (isWhole(local, DAY_MS)) return { verdicts, amounts: { source: 'rollups', buckets: local }, notes };
  if (span.to - span.from <= LOCAL_DAYS * DAY_MS) {
    notes.push('The rollups have whole days of UTC: the amounts of this report are from the views.');
    return { verdicts, amounts: { source: 'views', buckets: local }, notes };
  }
  notes.push(
    'Amounts and refunds are those of the same dates in UTC: the rollups have no days of other time zones.',
  );
  const days = divideByDays(sameDates(span, zone, UTC, now), UTC);
  return { verdicts, amounts: { source: 'rollups', buckets: days }, notes };
}

/** Whether rollups of this length add up to each bucket. Nothing is behind their end. */
function hasEdges({ edges }: Buckets, ms: number, upTo: number): boolean {
  const end = edges.at(-1) ?? 0;
  return edges.slice(0, -1).every((edge) => edge % ms === 0) && (end % ms === 0 || end >= upTo);
}
