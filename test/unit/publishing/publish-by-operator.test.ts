/** Verdicts on a topic of each operator: the answers that wait for no topic. */
import { setTimeout as sleep } from 'node:timers/promises';
import { outcomeOf } from '../../../src/domain/verdict/reasons';
import type { EncodedMessage } from '../../../src/kafka/protocol/record-batch-writer';
import { makeOperatorTopics } from '../../../src/publishing/operator-topics';
import { NotAllPublished, type PublishedAnswer } from '../../../src/publishing/published-answer';
import { makePublishByOperator } from '../../../src/publishing/verdict-topic';
import { aConnection } from '../../support/builders';

const answerOf = (connection: PublishedAnswer['connection'], eventId = 'e-1'): PublishedAnswer => ({
  offset: 1,
  connection,
  eventId,
  faults: [],
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

test('batches of one request are answered each for itself, where a topic refuses the verdicts of all [S9]', async () => {
  const [acme, other] = [aConnection(), aConnection({ id: 'other' })];
  const requests: { readonly texts: readonly string[]; answer(): void }[] = [];
  const alone: string[][] = [];
  const counted: [topic: string, messages: number, isStored: boolean][] = [];
  const textOf = (message: EncodedMessage | null) =>
    /"event_id":"(.*?)".*?"partition":(\d)/
      .exec(message?.bytes.toString('latin1') ?? '')
      ?.slice(1)
      .join(' of ') ?? '';
  const publish = makePublishByOperator(
    {
      async send(topic, items, encode) {
        alone.push([topic, ...items.map((item) => textOf(encode(item)))]);
        throw new Error('refused');
      },
      sendToTopics: (items, encode) =>
        new Promise((resolve) => {
          const texts = [...items.values()].flat().map((item) => textOf(encode(item)));
          const unsent = new Map(items);
          unsent.delete('verdicts.other');
          requests.push({ texts, answer: () => resolve(unsent) });
        }),
      stop: async () => {},
    },
    makeOperatorTopics('verdicts.{operator}', '', () => []),
    (topic, messages, isStored) => counted.push([topic, messages, isStored]),
  );
  const outcomes = [0, 1, 2].map(async (partition) => {
    const answers = [answerOf(acme, `a-${partition}`), answerOf(other, `o-${partition}`)];
    const error: unknown = await publish({ topic: 'events', partition }, answers).catch((thrown) => thrown);
    return error instanceof NotAllPublished ? error.rest.map(({ eventId }) => eventId) : error;
  });
  requests[0]?.answer();
  while (requests.length < 2) await sleep(5);
  requests[1]?.answer();
  expect(await Promise.all(outcomes)).toEqual([['a-0'], ['a-1'], ['a-2']]);
  expect(requests.map(({ texts }) => texts)).toEqual([
    ['a-0 of 0', 'o-0 of 0'],
    ['a-1 of 1', 'a-2 of 2', 'o-1 of 1', 'o-2 of 2'],
  ]);
  expect(alone).toEqual([0, 1, 2].map((each) => ['verdicts.acme', `a-${each} of ${each}`]));
  expect(counted.filter(([, , isStored]) => isStored)).toEqual([
    ['verdicts.other', 1, true],
    ['verdicts.other', 2, true],
  ]);
});
