/** Verdicts on a topic of each operator: the answers that wait for no topic. */
import { outcomeOf } from '../../../src/domain/verdict/reasons';
import { makeOperatorTopics } from '../../../src/publishing/operator-topics';
import { makePublishByOperator } from '../../../src/publishing/publish-by-operator';
import type { PublishedAnswer } from '../../../src/publishing/published-answer';
import { aConnection } from '../../support/builders';

const answerOf = (connection: PublishedAnswer['connection']): PublishedAnswer => ({
  ...{ offset: 1, connection, eventId: 'e-1', faults: [] },
  decision: { type: 'decided', outcome: outcomeOf('bad_amount'), counted: false, redelivered: false },
});

test('a verdict on a test waits for no topic of its operator, and counts as no message [C11] [S9]', async () => {
  const counted: [topic: string, messages: number][] = [];
  const publish = makePublishByOperator(
    {
      async send(topic) {
        throw new Error(`${topic} is missing`);
      },
      sendToTopics: async () => new Map(),
      stop: async () => {},
    },
    makeOperatorTopics('verdicts.{operator}', '', () => []),
    (topic, messages) => counted.push([topic, messages]),
  );
  const source = { topic: 'events', partition: 0 };
  await publish(source, [answerOf(aConnection({}, { test: true })), answerOf(null)]);
  expect(counted).toEqual([]);
  await expect(publish(source, [answerOf(aConnection())])).rejects.toThrow('is missing');
  expect(counted).toEqual([['verdicts.acme', 1]]);
});
