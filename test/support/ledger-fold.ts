/** The fold of files over all rows of a stored ledger: the reference for the fold of the store. */
import { isKind } from '../../src/domain/event/event';
import { readStoredPromotions } from '../../src/promotion-store/documents';
import { PromotionFold } from '../../src/promotions/fold';
import type { LedgerEntry } from '../../src/promotions/ledger-entry';
import { compilePromotion } from '../../src/promotions/terms';
import type { TestStore, TextRow } from './ledger';

const MICROS = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
const ROWS = `select change_no, entry_id, reverses_entry_id, operator_id, feed_id, round_id, brand, player_ref, kind, currency, amount_minor, game_id,
  ${MICROS('occurred_at')}, ${MICROS('decided_at')}, ${MICROS('entered_at')} from promo.changes_with_players(-1)`;
const CREDITS = `select change_no, change, feed_id, round_id, brand, credited_player, ${MICROS('attributed_at')} from promo.attribution_changes_with_players(-1)`;

function entryOf([changeNo, entryId, reverses, ...row]: TextRow): LedgerEntry {
  const [operatorId, feedId, roundId, brand, playerRef, kind, currency, amount, gameId, ...times] = row;
  if (!operatorId || !feedId || !playerRef || !kind || !isKind(kind)) throw new Error('a row lacks a column');
  const [occurredAt = 0n, decidedAt = 0n, enteredAt = 0n] = times.map((time) => BigInt(time ?? 0));
  return {
    ...{ changeNo: Number(changeNo), entryId: Number(entryId) },
    reversesEntryId: reverses ? Number(reverses) : null,
    ...{ operatorId, feedId, roundId: roundId ?? null, brand: brand ?? null, playerRef, kind },
    ...{ currency: currency ?? null, amountMinor: BigInt(amount ?? 0), gameId: gameId ?? null },
    ...{ occurredAt, decidedAt, enteredAt },
  };
}

/** Folds all rows of the ledger, with the attributions of rounds as copies of the ledger read them. */
export async function foldOfLedger(store: TestStore): Promise<PromotionFold> {
  const { versions } = await readStoredPromotions(store.pool);
  const fold = new PromotionFold(
    versions.map(({ version, definition, since, until, removedAt }) => ({
      ...{ version, promotion: compilePromotion(definition), since, until, removedAt },
    })),
  );
  const rows = (await store.rows(ROWS)).map(entryOf);
  const credits = (await store.rows(CREDITS)).map(([no, change, feedId, roundId, brand, playerRef, at]) => ({
    ...{ changeNo: Number(no), change, at: BigInt(at ?? 0) },
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
