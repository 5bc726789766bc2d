/** The statements by which the fold of promotions records rounds, over the model. */
import { creditedOf, entriesOfSlice, roundOf } from './fold-ledger-statements';
import { describedWindow, windowOf } from './fold-result-statements';
import type { FoldSession, FoldStatement } from './fold-statements';
import { keyOfRow, listOf, numbersOf, type SumState } from './fold-tables';
import type { Text } from './wire';

export const RECORD_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_begin_records(session, [no, after]) {
    const generation = Number(no);
    const { recordings, sums } = session.changed();
    if (Number(after) < 0)
      for (const [key, sum] of [...sums]) if (sum.generation === generation) sums.delete(key);
    const begun = recordings.get(generation) ?? { generation, after: Number(after) };
    recordings.set(generation, begun);
    return [[String(Math.max(begun.after, session.ledger.recordedAfter))]];
  },
  promotions_record(session, values) {
    const [generation, largeRound] = [Number(values[5]), Number(values[6])];
    const { records } = session.changed();
    const earlier = [...records.values()].filter((row) => row.generation === generation);
    const byRound = new Map<number, number[]>();
    for (const { roundNo, verdictId } of entriesOfSlice(session.ledger, values))
      if (roundNo !== null) byRound.set(roundNo, [...(byRound.get(roundNo) ?? []), verdictId]);
    const summed: Text[][] = [];
    for (const [roundNo, verdictIds] of byRound) {
      const lastNo = Math.max(...verdictIds);
      const ofRound = earlier.filter((row) => row.roundNo === roundNo && roundNo <= Number(values[0]));
      const [last] = ofRound.sort((a, b) => b.lastNo - a.lastNo);
      const entriesBefore = last === undefined ? 0 : last.entriesBefore + last.verdictIds.length;
      const isSummed = entriesBefore + verdictIds.length > largeRound;
      const row = { generation, roundNo, lastNo, verdictIds, entriesBefore, isSummed };
      records.set(keyOfRow(generation, roundNo, lastNo), row);
      if (isSummed) summed.push([String(roundNo)]);
    }
    return summed;
  },
  promotions_add_sums(session, [no, rounds, months, windows, players, brands, items, currencies, amounts]) {
    const generation = Number(no);
    const { sums } = session.changed();
    const columns = [months, windows, players, brands, items, currencies, amounts].map(listOf);
    for (const [place, roundNo] of numbersOf(rounds).entries()) {
      const [month = '', windowNo, player, brand, item, currency, amount] = columns.map(
        (column) => column[place] ?? '',
      );
      const key = keyOfRow(
        generation,
        roundNo,
        ...[month, windowNo, player, brand, item, currency].map(String),
      );
      sums.set(key, {
        ...{ generation, roundNo, windowNo: Number(windowNo), player: player ?? '', brand: brand ?? '' },
        ...{ item: item ?? '', currency: currency ?? '' },
        amount: (sums.get(key)?.amount ?? 0n) + BigInt(amount ?? 0),
      });
    }
    return [];
  },
  promotions_read_sums: (session, values) => readSums(session, values, () => null),
  promotions_read_sums_credited: (session, values) =>
    readSums(session, values, ({ roundNo, brand }, changeNo) =>
      creditedOf(session.ledger, roundOf(session.ledger, roundNo), brand, changeNo),
    ),
  /** The model drops no months. */
  promotions_dropped_to: () => [[null]],
  /** The model erases no players. */
  promotions_forget_credits: () => [],
};

function readSums(
  session: FoldSession,
  [changes, times, rounds, no]: readonly unknown[],
  creditedTo: (sum: SumState, changeNo: number) => string | null,
): Text[][] {
  const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
  const rows = numbersOf(rounds).flatMap((roundNo, place) =>
    [...session.seen.sums.values()]
      .filter((sum) => sum.generation === Number(no) && sum.roundNo === roundNo)
      .map((sum): Text[] => [
        ...describedWindow(windowOf(session.seen, sum.windowNo)),
        ...[changeNos[place] ?? null, enteredAts[place] ?? null],
        creditedTo(sum, Number(changeNos[place])) ?? sum.player,
        ...[sum.item, sum.currency, String(-sum.amount)],
      ]),
  );
  return session.declare(rows);
}
