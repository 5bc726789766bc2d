/** The connection of an envelope, and its judgement: unclaimed records, and undecodable ones. */
import type { Envelope } from '../../../src/intake/delivery';
import { type Prepared, prepare } from '../../../src/intake/prepare';
import { PayloadUnavailable } from '../../../src/intake/undecided';
import { aDocument, aLogin, anOperator, aReference, bytesOf } from '../../support/builders';

const TOPIC = 'shared';
/** A topic of two connections: the header of a record names its connection. */
const REFERENCE = aReference(
  aDocument(
    ...['acme', 'bravo'].map((id) =>
      anOperator({ id, connections: [{ id: `of-${id}`, transport: 'kafka', topic: TOPIC }] }),
    ),
  ),
);
const NOT_NOW = { type: 'unavailable', error: new Error('the registry is away') } as const;

function envelope(payload: Envelope['payload'], ...claims: readonly string[]): Envelope {
  return {
    value: Buffer.from('v'),
    payload,
    claims,
    offset: 0,
    key: null,
    headers: [],
    timestamp: '0',
  };
}
function prepareInto(batch: Prepared, ...envelopes: readonly Envelope[]) {
  prepare(batch, REFERENCE, { topic: TOPIC, partition: 0, no: 1 }, envelopes, false);
}
function prepared(...envelopes: readonly Envelope[]) {
  const batch: Prepared = { items: [], unanswered: [] };
  prepareInto(batch, ...envelopes);
  return batch.items.map((item) => (item.type === 'keyed' ? item.eventId : item.deadLetter));
}

const JSON_EVENT = { type: 'json', bytes: bytesOf(aLogin({ event_id: 'e' })) } as const;

it('an unreadable batch is undecodable on any topic, since its headers cannot be read', () => {
  expect(prepared(envelope({ type: 'undecodable', because: 'it is damaged' }))).toEqual(['undecodable']);
});

it('only a claimed record is a dead letter for its unknown schema', () => {
  const payload = { type: 'schema_unknown', schemaId: 7 } as const;
  expect(prepared(envelope(payload), envelope(payload, 'of-acme'))).toEqual(['unclaimed', 'schema_unknown']);
});

it('an unclaimed record does not wait until it can be decoded', () => {
  expect(prepared(envelope(NOT_NOW), envelope(JSON_EVENT, 'of-acme'))).toEqual(['unclaimed', 'e']);
});

it('a claimed record waits until it can be decoded, and the records before it do not', () => {
  const batch: Prepared = { items: [], unanswered: [] };
  expect(() => prepareInto(batch, envelope(JSON_EVENT, 'of-acme'), envelope(NOT_NOW, 'of-bravo'))).toThrow(
    new PayloadUnavailable('the registry is away', { cause: NOT_NOW.error }),
  );
  expect(batch.unanswered.map(({ eventId }) => eventId)).toEqual(['e']);
});
