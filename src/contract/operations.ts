/**
 * The operations that an operator calls on the service. The documents show their names and the two path
 * prefixes. They show no methods, paths, parameters or payloads.
 */

/** The operations, each with the behaviour that the documents show. Null where they show the name alone. */
export const OPERATOR_OPERATIONS = {
  getCapabilities: null,
  listGames: null,
  updateGame: null,
  launchGame:
    'Takes a token. The token with another player, game or currency, or after its session has closed or expired, gives 409 `session_token_conflict`. A repeat while the first launch runs gives 503 `launch_in_progress`: retry with the same token. A read-only key gives 403.',
  launchDemo: 'Gives 412 `DEMO_NOT_SUPPORTED` for a game whose `demo_supported` is false.',
  closeSession: null,
  listSessions: null,
  listRounds: null,
  exportRounds: null,
  getAggregates: null,
  issueGrant: 'Takes an `idempotency_key`. The same key with another body gives 409.',
  listGrants: null,
  cancelGrant: null,
  subscribe: null,
  ack: null,
  getOperatorCapabilities: null,
  getGameFeatures: null,
  listBonusBuyTypes: null,
  issueBonusBuy: null,
  cancelBonusBuy: null,
  getJackpots: null,
  getBetRanges: null,
  getRoundReplay: null,
  getRoundDetails: null,
  listCampaigns: null,
  cancelCampaign: null,
  queryProviderTransactions: null,
  listTournaments: null,
  getTournament: null,
  getLeaderboard: null,
} as const satisfies Record<string, string | null>;
export type OperatorOperation = keyof typeof OPERATOR_OPERATIONS;

/** The prefixes of the paths of operator calls, under the base URL of the service. */
export const OPERATOR_PATH_PREFIXES = ['/v2/aggregator/', '/v2/features/'] as const;

export function isOperatorOperation(text: string): text is OperatorOperation {
  return Object.hasOwn(OPERATOR_OPERATIONS, text);
}

/** All operations, in the order of the table. */
export const OPERATOR_OPERATION_NAMES: readonly OperatorOperation[] =
  Object.keys(OPERATOR_OPERATIONS).filter(isOperatorOperation);
