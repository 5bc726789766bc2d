/**
 * The verdict stream: one message for each decision, so that operators learn the outcome of their events
 * (docs/rules.md, S7). A message may come twice after a crash, with the same verdict. No message about a
 * record is lost. A message about an event of the webhook can be lost in a crash: the next duplicate then
 * carries the verdict as first_verdict.
 */
import { idKey } from '../domain/event/id-key';
import type { Connection } from '../domain/reference';
import { isPartition, type Origin } from '../intake/delivery';
import { RecordsRefused, type Sender } from '../kafka/producer';
import {
  type EncodedMessage,
  MessageEncoder,
  type OutgoingMessage,
} from '../kafka/protocol/record-batch-writer';
import { ACCEPTED_FIELDS, fields, OUTCOME_PROPERTIES, outcomeFields } from './outcome';
import type { PublishedAnswer, PublishVerdicts } from './published-answer';

export const VERDICT_SPEC = 'promo.verdict.v1';

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
      },
    },
  },
} as const;

/** The parts that are the same in all messages about events of a connection. */
interface About {
  /** The connection's fields. */
  readonly fields: string;
  readonly feed: string;
  /** Templates of messages about accepted events, by the lengths of id and offset. */
  readonly accepted: Map<number, AcceptedTemplate>;
}

/**
 * Writes the messages about a partition's records, or about a request. Messages about accepted events differ
 * in id and offset alone. Such a message is written over the one before it: that costs far less than to build
 * it again.
 */
export class VerdictWriter {
  private readonly encoder = new MessageEncoder();
  /** The text in front of the offset, and the text after it. */
  private readonly source: readonly [begin: string, end: string];
  private readonly connections = new Map<Connection, About>();

  constructor(private readonly origin: Origin) {
    this.source = isPartition(origin)
      ? [`"source":{${fields({ topic: origin.topic, partition: origin.partition })},"offset":"`, '"}}']
      : ['"source":null}', ''];
  }

  /**
   * The message for an answer; null for a dead letter, which belongs to no operator. The key is the feed and
   * the event, so that all messages about one event stay in order.
   */
  encode(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    // Who computes promotions reads this topic, and no test may count there (C11).
    if (connection === null || connection.isTest === true || outcome === null) return null;
    const about = this.about(connection);
    const offset = this.offsetOf(answer);
    if (answer.eventKey !== undefined) return this.encodeKeyed(answer);
    if (outcome !== ACCEPTED_FIELDS || eventId === null || eventId.length > MAX_TEMPLATE_ID_LENGTH)
      return this.encoder.encode(this.message(about, outcome, eventId, offset));
    const lengths = eventId.length * MAX_OFFSET_LENGTH + offset.length;
    let template = about.accepted.get(lengths);
    if (template === undefined) {
      const [anyId, anyOffset] = ['i'.repeat(eventId.length), '0'.repeat(offset.length)];
      template = new AcceptedTemplate(
        this.encoder.encode(this.message(about, outcome, anyId, anyOffset)),
        anyId,
        anyOffset + this.source[1],
      );
      about.accepted.set(lengths, template);
    }
    return template.write(eventId, offset)
      ? template
      : this.encoder.encode(this.message(about, outcome, eventId, offset));
  }

  /** The message with a key of fixed length in place of the event_id: small, however long the id is. */
  encodeKeyed(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    const key = answer.eventKey ?? (eventId === null ? undefined : idKey(eventId).toString('hex'));
    if (connection === null || outcome === null || key === undefined) return this.encode(answer);
    const about = this.about(connection);
    const eventKey = JSON.stringify(key);
    return this.encoder.encode({
      key: `[${about.feed},${eventKey}]`,
      value: `${BEGIN}null,"event_key":${eventKey},${about.fields},${outcome},${this.sourceOf(this.offsetOf(answer))}`,
      headers: NO_HEADERS,
    });
  }

  private message(about: About, outcome: string, eventId: string | null, offset: string): OutgoingMessage {
    const id = JSON.stringify(eventId);
    return {
      key: eventId === null ? null : `[${about.feed},${id}]`,
      value: `${BEGIN}${id},${about.fields},${outcome},${this.sourceOf(offset)}`,
      headers: NO_HEADERS,
    };
  }

  /** The offset in decimal digits; empty for an event of the webhook. */
  private offsetOf({ offset }: PublishedAnswer): string {
    return isPartition(this.origin) ? String(offset) : '';
  }

  private sourceOf(offset: string): string {
    const [begin, end] = this.source;
    return begin + offset + end;
  }

  private about(connection: Connection): About {
    const known = this.connections.get(connection);
    if (known !== undefined) return known;
    const { operator, feedId, id } = connection;
    const ofConnection = fields({ operator_id: operator.id, feed_id: feedId, connection_id: id });
    const about = { fields: ofConnection, feed: JSON.stringify(feedId), accepted: new Map() };
    this.connections.set(connection, about);
    return about;
  }
}

/**
 * A template of a message about an accepted event: ids and offsets of the same lengths are written into it.
 */
class AcceptedTemplate implements EncodedMessage {
  readonly bytes: Buffer;
  readonly keyFrom: number | null;
  readonly keyTo: number;
  private readonly idsAt: readonly number[];
  private readonly offsetAt: number;

  /**
   * @param id the id in the message, first in its key and then in its value
   * @param offset the offset in the message, with the rest of the message after it
   */
  constructor(message: EncodedMessage, id: string, offset: string) {
    this.bytes = Buffer.from(message.bytes);
    this.keyFrom = message.keyFrom;
    this.keyTo = message.keyTo;
    const inKey = this.keyTo - `${id}"]`.length;
    const inValue = this.bytes.indexOf(`${BEGIN}"${id}"`, this.keyTo) + `${BEGIN}"`.length;
    this.idsAt = [inKey, inValue];
    this.offsetAt = this.bytes.lastIndexOf(offset);
  }

  /** @returns false if JSON would escape the id: the message is then invalid */
  write(id: string, offset: string): boolean {
    for (const at of this.idsAt) {
      for (let index = 0; index < id.length; index++) {
        const unit = id.charCodeAt(index);
        if (!isPlain(unit)) return false;
        this.bytes[at + index] = unit;
      }
    }
    for (let index = 0; index < offset.length; index++)
      this.bytes[this.offsetAt + index] = offset.charCodeAt(index);
    return true;
  }
}

/** Whether JSON writes the code unit without an escape, and UTF-8 as one byte. */
function isPlain(unit: number): boolean {
  return unit >= 0x20 && unit < 0x7f && unit !== QUOTE && unit !== BACKSLASH;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Longer ids are rare, and each length needs its own template. */
const MAX_TEMPLATE_ID_LENGTH = 64;
/** The most digits of an offset, which has 63 bits. */
const MAX_OFFSET_LENGTH = 20;

const BEGIN = `{${fields({ spec: VERDICT_SPEC })},"event_id":`;
const NO_HEADERS: OutgoingMessage['headers'] = [];

export function makePublishVerdicts(sender: Sender, topic: string): PublishVerdicts<Origin> {
  return (origin, answers) => publishTo(sender, topic, answers, new VerdictWriter(origin));
}

export async function publishTo(
  sender: Sender,
  topic: string,
  answers: readonly PublishedAnswer[],
  writer: VerdictWriter,
): Promise<void> {
  try {
    await sender.send(topic, answers, (answer) => writer.encode(answer));
  } catch (error) {
    if (!(error instanceof RecordsRefused)) throw error;
    // The topic's limit is too small for a long id: the id's sender must not stop the partition.
    const refused = answers.filter((answer) => error.refused.has(answer));
    await sender.send(topic, refused, (answer) => writer.encodeKeyed(answer));
  }
}
