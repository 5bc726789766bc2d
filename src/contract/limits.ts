/** The limits and time windows of the contract, as numbers with their units. */

export type LimitUnit =
  | 'ms'
  | 's'
  | 'h'
  | 'months'
  | 'bytes'
  | 'characters'
  | 'events'
  | 'bits'
  | 'entries'
  | 'factor';

export interface LimitRow {
  readonly value: number;
  readonly unit: LimitUnit;
  readonly meaning: string;
}

export const LIMITS = {
  wallet_answer: { value: 5_000, unit: 'ms', meaning: 'The wallet answers a call within this time.' },
  wallet_answer_goal: { value: 1_000, unit: 'ms', meaning: 'A good wallet answers in far less than this.' },
  wallet_stored_answer: {
    value: 4,
    unit: 'months',
    meaning: 'The wallet keeps its answer to an op_id at least this long.',
  },
  wallet_resend: {
    value: 72,
    unit: 'h',
    meaning: 'The service resends an uncertain wallet call for this time.',
  },
  webhook_timestamp: {
    value: 300,
    unit: 's',
    meaning: 'The time of a webhook request differs at most this much, either way.',
  },
  signature_timestamp: {
    value: 300,
    unit: 's',
    meaning: 'The signed time of an operator call differs at most this much.',
  },
  webhook_events: { value: 500, unit: 'events', meaning: 'A webhook batch has at most this many events.' },
  webhook_body: {
    value: 1_048_576,
    unit: 'bytes',
    meaning: 'The body of a webhook request is at most this large.',
  },
  webhook_slot_wait: {
    value: 500,
    unit: 'ms',
    meaning:
      'A request waits this long for a free slot before it gets 503, or 429 where its connection has its whole share.',
  },
  webhook_retry_after: { value: 1, unit: 's', meaning: 'The header Retry-After of that answer.' },
  brand_bytes: { value: 255, unit: 'bytes', meaning: 'The longest brand, in UTF-8.' },
  player_ref_bytes: { value: 255, unit: 'bytes', meaning: 'The longest player_ref, in UTF-8.' },
  promo_player_ref_shortest: { value: 1, unit: 'characters', meaning: 'The shortest promo_player_ref.' },
  promo_player_ref_longest: {
    value: 255,
    unit: 'characters',
    meaning: 'The longest promo_player_ref. It holds no whitespace.',
  },
  amount_bits: {
    value: 64,
    unit: 'bits',
    meaning: 'An amount in minor units fits a signed integer of this size.',
  },
  settled_in_round: { value: 1, unit: 'events', meaning: 'A round has exactly this many settled.' },
  queue_retry_first: { value: 1, unit: 's', meaning: 'The first wait of an undecided queued message.' },
  queue_retry_factor: { value: 2, unit: 'factor', meaning: 'Each next wait is this many times as long.' },
  queue_retry_longest: { value: 30, unit: 's', meaning: 'The longest wait of an undecided queued message.' },
  catalogue_timestamp_age: {
    value: 300,
    unit: 's',
    meaning: "The time of the service's catalogue request is at most this old.",
  },
  catalogue_timestamp_ahead: {
    value: 30,
    unit: 's',
    meaning: "The time of the service's catalogue request is at most this far ahead.",
  },
  catalogue_diff_least: { value: 1, unit: 'entries', meaning: 'The smallest limit of a catalogue diff.' },
  catalogue_diff_most: { value: 1_000, unit: 'entries', meaning: 'The largest limit of a catalogue diff.' },
  catalogue_diff_default: {
    value: 200,
    unit: 'entries',
    meaning: 'The limit of a catalogue diff that names none.',
  },
  token_endpoint_answer: {
    value: 1_500,
    unit: 'ms',
    meaning: 'The token endpoint answers within this time. Otherwise the page shows the view of a guest.',
  },
} as const satisfies Record<string, LimitRow>;
export type LimitName = keyof typeof LIMITS;

export function isLimitName(text: string): text is LimitName {
  return Object.hasOwn(LIMITS, text);
}

/** All limits, in the order of the table. */
export const LIMIT_NAMES: readonly LimitName[] = Object.keys(LIMITS).filter(isLimitName);

/**
 * Lifetimes without a number: an operator token has an expiry of a few minutes. These bounds are ours: the
 * conformance kit reports a token whose lifetime is outside of them.
 */
const SHORTEST_TOKEN_SECONDS = 60;
const LONGEST_TOKEN_SECONDS = 900;
export const OPERATOR_TOKEN_SECONDS = {
  shortest: SHORTEST_TOKEN_SECONDS,
  longest: LONGEST_TOKEN_SECONDS,
} as const;

/** The headers of a wallet call. The name of the idempotency header is not shown: it comes from a profile. */
export const WALLET_HEADERS = { keyId: 'x-api-key-id', requestId: 'x-request-id' } as const;
