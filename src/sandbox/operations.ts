/** The behaviours of the calls, once their callers are known and allowed. */
import { createHash } from 'node:crypto';
import { type Clock, NEVER } from '../lib/clock';
import { refuse, type SandboxAnswer, success } from './answers';
import type { SandboxConfig, SandboxGame, SandboxOperator } from './config-file';
import { sessionAnswer } from './launch';
import { type LaunchRequest, type ReadBody, readClose, readDemo, readGrant, readLaunch } from './requests';
import type { SandboxOperation } from './routes';
import type { SessionStore } from './session-store';

/** One call: whose it is, its body as JSON, and the time that its caller ordered. */
export interface SandboxCall {
  readonly operator: SandboxOperator;
  readonly json: unknown;
  readonly delayMs: number;
}

export type PerformCall = (call: SandboxCall) => Promise<SandboxAnswer>;
export type Operations = { readonly [operation in SandboxOperation]?: PerformCall };

export interface OperationsDeps {
  readonly config: SandboxConfig;
  readonly store: SessionStore;
  readonly clock: Clock;
  /** Ids of sessions and grants. */
  readonly newId: () => string;
}

const DEMO_CURRENCY = 'EUR';

export function makeOperations({ config, store, clock, newId }: OperationsDeps): Operations {
  const games = new Map(config.games.map((game) => [game.id, game]));

  /** The game, or why it cannot be played. */
  const playable = (id: string): SandboxGame | SandboxAnswer => {
    const game = games.get(id);
    if (game === undefined) return refuse('game not found', 'no game of the sandbox has this id');
    return game.isAvailable ? game : refuse('game_unavailable', 'the game is not available');
  };
  const delay = async ({ delayMs }: SandboxCall): Promise<void> => {
    if (delayMs > 0) await clock.sleep(delayMs, NEVER);
  };

  return {
    launchGame: withBody(readLaunch, async (request, call) => {
      const game = playable(request.game);
      if ('status' in game) return game;
      const wrong = whyNoPlayer(call.operator, request) ?? whyNoBrand(call.operator, request);
      if (wrong !== undefined) return wrong;
      const begun = await store.beginLaunch(call.operator.id, request, `s-${newId()}`);
      if (begun.type === 'answer') return begun.answer;
      await delay(call);
      const session = await store.openSession(begun.session, config.sessionSeconds);
      if (session !== null) return sessionAnswer(session);
      return refuse('session_token_conflict', 'the session of the token ended while it was launched');
    }),
    launchDemo: withBody(readDemo, async ({ game: id, currency = DEMO_CURRENCY }, call) => {
      const game = playable(id);
      if ('status' in game) return game;
      if (!game.isDemoSupported) return refuse('DEMO_NOT_SUPPORTED', 'the game has no demo');
      await delay(call);
      return sessionAnswer(
        await store.openDemo(call.operator.id, { game: id, currency }, `s-${newId()}`, config.sessionSeconds),
      );
    }),
    issueGrant: withBody(readGrant, async (request, call) => {
      const { idempotency_key: key, player, game: id, rounds } = request;
      const game = playable(id);
      if ('status' in game) return game;
      const wrong = whyNoPlayer(call.operator, { player });
      if (wrong !== undefined) return wrong;
      const bodyHash = hashOf(call.json);
      const { grantId, isSame } = await store.grant(call.operator.id, key, {
        grantId: `g-${newId()}`,
        bodyHash,
      });
      await delay(call);
      // The contract has one token for this status.
      if (!isSame)
        return refuse(
          'session_token_conflict',
          'the idempotency_key was used with another body; use a new key',
        );
      return success({ grant_id: grantId, player, game: id, rounds });
    }),
    endSession: withBody(readClose, async ({ session_id: sessionId, as: state = 'closed' }, call) => {
      await delay(call);
      const session = await store.endSession(call.operator.id, sessionId, state);
      return session === null ? noSession() : sessionAnswer(session);
    }),
  };
}

export function noSession(): SandboxAnswer {
  return refuse('invalid request', 'the operator has no session with this id', 404);
}

/** Reads the body first. */
export function withBody<T>(
  read: (json: unknown) => ReadBody<T>,
  perform: (request: T, call: SandboxCall) => Promise<SandboxAnswer>,
): PerformCall {
  return async (call) => {
    const body = read(call.json);
    return 'problem' in body ? refuse('invalid_request', body.problem) : perform(body.value, call);
  };
}

/** The names are those of the operator's players, where the file lists them. */
function whyNoPlayer(
  { players }: SandboxOperator,
  { player, attributes }: Pick<LaunchRequest, 'player' | 'attributes'>,
): SandboxAnswer | undefined {
  if (players === null) return undefined;
  if (!players.includes(player)) return refuse('player_not_found', 'the operator has no such player');
  const promo = attributes?.promo_player_ref;
  if (promo === undefined || players.includes(promo)) return undefined;
  return refuse('invalid_request', 'InvalidArgument: promo_player_ref is no player of the operator');
}

function whyNoBrand({ brands }: SandboxOperator, { brand }: LaunchRequest): SandboxAnswer | undefined {
  if (brands === null)
    return brand === undefined
      ? undefined
      : refuse('invalid_request', 'brand is present, and the operator has one brand; leave it out');
  if (brand !== undefined && brands.includes(brand)) return undefined;
  const fault = brand === undefined ? 'brand is missing' : 'brand is none of the operator';
  return refuse('invalid_request', `${fault}; its brands: ${brands.join(', ')}`);
}

/** The same for bodies with the same values, in whatever order their fields come. */
export function hashOf(json: unknown): string {
  return createHash('sha256').update(canonical(json)).digest('hex');
}

function canonical(json: unknown): string {
  if (Array.isArray(json)) return `[${json.map(canonical).join()}]`;
  if (typeof json !== 'object' || json === null) return JSON.stringify(json) ?? 'null';
  const fields = Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, value]) => `${JSON.stringify(key)}:${canonical(value)}`).join()}}`;
}
