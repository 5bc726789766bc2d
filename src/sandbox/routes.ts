/**
 * The calls that the sandbox answers, as data. Its server, its OpenAPI document and the documentation read
 * this table. The contract shows the names of the 30 operations, two prefixes and four behaviours. The
 * method, the path behind the prefix, and the calls under /sandbox/ are ours.
 */
import {
  OPERATOR_OPERATION_NAMES,
  OPERATOR_PATH_PREFIXES,
  type OperatorOperation,
} from '../contract/operations';
import type { ServiceErrorName } from '../contract/service-errors';
import {
  CLOSE_SCHEMA,
  DEMO_SCHEMA,
  GRANT_SCHEMA,
  LAUNCH_SCHEMA,
  NAME_ONLY_SCHEMA,
  PLAY_SCHEMA,
  ROUND_SCHEMA,
} from './requests';

/** The calls by which a developer moves the sandbox. */
export type SandboxControl = 'endSession' | 'playRound' | 'getRound';
export type SandboxOperation = OperatorOperation | SandboxControl;

export interface SandboxRoute {
  readonly operation: SandboxOperation;
  /** The method is POST. */
  readonly path: string;
  readonly summary: string;
  /** Whether a read-only key gets 403. */
  readonly isWrite: boolean;
  readonly request: Readonly<Record<string, unknown>>;
  /** The fields of a success. Null: the sandbox does not support the call. */
  readonly success: Readonly<Record<string, unknown>> | null;
  /** The errors beside those of every call. */
  readonly errors: readonly ServiceErrorName[];
}

/** The errors that every call may answer. */
export const COMMON_ERRORS: readonly ServiceErrorName[] = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'not_allowed',
  'rate_limited',
  'internal',
  'provider_error',
  'provider_unavailable',
  'provider_timeout',
  'not_implemented',
];

const SESSION = {
  session_id: { type: 'string' },
  game: { type: 'string' },
  player: { description: 'Null in a demo.', type: ['string', 'null'] },
  currency: { type: 'string' },
  is_demo: { type: 'boolean' },
  promo_player_ref: {
    description: 'The player to whom promotions credit the rounds; null: the player of the session.',
    type: ['string', 'null'],
  },
  url: { description: 'An address that leads nowhere.', type: 'string' },
  expires_at: { type: 'string', format: 'date-time' },
} as const;

const ROUND = {
  round_id: { type: 'string' },
  session_id: { type: 'string' },
  state: {
    description:
      'playing: a call of the wallet is open. refused: the wallet took no stake. unresolved: people have to look at a call of the wallet.',
    enum: ['playing', 'settled', 'refunded', 'refused', 'unresolved'],
  },
  calls: {
    description: 'The calls of the wallet, in order.',
    type: 'array',
    items: {
      type: 'object',
      required: ['op_id', 'action', 'state'],
      properties: {
        op_id: { type: 'string' },
        action: { type: 'string' },
        state: { type: 'string' },
        cause: {
          description: 'The code of the last answer, or why there was none.',
          type: ['string', 'null'],
        },
      },
    },
  },
  events: {
    description: 'The events of the round, with the verdict of the intake once there is one.',
    type: 'array',
    items: {
      type: 'object',
      required: ['event_id', 'kind', 'amount', 'verdict'],
      properties: {
        event_id: { type: 'string' },
        kind: { type: 'string' },
        amount: { type: 'string' },
        verdict: { type: ['string', 'null'] },
        reason: { type: ['string', 'null'] },
      },
    },
  },
  attribution: {
    description:
      'none, waiting, or the answer of the intake: set, unchanged, erased, conflict, invalid, lost.',
    type: 'string',
  },
} as const;

const GRANT = {
  grant_id: { type: 'string' },
  player: { type: 'string' },
  game: { type: 'string' },
  rounds: { type: 'integer' },
} as const;

/** The prefixes, in the order in which the contract lists the operations: the second begins with this one. */
const FIRST_FEATURE: OperatorOperation = 'getOperatorCapabilities';

/** Only launchGame is shown as a write. The others are our reading of their names. */
const WRITES: ReadonlySet<SandboxOperation> = new Set<SandboxOperation>([
  ...(['updateGame', 'launchGame', 'launchDemo', 'closeSession', 'issueGrant', 'cancelGrant'] as const),
  ...(['subscribe', 'ack', 'issueBonusBuy', 'cancelBonusBuy', 'cancelCampaign'] as const),
  ...(['endSession', 'playRound'] as const),
]);

type Behaviour = Pick<SandboxRoute, 'summary' | 'request' | 'success' | 'errors'>;

const SUPPORTED: { readonly [operation in OperatorOperation]?: Behaviour } = {
  launchGame: {
    summary: 'Launches a game with a token.',
    request: LAUNCH_SCHEMA,
    success: SESSION,
    errors: ['not_found', 'conflict', 'launch_in_progress'],
  },
  launchDemo: {
    summary: 'Launches a demo of a game that supports it.',
    request: DEMO_SCHEMA,
    success: SESSION,
    errors: ['not_found', 'demo_not_supported'],
  },
  issueGrant: {
    summary: 'Grants free rounds, once for each idempotency_key.',
    request: GRANT_SCHEMA,
    success: GRANT,
    errors: ['not_found', 'conflict'],
  },
};

const NAME_ONLY: Behaviour = {
  summary: 'Known by its name alone. The sandbox answers 422.',
  request: NAME_ONLY_SCHEMA,
  success: null,
  errors: ['unsupported_action'],
};

const CONTROLS: Readonly<Record<SandboxControl, Behaviour>> = {
  endSession: {
    summary: 'Closes a session, or lets it expire.',
    request: CLOSE_SCHEMA,
    success: SESSION,
    errors: ['not_found'],
  },
  playRound: {
    summary: "Plays a whole round against the operator's test wallet, and publishes its events.",
    request: PLAY_SCHEMA,
    success: ROUND,
    errors: ['not_found', 'conflict', 'unsupported_action'],
  },
  getRound: { summary: 'Shows a round.', request: ROUND_SCHEMA, success: ROUND, errors: ['not_found'] },
};

export const CONTROL_PREFIX = '/sandbox/';

function operatorRoutes(): SandboxRoute[] {
  const [aggregator, features] = OPERATOR_PATH_PREFIXES;
  const split = OPERATOR_OPERATION_NAMES.indexOf(FIRST_FEATURE);
  return OPERATOR_OPERATION_NAMES.map((operation, place) => ({
    operation,
    path: `${place < split ? aggregator : features}${operation}`,
    isWrite: WRITES.has(operation),
    ...(SUPPORTED[operation] ?? NAME_ONLY),
  }));
}

function controlRoutes(): SandboxRoute[] {
  const controls: readonly SandboxControl[] = ['endSession', 'playRound', 'getRound'];
  return controls.map((operation) => ({
    operation,
    path: `${CONTROL_PREFIX}${operation}`,
    isWrite: WRITES.has(operation),
    ...CONTROLS[operation],
  }));
}

export const SANDBOX_ROUTES: readonly SandboxRoute[] = [...operatorRoutes(), ...controlRoutes()];

/** The statuses of errors that HTTP itself has, by the calls that may answer them. */
export const HTTP_REFUSALS = {
  404: 'No call has this path.',
  405: 'The method is not POST.',
  413: 'The body is too large.',
  415: 'The body is not declared as JSON.',
} as const;
