/** schemas/topics.asyncapi.json: the topics of the service as AsyncAPI 3, for the tools that read it. */

import { SETTINGS } from '../../src/config/config';
import { EVENT_SCHEMA } from '../../src/domain/event/schema';
import { DEAD_LETTER_REASONS } from '../../src/domain/verdict/reasons';
import { LETTER_HEADERS, REPLAYED_HEADER } from '../../src/kafka/protocol/record';
import { CONNECTION_ID_HEADER } from '../../src/kafka/protocol/records-reader';
import { COMPLETION_SCHEMA } from '../../src/promotion-publishing/completion-schema';
import { VERDICT_SCHEMA } from '../../src/publishing/verdict-schema';
import { objectOf } from '../compatibility/json-schema';
import { completionExamples } from './message-examples';

const SCHEMA_FORMAT = 'application/schema+json;version=draft-2020-12';
const AVRO_FORMAT = 'application/vnd.apache.avro+json;version=1.9.0';
const CHANNEL_BINDING = { kafka: { bindingVersion: '0.5.0' } };

const component = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const published = (file: string, schemaFormat = SCHEMA_FORMAT) => ({
  schemaFormat,
  schema: { $ref: `./${file}` },
});
const text = (description: string) => ({ type: 'string', description });
const kafka = (binding: object) => ({ kafka: { ...binding, bindingVersion: '0.5.0' } });

/** A key of an event is the choice of its sender. */
const EVENT_KEY = text(
  'Any key. With the player as key, the events of a player stay in order, and those of a round are decided with the least work.',
);
const VERDICT_KEY = text(
  'A JSON array of feed_id and event_id, so that the messages about one event are in one partition. Null where there is no event_id.',
);
const COMPLETION_KEY = text(
  'The completion_id, so that all changes of a completion are in one partition, in their order.',
);
const REASONS = DEAD_LETTER_REASONS.map(({ name, meaning }) => `${name}: ${meaning}.`).join(' ');

const letterHeaders = {
  [LETTER_HEADERS.topic]: text('The topic of the record.'),
  [LETTER_HEADERS.partition]: text('Its partition, in decimal digits.'),
  [LETTER_HEADERS.offset]: text('Its offset, in decimal digits.'),
  [LETTER_HEADERS.timestamp]: text('Its timestamp, in milliseconds since 1970.'),
  [LETTER_HEADERS.reason]: { ...text(REASONS), enum: DEAD_LETTER_REASONS.map(({ name }) => name) },
  [LETTER_HEADERS.detail]: text('The cause in words, for people.'),
};

const MESSAGES = {
  event: {
    name: 'event',
    title: EVENT_SCHEMA.title,
    summary: `${EVENT_SCHEMA.description} A value is JSON in UTF-8, with or without the frame of a schema registry. Protobuf is not read.`,
    contentType: 'application/json',
    headers: component('schemas', 'eventHeaders'),
    payload: published('promo.event.v1.json'),
    bindings: kafka({ key: EVENT_KEY }),
    examples: EVENT_SCHEMA.examples.map((payload) => ({ name: payload.kind, payload })),
  },
  eventInAvro: {
    name: 'eventInAvro',
    title: `${EVENT_SCHEMA.title} in Avro`,
    summary:
      'The same event in the wire format of Confluent: the byte 0, a schema id of 4 bytes, and the record in Avro. A null is a missing field. Needs a schema registry of the service.',
    contentType: 'application/vnd.apache.avro',
    headers: component('schemas', 'eventHeaders'),
    payload: published('promo.event.v1.avsc', AVRO_FORMAT),
    bindings: kafka({
      key: EVENT_KEY,
      schemaIdLocation: 'payload',
      schemaIdPayloadEncoding: 'confluent',
    }),
  },
  verdict: {
    name: 'verdict',
    title: VERDICT_SCHEMA.title,
    summary: VERDICT_SCHEMA.description,
    contentType: 'application/json',
    payload: published('promo.verdict.v1.json'),
    bindings: kafka({ key: VERDICT_KEY }),
  },
  completion: {
    name: 'completion',
    title: COMPLETION_SCHEMA.title,
    summary: COMPLETION_SCHEMA.description,
    contentType: 'application/json',
    payload: published('promo.completion.v1.json'),
    bindings: kafka({ key: COMPLETION_KEY }),
    examples: completionExamples().map(([name, content]) => ({
      name: name.replace('.json', ''),
      payload: objectOf(JSON.parse(content)),
    })),
  },
  deadLetter: {
    name: 'deadLetter',
    title: 'A record that gets no verdict',
    summary:
      'The record as it came: its key, its value, and its headers. A header of the sender with a name of ours is left out.',
    contentType: 'application/octet-stream',
    headers: component('schemas', 'deadLetterHeaders'),
    payload: { description: 'The bytes of the record. Any bytes, and null where it has no value.' },
    bindings: kafka({ key: text('The key of the record.') }),
  },
};

function channel(title: string, description: string, example: string, messages: readonly string[]) {
  return {
    address: '{topic}',
    title,
    description,
    parameters: { topic: { description: 'The name of the topic.', examples: [example] } },
    messages: Object.fromEntries(messages.map((name) => [name, component('messages', name)])),
    bindings: CHANNEL_BINDING,
  };
}

const operation = (action: 'send' | 'receive', name: string, title: string) => ({
  action,
  title,
  channel: { $ref: `#/channels/${name}` },
});

export function renderAsyncApi(): string {
  const document = {
    asyncapi: '3.0.0',
    id: 'urn:promo-intake:topics',
    info: {
      title: 'The topics of promo-intake',
      version: '1',
      description:
        'The service reads promotion events and publishes a verdict on each. It also publishes the completions of promotions. Its actions are written from its own side: it receives events. The document grows by additions alone.',
      license: { name: 'Proprietary' },
    },
    defaultContentType: 'application/json',
    channels: {
      events: channel(
        'Events',
        'A topic of one connection, or a shared one. The reference data of the service names it. Its owner creates it.',
        'promo.event.v1',
        ['event', 'eventInAvro'],
      ),
      verdicts: channel(
        'Verdicts',
        `${SETTINGS.VERDICT_TOPIC.describe} A message comes after the decision is committed, and may come twice after a crash.`,
        'promo.verdict.v1',
        ['verdict'],
      ),
      completions: channel(
        'Completions',
        'Topic to which every entry of the ledger of completions is published. A message comes after the entry is committed, and may come again after a crash.',
        'promo.completion.v1',
        ['completion'],
      ),
      deadLetters: channel(
        'Dead letters',
        SETTINGS.DEAD_LETTER_TOPIC.describe,
        SETTINGS.DEAD_LETTER_TOPIC.example,
        ['deadLetter'],
      ),
    },
    operations: {
      receiveEvents: operation('receive', 'events', 'Decide events'),
      publishVerdicts: operation('send', 'verdicts', 'Publish verdicts'),
      publishCompletions: operation('send', 'completions', 'Publish completions'),
      keepDeadLetters: operation('send', 'deadLetters', 'Keep records that get no verdict'),
    },
    components: {
      messages: MESSAGES,
      schemas: {
        eventHeaders: {
          type: 'object',
          properties: {
            [CONNECTION_ID_HEADER]: text(
              'The connection of the record. Required on a topic that several connections share, and of no effect on others.',
            ),
          },
        },
        deadLetterHeaders: {
          type: 'object',
          description: 'Beside the headers of the record.',
          required: Object.values(LETTER_HEADERS),
          properties: {
            ...letterHeaders,
            [REPLAYED_HEADER]: text('The first source of a record that was sent back.'),
          },
        },
      },
    },
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
