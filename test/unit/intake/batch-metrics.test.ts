/** A decided batch in the metrics: each answer counts under its own labels, and under no others. */
import { pino } from 'pino';
import { KINDS } from '../../../src/domain/event/event';
import type { Connection } from '../../../src/domain/reference';
import type { Decision } from '../../../src/domain/verdict/decide';
import { ACCEPTED, DEAD_LETTER_REASONS, outcomeOf, REASONS } from '../../../src/domain/verdict/reasons';
import { makeObserveAnswers, observeTransaction } from '../../../src/intake/batch-metrics';
import type { Answer, Envelope } from '../../../src/intake/delivery';
import type { PartitionStatus } from '../../../src/stream/position';
import type { Stream } from '../../../src/stream/stream';
import { observeState, observeTopics } from '../../../src/stream/worker-metrics';
import { makeMetrics } from '../../../src/telemetry/metrics';
import { aConnection } from '../../support/builders';

const SOURCE = { topic: 't', partition: 0 };
const envelope: Envelope = {
  value: null,
  payload: { type: 'json', bytes: null },
  claims: [],
  offset: 7,
  key: null,
  headers: [],
  timestamp: '0',
};
/** Connections whose numbers are far apart, next to one another, and as large as the store's can be. */
const connections: (Connection | null)[] = [null];
for (const no of [1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 129, 2_048, 2_049, 2 ** 31 - 1])
  connections.push({ ...aConnection({}, { id: `c-${no}` }), no });

const answerOf = (decision: Decision, kind: Answer['kind'], connection: Connection | null): Answer => ({
  envelope,
  connection,
  eventId: 'e',
  kind,
  faults: [],
  decision,
});

const outcomes = [ACCEPTED, ...REASONS.map(({ name }) => outcomeOf(name))];
/** Every decision that is counted by verdict. */
const decisions: readonly Decision[] = [
  ...outcomes.flatMap((outcome): Decision[] => [
    { type: 'decided', outcome, counted: false, redelivered: false },
    { type: 'duplicate', first: outcome, firstTransport: 'kafka', contentDiffers: false, redelivered: false },
  ]),
  { type: 'unstored', deadLetter: null, redelivered: false },
];

const labelsOf = ({ decision, kind, connection }: Answer) => {
  const [verdict, reason] =
    decision.type === 'unstored'
      ? ['rejected', 'no_idempotency_key']
      : decision.type === 'duplicate'
        ? ['duplicate', decision.first.reason ?? '']
        : [decision.outcome.verdict, decision.outcome.reason ?? ''];
  return { verdict, reason, kind: kind ?? '', connection: connection?.id ?? '' };
};

type Metric = 'verdicts' | 'duplicates' | 'deadLetters' | 'redeliveries' | 'batchEvents';

async function observed(answers: readonly Answer[]) {
  const metrics = makeMetrics();
  const lines: unknown[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const increments = jest.spyOn(metrics.verdicts, 'inc');
  observeTransaction({ metrics }, answers.length, 12);
  makeObserveAnswers({ metrics, logger, clock: { now: () => 0 } })(SOURCE, answers);
  const of = async (name: Metric) => (await metrics[name].get()).values;
  return { of, lines, increments: increments.mock.calls.length };
}

const nameOf = (labels: object) => JSON.stringify(Object.entries(labels).sort());

it('each set of labels has its own count: every outcome, kind, connection, first delivery and duplicate', async () => {
  const classes = new Map<string, number>();
  const answers: Answer[] = [];
  for (const connection of connections)
    for (const kind of [null, ...KINDS])
      for (const decision of decisions) {
        const answer = answerOf(decision, kind, connection);
        const name = nameOf(labelsOf(answer));
        // Different numbers of answers reveal classes that were swapped or merged.
        const times = 1 + (answers.length % 3);
        for (let i = 0; i < times; i++) answers.push(answer);
        classes.set(name, (classes.get(name) ?? 0) + times);
      }
  const { of, increments } = await observed(answers);
  const counted = (await of('verdicts')).map(({ labels, value }) => [nameOf(labels), value] as const);
  expect(new Map(counted)).toEqual(classes);
  // Two decisions have the reason no_idempotency_key, and the store knows only one of them.
  expect(increments).toBe(decisions.length * (1 + KINDS.length) * connections.length);
});

it('a batch makes one increment for all answers of a kind', async () => {
  const [connection = null] = connections.slice(1);
  const bet = answerOf(decisions[0]!, 'bet', connection);
  const win = answerOf(decisions[0]!, 'win', connection);
  const { of, increments } = await observed([bet, win, bet, bet]);
  expect((await of('verdicts')).map(({ labels, value }) => ({ labels, value }))).toEqual([
    { labels: labelsOf(bet), value: 3 },
    { labels: labelsOf(win), value: 1 },
  ]);
  expect(increments).toBe(2);
  expect((await of('batchEvents')).find(({ labels }) => Object.keys(labels).length === 0)?.value).toBe(4);
});

it('a duplicate is counted by the transports of both deliveries, and whether its content differs', async () => {
  const transports = ['kafka', 'webhook'] as const;
  const pairs = transports.flatMap((firstTransport) =>
    transports.flatMap((transport) =>
      [false, true].map((contentDiffers) => ({ firstTransport, transport, contentDiffers })),
    ),
  );
  const answers = pairs.flatMap(({ firstTransport, transport, contentDiffers }, index) => {
    const connection = { ...aConnection(), transport };
    const decision: Decision = {
      type: 'duplicate',
      first: ACCEPTED,
      firstTransport,
      contentDiffers,
      redelivered: false,
    };
    return Array.from({ length: 1 + index }, () => answerOf(decision, 'bet', connection));
  });
  const { of } = await observed(answers);
  expect((await of('duplicates')).map(({ labels, value }) => ({ labels, value }))).toEqual(
    pairs.map(({ firstTransport, transport, contentDiffers }, index) => ({
      labels: { first: firstTransport, transport, content: contentDiffers ? 'differs' : 'same' },
      value: 1 + index,
    })),
  );
});

it('gauges that are set at the scrape cover the partitions that this worker has now', async () => {
  const metrics = makeMetrics();
  const lookUps = { hit: 5, miss: 2, failure: 1 };
  const undecided = { ...SOURCE, failures: 3, because: 'x' };
  const standing = (partition: number, more: Partial<PartitionStatus>): PartitionStatus => ({
    topic: 't',
    partition,
    lag: 0,
    waitsSince: null,
    undecided: null,
    ...more,
  });
  let standings = [
    standing(0, { lag: 7, waitsSince: Date.now() - 60_000 }),
    standing(1, { lag: 9, undecided: { ...undecided, sinceMs: 30_000, cause: 'store' } }),
    standing(2, { lag: null, undecided: { ...undecided, sinceMs: 90_000, cause: 'store' } }),
    standing(3, { waitsSince: Date.now() + 60_000 }),
  ];
  const stream: Pick<Stream, 'partitionStatuses' | 'fetchAgeMs'> = {
    partitionStatuses: () => standings,
    fetchAgeMs: () => 250,
  };
  const lines = async (name: string) => {
    observeState(metrics, stream, lookUps);
    const text = await metrics.registry.getSingleMetricAsString(`promo_intake_${name}`);
    return text.split('\n').filter((line) => !line.startsWith('#'));
  };
  const of = (partition: number, state = 'deciding') =>
    `{topic="t",partition="${partition}",state="${state}"}`;
  expect(await lines('lag_records')).toEqual([
    `promo_intake_lag_records${of(0)} 7`,
    `promo_intake_lag_records${of(1, 'undecided')} 9`,
    `promo_intake_lag_records${of(3)} 0`,
  ]);
  const [first, , , last] = await lines('lag_seconds');
  expect(first).toMatch(/"0",state="deciding"} 6\d(\.|$)/);
  expect(last).toBe(`promo_intake_lag_seconds${of(3)} 0`);
  expect(await lines('undecided_seconds')).toContain('promo_intake_undecided_seconds{cause="store"} 90');
  expect(await lines('assigned_partitions')).toEqual(['promo_intake_assigned_partitions 4']);
  expect(await lines('fetch_age_seconds')).toEqual(['promo_intake_fetch_age_seconds 0.25']);
  expect(await lines('registry_lookups_total')).toEqual([
    'promo_intake_registry_lookups_total{result="hit"} 5',
    'promo_intake_registry_lookups_total{result="miss"} 2',
    'promo_intake_registry_lookups_total{result="failure"} 1',
  ]);

  standings = [standing(3, { lag: 1 })];
  expect(await lines('lag_records')).toEqual([`promo_intake_lag_records${of(3)} 1`]);
  expect(await lines('lag_seconds')).toHaveLength(1);
  expect(await lines('undecided_seconds')).toContain('promo_intake_undecided_seconds{cause="store"} 0');
});

it('a missing topic is reported until it exists, or until no connection names it', async () => {
  const metrics = makeMetrics();
  const lines = async (exists: Readonly<Record<string, boolean>>) => {
    observeTopics(metrics, new Map(Object.entries(exists)));
    const text = await metrics.registry.getSingleMetricAsString('promo_intake_missing_topics');
    return text.split('\n').filter((line) => !line.startsWith('#'));
  };
  const line = (topic: string, value: number) => `promo_intake_missing_topics{topic="${topic}"} ${value}`;
  expect(await lines({ a: true, b: false, c: false })).toEqual([line('a', 0), line('b', 1), line('c', 1)]);
  expect(await lines({ a: true, b: true })).toEqual([line('a', 0), line('b', 0)]);
});

it('redeliveries and dead letters do not count as verdicts', async () => {
  const again = outcomes.flatMap((outcome): Decision[] => [
    { type: 'decided', outcome, counted: false, redelivered: true },
    { type: 'duplicate', first: outcome, firstTransport: 'kafka', contentDiffers: true, redelivered: true },
    { type: 'unstored', deadLetter: null, redelivered: true },
  ]);
  const letters = DEAD_LETTER_REASONS.map(
    ({ name }): Decision => ({
      type: 'unstored',
      deadLetter: name,
      redelivered: false,
    }),
  );
  const { of, lines } = await observed(
    [...again, ...letters, ...letters].map((decision) => answerOf(decision, null, null)),
  );
  expect(await of('verdicts')).toEqual([]);
  expect(await of('redeliveries')).toMatchObject([{ value: again.length }]);
  expect(await of('deadLetters')).toMatchObject(
    DEAD_LETTER_REASONS.map(({ name }) => ({ labels: { reason: name }, value: 2 })),
  );
  expect(lines).toMatchObject(
    DEAD_LETTER_REASONS.map(({ name }) => ({ ...SOURCE, reason: name, records: 2, offsets: [7, 7] })),
  );
});

it('a log line names the first of its records, and counts all of them', async () => {
  const answers = Array.from({ length: 30 }, (_, offset) => ({
    ...answerOf({ type: 'unstored', deadLetter: null, redelivered: false }, null, null),
    envelope: { ...envelope, offset },
  }));
  const { lines } = await observed(answers);
  expect(lines).toMatchObject([
    {
      reason: 'no_idempotency_key',
      records: 30,
      offsets: Array.from({ length: 20 }, (_, offset) => offset),
      msg: 'records without event_id',
    },
  ]);
});

describe('lines on records without a verdict are limited, since a sender may cause them in every batch', () => {
  const unkeyed = answerOf({ type: 'unstored', deadLetter: null, redelivered: false }, null, null);
  const letter = answerOf({ type: 'unstored', deadLetter: 'unclaimed', redelivered: false }, null, null);
  let now = 0;
  const observing = () => {
    const metrics = makeMetrics();
    const lines: Record<string, unknown>[] = [];
    const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
    return { metrics, lines, observe: makeObserveAnswers({ metrics, logger, clock: { now: () => now } }) };
  };

  it('to one a minute for each reason and partition or connection, and all are counted', async () => {
    const { observe, lines, metrics } = observing();
    const sources = [SOURCE, { topic: 't', partition: 1 }, { connectionId: 'hook', requestIds: [] }];
    for (let batch = 0; batch < 500; batch++)
      for (const source of sources) observe(source, [unkeyed, letter]);
    expect(lines.map(({ reason, partition, connectionId }) => [reason, partition ?? connectionId])).toEqual(
      [0, 1, 'hook'].flatMap((place) => [
        ['no_idempotency_key', place],
        ['unclaimed', place],
      ]),
    );
    expect((await metrics.deadLetters.get()).values).toMatchObject([{ value: 1_500 }]);
    now += 60_000;
    observe(SOURCE, [unkeyed]);
    expect(lines.slice(6)).toMatchObject([{ ...SOURCE, records: 1, suppressed: 499 }]);
  });

  it('to a hundred a minute for all partitions', () => {
    const { observe, lines } = observing();
    for (let partition = 0; partition < 300; partition++) observe({ topic: 't', partition }, [letter]);
    expect(lines).toHaveLength(100);
  });
});
