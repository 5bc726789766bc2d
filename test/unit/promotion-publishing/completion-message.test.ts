/** The examples of messages about completions: they fit the schema, and have every change. */
import Ajv2020 from 'ajv/dist/2020';
import { completionExamples } from '../../../dev/generate/message-examples';
import { completionMessage, type OutboxEntry } from '../../../src/promotion-publishing/completion-message';
import { COMPLETION_SCHEMA } from '../../../src/promotion-publishing/completion-schema';
import { COMPLETION_CHANGES } from '../../../src/promotions/completion';

const bodies = completionExamples().map(([, content]) => JSON.parse(content));
const fits = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true }).compile(COMPLETION_SCHEMA);

test('each example fits the schema, and there is one of each change [S10]', () => {
  expect(bodies.map((body) => fits(body))).toEqual(bodies.map(() => true));
  expect(new Set(bodies.map(({ change }) => change))).toEqual(new Set(COMPLETION_CHANGES));
  expect(
    new Set(bodies.filter(({ rank }) => rank === null).map(({ completion_id }) => completion_id)).size,
  ).toBe(1);
});

test('a message without a field, or with an id of another form, does not fit the schema', () => {
  for (const field of COMPLETION_SCHEMA.required) {
    const { [field]: _, ...rest } = bodies[0];
    expect([field, fits(rest)]).toEqual([field, false]);
  }
  expect(fits({ ...bodies[0], completion_id: 'E79F' })).toBe(false);
});

const ENTRY: OutboxEntry = {
  entryNo: 1,
  operatorNo: 1,
  operatorId: 'acme',
  completionId: 'ab',
  change: 'completed',
  promotionId: 'p',
  version: 1,
  type: 'bet_count',
  window: 'once',
  startsAt: null,
  endsAt: null,
  playerRef: 'p-1',
  ordinal: 7,
  attempt: 1,
  changeNo: null,
  changedAt: '',
};

test('the key is the id of the completion, whatever happens to it and to its player [S10]', () => {
  const changes: Partial<OutboxEntry>[] = [{}, { change: 'revoked' }, { playerRef: 'erased:1' }];
  expect(changes.map((change) => completionMessage({ ...ENTRY, ...change }).key)).toEqual(['ab', 'ab', 'ab']);
});

test('a rank is that of a leaderboard alone [P15]', () => {
  const rankOf = (type: string) => JSON.parse(String(completionMessage({ ...ENTRY, type }).value)).rank;
  expect([rankOf('leaderboard'), rankOf('bet_count')]).toEqual([7, null]);
});
