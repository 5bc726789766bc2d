/** An erasure of a player over the model of the tables, as promo.erase_player does it in several calls. */
import { BATCH_NUMBERS } from '../../src/fold/statements';
import { idOf } from './fold-result-statements';
import type { FoldStoreModel } from './fold-store';
import {
  type CreditRow,
  copyTables,
  type ErasedCreditRow,
  everDecided,
  type FoldTables,
  keyOfRow,
  type LedgerTables,
  type ProgressState,
  type Verdict,
} from './fold-tables';

export const isErased = (player: string): boolean => player.startsWith('erased:');

/** Whether attributions of a round are refused, since a player of the round was erased. */
export const isErasedRound = (ledger: LedgerTables, round: string): boolean =>
  everDecided(ledger).some((row) => row.round === round && isErased(row.player)) ||
  ledger.credits.some((credit) => credit.round === round && isErased(credit.player));

/** Whether the results name an erased player whom the ledger names no more. */
export function namesErased(ledger: LedgerTables, tables: FoldTables): boolean {
  const { player } = ledger.erasure ?? {};
  const isNamed = (rows: Iterable<{ readonly player: string }>) =>
    [...rows].some((row) => row.player === player);
  const { progress, attempts, completions, sums, joins, erasedCredits } = tables;
  if (isNamed(everDecided(ledger)) || isNamed(ledger.credits)) return false;
  return (
    [progress, attempts, sums, joins, erasedCredits].some((rows) => isNamed(rows.values())) ||
    isNamed(completions)
  );
}

/**
 * One call of an erasure, in a transaction of its own. No slice runs beside it.
 *
 * @param takes which verdicts of the player the call changes
 * @param isLast whether the erasure ends: all verdicts are changed
 */
export function erasePart(
  store: FoldStoreModel,
  player: string,
  takes: (row: Verdict) => boolean,
  isLast: boolean,
): void {
  const { ledger, tables: before } = store.committed;
  const name = `erased:${player}`;
  const tables = copyTables(before);
  const isMine = (row: Verdict) => row.player === player && (isLast || takes(row));
  const rename = (rows: readonly Verdict[], isOwn: (row: Verdict) => boolean) =>
    rows.map((row) => (isOwn(row) ? { ...row, player: name } : row));
  const rounds = new Set(ledger.history.filter(isMine).map(({ round }) => round));
  const current = new Map(ledger.credits.map((credit) => [credit.round, credit]));
  const erased = [...current.values()].filter(
    (credit) =>
      !isErased(credit.player) && (rounds.has(credit.round) || (isLast && credit.player === player)),
  );
  // A version from before a correction may name the player, too.
  const credits = eraseCredits(store, tables, ledger.credits, erased, name).map((credit) =>
    isLast && credit.player === player ? { ...credit, player: name } : credit,
  );
  forgetProgress({ ledger: { ...ledger, credits }, seen: tables }, player, name);
  // No name is left in a dropped month: progress alone had it.
  const dropped = ledger.dropped && {
    ...ledger.dropped,
    verdicts: rename(ledger.dropped.verdicts, (row) => row.player === player),
  };
  const erasure = { player, isDone: isLast, upTo: store.lastBatchNo * BATCH_NUMBERS };
  store.write({ ...ledger, history: rename(ledger.history, isMine), dropped, credits, erasure }, tables);
}

/** Gives the erased attributions numbers, and keeps whom promotions have credited. */
function eraseCredits(
  store: FoldStoreModel,
  { generations, erasedCredits }: FoldTables,
  credits: readonly CreditRow[],
  erased: readonly CreditRow[],
  name: string,
): readonly CreditRow[] {
  const cursors = [...generations.values()].flatMap(({ state, after }) =>
    state === 'retired' ? [] : [after],
  );
  const counted = Math.max(-1, ...cursors);
  let changed = credits;
  for (const { round, brand } of erased) {
    const erasedNo = ++store.lastBatchNo * BATCH_NUMBERS;
    const at = store.now();
    for (const { changeNo, player, ...version } of changed)
      if (version.round === round && player !== name && changeNo <= counted)
        erasedCredits.set(keyOfRow(round, changeNo), { round, changeNo, erasedNo, erasedAt: at, player });
    changed = [
      ...changed.map((each) => (each.round === round ? { ...each, player: name } : each)),
      { round, brand, player: name, changeNo: erasedNo, at, erases: true as const },
    ];
  }
  return changed;
}

/** As promo_store.forget_progress, behind the changes of attributions. */
export function forgetProgress(
  of: { readonly ledger: LedgerTables; readonly seen: FoldTables },
  player: string,
  name: string,
): void {
  const { progress, attempts, completions, sums, joins, counted, erasedCredits } = of.seen;
  const generations = new Set([...counted.values()].map(({ generation }) => generation));
  for (const [key, row] of [...erasedCredits]) {
    const renamed: ErasedCreditRow = row.player === player ? { ...row, player: name } : row;
    const isItsOwn =
      renamed.player === name &&
      of.ledger.credits.findLast(({ round }) => round === row.round)?.player === name;
    if (isItsOwn) erasedCredits.delete(key);
    else erasedCredits.set(key, renamed);
  }
  // In these windows the completions of the name go on.
  const decided = new Set([
    ...[...attempts.values()]
      .filter((row) => row.player === name && generations.has(row.generation))
      .map(({ windowNo }) => windowNo),
    ...completions.filter((row) => row.player === name).map(({ windowNo }) => windowNo),
  ]);
  for (const [key, row] of [...progress]) {
    const { generation, windowNo } = row;
    if (row.player !== player || !generations.has(generation)) continue;
    progress.delete(key);
    const place = keyOfRow(generation, windowNo, name);
    const known = progress.get(place);
    if (decided.has(windowNo) || known !== undefined)
      joins.set(place, { generation, windowNo, player: name });
    const own = { ...row, player: name, ...(decided.has(windowNo) && { attained: '0' }) };
    progress.set(place, known === undefined ? own : joined(known, own));
  }
  for (const [key, sum] of [...sums]) {
    if (sum.player !== player) continue;
    sums.delete(key);
    const { generation, roundNo, month, windowNo, brand, item, currency } = sum;
    const place = keyOfRow(generation, roundNo, month, windowNo, name, brand, item, currency);
    sums.set(place, { ...sum, player: name, amount: sum.amount + (sums.get(place)?.amount ?? 0n) });
  }
  for (const [key, row] of [...attempts]) {
    if (row.player !== player || !generations.has(row.generation)) continue;
    attempts.delete(key);
    const { generation, windowNo, ordinal } = row;
    if (!decided.has(windowNo))
      attempts.set(keyOfRow(generation, windowNo, name, ordinal), { ...row, player: name });
  }
  const kept = completions.flatMap((row) => {
    if (row.player !== player) return [row];
    const renamed = { ...row, player: name };
    return decided.has(row.windowNo) ? [] : [{ ...renamed, id: idOf(of, renamed) }];
  });
  completions.splice(0, completions.length, ...kept);
}

/** The progress of two names in one row, with the numbers of the later change. */
function joined(known: ProgressState, own: ProgressState): ProgressState {
  const values = new Map<string, [item: string, currency: string, amount: bigint]>();
  for (const { items, currencies, amounts } of [known, own])
    for (const [place, item] of items.entries()) {
      const currency = currencies[place] ?? '';
      const key = keyOfRow(item, currency);
      values.set(key, [item, currency, BigInt(amounts[place] ?? 0) + (values.get(key)?.[2] ?? 0n)]);
    }
  const rows = [...values].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  const isNewer = own.changedAt > known.changedAt;
  return {
    ...known,
    items: rows.map(([item]) => item),
    currencies: rows.map(([, currency]) => currency),
    amounts: rows.map(([, , amount]) => String(amount)),
    attained: String(Number(known.attained) + Number(own.attained)),
    hasAttempts: known.hasAttempts === 't' || own.hasAttempts === 't' ? 't' : 'f',
    score: known.score + own.score,
    scoredNo:
      Math.max(known.scoredNo ?? -1, own.scoredNo ?? -1) < 0
        ? null
        : Math.max(known.scoredNo ?? -1, own.scoredNo ?? -1),
    changedNo: Math.max(known.changedNo, own.changedNo),
    changedAt: isNewer ? own.changedAt : known.changedAt,
  };
}
