/** The answer to a launch whose token was used before. Pure. */
import { refuse, type SandboxAnswer, success } from './answers';
import type { LaunchRequest } from './requests';

export const SESSION_STATES = ['launching', 'open', 'closed', 'expired'] as const;
export type SessionState = (typeof SESSION_STATES)[number];

export interface SandboxSession {
  readonly sessionId: string;
  readonly operatorId: string;
  /** Null in a demo, as is the player. */
  readonly token: string | null;
  readonly player: string | null;
  readonly game: string;
  readonly currency: string;
  readonly brand: string | null;
  readonly promoPlayerRef: string | null;
  readonly state: SessionState;
  /** Counts the processes that launched it. Only the last one opens it. */
  readonly launchNo: number;
  /** Milliseconds since 1970. While it launches: when its process counts as gone. */
  readonly until: number;
}

export type LaunchStep =
  /** The session is there, or the launch is refused. */
  | { readonly type: 'answer'; readonly answer: SandboxAnswer }
  /** The process of the first launch is gone: this launch takes its place. */
  | { readonly type: 'launch_again' };

/** @param now by the clock of the store, as `session.until` */
export function repeatedLaunch(session: SandboxSession, request: LaunchRequest, now: number): LaunchStep {
  const { state, until } = session;
  const conflict = (text: string): LaunchStep => ({
    type: 'answer',
    answer: refuse('session_token_conflict', text),
  });
  const differing = (['player', 'game', 'currency'] as const).filter(
    (field) => session[field] !== request[field],
  );
  if (differing.length > 0)
    return conflict(`the token was launched with another ${differing.join(' and ')}; use a new token`);
  if (state === 'launching')
    return until <= now
      ? { type: 'launch_again' }
      : {
          type: 'answer',
          answer: refuse('launch_in_progress', 'the first launch still runs; retry with the same token'),
        };
  if (state === 'closed') return conflict('the session of the token is closed; use a new token');
  if (state === 'expired' || until <= now)
    return conflict('the session of the token has expired; use a new token');
  return { type: 'answer', answer: sessionAnswer(session) };
}

export function sessionAnswer(session: SandboxSession): SandboxAnswer {
  const { sessionId, game, player, currency, promoPlayerRef, until } = session;
  return success({
    session_id: sessionId,
    game,
    player,
    currency,
    is_demo: player === null,
    promo_player_ref: promoPlayerRef,
    url: `https://sandbox.invalid/sessions/${sessionId}`,
    expires_at: new Date(until).toISOString(),
  });
}
