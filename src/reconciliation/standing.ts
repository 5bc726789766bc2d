/**
 * The standing of an entry: its verdict, if the store has one, and the sender's next step. Pure.
 */
import { differsFromStored } from '../domain/event/content-hash';
import type { Fault } from '../domain/event/event';
import type { PlayerTags } from '../domain/event/player-tag';
import {
  DEAD_LETTER_REASONS,
  type DeadLetterReason,
  duplicateRemedy,
  OTHER_CONTENT_REMEDY,
  type Outcome,
  type Reason,
  reasonInfo,
  usesIdUp,
} from '../domain/verdict/reasons';
import type { DecidedEvent, RecordTrace } from '../ledger/lookups';
import type { ReconcileEntry } from './entry';

/** The states in the order of a report. */
export const STATES = [
  'accepted',
  'rejected',
  'skipped',
  'never_received',
  'undecided',
  'unidentified',
] as const;
export type State = (typeof STATES)[number];

/** The sender's next step: nothing, send the event as it is, correct it, or ask again later. */
export const ACTIONS = ['none', 'resend', 'correct', 'wait'] as const;
export type Action = (typeof ACTIONS)[number];

export interface Standing {
  readonly eventId: string | null;
  readonly state: State;
  readonly reason: Reason | DeadLetterReason | null;
  readonly action: Action;
  /** Null where there is nothing to do. */
  readonly remedy: string | null;
  /** Absent where nothing has to be corrected. */
  readonly needsNewEventId?: boolean;
  /** Whether the content differs from that of the decided event, or of an earlier entry with the same id. */
  readonly contentDiffers: boolean;
  /** The faults that have to be corrected, the deciding one first. */
  readonly details: readonly Fault[];
  /** The earlier entry with the same id. */
  readonly repeatOf?: number;
}

/** The trace of an entry in the store. */
export type Trace =
  | ({ readonly type: 'decided' } & DecidedEvent)
  /** The record at the entry's place. */
  | RecordTrace
  | { readonly type: 'absent' };

export const RESEND_REMEDY = 'Send it again as it is.';
const CORRECT_FIRST_REMEDY =
  'It was never received, and its event_id is free. Sent as it is, it would be refused: correct it first.';
const WAIT_REMEDY = 'It waits in its topic. Ask again later.';
const NO_ID_REMEDY =
  'Nothing can be looked up without an event_id. Correct the event, or name the topic, partition and offset of its record.';

/** @param tags the keys of players' tags; without them players are not compared */
export function standingOf(entry: ReconcileEntry, found: Trace, tags: PlayerTags): Standing {
  const { eventId, event, faults } = entry;
  switch (found.type) {
    case 'decided': {
      const { outcome, content } = found;
      const differs = event !== null && differsFromStored(content, { ...event, playerTag: null }, tags);
      return decided(eventId, outcome, differs, faults);
    }
    case 'duplicate':
      return decided(found.eventId, found.first, found.differs, faults);
    case 'without_key':
      return { ...refused(eventId, 'no_idempotency_key', faults), needsNewEventId: false };
    case 'dead_letter':
      return waiting(eventId, found.reason, deadLetterRemedy(found.reason));
    case 'waiting':
      return waiting(eventId, null, WAIT_REMEDY);
    case 'absent':
      return absent(entry);
  }
}

function decided(
  eventId: string | null,
  outcome: Outcome,
  contentDiffers: boolean,
  faults: readonly Fault[],
): Standing {
  const { verdict: state, reason } = outcome;
  if (contentDiffers)
    return {
      eventId,
      state,
      reason,
      action: 'correct',
      contentDiffers,
      details: faults,
      remedy: duplicateRemedy(outcome, true),
      needsNewEventId: true,
    };
  if (reason !== null) return refused(eventId, reason, faults);
  return { eventId, state, reason, action: 'none', remedy: null, contentDiffers, details: [] };
}

function refused(eventId: string | null, reason: Reason, faults: readonly Fault[]): Standing {
  const { verdict: state, charge, remedy } = reasonInfo(reason);
  // The faults are of today's rules, which may have changed since the verdict.
  const details = faults[0]?.reason === reason ? faults : [];
  if (charge === 'nobody')
    return { eventId, state, reason, action: 'none', remedy: null, contentDiffers: false, details };
  return {
    eventId,
    state,
    reason,
    action: 'correct',
    remedy,
    contentDiffers: false,
    details,
    needsNewEventId: usesIdUp(reason),
  };
}

function waiting(eventId: string | null, reason: DeadLetterReason | null, remedy: string): Standing {
  return {
    eventId,
    state: 'undecided',
    reason,
    action: 'wait',
    remedy,
    contentDiffers: false,
    details: [],
  };
}

function deadLetterRemedy(reason: DeadLetterReason): string {
  const meaning = DEAD_LETTER_REASONS.find(({ name }) => name === reason)?.meaning ?? reason;
  return `Its record is a dead letter: ${meaning}. Ask support to send it back once the cause is removed.`;
}

function absent({ eventId, event, faults }: ReconcileEntry): Standing {
  if (eventId === null)
    return {
      eventId,
      state: 'unidentified',
      reason: null,
      action: 'correct',
      remedy: NO_ID_REMEDY,
      needsNewEventId: false,
      contentDiffers: false,
      details: faults,
    };
  const state = 'never_received';
  const refusal = event?.refusal?.reason ?? null;
  const isFaulty = refusal !== null && reasonInfo(refusal).charge !== 'nobody';
  // Sent as it is, a faulty event would use its id up.
  if (isFaulty)
    return {
      eventId,
      state,
      reason: null,
      action: 'correct',
      remedy: CORRECT_FIRST_REMEDY,
      needsNewEventId: false,
      contentDiffers: false,
      details: faults,
    };
  return {
    eventId,
    state,
    reason: null,
    action: 'resend',
    remedy: RESEND_REMEDY,
    contentDiffers: false,
    details: [],
  };
}

/**
 * The standing of an entry whose id an earlier entry has. The earlier one is sent again or corrected, and not
 * both.
 *
 * @param contentDiffers whether the content differs from that of the earlier entry
 */
export function repeated(standing: Standing, repeatOf: number, contentDiffers: boolean): Standing {
  if (!contentDiffers) return { ...standing, repeatOf, action: 'none', remedy: null };
  // The store has compared a decided event itself.
  if (standing.state !== 'never_received') return { ...standing, repeatOf };
  return {
    ...standing,
    repeatOf,
    contentDiffers,
    action: 'correct',
    remedy: OTHER_CONTENT_REMEDY,
    needsNewEventId: true,
  };
}

/** The published fields of a standing. */
export function standingFields(standing: Standing): Record<string, unknown> {
  const { eventId, state, reason, action, remedy, needsNewEventId, contentDiffers, details } = standing;
  return {
    event_id: eventId,
    state,
    reason,
    action,
    remedy,
    ...(needsNewEventId !== undefined && { needs_new_event_id: needsNewEventId }),
    ...(contentDiffers && { content_differs: true }),
    ...(details.length > 0 && { details }),
  };
}
