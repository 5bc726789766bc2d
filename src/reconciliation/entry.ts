/**
 * Reads an entry of a reconciliation: an event that the sender has sent, or its id alone. Pure.
 */
import { contentHashOf } from '../domain/event/content-hash';
import type { Fault, Judged, Kind } from '../domain/event/event';
import type { Connection } from '../domain/reference';
import { judge } from '../domain/verdict/judge';
import { isObject, parseJson } from '../lib/json';

/** The place of a record in Kafka, as messages with verdicts name it. */
export interface RecordPlace {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/** An event with a usable id, as it is judged now. */
export type JudgedEvent = Extract<Judged, { readonly type: 'keyed' }>;

/** One line of a file, or one item of a request: an event or an id that the sender compares. */
export interface ReconcileEntry {
  /** Null where the entry has no usable event_id. */
  readonly eventId: string | null;
  /** Null where the entry names no place. */
  readonly place: RecordPlace | null;
  /** The event; null for an id alone. */
  readonly event: JudgedEvent | null;
  /** For the sender's own totals; null where the entry does not have them. */
  readonly kind: Kind | null;
  readonly occurredAtMicros: bigint | null;
  /** The faults of the event. For an entry without a usable id: the fault that explains why. */
  readonly faults: readonly Fault[];
}

const SOURCE = Buffer.from('"source"');

/**
 * Reads an event in JSON. An object with nothing but `event_id` and `source` is an id alone.
 *
 * @param connection the connection whose rules judge the event; undefined for no such rules
 */
export function readEntry(bytes: Buffer, connection: Connection | undefined): ReconcileEntry {
  const judged = judge({ type: 'json', bytes }, connection);
  const { faults } = judged;
  const isKeyed = judged.type === 'keyed';
  const mayBeAlone = isKeyed && judged.fields.kind === null;
  // Most events need no second parse.
  const json = mayBeAlone || bytes.includes(SOURCE) ? parseJson(bytes.toString('utf8')) : undefined;
  const place = isObject(json) ? placeIn(json.source) : null;
  if (!isKeyed) return unidentified(place, faults);
  if (mayBeAlone && isObject(json) && isIdAlone(json)) return anId(judged.eventId, place);
  const { kind, occurredAtMicros } = judged.fields;
  return { eventId: judged.eventId, place, event: judged, kind, occurredAtMicros, faults };
}

/** An entry without a usable event_id. */
export function unidentified(place: RecordPlace | null, faults: readonly Fault[]): ReconcileEntry {
  return { eventId: null, place, event: null, kind: null, occurredAtMicros: null, faults };
}

/** An id without its event: nothing is known of the content. */
export function anId(eventId: string, place: RecordPlace | null): ReconcileEntry {
  return { eventId, place, event: null, kind: null, occurredAtMicros: null, faults: [] };
}

/** The content of an entry, to compare two entries with one id; 0 for an id alone. */
export function contentOf({ event }: ReconcileEntry): number {
  return event === null ? 0 : contentHashOf(event);
}

/** Whether two contents of `contentOf` differ. An id alone has no content to compare. */
export function contentsDiffer(one: number, other: number): boolean {
  return one !== 0 && other !== 0 && one !== other;
}

function isIdAlone(json: Record<string, unknown>): boolean {
  return Object.keys(json).every((key) => key === 'event_id' || key === 'source');
}

function placeIn(source: unknown): RecordPlace | null {
  if (!isObject(source) || typeof source.topic !== 'string') return null;
  return placeOf(source.topic, source.partition, source.offset);
}

const MAX_PARTITION = 2 ** 31 - 1;

/** @param partition @param offset a number, or its digits. @returns null where a part is not valid */
export function placeOf(topic: string, partition: unknown, offset: unknown): RecordPlace | null {
  const [partitionNo, offsetNo] = [naturalOf(partition), naturalOf(offset)];
  if (topic === '' || topic.includes('\0') || !topic.isWellFormed()) return null;
  if (partitionNo === null || offsetNo === null || partitionNo > MAX_PARTITION) return null;
  return { topic, partition: partitionNo, offset: offsetNo };
}

function naturalOf(value: unknown): number | null {
  const number = typeof value === 'string' && /^\d{1,19}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null;
}
