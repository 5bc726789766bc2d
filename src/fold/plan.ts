/** The next step of a fold, decided from the rows of its generations. Pure: fold.ts reads and writes them. */
import { compareLineages } from './lineage';

export interface Generation {
  readonly generation: number;
  readonly state: 'filling' | 'shown' | 'retired';
  /** All verdicts up to this number are folded. */
  readonly after: number;
  readonly lineage: string;
  /** No verdict of its next slices was decided before this time. */
  readonly since: string;
}

export type FoldStep =
  /** Begin a generation: the first one, or one beside that which is shown. */
  | { readonly kind: 'begin'; readonly generation: number; readonly reason: string }
  /** The generation can no longer be made exact. */
  | { readonly kind: 'give up'; readonly generation: number }
  /** Fold the verdicts behind `after` up to `upTo`. */
  | {
      readonly kind: 'slice';
      readonly of: Generation;
      readonly upTo: number;
      /** Show the generation afterwards: it then has all that the shown one has. */
      readonly shows: boolean;
      readonly isOnAnotherServer: boolean;
    }
  /** Delete results of a generation that nobody sees. */
  | { readonly kind: 'sweep'; readonly generation: number }
  | { readonly kind: 'idle' };

/** A store whose numbers contradict the cursor. */
export class CursorBeyondStore extends Error {
  override readonly name = 'CursorBeyondStore';
}

export interface FoldState {
  readonly generations: readonly Generation[];
  /** `promo.lineage()` now. */
  readonly lineage: string;
  /** No verdict with this number or a lower one can still appear. */
  readonly horizon: number;
  /** The highest number that the next slice of a generation may have. */
  readonly reach: (of: Generation) => number;
  /** Whose turn it is, where both have work. */
  readonly turn: 'shown' | 'filling';
}

export const FIRST_REASON = 'first start';
export const ARRIVAL_REASON = 'verdicts of another store arrived, or the server may have lost some';

/** @throws CursorBeyondStore */
export function planStep({ generations, lineage, horizon, reach, turn }: FoldState): FoldStep {
  const shown = generations.find(({ state }) => state === 'shown');
  const filling = generations.find(({ state }) => state === 'filling');
  const newest = Math.max(0, ...generations.map(({ generation }) => generation));
  const isWrong = (each: Generation) => compareLineages(each.lineage, lineage) === 'other rows';
  if (filling !== undefined && isWrong(filling)) return { kind: 'give up', generation: filling.generation };
  if (shown === undefined) return { kind: 'begin', generation: newest + 1, reason: FIRST_REASON };
  if (isWrong(shown) && filling === undefined)
    return { kind: 'begin', generation: newest + 1, reason: ARRIVAL_REASON };
  for (const { after } of [shown, ...(filling === undefined ? [] : [filling])])
    if (after > horizon)
      throw new CursorBeyondStore(
        `verdicts up to ${after} are folded, and this store has given numbers up to ${horizon} only`,
      );

  const sliceOf = (of: Generation, end: number): FoldStep => ({
    kind: 'slice',
    of,
    upTo: Math.min(end, reach(of)),
    shows: of.state === 'filling' && Math.min(end, reach(of)) === shown.after,
    isOnAnotherServer: of.lineage !== lineage,
  });
  // Rows that arrived with lower numbers would be missing from a further slice of the shown generation.
  const nextOfShown = !isWrong(shown) && shown.after < horizon ? sliceOf(shown, horizon) : null;
  const nextOfFilling = filling === undefined ? null : sliceOf(filling, shown.after);
  const [first, second] = turn === 'shown' ? [nextOfShown, nextOfFilling] : [nextOfFilling, nextOfShown];
  const retired = generations.find(({ state }) => state === 'retired');
  return (
    first ??
    second ??
    (retired === undefined ? { kind: 'idle' } : { kind: 'sweep', generation: retired.generation })
  );
}
