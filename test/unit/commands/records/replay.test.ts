/** The offsets of a replay, and the records that are dead letters. */

import { readTime } from '../../../../src/cli/option-values';
import { makeDecide, rangesOf, refuseUnknown } from '../../../../src/commands/records/replay';
import { ConfigError } from '../../../../src/config/config';
import type { Answer, Envelope } from '../../../../src/intake/delivery';
import type { Header } from '../../../../src/lib/record-header';
import { originalHeaders, readLetter } from '../../../../src/publishing/dead-letters';
import { makeLogger } from '../../../../src/telemetry/logger';
import { aValue, streamRecord } from '../../../support/chunk';

const bounds = (more: object = {}) => ({
  partition: undefined,
  fromOffset: undefined,
  toOffset: undefined,
  sinceMs: undefined,
  untilMs: undefined,
  ...more,
});
const positions = [
  { topic: 't', partition: 0, low: 10, committed: 90 },
  { topic: 't', partition: 1, low: 0, committed: 20 },
  { topic: 't', partition: 2, low: 0, committed: null },
];
const range = (partition: number, from: number, to: number) => ({ topic: 't', partition, from, to });

test('a replay covers the offsets that Kafka still has and the group has read [U1]', () => {
  const since = new Map([
    [0, 5],
    [1, 7],
    [2, 0],
  ]);
  expect(rangesOf(bounds(), positions, since, null)).toEqual([range(0, 10, 90), range(1, 7, 20)]);
  const until = new Map([
    [0, 50],
    [1, 7],
    [2, 9],
  ]);
  expect(rangesOf(bounds(), positions, since, until)).toEqual([range(0, 10, 50)]);
});

test('offsets belong to one partition, and the last one is included', () => {
  const offsets = bounds({ partition: 0, fromOffset: 20, toOffset: 29 });
  expect(rangesOf(offsets, positions, null, null)).toEqual([range(0, 20, 30)]);
  expect(rangesOf(bounds({ partition: 0, fromOffset: 90 }), positions, null, null)).toEqual([]);
});

test.each<[string, number | undefined, string, string[], RegExp]>([
  ['a topic that Kafka does not have', undefined, 'none', ['none'], /^Kafka has no topic none, /],
  [
    'a partition that the topic does not have',
    99,
    't',
    ['t'],
    /^t has no partition 99\. Correct --partition$/,
  ],
  ['a topic that no connection names', 1, 't', ['other'], /^no connection .* names t: .* dead letters/],
])('%s is not replayed', (_, partition, topic, named, expected) => {
  const known = positions.filter((position) => position.topic === topic);
  expect(() => refuseUnknown({ topic, partition }, known, named)).toThrow(expected);
  expect(() => refuseUnknown({ topic: 't', partition: 1 }, positions, ['t'])).not.toThrow();
});

describe('a dead letter', () => {
  const original: Header[] = [
    ['connection-id', Buffer.from('b')],
    ['1', null],
    ['connection-id', Buffer.from('a')],
  ];
  const headers: Header[] = [
    ...original,
    ['source-topic', Buffer.from('t')],
    ['source-partition', Buffer.from('3')],
    ['source-offset', Buffer.from('7')],
    ['source-timestamp', Buffer.from('1000')],
    ['dead-letter-reason', Buffer.from('unclaimed')],
    ['dead-letter-detail', Buffer.from('no connection')],
  ];
  const record = {
    offset: 1,
    key: null,
    ...aValue(null),
    timestamp: '2000',
    headers,
  };

  test('has its reason, and keeps the headers of the record [S5]', () => {
    expect(readLetter(record)).toEqual({
      reason: 'unclaimed',
      source: { topic: 't', partition: 3, offset: 7 },
      sourceTimestampMs: 1000,
      origin: 't/3@7 1000',
      writtenMs: 2000,
      bytes: 0,
      detail: 'no connection',
    });
    expect([...originalHeaders(record)]).toEqual(original);
  });

  test.each(['source-topic', 'source-partition', 'source-offset', 'dead-letter-reason'])(
    'is none without %s',
    (missing) => {
      const others = headers.filter(([name]) => name !== missing);
      expect(readLetter({ ...record, headers: others })).toBeNull();
    },
  );
});

test.each([
  ['2026-11-22T10:00:00Z', Date.UTC(2026, 10, 22, 10)],
  ['2026-11-22T10:00+02:00', Date.UTC(2026, 10, 22, 8)],
  ['2026-11-22T10:00:00.250Z', Date.UTC(2026, 10, 22, 10, 0, 0, 250)],
  // November has 30 days: the first of December is not meant.
  ['2026-11-31T00:00:00Z', undefined],
  ['2026-11-22T10:00:00', undefined],
  ['2026-11-22', undefined],
])('the time of an option: %s', (text, expected) => {
  const read = () => readTime(new Map([['since', text]]), 'since');
  if (expected === undefined) expect(read).toThrow(ConfigError);
  else expect(read()).toBe(expected);
});

const anAnswer = (envelope: Envelope): Answer => ({
  envelope,
  connection: null,
  eventId: null,
  kind: null,
  faults: [],
  decision: { type: 'unstored', deadLetter: null, redelivered: false },
});

test('a replay counts a decision once, and retries a failed publish without deciding again [S7] [D3]', async () => {
  const decided: number[] = [];
  const published: number[] = [];
  const waits: number[] = [];
  let refusals = 2;
  const decide = makeDecide({
    intake: {
      async decide(parts) {
        return parts.map(({ envelopes }) => {
          decided.push(envelopes.length);
          return { answers: envelopes.map(anAnswer), undecided: null };
        });
      },
    },
    wireFormat: { decode: (bytes) => ({ type: 'json', bytes }) },
    async publishVerdicts(_, answers) {
      if (refusals-- > 0) throw new Error('the verdict topic refuses');
      published.push(answers.length);
    },
    logger: makeLogger('silent'),
    batchEvents: 2,
    onDecided: (answers) => decided.push(-answers.length),
    sleep: async (ms) => {
      waits.push(ms);
    },
  });
  const source = { topic: 't', partition: 0 };
  const records = [0, 1, 2].map((offset) => streamRecord(offset));

  await decide(source, records);
  expect([decided, published, waits]).toEqual([
    [2, -2, 1, -1],
    [2, 1],
    [1_000, 2_000],
  ]);

  refusals = 99;
  await expect(decide(source, records)).rejects.toThrow(
    't/0 is decided from offset 0 on, but its verdicts are not published: the verdict topic refuses',
  );
});
