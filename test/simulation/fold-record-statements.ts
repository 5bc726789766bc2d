/** The statements by which the fold of promotions records rounds, over the model. */
import { entriesOfSlice } from './fold-ledger-statements';
import type { FoldStatement } from './fold-statements';
import { keyOfRow } from './fold-tables';

export const RECORD_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_begin_records(session, [no, after]) {
    const generation = Number(no);
    const { recordings } = session.changed();
    const begun = recordings.get(generation) ?? { generation, after: Number(after) };
    recordings.set(generation, begun);
    return [[String(Math.max(begun.after, session.ledger.recordedAfter))]];
  },
  promotions_record(session, values) {
    const generation = Number(values[5]);
    const { records } = session.changed();
    const byRound = new Map<number, number[]>();
    for (const { roundNo, verdictId } of entriesOfSlice(session.ledger, values))
      if (roundNo !== null) byRound.set(roundNo, [...(byRound.get(roundNo) ?? []), verdictId]);
    for (const [roundNo, verdictIds] of byRound) {
      const lastNo = Math.max(...verdictIds);
      records.set(keyOfRow(generation, roundNo, lastNo), { generation, roundNo, lastNo, verdictIds });
    }
    return [];
  },
  /** The model drops no months. */
  promotions_dropped_to: () => [[null]],
  /** The model has no attributions. */
  promotions_forget_credits: () => [],
};
