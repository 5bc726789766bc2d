/** The plan of a round that the sandbox plays. */
import type { RoundPlan } from '../../src/sandbox/round';

/** A round of one bet and one win. */
export const aRoundPlan = (more: Partial<RoundPlan> = {}): RoundPlan => ({
  roundId: 'r',
  key: 'k',
  player: 'p',
  token: 't',
  game: 'g',
  brand: null,
  currency: 'EUR',
  scale: 2,
  bets: ['100'],
  wins: ['250'],
  isVoid: false,
  isClosed: true,
  isAuthenticated: false,
  isAtomic: false,
  occurredAt: '2026-11-27T10:00:00.000Z',
  ...more,
});
