/**
 * The published fields of a decision, in the verdict topic and in the webhook's answers: verdict, reason,
 * remedy, details.
 */
import type { Fault } from '../domain/event/event';
import {
  duplicateRemedy,
  REASONS,
  type Reason,
  reasonInfo,
  usesIdUp,
  withoutNewId,
} from '../domain/verdict/reasons';
import { ANOMALIES, type Anomaly } from '../domain/verdict/round';
import type { Answer } from '../intake/delivery';

type DecisionWithFaults = Pick<Answer, 'decision' | 'faults'>;
type Duplicate = Extract<Answer['decision'], { readonly type: 'duplicate' }>;

export const VERDICT_SPEC = 'promo.verdict.v1';

/** The fields in JSON Schema. */
export const OUTCOME_PROPERTIES = {
  verdict: {
    description:
      'duplicate: another delivery of the event was decided before. The event keeps that first verdict.',
    enum: ['accepted', 'rejected', 'skipped', 'duplicate'],
  },
  reason: {
    description: 'Why it was rejected or skipped; null for accepted and duplicate.',
    enum: [...REASONS.map(({ name }) => name), null],
  },
  remedy: {
    description:
      'The action for the operator; null where there is nothing to do. For a duplicate: the action for its first verdict, and for content that differs.',
    type: ['string', 'null'],
  },
  needs_new_event_id: {
    description:
      'Whether a corrected event needs a new event_id. True: a verdict has used this id up. False: the record holds no usable id, or the request was a rehearsal. Absent where there is nothing to correct: for accepted, and for its duplicates with the same content.',
    type: 'boolean',
  },
  details: {
    description:
      'The faults, field by field; the first one decided. For a duplicate: the faults of this delivery. They are present if its content differs, or if its first fault is the reason of the first verdict.',
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
    description: 'For a duplicate: the first verdict of the event, which it keeps.',
    enum: ['accepted', 'rejected', 'skipped'],
  },
  first_reason: {
    description: 'For a duplicate: the reason of the first verdict.',
    type: ['string', 'null'],
  },
  content_differs: {
    description: 'For a duplicate: whether its content differs from the delivery that was decided.',
    type: 'boolean',
  },
  anomalies: {
    description:
      "The contradictions within the event's round since this event. No event was refused for them. The anomaly `second_settled`: the round has a settled already; this one counts nothing. The anomaly `settled_mismatch`: settled is not the sum of the bets. A bet that comes after its settled resolves it. The anomalies `player_mismatch`, `brand_mismatch`, `currency_mismatch`: the event names another value than the round's first event. A record that is read again names the present anomalies of the round that the event takes part in. So does a duplicate with the same content. Absent where there are none. The view promo.anomalies has the present state of all rounds.",
    type: 'array',
    items: { enum: [...ANOMALIES] },
  },
} as const;

/** The fields of an object as JSON without the braces, to be put into a larger object. */
export function fields(object: Record<string, unknown>): string {
  return JSON.stringify(object).slice(1, -1);
}

/** The outcome of most events. */
export const ACCEPTED_FIELDS = fields({ verdict: 'accepted', reason: null, remedy: null });

/**
 * The outcome of an answer, as fields of a JSON object; null for a dead letter.
 * @param isFree no verdict has used the id up: the event was rehearsed, and so was its first delivery, if it
 * is a duplicate
 */
export function outcomeFields(answer: DecisionWithFaults, isFree = false): string | null {
  const { decision } = answer;
  switch (decision.type) {
    case 'unstored':
      if (decision.deadLetter !== null) return null;
      return fields({ verdict: 'rejected', ...explain('no_idempotency_key', answer) });
    case 'duplicate':
      return duplicateFields(decision, answer.faults, isFree);
    case 'decided':
      if (decision.outcome.verdict === 'accepted' && decision.anomalies === undefined) return ACCEPTED_FIELDS;
      return fields({
        verdict: decision.outcome.verdict,
        ...explain(decision.outcome.reason, answer, isFree),
        ...anomaliesIn(decision),
      });
  }
}

/** The fields of duplicates without faults and anomalies. Their number is bounded by that of the reasons. */
const plainDuplicates = new Map<string, string>();

function duplicateFields(decision: Duplicate, faults: readonly Fault[], isFree: boolean): string {
  const { first, contentDiffers, anomalies } = decision;
  const isPlain = faults.length === 0 && anomalies === undefined;
  const name = isPlain ? `${first.verdict} ${first.reason} ${contentDiffers} ${isFree}` : '';
  const known = isPlain ? plainDuplicates.get(name) : undefined;
  if (known !== undefined) return known;
  const made = fields({
    verdict: 'duplicate',
    reason: null,
    remedy: duplicateRemedy(first, contentDiffers, isFree),
    // Free or not, one of two events that share an id needs another one.
    ...((first.reason !== null || contentDiffers) && { needs_new_event_id: !isFree || contentDiffers }),
    ...detailsOfDuplicate(first.reason, contentDiffers, faults),
    first_verdict: first.verdict,
    first_reason: first.reason,
    content_differs: contentDiffers,
    ...anomaliesIn(decision),
  });
  if (isPlain) plainDuplicates.set(name, made);
  return made;
}

function anomaliesIn({ anomalies }: { readonly anomalies?: readonly Anomaly[] }) {
  return anomalies === undefined ? {} : { anomalies };
}

function explain(
  reason: Reason | null,
  { faults }: DecisionWithFaults,
  isFree = false,
): Record<string, unknown> {
  if (reason === null) return { reason: null, remedy: null };
  const { charge, remedy } = reasonInfo(reason);
  return {
    reason,
    remedy: charge === 'nobody' ? null : isFree ? withoutNewId(remedy) : remedy,
    needs_new_event_id: usesIdUp(reason) && !isFree,
    ...detailsFor(reason, faults),
  };
}

/**
 * Leaves the faults out if they are not the ones that decided. The faults are of this reading. A record that
 * is read again after a change of the reference data may have other faults.
 */
function detailsFor(reason: Reason | null, faults: readonly Fault[]): { details?: readonly Fault[] } {
  return reason !== null && faults[0]?.reason === reason ? { details: faults } : {};
}

/**
 * Shows the faults of a duplicate with other content: a corrected event under its old id may still have
 * faults. The sender would otherwise find these under the next id only.
 */
function detailsOfDuplicate(first: Reason | null, contentDiffers: boolean, faults: readonly Fault[]) {
  if (!contentDiffers) return detailsFor(first, faults);
  return faults.length > 0 ? { details: faults } : {};
}
