/** The colours of pages, and the style of charts and tables, as text: the build copies no files. */

const LIGHT = `--text: #1b1f24; --soft: #57606a; --line: #d0d7de; --ground: #ffffff; --raised: #f6f8fa; --link: #0550ae;
  --accepted: #1a7f37; --skipped: #8a6100; --rejected: #b3261e; --first: #0969da; --second: #8250df;
  --third: #0f766e; --fourth: #bc4c00; --fifth: #bf3989; --sixth: #57606a;`;
const DARK = `--text: #e6edf3; --soft: #9ea7b3; --line: #3d444d; --ground: #0d1117; --raised: #161b22; --link: #79b8ff;
  --accepted: #57ab5a; --skipped: #d4a72c; --rejected: #ff7b72; --first: #58a6ff; --second: #bc8cff;
  --third: #2dd4bf; --fourth: #f0883e; --fifth: #f778ba; --sixth: #9ea7b3;`;

/** The colours of light and dark screens. Paper is light. */
export const COLOURS = `:root { color-scheme: light dark; ${LIGHT} }
@media screen and (prefers-color-scheme: dark) { :root { ${DARK} } }
`;

/** Classes of series, in the order in which a chart of unnamed parts uses them. */
export const SERIES_STYLES = ['s-first', 's-second', 's-third', 's-fourth', 's-fifth', 's-sixth'] as const;

const SERIES = ['accepted', 'skipped', 'rejected', 'first', 'second', 'third', 'fourth', 'fifth', 'sixth']
  .map((name) => `.s-${name} { fill: var(--${name}); stroke: var(--${name}); color: var(--${name}); }`)
  .join('\n');

/** What every page has: links, focus, the link to the content, warnings and lists of facts. */
export const PAGE_STYLE = `* { box-sizing: border-box; }
a { color: var(--link); }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 8px; top: 8px; background: var(--ground); padding: 4px 8px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
main:focus-visible { outline: none; }
.warning { border-left: 4px solid var(--skipped); padding: 6px 12px; background: var(--raised); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 8px 18px; margin: 12px 0; }
.facts dt { color: var(--soft); font-size: 13px; } .facts dd { margin: 0; overflow-wrap: anywhere; }
`;

export const CHART_STYLE = `figure { margin: 18px 0; }
figcaption { font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 4px 0; padding: 0; list-style: none; color: var(--soft); font-size: 13px; }
.chart { display: block; width: 100%; min-width: 560px; height: auto; max-height: 320px; }
.chart.ranked { max-height: none; }
.axis line { stroke: var(--line); } .axis .zero { stroke: var(--soft); } .axis text { fill: var(--soft); font-size: 11px; }
.axis .name { fill: var(--text); font-size: 12px; }
${SERIES}
.chart rect { stroke: none; } .chart .line { fill: none; stroke-width: 1.8; } .chart .area { opacity: 0.14; stroke: none; }
.chart .spot { opacity: 0; }
`;

export const TABLE_STYLE = `.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; }
caption { text-align: left; color: var(--soft); padding: 2px 0; }
th, td { text-align: left; vertical-align: top; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); }
thead th { font-size: 13px; color: var(--soft); }
tbody th { font-weight: normal; }
.prose { min-width: 15em; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tag { padding: 0 7px; border: 1px solid currentColor; border-radius: 10px; font-size: 13px; white-space: nowrap; }
.tag.accepted, .tag.fine { color: var(--accepted); } .tag.skipped, .tag.look { color: var(--skipped); } .tag.rejected, .tag.act { color: var(--rejected); }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 14px 0; padding: 0; list-style: none; }
.tiles li { flex: 1 1 140px; padding: 10px 14px; border: 1px solid var(--line); border-radius: 8px; background: var(--raised); }
.tiles strong { display: block; font-size: 24px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--link); }
details table { width: auto; }
`;
