/**
 * The verdicts and their reasons: the closed lists that everything else refers to (docs/rules.md, V1-V2).
 *
 * The order of `REASONS` is their precedence: an event that several reasons fit gets the first one.
 *
 * The store keeps a reason as its `code`. A code never changes and is never given to another reason.
 *
 * schemas/VERDICTS.md is generated from this list. A test compares the store's naming functions with it.
 */

/**
 * The answer to a delivery. `duplicate` answers a delivery of an event that already has a verdict, and is
 * never stored as a verdict.
 */
export type Verdict = 'accepted' | 'rejected' | 'skipped' | 'duplicate';

/** Who has to act on a reason: the operator who sent the event, the service that processed it, or nobody. */
export type Charge = 'operator' | 'service' | 'nobody';

interface ReasonEntry {
  readonly code: number;
  readonly name: string;
  readonly verdict: 'rejected' | 'skipped';
  /** When the reason applies. Begins with a clause that completes "the event does not count because ...". */
  readonly meaning: string;
  /** The operator's action, in the imperative. */
  readonly remedy: string;
  readonly charge: Charge;
}

export const REASONS = [
  {
    code: 1,
    name: 'no_idempotency_key',
    verdict: 'rejected',
    meaning:
      'the payload has no usable event_id. It is not valid UTF-8, not JSON or not an object, or event_id is missing, empty, not a string or not storable as text. Such an event is counted and reported, never stored.',
    remedy: 'Fix the payload and send the event again.',
    charge: 'operator',
  },
  {
    code: 2,
    name: 'malformed',
    verdict: 'rejected',
    meaning:
      'a field has the wrong type or form, or the object is a batch. Examples: spec is not promo.event.v1, kind or occurred_at is missing, occurred_at is no RFC 3339 time with a zone. Or a round event has no round_id, or brand or player_ref is longer than 255 bytes.',
    remedy: 'Fix the field and send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 3,
    name: 'op_unknown',
    verdict: 'rejected',
    meaning: 'kind is none of bet, win, settled, refund, deposit, withdrawal, login.',
    remedy: 'Use one of the seven kinds and send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 4,
    name: 'no_player',
    verdict: 'rejected',
    meaning: 'player_ref is missing or empty.',
    remedy: 'Name the player and send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 5,
    name: 'bad_amount',
    verdict: 'rejected',
    meaning:
      'amount is missing although the kind needs it, or is no plain decimal string. Or it has more decimals than the currency, or does not fit a signed 64-bit number of minor units.',
    remedy: 'Send the exact amount as a decimal string, with a new event_id.',
    charge: 'operator',
  },
  {
    code: 6,
    name: 'no_brand',
    verdict: 'rejected',
    meaning: 'the connection carries several brands, but the event names no brand.',
    remedy: 'Add the brand and send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 7,
    name: 'brand_unexpected',
    verdict: 'rejected',
    meaning: 'the connection carries one brand, but the event names a brand as well.',
    remedy: 'Remove the brand and send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 8,
    name: 'brand_unmapped',
    verdict: 'rejected',
    meaning: 'the brand is not registered for the operator.',
    remedy: 'Ask support to register the brand, then send the events with new event_ids.',
    charge: 'operator',
  },
  {
    code: 9,
    name: 'operator_inactive',
    verdict: 'rejected',
    meaning: 'the brand, or its operator, is not active.',
    remedy: 'Ask support to activate the brand, then send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 10,
    name: 'panic',
    verdict: 'rejected',
    meaning: 'the service failed twice while it processed this event alone.',
    remedy: 'Send the event_id to support. After the repair, send the event with a new event_id.',
    charge: 'service',
  },
  {
    code: 20,
    name: 'currency_unknown',
    verdict: 'skipped',
    meaning: 'currency is missing or not in the table of currencies.',
    remedy:
      'Use a code of the table, or ask support to add the currency. Then send the event with a new event_id.',
    charge: 'operator',
  },
  {
    code: 21,
    name: 'zero_amount',
    verdict: 'skipped',
    meaning: 'a bet or a settled of zero counts nothing.',
    remedy: 'Nothing to do. A corrected event needs a new event_id.',
    charge: 'nobody',
  },
  {
    code: 22,
    name: 'game_denied',
    verdict: 'skipped',
    meaning: 'the brand excludes the game from promotions.',
    remedy: 'Nothing to do. A corrected event needs a new event_id.',
    charge: 'nobody',
  },
  {
    code: 23,
    name: 'game_not_allowed',
    verdict: 'skipped',
    meaning: 'the brand lists the games of its promotions, but the event names none of them.',
    remedy: 'Nothing to do. A corrected event needs a new event_id.',
    charge: 'nobody',
  },
  {
    code: 24,
    name: 'below_min_bet',
    verdict: 'skipped',
    meaning: "the bet is below the brand's minimum in its currency.",
    remedy: 'Nothing to do. A corrected event needs a new event_id.',
    charge: 'nobody',
  },
  {
    code: 25,
    name: 'game_unknown',
    verdict: 'skipped',
    meaning: "the operator's catalogue holds games, but the bet or settled names no active game.",
    remedy:
      'Add the game to the catalogue: later events of the game count then. Send this event again with a new event_id if it should count.',
    charge: 'operator',
  },
  {
    code: 26,
    name: 'round_refunded',
    verdict: 'skipped',
    meaning: 'the round was already refunded.',
    remedy: 'Nothing to do. A corrected event needs a new event_id.',
    charge: 'nobody',
  },
] as const satisfies readonly ReasonEntry[];

export type Reason = (typeof REASONS)[number]['name'];
export type ReasonInfo = (typeof REASONS)[number];

/** The verdict that is stored for an event: `reason` is null exactly for `accepted`. */
export interface Outcome {
  readonly verdict: 'accepted' | 'rejected' | 'skipped';
  readonly reason: Reason | null;
  /** The stored code: 0 for accepted, else the reason's code. */
  readonly code: number;
}

export const ACCEPTED: Outcome = { verdict: 'accepted', reason: null, code: 0 };

const byName = new Map<Reason, ReasonInfo>(REASONS.map((entry) => [entry.name, entry]));
const outcomeByReason = new Map<Reason, Outcome>(
  REASONS.map((entry) => [entry.name, { verdict: entry.verdict, reason: entry.name, code: entry.code }]),
);
const outcomeByCode = new Map<number, Outcome>([
  [ACCEPTED.code, ACCEPTED],
  ...[...outcomeByReason.values()].map((outcome) => [outcome.code, outcome] as const),
]);
const rankByName = new Map<Reason, number>(REASONS.map((entry, rank) => [entry.name, rank]));

/** "rejected/malformed" */
export function nameOf({
  verdict,
  reason,
}: {
  readonly verdict: string;
  readonly reason: string | null;
}): string {
  return reason === null ? verdict : `${verdict}/${reason}`;
}

/** The remedy for a duplicate of an accepted event whose content differs: two events share one id. */
export const OTHER_CONTENT_REMEDY = 'Give each event its own event_id.';

export function reasonInfo(reason: Reason): ReasonInfo {
  return byName.get(reason)!;
}

export function outcomeOf(reason: Reason): Outcome {
  return outcomeByReason.get(reason)!;
}

/**
 * Whether an event with this reason is stored. A stored event uses its event_id up: a corrected event needs a
 * new one.
 */
export function usesIdUp(reason: Reason): boolean {
  return reason !== 'no_idempotency_key';
}

/**
 * The remedy for a duplicate; null where its sender has nothing to do. A sender that takes a duplicate for a
 * success would lose an event that was rejected under this id.
 *
 * @param isFree the first event was rehearsed, too, in the same request: its id is still free (W9)
 */
export function duplicateRemedy(
  { verdict, reason }: Outcome,
  contentDiffers: boolean,
  isFree = false,
): string | null {
  // Two events share the id, and where it is free neither has used it up.
  if (contentDiffers && (reason === null || isFree)) return OTHER_CONTENT_REMEDY;
  if (reason === null) return null;
  const first = `It ${isFree ? 'would be' : 'was'} ${verdict} under this id`;
  if (contentDiffers) return `${first}: send it under a new id.`;
  const { charge, remedy } = reasonInfo(reason);
  return charge === 'nobody' ? null : `${first}. ${isFree ? withoutNewId(remedy) : remedy}`;
}

/** A remedy for an event that was only rehearsed: a corrected event may keep its id (W9). */
export function withoutNewId(remedy: string): string {
  return remedy.replace(/,? with (a )?new event_ids?/, '');
}

/** The precedence of a reason: the lower rank wins (V2). */
export function rankOf(reason: Reason): number {
  return rankByName.get(reason)!;
}

/** The outcome of a stored code; undefined for a code that only a newer version knows. */
export function outcomeOfCode(code: number): Outcome | undefined {
  return outcomeByCode.get(code);
}

/**
 * Why a record goes to the dead-letter topic instead of getting a verdict (S4, S5). The owner of the service
 * has to act.
 */
export const DEAD_LETTER_REASONS = [
  {
    code: 1,
    name: 'unclaimed',
    meaning: 'no connection claims the record, so its verdict has no owner',
    remedy:
      'Bind the topic to a connection, or have the sender set the header `connection-id`. Then send the record again to its topic.',
  },
  {
    code: 2,
    name: 'schema_unknown',
    meaning: 'the schema registry does not know the schema id of the record',
    remedy:
      'Register the schema, or have the sender use a registered one. Then send the record again to its topic.',
  },
  {
    code: 3,
    name: 'undecodable',
    meaning:
      'the record batch cannot be read. It is damaged, has an unknown codec or a format before Kafka 0.11, or decompresses to more than the limit. The dead letter holds the whole batch',
    remedy:
      "Check the sender's compression and the size of its batches. Then have the sender send the records of the batch again.",
  },
] as const;
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number]['name'];
