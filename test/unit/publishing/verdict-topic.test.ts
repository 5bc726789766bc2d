/** Messages about accepted events share one buffer: each has its own id, whatever the ids look like. */
import fc from 'fast-check';
import { ACCEPTED, outcomeOf } from '../../../src/domain/verdict/reasons';
import { RecordsRefused } from '../../../src/kafka/producer';
import { type PublishedAnswer, withoutRecord } from '../../../src/publishing/published-answer';
import { makePublishVerdicts, VERDICT_SPEC } from '../../../src/publishing/verdict-topic';
import { aConnection } from '../../support/builders';
import { streamRecord } from '../../support/chunk';
import { idKey } from '../../support/id-key';
import { messagesOf, type SentMessage } from '../../support/record-batch';

const SOURCE = { topic: 'töpic "1"', partition: 3 };
const CONNECTIONS = [aConnection(), aConnection({ id: 'ümlaut' }, { id: '"quoted"' })];

/** Ids of few lengths, so that many overwrite others. Some have letters that JSON escapes. */
const plain = fc.constantFrom('a', 'i', '7', ' ', '~', '/');
const any = fc.constantFrom('a', '"', '\\', '\n', '\u007f', 'ä', '\u2028', '√', '𝄞');
const id = fc
  .tuple(fc.constantFrom(1, 2, 7, 64, 65), fc.constantFrom(plain, plain, any))
  .chain(([length, unit]) => fc.string({ unit, minLength: length, maxLength: length }));
const offset = fc.oneof(fc.nat(12), fc.maxSafeNat());

const answer: fc.Arbitrary<PublishedAnswer> = fc
  .record({ eventId: id, offset, connection: fc.constantFrom(...CONNECTIONS), isAccepted: fc.boolean() })
  .map(({ eventId, offset, connection, isAccepted }) => ({
    offset,
    ...{ connection, eventId, faults: [] },
    decision: {
      type: 'decided',
      outcome: isAccepted ? ACCEPTED : outcomeOf('bad_amount'),
      ...{ counted: false, redelivered: false },
    },
  }));

async function published(answers: readonly PublishedAnswer[]): Promise<SentMessage[]> {
  let sent: SentMessage[] = [];
  const publish = makePublishVerdicts(
    {
      send: async (_topic, items, encode) => {
        sent = await messagesOf(items, encode);
      },
      stop: async () => {},
    },
    'verdicts',
  );
  await publish(SOURCE, answers);
  return sent;
}

it('gives each event its own id and offset, as JSON [S7]', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(answer, { minLength: 1, maxLength: 40 }), async (answers) => {
      const messages = await published(answers);
      const read = messages.map(({ key, value }) => ({
        key: JSON.parse(String(key)),
        value: JSON.parse(String(value)),
      }));
      expect(read).toEqual(
        answers.map(({ offset, connection, eventId, decision }) => ({
          key: [connection?.feedId, eventId],
          value: {
            spec: VERDICT_SPEC,
            event_id: eventId,
            operator_id: connection?.operator.id,
            feed_id: connection?.feedId,
            connection_id: connection?.id,
            verdict: decision.type === 'decided' ? decision.outcome.verdict : null,
            reason: decision.type === 'decided' ? decision.outcome.reason : null,
            remedy:
              decision.type === 'decided' && decision.outcome.reason !== null ? expect.any(String) : null,
            ...(decision.type === 'decided' &&
              decision.outcome.reason !== null && { needs_new_event_id: true }),
            source: { ...SOURCE, offset: String(offset) },
          },
        })),
      );
    }),
  );
});

const LONG = 'ä'.repeat(500);
const ENDLESS = 'ö'.repeat(2 * 1024 ** 2);

it('names an event by its key where its id is too long for this topic, or for any topic [S7]', async () => {
  const [first] = fc.sample(answer, 1);
  if (first === undefined) throw new Error('no answer');
  const [short, long, endless] = ['a', LONG, ENDLESS].map(
    (eventId, offset): PublishedAnswer =>
      withoutRecord({ ...first, eventId, kind: 'bet', envelope: streamRecord(offset) }),
  );
  if (short === undefined || long === undefined || endless === undefined) throw new Error('no answers');
  const sent: SentMessage[] = [];
  const publish = makePublishVerdicts(
    {
      send: async (_topic, items, encode) => {
        const refused = new Map<unknown, string>();
        for (const item of items) {
          const messages = await messagesOf([item], encode);
          if (messages.some(({ value }) => (value?.length ?? 0) > 900)) refused.set(item, 'too large');
          else sent.push(...messages);
        }
        if (refused.size > 0) throw new RecordsRefused(refused);
      },
      stop: async () => {},
    },
    'verdicts',
  );
  await publish(SOURCE, [short, long, endless]);
  const named = sent.map(({ key, value }) => {
    const { event_id: eventId, event_key: eventKey, source } = JSON.parse(String(value));
    return [source.offset, eventId, eventKey, JSON.parse(String(key))[1]];
  });
  const keyOf = (eventId: string) => idKey(eventId).toString('hex');
  // An answer that waits for publication does not keep such an id in memory.
  expect([endless.eventId, endless.eventKey]).toEqual([null, keyOf(ENDLESS)]);
  expect(named).toEqual([
    ['0', 'a', undefined, 'a'],
    ['2', null, keyOf(ENDLESS), keyOf(ENDLESS)],
    ['1', null, keyOf(LONG), keyOf(LONG)],
  ]);
});

it('sends no message for a dead letter', async () => {
  const [first] = fc.sample(answer, 1);
  if (first === undefined) throw new Error('no answer');
  const letter: PublishedAnswer = {
    ...first,
    eventId: null,
    decision: { type: 'unstored', deadLetter: 'undecodable', redelivered: false },
  };
  expect(await published([letter])).toEqual([]);
});

it('no verdict of a test connection is published [C11]', async () => {
  const outcome = { type: 'decided', outcome: ACCEPTED, counted: true, redelivered: false } as const;
  const of = (connection: PublishedAnswer['connection'], eventId: string): PublishedAnswer => ({
    ...{ offset: 0, connection, eventId, faults: [] },
    decision: outcome,
  });
  const sent = await published([of(aConnection({}, { test: true }), 'test'), of(aConnection(), 'real')]);
  expect(sent.map(({ value }) => JSON.parse(String(value)).event_id)).toEqual(['real']);
});
