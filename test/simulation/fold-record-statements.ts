/** The statements by which the fold of promotions records rounds and reads its records, over the model. */
import { entryOf, REFUND_KIND, rowsOfSlice } from './fold-ledger-statements';
import type { FoldStatement } from './fold-statements';
import { keyOfRow, listOf, numbersOf } from './fold-tables';
import type { Text } from './wire';

export const RECORD_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_begin_records(session, [no, after]) {
    const generation = Number(no);
    const { recordings } = session.changed();
    const begun = recordings.get(generation) ?? { generation, after: Number(after) };
    recordings.set(generation, begun);
    return [[String(Math.max(begun.after, session.ledger.recordedAfter))]];
  },
  promotions_read_and_record(session, [after, upTo, since, operators, kinds, no]) {
    const generation = Number(no);
    const rows = rowsOfSlice(session.ledger, [after, upTo, since, operators, kinds]);
    const { records } = session.changed();
    const byRound = new Map<number, number[]>();
    for (const { kind, roundNo, verdictId } of rows)
      if (kind !== REFUND_KIND && roundNo !== null)
        byRound.set(roundNo, [...(byRound.get(roundNo) ?? []), verdictId]);
    for (const [roundNo, verdictIds] of byRound) {
      const lastNo = Math.max(...verdictIds);
      records.set(keyOfRow(generation, roundNo, lastNo), { generation, roundNo, lastNo, verdictIds });
    }
    return rows.map((row) => [
      ...[null, null, row.kind === REFUND_KIND ? row.eventId : null],
      ...entryOf(row),
    ]);
  },
  /** All entries are at their places. */
  promotions_read_recorded(session, [changes, times, rounds, generation]) {
    const { ledger, seen } = session;
    const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
    const rows = numbersOf(rounds).flatMap((roundNo, place) =>
      [...seen.records.values()]
        .filter((each) => each.generation === Number(generation) && each.roundNo === roundNo)
        .flatMap(({ verdictIds }) => ledger.history.filter(({ verdictId }) => verdictIds.includes(verdictId)))
        .map((row): Text[] => [
          ...[changeNos[place] ?? null, enteredAts[place] ?? null, null],
          ...[...entryOf(row), String(roundNo), String(row.verdictId)],
        ]),
    );
    return session.declare(rows);
  },
  /** The model drops no months. */
  promotions_dropped_to: () => [[null]],
  /** The model has no attributions. */
  promotions_forget_credits: () => [],
};
