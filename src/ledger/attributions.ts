/** Attributions in the store: sets and corrects the credited players of rounds (docs/rules.md, B1-B9). */
import type { Attribution } from '../domain/attribution';
import type { StoreAccess } from '../postgres/pool';
import { inStore, type Requester } from './in-store';

/** The most attributions of one transaction, for which an erasure waits. */
export const ATTRIBUTIONS_AT_ONCE = 2_000;
const ATTRIBUTE_TIMEOUT_MS = 30_000;

/**
 * - set: stored now
 * - unchanged: the same was stored before
 * - erased: the player of the round was erased, and nothing is stored
 * - conflict: the round has another player, who stays
 * - invalid: an InvalidArgument
 * - lost: retention dropped it at this moment
 */
const OUTCOMES = ['set', 'unchanged', 'erased', 'conflict', 'invalid', 'lost'] as const;
export type AttributionOutcome = (typeof OUTCOMES)[number];

export interface AttributionResult {
  readonly outcome: AttributionOutcome;
  /** Why it was not set, with the remedy. Null for set, unchanged and erased. */
  readonly problem: string | null;
}

const SET = 'select outcome, problem from promo.attribute_rounds($1, $2, $3, $4, $5) order by place';

/**
 * Sets attributions in one transaction, each for itself. Setting them again changes nothing.
 *
 * @returns the results, in the order of the attributions
 * @throws StoreError
 */
export async function attributeRounds(
  database: string | StoreAccess,
  operator: string,
  attributions: readonly Attribution[],
): Promise<AttributionResult[]> {
  const rows = await inStore(database, { timeoutMs: ATTRIBUTE_TIMEOUT_MS }, (query) =>
    query(SET, [
      operator,
      attributions.map(({ roundId }) => roundId),
      attributions.map(({ promoPlayerRef }) => promoPlayerRef),
      attributions.map(({ feedId }) => feedId),
      attributions.map(({ brand }) => brand),
    ]),
  );
  if (rows.length !== attributions.length)
    throw new Error(`the store answered ${rows.length} of ${attributions.length} attributions`);
  return rows.map(([outcome, problem]) => ({
    outcome: outcomeOf(outcome),
    problem: typeof problem === 'string' ? problem : null,
  }));
}

export interface AttributionCorrection {
  readonly operator: string;
  readonly roundId: string;
  /** The player that the round is credited to by mistake. */
  readonly was: string;
  readonly promoPlayerRef: string;
  /** The reason, without data of players. */
  readonly words: string;
  readonly feedId: string | null;
}

const CORRECTIONS = ['corrected', 'unchanged', 'erased'] as const;
/** `erased`: a player of the round was erased, and nothing is changed. */
export type CorrectionOutcome = (typeof CORRECTIONS)[number];

/** Replaces the player of an attribution, and adds the correction to the log. @throws StoreError */
export async function correctAttribution(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  { operator, roundId, was, promoPlayerRef, words, feedId }: AttributionCorrection,
): Promise<CorrectionOutcome> {
  const [[value] = []] = await inStore(database, { timeoutMs: ATTRIBUTE_TIMEOUT_MS, requestedBy }, (query) =>
    query('select promo.correct_attribution($1, $2, $3, $4, $5, $6)', [
      ...[operator, roundId, was, promoPlayerRef, words, feedId],
    ]),
  );
  const outcome = CORRECTIONS.find((name) => name === value);
  if (outcome === undefined) throw new Error(`the store answered with the outcome ${String(value)}`);
  return outcome;
}

/** The feed into which a connection decides. Null: there is no such connection. @throws StoreError */
export async function feedOfConnection(
  database: string | StoreAccess,
  operator: string,
  connection: string,
): Promise<string | null> {
  const [[feed] = []] = await inStore(database, { timeoutMs: ATTRIBUTE_TIMEOUT_MS }, (query) =>
    query('select promo.feed_of_connection($1, $2)', [operator, connection]),
  );
  return typeof feed === 'string' ? feed : null;
}

function outcomeOf(value: unknown): AttributionOutcome {
  const outcome = OUTCOMES.find((name) => name === value);
  if (outcome === undefined) throw new Error(`the store answered with the outcome ${String(value)}`);
  return outcome;
}
