/** The style sheet and the icon, as texts: the build copies no files. */
import { CHART_STYLE, COLOURS, PAGE_STYLE, TABLE_STYLE } from '../markup/style';

export const STYLE = `${COLOURS}${PAGE_STYLE}body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; padding: 8px 24px; background: var(--raised); border-bottom: 1px solid var(--line); }
header p, header form { margin: 0; }
.brand { font-weight: 600; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 0; padding: 0; list-style: none; }
nav [aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
.find { display: flex; flex-wrap: wrap; gap: 6px 24px; flex-basis: 100%; }
.search { display: flex; gap: 6px; align-items: center; }
.search input { width: 16em; max-width: 52vw; }
.sign-out { margin-left: auto; display: flex; gap: 10px; align-items: center; }
input, button { font: inherit; color: inherit; padding: 3px 8px; border: 1px solid var(--line); border-radius: 6px; background: var(--ground); }
button { cursor: pointer; background: var(--raised); }
main { max-width: 1180px; margin: 0 auto; padding: 8px 24px 48px; }
h1 { font-size: 24px; margin: 14px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 28px 0 8px; }
h3 { font-size: 14px; margin: 14px 0 4px; }
.note { color: var(--soft); margin: 6px 0; }
.error { border-left: 4px solid var(--rejected); padding: 6px 12px; background: var(--raised); }
time { font-variant-numeric: tabular-nums; white-space: nowrap; }
.id, code, pre { font-family: ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace; font-size: 13px; }
.id { overflow-wrap: anywhere; }
td:has(> .id) { min-width: 8em; }
pre { overflow-x: auto; padding: 10px 12px; border: 1px solid var(--line); border-radius: 6px; background: var(--raised); }
.sign-in { display: grid; gap: 10px; max-width: 460px; margin: 18px 0; }
.sign-in input { display: block; width: 100%; }
${TABLE_STYLE}${CHART_STYLE}`;

export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0550ae"/><path d="M4 12V4h5a2.5 2.5 0 0 1 0 5H6v3z" fill="#fff"/></svg>`;
