/**
 * The pictures of docs/report.md: charts of an invented month, as files of SVG. They are texts, so the check
 * of generated files compares them without a browser.
 */
import { CHART_STYLE, COLOURS } from '../../src/markup/style';
import { reportPage } from '../../src/report/page';
import { sampleReport } from '../report-sample';

/** The charts of the page, by their ids, with the names of the files. */
const PICTURES = [
  ['verdicts-chart', 'report-verdicts.svg'],
  ['reasons-chart', 'report-reasons.svg'],
  ['turnover-eur', 'report-turnover.svg'],
  ['delay-chart', 'report-delay.svg'],
] as const;
const FONT = 'text { font-family: system-ui, "Open Sans", sans-serif; }';
const CHART =
  /<svg class="chart( ranked)?" viewBox="([^"]+)" role="img" aria-labelledby="([^"]+)">(.*?)<\/svg>/gs;

export function reportPictures(): [name: string, content: string][] {
  const charts = new Map([...reportPage(sampleReport()).matchAll(CHART)].map((found) => [found[3], found]));
  return PICTURES.map(([id, name]) => {
    const [, ranked = '', viewBox = '', , content = ''] = charts.get(id) ?? [];
    if (content === '') throw new Error(`the report has no chart ${id}`);
    const [, , width, height] = viewBox.split(' ');
    return [
      name,
      `<svg xmlns="http://www.w3.org/2000/svg" class="chart${ranked}" width="${width}" height="${height}" viewBox="${viewBox}">
<style>${COLOURS}${CHART_STYLE}${FONT}</style>
<rect width="${width}" height="${height}" fill="var(--ground)"/>
${content}
</svg>
`,
    ];
  });
}
