/** Times of a report in seconds: as numbers for programs, and as text for people. */
export function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value * 10) / 10;
}

export function seconds(value: number | null): string {
  return value === null ? 'for an unknown time' : `${Math.round(value)} s`;
}
