/** The statements by which the fold of promotions records rounds, over the model. */
import { BEFORE_ALL } from '../../src/promotions/calendar';
import { creditedOf, entriesOfSlice, roundOf } from './fold-ledger-statements';
import { describedWindow, latestOf, windowOf } from './fold-result-statements';
import type { FoldSession, FoldStatement } from './fold-statements';
import { instantOf, keyOfRow, listOf, numbersOf, type SumState, timeText } from './fold-tables';
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
    const entries = entriesOfSlice(session.ledger, values);
    const summed: Text[][] = [];
    for (const [roundNo, ofRoundInSlice] of Map.groupBy(entries, (entry) => entry.roundNo)) {
      if (roundNo === null) continue;
      const verdictIds = ofRoundInSlice.map(({ verdictId }) => verdictId);
      const newestAt = ofRoundInSlice.reduce((most, { decidedAt }) => latestOf(most, decidedAt), 0n);
      const lastNo = Math.max(...verdictIds);
      const ofRound = earlier.filter((row) => row.roundNo === roundNo && roundNo <= Number(values[0]));
      const [last] = ofRound.sort((a, b) => b.lastNo - a.lastNo);
      const entriesBefore = last === undefined ? 0 : last.entriesBefore + last.verdictIds.length;
      const isSummed = entriesBefore + verdictIds.length > largeRound;
      const row = { generation, roundNo, lastNo, verdictIds, entriesBefore, isSummed, newestAt };
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
        generation,
        roundNo,
        month,
        windowNo: Number(windowNo),
        player: player ?? '',
        brand: brand ?? '',
        item: item ?? '',
        currency: currency ?? '',
        amount: (sums.get(key)?.amount ?? 0n) + BigInt(amount ?? 0),
      });
    }
    return [];
  },
  promotions_read_sums: (session, values) => readSums(session, values, () => null),
  promotions_read_sums_credited: (session, values) =>
    readSums(session, values, ({ roundNo, brand }, changeNo) =>
      creditedOf(session, roundOf(session.ledger, roundNo), brand, changeNo),
    ),
  promotions_dropped_to: ({ ledger }) => [[timeText(ledger.dropped?.to ?? null)]],
  promotions_drop_records: (session, [no, to]) =>
    drop(session.changed().records, no, ({ newestAt }) => newestAt < (instantOf(to) ?? 0n)),
  promotions_drop_sums: (session, [no, to]) =>
    drop(session.changed().sums, no, ({ month }) => monthAt(month) < (instantOf(to) ?? 0n)),
  promotions_forget_credits(session, [no, upTo]) {
    const others = [...session.seen.generations.values()].flatMap(({ generation, state, after }) =>
      state !== 'retired' && generation !== Number(no) ? [after] : [],
    );
    const counted = Math.min(...others, ...(upTo == null ? [] : [Number(upTo)]));
    const gone = [...session.seen.erasedCredits].filter(
      ([, { erasedNo }]) => Number.isFinite(counted) && erasedNo <= counted,
    );
    for (const [key] of gone) session.changed().erasedCredits.delete(key);
    return [];
  },
};

const monthAt = (month: string): bigint => BigInt(Date.parse(month)) * 1_000n;

function drop<T extends { readonly generation: number }>(
  rows: Map<string, T>,
  no: unknown,
  isOld: (row: T) => boolean,
): Text[][] {
  const old = [...rows].filter(([, row]) => row.generation === Number(no) && isOld(row));
  for (const [key] of old) rows.delete(key);
  return [[String(old.length)]];
}

function readSums(
  session: FoldSession,
  [changes, times, rounds, no]: readonly unknown[],
  creditedTo: (sum: SumState, changeNo: number) => string | null,
): Text[][] {
  const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
  const rows = numbersOf(rounds).flatMap((roundNo, place) =>
    [...session.seen.sums.values()]
      .filter((sum) => sum.generation === Number(no) && sum.roundNo === roundNo)
      .filter(({ month }) => monthAt(month) >= (session.ledger.dropped?.to ?? BEFORE_ALL))
      .map((sum): Text[] => [
        ...describedWindow(windowOf(session.seen, sum.windowNo)),
        ...[changeNos[place] ?? null, enteredAts[place] ?? null],
        creditedTo(sum, Number(changeNos[place])) ?? sum.player,
        ...[sum.item, sum.currency, String(-sum.amount)],
      ]),
  );
  return session.declare(rows);
}
