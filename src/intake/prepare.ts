/** Turns envelopes into items that can be decided: finds their connections and judges them. Pure. */

import { contentHashOf } from '../domain/event/content-hash';
import { type Fault, type Fields, type Judged, NO_FIELDS } from '../domain/event/event';
import { hash64OfBytes } from '../domain/event/id-key';
import { type Payload, readEventId } from '../domain/event/payload';
import { type Connection, claim, type Reference } from '../domain/reference';
import type { Coordinates, Decision, Item } from '../domain/verdict/decide';
import { judge, PANIC } from '../domain/verdict/judge';
import type { DeadLetterReason } from '../domain/verdict/reasons';
import type { Reversed } from '../domain/verdict/round';
import type { NumberedPartition } from '../ledger/statements/find';
import { type Answer, type Envelope, isPartition, type WebhookRequest } from './delivery';
import { NoSuchConnection, OperatorSuspended, PayloadUnavailable } from './undecided';

/**
 * An answer that waits for its decision. It is much smaller than the item, so the item can be freed earlier.
 */
export interface Unanswered extends Omit<Answer, 'decision' | 'fields' | 'decidedAt' | 'reversed'> {
  decision: Decision | null;
  fields: Fields | null;
  decidedAt: bigint | null;
  reversed: readonly Reversed[] | undefined;
}

export interface Prepared {
  readonly items: Item[];
  readonly unanswered: Unanswered[];
  /** Whether the answers are published: they keep the fields of their events then. */
  readonly isPublished?: boolean;
}

/**
 * Claims and judges envelopes of one origin, and appends them to the batch.
 *
 * @param into the batch, with the envelopes of earlier origins
 * @throws PayloadUnavailable at the first envelope that has a connection and cannot be decoded now. The
 * envelopes in front of it are appended then
 * @throws NoSuchConnection
 * @throws OperatorSuspended for a request to the webhook: a Kafka record of a suspended operator is rejected
 */
export function prepare(
  into: Prepared,
  reference: Reference,
  origin: NumberedPartition | WebhookRequest,
  envelopes: readonly Envelope[],
  panic: boolean,
): void {
  const { items, unanswered, isPublished = false } = into;
  // Checks the connection even for a request without events: it is refused like any other of its connection.
  const requested = isPartition(origin) ? null : connectionOfRequest(reference, origin);
  for (const envelope of envelopes) {
    const connection = isPartition(origin)
      ? (claim(reference, origin.topic, envelope.claims) ?? null)
      : requested;
    const judged = judgeEnvelope(envelope, connection, panic);
    const isKeyed = judged.type === 'keyed';
    items.push(itemOf(judged, connection, envelope, sourceOf(origin, envelope)));
    unanswered.push({
      envelope,
      connection,
      eventId: isKeyed ? judged.eventId : null,
      kind: isKeyed ? judged.fields.kind : null,
      faults: judged.faults,
      decision: null,
      fields: !isPublished || !isKeyed ? null : panic ? fieldsOfPanic(envelope, connection) : judged.fields,
      decidedAt: null,
      reversed: undefined,
    });
  }
}

function connectionOfRequest(reference: Reference, origin: WebhookRequest): Connection {
  const connection = reference.connections.get(origin.connectionId);
  if (connection?.transport !== 'webhook')
    throw new NoSuchConnection(`the reference data has no webhook connection ${origin.connectionId}`);
  if (!connection.operator.active)
    throw new OperatorSuspended(`the operator of ${origin.connectionId} is not active`);
  return connection;
}

function sourceOf(origin: NumberedPartition | WebhookRequest, { offset }: Envelope): Coordinates | null {
  return isPartition(origin) ? { partitionNo: origin.no, offset } : null;
}

interface DeadLettered {
  readonly type: 'dead_letter';
  readonly reason: DeadLetterReason;
  readonly faults: readonly Fault[];
}

const deadLettered = (reason: DeadLetterReason): DeadLettered => ({
  type: 'dead_letter',
  reason,
  faults: [],
});

/** @throws PayloadUnavailable */
function judgeEnvelope(
  { payload }: Envelope,
  connection: Connection | null,
  panic: boolean,
): Judged | DeadLettered {
  // No header names the owner of an unreadable batch. It must not be taken for a record when dead letters are
  // sent back.
  if (payload.type === 'undecodable') return deadLettered('undecodable');
  if (connection === null) return deadLettered('unclaimed');
  if (payload.type === 'unavailable')
    throw new PayloadUnavailable(payload.error.message, { cause: payload.error });
  if (payload.type === 'schema_unknown') return deadLettered('schema_unknown');
  return panic ? judgedAsPanic(payload, connection) : judge(payload, connection);
}

function itemOf(
  judged: Judged | DeadLettered,
  connection: Connection | null,
  envelope: Envelope,
  source: Coordinates | null,
): Item {
  if (connection === null || judged.type !== 'keyed') {
    return {
      type: 'unstored',
      source,
      connectionNo: connection?.no ?? null,
      valueHash: hash64OfBytes(envelope.value ?? NO_BYTES),
      deadLetter: judged.type === 'dead_letter' ? judged.reason : null,
    };
  }
  const { eventId, fields, brandNo, contentHash, restHash, refusal, faults } = judged;
  return {
    type: 'keyed',
    source,
    feedNo: connection.feedNo,
    connectionNo: connection.no,
    eventId,
    fields,
    brandNo,
    contentHash,
    restHash,
    playerTag: null,
    refusal,
    faults,
    sent: envelope,
  };
}

const NO_BYTES = Buffer.alloc(0);

/** Reduces an event that failed twice to its id: any of its other fields may be the cause (V9). */
function judgedAsPanic(payload: Payload, connection: Connection): Judged {
  const read = readEventId(payload);
  if ('reason' in read) return { type: 'unkeyed', faults: [read] };
  const { eventId } = read;
  return {
    type: 'keyed',
    eventId,
    fields: NO_FIELDS,
    brandNo: null,
    ...contentHashesOf(payload, connection),
    refusal: PANIC,
    faults: [],
  };
}

function contentHashesOf(
  payload: Payload,
  connection: Connection,
): { contentHash: number; restHash: number } {
  const judged = judgeIfPossible(payload, connection);
  if (judged?.type !== 'keyed') return { contentHash: 0, restHash: 0 };
  return { contentHash: contentHashOf(judged), restHash: judged.restHash };
}

/** It may be a duplicate of an event that was decided before. Each reading publishes the same fields then. */
function fieldsOfPanic({ payload }: Envelope, connection: Connection | null): Fields | null {
  const isUnreadable =
    payload.type === 'undecodable' || payload.type === 'unavailable' || payload.type === 'schema_unknown';
  if (connection === null || isUnreadable) return null;
  const judged = judgeIfPossible(payload, connection);
  return judged?.type === 'keyed' ? judged.fields : null;
}

/** Null where judging itself is the failure. */
function judgeIfPossible(payload: Payload, connection: Connection): Judged | null {
  try {
    return judge(payload, connection);
  } catch {
    return null;
  }
}
