/** From envelopes to items that can be decided: whose they are, and what judging makes of them. Pure, but that `answered` completes what it is given. */

import { contentHashOf } from '../domain/event/content-hash';
import { type Fault, type Judged, NO_FIELDS } from '../domain/event/event';
import { hash64OfBytes } from '../domain/event/id-key';
import { type Payload, readEventId } from '../domain/event/payload';
import { type Connection, claim, type Reference } from '../domain/reference';
import type { Coordinates, Decision, Item } from '../domain/verdict/decide';
import { judge, PANIC } from '../domain/verdict/judge';
import type { DeadLetterReason } from '../domain/verdict/reasons';
import type { NumberedPartition } from '../ledger/statements/partitions';
import { type Answer, type Envelope, isPartition, type WebhookRequest } from './delivery';
import { NoSuchConnection, OperatorSuspended, PayloadUnavailable } from './undecided';

/** An answer that waits for its decision: much less than the item, which need not live as long. */
export interface Unanswered extends Omit<Answer, 'decision'> {
  decision: Decision | null;
}

export interface Prepared {
  readonly items: Item[];
  readonly unanswered: readonly Unanswered[];
}

/** The same answers, with their decisions: thousands wait for the store, and as new objects they would be twice as many. */
export function answered(
  unanswered: readonly Unanswered[],
  decisions: readonly Decision[],
): readonly Answer[] {
  unanswered.forEach((answer, index) => {
    answer.decision = decisions[index] ?? null;
  });
  if (!unanswered.every(isAnswered)) throw new Error('an envelope has no answer');
  return unanswered;
}

function isAnswered(answer: Unanswered): answer is Answer {
  return answer.decision !== null;
}

/**
 * Claims and judges the envelopes of a batch.
 *
 * @throws PayloadUnavailable at the first that somebody owns and that cannot be decoded now
 * @throws NoSuchConnection
 * @throws OperatorSuspended for a request to the webhook: a Kafka record of a suspended operator is rejected
 */
export function prepare(
  reference: Reference,
  origin: NumberedPartition | WebhookRequest,
  envelopes: readonly Envelope[],
  panic: boolean,
): Prepared {
  const items: Item[] = [];
  const unanswered: Unanswered[] = [];
  // Also of a request without any event: it is refused as any other of its connection.
  const requested = isPartition(origin) ? null : connectionOfRequest(reference, origin);
  for (const envelope of envelopes) {
    const connection = isPartition(origin)
      ? (claim(reference, origin.topic, envelope.claims) ?? null)
      : requested;
    const judged = judgeEnvelope(envelope, connection, panic, items.length);
    const isKeyed = judged.type === 'keyed';
    items.push(itemOf(judged, connection, envelope, sourceOf(origin, envelope)));
    unanswered.push({
      envelope,
      connection,
      eventId: isKeyed ? judged.eventId : null,
      kind: isKeyed ? judged.fields.kind : null,
      faults: judged.faults,
      decision: null,
    });
  }
  return { items, unanswered };
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

/** @param before how many envelopes stand before it @throws PayloadUnavailable */
function judgeEnvelope(
  { payload }: Envelope,
  connection: Connection | null,
  panic: boolean,
  before: number,
): Judged | DeadLettered {
  // Of a batch that cannot be read no header says whose it is, and it must not be taken for a record when dead letters are sent back.
  if (payload.type === 'undecodable') return deadLettered('undecodable');
  if (connection === null) return deadLettered('unclaimed');
  if (payload.type === 'unavailable')
    throw new PayloadUnavailable(payload.error.message, before, payload.error);
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
  const { eventId, fields, brandNo, contentHash, restHash, refusal } = judged;
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
  };
}

const NO_BYTES = Buffer.alloc(0);

/** An event that failed twice, reduced to its id: any of its fields may be what failed (V9). */
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
  try {
    const judged = judge(payload, connection);
    if (judged.type === 'keyed') return { contentHash: contentHashOf(judged), restHash: judged.restHash };
  } catch {
    // judging is what failed
  }
  return { contentHash: 0, restHash: 0 };
}
