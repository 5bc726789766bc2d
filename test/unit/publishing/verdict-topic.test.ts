/** Messages about accepted events share one buffer: each has its own id, whatever the ids look like. */
import fc from 'fast-check';
import { type Fields, KINDS, NO_FIELDS } from '../../../src/domain/event/event';
import { CURRENCIES, currencyOf, MAX_MINOR, toMajor } from '../../../src/domain/event/money';
import { ACCEPTED, outcomeOf } from '../../../src/domain/verdict/reasons';
import type { Reversed } from '../../../src/domain/verdict/round';
import { RecordsRefused } from '../../../src/kafka/producer';
import { VERDICT_SPEC } from '../../../src/publishing/outcome';
import {
  type PublishedAnswer,
  type RecordKey,
  withoutRecord,
} from '../../../src/publishing/published-answer';
import { makePublishVerdicts } from '../../../src/publishing/verdict-topic';
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

const minor = fc.oneof(fc.nat(1_000).map(BigInt), fc.bigInt({ min: 0n, max: MAX_MINOR }));
/** Few moments, so that many events share one. The texts of some fields are long or need escapes. */
const fields: fc.Arbitrary<Fields> = fc.record({
  kind: fc.constantFrom(null, ...KINDS),
  brand: fc.constantFrom(null, 'main', 'brand "2"', 'ü'),
  playerRef: fc.constant('p-1'),
  roundId: fc.oneof(
    fc.constant(null),
    id,
    fc.constantFrom('r'.repeat(1_000), 'r'.repeat(1_001), 'ü'.repeat(501)),
  ),
  gameId: fc.constant(null),
  amountMinor: fc.option(minor),
  currency: fc.option(fc.constantFrom(...CURRENCIES)),
  occurredAtMicros: fc.constant(0n),
});
const recordKey: fc.Arbitrary<RecordKey | null> = fc.oneof(
  fc.constant(null),
  id,
  fc.constantFrom({ base64: '/w==' }, { bytes: 1_001 }),
);

const expectedTimes = new Map([
  [0n, '1970-01-01T00:00:00.000000Z'],
  [1_795_740_000_123_456n, '2026-11-27T00:40:00.123456Z'],
]);
const expectedReversals = [
  { currency: 'EUR', bet: '10.50', win: '0.00', settled: '10000000000000000000000.07' },
  { currency: 'JPY', bet: '1050', win: '0', settled: '1000000000000000000000007' },
];

function reversal(code: string): Reversed {
  const currency = currencyOf(code);
  if (currency === undefined) throw new Error(`no currency ${code}`);
  return { currency, bet: 1_050n, win: 0n, settled: 10n ** 24n + 7n };
}

function expectedFields({ kind, brand, amountMinor, currency, roundId }: Fields) {
  const isLong = roundId !== null && Buffer.byteLength(roundId) > 1_000;
  return {
    kind,
    brand,
    currency: currency?.code ?? null,
    amount: amountMinor === null || currency === null ? null : toMajor(amountMinor, currency.scale),
    round_id: isLong ? null : roundId,
    ...(isLong && { round_key: idKey(roundId).toString('hex') }),
  };
}

function expectedKey(key: RecordKey | null) {
  if (key === null || typeof key === 'string') return { key };
  return 'base64' in key ? { key: null, key_base64: key.base64 } : { key: null, key_bytes: key.bytes };
}

const answer: fc.Arbitrary<PublishedAnswer> = fc
  .record({
    eventId: id,
    offset,
    connection: fc.constantFrom(...CONNECTIONS),
    isAccepted: fc.boolean(),
    fields,
    recordKey,
    decidedAt: fc.constantFrom(null, 0n, 1_795_740_000_123_456n),
    reversed: fc.constantFrom(undefined, undefined, [], [reversal('EUR'), reversal('JPY')]),
  })
  .map(({ isAccepted, ...rest }) => ({
    faults: [],
    ...rest,
    decision: {
      type: 'decided',
      outcome: isAccepted ? ACCEPTED : outcomeOf('bad_amount'),
      counted: false,
      redelivered: false,
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
        answers.map(({ offset, connection, eventId, decision, decidedAt, reversed, ...rest }) => ({
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
            decided_at: decidedAt == null ? null : expectedTimes.get(decidedAt),
            ...expectedFields(rest.fields ?? NO_FIELDS),
            ...(reversed !== undefined && { reversed: reversed.length === 0 ? [] : expectedReversals }),
            source: { ...SOURCE, offset: String(offset), ...expectedKey(rest.recordKey ?? null) },
          },
        })),
      );
    }),
  );
});

/** Without values of any length but that of its id. */
const SHORT = { kind: 'bet', fields: NO_FIELDS, recordKey: null, reversed: undefined } as const;
const LONG = 'ä'.repeat(500);
const ENDLESS = 'ö'.repeat(2 * 1024 ** 2);

it('names an event by its key where its id is too long for this topic, or for any topic [S7]', async () => {
  const [first] = fc.sample(answer, 1);
  if (first === undefined) throw new Error('no answer');
  const [short, long, endless] = ['a', LONG, ENDLESS].map(
    (eventId, offset): PublishedAnswer =>
      withoutRecord({ ...first, ...SHORT, eventId, envelope: streamRecord(offset) }),
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

it('keeps no round_id and no game of any length while an answer waits, and publishes the same [S7]', async () => {
  const [first] = fc.sample(answer, 1);
  if (first === undefined) throw new Error('no answer');
  const roundOf = async (roundId: string) => {
    const fields = { ...NO_FIELDS, kind: 'bet' as const, roundId, gameId: 'g'.repeat(5_000) };
    const kept = withoutRecord({ ...first, fields, kind: 'bet', envelope: streamRecord(0) });
    const [message] = await published([kept]);
    const { round_id: id, round_key: key } = JSON.parse(String(message?.value));
    return {
      kept: JSON.stringify(kept.fields, (_, value) => (typeof value === 'bigint' ? 0 : value)).length,
      id,
      key,
    };
  };
  const keyOf = (roundId: string) => idKey(roundId).toString('hex');
  for (const long of ['r'.repeat(1_001), 'ü'.repeat(501), 'r'.repeat(1024 ** 2)]) {
    const { kept, ...named } = await roundOf(long);
    expect(named).toEqual({ id: null, key: keyOf(long) });
    expect(kept).toBeLessThan(1_000);
  }
  expect(await roundOf('r'.repeat(1_000))).toMatchObject({ id: 'r'.repeat(1_000), key: undefined });
});

it('counts the messages, without dead letters and tests', async () => {
  const [first] = fc.sample(answer, 1);
  const connection = first?.connection;
  if (first === undefined || connection == null) throw new Error('no answer');
  const counts: unknown[] = [];
  const producer = { send: async () => {}, stop: async () => {} };
  const publish = makePublishVerdicts(producer, 'verdicts', (...count) => counts.push(count));
  const letter: PublishedAnswer = {
    ...first,
    eventId: null,
    decision: { type: 'unstored', deadLetter: 'undecodable', redelivered: false },
  };
  const tested: PublishedAnswer = { ...first, connection: { ...connection, isTest: true } };
  await publish(SOURCE, [first, letter, tested, { ...letter, connection: null }]);
  await publish(SOURCE, [letter, tested]);
  expect(counts).toEqual([['verdicts', 1, true]]);
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
    offset: 0,
    connection,
    eventId,
    faults: [],
    decision: outcome,
  });
  const sent = await published([of(aConnection({}, { test: true }), 'test'), of(aConnection(), 'real')]);
  expect(sent.map(({ value }) => JSON.parse(String(value)).event_id)).toEqual(['real']);
});
