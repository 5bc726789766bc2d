/**
 * Charts as SVG, without scripts and without styles of their own: d3 computes scales, ticks and paths. The
 * style sheet colours classes. Each chart has its numbers as a table beside it. Pure.
 */
import { scaleLinear, scaleUtc } from 'd3-scale';
import { area, curveMonotoneX, line, stack } from 'd3-shape';
import { type Html, html } from './html';

export interface Series {
  readonly name: string;
  /** The class of the style sheet that colours it. */
  readonly style: string;
  /** A value for each bucket; null where there is none. */
  readonly values: readonly (number | null)[];
}

/** The time of a chart, divided into buckets. */
export interface TimeAxis {
  /** The begin of each bucket, and the end of the last one, in milliseconds since 1970. */
  readonly edges: readonly number[];
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
  /** The head of the column that has the begin of each bucket. */
  readonly head: string;
  /** The begin of a bucket, as the table and the tooltip show it. */
  readonly textOf: (at: number) => string;
}

export interface Chart {
  /** Distinguishes the charts of a page. */
  readonly id: string;
  readonly title: string;
  /** The unit of the values, above their axis. */
  readonly unit: string;
  readonly axis: TimeAxis;
  readonly series: readonly Series[];
  /** The end of the axis of values, where it does not follow from them. */
  readonly most?: number;
}

/** Where the plot begins and ends, in units of the picture. */
const [WIDTH, HEIGHT] = [760, 236];
const MARGIN = { top: 26, right: 14, bottom: 28, left: 62 };
const TICKS = 4;
const DAY_MS = 86_400_000;
/** Of a bar and the gap behind it. */
const BAR_SHARE = 0.86;
/** A chart of few buckets has no walls. */
const MAX_BAR = 44;
/** From this value on, an axis shortens its numbers. */
const LARGE = 1_000_000;

/** Buckets of equal length, with ticks in UTC. */
export function utcAxis(sinceMs: number, untilMs: number, stepMs: number): TimeAxis {
  const count = Math.ceil((untilMs - sinceMs) / stepMs);
  const scale = scaleUtc().domain([sinceMs, sinceMs + count * stepMs]);
  const format = scale.tickFormat(TICKS * 2, (count - 1) * stepMs > DAY_MS ? '%d %b' : '%H:%M');
  return {
    edges: Array.from({ length: count + 1 }, (_, index) => sinceMs + index * stepMs),
    ticks: scale.ticks(TICKS * 2).map((time) => ({ at: time.getTime(), text: format(time) })),
    head: 'From (UTC)',
    textOf: (at) => `${new Date(at).toISOString().slice(0, 16)}Z`,
  };
}

/** Values on top of each other. None is negative. */
export function stackedBars(chart: Chart): Html {
  const { axis, series } = chart;
  const rows = bucketsOf(axis).map((_, index) => series.map(({ values }) => values[index] ?? 0));
  const sums = rows.map((row) => row.reduce((sum, each) => sum + each, 0));
  const { x, y, axes } = frame(chart, [0, chart.most ?? Math.max(1, ...sums)]);
  const layers = stack<readonly number[], number>()
    .keys(series.map((_, index) => index))
    .value((row, key) => row[key] ?? 0)([...rows]);
  const bars = layers.map((layer, index) => {
    const { name, style, values } = series[index] ?? { name: '', style: '', values: [] };
    const rectangles = layer.map(([low, high], bucket) => {
      const [begin = 0, end = 0] = axis.edges.slice(bucket, bucket + 2);
      const height = y(low) - y(high);
      if (height <= 0) return null;
      const room = x(end) - x(begin);
      const width = Math.min(MAX_BAR, Math.max(1, room * BAR_SHARE));
      const left = x(begin) + Math.max(0, (room * BAR_SHARE - width) / 2);
      const text = `${axis.textOf(begin)}: ${numberOf(values[bucket] ?? null)} ${name}`;
      return html`<rect x="${round(left)}" y="${round(y(high))}" width="${round(width)}" height="${round(height)}"><title>${text}</title></rect>`;
    });
    return html`<g class="${style}">${rectangles}</g>`;
  });
  return figure(chart, html`${axes}${bars}`);
}

/** A line for each series. The area below a line is filled where all values are positive. */
export function lines(chart: Chart): Html {
  const { axis, series } = chart;
  const all = series.flatMap(({ values }) => values.map((value) => value ?? 0));
  const [least, most] = [Math.min(0, ...all), chart.most ?? Math.max(least1(all), ...all)];
  const { x, y, axes } = frame(chart, [least, most]);
  const middles = bucketsOf(axis).map((begin, index) => (begin + (axis.edges[index + 1] ?? begin)) / 2);
  const paths = series.map(({ name, values, style }) => {
    const points = middles.map((time, index): [number, number | null] => [time, values[index] ?? null]);
    const path = line<[number, number | null]>()
      .defined(([, value]) => value !== null)
      .x(([time]) => x(time))
      .y(([, value]) => y(value ?? 0))
      .curve(curveMonotoneX)
      .digits(1)(points);
    const fill = area<[number, number | null]>()
      .defined(([, value]) => value !== null)
      .x(([time]) => x(time))
      .y0(y(0))
      .y1(([, value]) => y(value ?? 0))
      .curve(curveMonotoneX)
      .digits(1)(points);
    const dots = points.map(([time, value], index) => {
      if (value === null) return null;
      // A value without neighbours has no line.
      const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
      const text = `${axis.textOf(axis.edges[index] ?? 0)}: ${name} ${numberOf(value)}`;
      return html`<circle class="${isAlone ? 'alone' : 'spot'}" cx="${round(x(time))}" cy="${round(y(value))}" r="${isAlone ? 2.5 : 5}"><title>${text}</title></circle>`;
    });
    const filled = least === 0 && html`<path class="area" d="${fill ?? ''}"/>`;
    return html`<g class="${style}">${filled}<path class="line" d="${path ?? ''}"/>${dots}</g>`;
  });
  return figure(chart, html`${axes}${paths}`);
}

/** The end of an axis without any value. Negative values need no room above zero. */
function least1(all: readonly number[]): number {
  return all.some((value) => value < 0) ? 0 : 1;
}

function bucketsOf({ edges }: TimeAxis): readonly number[] {
  return edges.slice(0, -1);
}

function frame({ axis, unit, most: end }: Chart, [least, most]: readonly [number, number]) {
  const { edges, ticks } = axis;
  const x = scaleUtc()
    .domain([edges[0] ?? 0, edges.at(-1) ?? 0])
    .range([MARGIN.left, WIDTH - MARGIN.right]);
  const free = scaleLinear()
    .domain([least, most])
    .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
  const y = end === undefined ? free.nice(TICKS) : free;
  const [left, right, bottom] = [MARGIN.left, WIDTH - MARGIN.right, HEIGHT - MARGIN.bottom];
  const horizontal = y.ticks(TICKS).map(
    (
      value,
    ) => html`<g><line class="${value === 0 ? 'zero' : ''}" x1="${left}" x2="${right}" y1="${round(y(value))}" y2="${round(y(value))}"/>
<text x="${left - 8}" y="${round(y(value) + 4)}" text-anchor="end">${axisNumber(value)}</text></g>`,
  );
  const vertical = ticks.map(
    ({ at, text }) => html`<text x="${round(x(at))}" y="${bottom + 18}" text-anchor="middle">${text}</text>`,
  );
  const axes = html`<g class="axis"><text class="unit" x="2" y="12" text-anchor="start">${unit}</text>${horizontal}${vertical}</g>`;
  return { x: (time: number) => x(time), y: (value: number) => y(value), axes };
}

function figure({ id, title, axis, series }: Chart, content: Html): Html {
  const head = series.map(({ name }) => html`<th scope="col" class="number">${name}</th>`);
  const filled = bucketsOf(axis)
    .map((time, index) => ({ time, index }))
    .filter(({ index }) => series.some(({ values }) => (values[index] ?? 0) !== 0));
  const rows = filled.map(({ time, index }) => {
    const cells = series.map(
      ({ values }) => html`<td class="number">${numberOf(values[index] ?? null)}</td>`,
    );
    return html`<tr><th scope="row">${axis.textOf(time)}</th>${cells}</tr>`;
  });
  return html`<figure>
<figcaption id="${id}">${title}</figcaption>
${legendOf(series)}
<div class="scroll" tabindex="0" role="group" aria-labelledby="${id}"><svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}">${content}</svg></div>
<details><summary>The numbers of this chart</summary>
<div class="scroll" tabindex="0" role="region" aria-label="${title}: numbers"><table><caption>${title}</caption><thead><tr><th scope="col">${axis.head}</th>${head}</tr></thead>
<tbody>${rows}</tbody></table></div></details>
</figure>`;
}

function legendOf(series: readonly Pick<Series, 'name' | 'style'>[]): Html | null {
  if (series.length < 2) return null;
  const items = series.map(
    ({ name, style }) =>
      html`<li><svg class="${style}" width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2"/></svg> ${name}</li>`,
  );
  return html`<ul class="legend">${items}</ul>`;
}

export interface Ranking {
  readonly id: string;
  readonly title: string;
  readonly rows: readonly {
    readonly name: string;
    readonly value: number;
    /** The value in words, behind the bar. */
    readonly text: string;
    readonly style: string;
  }[];
}

const ROW = { height: 26, name: 230, text: 150 };
/** The most characters of a name beside its bar. The table beside the picture has the whole name. */
const MAX_NAME = 32;

/** A bar for each row, the longest first. Its numbers are in a table that the caller adds. */
export function rankedBars({ id, title, rows }: Ranking): Html {
  const most = Math.max(1, ...rows.map(({ value }) => value));
  const x = scaleLinear()
    .domain([0, most])
    .range([0, WIDTH - ROW.name - ROW.text]);
  const bars = rows.map(({ name, value, text, style }, index) => {
    const middle = index * ROW.height + ROW.height / 2;
    const short = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME - 1)}…` : name;
    const width = Math.max(value > 0 ? 1 : 0, x(value));
    return html`<g class="axis"><text class="name" x="${ROW.name - 10}" y="${middle + 4}" text-anchor="end">${short}</text></g>
<g class="${style}"><rect x="${ROW.name}" y="${index * ROW.height + 4}" width="${round(width)}" height="${ROW.height - 8}" rx="2"><title>${`${name}: ${text}`}</title></rect></g>
<g class="axis"><text x="${round(ROW.name + width + 8)}" y="${middle + 4}">${text}</text></g>`;
  });
  return html`<figure>
<figcaption id="${id}">${title}</figcaption>
<div class="scroll" tabindex="0" role="group" aria-labelledby="${id}"><svg class="chart ranked" viewBox="0 0 ${WIDTH} ${rows.length * ROW.height}" role="img" aria-labelledby="${id}">${bars}</svg></div>
</figure>`;
}

function numberOf(value: number | null): string {
  return value === null ? '' : value.toLocaleString('en', { maximumFractionDigits: 3 });
}

function axisNumber(value: number): string {
  if (Math.abs(value) < LARGE) return value.toLocaleString('en');
  return value.toLocaleString('en', { notation: 'compact', maximumFractionDigits: 2 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
