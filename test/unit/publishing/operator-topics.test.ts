/** The topics of verdicts by operator: which operators can have one, and why others cannot. */
import { makeOperatorTopics, NoOperatorTopic } from '../../../src/publishing/operator-topics';

const topics = (pattern: string, others: Readonly<Record<string, string>> = {}) =>
  makeOperatorTopics(pattern, 'promo.verdict.v1.{operator}', () => new Map(Object.entries(others)));
const problemsOf = (
  pattern: string,
  operators: readonly string[],
  others?: Readonly<Record<string, string>>,
) =>
  topics(pattern, others)
    .problemsOf(operators)
    .map(({ message }) => message);

test('each operator has the topic of its id, and without a place for it all have the same', () => {
  const { isPerOperator, topicOf, topicsOf } = topics('promo.verdict.v1.{operator}');
  expect([isPerOperator, topicOf('acme'), topicsOf(['acme', 'ä', 'b-1'])]).toEqual([
    true,
    'promo.verdict.v1.acme',
    ['promo.verdict.v1.acme', 'promo.verdict.v1.b-1'],
  ]);
  const one = topics('promo.verdict.v1');
  expect([one.isPerOperator, one.topicOf('ä'), one.topicsOf(['a', 'b']), one.topicsOf([])]).toEqual([
    false,
    'promo.verdict.v1',
    ['promo.verdict.v1'],
    ['promo.verdict.v1'],
  ]);
});

test('an id with letters that mean something to a replacement is used as it is', () => {
  expect(() => topics('v.{operator}').topicOf('$&')).toThrow('"v.$&", which is not a Kafka topic name');
});

test('an id that makes no topic name is a problem with its remedy [S9]', () => {
  expect(problemsOf('v.{operator}', ['acme', 'ümlaut'])).toEqual([
    'operator "ümlaut" makes "v.ümlaut", which is not a Kafka topic name. A topic has letters, digits, ".", "_" and "-" only. Name one topic for all operators, without {operator}',
  ]);
  expect(problemsOf('{operator}', ['.', '..'])).toHaveLength(2);
  expect(problemsOf(`${'v'.repeat(245)}{operator}`, ['acme', 'acmes'])).toEqual([
    'operator "acmes" makes a topic name of 250 characters. Kafka allows 249. Shorten the part beside {operator}, or name one topic for all operators',
  ]);
});

test('a topic that is read, or that has dead letters, is no topic of verdicts [S9]', () => {
  const others = { 'promo.event.v1': 'a topic that is read', 'promo.dead_letters': 'the dead-letter topic' };
  expect(problemsOf('promo.{operator}', ['acme', 'event.v1', 'dead.letters'], others)).toEqual([
    'operator "event.v1" makes "promo.event.v1", which is a topic that is read. Use a separate beginning, such as promo.verdict.v1.{operator}',
    'operator "dead.letters" makes "promo.dead.letters", which Kafka takes for "promo.dead_letters", the dead-letter topic. Use a separate beginning, such as promo.verdict.v1.{operator}',
  ]);
  expect(() => topics('promo.{operator}', others).topicOf('event.v1')).toThrow(NoOperatorTopic);
});

test('two operators whose topics differ in dots and underscores are a problem: Kafka refuses the second [S9]', () => {
  expect(problemsOf('v.{operator}', ['a.b', 'c', 'a_b'])).toEqual([
    'operators "a.b" and "a_b" make topics that differ in "." and "_" only, and Kafka refuses the second. Name one topic for all operators, without {operator}',
  ]);
});
