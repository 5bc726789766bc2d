/** Lists of ids as CSV: the head, the cells and the faults of a line. */
import { readCsvHead, readCsvLine } from '../../../src/reconciliation/csv';

const headOf = (first: string) => readCsvHead(Buffer.from(first));
function lineOf(head: string, line: string | Buffer) {
  const read = headOf(head);
  if (read === undefined) throw new Error('no head');
  return readCsvLine(Buffer.from(line), read);
}

describe('the first line', () => {
  test.each([
    ['names of columns', 'event_id,kind', true, ','],
    ['semicolons, as spreadsheets write them', 'event_id;kind', true, ';'],
    ['tabs', 'kind\tevent_id', true, '\t'],
    ['a byte order mark and a carriage return', '\uFEFFevent_id,kind\r', true, ','],
    ['capitals and blanks', ' Event_ID , Kind ', true, ','],
    ['quoted names', '"event_id","kind"', true, ','],
    ['the place of a record without an id', 'topic,partition,offset', true, ','],
    ['one id and no name', 'e-1', false, ','],
    ['an empty line', '', false, ','],
  ])('with %s is a head', (_, first, isNamed, delimiter) => {
    expect(headOf(first)).toMatchObject({ isNamed, delimiter });
  });

  test.each([
    ['columns, none of which is event_id', 'id,kind'],
    ['an offset without its topic', 'offset,kind'],
  ])('with %s is none: nothing can be looked up by it', (_, first) => {
    expect(headOf(first)).toBeUndefined();
  });
});

describe('a line', () => {
  test('has its columns in the order of the head, and others are ignored', () => {
    expect(lineOf('amount,kind,event_id,occurred_at', '1.00,bet,e-1,1970-01-01T00:00:01Z')).toMatchObject({
      eventId: 'e-1',
      kind: 'bet',
      occurredAtMicros: 1_000_000n,
      place: null,
      event: null,
      faults: [],
    });
  });

  test('has the place of its record, and partition 0 where none is named', () => {
    expect(lineOf('event_id,topic,partition,offset', 'e-1,events,3,77').place).toEqual({
      topic: 'events',
      partition: 3,
      offset: 77,
    });
    expect(lineOf('topic,offset', 'events,77').place).toEqual({ topic: 'events', partition: 0, offset: 77 });
    expect(lineOf('event_id,topic,offset', 'e-1,events,minus one').place).toBeNull();
  });

  test('an unknown kind and a wrong time are left out, and the id counts', () => {
    expect(lineOf('event_id,kind,occurred_at', 'e-1,bonus,yesterday')).toMatchObject({
      eventId: 'e-1',
      kind: null,
      occurredAtMicros: null,
    });
  });

  test('keeps the blanks of an id, which are part of it', () => {
    expect(lineOf('event_id,kind', ' e-1 , bet ')).toMatchObject({ eventId: ' e-1 ', kind: 'bet' });
  });

  test.each([
    ['a delimiter', '"e,1",bet', 'e,1'],
    ['a quotation mark', '"e""1",bet', 'e"1'],
    ['quotation marks alone', '"""",bet', '"'],
    ['a delimiter behind its quotation marks', '"e"-1,bet', 'e-1'],
    ['a quotation mark inside, which begins no cell', 'e"1,bet', 'e"1'],
  ])('a cell with %s is read by RFC 4180', (_, line, expected) => {
    expect(lineOf('event_id,kind', line)).toMatchObject({ eventId: expected, kind: 'bet' });
  });

  test('with a quoted cell may end with an empty one', () => {
    expect(lineOf('event_id,kind', '"e-1",')).toMatchObject({ eventId: 'e-1', kind: null });
  });

  test.each([
    ['has no id', 'kind,event_id', 'bet,', 'the line has no event_id'],
    ['is shorter than its head', 'kind,event_id', 'bet', 'the line has no event_id'],
    ['opens a quotation mark', 'event_id,kind', '"e-1,bet', 'a quotation mark of the line is not closed'],
    ['is not UTF-8', 'event_id', Buffer.from([0xff]), 'the line is not valid UTF-8'],
    ['has U+0000 in its id', 'event_id', 'e\0', 'event_id has a character that no id may have'],
  ])('that %s has no id, and a fault that explains it [F2]', (_, head, line, detail) => {
    expect(lineOf(head, line)).toMatchObject({
      eventId: null,
      faults: [{ reason: 'no_idempotency_key', field: '/event_id', detail }],
    });
  });

  test('without an id keeps the place and the kind, by which it may be found', () => {
    expect(lineOf('event_id,kind,topic,offset', ',bet,events,5')).toMatchObject({
      eventId: null,
      kind: 'bet',
      place: { topic: 'events', partition: 0, offset: 5 },
    });
  });
});
