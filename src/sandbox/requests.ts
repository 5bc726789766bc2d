/**
 * The bodies of the sandbox's calls: schemas, types and readers. The contract shows that a launch carries a
 * token, and a grant an idempotency_key. All other fields are ours. Fields that are not listed are ignored.
 */
import Ajv2020, { type ErrorObject, type ValidateFunction } from 'ajv/dist/2020';
import { LIMITS } from '../contract/limits';
import { promoPlayerFault } from '../domain/attribution';
import { AMOUNT_PATTERN, CURRENCIES } from '../domain/event/money';

/** No U+0000, which Postgres cannot store. */
const STORABLE = '^[^\\u0000]+$';
/** No character with the property White_Space of Unicode, which not every dialect of patterns can name. */
const NO_WHITE_SPACE =
  '^[^\\u0000\\u0009-\\u000d\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+$';
/** Part of an op_id, which is the value of a header. */
const ID = '^[A-Za-z0-9_-]+$';
const LONGEST_NAME = LIMITS.player_ref_bytes.value;
const MOST_MOVES = 20;

const name = (description: string) =>
  ({ description, type: 'string', minLength: 1, maxLength: LONGEST_NAME, pattern: STORABLE }) as const;
const id = (description: string) =>
  ({ description, type: 'string', minLength: 1, maxLength: 64, pattern: ID }) as const;
const amounts = (description: string, minItems: number) =>
  ({
    description,
    type: 'array',
    minItems,
    maxItems: MOST_MOVES,
    items: { type: 'string', pattern: AMOUNT_PATTERN, maxLength: 40 },
  }) as const;

export interface LaunchRequest {
  readonly token: string;
  readonly player: string;
  readonly game: string;
  readonly currency: string;
  readonly brand?: string;
  readonly attributes?: { readonly promo_player_ref?: string };
}

export const LAUNCH_SCHEMA = {
  title: 'Launch of a game',
  type: 'object',
  required: ['token', 'player', 'game', 'currency'],
  properties: {
    token: name('The token of the session, as your wallet knows it. A token is for one session.'),
    player: name('The player_ref.'),
    game: name('A game of the file of the sandbox.'),
    currency: { description: 'The currency of the session.', enum: CURRENCIES.map(({ code }) => code) },
    brand: name('The brand of the player, where the operator has several.'),
    attributes: {
      type: 'object',
      properties: {
        promo_player_ref: {
          description:
            "The player's normal player_ref, to whom promotions credit the rounds of a bonus session.",
          type: 'string',
          minLength: LIMITS.promo_player_ref_shortest.value,
          maxLength: LIMITS.promo_player_ref_longest.value,
          pattern: NO_WHITE_SPACE,
        },
      },
    },
  },
  examples: [{ token: 't-usual', player: 'p-usual', game: 'g1', currency: 'EUR' }],
} as const;

export interface DemoRequest {
  readonly game: string;
  readonly currency?: string;
}

export const DEMO_SCHEMA = {
  title: 'Launch of a demo',
  type: 'object',
  required: ['game'],
  properties: { game: LAUNCH_SCHEMA.properties.game, currency: LAUNCH_SCHEMA.properties.currency },
  examples: [{ game: 'g1' }],
} as const;

export interface GrantRequest {
  readonly idempotency_key: string;
  readonly player: string;
  readonly game: string;
  readonly rounds: number;
}

export const GRANT_SCHEMA = {
  title: 'Grant of free rounds',
  type: 'object',
  required: ['idempotency_key', 'player', 'game', 'rounds'],
  properties: {
    idempotency_key: name(
      'The same key with the same body gives the same grant. With another body it gives 409.',
    ),
    player: LAUNCH_SCHEMA.properties.player,
    game: LAUNCH_SCHEMA.properties.game,
    rounds: { description: 'The free rounds.', type: 'integer', minimum: 1, maximum: 1_000 },
  },
  examples: [{ idempotency_key: 'grant-1', player: 'p-usual', game: 'g1', rounds: 10 }],
} as const;

export interface CloseRequest {
  readonly session_id: string;
  readonly as?: 'closed' | 'expired';
}

export const CLOSE_SCHEMA = {
  title: 'End of a session',
  type: 'object',
  required: ['session_id'],
  properties: {
    session_id: id('The session of a launch.'),
    as: { description: 'How the session ends; closed by default.', enum: ['closed', 'expired'] },
  },
  examples: [{ session_id: 's-1' }],
} as const;

export interface PlayRequest {
  readonly session_id: string;
  readonly round_id?: string;
  readonly bets: readonly string[];
  readonly wins?: readonly string[];
  readonly ending?: 'settle' | 'void';
  readonly atomic?: boolean;
}

export const PLAY_SCHEMA = {
  title: 'Round to play',
  type: 'object',
  required: ['session_id', 'bets'],
  properties: {
    session_id: id('The session of a launch that is no demo.'),
    round_id: id('Your own id of the round, so that a repeated call finds the round. Absent: a new id.'),
    bets: amounts('The stakes in major units, in order. Each is a debit of the wallet.', 1),
    wins: amounts('The payouts in major units, in order. Each is a credit of the wallet.', 0),
    ending: {
      description:
        'void: the game gives the round up after its bets, and each stake is rolled back. settle by default.',
      enum: ['settle', 'void'],
    },
    atomic: {
      description:
        'true: the one bet and the one win are one debit_and_credit of the wallet. false by default.',
      type: 'boolean',
    },
  },
  examples: [{ session_id: 's-1', bets: ['1.00'], wins: ['2.50'] }],
} as const;

export interface RoundRequest {
  readonly round_id: string;
}

export const ROUND_SCHEMA = {
  title: 'Round to show',
  type: 'object',
  required: ['round_id'],
  properties: { round_id: id('The round.') },
  examples: [{ round_id: 'r-1' }],
} as const;

/** A call whose body has no field that is read. */
export const NAME_ONLY_SCHEMA = { title: 'Call that the sandbox does not support', type: 'object' } as const;

export type ReadBody<T> = { readonly value: T } | { readonly problem: string };

const ajv = new Ajv2020({ allErrors: true, strict: false });
const isLaunch = ajv.compile<LaunchRequest>(LAUNCH_SCHEMA);
const isDemo = ajv.compile<DemoRequest>(DEMO_SCHEMA);
const isGrant = ajv.compile<GrantRequest>(GRANT_SCHEMA);
const isClose = ajv.compile<CloseRequest>(CLOSE_SCHEMA);
const isPlay = ajv.compile<PlayRequest>(PLAY_SCHEMA);
const isRound = ajv.compile<RoundRequest>(ROUND_SCHEMA);

/** @returns the value, or all faults at once. An invalid promo_player_ref is an InvalidArgument */
export function readLaunch(json: unknown): ReadBody<LaunchRequest> {
  const read = readBy(isLaunch, json);
  const ref = 'value' in read ? read.value.attributes?.promo_player_ref : undefined;
  const fault = ref === undefined ? undefined : promoPlayerFault(ref);
  return fault === undefined
    ? read
    : { problem: `InvalidArgument: ${fault.field} ${fault.problem}. ${fault.remedy}` };
}

export const readDemo = (json: unknown): ReadBody<DemoRequest> => readBy(isDemo, json);
export const readGrant = (json: unknown): ReadBody<GrantRequest> => readBy(isGrant, json);
export const readClose = (json: unknown): ReadBody<CloseRequest> => readBy(isClose, json);
export const readPlay = (json: unknown): ReadBody<PlayRequest> => readBy(isPlay, json);
export const readRoundRequest = (json: unknown): ReadBody<RoundRequest> => readBy(isRound, json);

function readBy<T>(isValid: ValidateFunction<T>, json: unknown): ReadBody<T> {
  // A schema has no words for it, and Postgres cannot store it.
  if (!isWellFormed(json)) return { problem: 'a text of the body has half of a surrogate pair' };
  if (isValid(json)) return { value: json };
  return { problem: (isValid.errors ?? []).map(describeFault).join('; ') };
}

/** Without the value, which may name a player. */
function describeFault({ instancePath, message, params }: ErrorObject): string {
  const path = instancePath.slice(1).replaceAll('/', '.');
  const isPromo = path === 'attributes.promo_player_ref';
  const allowed = Array.isArray(params.allowedValues) ? `: ${params.allowedValues.join(', ')}` : '';
  return `${isPromo ? 'InvalidArgument: ' : ''}${path === '' ? 'the body' : path} ${message ?? 'is wrong'}${allowed}`;
}

function isWellFormed(json: unknown): boolean {
  if (typeof json === 'string') return json.isWellFormed();
  if (typeof json !== 'object' || json === null) return true;
  return Object.values(json).every(isWellFormed);
}
