/**
 * The rows of the contract with operators, typed by hand a second time. The tests compare
 * src/contract/ with this list, so an accident in one of the two fails.
 */

/** HTTP status, codes, whether a client retries, tokens of the message. */
export const SHOWN_ERRORS: readonly (readonly [number, string, 'yes' | 'no', string])[] = [
  [
    400,
    'INVALID_REQUEST',
    'no',
    'invalid json body, invalid request, invalid_request, invalid_provider_ref, capability_not_supported, bonus_buy_not_cancellable',
  ],
  [401, 'INVALID_REQUEST', 'no', 'unauthorized, signature_missing, signature_invalid, signature_stale'],
  [403, 'BUSINESS_REJECTED', 'no', 'forbidden'],
  [
    403,
    'BUSINESS_REJECTED or INVALID_REQUEST',
    'no',
    'operator_suspended, operator forbidden, restricted, game_unavailable, PLAYER_SELF_EXCLUDED, PLAYER_COOL_OFF',
  ],
  [
    404,
    'INVALID_REQUEST',
    'no',
    'provider not found, provider_not_found, game not found, player_not_found, bonus_buy_not_found',
  ],
  [409, 'IDEMPOTENCY_CONFLICT', 'no', 'session_token_conflict'],
  [412, 'INVALID_REQUEST', 'no', 'DEMO_NOT_SUPPORTED'],
  [422, 'INVALID_REQUEST', 'no', 'unsupported action'],
  [429, 'RATE_LIMITED', 'yes', 'rate limit'],
  [500, 'INTERNAL', 'no', 'internal error'],
  [501, 'UNSUPPORTED_ACTION', 'no', ''],
  [502, 'INTERNAL', 'no', 'provider_error'],
  [503, 'MAINTENANCE', 'yes', 'provider_unavailable'],
  [503, 'INTERNAL', 'yes', 'launch_in_progress'],
  [504, 'INTERNAL', 'yes', 'provider_timeout'],
];

/** Code, whether the service retries, statuses with the envelope, restriction. */
export const SHOWN_CODES: readonly (readonly [string, 'yes' | 'no', string, string])[] = [
  ['INSUFFICIENT_FUNDS', 'no', '200', 'any_call'],
  ['PLAYER_NOT_FOUND', 'no', '200', 'any_call'],
  ['PLAYER_BLOCKED', 'no', '200', 'new_bets_only'],
  ['CURRENCY_MISMATCH', 'no', '200', 'any_call'],
  ['BUSINESS_REJECTED', 'no', '200', 'any_call'],
  ['UNKNOWN_ORIGINAL', 'no', '200', 'never_rollback_or_reconcile'],
  ['ALREADY_ROLLED_BACK', 'no', '200', 'any_call'],
  ['UNSUPPORTED_ACTION', 'no', '200 404', 'any_call'],
  ['RATE_LIMITED', 'yes', '200 429', 'any_call'],
  ['MAINTENANCE', 'yes', '200', 'any_call'],
  ['INVALID_REQUEST', 'no', '200', 'any_call'],
  ['SESSION_EXPIRED', 'no', '200', 'new_bets_only'],
  ['LIMIT_EXCEEDED', 'no', '200', 'new_bets_only'],
  ['INTERNAL', 'yes', '200 500', 'any_call'],
  ['IDEMPOTENCY_CONFLICT', 'no', '200', 'any_call'],
];

export const SHOWN_ACTIONS: readonly string[] = [
  'get player balance',
  'authenticate player session',
  'debit player balance (bet)',
  'credit player balance (win or bonus)',
  'atomic debit and credit',
  'rollback transaction',
  'close game round',
  'settle free-round grant',
  'reconcile uncertain transaction',
  'non-financial notification',
];

export const SHOWN_OPERATIONS: readonly string[] = [
  'getCapabilities',
  'listGames',
  'updateGame',
  'launchGame',
  'launchDemo',
  'closeSession',
  'listSessions',
  'listRounds',
  'exportRounds',
  'getAggregates',
  'issueGrant',
  'listGrants',
  'cancelGrant',
  'subscribe',
  'ack',
  'getOperatorCapabilities',
  'getGameFeatures',
  'listBonusBuyTypes',
  'issueBonusBuy',
  'cancelBonusBuy',
  'getJackpots',
  'getBetRanges',
  'getRoundReplay',
  'getRoundDetails',
  'listCampaigns',
  'cancelCampaign',
  'queryProviderTransactions',
  'listTournaments',
  'getTournament',
  'getLeaderboard',
];

/** Each row of the limits, with its numbers in the order in which they are shown. */
export const SHOWN_LIMITS: readonly (readonly [string, string])[] = [
  ['wallet answer time', 'wallet_answer 5000 ms, wallet_answer_goal 1000 ms'],
  ['stored answer per op_id', 'wallet_stored_answer 4 months'],
  ['resend period for uncertain calls', 'wallet_resend 72 h'],
  ['webhook timestamp window', 'webhook_timestamp 300 s'],
  ['signature timestamp window', 'signature_timestamp 300 s'],
  ['webhook batch and body', 'webhook_events 500 events, webhook_body 1048576 bytes'],
  ['wait for a slot', 'webhook_slot_wait 500 ms, webhook_retry_after 1 s'],
  ['brand, player_ref', 'brand_bytes 255 bytes, player_ref_bytes 255 bytes'],
  ['promo_player_ref', 'promo_player_ref_shortest 1 characters, promo_player_ref_longest 255 characters'],
  ['amount', 'amount_bits 64 bits'],
  ['settled per round', 'settled_in_round 1 events'],
  [
    'retry of an undecided message',
    'queue_retry_first 1 s, queue_retry_factor 2 factor, queue_retry_longest 30 s',
  ],
  ['catalogue timestamp', 'catalogue_timestamp_age 300 s, catalogue_timestamp_ahead 30 s'],
  [
    'catalogue diff limit',
    'catalogue_diff_least 1 entries, catalogue_diff_most 1000 entries, catalogue_diff_default 200 entries',
  ],
  ['token endpoint', 'token_endpoint_answer 1500 ms'],
];
