/** The lists of a throwaway intake: their order, filters and bounds. */
import { NO_FIELDS } from '../../../src/domain/event/event';
import type { Decision } from '../../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf } from '../../../src/domain/verdict/reasons';
import type { Answer } from '../../../src/intake/delivery';
import { isObject, parseJson } from '../../../src/lib/json';
import { MAX_LISTED_EVENTS, MAX_LISTED_REFUSALS, makeEventLog } from '../../../src/try/event-log';
import { aBet, bytesOf } from '../../support/builders';

const ALL = { after: 0, limit: 100 };
const decidedAs = (outcome = ACCEPTED): Decision => ({
  type: 'decided',
  outcome,
  counted: true,
  redelivered: false,
});
function answerOf(eventId: string, decision = decidedAs(), value: Buffer | null = bytesOf(aBet())): Answer {
  const payload =
    value === null ? ({ type: 'not_json' } as const) : ({ type: 'json', bytes: value } as const);
  return {
    envelope: { value, payload, claims: [], offset: 0, key: null, headers: [], timestamp: '0' },
    connection: null,
    eventId,
    kind: 'bet',
    faults: [],
    decision,
    fields: NO_FIELDS,
  };
}
const MALFORMED = decidedAs(outcomeOf('malformed'));
const DUPLICATE: Decision = {
  type: 'duplicate',
  first: ACCEPTED,
  firstTransport: 'webhook',
  contentDiffers: false,
  redelivered: false,
};

function makeLog() {
  let now = 0;
  const log = makeEventLog(() => now);
  const jsonOf = (text: string): Record<string, unknown> => {
    const json = parseJson(text);
    if (!isObject(json)) throw new Error(`no object: ${text.slice(0, 100)}`);
    return json;
  };
  return {
    log,
    list: (filters: Partial<Parameters<typeof log.listEvents>[0]> = {}) =>
      jsonOf(log.listEvents({ ...ALL, ...filters })),
    idsOf: (filters: Partial<Parameters<typeof log.listEvents>[0]> = {}) => {
      const { events } = jsonOf(log.listEvents({ ...ALL, ...filters }));
      return (Array.isArray(events) ? events : []).map((event: unknown) => isObject(event) && event.event_id);
    },
    refusals: () => jsonOf(log.listRefusals()),
    sleep(ms: number) {
      now += ms;
    },
  };
}

test('an empty list has counts of 0, and the time of its begin', () => {
  expect(makeLog().list()).toEqual({
    since: '1970-01-01T00:00:00.000Z',
    counts: { accepted: 0, rejected: 0, skipped: 0, duplicate: 0, refused_requests: 0 },
    last: 0,
    listed: 0,
    matched: 0,
    events: [],
  });
});

test('an event is listed with its number, time, verdict, remedy and content', () => {
  const { log, list, sleep } = makeLog();
  sleep(1_500);
  log.add('hook', [answerOf('e-1', MALFORMED, Buffer.from('{"amount":1.00}'))]);
  expect(list().events).toMatchObject([
    {
      no: 1,
      received_at: '1970-01-01T00:00:01.500Z',
      connection_id: 'hook',
      event_id: 'e-1',
      verdict: 'rejected',
      reason: 'malformed',
      remedy: expect.any(String),
      event_bytes: 15,
      sentence: expect.stringContaining('malformed'),
    },
  ]);
  // A parsed number would be 1.
  expect(log.listEvents(ALL)).toContain('"event":{"amount":1.00}');
});

test.each<[string, Buffer | null, string]>([
  ['no JSON', Buffer.from('<script>'), '"event":"<script>","event_bytes":8'],
  ['a line feed and a quotation mark', Buffer.from('a\n"'), String.raw`"event":"a\n\"","event_bytes":3`],
  ['no bytes', null, '"event":null,"event_bytes":0'],
  ['more than 4 KiB', Buffer.alloc(4_097, ' '), '"event":null,"event_bytes":4097'],
])('the content of an event that is %s stays one field', (_, value, expected) => {
  const { log, list } = makeLog();
  log.add('hook', [answerOf('e-1', decidedAs(), value)]);
  expect(log.listEvents(ALL)).toContain(expected);
  expect(list().listed).toBe(1);
});

test('filters combine, and count the events that they leave', () => {
  const { log, list, idsOf } = makeLog();
  log.add('a', [answerOf('1'), answerOf('2', MALFORMED), answerOf('3', DUPLICATE)]);
  log.add('b', [answerOf('4', MALFORMED)]);
  expect(idsOf({ verdict: 'rejected' })).toEqual(['2', '4']);
  expect(idsOf({ verdict: 'rejected', connection: 'b' })).toEqual(['4']);
  expect(idsOf({ reason: 'malformed', after: 2 })).toEqual(['4']);
  expect(idsOf({ verdict: 'duplicate' })).toEqual(['3']);
  expect(idsOf({ limit: 2 })).toEqual(['3', '4']);
  expect(list({ limit: 0 })).toMatchObject({ matched: 4, events: [] });
  expect(list().counts).toMatchObject({ accepted: 1, rejected: 2, skipped: 0, duplicate: 1 });
});

test('beyond the bound the oldest events leave, and the counts and numbers go on', () => {
  const { log, list, idsOf } = makeLog();
  for (let no = 1; no <= MAX_LISTED_EVENTS + 3; no++) log.add('a', [answerOf(String(no), MALFORMED, null)]);
  const { listed, last, counts } = list({ limit: 0 });
  expect([listed, last, counts]).toEqual([
    MAX_LISTED_EVENTS,
    MAX_LISTED_EVENTS + 3,
    expect.objectContaining({ rejected: MAX_LISTED_EVENTS + 3 }),
  ]);
  expect(idsOf({ limit: MAX_LISTED_EVENTS })[0]).toBe('4');
});

test('large events leave before the bound of their number, and the newest one stays', () => {
  const { log, list, idsOf } = makeLog();
  const large = 'x'.repeat(9 * 1024 ** 2);
  for (const id of ['a', 'b']) log.add('hook', [answerOf(`${id}${large}`)]);
  expect(list().listed).toBe(1);
  expect(String(idsOf()[0])).toMatch(/^bx/);
});

test('refused requests have a list of their own, of which the oldest leave', () => {
  const { log, refusals } = makeLog();
  for (let no = 0; no < MAX_LISTED_REFUSALS + 2; no++)
    log.addRefusal({ request_id: `r-${no}`, connection_id: null, status: 401, message: 'no signature' });
  const { refusals: listed, counts } = refusals();
  expect(counts).toMatchObject({ refused_requests: MAX_LISTED_REFUSALS + 2 });
  expect(listed).toHaveLength(MAX_LISTED_REFUSALS);
  expect(Array.isArray(listed) && listed[0]).toMatchObject({ request_id: 'r-2', status: 401 });
});

test('a reset forgets events, refusals and counts, and numbers begin again', () => {
  const { log, list, refusals, sleep } = makeLog();
  log.add('a', [answerOf('1')]);
  log.addRefusal({ request_id: 'r', connection_id: null, status: 401, message: 'no signature' });
  sleep(60_000);
  log.clear();
  expect(list()).toMatchObject({ since: '1970-01-01T00:01:00.000Z', last: 0, listed: 0, events: [] });
  expect(refusals().refusals).toEqual([]);
  log.add('a', [answerOf('2')]);
  expect(list()).toMatchObject({ last: 1, events: [{ no: 1, event_id: '2' }] });
});
