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

export interface Chart {
  /** Distinguishes the charts of a page. */
  readonly id: string;
  readonly title: string;
  /** The begin of each bucket, in milliseconds since 1970. All buckets have one length. */
  readonly times: readonly number[];
  readonly stepMs: number;
  readonly series: readonly Series[];
}

const [WIDTH, HEIGHT] = [760, 220];
const MARGIN = { top: 14, right: 12, bottom: 28, left: 58 };
const TICKS = 4;
const DAY_MS = 86_400_000;
/** Of a bar and the gap behind it. */
const BAR_SHARE = 0.86;

export function stackedBars(chart: Chart): Html {
  const { times, stepMs, series } = chart;
  const rows = times.map((_, index) => series.map(({ values }) => values[index] ?? 0));
  const most = Math.max(1, ...rows.map((row) => row.reduce((sum, each) => sum + each, 0)));
  const { x, y, axes } = frame(chart, most);
  const layers = stack<readonly number[], number>()
    .keys(series.map((_, index) => index))
    .value((row, key) => row[key] ?? 0)([...rows]);
  const bars = layers.map((layer, index) => {
    const rectangles = layer.map(([low, high], bucket) => {
      const begin = times[bucket] ?? 0;
      const height = y(low) - y(high);
      if (height <= 0) return null;
      const width = Math.max(1, (x(begin + stepMs) - x(begin)) * BAR_SHARE);
      return html`<rect x="${round(x(begin))}" y="${round(y(high))}" width="${round(width)}" height="${round(height)}"/>`;
    });
    return html`<g class="${series[index]?.style}">${rectangles}</g>`;
  });
  return figure(chart, html`${axes}${bars}`);
}

export function lines(chart: Chart): Html {
  const { times, stepMs, series } = chart;
  const most = Math.max(1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const { x, y, axes } = frame(chart, most);
  const points = (values: Series['values']): [number, number | null][] =>
    times.map((time, index) => [time + stepMs / 2, values[index] ?? null]);
  const paths = series.map(({ values, style }) => {
    const path = line<[number, number | null]>()
      .defined(([, value]) => value !== null)
      .x(([time]) => x(time))
      .y(([, value]) => y(value ?? 0))
      .curve(curveMonotoneX)
      .digits(1)(points(values));
    const fill = area<[number, number | null]>()
      .defined(([, value]) => value !== null)
      .x(([time]) => x(time))
      .y0(y(0))
      .y1(([, value]) => y(value ?? 0))
      .curve(curveMonotoneX)
      .digits(1)(points(values));
    // A value without neighbours has no line.
    const alone = points(values).filter(
      ([, value], index) =>
        value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null,
    );
    const dots = alone.map(
      ([time, value]) => html`<circle cx="${round(x(time))}" cy="${round(y(value ?? 0))}" r="2.5"/>`,
    );
    return html`<g class="${style}"><path class="area" d="${fill ?? ''}"/><path class="line" d="${path ?? ''}"/>${dots}</g>`;
  });
  return figure(chart, html`${axes}${paths}`);
}

function frame({ times, stepMs }: Chart, most: number) {
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  const x = scaleUtc()
    .domain([first, last + stepMs])
    .range([MARGIN.left, WIDTH - MARGIN.right]);
  const y = scaleLinear()
    .domain([0, most])
    .nice(TICKS)
    .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
  const format = x.tickFormat(TICKS * 2, last - first > DAY_MS ? '%d %b' : '%H:%M');
  const [left, right, bottom] = [MARGIN.left, WIDTH - MARGIN.right, HEIGHT - MARGIN.bottom];
  const horizontal = y.ticks(TICKS).map(
    (value) => html`<g><line x1="${left}" x2="${right}" y1="${round(y(value))}" y2="${round(y(value))}"/>
<text x="${left - 8}" y="${round(y(value) + 4)}" text-anchor="end">${value.toLocaleString('en')}</text></g>`,
  );
  const vertical = x
    .ticks(TICKS * 2)
    .map(
      (time) =>
        html`<text x="${round(x(time))}" y="${bottom + 18}" text-anchor="middle">${format(time)}</text>`,
    );
  const axes = html`<g class="axis">${horizontal}${vertical}</g>`;
  return { x: (time: number) => x(time), y: (value: number) => y(value), axes };
}

function figure({ id, title, times, series }: Chart, content: Html): Html {
  const legend = series.map(
    ({ name, style }) =>
      html`<li><svg class="${style}" width="12" height="12" aria-hidden="true"><rect width="12" height="12"/></svg> ${name}</li>`,
  );
  const head = series.map(({ name }) => html`<th scope="col">${name}</th>`);
  const filled = times
    .map((time, index) => ({ time, index }))
    .filter(({ index }) => series.some(({ values }) => (values[index] ?? 0) !== 0));
  const rows = filled.map(({ time, index }) => {
    const cells = series.map(
      ({ values }) => html`<td class="number">${numberOf(values[index] ?? null)}</td>`,
    );
    return html`<tr><th scope="row">${new Date(time).toISOString().slice(0, 16)}Z</th>${cells}</tr>`;
  });
  return html`<figure>
<figcaption id="${id}">${title}</figcaption>
<ul class="legend">${legend}</ul>
<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}">${content}</svg>
<details><summary>The numbers of this chart</summary>
<table><caption>${title}</caption><thead><tr><th scope="col">From (UTC)</th>${head}</tr></thead>
<tbody>${rows}</tbody></table></details>
</figure>`;
}

function numberOf(value: number | null): string {
  return value === null ? '' : value.toLocaleString('en', { maximumFractionDigits: 3 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
