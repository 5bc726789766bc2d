/** The limit on rejected events: counting, the pause of a topic, and its end (docs/rules.md, U7, U8). */
import type { Decision } from '../../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf } from '../../../src/domain/verdict/reasons';
import {
  isBeyond,
  makeRejectLimit,
  type RejectThreshold,
  slide,
  TopicPaused,
  tallyOf,
} from '../../../src/intake/reject-limit';
import { makeLogger } from '../../../src/telemetry/logger';

const decided = (outcome = ACCEPTED, redelivered = false): Decision => ({
  type: 'decided',
  outcome,
  counted: false,
  redelivered,
});
const GOOD = decided();
const BAD = decided(outcomeOf('brand_unmapped'));
const times = (count: number, decision: Decision): Decision[] => Array(count).fill(decision);

describe('the events that count', () => {
  test.each<[string, Decision, { events: number; rejected: number }]>([
    ['an accepted event', GOOD, { events: 1, rejected: 0 }],
    ['a skipped one', decided(outcomeOf('zero_amount')), { events: 1, rejected: 0 }],
    ['a rejected one', BAD, { events: 1, rejected: 1 }],
    [
      'an event without key',
      { type: 'unstored', deadLetter: null, redelivered: false },
      { events: 1, rejected: 1 },
    ],
    [
      'a dead letter',
      { type: 'unstored', deadLetter: 'schema_unknown', redelivered: false },
      { events: 1, rejected: 1 },
    ],
    [
      'a rejected event that is read again',
      decided(outcomeOf('malformed'), true),
      { events: 0, rejected: 0 },
    ],
    [
      'an event without key that is read again',
      { type: 'unstored', deadLetter: null, redelivered: true },
      { events: 0, rejected: 0 },
    ],
    [
      'a duplicate of a rejected event',
      {
        type: 'duplicate',
        first: outcomeOf('malformed'),
        firstTransport: 'kafka',
        contentDiffers: false,
        redelivered: false,
      },
      { events: 0, rejected: 0 },
    ],
  ])('%s [U8]', (_, decision, tally) => {
    expect(tallyOf([decision])).toEqual(tally);
  });
});

describe('the window', () => {
  const of = (...sizes: number[]) => sizes.map((events) => ({ events, rejected: 0 }));
  const slid = (batches: number[], batch: number) =>
    slide(of(...batches), { events: batch, rejected: 0 }, 100).map(({ events }) => events);

  test('has whole batches, as few as hold enough events [U7]', () => {
    expect(slid([], 10)).toEqual([10]);
    expect(slid([60, 30], 20)).toEqual([60, 30, 20]);
    expect(slid([60, 80], 20)).toEqual([80, 20]);
    expect(slid([60, 81], 20)).toEqual([81, 20]);
    expect(slid([60, 30], 100)).toEqual([100]);
    expect(slid([60, 30], 8_000)).toEqual([8_000]);
  });

  test('merges small batches, so that a large window of them is summed up as fast', () => {
    let window = slide([], { events: 1, rejected: 1 }, 1_000_000);
    for (let n = 1; n < 10_000; n++) window = slide(window, { events: 1, rejected: n % 2 }, 1_000_000);
    expect(window).toEqual(Array(10).fill({ events: 1_000, rejected: expect.any(Number) }));
    expect(window.reduce((sum, { rejected }) => sum + rejected, 0)).toBe(5_001);
  });

  test('does not keep batches without counted events, which would pile up [U8]', () => {
    expect(slid([60], 0)).toEqual([60]);
  });
});

test.each<[number, number, number, boolean]>([
  [100, 50, 50, false],
  [100, 51, 50, true],
  [99, 99, 50, false],
  [100, 100, 99, true],
  [1_000, 10, 1, false],
  [1_000, 11, 1, true],
  [0, 0, 1, false],
])(
  'of %i events %i rejected exceed %i percent, from 100 events on: %s [U7]',
  (events, rejected, percent, is) => {
    expect(isBeyond([{ events, rejected }], { percent, windowEvents: 1_000, minEvents: 100 })).toBe(is);
  },
);

describe('a topic', () => {
  const LIMIT: RejectThreshold = { percent: 50, windowEvents: 100, minEvents: 10 };
  const aLimit = () => makeRejectLimit(LIMIT, makeLogger('silent'));
  type Limit = ReturnType<typeof aLimit>;

  const referenceOf = (version: number, appliedAt = '0') => ({ version, appliedAt });

  /** A batch on its way through the intake. */
  function decide(
    limit: Limit,
    topic: string,
    version: number,
    decisions: Decision[],
    appliedAt?: string,
  ): void {
    limit.admit(topic, referenceOf(version, appliedAt));
    limit.check(topic, referenceOf(version, appliedAt), decisions)(true);
  }

  test('is paused by the batch that would exceed the limit, and the error says why [U7]', () => {
    const limit = aLimit();
    decide(limit, 't', 1, times(12, GOOD));
    decide(limit, 't', 1, times(12, BAD));
    expect(() => decide(limit, 't', 1, [BAD])).toThrow(
      'topic t is paused: 13 of its last 25 events would be rejected, most of them as brand_unmapped. Apply corrected reference data. Or correct the registry or the producer, and restart the workers.',
    );
    expect(limit.isPaused('t')).toBe(true);
  });

  test('stays paused with the same reference data, whatever comes, and other topics continue [U7]', () => {
    const limit = aLimit();
    expect(() => decide(limit, 't', 1, times(20, BAD))).toThrow(TopicPaused);
    expect(() => decide(limit, 't', 1, times(20, GOOD))).toThrow(TopicPaused);
    decide(limit, 'other', 1, times(20, GOOD));
    expect([limit.isPaused('t'), limit.isPaused('other')]).toEqual([true, false]);
  });

  test('is paused also for a batch that was judged before another partition met the limit [U7]', () => {
    const limit = aLimit();
    limit.admit('t', referenceOf(1));
    expect(() => decide(limit, 't', 1, times(20, BAD))).toThrow(TopicPaused);
    expect(() => limit.check('t', referenceOf(1), times(20, GOOD))).toThrow(TopicPaused);
  });

  test('continues with other reference data, and is paused again by events that this data rejects [U7]', () => {
    const limit = aLimit();
    decide(limit, 't', 1, times(8, BAD));
    expect(() => decide(limit, 't', 1, times(2, BAD))).toThrow(TopicPaused);
    expect(() => decide(limit, 't', 2, times(2, BAD))).toThrow(TopicPaused);
    decide(limit, 't', 3, times(8, GOOD));
    expect(limit.isPaused('t')).toBe(false);
  });

  test('continues with reference data that has the number of a version lost in a failover [U7, C9]', () => {
    const limit = aLimit();
    expect(() => decide(limit, 't', 2, times(20, BAD), '100.5')).toThrow(TopicPaused);
    decide(limit, 't', 2, times(20, GOOD), '200.25');
    expect(limit.isPaused('t')).toBe(false);
  });

  test('is not paused by a batch within the limit, even if two met it at once or good ones left the window', () => {
    const limit = aLimit();
    decide(limit, 't', 1, times(30, GOOD));
    // Two partitions check the limit before either is committed.
    const checked = [1, 2].map(() => limit.check('t', referenceOf(1), times(20, BAD)));
    for (const end of checked) end(true);
    decide(limit, 't', 1, times(30, GOOD));
    for (const end of [1, 2].map(() => limit.check('t', referenceOf(1), times(20, BAD)))) end(true);
    decide(limit, 't', 1, [GOOD]);
    decide(limit, 't', 1, [GOOD, BAD]);
    expect(() => decide(limit, 't', 1, [BAD])).toThrow(TopicPaused);
    const other = aLimit();
    decide(other, 't', 1, times(60, GOOD));
    decide(other, 't', 1, times(50, BAD));
    decide(other, 't', 1, times(60, GOOD));
    expect(other.isPaused('t')).toBe(false);
  });

  test('is not paused by few events, or by events that were not committed [U7]', () => {
    const limit = aLimit();
    decide(limit, 't', 1, times(3, BAD));
    for (let tries = 0; tries < 5; tries++) limit.check('t', referenceOf(1), times(5, BAD))(false);
    expect(limit.isPaused('t')).toBe(false);
  });
});
