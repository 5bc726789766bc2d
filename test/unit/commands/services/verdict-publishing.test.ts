/** The topics that a process writes, with and without a verdict topic of each operator. */
import {
  makeRefusals,
  OwnTopics,
  verdictTopicStates,
} from '../../../../src/commands/services/verdict-publishing';
import { ConfigError } from '../../../../src/config/config';
import { aConnection } from '../../../support/builders';

const DEAD_LETTER_TOPIC = 'letters';
const referenceOf = (operators: readonly string[], topics: readonly string[]) => ({
  connections: new Map(operators.map((id) => [`of-${id}`, aConnection({ id }, { id: `of-${id}` })])),
  topics: new Map(topics.map((topic) => [topic, []])),
});

test('one verdict topic is written whatever the reference data names', () => {
  const own = new OwnTopics({ DEAD_LETTER_TOPIC, VERDICT_TOPIC: 'verdicts' });
  expect(own.all).toEqual(['letters', 'verdicts']);
  own.follow(referenceOf(['acme'], ['events']));
  expect(own.all).toEqual(['letters', 'verdicts']);
  expect(new OwnTopics({ DEAD_LETTER_TOPIC, VERDICT_TOPIC: undefined }).all).toEqual(['letters']);
});

test('the topics of operators follow the reference data [S9]', () => {
  const own = new OwnTopics({ VERDICT_TOPIC: 'v.{operator}' });
  expect(own.all).toEqual([]);
  own.follow(referenceOf(['beta', 'acme'], ['events']));
  expect(own.all).toEqual(['v.acme', 'v.beta']);
  own.follow(referenceOf(['acme', 'ümlaut'], ['events']));
  expect(own.all).toEqual(['v.acme']);
  own.checkEach(['acme']);
  expect(() => own.checkEach(['acme', 'ümlaut'])).toThrow(
    new ConfigError([
      {
        setting: 'VERDICT_TOPIC',
        problem: 'operator "ümlaut" makes "v.ümlaut", which is not a Kafka topic name',
        remedy: 'Any remedy',
      },
    ]).message.split('. ')[0],
  );
});

test('an operator whose topic is read, or has dead letters, has none [S9]', () => {
  const topics = { DEAD_LETTER_TOPIC, VERDICT_TOPIC: '{operator}' };
  const own = new OwnTopics(topics);
  own.follow(referenceOf(['acme', 'events', 'letters'], ['events']));
  expect(own.all).toEqual(['letters', 'acme']);
  expect(() => own.checkEach(['events'])).toThrow('"events", which is a topic that is read');
  expect(() => own.checkEach(['letters'])).toThrow('"letters", which is the dead-letter topic');
  const named = new OwnTopics({ ...topics, KAFKA_TOPICS: ['acme'] });
  named.follow(referenceOf(['acme'], []));
  expect(() => named.checkEach(['acme'])).toThrow('"acme", which is a topic that is read');
});

test('processes start beside an operator that can have no topic, unless no operator can have one [S9]', () => {
  const own = new OwnTopics({ VERDICT_TOPIC: 'v.{operator}' });
  own.checkAny();
  own.follow(referenceOf(['acme', 'ümlaut'], []));
  own.checkAny();
  own.follow(referenceOf(['ümlaut'], []));
  expect(() => own.checkAny()).toThrow('"v.ümlaut", which is not a Kafka topic name');
});

test('status has the state of each topic of verdicts [S9]', () => {
  const own = new OwnTopics({ VERDICT_TOPIC: 'v.{operator}' });
  own.follow(referenceOf(['acme', 'beta', 'cora', 'dora', 'ümlaut'], []));
  const seen = { existing: new Set(['v.acme', 'v.cora', 'v.dora']), compacted: ['v.cora', 'v.dora'] };
  const isCompacted = (topic: string) =>
    `Topic ${topic} is compacted. A compacted topic refuses messages without a key: set its cleanup.policy to delete`;
  expect(verdictTopicStates(own, seen)).toEqual([
    { operator: 'acme', topic: 'v.acme', state: 'present', problem: null },
    { operator: 'beta', topic: 'v.beta', state: 'missing', problem: null },
    { operator: 'cora', topic: 'v.cora', state: 'present', problem: isCompacted('v.cora') },
    { operator: 'dora', topic: 'v.dora', state: 'present', problem: isCompacted('v.dora') },
    {
      operator: 'ümlaut',
      topic: null,
      state: 'impossible',
      problem: expect.stringContaining('Kafka topic name'),
    },
  ]);
  const one = new OwnTopics({ VERDICT_TOPIC: 'verdicts' });
  expect(verdictTopicStates(one, { existing: new Set(), compacted: [] })).toEqual([
    { operator: null, topic: 'verdicts', state: 'missing', problem: null },
  ]);
});

describe('the refusals of topics', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  test('a topic that refuses one partition of two refuses, until two minutes have passed without a refusal', () => {
    const refuses: Record<string, number> = {};
    const onRefusal = makeRefusals((topic, value) => {
      refuses[topic] = value;
    });
    onRefusal('v.acme', false);
    onRefusal('v.beta', false);
    // A partition retries every 30 s, and others send meanwhile.
    for (let retry = 0; retry < 10; retry++) {
      onRefusal('v.acme', true);
      onRefusal('v.acme', false);
      expect(refuses).toEqual({ 'v.acme': 1, 'v.beta': 0 });
      jest.advanceTimersByTime(30_000);
    }
    jest.advanceTimersByTime(89_999);
    expect(refuses['v.acme']).toBe(1);
    jest.advanceTimersByTime(1);
    expect(refuses['v.acme']).toBe(0);
  });
});
