/** The demo's feed, decided by the real intake over a ledger in memory. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { faultyBet } from '../../dev/demo/cases';
import { FAULTY_BETS } from '../../dev/demo/faults';
import { expected, type FeedRecord, makeFeed } from '../../dev/demo/feed';
import { makePlay } from '../../dev/demo/play';
import { makeRandom } from '../../dev/random';
import { claim, compileReference, type Reference } from '../../src/domain/reference';
import { decide } from '../../src/domain/verdict/decide';
import { judge } from '../../src/domain/verdict/judge';
import { REASONS } from '../../src/domain/verdict/reasons';
import type { Answer, Envelope } from '../../src/intake/delivery';
import { makeIntake } from '../../src/intake/intake';
import { parseReference } from '../../src/reference-file/reference-file';
import { nothingKnown } from '../support/builders';
import { decidePart } from '../support/ledger';

const NOW = Date.UTC(2026, 10, 21, 12);
const feedOf = (events: number, seed = 1) => [...makeFeed({ seed, events, now: NOW })];

const referenceFile = join(__dirname, '../../dev/demo/reference.yaml');

function readReference(): Reference {
  const parsed = parseReference(readFileSync(referenceFile, 'utf8'), referenceFile);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  const numbers = new Map<string, number>();
  const numberOf = (name: string) => {
    const no = numbers.get(name) ?? numbers.size + 1;
    numbers.set(name, no);
    return no;
  };
  return compileReference(
    parsed.document,
    { version: 1, appliedAt: '' },
    {
      feed: (_operator, feed) => numberOf(`feed ${feed}`),
      connection: (id) => numberOf(`connection ${id}`),
      brand: (operator, brand) => numberOf(`brand ${operator} ${brand}`),
    },
  );
}

function toEnvelope({ key, value, headers }: FeedRecord, offset: number): Envelope {
  const bytes = value === null ? null : Buffer.from(value);
  const claims = headers['connection-id'] ?? [];
  return {
    offset,
    value: bytes,
    payload: bytes?.[0] === 0 ? { type: 'not_json' } : { type: 'json', bytes },
    claims: typeof claims === 'string' ? [claims] : claims,
    key: key === null ? null : Buffer.from(key),
    headers: [],
    timestamp: '0',
  };
}

/** Decides a feed as if each topic had one partition. */
async function decideFeed(records: readonly FeedRecord[]) {
  const reference = readReference();
  const known = nothingKnown();
  const intake = makeIntake({
    ledger: {
      decideBatch: async ({ items }) => ({ decisions: decide(items, known).decisions, facts: null }),
      partitionNo: async ({ topic }) => [...reference.topics.keys()].indexOf(topic),
    },
    references: { current: async () => reference, reload: async () => reference },
    sendDeadLetters: async () => {},
    logger: pino({ level: 'silent' }),
    now: () => 0,
  });
  const answers: Answer[] = [];
  for (const [offset, record] of records.entries()) {
    const result = await decidePart(intake, { topic: record.topic, partition: 0 }, [
      toEnvelope(record, offset),
    ]);
    if (result.undecided !== null) throw result.undecided;
    answers.push(...result.answers);
  }
  return { answers, rounds: known.rounds.values() };
}

function describeAnswer({ decision, faults }: Answer): string {
  switch (decision.type) {
    case 'decided':
      return decision.outcome.reason ?? decision.outcome.verdict;
    case 'duplicate':
      return decision.contentDiffers ? 'duplicate with other content' : 'duplicate';
    case 'unstored':
      return decision.deadLetter ?? faults[0]?.reason ?? 'unstored';
  }
}

describe('the feed', () => {
  it('is the same for the same seed, and differs for another seed', () => {
    expect(feedOf(3_000)).toEqual(feedOf(3_000));
    expect(feedOf(100, 2)).not.toEqual(feedOf(100, 1));
  });

  it('has exactly the wanted number of records', () => {
    expect([0, 1, 777].map((events) => feedOf(events).length)).toEqual([0, 1, 777]);
  });

  it('goes to the topics of the five Kafka connections of reference.yaml, two on one topic', () => {
    const { connections, topics } = readReference();
    const senders = [...connections.values()].filter(({ transport }) => transport === 'kafka');
    expect(senders).toHaveLength(5);
    expect([...topics.values()].map((bound) => bound.length).sort()).toEqual([1, 1, 1, 2]);
    expect(new Set(feedOf(2_000).map(({ topic }) => topic))).toEqual(new Set(topics.keys()));
  });

  it('has times of the last hours, and none of the future', () => {
    const times = feedOf(5_000)
      .flatMap(
        ({ value }) => /"occurred_at":"(\d{4}-[^"]*(?:Z|[+-]\d\d:\d\d))"/.exec(String(value))?.[1] ?? [],
      )
      .map((text) => Date.parse(text));
    expect(Math.max(...times)).toBeLessThan(NOW);
    expect(Math.min(...times)).toBeGreaterThan(NOW - 7 * 3_600_000);
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(5 * 3_600_000);
  });

  it('is skewed: the busiest player has many rounds, most players few', () => {
    const counts = new Map<string, number>();
    for (const { key } of feedOf(20_000)) if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1);
    const sorted = [...counts.values()].sort((a, b) => b - a);
    expect(sorted.length).toBeGreaterThan(500);
    expect(sorted[0]).toBeGreaterThan(20 * (sorted[sorted.length >> 1] ?? 0));
  });

  it('is generated record by record', () => {
    const feed = makeFeed({ seed: 1, events: 1e9, now: NOW })[Symbol.iterator]();
    expect(feed.next().value).toMatchObject({ topic: expect.stringMatching(/^promo\.demo\./) });
  });
});

describe('the feed causes', () => {
  it.each([1, 2, 3])('every verdict and reason except panic, with seed %i', async (seed) => {
    const { answers } = await decideFeed(feedOf(2_000, seed));
    expect(expected.reasons).toEqual(REASONS.map(({ name }) => name).filter((name) => name !== 'panic'));
    const wanted = [
      'accepted',
      ...expected.reasons,
      'unclaimed',
      'duplicate',
      'duplicate with other content',
    ];
    expect([...new Set(answers.map(describeAnswer))].sort()).toEqual(wanted.sort());
  });

  it('mostly accepted events', async () => {
    const answers = (await decideFeed(feedOf(20_000))).answers.map(describeAnswer);
    expect(answers.filter((answer) => answer === 'accepted').length).toBeGreaterThan(0.8 * answers.length);
  });

  it('every anomaly of a round, and refunded rounds', async () => {
    const { rounds } = await decideFeed(feedOf(2_000));
    expect(rounds.some((round) => round.secondSettled)).toBe(true);
    expect(rounds.some((round) => round.playerMismatch)).toBe(true);
    expect(rounds.some((round) => round.brandMismatch)).toBe(true);
    expect(rounds.some((round) => round.sums.size > 1)).toBe(true);
    expect(rounds.some((round) => round.refundedBy !== null)).toBe(true);
  });

  it('tombstones, records without key, texts that are not UTF-8', () => {
    const feed = feedOf(2_000);
    expect(feed.some(({ value }) => value === null)).toBe(true);
    expect(feed.some(({ key }) => key === null)).toBe(true);
    expect(feed.some(({ value }) => Buffer.isBuffer(value) && value[0] !== 0)).toBe(true);
  });

  it.each(FAULTY_BETS)('$reason for a bet that $name', (fault) => {
    const reference = readReference();
    const [arrival] = faultyBet(fault)(makePlay(makeRandom(1)), NOW);
    if (arrival === undefined) throw new Error('no bet was sent');
    const { value, claims } = toEnvelope(arrival.record, 0);
    const connection = claim(reference, arrival.record.topic, claims);
    const judged = judge({ type: 'json', bytes: value }, connection);
    expect(judged.faults[0]?.reason).toBe(fault.reason);
  });
});
