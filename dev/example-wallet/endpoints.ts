/** The other endpoints of an operator, as an example: the catalogue of its games, and the player's token. */
import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { LIMITS } from '../../src/contract/limits';
import type { Bugs } from './bugs';

export interface EndpointAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** More games than the largest limit, so that each limit shows. */
const GAMES = Array.from({ length: 1_200 }, (_, i) => ({ id: `game-${i + 1}`, active: true }));
const TOKEN_SECONDS = 300;
const DAY_SECONDS = 86_400;

/** @returns undefined for another path */
export function answerEndpoint(
  { url = '', headers }: IncomingMessage,
  secret: string,
  bugs: Bugs,
): EndpointAnswer | undefined {
  const { pathname, searchParams } = new URL(url, 'http://operator');
  const now = Date.now() / 1_000;
  if (pathname === '/catalogue')
    return catalogue(headers['x-timestamp'], searchParams.get('limit'), now, bugs);
  return pathname === '/token' ? { status: 200, body: { token: playerToken(secret, now, bugs) } } : undefined;
}

function catalogue(
  timestamp: string | string[] | undefined,
  asked: string | null,
  now: number,
  bugs: Bugs,
): EndpointAnswer {
  const age = now - Number(timestamp);
  const isTimely =
    (age <= LIMITS.catalogue_timestamp_age.value || bugs.has('old_catalogue_request_taken')) &&
    -age <= LIMITS.catalogue_timestamp_ahead.value;
  if (!isTimely) return { status: 401, body: { error: 'the time of the request is too far off' } };
  const limit = Number(asked ?? LIMITS.catalogue_diff_default.value);
  const [least, most] = [LIMITS.catalogue_diff_least.value, LIMITS.catalogue_diff_most.value];
  if (!Number.isInteger(limit) || limit < least || limit > most)
    return { status: 400, body: { error: `limit is a whole number from ${least} to ${most}` } };
  const isWhole = bugs.has('catalogue_limit_ignored');
  return { status: 200, body: { games: isWhole ? GAMES : GAMES.slice(0, limit) } };
}

/** A JSON Web Token with HMAC-SHA256. */
function playerToken(secret: string, now: number, bugs: Bugs): string {
  const seconds = bugs.has('token_lives_a_day') ? DAY_SECONDS : TOKEN_SECONDS;
  const claims = {
    ...(!bugs.has('token_without_player') && { external_player_id: 'p-usual' }),
    exp: Math.floor(now) + seconds,
  };
  const [head, body] = [{ alg: 'HS256', typ: 'JWT' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const content = `${head}.${body}`;
  return `${content}.${createHmac('sha256', secret).update(content).digest('base64url')}`;
}
