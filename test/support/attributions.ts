/** Attributions of the operator acme, for tests of the store. */
import { type AttributionOutcome, attributeRounds } from '../../src/ledger/attributions';
import type { RoundCredit } from '../../src/promotions/ledger-entry';
import type { TestStore, TextRow } from './ledger';

/** The player of a bonus session, and the normal player behind it. */
export const BONUS = 'bonus-of-p';
export const NORMAL = 'normal-p';

interface Scope {
  readonly feedId?: string;
  readonly brand?: string;
}

/** Attributes one round. */
export async function attribute(
  { url }: TestStore,
  roundId: string,
  promoPlayerRef = NORMAL,
  { feedId, brand }: Scope = {},
): Promise<AttributionOutcome | undefined> {
  const one = { roundId, promoPlayerRef, feedId: feedId ?? null, brand: brand ?? null };
  const [result] = await attributeRounds(url, 'acme', [one]);
  return result?.outcome;
}

/** Attributes a round by the function of SQL. @throws where the store refuses it */
export async function creditRound(
  store: TestStore,
  { roundId, playerRef, brand }: Pick<RoundCredit, 'roundId' | 'playerRef' | 'brand'>,
): Promise<void> {
  await store.value('select promo.attribute_round($1, $2, $3, null, $4)', [
    ...['acme', roundId, playerRef, brand],
  ]);
}

/** Attributes rounds of the operator's own feed, in one transaction. */
export async function attributeAll(
  { url }: TestStore,
  roundIds: readonly string[],
  playerOf: (roundId: string) => string = () => NORMAL,
): Promise<AttributionOutcome[]> {
  const all = roundIds.map((roundId) => ({
    roundId,
    promoPlayerRef: playerOf(roundId),
    feedId: null,
    brand: null,
  }));
  return (await attributeRounds(url, 'acme', all)).map(({ outcome }) => outcome);
}

/** Feed, round, credited player and brand of each attribution. */
export function attributionsOf(store: TestStore): Promise<TextRow[]> {
  return store.rows('select feed_id, round_id, credited_player, brand from promo.attributions order by 1, 2');
}
