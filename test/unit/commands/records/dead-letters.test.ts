/** The lines of `dead-letters list`, and the letters that `dead-letters replay` sends. */
import {
  asJson,
  describeLetters,
  type Listed,
  makePlan,
} from '../../../../src/commands/records/dead-letters';
import { LETTER_HEADERS } from '../../../../src/kafka/protocol/record';
import type { OutgoingMessage } from '../../../../src/kafka/protocol/record-batch-writer';
import type { Header } from '../../../../src/lib/record-header';
import { readLetter } from '../../../../src/publishing/dead-letters';
import { aValue } from '../../../support/chunk';

const letter = (more: Partial<Listed> = {}): Listed => ({
  reason: 'unclaimed',
  source: { topic: 't', partition: 0, offset: 7 },
  sourceTimestampMs: Date.parse('2026-11-22T10:00:00Z'),
  origin: 't/0@7 1795341600000',
  writtenMs: Date.parse('2026-11-22T10:00:01Z'),
  bytes: 9,
  detail: null,
  partition: 3,
  offset: 4,
  ...more,
});
const counts = new Map([['unclaimed', 1]]);

test('a listed dead letter has reason, source and time', () => {
  expect(describeLetters([letter()], counts, 0, 'dead')).toEqual([
    '2026-11-22T10:00:01.000Z unclaimed: t/0 offset 7 of 2026-11-22T10:00:00.000Z, 9 bytes; letter at partition 3 offset 4',
    'dead: 1 dead letters (1 unclaimed)',
  ]);
});

test('the detail of a dead letter is a line of its own, without control characters', () => {
  const detail = 'the header connection-id claims "acme\u001b[31m", which is no connection of this topic';
  const claimed = letter({ detail });
  expect(describeLetters([claimed], counts, 0, 'dead')[1]).toBe(
    '  the header connection-id claims "acme\\u001b[31m", which is no connection of this topic',
  );
  expect(asJson([claimed], counts, 0, 'dead').newest).toMatchObject([{ detail }]);
});

test('the detail of a record is read from its header, up to a length', () => {
  const headers = ['topic', 'partition', 'offset', 'timestamp', 'reason', 'detail'] as const;
  const values = ['t', '0', '7', '1', 'unclaimed', 'd'.repeat(10_000)];
  const record = {
    timestamp: '1',
    value: null,
    headers: headers.map((each, place): Header => [LETTER_HEADERS[each], Buffer.from(values[place] ?? '')]),
  };
  expect(readLetter(record)?.detail).toBe('d'.repeat(400));
  expect(readLetter({ ...record, headers: record.headers.slice(0, -1) })?.detail).toBeNull();
});

// A sender that writes microseconds or nanoseconds instead of milliseconds; a header that is no number.
test.each([1.7e18, 8.64e15 + 1, -9e15, Number.NaN])('an impossible time is shown as unknown: %d', (ms) => {
  const odd = letter({ sourceTimestampMs: ms, writtenMs: ms });
  expect(describeLetters([odd], counts, 0, 'dead')[0]).toBe(
    'an unknown time unclaimed: t/0 offset 7 of an unknown time, 9 bytes; letter at partition 3 offset 4',
  );
  expect(asJson([odd], counts, 0, 'dead').newest).toMatchObject([{ written_at: null, source_time: null }]);
});

describe('a dead letter to send back', () => {
  const source = { topic: 't', partition: 0, offset: 7, timestampMs: 1_000 };
  /** A dead letter of the record at `from`, with its own place. */
  function found(text: string, from: Partial<typeof source>, headers: readonly Header[] = []) {
    const { topic, partition, offset, timestampMs } = { ...source, ...from };
    const ours = {
      'source-topic': topic,
      'source-partition': partition,
      'source-offset': offset,
      'source-timestamp': timestampMs,
      'dead-letter-reason': 'unclaimed',
    };
    const record = {
      key: Buffer.from('k'),
      ...aValue(Buffer.from(text)),
      claims: [],
      offset: 1,
      timestamp: '2000',
      payload: { type: 'json', bytes: Buffer.from(text) } as const,
      headers: [
        ...headers,
        ...Object.entries(ours).map(([name, value]): Header => [name, Buffer.from(String(value))]),
      ],
    };
    const letter = readLetter(record);
    if (letter === null) throw new Error('it is no dead letter');
    return { record, letter, partition: 0 };
  }
  const headersOf = ({ headers }: OutgoingMessage): Header[] =>
    [...headers].map(([name, value]): Header => [name, value === null ? null : Buffer.from(value)]);
  const sent = (...letters: ReturnType<typeof found>[]) =>
    [...makePlan(undefined).choose(letters).values()].flat().map(({ message }) => message);

  test('a record with several dead letters is sent once per run', () => {
    const trace: Header = ['trace', Buffer.from('a')];
    const first = found('e', {}, [trace]);
    const [back] = sent(first, found('e', {}, [trace]));
    expect(back).toMatchObject({ key: first.record.key, value: first.record.value, partition: 0 });
    const headers = headersOf(back!);
    expect(headers).toEqual([trace, ['dead-letter-replayed', Buffer.from('t/0@7 1000')]]);
    // No connection claimed it again.
    const second = found('e', { offset: 9, timestampMs: 3_000 }, headers);
    const [again, ...more] = sent(first, second);
    expect([headersOf(again!), more]).toEqual([headers, []]);
    const third = found('e', { offset: 12, timestampMs: 5_000 }, headersOf(sent(second)[0]!));
    expect(sent(third, second, first)).toHaveLength(1);
  });

  test('a topic that was created again has other records at the same offsets', () => {
    expect(sent(found('e', {}), found('e', { timestampMs: 1_001 }), found('another', {}))).toHaveLength(3);
  });

  test('a header cannot claim the record of another sender', () => {
    const claimed: Header = ['dead-letter-replayed', Buffer.from('t/0@7 1000')];
    expect(sent(found('forged', { offset: 8 }, [claimed]), found('e', {}))).toHaveLength(2);
  });
});
