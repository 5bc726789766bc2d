/** The messages of the verdict topic, as JSON Schema. */
import { KINDS } from '../domain/event/event';
import { OUTCOME_PROPERTIES, VERDICT_SPEC } from './outcome';
import { MAX_TEXT_BYTES } from './published-answer';

/** schemas/promo.verdict.v1.json is generated from here. */
export const VERDICT_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.verdict.v1',
  title: 'Verdict on a promotion event',
  description:
    'The decision on one delivered record. A record that is read again after a crash gives the same verdict again, with details and anomalies of that reading. Its source names the record, so that a consumer recognizes repeats. For an event of the webhook, source is null. If a crash kept such a verdict from being published, it comes only as the first_verdict of the next duplicate.',
  type: 'object',
  required: [
    'spec',
    'event_id',
    'operator_id',
    'feed_id',
    'connection_id',
    'verdict',
    'reason',
    'remedy',
    'source',
  ],
  properties: {
    spec: { const: VERDICT_SPEC },
    event_id: {
      description:
        'The id of the event. Null where the record holds no usable event_id. Null also where the id is too long for the topic: event_key is present then.',
      type: ['string', 'null'],
    },
    event_key: {
      description:
        'In place of an event_id that is too long for the topic: the key of the event in promo.events, in hexadecimal digits.',
      type: 'string',
    },
    operator_id: { description: 'Operator of the connection.', type: 'string' },
    feed_id: { description: 'Feed of the connection: where event_id is unique.', type: 'string' },
    connection_id: { description: 'Connection that the record belongs to.', type: 'string' },
    ...OUTCOME_PROPERTIES,
    decided_at: {
      description:
        'When this delivery was first answered, RFC 3339 in UTC with microseconds. A message that comes again has the same time. Null where the month of the first answer was dropped.',
      type: ['string', 'null'],
      pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$',
    },
    kind: {
      description:
        'Kind of the event. This field and the next ones are of this delivery, as it was read. Each is null where it is missing, not valid, or not read for the kind.',
      enum: [...KINDS, null],
    },
    brand: {
      description: 'Brand of the event: the one that it names, or the only one of its connection.',
      type: ['string', 'null'],
    },
    amount: {
      description:
        'The exact amount in major units, with all decimals of the currency: "10.50". Read it as a decimal, not as a floating-point number.',
      type: ['string', 'null'],
    },
    currency: { description: 'Code of the currency, upper case.', type: ['string', 'null'] },
    round_id: {
      description: `Round of the event. Null also where it has more than ${MAX_TEXT_BYTES} bytes of UTF-8: round_key is present then.`,
      type: ['string', 'null'],
    },
    round_key: {
      description:
        'In place of a long round_id: its key, in hexadecimal digits. That is the first 160 bits of the SHA-256 of its UTF-8.',
      type: 'string',
    },
    reversed: {
      description:
        'For an accepted refund: the sums of its round that counted until then and no longer count, by currency. Empty where nothing had counted, and for a refund of a round that was refunded before. The list has one entry for each currency at most, however many events the round has. So it never names them: they are all events of this round_id. Nothing of the round counts from then on, whatever the messages say that come before or after this one.',
      type: 'array',
      items: {
        type: 'object',
        required: ['currency', 'bet', 'win', 'settled'],
        properties: {
          currency: { type: 'string' },
          bet: { description: 'Sum of the bets, exact, in major units.', type: 'string' },
          win: { description: 'Sum of the wins, exact, in major units.', type: 'string' },
          settled: { description: 'The settled amount, exact, in major units.', type: 'string' },
        },
      },
    },
    source: {
      description: 'The Kafka record; null where the event came by the webhook.',
      type: ['object', 'null'],
      required: ['topic', 'partition', 'offset'],
      properties: {
        topic: { type: 'string' },
        partition: { type: 'integer' },
        offset: {
          description: 'Decimal, as text: offsets exceed the numbers that JSON readers keep exact.',
          type: 'string',
        },
        key: {
          description: `Key of the record. Null where the record has none, where it is no UTF-8, and where it has more than ${MAX_TEXT_BYTES} bytes.`,
          type: ['string', 'null'],
        },
        key_base64: { description: 'Key of the record, where it is no UTF-8.', type: 'string' },
        key_bytes: {
          description: 'Length of the key, where it is too long to be repeated.',
          type: 'integer',
        },
      },
    },
  },
} as const;
