/**
 * The picture of docs/analysts/dashboard.md: the panels of the dashboard by their own queries, on invented
 * rows. Our charts draw it, since no Grafana is at hand. It is made with docs/tables.md, on a Postgres.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { lines, type Series, stackedBars, utcAxis } from '../../src/markup/chart';
import { escapeHtml } from '../../src/markup/html';
import { CHART_STYLE, COLOURS, SERIES_STYLES } from '../../src/markup/style';
import { millisecondsOf, textQuery } from '../../src/postgres/texts';
import { type DashboardPanel, expandMacros, readDashboard } from '../grafana';
import { projectRoot } from '../servers/download';

const ROWS = 'dev/generate/dashboard-rows.sql';
const WEEK = { from: '2026-11-16T00:00:00Z', to: '2026-11-22T23:59:59Z', operators: ['acme'] };
const QUERY_MS = 30_000;
const HOUR_MS = 3_600_000;
/** Of a column and of a row of Grafana's grid. */
const CELL = { width: 50, height: 31 };
const GAP = 8;
const COLUMNS = 24;
const LEGEND_STEP = 132;
/** The picture of a chart, by its own numbers. */
const CHART = /<svg class="chart" viewBox="0 0 (\d+) (\d+)"[^>]*>(.*?)<\/svg>/s;
const VERDICT_STYLES: Readonly<Record<string, string>> = {
  accepted: 's-accepted',
  rejected: 's-rejected',
  skipped: 's-skipped',
};
const FONT = `text { font-family: system-ui, "Open Sans", sans-serif; font-size: 12px; fill: var(--text); }
.soft { fill: var(--soft); } .head { font-weight: 600; } .big { font-size: 30px; } .area { display: none; } .panel { fill: var(--ground); stroke: var(--line); }`;

type Rows = readonly (readonly (string | null)[])[];
interface Answer {
  readonly columns: readonly string[];
  readonly rows: Rows;
}

/** @param databaseUrl of a migrated database without rows, as its owner */
export async function renderDashboard(databaseUrl: string): Promise<string> {
  const client = new Client({ connectionString: databaseUrl, query_timeout: QUERY_MS });
  client.on('error', () => {
    // The present statement reports the error.
  });
  await client.connect();
  try {
    await client.query(readFileSync(join(projectRoot, ROWS), 'utf8'));
    await client.query(`set timezone = 'UTC'`);
    const drawn: string[] = [];
    const { panels } = readDashboard();
    for (const panel of panels) drawn.push(panelOf(panel, await answerTo(client, panel)));
    return pictureOf(drawn, Math.max(...panels.map(({ grid }) => grid.y + grid.h)));
  } finally {
    await client.end();
  }
}

async function answerTo(client: Client, { sql }: DashboardPanel): Promise<Answer> {
  const { fields, rows } = await client.query<(string | null)[]>(textQuery(expandMacros(sql, WEEK), []));
  return { columns: fields.map(({ name }) => name), rows };
}

function pictureOf(panels: readonly string[], gridRows: number): string {
  const [width, height] = [COLUMNS * CELL.width + GAP, gridRows * CELL.height + GAP];
  return `<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<style>${COLOURS}${CHART_STYLE}.chart { max-height: none; }${FONT}</style>
<rect width="${width}" height="${height}" fill="var(--raised)"/>
${panels.join('\n')}
</svg>
`;
}

function panelOf(panel: DashboardPanel, answer: Answer): string {
  const { x, y, w, h } = panel.grid;
  const [left, top] = [x * CELL.width + GAP, y * CELL.height + GAP];
  const [width, height] = [w * CELL.width - GAP, h * CELL.height - GAP];
  return `<g transform="translate(${left} ${top})"><rect class="panel" width="${width}" height="${height}" rx="4"/>
<text class="head" x="10" y="19">${escapeHtml(panel.title)}</text>${contentOf(panel, answer, width)}</g>`;
}

function contentOf(panel: DashboardPanel, answer: Answer, width: number): string {
  if (panel.isSeries) return seriesPanel(panel, answer, width);
  if (panel.type === 'table') return tablePanel(answer, width);
  const value = shownAs(answer.rows[0]?.[0] ?? null, panel.unit);
  return `<text class="big" x="${width / 2}" y="72" text-anchor="middle">${escapeHtml(value)}</text>`;
}

function seriesPanel(
  { title, type, unit, isStacked }: DashboardPanel,
  answer: Answer,
  width: number,
): string {
  const axis = utcAxis(Date.parse(WEEK.from), Date.parse(WEEK.to), HOUR_MS);
  const bucketOf = (time: string | null) =>
    Math.floor((millisecondsOf(time) - Date.parse(WEEK.from)) / HOUR_MS);
  const isLong = answer.columns[1] === 'metric';
  const times = unit === 'percentunit' ? 100 : 1;
  const values = new Map<string, (number | null)[]>();
  for (const [time = null, ...cells] of answer.rows) {
    const named = isLong
      ? [[cells[0] ?? '', cells[1] ?? null] as const]
      : cells.map((cell, index) => [answer.columns[index + 1] ?? '', cell] as const);
    for (const [name, cell] of named) {
      const own = values.get(name) ?? axis.edges.slice(1).map(() => null);
      own[bucketOf(time)] = cell === null ? null : Number(cell) * times;
      values.set(name, own);
    }
  }
  const series = [...values].map(
    ([name, own], index): Series => ({
      name,
      style: VERDICT_STYLES[name] ?? SERIES_STYLES[index % SERIES_STYLES.length] ?? '',
      values: own,
    }),
  );
  const chart = {
    id: type,
    title,
    unit: times === 100 ? '%' : 'an hour',
    axis,
    series,
    ...(times === 100 ? { most: 100 } : {}),
  };
  const [, chartWidth, chartHeight, content = ''] =
    CHART.exec(`${(isStacked ? stackedBars : lines)(chart)}`) ?? [];
  const legend = series.map(
    ({ name, style }, index) =>
      `<g class="${style}"><rect x="${12 + index * LEGEND_STEP}" y="212" width="10" height="10" rx="2"/></g><text class="soft" x="${27 + index * LEGEND_STEP}" y="221">${escapeHtml(name)}</text>`,
  );
  // Texts of the pointer are of no use in a picture.
  const drawn = content.replaceAll(/<circle class="spot".*?<\/circle>|<title>.*?<\/title>/gs, '');
  return `<svg x="6" y="28" width="${width - 12}" height="180" viewBox="0 0 ${Number(chartWidth)} ${Number(chartHeight)}">${drawn}</svg>${legend.join('')}`;
}

function tablePanel({ columns, rows }: Answer, width: number): string {
  const step = (width - 20) / columns.length;
  const line = (cells: readonly (string | null)[], y: number, style: string) =>
    cells
      .map(
        (cell, index) =>
          `<text class="${style}" x="${10 + Math.round(index * step)}" y="${y}">${escapeHtml(cell ?? '')}</text>`,
      )
      .join('');
  return `${line(columns, 44, 'soft')}${rows
    .map((row, index) =>
      line(
        row.map((cell) => shortTime(cell)),
        66 + index * 22,
        '',
      ),
    )
    .join('')}`;
}

const shortTime = (cell: string | null) => cell?.replace(/^(\d{4}-\d\d-\d\d \d\d:\d\d):.*$/, '$1') ?? null;

/** A value in the unit of its panel, as Grafana writes it. */
function shownAs(value: string | null, unit: string): string {
  if (value === null) return '';
  if (unit === 'percentunit') return `${(Number(value) * 100).toFixed(2)}%`;
  // The lag depends on the moment, and a picture may not.
  return unit === 's' ? '0 s' : (shortTime(value) ?? '');
}
