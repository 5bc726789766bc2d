/**
 * The verdict topic: one message for each decision, so that operators learn the outcome of their events
 * (docs/rules.md, S7). A message may come twice after a crash, with the same verdict. No message about a
 * record is lost. A message about an event of the webhook can be lost in a crash: the next duplicate then
 * carries the verdict as first_verdict.
 */

import { type Fields, kindCode, NO_FIELDS } from '../domain/event/event';
import { idKey } from '../domain/event/id-key';
import { toMajor } from '../domain/event/money';
import type { Connection } from '../domain/reference';
import type { Reversed } from '../domain/verdict/round';
import { isPartition, type Origin } from '../intake/delivery';
import { type Producer, RecordsRefused } from '../kafka/producer';
import {
  type EncodedMessage,
  MessageEncoder,
  type OutgoingMessage,
} from '../kafka/protocol/record-batch-writer';
import { ACCEPTED_FIELDS, fields, outcomeFields, VERDICT_SPEC } from './outcome';
import {
  hasMessage,
  MAX_TEXT_BYTES,
  type PublishedAnswer,
  type PublishVerdicts,
  type RecordKey,
} from './published-answer';
import { QuickMessage } from './quick-message';

/** Observes each attempt to send messages to a topic of verdicts. */
export type OnVerdicts = (topic: string, messages: number, isStored: boolean) => void;

export function makePublishVerdicts(
  producer: Producer,
  topic: string,
  onVerdicts: OnVerdicts = () => undefined,
): PublishVerdicts<Origin> {
  const parts = new MessageParts();
  return async (origin, all) => {
    const answers = all.every(hasMessage) ? all : all.filter(hasMessage);
    if (answers.length === 0) return;
    try {
      await publishTo(producer, topic, answers, new VerdictWriter(origin, parts));
      onVerdicts(topic, answers.length, true);
    } catch (error) {
      onVerdicts(topic, answers.length, false);
      throw error;
    }
  };
}

export async function publishTo(
  producer: Producer,
  topic: string,
  answers: readonly PublishedAnswer[],
  writer: VerdictWriter,
): Promise<void> {
  try {
    await producer.send(topic, answers, (answer) => writer.encode(answer));
  } catch (error) {
    if (!(error instanceof RecordsRefused)) throw error;
    // The topic's limit is too small for a long id: the id's sender must not stop the partition.
    const refused = answers.filter((answer) => error.refused.has(answer));
    await producer.send(topic, refused, (answer) => writer.encodeKeyed(answer));
  }
}

/** The parts that are the same in all messages about events of a connection. */
interface About {
  /** The connection's fields. */
  readonly fields: string;
  readonly feed: string;
  /** The beginning of a message's key, up to the id. */
  readonly keyBegin: Buffer;
  /** The bytes from behind the id of an accepted event to the time of its decision. */
  readonly timeAt: number;
  /** By brand, kind and currency. */
  readonly middles: Map<string | null, Map<number, Middle>>;
}

/** The text of an accepted event from behind its id to its amount. */
interface Middle {
  readonly bytes: Buffer;
  /** The time of decision that the text has now. */
  time: Buffer;
}

/**
 * The buffers and the texts of connections that the writers of one publisher share. A message is copied into
 * its batch before another one is written, so no two writers need the buffers at a time.
 */
export class MessageParts {
  readonly encoder = new MessageEncoder();
  readonly quick = new QuickMessage();
  /** Of the connections of the reference data that is still in use. */
  private readonly connections = new WeakMap<Connection, About>();

  of(connection: Connection): About {
    const known = this.connections.get(connection);
    if (known !== undefined) return known;
    const { operator, feedId, id } = connection;
    const ofConnection = fields({ operator_id: operator.id, feed_id: feedId, connection_id: id });
    const feed = JSON.stringify(feedId);
    const about = {
      ...{ fields: ofConnection, feed, keyBegin: Buffer.from(`[${feed},"`), middles: new Map() },
      timeAt: Buffer.byteLength(`",${ofConnection},${ACCEPTED_FIELDS},"decided_at":`),
    };
    this.connections.set(connection, about);
    return about;
  }
}

export class VerdictWriter {
  private readonly encoder: MessageEncoder;
  private readonly quick: QuickMessage;
  /** The text from the source to the offset. */
  private readonly sourceBegin: string;
  private readonly sourceBytes: Buffer;
  private decidedAt: bigint | null = null;
  private decidedText = NO_TIME;
  private decidedBytes: Buffer = Buffer.from(NO_TIME);

  constructor(
    private readonly origin: Origin,
    private readonly parts = new MessageParts(),
  ) {
    this.encoder = parts.encoder;
    this.quick = parts.quick;
    this.sourceBegin = isPartition(origin)
      ? `,"source":{${fields({ topic: origin.topic, partition: origin.partition })},"offset":"`
      : ',"source":null}';
    this.sourceBytes = Buffer.from(this.sourceBegin);
  }

  /**
   * The message for an answer for which `hasMessage` holds; null for a dead letter. The key is the feed and
   * the event, so that all messages about one event stay in order.
   */
  encode(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    if (connection === null || outcome === null) return null;
    if (answer.eventKey !== undefined) return this.encodeKeyed(answer);
    const about = this.about(connection, answer.decidedAt ?? null);
    if (answer.reversed === undefined && this.writeQuick(about, outcome, answer)) return this.quick;
    const id = JSON.stringify(eventId);
    return this.encoder.encode({
      key: eventId === null ? null : `[${about.feed},${id}]`,
      value: `${BEGIN}${id},${about.fields},${outcome},${this.eventFields(answer)}${this.source(answer, false)}`,
      headers: NO_HEADERS,
    });
  }

  /** The message with a key of fixed length in place of each id: small, however long the ids are. */
  encodeKeyed(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    const key = answer.eventKey ?? (eventId === null ? undefined : idKey(eventId).toString('hex'));
    if (connection === null || outcome === null || key === undefined) return this.encode(answer);
    const about = this.about(connection, answer.decidedAt ?? null);
    const eventKey = JSON.stringify(key);
    return this.encoder.encode({
      key: `[${about.feed},${eventKey}]`,
      value: `${BEGIN}null,"event_key":${eventKey},${about.fields},${outcome},${this.eventFields(answer)}${this.source(answer, true)}`,
      headers: NO_HEADERS,
    });
  }

  /** @returns false where JSON would escape a text, or the message is long */
  private writeQuick(
    about: About,
    outcome: string,
    { eventId, fields, offset, roundKey, recordKey = null }: PublishedAnswer,
  ): boolean {
    if (
      eventId === null ||
      fields == null ||
      roundKey !== undefined ||
      (recordKey !== null && typeof recordKey !== 'string')
    )
      return false;
    const { amountMinor, currency, roundId } = fields;
    const middle =
      outcome === ACCEPTED_FIELDS ? this.middle(about, fields) : this.middleText(about, outcome, fields);
    const middleBytes = typeof middle === 'string' ? MOST_UTF8_BYTES * middle.length : middle.length;
    const bytes = about.keyBegin.length + middleBytes + this.sourceBytes.length;
    const chars = 2 * eventId.length + (roundId?.length ?? 0) + (recordKey?.length ?? 0);
    if ((roundId?.length ?? 0) > MAX_TEXT_BYTES || !this.quick.hasRoom(bytes + chars)) return false;
    const { quick } = this;
    quick.beginKey(about.keyBegin.length + eventId.length + KEY_END.length);
    quick.bytesOf(about.keyBegin);
    quick.plain(eventId);
    quick.bytesOf(KEY_END);
    quick.beginValue();
    quick.bytesOf(BEGIN_BYTES);
    quick.plain(eventId);
    if (typeof middle === 'string') quick.json(middle);
    else quick.bytesOf(middle);
    if (amountMinor === null || currency === null) quick.bytesOf(NULL);
    else quick.amount(amountMinor, currency.scale);
    quick.bytesOf(ROUND);
    quick.textOrNull(roundId);
    quick.bytesOf(this.sourceBytes);
    if (isPartition(this.origin)) {
      quick.digits(offset);
      quick.bytesOf(RECORD_KEY);
      quick.textOrNull(recordKey);
      quick.bytesOf(END);
    }
    return quick.end();
  }

  /** From behind the id of an event to its amount. */
  private middleText(about: About, outcome: string, { kind, brand, currency }: Fields): string {
    const event = fields(head(kind, brand, currency?.code));
    return `",${about.fields},${outcome},"decided_at":${this.decidedText},${event},"amount":`;
  }

  /** The same for an accepted event. */
  private middle(about: About, of: Fields): Buffer {
    const { kind, brand, currency } = of;
    let ofBrand = about.middles.get(brand);
    if (ofBrand === undefined) {
      ofBrand = new Map();
      about.middles.set(brand, ofBrand);
    }
    const index = (kind === null ? 0 : kindCode(kind)) * MAX_CURRENCIES + (currency?.no ?? 0);
    const { decidedBytes } = this;
    const known = ofBrand.get(index);
    if (known?.time === decidedBytes) return known.bytes;
    if (known !== undefined && known.time.length === decidedBytes.length) {
      known.bytes.set(decidedBytes, about.timeAt);
      known.time = decidedBytes;
      return known.bytes;
    }
    const bytes = Buffer.from(this.middleText(about, ACCEPTED_FIELDS, of));
    ofBrand.set(index, { bytes, time: decidedBytes });
    return bytes;
  }

  /** The fields of the event, and the time of its answer. */
  private eventFields({ fields: read, roundKey, reversed }: PublishedAnswer): string {
    const { kind, brand, amountMinor, currency, roundId } = read ?? NO_FIELDS;
    const isLong = roundId !== null && Buffer.byteLength(roundId) > MAX_TEXT_BYTES;
    const key = isLong ? idKey(roundId).toString('hex') : roundKey;
    const rest = {
      ...head(kind, brand, currency?.code),
      amount: amountMinor === null || currency === null ? null : toMajor(amountMinor, currency.scale),
      round_id: isLong ? null : roundId,
      ...(key !== undefined && { round_key: key }),
      ...(reversed !== undefined && { reversed: reversed.map(sumsOf) }),
    };
    return `"decided_at":${this.decidedText},${fields(rest)}`;
  }

  /** @param isShort leaves the record's key out */
  private source({ offset, recordKey = null }: PublishedAnswer, isShort: boolean): string {
    if (!isPartition(this.origin)) return this.sourceBegin;
    const key =
      isShort && typeof recordKey === 'string' ? { bytes: Buffer.byteLength(recordKey) } : recordKey;
    return `${this.sourceBegin}${offset}",${fields(keyFields(key))}}}`;
  }

  private about(connection: Connection, decidedAt: bigint | null): About {
    if (decidedAt !== this.decidedAt) {
      this.decidedAt = decidedAt;
      this.decidedText = decidedAt === null ? NO_TIME : `"${instantOf(decidedAt)}"`;
      this.decidedBytes = Buffer.from(this.decidedText);
    }
    return this.parts.of(connection);
  }
}

function head(kind: string | null, brand: string | null, currency: string | undefined) {
  return { kind, brand, currency: currency ?? null };
}

function keyFields(key: RecordKey | null): Record<string, unknown> {
  if (key === null || typeof key === 'string') return { key };
  return 'base64' in key ? { key: null, key_base64: key.base64 } : { key: null, key_bytes: key.bytes };
}

function sumsOf({ currency: { code, scale }, bet, win, settled }: Reversed) {
  return {
    currency: code,
    bet: toMajor(bet, scale),
    win: toMajor(win, scale),
    settled: toMajor(settled, scale),
  };
}

/** Microseconds since 1970 as RFC 3339 in UTC. */
function instantOf(micros: bigint): string {
  const toMillisecond = new Date(Number(micros / 1000n)).toISOString().slice(0, -1);
  return `${toMillisecond}${String(micros % 1000n).padStart(3, '0')}Z`;
}

const NO_TIME = 'null';
/** The most bytes that UTF-8 has for a unit of UTF-16. */
const MOST_UTF8_BYTES = 3;
/** More than the number of any currency. */
const MAX_CURRENCIES = 100_000;
const BEGIN = `{${fields({ spec: VERDICT_SPEC })},"event_id":`;
const BEGIN_BYTES = Buffer.from(`${BEGIN}"`);
const KEY_END = Buffer.from('"]');
const ROUND = Buffer.from(',"round_id":');
const RECORD_KEY = Buffer.from('","key":');
const END = Buffer.from('}}');
const NULL = Buffer.from('null');
const NO_HEADERS: OutgoingMessage['headers'] = [];
