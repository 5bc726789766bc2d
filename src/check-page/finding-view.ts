/** Shows the finding on one event: verdict, faults with place and remedy, and the values that were read. */
import { duplicateText, type Finding } from '../check/finding';
import type { Fault, Fields } from '../domain/event/event';
import { toMajor } from '../domain/event/money';
import { nameOf, reasonInfo } from '../domain/verdict/reasons';
import { asSentence, escapeUnprintable } from '../lib/printable';
import { element } from './elements';

const ID_SHOWN = 200;

/** @param showLine marks the line in the text; undefined where the text is not shown */
export function findingView(finding: Finding, showLine: ((line: number) => void) | undefined): HTMLElement {
  const { line, eventId, verdict, faults, first, warning, fields } = finding;
  const place = showLine === undefined ? `Line ${line}` : lineButton(line, showLine);
  const problems = faults.map((fault, index) => faultItem(fault, index > 0 || first !== undefined));
  if (first !== undefined) problems.unshift(element('li', {}, duplicateText(first)));
  if (warning !== undefined) problems.push(element('li', {}, `Warning: ${warning}.`));
  return element(
    'li',
    { class: `finding ${verdict}` },
    element('h3', {}, place, element('span', { class: 'verdict' }, nameOf(finding))),
    ...(problems.length === 0 ? [] : [element('ul', {}, ...problems)]),
    valueList([...(eventId === null ? [] : [['event_id', shown(eventId)] as const]), ...valuesOf(fields)]),
  );
}

function lineButton(line: number, showLine: (line: number) => void): HTMLElement {
  const button = element('button', { type: 'button', class: 'line' }, `Line ${line}`);
  button.addEventListener('click', () => showLine(line));
  return button;
}

function faultItem({ reason, field, detail }: Fault, isFurther: boolean): HTMLElement {
  return element(
    'li',
    {},
    element('code', {}, field === '' ? 'payload' : field),
    `: ${asSentence(detail)}${isFurther ? ` (also ${reason})` : ''}`,
    element('span', { class: 'remedy' }, element('strong', {}, 'Remedy: '), reasonInfo(reason).remedy),
  );
}

/** The values as the service reads them. A field that is missing or wrong is left out. */
function valuesOf({ kind, amountMinor, currency, occurredAtMicros }: Fields): [string, string][] {
  const values: [string, string][] = [];
  if (kind !== null) values.push(['kind', kind]);
  if (amountMinor !== null && currency !== null) {
    const { code, scale } = currency;
    values.push([
      'amount',
      `${toMajor(amountMinor, scale)} ${code} = ${amountMinor} minor ${amountMinor === 1n ? 'unit' : 'units'}`,
    ]);
  }
  if (occurredAtMicros !== null) values.push(['occurred_at', utc(occurredAtMicros)]);
  return values;
}

const MICROS = 1_000_000n;

/** In UTC, with microseconds where there are any. */
function utc(micros: bigint): string {
  const fraction = ((micros % MICROS) + MICROS) % MICROS;
  const seconds = (micros - fraction) / MICROS;
  const text = new Date(Number(seconds) * 1000).toISOString().slice(0, -'.000Z'.length);
  return `${text}${fraction === 0n ? '' : `.${fraction.toString().padStart(6, '0')}`}Z`;
}

function valueList(values: readonly (readonly [string, string])[]): HTMLElement {
  const items = values.map(([name, value]) =>
    element('div', {}, element('dt', {}, name), element('dd', {}, element('code', {}, value))),
  );
  return element('dl', {}, ...items);
}

function shown(text: string): string {
  return escapeUnprintable(text.length <= ID_SHOWN ? text : `${text.slice(0, ID_SHOWN)}...`);
}
