/** The style sheet of a report. It is within the file, and the policy of the file allows it by its digest. */
import { CHART_STYLE, COLOURS, PAGE_STYLE, TABLE_STYLE } from '../markup/style';

export const REPORT_STYLE = `${COLOURS}${PAGE_STYLE}body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, "Open Sans", sans-serif; }
header, main, footer { max-width: 1080px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 28px; }
header p { margin: 2px 0; color: var(--soft); }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 18px 0 4px; }
nav { margin-top: 12px; padding: 8px 0; border-block: 1px solid var(--line); }
nav ul { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 0; padding: 0; list-style: none; font-size: 14px; }
section { margin: 34px 0; }
.lead { margin: 0 0 8px; max-width: 46em; }
.note { color: var(--soft); margin: 6px 0; max-width: 60em; }
.points { margin: 10px 0; padding: 0; list-style: none; display: grid; gap: 10px; }
.points li { display: grid; grid-template-columns: 74px 1fr; gap: 4px 12px; padding: 10px 14px; border: 1px solid var(--line); border-left: 4px solid var(--skipped); border-radius: 6px; background: var(--raised); }
.points li.act { border-left-color: var(--rejected); }
.points p { margin: 0; overflow-wrap: anywhere; } .points .remedy { color: var(--soft); grid-column: 2; }
.points .tag { justify-self: start; align-self: start; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 470px), 1fr)); gap: 0 28px; }
code { font-family: ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace; font-size: 13px; }
td code { white-space: nowrap; } td { min-width: 4em; }
${TABLE_STYLE}${CHART_STYLE}@media (max-width: 560px) {
  header, main, footer { padding: 0 14px; }
  h1 { font-size: 23px; }
  .points li { grid-template-columns: 1fr; } .points .remedy { grid-column: 1; }
  .tiles li { flex-basis: 42%; } .tiles strong { font-size: 20px; }
}
@media print {
  body { font-size: 11pt; }
  header, main { max-width: none; padding: 0; }
  nav, .skip, details { display: none; }
  section { margin: 18pt 0; }
  figure, .points li, .tiles, tr { break-inside: avoid; }
  h2, h3, figcaption, caption { break-after: avoid; }
  .scroll { overflow: visible; }
  .chart { min-width: 0; }
}
`;
