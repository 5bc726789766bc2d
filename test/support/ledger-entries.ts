/** Rows of the ledger of a real store, as the fold of promotions takes them. */
import { isKind } from '../../src/domain/event/event';
import type { LedgerEntry } from '../../src/promotions/ledger-entry';
import type { TestStore, TextRow } from './ledger';

const MICROS = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
/** The columns of a row of the ledger, in the order of `entryOf`. */
const ROWS = `select change_no, entry_id, reverses_entry_id, operator_id, feed_id, round_id, brand, player_ref, kind, currency, amount_minor, game_id,
  ${MICROS('occurred_at')}, ${MICROS('decided_at')}, ${MICROS('entered_at')}
from promo.changes_with_players($1)`;

/** @param after the highest changeNo that was read; -1 for all */
export async function ledgerEntries(store: TestStore, after: number): Promise<LedgerEntry[]> {
  return (await store.rows(ROWS, [after])).map(entryOf);
}

function entryOf([changeNo, entryId, reverses, ...row]: TextRow): LedgerEntry {
  const [operatorId, feedId, roundId, brand, playerRef, kind, currency, amount, gameId, ...times] = row;
  if (!operatorId || !feedId || !playerRef || !kind || !isKind(kind)) throw new Error('a row lacks a column');
  const [occurredAt = 0n, decidedAt = 0n, enteredAt = 0n] = times.map((time) => BigInt(time ?? 0));
  return {
    changeNo: Number(changeNo),
    entryId: Number(entryId),
    reversesEntryId: reverses ? Number(reverses) : null,
    operatorId,
    feedId,
    roundId: roundId ?? null,
    brand: brand ?? null,
    playerRef,
    kind,
    currency: currency ?? null,
    amountMinor: BigInt(amount ?? 0),
    gameId: gameId ?? null,
    occurredAt,
    decidedAt,
    enteredAt,
  };
}
