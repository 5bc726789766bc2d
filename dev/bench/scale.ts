/** Scales of a chart's axes: the position of a value, and the values that are written beside the axis. */

export interface Axis {
  readonly label: string;
  /** Linear axes begin at 0. */
  readonly scale: 'linear' | 'log';
}

export interface Tick {
  readonly at: number;
  readonly label: string;
}

export interface Scale {
  place(value: number): number;
  readonly ticks: readonly Tick[];
}

const TICKS_WANTED = 5;
/** A horizontal axis shows the measured values themselves: at most this many, and far enough apart. */
const MAX_OWN_TICKS = 9;
const OWN_TICKS_APART = 30;
/** Logarithmic axes over fewer decades than this have ticks between the powers of ten. */
const SPARSE_DECADES = 2;

/** @param from where the axis begins in the picture, `to` where it ends */
export function makeScale({ scale }: Axis, values: readonly number[], from: number, to: number): Scale {
  const finite = values.filter(Number.isFinite);
  const horizontal = to > from;
  const { low, high, marks } = scale === 'log' ? logRange(finite) : linearRange(finite, horizontal);
  const share = (value: number) =>
    scale === 'log'
      ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
      : (value - low) / (high - low);
  const place = (value: number) => Math.round((from + share(value) * (to - from)) * 10) / 10;
  const own = [...new Set(finite)].sort((a, b) => a - b);
  const useOwn = horizontal && own.length <= MAX_OWN_TICKS && areApart(own.map(place));
  const written = useOwn ? own : marks;
  const unit = written.some((value) => value >= 1e6) ? 1e6 : 1;
  return { place, ticks: written.map((value) => ({ at: place(value), label: labelOf(value, unit) })) };
}

interface Range {
  readonly low: number;
  readonly high: number;
  readonly marks: readonly number[];
}

/** From 0 to a tick at or above the highest value; on the horizontal axis, to the highest value itself. */
function linearRange(values: readonly number[], horizontal: boolean): Range {
  const highest = Math.max(...values, 0) || 1;
  const step = niceStep(highest / TICKS_WANTED);
  const high = horizontal ? highest : Math.ceil(highest / step - ROUNDING) * step;
  const count = Math.floor(high / step + ROUNDING);
  return { low: 0, high, marks: Array.from({ length: count + 1 }, (_, index) => index * step) };
}

function logRange(values: readonly number[]): Range {
  const positive = values.filter((value) => value > 0);
  const lowest = Math.floor(Math.log10(Math.min(...positive, Number.MAX_VALUE)) + ROUNDING);
  const highest = Math.max(Math.ceil(Math.log10(Math.max(...positive)) - ROUNDING), lowest + 1);
  const factors = highest - lowest <= SPARSE_DECADES ? [1, 2, 5] : [1];
  const marks: number[] = [];
  for (let power = lowest; power < highest; power++)
    for (const factor of factors) marks.push(factor * 10 ** power);
  return { low: 10 ** lowest, high: 10 ** highest, marks: [...marks, 10 ** highest] };
}

/** 1, 2 or 5 times a power of ten, at or above `step`. */
function niceStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  return ([1, 2, 5].find((factor) => factor * power >= step * (1 - ROUNDING)) ?? 10) * power;
}

const ROUNDING = 1e-9;

function areApart(places: readonly number[]): boolean {
  return places.every((place, index) => index === 0 || place - (places[index - 1] ?? 0) >= OWN_TICKS_APART);
}

function labelOf(value: number, unit: number): string {
  if (value === 0) return '0';
  const text = (value / unit).toLocaleString('en', { maximumSignificantDigits: 6 });
  return unit === 1 ? text : `${text} M`;
}
