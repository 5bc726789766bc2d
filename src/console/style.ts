/** The style sheet and the icon, as texts: the build copies no files. */

export const STYLE = `:root {
  color-scheme: light dark;
  --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --ground: #ffffff; --raised: #f6f8fa; --link: #0550ae;
  --accepted: #1a7f37; --skipped: #8a6100; --rejected: #b3261e; --first: #0969da; --second: #8250df;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --soft: #9ea7b3; --line: #3d444d; --ground: #0d1117; --raised: #161b22; --link: #79b8ff;
    --accepted: #57ab5a; --skipped: #d4a72c; --rejected: #ff7b72; --first: #58a6ff; --second: #bc8cff;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 8px; top: 8px; background: var(--ground); padding: 4px 8px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
main:focus-visible { outline: none; }
header { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; padding: 8px 24px; background: var(--raised); border-bottom: 1px solid var(--line); }
header p, header form { margin: 0; }
.brand { font-weight: 600; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 0; padding: 0; list-style: none; }
nav [aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
.search input { width: 11em; }
.sign-out { margin-left: auto; display: flex; gap: 10px; align-items: center; }
input, button { font: inherit; color: inherit; padding: 3px 8px; border: 1px solid var(--line); border-radius: 6px; background: var(--ground); }
button { cursor: pointer; background: var(--raised); }
main { max-width: 1180px; margin: 0 auto; padding: 8px 24px 48px; }
h1 { font-size: 24px; margin: 14px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 28px 0 8px; }
h3 { font-size: 14px; margin: 14px 0 4px; }
.note { color: var(--soft); margin: 6px 0; }
.warning { border-left: 4px solid var(--skipped); padding: 6px 12px; background: var(--raised); }
.error { border-left: 4px solid var(--rejected); padding: 6px 12px; background: var(--raised); }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 14px 0; padding: 0; list-style: none; }
.tiles li { flex: 1 1 140px; padding: 10px 14px; border: 1px solid var(--line); border-radius: 8px; background: var(--raised); }
.tiles strong { display: block; font-size: 24px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; }
caption { text-align: left; color: var(--soft); padding: 2px 0; }
th, td { text-align: left; vertical-align: top; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); }
thead th { font-size: 13px; color: var(--soft); }
tbody th { font-weight: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
time { font-variant-numeric: tabular-nums; white-space: nowrap; }
.id, code, pre { font-family: ui-monospace, monospace; font-size: 13px; }
.id { overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: 10px 12px; border: 1px solid var(--line); border-radius: 6px; background: var(--raised); }
.tag { padding: 0 7px; border: 1px solid currentColor; border-radius: 10px; font-size: 13px; white-space: nowrap; }
.tag.accepted, .tag.fine { color: var(--accepted); } .tag.skipped, .tag.look { color: var(--skipped); } .tag.rejected, .tag.act { color: var(--rejected); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 8px 18px; margin: 12px 0; }
.facts dt { color: var(--soft); font-size: 13px; } .facts dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 18px 0; }
figcaption { font-weight: 600; }
.legend { display: flex; gap: 16px; margin: 4px 0; padding: 0; list-style: none; color: var(--soft); font-size: 13px; }
.chart { width: 100%; height: auto; max-height: 320px; }
.axis line { stroke: var(--line); } .axis text { fill: var(--soft); font-size: 11px; }
.s-accepted { fill: var(--accepted); stroke: var(--accepted); color: var(--accepted); }
.s-skipped { fill: var(--skipped); stroke: var(--skipped); color: var(--skipped); }
.s-rejected { fill: var(--rejected); stroke: var(--rejected); color: var(--rejected); }
.s-first { fill: var(--first); stroke: var(--first); color: var(--first); }
.s-second { fill: var(--second); stroke: var(--second); color: var(--second); }
.chart rect { stroke: none; } .chart .line { fill: none; stroke-width: 1.8; } .chart .area { opacity: 0.14; stroke: none; }
.sign-in { display: grid; gap: 10px; max-width: 460px; margin: 18px 0; }
.sign-in input { display: block; width: 100%; }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--link); }
details table { width: auto; }
`;

export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0550ae"/><path d="M4 12V4h5a2.5 2.5 0 0 1 0 5H6v3z" fill="#fff"/></svg>`;
