/**
 * The operations that an operator calls on the service. The documents show their names and the two path
 * prefixes. They show no methods, paths, parameters or payloads.
 */

export type OperatorOperation =
  | 'getCapabilities'
  | 'listGames'
  | 'updateGame'
  | 'launchGame'
  | 'launchDemo'
  | 'closeSession'
  | 'listSessions'
  | 'listRounds'
  | 'exportRounds'
  | 'getAggregates'
  | 'issueGrant'
  | 'listGrants'
  | 'cancelGrant'
  | 'subscribe'
  | 'ack'
  | 'getOperatorCapabilities'
  | 'getGameFeatures'
  | 'listBonusBuyTypes'
  | 'issueBonusBuy'
  | 'cancelBonusBuy'
  | 'getJackpots'
  | 'getBetRanges'
  | 'getRoundReplay'
  | 'getRoundDetails'
  | 'listCampaigns'
  | 'cancelCampaign'
  | 'queryProviderTransactions'
  | 'listTournaments'
  | 'getTournament'
  | 'getLeaderboard';

export interface OperatorOperationRow {
  /** The behaviour that the documents show. Null where they show the name alone. */
  readonly behaviour: string | null;
}

const NAME_ONLY: OperatorOperationRow = { behaviour: null };

export const OPERATOR_OPERATIONS: Readonly<Record<OperatorOperation, OperatorOperationRow>> = {
  getCapabilities: NAME_ONLY,
  listGames: NAME_ONLY,
  updateGame: NAME_ONLY,
  launchGame: {
    behaviour:
      'Takes a token. The token with another player, game or currency, or after its session has closed or expired, gives 409 `session_token_conflict`. A repeat while the first launch runs gives 503 `launch_in_progress`: retry with the same token. A read-only key gives 403.',
  },
  launchDemo: {
    behaviour: 'Gives 412 `DEMO_NOT_SUPPORTED` for a game whose `demo_supported` is false.',
  },
  closeSession: NAME_ONLY,
  listSessions: NAME_ONLY,
  listRounds: NAME_ONLY,
  exportRounds: NAME_ONLY,
  getAggregates: NAME_ONLY,
  issueGrant: {
    behaviour: 'Takes an `idempotency_key`. The same key with another body gives 409.',
  },
  listGrants: NAME_ONLY,
  cancelGrant: NAME_ONLY,
  subscribe: NAME_ONLY,
  ack: NAME_ONLY,
  getOperatorCapabilities: NAME_ONLY,
  getGameFeatures: NAME_ONLY,
  listBonusBuyTypes: NAME_ONLY,
  issueBonusBuy: NAME_ONLY,
  cancelBonusBuy: NAME_ONLY,
  getJackpots: NAME_ONLY,
  getBetRanges: NAME_ONLY,
  getRoundReplay: NAME_ONLY,
  getRoundDetails: NAME_ONLY,
  listCampaigns: NAME_ONLY,
  cancelCampaign: NAME_ONLY,
  queryProviderTransactions: NAME_ONLY,
  listTournaments: NAME_ONLY,
  getTournament: NAME_ONLY,
  getLeaderboard: NAME_ONLY,
};

/** The prefixes of the paths of operator calls, under the base URL of the service. */
export const OPERATOR_PATH_PREFIXES = ['/v2/aggregator/', '/v2/features/'] as const;

export function isOperatorOperation(text: string): text is OperatorOperation {
  return Object.hasOwn(OPERATOR_OPERATIONS, text);
}

/** All operations, in the order of the table. */
export const OPERATOR_OPERATION_NAMES: readonly OperatorOperation[] =
  Object.keys(OPERATOR_OPERATIONS).filter(isOperatorOperation);
