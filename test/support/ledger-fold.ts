/** The fold of files over all rows of a stored ledger: the reference for the fold of the store. */
import { readStoredPromotions } from '../../src/promotion-store/documents';
import { PromotionFold } from '../../src/promotions/fold';
import { compilePromotion } from '../../src/promotions/terms';
import type { TestStore } from './ledger';
import { ledgerEntries } from './ledger-entries';

const CREDITS = `select change_no, change, feed_id, round_id, brand, credited_player, (extract(epoch from attributed_at) * 1000000)::bigint from promo.attribution_changes_with_players(-1)`;

/** Folds all rows of the ledger, with the attributions of rounds as copies of the ledger read them. */
export async function foldOfLedger(store: TestStore): Promise<PromotionFold> {
  const { versions } = await readStoredPromotions(store.pool);
  const fold = new PromotionFold(
    versions.map(({ version, definition, since, until, removedAt }) => ({
      version,
      promotion: compilePromotion(definition),
      since,
      until,
      removedAt,
    })),
  );
  const rows = await ledgerEntries(store, -1);
  const credits = (await store.rows(CREDITS)).map(([no, change, feedId, roundId, brand, playerRef, at]) => ({
    changeNo: Number(no),
    change,
    at: BigInt(at ?? 0),
    credit: {
      feedId: feedId ?? '',
      roundId: roundId ?? '',
      brand: brand ?? null,
      playerRef: playerRef ?? '',
    },
  }));
  for (const step of [...rows, ...credits].sort((a, b) => a.changeNo - b.changeNo)) {
    if (!('credit' in step)) fold.take(step);
    else if (step.change === 'set') fold.creditRound(step.credit, step.changeNo, step.at);
    else fold.correctRound(step.credit, step.changeNo, step.at);
  }
  fold.endSlice(BigInt(Math.max(...rows.map(({ decidedAt }) => Number(decidedAt)))) - 60_000_000n);
  return fold;
}
