/** The units in which people read a duration. */
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
