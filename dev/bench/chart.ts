/** Line charts as SVG, readable on a light and on a dark page. d3 computes scales and ticks. */
import { scaleLinear, scaleLog } from 'd3-scale';

export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
}

const WIDTH = 760;
const HEIGHT = 420;
const PLOT = { left: 84, right: WIDTH - 24, top: 76, bottom: HEIGHT - 56 };
const LEGEND_LINE = 22;
/** Text widths are estimates: an average character of a sans-serif font, relative to its size. */
const CHARACTER_WIDTH = 0.56;
const LEGEND_FONT = 13;
/** Beyond this many points, marks would hide the line. */
const MAX_MARKS = 40;

/**
 * The colours of Okabe and Ito, which colour-blind readers can distinguish. Dashes distinguish lines without
 * any colour.
 */
const LIGHT = ['#0072b2', '#d55e00', '#009e73', '#aa4499', '#8a6d00'];
const DARK = ['#56b4e9', '#ff9a4d', '#2fcf9f', '#e79acb', '#f0e442'];
const DASHES = ['none', '8 4', '2 4', '10 4 2 4', '14 6'];

const STYLE = [
  'text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }',
  '.page { fill: #ffffff; stroke: #d1d9e0 } .grid { stroke: #d1d9e0 } .axis { stroke: #59636e }',
  ...LIGHT.map((colour, index) => `.line${index} { stroke: ${colour} } .mark${index} { fill: ${colour} }`),
  '@media (prefers-color-scheme: dark) {',
  'text { fill: #f0f6fc }',
  '.page { fill: #0d1117; stroke: #3d444d } .grid { stroke: #3d444d } .axis { stroke: #9198a1 }',
  ...DARK.map((colour, index) => `.line${index} { stroke: ${colour} } .mark${index} { fill: ${colour} }`),
  '}',
].join('\n');

/** @throws RangeError for a chart without points, and for more series than the palette can distinguish */
export function chartSvg(chart: Chart): string {
  const points = chart.series.flatMap((series) => series.points);
  if (points.length === 0) throw new RangeError(`the chart "${chart.title}" has no points`);
  if (chart.series.length > LIGHT.length) throw new RangeError(`${chart.series.length} series are too many`);
  const x = makeScale(
    chart.x,
    points.map(([value]) => value),
    PLOT.left,
    PLOT.right,
  );
  const y = makeScale(
    chart.y,
    points.map(([, value]) => value),
    PLOT.bottom,
    PLOT.top,
  );
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(chart.title)}</title>`,
    `<style>\n${STYLE}\n</style>`,
    `<rect class="page" x="0.5" y="0.5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="6"/>`,
    `<text x="${PLOT.left}" y="30" font-size="16" font-weight="600">${escaped(chart.title)}</text>`,
    ...legend(chart.series),
    ...axes(chart, x, y),
    ...chart.series.flatMap((series, index) => line(series, index, x, y)),
    '</svg>',
  ].join('\n')}\n`;
}

function legend(series: readonly Series[]): string[] {
  if (series.length < 2) return [];
  let left = PLOT.left;
  return series.flatMap(({ name }, index) => {
    const start = left;
    left += 34 + name.length * LEGEND_FONT * CHARACTER_WIDTH + LEGEND_LINE;
    return [
      `<line class="line${index}" x1="${start}" y1="50" x2="${start + 28}" y2="50" stroke-width="2.5" stroke-dasharray="${DASHES[index]}"/>`,
      `<text x="${start + 34}" y="54.5" font-size="${LEGEND_FONT}">${escaped(name)}</text>`,
    ];
  });
}

function axes(chart: Chart, x: Scale, y: Scale): string[] {
  const { left, right, top, bottom } = PLOT;
  const middle = (top + bottom) / 2;
  return [
    ...y.ticks.flatMap(({ at, label }) => [
      `<line class="grid" x1="${left}" y1="${at}" x2="${right}" y2="${at}"/>`,
      `<text x="${left - 8}" y="${at + 4}" font-size="12" text-anchor="end">${label}</text>`,
    ]),
    ...x.ticks.flatMap(({ at, label }) => [
      `<line class="axis" x1="${at}" y1="${bottom}" x2="${at}" y2="${bottom + 5}"/>`,
      `<text x="${at}" y="${bottom + 20}" font-size="12" text-anchor="middle">${label}</text>`,
    ]),
    `<line class="axis" x1="${left}" y1="${bottom}" x2="${right}" y2="${bottom}"/>`,
    `<line class="axis" x1="${left}" y1="${top}" x2="${left}" y2="${bottom}"/>`,
    `<text x="${(left + right) / 2}" y="${HEIGHT - 14}" font-size="13" text-anchor="middle">${escaped(chart.x.label)}</text>`,
    `<text transform="translate(20 ${middle}) rotate(-90)" font-size="13" text-anchor="middle">${escaped(chart.y.label)}</text>`,
  ];
}

function line({ points }: Series, index: number, x: Scale, y: Scale): string[] {
  const places = points.map(([px, py]) => `${x.place(px)},${y.place(py)}`);
  const marks = points.length > MAX_MARKS ? [] : points;
  return [
    `<polyline class="line${index}" points="${places.join(' ')}" fill="none" stroke-width="2.5" stroke-linejoin="round" stroke-dasharray="${DASHES[index]}"/>`,
    ...marks.map(
      ([px, py]) => `<circle class="mark${index}" cx="${x.place(px)}" cy="${y.place(py)}" r="3.5"/>`,
    ),
  ];
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

// --- axes

export interface Axis {
  readonly label: string;
  /** Linear axes begin at 0. */
  readonly scale: 'linear' | 'log';
}

export interface Scale {
  place(value: number): number;
  readonly ticks: readonly { readonly at: number; readonly label: string }[];
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
  const isHorizontal = to > from;
  const { positionOf, marks } = scale === 'log' ? logarithmic(finite) : linear(finite, isHorizontal);
  const place = (value: number) => Math.round((from + positionOf(value) * (to - from)) * 10) / 10;
  const own = [...new Set(finite)].sort((a, b) => a - b);
  const written = isHorizontal && own.length <= MAX_OWN_TICKS && areApart(own.map(place)) ? own : marks;
  const unit = written.some((value) => value >= 1e6) ? 1e6 : 1;
  return { place, ticks: written.map((value) => ({ at: place(value), label: labelOf(value, unit) })) };
}

/** From 0 to a tick at or above the highest value; on the horizontal axis, to the highest value itself. */
function linear(values: readonly number[], isHorizontal: boolean) {
  const scale = scaleLinear().domain([0, Math.max(...values, 0) || 1]);
  if (!isHorizontal) scale.nice(TICKS_WANTED);
  return { positionOf: (value: number) => scale(value), marks: scale.ticks(TICKS_WANTED) };
}

/** Between powers of ten. A value below the lowest one is placed there. */
function logarithmic(values: readonly number[]) {
  const positive = values.filter((value) => value > 0);
  const [lowest, highest] = [Math.min(...positive), Math.max(...positive)];
  const scale = scaleLog()
    .domain([lowest, highest > lowest ? highest : lowest * 10])
    .nice();
  const [low = 1, high = 10] = scale.domain();
  const digits = Math.log10(high / low) <= SPARSE_DECADES ? '125' : '1';
  return {
    positionOf: (value: number) => scale(Math.max(value, low)),
    marks: scale.ticks().filter((value) => digits.includes(value.toExponential()[0] ?? '')),
  };
}

function areApart(places: readonly number[]): boolean {
  return places.every((place, index) => index === 0 || place - (places[index - 1] ?? 0) >= OWN_TICKS_APART);
}

function labelOf(value: number, unit: number): string {
  if (value === 0) return '0';
  const text = (value / unit).toLocaleString('en', { maximumSignificantDigits: 6 });
  return unit === 1 ? text : `${text} M`;
}
