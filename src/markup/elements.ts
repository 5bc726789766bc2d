/** Pieces of a page that the console and the report share: texts, numbers, tables. Pure. */
import { unitOfTime } from '../lib/duration';
import { inOneLine } from '../lib/printable';
import { type Html, html } from './html';

/** A foreign text: characters that hide or reorder their neighbours are shown as escapes. */
export function shownText(text: string | null): string {
  return inOneLine(text ?? '');
}

export function numberText(value: number | string | null): string {
  return value === null ? '' : Number(value).toLocaleString('en', { maximumFractionDigits: 1 });
}

/** "1,234.50" of an exact decimal, which may have more digits than a number. */
export function moneyText(decimal: string): string {
  const [, sign = '', whole = '', fraction = ''] = /^(-?)(\d+)(\.\d+)?$/.exec(decimal) ?? ['', '', decimal];
  return `${sign}${whole.replace(/\B(?=(\d{3})+$)/g, ',')}${fraction}`;
}

/** "8.8 d", "12.5 min" or "1.2 s". */
export function durationText(seconds: number): string {
  const unit = unitOfTime(seconds);
  return `${numberText(seconds / unit.seconds)}\u00a0${unit.short}`;
}

/** "98.7 %". Never 100 % where something is missing, and never 0 % where there is something. */
export function shareText(part: number, all: number): string {
  if (all === 0) return '-';
  const tenths = part === all ? 1_000 : Math.min(999, Math.round((part / all) * 1_000));
  if (part > 0 && tenths === 0) return '< 0.1\u00a0%';
  return `${(tenths / 10).toLocaleString('en')}\u00a0%`;
}

export interface Column<R> {
  readonly head: string;
  readonly cell: (row: R) => Html | string | null;
  readonly isNumber?: boolean;
  /** Sentences, which a narrow window must not cut into a word a line. */
  readonly isProse?: boolean;
}

export function table<R>(caption: string, columns: readonly Column<R>[], rows: readonly R[]): Html {
  const head = columns.map((column) => html`<th scope="col" class="${classOf(column)}">${column.head}</th>`);
  const body = rows.map((row) => {
    const cells = columns.map((column) => html`<td class="${classOf(column)}">${column.cell(row)}</td>`);
    return html`<tr>${cells}</tr>`;
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table><caption>${caption}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}

function classOf<R>({ isNumber, isProse }: Column<R>): string {
  return isNumber ? 'number' : isProse ? 'prose' : '';
}

export function facts(pairs: readonly (readonly [string, Html | string | null])[]): Html {
  const items = pairs
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`);
  return html`<dl class="facts">${items}</dl>`;
}

export function tile(name: string, value: Html | string): Html {
  return html`<li><strong>${value}</strong><span>${name}</span></li>`;
}

export function verdictTag(verdict: string | null): Html | null {
  return verdict === null ? null : html`<span class="tag ${verdict}">${verdict}</span>`;
}
