/** What a decided batch adds to the metrics: each answer under its own labels, and under no other's. */
import { pino } from 'pino';
import type { Decision } from '../../src/domain/decide';
import { KINDS } from '../../src/domain/event';
import type { Connection } from '../../src/domain/reference';
import { ACCEPTED, DEAD_LETTER_REASONS, outcomeOf, REASONS } from '../../src/domain/verdict';
import type { Answer, Envelope } from '../../src/intake';
import { makeMetrics } from '../../src/telemetry';
import { observeBatch } from '../../src/transports/observe';
import { aConnection } from '../support/builders';

const SOURCE = { topic: 't', partition: 0 };
const envelope: Envelope = {
  ...{ value: null, payload: { type: 'json', bytes: null }, claims: [], offset: 7, key: null },
  ...{ headers: {}, timestamp: '0' },
};
/** Connections whose numbers are far apart, next to one another, and as large as the store's can be. */
const connections: (Connection | null)[] = [null];
for (const no of [1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 129, 2_048, 2_049, 2 ** 31 - 1])
  connections.push({ ...aConnection({}, { id: `c-${no}` }), no });

const answerOf = (decision: Decision, kind: Answer['kind'], connection: Connection | null): Answer => ({
  ...{ envelope, connection, eventId: 'e', kind, faults: [], decision },
});

const outcomes = [ACCEPTED, ...REASONS.map(({ name }) => outcomeOf(name))];
/** Every decision that is counted by verdict. */
const decisions: readonly Decision[] = [
  ...outcomes.flatMap((outcome): Decision[] => [
    { type: 'decided', outcome, counted: false, redelivered: false },
    { type: 'duplicate', first: outcome, contentDiffers: false, redelivered: false },
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

type Metric = 'verdicts' | 'deadLetters' | 'redeliveries' | 'batchEvents';

async function observed(answers: readonly Answer[]) {
  const metrics = makeMetrics();
  const lines: unknown[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const increments = jest.spyOn(metrics.verdicts, 'inc');
  observeBatch({ metrics, logger }, SOURCE, answers, 12);
  const of = async (name: Metric) => (await metrics[name].get()).values;
  return { of, lines, increments: increments.mock.calls.length };
}

const nameOf = (labels: object) => JSON.stringify(Object.entries(labels).sort());

it('no two sets of labels share a count: every outcome, kind, connection, first and duplicate at once', async () => {
  const classes = new Map<string, number>();
  const answers: Answer[] = [];
  for (const connection of connections)
    for (const kind of [null, ...KINDS])
      for (const decision of decisions) {
        const answer = answerOf(decision, kind, connection);
        const name = nameOf(labelsOf(answer));
        // Numbers of answers that tell classes apart which were swapped, or put together.
        const times = 1 + (answers.length % 3);
        for (let i = 0; i < times; i++) answers.push(answer);
        classes.set(name, (classes.get(name) ?? 0) + times);
      }
  const { of, increments } = await observed(answers);
  const counted = (await of('verdicts')).map(({ labels, value }) => [nameOf(labels), value] as const);
  expect(new Map(counted)).toEqual(classes);
  // no_idempotency_key is the one reason that two decisions stand for, of which the store knows but one.
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

it('records that are read again and dead letters are no verdicts', async () => {
  const again = outcomes.flatMap((outcome): Decision[] => [
    { type: 'decided', outcome, counted: false, redelivered: true },
    { type: 'duplicate', first: outcome, contentDiffers: true, redelivered: true },
    { type: 'unstored', deadLetter: null, redelivered: true },
  ]);
  const letters = DEAD_LETTER_REASONS.map(
    ({ name }): Decision => ({
      ...{ type: 'unstored', deadLetter: name, redelivered: false },
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

it('a line of the log names the first records that it tells of, and counts all', async () => {
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
