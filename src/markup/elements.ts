/** Pieces of a page that the console and the report share: texts, numbers, tables. Pure. */
import { inOneLine } from '../lib/printable';
import { type Html, html } from './html';

/** A foreign text: characters that hide or reorder their neighbours are shown as escapes. */
export function shownText(text: string | null): string {
  return inOneLine(text ?? '');
}

export function numberText(value: number | string | null): string {
  return value === null ? '' : Number(value).toLocaleString('en', { maximumFractionDigits: 1 });
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
}

export function table<R>(caption: string, columns: readonly Column<R>[], rows: readonly R[]): Html {
  const head = columns.map(
    ({ head, isNumber }) => html`<th scope="col" class="${isNumber ? 'number' : ''}">${head}</th>`,
  );
  const body = rows.map((row) => {
    const cells = columns.map(
      ({ cell, isNumber }) => html`<td class="${isNumber ? 'number' : ''}">${cell(row)}</td>`,
    );
    return html`<tr>${cells}</tr>`;
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table><caption>${caption}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
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
