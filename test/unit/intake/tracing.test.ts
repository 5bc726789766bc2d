/** The links from the span of a batch to the spans of its producers. */

import { linksOf, MAX_LINKS } from '../../../src/intake/tracing';
import type { Header } from '../../../src/lib/record-header';

const SPAN = '1234567890abcdef';
const trace = (n: number) => n.toString(16).padStart(32, '0');
const header = (n: number, flags = '01') => `00-${trace(n)}-${SPAN}-${flags}`;
const records = (...headers: readonly (string | readonly string[] | undefined)[]) =>
  headers.map((value, offset) => ({
    offset,
    headers: [value ?? []].flat().map((text): Header => ['traceparent', Buffer.from(text)]),
  }));
const linked = (...headers: readonly (string | readonly string[] | undefined)[]) =>
  linksOf(records(...headers)).map(({ context, attributes }) => [
    context.traceId,
    attributes?.['messaging.kafka.offset'],
  ]);

test('links name the sampled spans of the records, each once', () => {
  expect(linked(undefined, header(1), header(2, '00'), header(1), header(3, '03'))).toEqual([
    [trace(1), 1],
    [trace(3), 4],
  ]);
});

test('links leave out headers that are no traceparent', () => {
  const wrong = [
    '',
    'x',
    header(0),
    header(1).toUpperCase(),
    header(1).replace('00-', 'ff-'),
    header(1).slice(0, -1),
    header(1).replace(SPAN, '0'.repeat(16)),
  ];
  expect(linked(...wrong, 'x'.repeat(1_000_000))).toEqual([]);
});

test('links accept a later version of the header, and take the first of two headers', () => {
  expect(linked(`01-${trace(1)}-${SPAN}-01-more`, [header(2), header(3)])).toEqual([
    [trace(1), 0],
    [trace(2), 1],
  ]);
});

test(`at most ${MAX_LINKS} links are made`, () => {
  const many = Array.from({ length: 2 * MAX_LINKS }, (_, index) => header(index + 1));
  expect(linked(...many)).toEqual(many.slice(0, MAX_LINKS).map((_, index) => [trace(index + 1), index]));
});
