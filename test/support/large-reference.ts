/** Reference data of an operator with very many games. */
import { randomUUID } from 'node:crypto';

export const GAMES = 50_000;

/** The ids of the games, by number. Counted ids are compressed to a few bytes each, and random ones to 21. */
export const GAME_IDS = {
  counted: (n: number) => `provider-of-games-game-${n}`,
  random: () => randomUUID(),
} as const;

export type GameIds = keyof typeof GAME_IDS;

export function largeReference(ids: GameIds): string {
  const catalogue = Array.from({ length: GAMES }, (_, n) => ({ id: GAME_IDS[ids](n), active: true }));
  return JSON.stringify({ operators: [{ id: 'acme', catalogue }] });
}
