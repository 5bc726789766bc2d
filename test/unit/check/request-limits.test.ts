/** The limits of a request, at their edges. */
import {
  MAX_BYTES,
  MAX_EVENTS,
  MAX_VALUES,
  tooMuchAlone,
  tooMuchTogether,
} from '../../../src/check/request-limits';
import { bodyBytes } from '../../../src/domain/event/request-body';

const lineOf = (bytes: Buffer | null) => ({ number: 1, bytes });
/** The most bytes of an event that is alone in a request. */
const MOST_ALONE = MAX_BYTES - bodyBytes(1, 0);
const eventOf = (bytes: number) => Buffer.from(`{"a":"${'x'.repeat(bytes - '{"a":""}'.length)}"}`);

test('an event of the last allowed byte fits, and one of a byte more does not [W1]', () => {
  expect(tooMuchAlone(lineOf(eventOf(MOST_ALONE)))).toBeUndefined();
  expect(tooMuchAlone(lineOf(eventOf(MOST_ALONE + 1)))).toBe(
    `a request with this event has ${MAX_BYTES + 1} bytes, more than the limit of ${MAX_BYTES}, unless agreed otherwise: the webhook would answer 413`,
  );
});

test('a line that was too long to be kept does not fit [W1]', () => {
  expect(tooMuchAlone(lineOf(null))).toContain('too large for a request');
});

test('an event with too many values does not fit, however few its bytes [W1]', () => {
  const arrays = (count: number) => Buffer.from(`[${'[],'.repeat(count - 1)}[]]`);
  expect(tooMuchAlone(lineOf(arrays(1_000)))).toBeUndefined();
  expect(tooMuchAlone(lineOf(arrays(MAX_VALUES + 1)))).toBe(
    `the event has more than ${MAX_VALUES} JSON values, the limit of a request, unless agreed otherwise: the webhook would answer 413`,
  );
});

test.each([
  [MAX_EVENTS, MAX_BYTES, undefined],
  [MAX_EVENTS + 1, 10, '501 events and 10 bytes'],
  [1, MAX_BYTES + 1, `1 event and ${MAX_BYTES + 1} bytes`],
])('%d events and %d bytes together: %s [W1]', (events, bytes, expected) => {
  const problem = tooMuchTogether(events, bytes);
  if (expected === undefined) expect(problem).toBeUndefined();
  else expect(problem).toContain(expected);
});
