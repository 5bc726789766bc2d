/** Entries of a reconciliation: an event, or its id alone. */
import { contentOf, contentsDiffer, placeOf, readEntry } from '../../../src/reconciliation/entry';
import { aBet, bytesOf, without } from '../../support/builders';
import { SEVERAL } from '../domain/world';

const entryOf = (json: unknown) => readEntry(bytesOf(json), SEVERAL);
const SOURCE = { topic: 'events', partition: 2, offset: 9 };

test('an event has its verdict of now, its kind, its time and its faults', () => {
  expect(entryOf(aBet({ event_id: 'e-1', occurred_at: '1970-01-01T00:00:01Z' }))).toMatchObject({
    eventId: 'e-1',
    kind: 'bet',
    occurredAtMicros: 1_000_000n,
    place: null,
    faults: [],
    event: { type: 'keyed', refusal: null },
  });
  expect(entryOf(aBet({ amount: 'x' }))).toMatchObject({
    event: { refusal: { reason: 'bad_amount' } },
    faults: [{ reason: 'bad_amount' }],
  });
});

test('an object with nothing but event_id and source is an id alone, which has no faults', () => {
  const alone = { eventId: 'e-1', event: null, kind: null, faults: [] };
  expect(entryOf({ event_id: 'e-1' })).toMatchObject({ ...alone, place: null });
  expect(entryOf({ event_id: 'e-1', source: SOURCE })).toMatchObject({ ...alone, place: SOURCE });
});

test('an object with one more field is an event, and a faulty one', () => {
  const entry = entryOf({ event_id: 'e-1', brand: 'main' });
  expect(entry.event).not.toBeNull();
  expect(entry.faults).not.toEqual([]);
});

test('without a usable id an entry has its place and its fault [F2]', () => {
  expect(entryOf({ ...without(aBet(), 'event_id'), source: SOURCE })).toMatchObject({
    eventId: null,
    event: null,
    place: SOURCE,
    faults: [{ field: '/event_id' }],
  });
  expect(readEntry(Buffer.from('{'), SEVERAL)).toMatchObject({ eventId: null, place: null });
});

describe('the place of a record', () => {
  test.each([
    ['numbers', 'events', 0, 0],
    ['digits', 'events', '0', '0'],
    ['the largest partition', 'events', 2 ** 31 - 1, '9007199254740991'],
  ])('of %s is valid', (_, topic, partition, offset) => {
    expect(placeOf(topic, partition, offset)).toEqual({
      topic,
      partition: Number(partition),
      offset: Number(offset),
    });
  });

  test.each([
    ['no topic', '', 0, 0],
    ['a topic that Postgres cannot store', 'a\0b', 0, 0],
    ['a topic with half of a surrogate pair', 'a\ud800', 0, 0],
    ['a partition beyond 31 bits', 'events', 2 ** 31, 0],
    ['a negative offset', 'events', 0, -1],
    ['half an offset', 'events', 0, 1.5],
    ['an offset that a number cannot hold', 'events', 0, '9007199254740993'],
    ['an offset in words', 'events', 0, 'one'],
    ['a blank before an offset', 'events', 0, ' 1'],
    ['no offset', 'events', 0, undefined],
  ])('with %s is none', (_, topic, partition, offset) => {
    expect(placeOf(topic, partition, offset)).toBeNull();
  });
});

test('contents differ where both are known and are not equal [K4]', () => {
  const event = aBet({ event_id: 'e-1', amount: '1.00' });
  const [bet, same, other, alone] = [
    event,
    { ...event, more: 'not listed' },
    { ...event, amount: '2.00' },
    { event_id: 'e-1' },
  ].map((json) => contentOf(entryOf(json)));
  expect(alone).toBe(0);
  expect(contentsDiffer(bet ?? 0, same ?? 0)).toBe(false);
  expect(contentsDiffer(bet ?? 0, other ?? 0)).toBe(true);
  expect(contentsDiffer(bet ?? 0, alone ?? 0)).toBe(false);
  expect(contentsDiffer(alone ?? 0, other ?? 0)).toBe(false);
});
