/** The progress and the completions that a ledger demands of its store: by the fold of files. */
import { isKind, KINDS } from '../../src/domain/event/event';
import { BEFORE_ALL } from '../../src/promotions/calendar';
import type { PromotionVersion } from '../../src/promotions/counting';
import { PromotionFold } from '../../src/promotions/fold';
import type { LedgerEntry } from '../../src/promotions/ledger-entry';
import { type CompiledPromotion, compilePromotion } from '../../src/promotions/terms';
import { REFUND_KIND } from './fold-ledger-statements';
import type { FoldTables, LedgerTables, PromotionRow, Verdict } from './fold-tables';

export const OPERATOR = 'acme';

const compiled = new Map<PromotionRow['definition'], CompiledPromotion>();

export function compiledOf({ definition }: PromotionRow): CompiledPromotion {
  const known = compiled.get(definition) ?? compilePromotion(definition);
  compiled.set(definition, known);
  return known;
}

/** Nothing moves the entries of a dropped month to another player: they have rounds of their own. */
const droppedRound = (round: string): string => `dropped ${round}`;

function entryOf(row: Verdict): LedgerEntry {
  const { verdictId, operatorId, round, brand, player, currency, amount, game, occurredAt, decidedAt } = row;
  const kind = KINDS[row.kind - 1] ?? '';
  if (!isKind(kind)) throw new Error('a verdict has no kind');
  return {
    changeNo: verdictId,
    entryId: verdictId * 2,
    reversesEntryId: null,
    operatorId,
    feedId: operatorId,
    roundId: round,
    brand,
    playerRef: player,
    kind,
    currency,
    amountMinor: amount,
    gameId: game,
    occurredAt,
    decidedAt,
    enteredAt: decidedAt,
  };
}

/**
 * The rows of the ledger up to a number, in their order. Of a dropped month, those that were counted before
 * are there. A refund that was counted later takes none of them back.
 */
function entriesOf({ history, dropped, refunds }: LedgerTables, upTo: number): LedgerEntry[] {
  const countedTo = dropped?.countedTo ?? -1;
  const gone = new Set(dropped?.verdicts.filter(({ verdictId }) => verdictId <= countedTo));
  const rows = [...gone, ...history]
    .filter(({ verdictId }) => verdictId <= upTo)
    .sort((a, b) => a.verdictId - b.verdictId);
  const entryOfKept = (row: Verdict): LedgerEntry =>
    entryOf(gone.has(row) && row.round !== null ? { ...row, round: droppedRound(row.round) } : row);
  return rows.flatMap((row) => {
    if (row.isCounted) return [entryOfKept(row)];
    const refund = row.roundNo === null ? undefined : refunds.get(row.roundNo);
    if (row.kind !== REFUND_KIND || refund?.refundedBy !== row.eventId) return [];
    return rows
      .filter((each) => each.isCounted && each.roundNo === row.roundNo)
      .filter((each) => row.verdictId <= countedTo || !gone.has(each))
      .map(entryOfKept)
      .map((entry) => ({
        ...entry,
        changeNo: row.verdictId,
        entryId: entry.entryId + 1,
        reversesEntryId: entry.entryId,
        amountMinor: -entry.amountMinor,
        enteredAt: row.decidedAt,
      }));
  });
}

export interface ExpectedState {
  /** A line for each player with progress, by its key. */
  readonly progress: ReadonlyMap<string, string>;
  /** The ids of the completions that hold, each with what it is. */
  readonly held: ReadonlyMap<string, string>;
}

const lineOf = (values: readonly string[], score: bigint, scoredNo: number | null): string =>
  `${[...values].sort().join()} score ${score} ${scoredNo}`;
const EMPTY = lineOf([], 0n, null);

/**
 * @param asOf the time up to which leaderboards are closed and completions confirmed
 * @param since windows that began before are left out
 */
export function expectedState(
  ledger: LedgerTables,
  versions: readonly PromotionVersion[],
  { upTo, asOf, since }: { upTo: number; asOf: bigint; since: bigint },
): ExpectedState {
  const fold = new PromotionFold(versions, ledger.credits.length > 0);
  const credits = ledger.credits.filter(({ changeNo }) => changeNo <= upTo);
  const steps = [...entriesOf(ledger, upTo), ...credits].sort((a, b) => a.changeNo - b.changeNo);
  for (const step of steps) {
    if ('entryId' in step) {
      fold.take(step);
      continue;
    }
    const { changeNo, round, brand, player: playerRef, at } = step;
    const isOfGone = changeNo <= (ledger.dropped?.countedTo ?? -1);
    for (const roundId of isOfGone ? [round, droppedRound(round)] : [round])
      fold.correctRound({ feedId: OPERATOR, roundId, brand, playerRef }, changeNo, at);
  }
  fold.endSlice(asOf);
  const progress = new Map<string, string>();
  const held = new Map<string, string>();
  for (const each of fold.progress()) {
    if ((each.window.startsAt ?? BEFORE_ALL) < since) continue;
    const key = [each.promotion.definition.id, each.version, each.window.key, each.playerRef].join(' ');
    const values = each.rows().filter(({ value }) => value !== 0n);
    const texts = values.map(({ item, currency, value }) => `${item}/${currency}=${value}`);
    const line = lineOf(texts, each.score, each.scoredNo);
    if (line !== EMPTY) progress.set(key, line);
    for (const [ordinal, { completionId, isConfirmed }] of fold.completionsOf(each))
      held.set(completionId, `${key} ${ordinal}${isConfirmed ? ' confirmed' : ''}`);
  }
  return { progress, held };
}

/** The same from the tables of a store, for one generation. */
export function storedState(
  { windows, progress, completions }: FoldTables,
  versions: readonly PromotionRow[],
  { generation, since }: { generation: number; since: bigint },
): ExpectedState {
  const isLeftOut = (windowNo: number) => (windows.get(windowNo)?.startsAt ?? BEFORE_ALL) < since;
  const nameOf = (windowNo: number, player: string) => {
    const window = windows.get(windowNo);
    const found = versions.find((each) => each.promotionNo === window?.promotionNo);
    return [found?.definition.id, window?.version, window?.key, player].join(' ');
  };
  const stored = new Map<string, string>();
  for (const row of progress.values()) {
    if (row.generation !== generation || isLeftOut(row.windowNo)) continue;
    const values = row.amounts.flatMap((amount, place) =>
      amount === '0' ? [] : [`${row.items[place]}/${row.currencies[place]}=${amount}`],
    );
    const line = lineOf(values, row.score, row.scoredNo);
    if (line !== EMPTY) stored.set(nameOf(row.windowNo, row.player), line);
  }
  const held = new Map<string, string>();
  for (const { id, change, windowNo, player, ordinal } of completions) {
    if (isLeftOut(windowNo)) continue;
    const name = `${nameOf(windowNo, player)} ${ordinal}`;
    if (change === 1) held.delete(id);
    else held.set(id, change === 2 ? `${name} confirmed` : name);
  }
  return { progress: stored, held };
}
