/** Durations as people read them. */
interface TimeUnit {
  readonly name: string;
  readonly short: string;
  readonly seconds: number;
}

const UNITS: readonly TimeUnit[] = [
  { name: 'days', short: 'd', seconds: 86_400 },
  { name: 'hours', short: 'h', seconds: 3_600 },
  { name: 'minutes', short: 'min', seconds: 60 },
];
const SECONDS: TimeUnit = { name: 'seconds', short: 's', seconds: 1 };

/** The largest unit in which the time is 2 or more. */
export function unitOfTime(seconds: number): TimeUnit {
  return UNITS.find((unit) => seconds >= 2 * unit.seconds) ?? SECONDS;
}

const HOUR_SECONDS = 3_600;

/** Seconds of a report, to a tenth. */
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
