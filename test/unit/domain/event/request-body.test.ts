import { readBody } from '../../../../src/domain/event/request-body';
import { judge } from '../../../../src/domain/verdict/judge';
import { aBet, aConnection } from '../../../support/builders';

const LIMITS = { maxEvents: 10, maxValues: 20_000 };
const bytesOf = (text: string): Buffer => Buffer.from(text);

/** The texts of the events, or the problem of the body. */
function read(text: string | Buffer): readonly string[] | string {
  const body = readBody(typeof text === 'string' ? bytesOf(text) : text, LIMITS);
  if (body.type === 'too_many') return 'too many';
  if (body.type === 'too_many_values') return 'too many values';
  if (body.type === 'malformed') return `${body.isJson ? 'JSON' : 'no JSON'}: ${body.problem}`;
  return body.events.map(({ bytes, from, to }) => bytes?.toString('utf8', from, to) ?? '');
}

describe('a body is one event or a batch [S1] [W6]', () => {
  it.each<[string, string, readonly string[]]>([
    ['an event', '{"event_id":"e"}', ['{"event_id":"e"}']],
    ['an object without anything', ' {} ', [' {} ']],
    ['a batch of none', '{"events":[]}', []],
    ['a batch with blanks', ' { "events" : [ \n ] } ', []],
    ['a batch of one', '{"events":[{"event_id":"e"}]}', ['{"event_id":"e"}']],
    [
      'a batch of several',
      '{"events":[{"a":1}, {"b":[{}]} ,{"c":{"d":"]"}}]}',
      ['{"a":1}', '{"b":[{}]}', '{"c":{"d":"]"}}'],
    ],
    ['a batch beside other fields', '{"x":{"events":[1]},"events":[2],"y":"events"}', ['2']],
    [
      'texts with quotes and backslashes',
      '{"events":["\\"","\\\\","]","\\u005d"]}',
      ['"\\""', '"\\\\"', '"]"', '"\\u005d"'],
    ],
    [
      'an event that is no object',
      '{"events":[null,true,-1.5e+3,"a",[[]]]}',
      ['null', 'true', '-1.5e+3', '"a"', '[[]]'],
    ],
    ['letters beyond ASCII', '{"ä":"€","events":["𝄞"]}', ['"𝄞"']],
    ['of equal keys the last', '{"events":[1],"events":[2,3]}', ['2', '3']],
    ['the key however it is written', '{"\\u0065vents":[1]}', ['1']],
    ['an event that is a batch itself', '{"events":[{"events":[1]}]}', ['{"events":[1]}']],
  ])('%s', (_, text, events) => {
    expect(read(text)).toEqual(events);
  });

  it.each<[string, string | Buffer, string]>([
    ['nothing', '', 'no JSON: the body is empty'],
    ['half of an event', '{"event_id":', 'no JSON: the body ends too early, at byte 12: it was cut off'],
    [
      'a byte order mark',
      '\ufeff{}',
      'no JSON: the body begins with a byte order mark, so it is no JSON: send UTF-8 without one',
    ],
    [
      'bytes that are not UTF-8',
      Buffer.from([0x22, 0xff, 0x22]),
      'no JSON: the body is not valid UTF-8 at byte 1 (0xFF)',
    ],
    [
      'lines of events',
      '{}\n{}',
      'no JSON: the body holds several JSON values like NDJSON, the second one at byte 3: send each by itself',
    ],
    ['an array', '[{}]', 'JSON: the body is an array; send it inside an object: {"events": [...]}'],
    ['a text', '"e"', 'JSON: the body is not an object'],
    ['null', 'null', 'JSON: the body is not an object'],
    ['events that are an object', '{"events":{}}', 'JSON: events is not an array'],
    ['events that are null', '{"events":[1],"events":null}', 'JSON: events is not an array'],
  ])('%s is neither', (_, text, problem) => {
    expect(read(text)).toBe(problem);
  });
});

test('a batch with too many events or too many values is refused [W1] [V3]', () => {
  const batch = (count: number) => JSON.stringify({ events: Array(count).fill(0) });
  expect([read(batch(10)).length, read(batch(11))]).toEqual([10, 'too many']);
  // The object and its array are two values, and each comma is one more.
  const values = (count: number) => `{"event_id":"e","x":[${'0,'.repeat(count - 3)}0]}`;
  expect([read(values(20_000)).length, read(values(20_001))]).toEqual([1, 'too many values']);
});

test('an event of a batch is judged by itself, like a record with its bytes [D1]', () => {
  const events = [aBet(), { ...aBet(), amount: 5 }, 'no event', { ...aBet(), events: [] }];
  const body = readBody(bytesOf(JSON.stringify({ events })), LIMITS);
  if (body.type !== 'events') throw new Error(body.type);
  const connection = aConnection();
  const alone = events.map((event) =>
    judge({ type: 'json', bytes: bytesOf(JSON.stringify(event)) }, connection),
  );
  expect(body.events.map((event) => judge(event, connection))).toEqual(alone);
  expect(alone.map((judged) => judged.faults[0]?.reason)).toEqual([
    undefined,
    'bad_amount',
    'no_idempotency_key',
    'malformed',
  ]);
});
