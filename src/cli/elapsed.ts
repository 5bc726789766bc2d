/** Times of a report in seconds: as numbers for programs, and as text for people. */
import { unitOfTime } from '../lib/duration';

const HOUR_SECONDS = 3_600;

export function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value * 10) / 10;
}

/** "45 s" or "600 s", and from an hour on "75.5 min", "26 h" or "8.8 d". */
export function elapsedText(seconds: number | null): string {
  if (seconds === null) return 'for an unknown time';
  if (seconds < HOUR_SECONDS) return `${Math.round(seconds)} s`;
  const unit = unitOfTime(seconds);
  return `${rounded(seconds / unit.seconds)} ${unit.short}`;
}
