/**
 * The verdict stream: each decision as a message, by which operators learn what became of their events (docs/rules.md, S7).
 * A message may come twice after a crash, with the same content; none is lost.
 */
import type { Connection } from '../domain/reference';
import { REASONS, type Reason, reasonInfo } from '../domain/verdict';
import type { Answer, DeadLetter, Source } from '../intake';
import { LETTER_HEADERS } from './dead-letters';
import type { OutgoingMessage } from './record-batch-writer';
import type { PublishVerdicts } from './record-source';
import type { Sender } from './sender';

export const VERDICT_SPEC = 'promo.verdict.v1';

/** schemas/promo.verdict.v1.json is generated from here. */
export const VERDICT_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.verdict.v1',
  title: 'Verdict on a promotion event',
  description:
    'What became of one delivered record. A record that is read again after a crash gives the same message again: source names the record, so that repeats can be told.',
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
      description: 'The event, or null where the record holds no usable event_id.',
      type: ['string', 'null'],
    },
    operator_id: { description: 'Operator of the connection.', type: 'string' },
    feed_id: { description: 'Feed of the connection: where event_id is unique.', type: 'string' },
    connection_id: { description: 'Connection that the record belongs to.', type: 'string' },
    verdict: {
      description:
        'duplicate: the event was decided already by another delivery, and keeps its first verdict.',
      enum: ['accepted', 'rejected', 'skipped', 'duplicate'],
    },
    reason: {
      description: 'Why it was rejected or skipped; null for accepted and duplicate.',
      enum: [...REASONS.map(({ name }) => name), null],
    },
    remedy: {
      description: 'What the operator does about it; null where there is nothing to do.',
      type: ['string', 'null'],
    },
    details: {
      description: 'What was found wrong, field by field; the first decided.',
      type: 'array',
      items: {
        type: 'object',
        required: ['field', 'reason', 'detail'],
        properties: {
          field: { description: 'JSON pointer of the field; empty for the whole record.', type: 'string' },
          reason: { type: 'string' },
          detail: { type: 'string' },
        },
      },
    },
    first_verdict: {
      description: 'For a duplicate: the verdict that stands.',
      enum: ['accepted', 'rejected', 'skipped'],
    },
    first_reason: { description: 'For a duplicate: the reason of that verdict.', type: ['string', 'null'] },
    content_differs: {
      description: 'For a duplicate: whether what was read differs from the delivery that was decided.',
      type: 'boolean',
    },
    source: {
      description: 'The Kafka record.',
      type: 'object',
      required: ['topic', 'partition', 'offset'],
      properties: {
        topic: { type: 'string' },
        partition: { type: 'integer' },
        offset: {
          description: 'Decimal, as text: offsets exceed what JSON readers keep exact.',
          type: 'string',
        },
      },
    },
  },
} as const;

/** What is the same in all messages about events of a connection, as text. */
interface About {
  /** The connection's fields. */
  readonly fields: string;
  readonly feed: string;
  /** All that stands between id and offset of an accepted event. */
  readonly accepted: string;
}

/**
 * Puts a partition's messages together as text. Most of a message is the same from one to the next, and making each as an object costs as much
 * as deciding its event.
 */
class VerdictWriter {
  private readonly source: string;
  private readonly connections = new Map<Connection, About>();

  constructor({ topic, partition }: Source) {
    this.source = `"source":{${fields({ topic, partition })},"offset":"`;
  }

  /**
   * The message for an answer; null for a dead letter, which belongs to no operator. Its key is the feed and the event, so that all about one
   * event stays in order.
   */
  write(answer: Answer): OutgoingMessage | null {
    const { connection, eventId, envelope } = answer;
    const outcome = outcomeOf(answer);
    if (connection === null || outcome === null) return null;
    const id = JSON.stringify(eventId);
    const about = this.about(connection);
    const middle = outcome === ACCEPTED ? about.accepted : this.middle(about.fields, outcome);
    return {
      key: eventId === null ? null : `[${about.feed},${id}]`,
      value: [BEGIN, id, middle, `${envelope.offset}"}}`],
      headers: NO_HEADERS,
    };
  }

  private middle(connectionFields: string, outcome: string): string {
    return `,${connectionFields},${outcome},${this.source}`;
  }

  private about(connection: Connection): About {
    const known = this.connections.get(connection);
    if (known !== undefined) return known;
    const { operator, feedId, id } = connection;
    const ofConnection = fields({ operator_id: operator.id, feed_id: feedId, connection_id: id });
    const accepted = this.middle(ofConnection, ACCEPTED);
    const about = { fields: ofConnection, feed: JSON.stringify(feedId), accepted };
    this.connections.set(connection, about);
    return about;
  }
}

/** An object's fields as they stand in a larger one. */
function fields(object: Record<string, unknown>): string {
  return JSON.stringify(object).slice(1, -1);
}

const BEGIN = `{${fields({ spec: VERDICT_SPEC })},"event_id":`;
const ACCEPTED = fields({ verdict: 'accepted', reason: null, remedy: null });
const NO_HEADERS = {};

/** What became of it, as fields; null for a dead letter. */
function outcomeOf(answer: Answer): string | null {
  const { decision } = answer;
  switch (decision.type) {
    case 'unstored':
      if (decision.deadLetter !== null) return null;
      return fields({ verdict: 'rejected', ...explain('no_idempotency_key', answer) });
    case 'duplicate':
      return fields({
        verdict: 'duplicate',
        reason: null,
        remedy: null,
        first_verdict: decision.first.verdict,
        first_reason: decision.first.reason,
        content_differs: decision.contentDiffers,
      });
    case 'decided':
      if (decision.outcome.verdict === 'accepted') return ACCEPTED;
      return fields({ verdict: decision.outcome.verdict, ...explain(decision.outcome.reason, answer) });
  }
}

function explain(reason: Reason | null, { faults }: Answer): Record<string, unknown> {
  if (reason === null) return { reason: null, remedy: null };
  const { charge, remedy } = reasonInfo(reason);
  // Faults are of this reading; of a record read again after a change of the reference data they may not be what decided then.
  const details = faults[0]?.reason === reason ? { details: faults } : {};
  return { reason, remedy: charge === 'nobody' ? null : remedy, ...details };
}

export function makePublishVerdicts(sender: Sender, topic: string): PublishVerdicts {
  return async (source, answers) => {
    const writer = new VerdictWriter(source);
    const messages = answers.map((answer) => writer.write(answer)).filter((message) => message !== null);
    if (messages.length > 0) await sender.send(topic, messages);
  };
}

/** Sends dead letters on as they came, with where they came from in the headers (docs/rules.md, S5). */
export function makeSendDeadLetters(sender: Sender, topic: string) {
  return async (letters: readonly DeadLetter[]): Promise<void> => {
    await sender.send(
      topic,
      letters.map(({ envelope, source, reason }) => ({
        key: envelope.key,
        value: envelope.value,
        headers: {
          ...envelope.headers,
          [LETTER_HEADERS.topic]: source.topic,
          [LETTER_HEADERS.partition]: String(source.partition),
          [LETTER_HEADERS.offset]: String(envelope.offset),
          [LETTER_HEADERS.timestamp]: envelope.timestamp,
          [LETTER_HEADERS.reason]: reason,
        },
      })),
    );
  };
}
